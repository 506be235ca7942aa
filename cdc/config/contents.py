"""``content`` of ``[events]`` and of a route, with what goes with rows."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from pydantic import BeforeValidator

from cdc.events.flat.added_fields import added_fields, added_headers
from cdc.routes.content import CONTENT_NAMES

if TYPE_CHECKING:
    from cdc.config import Events
    from cdc.config.routes import RouteSettings
    from cdc.routes.route import Route

_PREFIX: Final = re.compile(r"[!-~]{0,100}")


def _joined(value: Any) -> Any:
    """``"op,lsn"`` or ``["op", "lsn"]``."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ",".join(value)
    return ",".join(value.replace(" ", "").split(",")) if isinstance(value, str) else value


Added = Annotated[str, BeforeValidator(_joined)]
"""Names of fields, apart by commas."""


class Rows(Protocol):
    """A section that has the settings of rows."""

    @property
    def added(self) -> str: ...
    @property
    def headers(self) -> str: ...
    @property
    def header_prefix(self) -> str: ...
    @property
    def model_fields_set(self) -> set[str]: ...


def refuse_unfit_settings(has_rows: bool, given: Rows, way: str = 'set content = "row"') -> None:
    """Raise ``ValueError`` for settings of rows where there are none, and for fields and headers
    that cannot be. ``way`` is how to have rows."""
    if not has_rows:
        for name, field in CONTENT_NAMES.items():
            if field != "content" and field in given.model_fields_set:
                raise ValueError(f"{name}: without effect: {way}, or remove it")
    if not _PREFIX.fullmatch(given.header_prefix):
        raise ValueError(
            "add.headers.prefix: is not up to 100 letters, digits and signs of ASCII, without "
            "spaces"
        )
    for setting, made in (
        ("add.fields", partial(added_fields, given.added)),
        ("add.headers", partial(added_headers, given.headers, given.header_prefix)),
    ):
        try:
            made()
        except ValueError as error:
            raise ValueError(f"{setting}: {error}") from None


def refuse_contents_of_routes(routes: Collection[RouteSettings], events: Events) -> None:
    """Raise ``ValueError`` for a content that does not go with ``[events]``."""
    for number, route in enumerate(routes, 1):
        if not route.model_fields_set & {"content", "rows_topic"}:
            continue
        content = "row" if route.rows_topic else route.content
        said = f'source.routes: route {number} has content = "{content}"'
        said = f"source.routes: route {number} has rows_topic" if route.rows_topic else said
        if events.content != "event":
            raise ValueError(
                f"{said}, and [events] has a content for all tables: remove that, and add a last "
                f'route with tables = ["*.*"] and content = "{events.content}"'
            )
        if content == "row" and events.format == "protobuf":
            raise ValueError(f"{said}: rows are not written as Protobuf: choose another format")
        if content == "cloudevents" and events.format != "json":
            raise ValueError(f"{said}: CloudEvents are JSON: remove format and registry, or it")


def refuse_topics_of_any_source(source: str, routes: Collection[Route], content: str) -> None:
    """Raise ``ValueError`` for a topic that could be another source's too, where values do not name
    theirs. ``content`` is that of ``[events]``."""
    for number, route in enumerate(routes, 1):
        own = route.content.content
        what = f"its content is {own}" if own != "event" else f"events.content is {content}"
        held = [("topic", route.topic, what)] if (own, content) != ("event", "event") else []
        if route.rows_topic:
            held.append(("rows_topic", route.rows_topic, "its content is row"))
        for setting, topic, said in held:
            if not topic.startswith(("{source}.", f"{source}.")):
                raise ValueError(
                    f"source.routes: {said}, which does not name the source of an event: the "
                    f"{setting} of route {number} has to begin with {{source}}."
                )
