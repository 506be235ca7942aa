"""The types of pgvector. The text of vector and halfvec, ``[1,2.5]``, is a JSON array already."""

from __future__ import annotations

import re
from typing import Final

from cdc.events.values.text import Encoder, malformed

_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[-+][0-9]+)?"
_PAIR: Final = rb"([1-9][0-9]*):(" + _NUMBER + rb")"

_match_dense = re.compile(rb"\[" + _NUMBER + rb"(?:," + _NUMBER + rb")*+\]").fullmatch
_match_sparse = re.compile(
    rb"\{((?:" + _PAIR + rb"(?:,(?!\})|(?=\})))*+)\}/([1-9][0-9]*)"
).fullmatch
_pairs = re.compile(_PAIR).sub


def vector_encoder(type_name: str) -> Encoder:
    """vector, halfvec: an array of numbers."""

    def encode(text: bytes) -> bytes:
        if _match_dense(text):
            return text
        raise malformed(type_name)

    return encode


def sparse_vector_encoder(type_name: str) -> Encoder:
    """sparsevec, ``{1:2.5}/3``: ``{"dimensions":3,"vector":[[1,2.5]]}``."""

    def encode(text: bytes) -> bytes:
        match = _match_sparse(text)
        if match is None:
            raise malformed(type_name)
        vector = _pairs(rb"[\1,\2]", match[1])
        return b'{"dimensions":%b,"vector":[%b]}' % (match[4], vector)

    return encode
