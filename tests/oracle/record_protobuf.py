"""``python -m tests.oracle.record_protobuf PYTHON``: what Protobuf's compiler and library make of
our schemas and records. PYTHON is one with the packages of ``confluent_protobuf``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from cdc.events.formats.protobuf_messages import protobuf_file
from cdc.events.formats.protobuf_text import file_text
from tests.oracle.avro_records import given
from tests.oracle.program import answers

RECORDED: Final = Path(__file__).with_name("protobuf.json")
_PROGRAM: Final = Path(__file__).with_name("confluent_protobuf.py")


def main(python: str) -> None:
    """Write the recording beside this module."""
    records = list(given())
    documents = [file_text(protobuf_file(one.schema)) for one in records]
    lines = [
        json.dumps({"document": document, "text": one.text.decode()})
        for one, document in zip(records, documents, strict=True)
    ]
    made = answers([python, str(_PROGRAM)], lines)
    recorded = {
        one.name: {"document": document, "hex": octets}
        for one, document, octets in zip(records, documents, made, strict=True)
    }
    text = json.dumps(recorded, ensure_ascii=False, indent=1, sort_keys=True)
    RECORDED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
