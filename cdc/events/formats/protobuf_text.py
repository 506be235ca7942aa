"""Messages of Protobuf as the text that a registry keeps, and read back from it. Pure.

What is read back is what is written here, however a registry lays it out: of proto3 there are no
enums, no ``oneof``, no ``map`` and no services.
https://protobuf.dev/reference/protobuf/proto3-spec/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from cdc.events.formats.protobuf_messages import (
    DATE,
    DECIMAL,
    KNOWN,
    TIME,
    TIMESTAMP,
    Field,
    File,
    Message,
    json_name,
)

_IMPORTS: Final = {
    DECIMAL: "confluent/type/decimal.proto",
    DATE: "google/type/date.proto",
    TIME: "google/type/timeofday.proto",
    TIMESTAMP: "google/protobuf/timestamp.proto",
}
_META: Final = "confluent/meta.proto"
_JSON_NAME: Final = "json_name"
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | (?P<text>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
    | (?P<word>[\w.+-]+) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_PLAIN: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f"}
_OPENS, _CLOSES = "{[(", "}])"


def file_text(file: File) -> str:
    """The document."""
    imports = sorted(set(_imports(file.message)))
    lines = ['syntax = "proto3";', f"package {file.package};", ""]
    lines += [f'import "{one}";' for one in imports] + [""] * bool(imports)
    return "\n".join([*lines, *_message(file.message, "")]) + "\n"


def _imports(message: Message) -> Iterator[str]:
    for field in message.fields:
        if field.type in _IMPORTS:
            yield _IMPORTS[field.type]
        if field.options:
            yield _META
    for one in message.messages:
        yield from _imports(one)


def _message(message: Message, indent: str) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    inner = indent + "  "
    if message.reserved:
        yield f"{inner}reserved {', '.join(map(str, message.reserved))};"
    for field in message.fields:
        yield inner + _field(field)
    for one in message.messages:
        yield ""
        yield from _message(one, inner)
    yield f"{indent}}}"


def _field(field: Field) -> str:
    label = "repeated " if field.repeated else "optional " if field.optional else ""
    options = []
    if field.options:
        pairs = ", ".join(f'{{key: "{key}", value: "{value}"}}' for key, value in field.options)
        options.append(f"(confluent.field_meta) = {{params: [{pairs}]}}")
    if field.original != json_name(field.name):
        options.append(f'{_JSON_NAME} = "{_escaped(field.original)}"')
    told = f" [{', '.join(options)}]" if options else ""
    return f"{label}{field.type} {field.name} = {field.number}{told};"


def _escaped(text: str) -> str:
    found = "".join(_ESCAPES.get(char, char) for char in text)
    return "".join(char if char.isprintable() else _octal(char) for char in found)


def _octal(char: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in char.encode())


def parsed_file(text: str) -> File:
    """From a document. Raises ``ValueError`` for one that was not written here."""
    try:
        return _Parser(text).file()
    except (IndexError, KeyError):
        raise ValueError("no schema of Protobuf that is known here") from None


class _Parser:
    def __init__(self, text: str) -> None:
        found = (match.group("text", "word", "sign") for match in _TOKEN.finditer(text))
        self._tokens = [text or word or sign for text, word, sign in found if text or word or sign]
        self._at = 0

    def file(self) -> File:
        package, first = "", None
        while self._at < len(self._tokens):
            match self._next():
                case "package":
                    package = self._next()
                case "message":
                    message = self._message()
                    first = first or message
                    continue
                case ";":
                    continue
            self._skip_to(";")
        if first is None:
            raise ValueError("a schema of Protobuf without a message")
        return File(package, _resolved(first, None))

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _skip_to(self, end: str) -> None:
        depth = 0
        while depth or self._tokens[self._at] != end:
            token = self._next()
            depth += (token in _OPENS) - (token in _CLOSES)
        self._at += 1

    def _message(self) -> Message:
        name, fields, messages = self._next(), list[Field](), list[Message]()
        reserved: list[int] = []
        self._expect("{")
        while (token := self._next()) != "}":
            if token == "message":
                messages.append(self._message())
            elif token == "reserved":
                reserved += self._reserved()
            elif token == "option":
                self._skip_to(";")
            elif token != ";":
                fields.append(self._field(token))
        return Message(name, tuple(fields), tuple(messages), tuple(reserved))

    def _reserved(self) -> Iterator[int]:
        number = 0
        while (token := self._next()) != ";":
            if token == "to":
                last = int(self._next())
                yield from range(number + 1, last + 1)
            elif token.isdigit():
                number = int(token)
                yield number

    def _field(self, first: str) -> Field:
        label = first if first in ("optional", "repeated") else ""
        type_ = self._next() if label else first
        name = self._next()
        self._expect("=")
        number, original = int(self._next()), json_name(name)
        while (token := self._next()) != ";":
            if token == _JSON_NAME:
                self._expect("=")
                original = _unescaped(self._next()[1:-1])
        repeated, optional = label == "repeated", label == "optional"
        return Field(number, name, original, type_, repeated, optional)

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise ValueError(f"a schema of Protobuf that lacks {token}")


def _unescaped(text: str) -> str:
    """Octets stand one by one, also those of one character."""

    def octets(match: re.Match[bytes]) -> bytes:
        by_16, by_8, plain = match.groups()
        if plain:
            return _PLAIN.get(plain, plain)
        return bytes((int(by_16, 16) if by_16 else int(by_8, 8),))

    return _ESCAPE.sub(octets, text.encode()).decode()


_Scope: TypeAlias = "tuple[dict[str, Message], _Scope] | None"


def _resolved(message: Message, around: _Scope) -> Message:
    """With the messages that fields name: those in it, or in one around it."""
    scope: _Scope = {one.name: one for one in message.messages}, around
    fields = tuple(replace(field, message=_named(field.type, scope)) for field in message.fields)
    return replace(message, fields=fields)


def _named(name: str, scope: _Scope) -> Message | None:
    if name in KNOWN:
        return None
    own = name.rpartition(".")[2]
    while scope is not None:
        messages, around = scope
        if own in messages:
            return _resolved(messages[own], scope)
        scope = around
    raise KeyError(name)
