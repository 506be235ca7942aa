"""The command line's own behaviour, whatever the verb."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from cdc.errors import ConfigError, SourceError
from headwater.cli import app as module

MAIN = "from headwater.cli.app import main; main()"
VERBS = module.VERBS


def run(*arguments: str, code: str = MAIN) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``headwater`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def failing(error: str) -> str:
    """A program whose verb ``fail`` raises this."""
    return (
        "from headwater.cli.app import app, main\nfrom cdc.errors import *\nimport os, signal\n"
        f"@app.command()\ndef fail() -> None: {error}\nmain()"
    )


def test_help_lists_every_verb_with_a_line_each() -> None:
    code, out, _ = run("--help")
    assert code == 0
    for verb in VERBS:
        assert f"\n  {verb} " in out


def test_every_verb_explains_itself() -> None:
    for verb in VERBS:
        code, out, _ = run(verb, "--help")
        assert code == 0
        assert "Usage: headwater" in out


def test_the_version_is_the_package_s() -> None:
    assert run("--version")[:2] == (0, f"headwater {version('headwater')}\n")


def test_help_loads_no_heavy_client() -> None:
    heavy = ("pyspark", "psycopg", "confluent_kafka", "kafka", "pydantic", "sqlglot", "pandas")
    code = f"import headwater.cli.app, sys; print([m for m in {heavy!r} if m in sys.modules])"
    assert run(code=code) == (0, "[]\n", "")


@pytest.mark.parametrize(("error", "code"), [(SourceError, 1), (ConfigError, 2)])
def test_an_expected_fault_is_a_line_a_hint_and_a_code(error: type[Exception], code: int) -> None:
    told = "error: slot x is gone\n  hint: Run `headwater init`.\n"
    program = failing(f"raise {error.__name__}('slot x is gone', 'run `headwater init`')")
    assert run("fail", code=program) == (code, "", told)


def test_every_problem_of_a_configuration_has_its_own_line() -> None:
    code, _, err = run("fail", code=failing("raise ConfigError('a: wrong\\nb: wrong')"))
    assert (code, err) == (2, "error: a: wrong\nerror: b: wrong\n")


def test_a_bug_shows_as_one() -> None:
    code, _, err = run("fail", code=failing("raise KeyError('bug')"))
    assert code == 1
    assert "Traceback" in err
    assert "KeyError: 'bug'" in err


def test_ctrl_c_is_no_fault() -> None:
    code, _, err = run("fail", code=failing(f"os.kill(os.getpid(), {int(signal.SIGINT)})"))
    assert code == 130
    assert "Traceback" not in err


def test_the_configuration_is_named_before_the_verb() -> None:
    code, _, err = run("check", "--config", "shop.toml")
    said = "error: --config stands before the verb: headwater --config FILE check\n"
    assert (code, err) == (2, said)
    assert module.misplaced(["--config", "check", "lag", "--json"]) == ""
    assert module.misplaced(["lag", "--config=x"]) == said.strip().removeprefix("error: ").replace(
        "check", "lag"
    )


def test_an_unknown_verb_is_wrong_usage() -> None:
    code, _, err = run("flow")
    assert code == 2
    assert "No such command 'flow'" in err
