"""``source.columns``: what becomes of columns that must not leave the source as they are."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, PlainValidator

_FORMS: Final = (
    'write "exclude", "mask", "hash", { mask = "TEXT" }, { truncate = 4 }, { hash = "KEY" }, '
    '"encrypt", { encrypt = "KEY" }, or "publish" for what is not to be treated any more'
)
_MASK: Final = "***"
_LONGEST: Final = 1_000
_SHORTEST_KEY: Final = 16


class ColumnRule(NamedTuple):
    """``argument``: the text of a mask, the characters that are kept, the name of a key; empty for
    the newest one."""

    kind: Literal["exclude", "mask", "truncate", "hash", "encrypt", "publish"]
    argument: str = ""


def _rule(value: Any) -> ColumnRule:
    kind, argument = value, None
    if isinstance(value, dict):
        if len(value) != 1:
            raise ValueError(f"names {len(value)} treatments: {_FORMS}")
        ((kind, argument),) = value.items()
    match kind, argument:
        case ("exclude" | "publish", None):
            return ColumnRule(kind)
        case ("mask", None):
            return ColumnRule("mask", _MASK)
        case ("mask", str(text)) if len(text) <= _LONGEST and "\0" not in text:
            return ColumnRule("mask", text)
        case (("hash" | "encrypt") as keyed, None):
            return ColumnRule(keyed)
        case (("hash" | "encrypt") as keyed, str(name)) if name:
            return ColumnRule(keyed, name)
        case ("truncate", int(count)) if not isinstance(count, bool) and 0 < count <= _LONGEST:
            return ColumnRule("truncate", str(count))
        case ("truncate", _):
            raise ValueError(
                f"truncate takes the number of characters that are kept, 1 to {_LONGEST}: {_FORMS}"
            )
        case ("mask" | "hash" | "encrypt" | "exclude" | "publish", _):
            raise ValueError(f"{kind} does not take that: {_FORMS}")
    if isinstance(value, dict):
        raise ValueError(f"no treatment is {kind!r}: {_FORMS}; put a table's name in quotes")
    raise ValueError(f"is {value!r}: {_FORMS}")


def _long_enough(key: str) -> str:
    """No message shows it."""
    if len(key) < _SHORTEST_KEY:
        raise ValueError(
            f"is shorter than {_SHORTEST_KEY} characters, so that it could be guessed: make one "
            "with `openssl rand -hex 32`"
        )
    return key


Rule = Annotated[ColumnRule, PlainValidator(_rule)]
ColumnKey = Annotated[str, AfterValidator(_long_enough)]
