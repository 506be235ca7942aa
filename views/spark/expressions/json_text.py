"""Parts of a JSON text, byte for byte as PostgreSQL's operators give them. Pure.

A value is found in the text and cut out of it, so that numbers keep their digits, strings their
escapes and objects their spaces. The text is valid: PostgreSQL has taken it. What it does with
names that stand twice, which ``json`` keeps, and with escapes that no text can hold is followed
(``jsonfuncs.c``; tests/integration/views/test_json_text.py asks a real PostgreSQL).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """One step into a value.

    ``field``: ``-> 'name'``; ``element``: ``-> 1``; ``either``: one name of ``#>``, which is a
    field's or an element's number; ``path``: all names of ``#>`` on ``json``, if several.
    """

    kind: str
    of: Any


class UnfitJsonError(ValueError):
    """PostgreSQL refuses the value too."""


def part(text: str, steps: Sequence[Step], binary: bool) -> str | None:
    """What ``->`` and ``#>`` give, as text. ``binary``: of ``jsonb``."""
    check_escapes(text)
    for step in steps:
        span = _STEPS[step.kind](text, _start(text), step.of, binary)
        if span is None:
            return None
        text = text[span[0] : span[1]]
    return text if steps else text.strip(" \t\n\r")


def part_as_text(text: str, steps: Sequence[Step], binary: bool) -> str | None:
    """What ``->>`` and ``#>>`` give."""
    try:
        value = _decoded(text, steps, binary)
    except _NotDecodedError:
        value = []
    if not isinstance(value, dict | list):
        return _WORDS.get(value, value)
    found = part(text, steps, binary)
    if found is None or found == "null":
        return None
    return str(_DECODER.decode(found)) if found[0] == '"' else found


def length(text: str) -> str:
    """What ``json_array_length`` gives."""
    start = _start(text)
    if text[start] != "[":
        raise UnfitJsonError("not an array")
    return str(sum(1 for _ in _elements(text, start)))


def kind(text: str) -> str:
    """What ``json_typeof`` gives."""
    return _KINDS.get(text[_start(text)], "number")


_WORDS: dict[Any, str | None] = {None: None, True: "true", False: "false"}
_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)


class _NotDecodedError(Exception):
    """To be looked for in the text."""


def _decoded(text: str, steps: Sequence[Step], binary: bool) -> Any:
    """The value behind the steps, numbers as they are written: of equal names the last counts."""
    check_escapes(text)
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise _NotDecodedError from None
    for kind_, of in steps:
        if kind_ == "path":
            raise _NotDecodedError
        if isinstance(value, dict):
            value = None if kind_ == "element" else value.get(of)
        elif isinstance(value, list):
            value = None if kind_ == "field" else _nth(value, number(of))
        elif not (binary and kind_ == "element" and of in (0, -1)):  # see _element
            value = None
    return value


def _nth(items: Sequence[Any], n: int | None) -> Any:
    """The element of that number, from the end where it is negative; None beyond."""
    return None if n is None or not -len(items) <= n < len(items) else items[n]


_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")


def number(name: str | int) -> int | None:
    """A name of a path as an element's number, if it is one (``strtol``, of 32 bits)."""
    if isinstance(name, int):
        return name
    found = _NUMBER.fullmatch(name)
    n = None if found is None else int(found[1])
    return n if n is not None and -(1 << 31) <= n < 1 << 31 else None


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[^u])", re.DOTALL)


def check_escapes(text: str) -> None:
    """U+0000 and half a pair have no text; PostgreSQL finds them wherever they stand."""
    if "\\u" not in text:
        return
    behind = -1  # the end of the first half of a pair
    for found in _ESCAPE.finditer(text):
        code = int(found[1] or "20", 16)
        second = 0xDC00 <= code < 0xE000
        if code == 0 or (found.start() != behind if second else behind >= 0):
            raise UnfitJsonError("an escape that is no character")
        behind = found.end() if 0xD800 <= code < 0xDC00 else -1
    if behind >= 0:
        raise UnfitJsonError("an escape that is no character")


