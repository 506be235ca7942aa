"""What is wrong with a ``headwater.toml``, in words: one line a fault, with its place in the file,
what is allowed there, and what may have been meant.

No line holds the value of a setting that may be a secret. Pure.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel

Place = tuple[int | str, ...]
Models = Mapping[str, type[BaseModel]]
"""The settings of each section; of a store by its kind; those of the whole file by ``""``."""

_STORES: Final = ("delta", "opensearch", "postgres", "redis")
_SECTIONS: Final = {
    "views": "[views.NAME]",
    "alerts.rows": "[alerts.rows.NAME]",
    **dict.fromkeys(_STORES, "[stores.NAME]"),
}
_NAMES_WITH_DOTS: Final = (
    ("source", "keys"), ("source", "columns"), ("kafka", "topic"),
    ("kafka", "producer"), ("apply", "spark"),
)  # fmt: skip
_NO_TABLE: Final = ("dict_type", "model_type", "model_attributes_type")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_CLOSE: Final = 0.75
"""How alike names are that are taken for each other before another section is looked at."""
_AT: Final = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_BEFORE_EQUALS: Final = re.compile(r"\s*([^=\[\]{}#]+?)\s*=")
_TOML: Final = 'a section is [name], a setting is name = "text", names are unique'


def place(location: Iterable[Any]) -> str:
    """``kafka.topic."retention.ms"``: where a setting stands, as TOML writes it."""
    parts = [str(part) for part in location if part != "[key]"]
    return ".".join(part if _BARE.fullmatch(part) else f'"{part}"' for part in parts)


def toml_fault(error: tomllib.TOMLDecodeError, text: str) -> str:
    """Why a file is no TOML, in tomllib's words, and its place; ``text`` is what stands in it."""
    match = _AT.fullmatch(str(error))
    said, line, column = match.groups() if match else (str(error), None, None)
    where = f"line {line}, column {column}" if line else "at its end"
    lines = text.splitlines()
    name = _BEFORE_EQUALS.match(lines[int(line) - 1]) if line and int(line) <= len(lines) else None
    of = f" (setting {name[1]})" if name else ""
    return f"{where}: not valid TOML: {said[:1].lower()}{said[1:]}{of}: {_TOML}"


def setting_faults(
    items: Iterable[Mapping[str, Any]], models: Models, unfilled: Container[Place]
) -> list[str]:
    """The faults of ``ValidationError.errors()``, one line each. What a text is not that still
    waits for its variable, at a place of ``unfilled``, is no fault of its own."""
    found: dict[str, None] = {}
    for item in items:
        nested = item["loc"][:1] == ("stores",)  # pydantic names the kind behind the store's name
        at = item["loc"][:2] + item["loc"][3:] if nested else item["loc"]
        # Entries that are none of theirs leave a list shorter: they have been named.
        if at not in unfilled and not (item["type"] == "too_short" and item["input"]):
            found[_fault(item, models)] = None
    return list(found)


def _fault(item: Mapping[str, Any], models: Models) -> str:
    location = list(item["loc"])
    model, within = models[""], ""
    if len(location) > 2 and location[0] == "stores" and location[2] in _STORES:
        model = models[location.pop(2)]
    elif location[:2] == ["source", "routes"] and len(location) > 3:
        model, within = models["routes"], f"source.routes, entry {location[2] + 1}, "
        del location[:3]
    elif location[:2] == ["alerts", "rows"] and len(location) > 3:
        model = models["alerts.rows"]
    elif len(location) > 1:
        model = models.get(str(location[0]), model)
    entry = ""
    if location and isinstance(location[-1], int):
        entry = f"entry {location.pop() + 1} "
    if location[0:1] in (["views"], ["stores"]) and item["type"] in _NO_TABLE:
        return f"{location[0]}: each has a section of its own: write [{location[0]}.NAME]"
    if item["type"] == "value_error":
        at = place(location) + (f", {entry.strip()}" if entry else "")
        return _of_our_own(at, str(item["ctx"]["error"]), ", " if entry else ".")
    if item["type"] == "union_tag_invalid":
        return f"{place(location)}.kind: {_no_choice(item['ctx']['tag'], _STORES)}"
    if item["type"] == "union_tag_not_found":
        return f"{place(location)}.kind: is required: add it, one of {_either(_STORES)}"
    said = ["routes", *location] if within else location
    return f"{within}{place(location)}: {entry}{_said(item, said, bool(entry), model, models)}"


