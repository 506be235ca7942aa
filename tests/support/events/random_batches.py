"""Random events of a few keys: every op, values left out, late snapshot rows, foreign records.

They are of one table version, or of two that come back.
"""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import Any

from cdc.events.codes import PLACEHOLDER
from tests.support.events.events import Record

_TEXTS = ("", "a  b", 'q"\\', "é\u2028", ',"source":{"', '},"after":', "null", "\t", "x" * 50)
_NUMBERS = ("1e+20", "0", "-1.50", "9007199254740993", "1E5")


def random_events(random: Random, count: int) -> list[Record]:
    """Positions rise, but for rows of snapshots; some stand in another order in the topic."""
    found, lsn, version, altered = list[Record](), 100, "a" * 16, random.choice((0.0, 0.1, 0.5))
    for _ in range(count):
        lsn += random.choice((0, 1, 1, 2))
        if random.random() < altered:
            version = random.choice("ab") * 16
        found += _events(random, lsn, len(found), version)
    if random.random() < 0.3:
        random.shuffle(found)
    return found


def _events(random: Random, lsn: int, ordinal: int, version: str) -> list[Record]:
    made = partial(_event, random, version, lsn, ordinal + 1)
    key = json.dumps({"id": random.randrange(4)}, separators=(",", ":")).encode()
    kind = random.random()
    if kind < 0.04:
        return [(random.choice((key, None)), random.choice(_FOREIGN))]
    if kind < 0.08:
        return [(None, made("t", None, None))]
    if kind < 0.12:
        return [(None, made("c", None, _image(random)))]
    if kind < 0.25:
        return [(key, made("d", _image(random), None)), (key, None)]
    if kind < 0.4:
        at = lsn - random.randrange(9)
        return [(key, _event(random, version, at, 0, "r", None, _image(random)))]
    unchanged = [name for name in ("body", "more") if random.random() < 0.3]
    op = "u" if unchanged else random.choice("cu")
    before = _image(random) if random.random() < 0.2 else None
    return [(key, made(op, before, _image(random, *unchanged), unchanged))]


_FOREIGN = (
    b"nonsense", b"[]", b"{}", b'"text"', b"1", b'{"op":"c"}',
    b'{"before":null,"after":null,"source":{"commit_lsn":1,"ordinal":1},"op":"c"}',
)  # fmt: skip


def _image(random: Random, *unchanged: str) -> str:
    values = {"id": "1", "n": random.choice(_NUMBERS), "after": random.choice(("1", "null"))}
    for name in ("body", "more"):
        text = PLACEHOLDER if name in unchanged else random.choice(_TEXTS)
        values[name] = random.choice(("null", json.dumps(text))) if name not in unchanged else (
            json.dumps(text)
        )  # fmt: skip
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in values.items()) + "}"


def _event(
    random: Random,
    version: str,
    lsn: int,
    ordinal: int,
    op: str,
    before: str | None,
    after: str | None,
    unchanged: list[str] | None = None,
) -> bytes:
    source: dict[str, Any] = {
        "version": "0", "ts_us": random.randrange(1, 10**9), "commit_lsn": lsn, "ordinal": ordinal,
        "schema_id": version,
    }  # fmt: skip
    if unchanged:
        source["unchanged"] = unchanged
    text = (
        f'{{"before":{before or "null"},"after":{after or "null"},"source":'
        f'{json.dumps(source, separators=(",", ":"))},"transaction":null,"op":"{op}"}}'
    )
    if random.random() < 0.1:  # as others may write it
        text = text.replace('"before":', '"before" : ', 1)
    return text.encode()
