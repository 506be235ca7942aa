"""``${NAME}`` in a setting: an environment variable, or the file that ``NAME_FILE`` names.

A secret in a file is not shown by ``docker inspect``, ``kubectl describe`` or
``systemctl show``, and child processes do not inherit it. Docker, Kubernetes and systemd all hand
secrets over as files, and images read them by variables that end in ``_FILE``.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from cdc.config.faults import Place
from cdc.secret_values import remember

CONTAINER_SECRETS: Final = Path("/run/secrets")
"""Where a container has its secrets, which no other container sees, readable by each account."""
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SUFFIX: Final = "_FILE"


def filled(
    node: Any, environ: Mapping[str, str], at: Place, faults: list[tuple[Place, str]]
) -> Any:
    """``node`` with the variables in its texts replaced; those without a value go to ``faults``,
    with their place and the reason."""
    if isinstance(node, dict):
        return {k: filled(v, environ, (*at, k), faults) for k, v in node.items()}
    if isinstance(node, list):
        return [filled(v, environ, (*at, i), faults) for i, v in enumerate(node)]
    if not isinstance(node, str):
        return node

    def replaced(match: re.Match[str]) -> str:
        try:
            return _value(match[1], environ)
        except ValueError as reason:
            faults.append((at, str(reason)))
            return match[0]

    value = _VARIABLE.sub(replaced, node)
    if any(name + _SUFFIX in environ for name in _VARIABLE.findall(node)):
        remember(value, node, partial(_read_again, node, environ))
    return value


def secret_files(node: Any, environ: Mapping[str, str]) -> Iterator[Path]:
    """The files that variables in ``node`` are read from."""
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from secret_files(value, environ)
    elif isinstance(node, str):
        for name in _VARIABLE.findall(node):
            if named := environ.get(name + _SUFFIX):
                yield Path(named)


def is_open(secret: Path) -> bool:
    """Whether every account of this machine can read a file that holds a secret."""
    return CONTAINER_SECRETS not in secret.parents and bool(secret.stat().st_mode & stat.S_IROTH)


def _read_again(text: str, environ: Mapping[str, str]) -> str:
    """Raises ``ValueError`` as ``_value``."""
    return _VARIABLE.sub(lambda match: _value(match[1], environ), text)


def _value(name: str, environ: Mapping[str, str]) -> str:
    """Raises ``ValueError``, whose text says why there is none and what to do."""
    variable = name + _SUFFIX
    named = environ.get(variable)
    if named is None:
        if name not in environ:
            raise ValueError(f"environment variable {name} is not set: export it")
        return environ[name]
    if name in environ:
        raise ValueError(f"environment variables {name} and {variable} are both set: unset one")
    try:
        text = Path(named).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{variable} names {named}: {error.strerror}: make it readable") from None
    except UnicodeDecodeError:
        raise ValueError(f"{variable} names {named}: not UTF-8: save it as UTF-8") from None
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ValueError(f"{variable} names {named}: the file is empty: write the value into it")
    return value