# What stands in the text. Spans are of values without the space around them.
Span = tuple[int, int]
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(r"[^ \t\n\r,\]}]+")
_BRACKET = re.compile(
    r'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{}\[\]])', re.DOTALL
)
_BETWEEN = re.compile(r"[ \t\n\r,]*")
_FIELD = re.compile(
    rf"[ \t\n\r,]*+({_STRING.pattern})[ \t\n\r]*+:[ \t\n\r]*+"
    rf'({_STRING.pattern}|[^ \t\n\r,\]}}{{["]++)?',
    re.DOTALL,
)
"""A name, and the value if it is a scalar."""


def _start(text: str) -> int:
    found = _SPACE.match(text)
    return found.end() if found else 0


def _end(text: str, at: int) -> int:
    """Where the value that begins at ``at`` ends; not by recursion, however deep it is."""
    first = text[at]
    if first not in "{[":
        return _must((_STRING if first == '"' else _SCALAR).match(text, at)).end()
    depth, at = 1, at + 1
    while depth:
        found = _must(_BRACKET.match(text, at))
        depth += 1 if found[1] in "{[" else -1
        at = found.end()
    return at


def _must(found: re.Match[str] | None) -> re.Match[str]:
    if found is None:
        raise UnfitJsonError("no JSON")
    return found


def _elements(text: str, at: int) -> Iterator[Span]:
    """The elements of the array that begins at ``at``."""
    at = _must(_BETWEEN.match(text, at + 1)).end()
    while text[at] != "]":
        end = _end(text, at)
        yield at, end
        at = _must(_BETWEEN.match(text, end)).end()


def _fields(text: str, at: int) -> Iterator[tuple[str, Span]]:
    """The fields of the object that begins at ``at``, their names decoded."""
    at += 1
    while (found := _FIELD.match(text, at)) is not None:
        name, scalar = found.groups()
        start, at = found.span(2) if scalar else (found.end(), _end(text, found.end()))
        yield _DECODER.decode(name) if "\\" in name else name[1:-1], (start, at)


def _field(text: str, at: int, name: str, _binary: bool) -> Span | None:
    if text[at] != "{":
        return None
    span = None
    for called, value in _fields(text, at):
        span = value if called == name else span
    return span


def _element(text: str, at: int, n: int | None, binary: bool) -> Span | None:
    if n is None:
        return None
    if text[at] == "[":
        found: Span | None = _nth(list(_elements(text, at)), n)
        return found
    # To `->`, a scalar of jsonb is an array of itself.
    itself = binary and text[at] != "{" and n in (0, -1)
    return (at, _end(text, at)) if itself else None


def _either(text: str, at: int, name: str, _binary: bool) -> Span | None:
    if text[at] == "{":
        return _field(text, at, name, _binary)
    return _element(text, at, number(name), False)


def _path(text: str, at: int, names: Sequence[str], _binary: bool) -> Span | None:
    walk = _Walk(text, names)
    walk.into(at, 0)
    return walk.found


class _Walk:
    """``#>`` on ``json``, as PostgreSQL goes through the whole text: the last match counts.

    A match is not undone by a later field of the same name that does not lead on; and what a
    negative number means is settled by the first array at its depth that is long enough, wherever
    that stands.
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._text, self._names = text, names
        self._numbers = [number(name) for name in names]
        self._on_path = [True] + [False] * len(names)
        self.found: Span | None = None

    def into(self, at: int, depth: int) -> None:
        """Through the value that begins at ``at``, ``depth`` names into the path."""
        if depth >= len(self._names):
            return
        if self._text[at] == "[":
            self._array(list(_elements(self._text, at)), depth)
        elif self._text[at] == "{":
            for called, value in _fields(self._text, at):
                self._value(value, depth, called == self._names[depth])

    def _array(self, values: Sequence[Span], depth: int) -> None:
        n = self._numbers[depth]
        if n is not None and n < 0 and -n <= len(values):
            self._numbers[depth] = n = n + len(values)
        for i, value in enumerate(values):
            self._value(value, depth, i == n)

    def _value(self, value: Span, depth: int, named: bool) -> None:
        matches = named and self._on_path[depth]
        self._on_path[depth + 1] = matches or self._on_path[depth + 1]
        self.into(value[0], depth + 1)
        if matches:
            self._on_path[depth + 1] = False
            self.found = value if depth + 1 == len(self._names) else self.found


_STEPS: dict[str, Callable[[str, int, Any, bool], Span | None]] = {
    "field": _field,
    "element": _element,
    "either": _either,
    "path": _path,
}
