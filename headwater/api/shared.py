"""What handlers share, and how each begins: who asks, and may it see this table."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from cdc.config import Config
from headwater.alerts.service import RowAlerts
from headwater.api.access.login import Access
from headwater.api.access.principal import Principal
from headwater.api.actions.audit import Audit
from headwater.api.actions.jobs import Jobs
from headwater.api.changes.clients import Clients
from headwater.api.changes.follow import Sources
from headwater.api.pipeline.figures import Figures
from headwater.api.pipeline.history_file import Memory
from headwater.api.problems import CONTENT_TYPE, ProblemError
from headwater.api.state_watch import Watching
from headwater.api.tables import CapturedTable, Tables
from headwater.api.views.waits import Waits

_SCHEMA: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
    },
}


@dataclass(slots=True)
class Shared:
    """Use from the event loop."""

    config: Config
    access: Access
    tables: Tables
    clients: Clients
    sources: Sources
    waits: Waits
    watching: Watching
    figures: Figures
    memory: Memory
    audit: Audit
    jobs: Jobs
    alerts: RowAlerts

    def principal(self, request: Any) -> Principal:
        """Who asks. Raises ``ProblemError``."""
        return self.access.principal(request.headers, request.cookies)

    async def table(self, name: str, principal: Principal) -> CapturedTable:
        """A captured table whose rows may be shown. Raises ``ProblemError``; one that may not be
        seen is told apart from one that is not there only to who sees all."""
        found = await asyncio.to_thread(self.tables.find, name)
        label = found.label if found is not None else name
        if not principal.may_see(label):
            raise ProblemError(
                HTTPStatus.FORBIDDEN, "not-granted",
                f"{principal.name} may not see rows of this table",
                "grant it with `headwater serve add-user` or `add-token`",
            )  # fmt: skip
        if found is None:
            raise ProblemError(
                HTTPStatus.NOT_FOUND, "unknown-table", "no such table is captured",
                "GET /tables lists those that are",
            )  # fmt: skip
        return found

    def stop(self) -> None:
        """Streams end, each with its place."""
        self.clients.stop()

    def close(self) -> None:
        self.stop()
        self.sources.close()
        self.waits.close()
        self.figures.close()
        self.watching.end()
        self.memory.close()


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides its own, for the OpenAPI document."""
    content = {CONTENT_TYPE: {"schema": _SCHEMA}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in (*statuses, 400, 401, 403, 421, 503)
    }