def _of_our_own(at: str, message: str, inner: str) -> str:
    """What a check of ours says; it may begin with the setting, of the section that it looks at."""
    inside = re.match(r"[a-z_.]+: ", message)
    return f"{at}{inner if inside else ': '}{message}" if at else message


def _said(
    item: Mapping[str, Any],
    location: Sequence[Any],
    in_list: bool,
    model: type[BaseModel],
    models: Models,
) -> str:
    name, kind, given, told = str(location[-1]), item["type"], item["input"], item.get("ctx", {})
    match kind:
        case "extra_forbidden":
            return _unknown(name, isinstance(given, dict), location, model, models)
        case "missing":
            return f"is required: add {'it' if len(location) > 1 else f'the section [{name}]'}"
        case "string_too_short":
            return "is empty: set it"
        case "too_short":
            return "is empty: name at least one"
        case "string_too_long":
            return f"is too long: at most {told['max_length']} characters"
        case "literal_error":
            choices = re.findall(r"'([^']*)'", told["expected"])
            return _no_choice(given, [choice for choice in choices if choice])
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return f"is {given}: set a number{_range(model, name)}"
    if isinstance(given, dict) and tuple(location[:2]) in _NAMES_WITH_DOTS:
        return _dotted(name, given)
    if kind in _NO_TABLE:
        return _no_table(location)
    if kind == "string_type":
        example = "put it in quotes" if in_list else f'write {place([name])} = "..."'
        return f"is not text: {example}"
    if kind == "tuple_type":
        return f'is not a list: write {place([name])} = ["..."]'
    if kind.startswith("int"):
        return f"is not a whole number: set one{_range(model, name)}"
    if kind.startswith(("float", "finite")):
        return f"is not a number: set one{_range(model, name)}"
    if kind == "setting_type":
        return "is neither text, nor a number, nor true or false"
    if kind.startswith("bool"):
        return "is neither true nor false: set true or false, without quotes"
    return "is not what this setting takes: see docs/configuration.md"


def _unknown(
    name: str, table: bool, location: Sequence[Any], model: type[BaseModel], models: Models
) -> str:
    """What an unknown setting may have been meant to be, or where it belongs."""
    alike = name.lower().replace("-", "_")
    known = _settings_of(model)
    if len(location) > 1 and table and name in models[""].model_fields:
        return f"unknown setting: no section stands in another, write [{name}]"
    if len(location) == 1 and table:
        close = get_close_matches(alike, known, 1)
        meant = f"did you mean [{close[0]}]?" if close else f"known are {', '.join(known)}"
        return f"unknown section: {meant}"
    close = get_close_matches(alike, known, 1, _CLOSE)
    others = [
        _SECTIONS.get(section, f"[{section}]")
        for section, other in models.items()
        if section and other is not model and alike in _settings_of(other)
    ]
    if others and not close:
        return f"unknown setting: it belongs in {_either(dict.fromkeys(others))}"
    close = close or get_close_matches(alike, known, 1)
    meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return f"unknown setting: {meant}"


def _settings_of(model: type[BaseModel]) -> list[str]:
    """The names of a section's settings in the file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _no_table(location: Sequence[Any]) -> str:
    """Something else where a section or a table of settings has to be."""
    name = place(location)
    if len(location) == 1:
        return f"is not a section: write [{name}], and its settings in the lines below"
    return f'is not a table: write {place(location[-1:])} = {{ "..." = ... }}'


def _no_choice(given: Any, choices: Sequence[str]) -> str:
    close = []
    if isinstance(given, str):
        by_letters = {choice.lower(): choice for choice in choices}
        close = get_close_matches(given.lower(), by_letters, 1)
        close = [by_letters[found] for found in close]
    meant = f"did you mean {close[0]}? " if close else ""
    return f"is {given!r}: {meant}known are {', '.join(choices)}"


def _range(model: type[BaseModel], name: str) -> str:
    """``, at least 1 and at most 64``; nothing for a setting without bounds."""
    field = model.model_fields.get(name)
    words = []
    for bound in field.metadata if field else ():
        for limit, word in (
            ("gt", "above"),
            ("ge", "at least"),
            ("lt", "below"),
            ("le", "at most"),
        ):
            if (value := getattr(bound, limit, None)) is not None:
                words.append(f"{word} {value:g}")
    return f", {' and '.join(words)}" if words else ""


def _either(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _dotted(name: str, table: Mapping[str, Any]) -> str:
    """A name with dots that TOML took for tables."""
    return f'is a table: put a name with dots in quotes, "{name}.{next(iter(table), "...")}"'
