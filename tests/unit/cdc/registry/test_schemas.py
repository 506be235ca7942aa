"""What a registry's answers become, with a server at the wire that says what it is told to."""

from __future__ import annotations

import pickle
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from cdc.errors import LogError, RetryableError
from cdc.events.form import OURS
from cdc.events.formats.avro_schema import avro_schema
from cdc.events.formats.avro_writer import avro_writer
from cdc.events.formats.framing import framed
from cdc.kafka.event_reader import FormReader
from cdc.registry.schemas import Standing
from tests.support.servers.told_registry import (
    REGISTER,
    SCHEMA,
    Answer,
    Server,
    id_of,
    registry,
)


def test_a_schema_is_registered_once_and_known_from_then_on(server: Server) -> None:
    server.answers[REGISTER] = 200, {"id": 7}
    asked = registry(server)
    assert [id_of(asked), id_of(asked)] == [7, 7]
    ((_, headers, body),) = server.asked
    assert body == {"schema": avro_schema(SCHEMA)}
    assert "Authorization" not in headers
    server.shutdown()
    server.server_close()
    asked.close()
    assert id_of(asked) == 7
    with pytest.raises(RetryableError, match="subject other-key: the schema registry at http"):
        id_of(asked, "other")


def test_who_logs_in_does_so_with_each_request(server: Server) -> None:
    server.answers[REGISTER] = 200, {"id": 7}
    id_of(registry(server, username="me", password="hunter2"))
    ((_, headers, _),) = server.asked
    assert headers["Authorization"] == f"Basic {b64encode(b'me:hunter2').decode()}"


def test_without_auto_register_a_schema_is_looked_up(server: Server) -> None:
    asked = registry(server, **{"auto.register.schemas": False})
    with pytest.raises(LogError, match=r"subject s\.public\.t-key .* lacks the schema"):
        id_of(asked)
    server.answers["POST /subjects/s.public.t-key"] = 200, {"id": 9}
    assert id_of(asked) == 9


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ((200, {"message": "busy"}), RetryableError, "does not answer as a schema registry"),
        ((200, ["busy"]), RetryableError, "does not answer as a schema registry"),
        ((200, {"schema": "{"}), LogError, "schema 7 .* is not one that Headwater can read"),
        ((200, {"schema": '{"type": "odd"}'}), LogError, "is not one that Headwater can read"),
        ((200, {"schema": "message", "schemaType": "PROTOBUF"}), LogError, "can read"),
        ((401, {"message": "who?"}), LogError, "denies access to schema 7: who"),
        ((404, {"message": "none"}), LogError, "has no schema 7, which a record"),
    ],
)
def test_a_record_whose_schema_cannot_be_had_is_never_taken_for_a_bad_one(
    server: Server, answer: Answer, kind: type[Exception], said: str
) -> None:
    """A view would put it among its dead letters."""
    server.answers["GET /schemas/ids/7"] = answer
    reader = FormReader(replace(OURS, format="avro"), dict, registry(server))
    with pytest.raises(kind, match=said):
        reader.raw("s.public.t", [(framed(7) + b"\2", framed(7) + b"\2", 0)])


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_registry_that_cannot_is_asked_again(server: Server, status: int) -> None:
    server.answers[REGISTER] = status, {"message": "no\nleader"}
    asked = registry(server)
    with pytest.raises(RetryableError, match=f"subject s.public.t-key: .* {status}: no leader"):
        id_of(asked)
    server.answers[REGISTER] = 200, {"id": 7}
    assert id_of(asked) == 7


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "denies access to subject s.public.t-key: why"),
        (403, "denies access to subject s.public.t-key: why"),
        (409, "the schema of subject s.public.t-key is not compatible with its version 3"),
        (422, "refuses the schema of subject s.public.t-key with 422: why"),
        (301, "refuses the schema of subject s.public.t-key with 301: why"),
    ],
)
def test_a_refusal_says_subject_and_reason(server: Server, status: int, said: str) -> None:
    server.answers[REGISTER] = status, {"error_code": status, "message": "why"}
    server.answers["GET /subjects/s.public.t-key/versions/latest"] = 200, {"version": 3}
    with pytest.raises(LogError) as caught:
        id_of(registry(server))
    assert said in caught.value.message
    assert "why" in caught.value.message
    assert caught.value.hint


