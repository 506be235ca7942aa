"""The console in this process, over figures that a test gives: no server, no socket."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI

from cdc.config import Serve
from headwater.actions.commands import Command
from headwater.api.access.login import Access
from headwater.api.access.principal import Role
from headwater.api.access.sessions import COOKIE
from headwater.api.guard import Guard
from headwater.api.problems import ProblemError, answer
from headwater.console.routes import console_routes
from headwater.pipeline.pages import AlarmsPage
from headwater.pipeline.picture import Pipeline
from tests.support.console import sample


class Figures:
    """As ``headwater.api.pipeline.figures`` answers."""

    def __init__(self, picture: Pipeline | None = None) -> None:
        self.picture = picture or sample.pipeline()
        self.letters = sample.dead_letters()
        self.shown = sample.snapshots()
        self.found_topics = sample.topics()
        self.found_source = sample.source()
        self.found_view: Any = None
        self.failing: Exception | None = None

    def source(self) -> Any:
        return self.found_source

    def alarms(self) -> Any:
        return AlarmsPage(sample.NOW_S, self.picture.alarms)

    async def topics(self) -> Any:
        if self.failing:
            raise self.failing
        return self.found_topics

    async def view(self, name: str) -> Any:
        line = next(one for one in self.picture.views if one.view == name)
        return self.found_view or sample.view(line.state, name)

    async def trace(self, who: Any, table: str, key: Any, since_s: Any, records: int) -> Any:
        del who, since_s, records
        return sample.trace(table, key)

    async def snapshots(self) -> Any:
        return self.shown

    async def dead_letters(self, who: Any, view: str = "") -> Any:
        del who, view
        return self.letters


@dataclass
class Source:
    name: str = "shop"


@dataclass
class View:
    sql: str = "select id, total from public.orders"


@dataclass
class Configured:
    views: dict[str, Any]
    source: Source = field(default_factory=Source)


@dataclass
class Relation:
    key: tuple[str, ...] = ("id",)


@dataclass
class Table:
    label: str
    relation: Relation = field(default_factory=Relation)


class Tables:
    def all(self) -> dict[str, Any]:
        return dict.fromkeys(("public.orders", "public.customers"))


class Memory:
    """As ``headwater.api.pipeline.history_file`` remembers."""

    def __init__(self) -> None:
        self.past = sample.history()
        self.asked: list[tuple[int, str]] = []

    def history(self, length_s: int, views: Any, figure: str = "") -> Any:
        self.asked.append((length_s, figure))
        series = sample.history(("", *views)).series if self.past.at_s else ()
        wanted = tuple(one for one in series if figure in ("", one.name))
        return replace(self.past, series=wanted)

    def freshness(self, view: str) -> Any:
        return sample.freshness(view)


class Jobs:
    """As ``headwater.api.actions.jobs`` keeps them, without processes: each ends at once, as
    ``ends`` says."""

    def __init__(self) -> None:
        self.ends = sample.job()
        self.begun: list[Command] = []
        self.refusal: ProblemError | None = None

    async def start(self, who: Any, address: str, command: Command, asks: bool = False) -> Any:
        del address, asks
        if who.role != Role.OPERATOR:
            raise ProblemError(HTTPStatus.FORBIDDEN, "not-operator", f"{who.name} may not act")
        self.begun.append(command)
        return self.ends

    async def settled(self, job_id: str, who: Any, seconds: float) -> Any:
        del job_id, who, seconds
        if self.refusal:
            raise self.refusal
        return self.ends

    async def stop(self, who: Any, address: str, job_id: str) -> Any:
        del who, address, job_id
        self.ends = replace(self.ends, status="failed", detail="it was stopped")
        return self.ends

    def find(self, job_id: str, who: Any) -> Any:
        del who
        if job_id != self.ends.id:
            raise ProblemError(HTTPStatus.NOT_FOUND, "unknown-job", "there is no such job")
        return self.ends


class Audit:
    def __init__(self) -> None:
        self.failing: Exception | None = None

    def newest(self, limit: int) -> Any:
        if self.failing:
            raise self.failing
        return sample.audit()[:limit]


class SharedHere:
    """What pages use of ``headwater.api.shared.Shared``."""

    def __init__(self, serve: Serve, figures: Figures) -> None:
        self.config = Configured({one.view: View() for one in figures.picture.views})
        self.figures, self.tables = figures, Tables()
        self.access, self.memory = Access(serve), Memory()
        self.jobs, self.audit = Jobs(), Audit()

    async def table(self, name: str, who: Any) -> Any:
        if not who.may_see(name):
            raise ProblemError(HTTPStatus.FORBIDDEN, "not-granted", "not granted")
        return Table(name)

    def principal(self, request: Any) -> Any:
        return self.access.principal(request.headers, request.cookies)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str
    cookies: list[str]


class Console:
    """Asks as a browser does: with the cookies that it was given, and an Origin."""

    def __init__(self, figures: Figures | None = None, serve: Serve | None = None) -> None:
        self.figures = figures or Figures()
        shared: Any = SharedHere(serve or Serve(), self.figures)
        self.jobs: Jobs = shared.jobs
        self.audit: Audit = shared.audit
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        console_routes(app, shared)

        async def on_problem(_: Any, error: Any) -> Any:
            return answer(error)

        app.add_exception_handler(ProblemError, on_problem)
        self._app = Guard(app, serve or Serve())
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask("GET", path, b"", headers)

    def part(self, path: str) -> Answer:
        """As htmx asks."""
        return self.get(path, **{"hx-request": "true"})

    def post(self, path: str, headers: dict[str, str] | None = None, **form: str) -> Answer:
        body = urlencode(form).encode()
        kind = {"content-type": "application/x-www-form-urlencoded"}
        origin = {"origin": "http://localhost"}
        return self._ask("POST", path, body, kind | (headers if headers is not None else origin))

    @property
    def session(self) -> str:
        return self.cookies.get(COOKIE, "")

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        named = {"host": "localhost", "content-length": str(len(body)), **headers}
        if self.cookies:
            named["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        place, _, query = path.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http",
            "path": place, "raw_path": place.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "client": ("127.0.0.1", 5), "server": ("localhost", 80), "root_path": "",
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self._app(scope, receive, send))
        found = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
        cookies = [value for name, value in found if name == "set-cookie"]
        for one in cookies:
            name, _, rest = one.partition("=")
            self.cookies[name] = rest.partition(";")[0].strip('"')
        text = b"".join(one.get("body", b"") for one in sent[1:]).decode()
        return Answer(sent[0]["status"], dict(found), text, cookies)
