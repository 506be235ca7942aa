"""Arrays and hstore: values that hold values, in PostgreSQL's quoting."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from cdc.events.values.text import Encoder, guarded, malformed, quote, text_encoder

_QUOTED: Final = rb'"((?:[^"\\]|\\.)*+)"'
_unescape: Final = re.compile(rb"\\(.)", re.DOTALL).sub
_match_pair = re.compile(_QUOTED + rb"=>(?:NULL|" + _QUOTED + rb")(, (?!\Z)|\Z)", re.DOTALL).match
_STRUCTURE: Final = (b"[", b"]", b",")
_INTEGER: Final = rb"(?:-?(?:0|[1-9][0-9]*)|NULL)"
_match_integers = re.compile(
    rb"\{(?:" + _INTEGER + rb"(?:," + _INTEGER + rb")*+)?\}", re.DOTALL
).fullmatch


def array_encoder(
    type_name: str, element: Encoder, delimiter: bytes, *, flat: bool = False
) -> Encoder:
    """JSON arrays of the elements' form, nested as the dimensions are.

    With a lower bound other than 1, as in ``[0:1]={a,b}``, JSON has no faithful array: those are
    PostgreSQL's text. ``flat``: one array of all elements in any case, as a schema of an array,
    which knows of no dimensions, can have it.
    """
    parse = _nested_parser(element, delimiter, flat=flat)
    bounded = _without_bounds(parse) if flat else text_encoder(type_name)

    def encode(text: bytes) -> bytes:
        if b'"' in text or text[:1] != b"{" or text[1:2] == b"{" or text[-1:] != b"}":
            return bounded(text) if text[:1] == b"[" else parse(text)
        inner = text[1:-1]
        if not inner:
            return b"[]"
        if b"{" in inner or b"}" in inner or b"\\" in inner:
            raise malformed(type_name)
        parts = [b"null" if part == b"NULL" else element(part) for part in inner.split(delimiter)]
        return b"[%b]" % b",".join(parts)

    return guarded(type_name, encode)


def integer_array_encoder(type_name: str, element: Encoder, *, flat: bool = False) -> Encoder:
    """Arrays of integers: those of one dimension are JSON but for their braces and NULL."""
    general = array_encoder(type_name, element, b",", flat=flat)

    def encode(text: bytes) -> bytes:
        if _match_integers(text):
            return b"[%b]" % text[1:-1].replace(b"NULL", b"null")
        return general(text)

    return encode


def _without_bounds(parse: Encoder) -> Encoder:
    return lambda text: parse(text[text.index(b"=") + 1 :])


def _nested_parser(element: Encoder, delimiter: bytes, *, flat: bool) -> Callable[[bytes], bytes]:
    """A parser for the whole grammar; raises ``ValueError``. Not recursive: depth is no limit."""
    bare = rb'([^"\\{}' + re.escape(delimiter) + rb"]+)"
    match_token = re.compile(rb"\{|\}|" + _QUOTED + rb"|" + bare, re.DOTALL).match

    def parse(text: bytes) -> bytes:
        out: list[bytes] = []
        depth = at = 0
        while True:
            token = match_token(text, at)
            if token is None:
                raise ValueError
            at = token.end()
            opened = token[0] == b"{"
            if opened:
                depth += 1
                out.append(b"[")
                if text[at : at + 1] != b"}":
                    continue
                at += 1
                depth -= 1
                out.append(b"]")
            elif not depth or token[0] == b"}":
                raise ValueError
            else:
                out.append(_element(token, element))
            while depth and text[at : at + 1] == b"}":
                at += 1
                depth -= 1
                out.append(b"]")
            if not depth:
                break
            if text[at : at + 1] != delimiter:
                raise ValueError
            at += 1
            out.append(b",")
        if at != len(text):
            raise ValueError
        if flat:
            return b"[%b]" % b",".join([part for part in out if part not in _STRUCTURE])
        return b"".join(out)

    return parse


def _element(token: re.Match[bytes], element: Encoder) -> bytes:
    quoted, bare = token.groups()
    if quoted is not None:
        return element(_unescape(rb"\1", quoted) if b"\\" in quoted else quoted)
    return b"null" if bare == b"NULL" else element(bare)


def hstore_encoder(type_name: str, *, as_map: bool = False) -> Encoder:
    """A JSON string that holds a JSON object, in the order PostgreSQL keeps the keys; or the object
    itself, ``as_map``."""

    def encode(text: bytes) -> bytes:
        pairs = []
        at = 0
        while at < len(text):
            match = _match_pair(text, at)
            if match is None:
                raise ValueError
            key, value = match[1], match[2]
            json_value = b"null" if value is None else quote(_unescape(rb"\1", value))
            pairs.append(b"%b:%b" % (quote(_unescape(rb"\1", key)), json_value))
            at = match.end()
        found = b"{%b}" % b",".join(pairs)
        return found if as_map else quote(found)

    return guarded(type_name, encode)
