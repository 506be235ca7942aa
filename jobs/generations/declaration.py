"""What was declared of a view when a generation of it began, compared with what is declared now."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from cdc.config import View
from cdc.errors import ViewError
from cdc.log_events import LogEvent
from views.parse.definition import ViewDefinition, parse_view

log = structlog.get_logger("apply")


class Declaration(NamedTuple):
    """What was declared of a view when a generation of it began; ``sql`` as it was written."""

    sql: str
    key: tuple[str, ...]
    store: str
    table: str
    history: str = ""

    def parsed(self, name: str) -> ViewDefinition:
        return parse_view(name, self.store, self.key, self.sql, self.history)

    def document(self) -> dict[str, Any]:
        return {**self._asdict(), "key": list(self.key)}


def declared(view: ViewDefinition) -> Declaration:
    """A view as it is remembered. Not ``normalized``: what sqlglot writes is for comparing."""
    return Declaration(view.sql, tuple(view.key), view.store, view.table_name, view.history)


def declaration(document: dict[str, Any]) -> Declaration:
    """The inverse of ``Declaration.document``; other fields are passed over."""
    known = {name: document.get(name, "") for name in Declaration._fields}
    return Declaration(**{**known, "key": tuple(known["key"])})


def layout_of(view: View) -> str:
    """A digest of how rows lie in the store: of all settings of a view that ``Declaration`` does
    not have, and that what is loaded has been made by. A setting at its default is none: later
    versions have more of them."""
    others = {*Declaration._fields, "change_stream"}
    settings = view.model_dump(mode="json", exclude=others, exclude_defaults=True)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def differing(held: Declaration, wanted: Declaration) -> str:
    """What two declarations do not have in common, in words."""
    names = [name for name in Declaration._fields if getattr(held, name) != getattr(wanted, name)]
    if "sql" in names and _is_laid_out_otherwise(held, wanted):
        names.remove("sql")
    return ", ".join(names)


def _is_laid_out_otherwise(held: Declaration, wanted: Declaration) -> bool:
    """Whether two declarations say the same in their SQL, in another layout."""
    with suppress(ViewError):  # what was taken once, and is not any more
        return wanted.parsed("").normalized == held.parsed("").normalized
    return False


def tell_kept(view: str, generation: int, changed: str = "its declaration") -> None:
    """Log that a view is kept as it was built, and not as it is declared now; ``changed`` as of
    ``differing``."""
    log.warning(
        LogEvent.VIEW_KEPT_AS_IT_WAS_BUILT,
        view=view,
        generation=generation,
        reason=f"{changed} changed since it was built",
        way_out=f"run `headwater view rebuild {view}`, which builds the new one beside it",
    )