def test_what_is_no_registry_is_said_to_be_none(server: Server) -> None:
    with pytest.raises(LogError, match="does not answer as a schema registry"):
        id_of(registry(server))
    for answer in (b"<html>", {"ok": True}, {"id": "x"}):
        server.answers[REGISTER] = 200, answer
        with pytest.raises(LogError):
            id_of(registry(server))
    server.answers["GET /subjects"] = 200, {"subjects": []}
    with pytest.raises(LogError, match="does not answer as a schema registry"):
        registry(server).reach()


def test_a_record_is_read_by_the_schema_that_it_names_which_is_asked_for_once(
    server: Server,
) -> None:
    server.answers["GET /schemas/ids/7"] = 200, {"schema": avro_schema(SCHEMA)}
    asked = registry(server)
    record = framed(7) + avro_writer(SCHEMA)(b'{"id":5}')
    assert [asked.value(record), asked.value(record)] == [{"id": 5}] * 2
    assert len(server.asked) == 1
    assert asked.value(b'{"id":6}') == {"id": 6}
    with pytest.raises(ValueError, match="bytes are left"):
        asked.value(record + b"x")
    with pytest.raises(LogError, match="has no schema 8, which a record in Kafka names"):
        asked.value(framed(8) + b"x")
    server.answers["GET /schemas/ids/9"] = 200, {"schema": "{}", "schemaType": "JSON"}
    assert asked.value(framed(9) + b'{"id":1}') == {"id": 1}


@pytest.mark.parametrize(
    ("known", "comparison", "standing"),
    [
        (True, None, Standing.KNOWN),
        (False, None, Standing.NEW),
        (False, {"is_compatible": True}, Standing.NEW),
        (False, {"is_compatible": False, "messages": ["a", "b"]}, Standing.INCOMPATIBLE),
    ],
)
def test_a_schema_is_compared_without_being_registered(
    server: Server, known: bool, comparison: dict[str, Any] | None, standing: Standing
) -> None:
    if known:
        server.answers["POST /subjects/s.public.t-key"] = 200, {"id": 7}
    if comparison:
        path = "/compatibility/subjects/s.public.t-key/versions/latest"
        server.answers[f"POST {path}"] = 200, comparison
    document = avro_schema(SCHEMA)
    found = registry(server).compared("s.public.t", "key", "s.public.t.Key", "JSON", document)
    incompatible = standing is Standing.INCOMPATIBLE
    assert found == ("s.public.t-key", standing, "a; b" if incompatible else "")
    assert all(body["schemaType"] == "JSON" for _, _, body in server.asked)
    assert not [request for request, *_ in server.asked if request == REGISTER]


def test_another_process_has_the_same_registry(server: Server) -> None:
    server.answers[REGISTER] = 200, {"id": 7}
    asked = registry(server)
    id_of(asked)
    assert id_of(pickle.loads(pickle.dumps(asked))) == 7


def test_views_wait_while_a_schema_cannot_be_had_and_are_told_of_one_that_is_not_there(
    server: Server,
) -> None:
    form = replace(OURS, format="avro", schemas=True)
    reader = FormReader(form, lambda: {"v": {}}, registry(server))
    server.answers["GET /schemas/ids/7"] = 503, {"message": "no leader"}
    with pytest.raises(RetryableError, match=r"the schema registry at .* answers 503: no leader"):
        reader.raw("s.public.t", [(None, framed(7) + b"x", 1)])
    del server.answers["GET /schemas/ids/7"]
    with pytest.raises(LogError, match="has no schema 7, which a record in Kafka names"):
        reader.raw("s.public.t", [(None, framed(7) + b"x", 1)])
    server.answers["GET /schemas/ids/7"] = 200, {"schema": avro_schema(SCHEMA)}
    written = framed(7) + avro_writer(SCHEMA)(b'{"id":5}')
    asked = registry(server)
    assert asked.payload(written) == {"id": 5}
    count = len(server.asked)
    assert pickle.loads(pickle.dumps(asked)).payload(written) == {"id": 5}
    assert len(server.asked) == count, "what is known is sent along"
    server.answers["GET /schemas/ids/8"] = 200, {"schema": '"string"'}
    with pytest.raises(TypeError, match="no object"):
        asked.payload(framed(8) + b"\2a")
