"""A registry at the wire that answers what it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from cdc.config.registry import Registry
from cdc.events.formats.avro_schema import avro_schema
from cdc.events.schemas.schema import INT32, struct
from cdc.registry.schemas import SchemaRegistry

SCHEMA = struct("s.public.t.Key", id=INT32)
REGISTER = "POST /subjects/s.public.t-key/versions"
Answer = tuple[int, Any]


class Server(ThreadingHTTPServer):
    """``answers`` by method and path; ``asked`` is what was requested."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def respond(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = f"{self.command} {self.path}"
        self.server.asked.append((request, dict(self.headers), json.loads(text) if text else None))
        status, answer = self.server.answers.get(request, (404, {"error_code": 40401}))
        sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)
        self.close_connection = self.headers.get("X-Close") is not None

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering() -> Iterator[Server]:
    """One that answers until the block ends."""
    made = Server()
    thread = Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def registry(server: Server, **settings: Any) -> SchemaRegistry:
    return SchemaRegistry(Registry.model_validate({"url": server.url, **settings}))


def id_of(asked: SchemaRegistry, topic: str = "s.public.t") -> int:
    return asked.id_of(topic, "key", "s.public.t.Key", "AVRO", avro_schema(SCHEMA))
