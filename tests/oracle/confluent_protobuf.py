"""Records as Protobuf's compiler and library make them, read by Confluent's deserializer.

Run by ``tests.oracle.record_protobuf`` with a Python that has grpcio-tools,
googleapis-common-protos and confluent-kafka[protobuf,schemaregistry].
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from base64 import b64decode
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.types import decimal_pb2
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
    timestamp_pb2,
)
from google.type import date_pb2, timeofday_pb2
from grpc_tools import protoc

KNOWN = (
    *(one.DESCRIPTOR for one in (descriptor_pb2, timestamp_pb2, date_pb2, timeofday_pb2, meta_pb2)),
    decimal_pb2.Decimal.DESCRIPTOR.file,
)
MS, NANOS, ERA_DAYS = 1000, 1_000_000, 146_097


def known() -> descriptor_pb2.FileDescriptorSet:
    found = descriptor_pb2.FileDescriptorSet()
    for one in KNOWN:
        file = found.file.add()
        one.CopyToProto(file)
    return found


def compiled(document: str) -> Any:
    """The class of a document's first message."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "in.bin").write_bytes(known().SerializeToString())
        (home / "a.proto").write_text(document, encoding="utf-8")
        arguments = [
            "protoc",
            f"--proto_path={folder}",
            f"--descriptor_set_in={home / 'in.bin'}",
            f"--descriptor_set_out={home / 'out.bin'}",
            str(home / "a.proto"),
        ]
        if protoc.main(arguments):
            raise SystemExit(f"protoc refuses\n{document}")
        made = descriptor_pb2.FileDescriptorSet.FromString((home / "out.bin").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in [*known().file, *made.file]:
        pool.Add(file)
    whole = pool.FindFileByName(made.file[-1].name)
    return message_factory.GetMessageClass(
        whole.message_types_by_name[made.file[-1].message_type[0].name]
    )


def fill(message: Any, value: Any) -> Any:
    """By the fields' names in JSON."""
    message.SetInParent()
    of = message.DESCRIPTOR
    if of.full_name == "confluent.type.Decimal":
        raise AssertionError("its field says the scale")
    if of.full_name == "google.type.Date":
        eras, rest = divmod(value, ERA_DAYS)  # Python's years are four digits
        day = date(1970, 1, 1) + timedelta(rest)
        message.year, message.month, message.day = day.year + 400 * eras, day.month, day.day
    elif of.full_name == "google.type.TimeOfDay":
        whole = value // MS
        message.hours, message.minutes = whole // 3600, whole // 60 % 60
        message.seconds = whole % 60
        message.nanos = value % MS * NANOS
    elif of.full_name == "google.protobuf.Timestamp":
        message.seconds, message.nanos = value // MS, value % MS * NANOS
    elif of.name.startswith("Array_"):
        for one in value:
            put(message.items.add(), "value", one)
    elif of.name.startswith("Map_"):
        for key, one in value.items() if isinstance(value, dict) else value:
            entry = message.entries.add()
            put(entry, "key", key)
            put(entry, "value", one)
    else:
        for field in of.fields:
            put(message, field.name, value[field.json_name])
    return message


def put(message: Any, name: str, value: Any) -> None:
    if value is None:
        return
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.message_type is not None and field.message_type.name == "Decimal":
        decimal(getattr(message, name), field, value)
    elif field.is_repeated:
        for one in value:
            if field.message_type is None:
                getattr(message, name).append(scalar(field, one))
            else:
                fill(getattr(message, name).add(), one)
    elif field.message_type is None:
        setattr(message, name, scalar(field, value))
    else:
        fill(getattr(message, name), value)


def decimal(message: Any, field: Any, value: str) -> None:
    message.value = b64decode(value)
    number = int.from_bytes(message.value, "big", signed=True)
    options = field.GetOptions()
    told = json_format.MessageToDict(options)
    (meta,) = told.values()
    message.scale = int({one["key"]: one["value"] for one in meta_params(meta)}["scale"])
    message.precision = len(str(abs(number)))


def meta_params(meta: Any) -> list[dict[str, str]]:
    params = meta["params"]
    if isinstance(params, dict):
        return [{"key": key, "value": value} for key, value in params.items()]
    return list(params)


def scalar(field: Any, value: Any) -> Any:
    if field.type == field.TYPE_BYTES:
        return b64decode(value)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return float(value)
    return value


def main(sent: str, found: str) -> None:
    answers = []
    for line in Path(sent).read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        kind = compiled(one["document"])
        event = json.loads(one["text"], parse_int=lambda text: -0.0 if text == "-0" else int(text))
        made = fill(kind(), event).SerializeToString(deterministic=True)
        framed = struct.pack(">bI", 0, 7) + b"\0" + made
        read = ProtobufDeserializer(kind, {"use.deprecated.format": False})
        back = read(framed, SerializationContext("t", MessageField.VALUE))
        assert back.SerializeToString(deterministic=True) == made
        answers.append(made.hex())
    Path(found).write_text("\n".join(answers) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
