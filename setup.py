"""Builds the wheel, in which every package is below ``headwater``.

An application that imports ``headwater`` may have packages named ``jobs`` or ``views``. So the
wheel installs ours as ``headwater.jobs`` and ``headwater.views``, and what they import of each
other is renamed while they are copied. An editable installation keeps the repository's names.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
FACE = "headwater"
ROOMS = (
    "bootstrap", "benchmarks", "cdc", "demo", "jobs", "migrations", "snapshots", "stack",
    "verification", "views",
)  # fmt: skip
_ROOM = rf"(?:{'|'.join(ROOMS)})"
_IMPORT = re.compile(rf"^(\s*from )(?={_ROOM}(?:\.\w+)* import )", re.MULTILINE)
_OTHER_IMPORT = re.compile(
    rf"^\s*import {_ROOM}\b.*|(?<=\S)[ (]*from {_ROOM}(?:\.\w+)* import .*", re.MULTILINE
)
"""Of a name of ours, and within a string that is run as a program."""


def below(text: str) -> str:
    """A module's text, with our packages named as the wheel has them: in imports, and in strings
    that name a module, as what ``python -m`` is given. Raises ``ValueError`` for an import that
    binds the name of a package, or stands in a string: they cannot be renamed."""
    if found := _OTHER_IMPORT.search(text):
        raise ValueError(f"{found[0].strip()}: write `from PACKAGE import NAME`, see setup.py")
    lines = _IMPORT.sub(rf"\g<1>{FACE}.", text).splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO("".join(lines)).readline))):
        if token.type == tokenize.STRING and _is_module(token.string[1:-1]):
            (row, begin), line = token.start, lines[token.start[0] - 1]
            lines[row - 1] = f"{line[: begin + 1]}{FACE}.{line[begin + 1 :]}"
    return "".join(lines)


def _is_module(name: str) -> bool:
    room, dot, rest = name.partition(".")
    if room not in ROOMS or not dot or not re.fullmatch(r"\w+(\.\w+)*", rest):
        return False
    place = ROOT.joinpath(room, *rest.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


class Below(build_py):
    """Copies modules, renaming what they import."""

    def build_module(self, module, module_file, package):
        built, copied = super().build_module(module, module_file, package)
        path = Path(built)
        path.write_text(below(path.read_text(encoding="utf-8")), encoding="utf-8")
        return built, copied

    def run(self):
        super().run()
        if not self.editable_mode:  # what `headwater up --docker` reads stands beside the packages
            self.copy_file("docker-compose.yml", str(Path(self.build_lib) / FACE))


def layout() -> dict[str, object]:
    """Packages and where they are."""
    found = find_packages(
        str(ROOT), include=[name for one in (FACE, *ROOMS) for name in (one, f"{one}.*")]
    )
    if "editable_wheel" in sys.argv:
        return {"packages": found}
    moved = {name: name if name.split(".")[0] == FACE else f"{FACE}.{name}" for name in found}
    return {
        "packages": sorted(moved.values()),
        "package_dir": {new: old.replace(".", "/") for old, new in moved.items()},
    }


if __name__ == "__main__":
    setup(cmdclass={"build_py": Below}, **layout())
