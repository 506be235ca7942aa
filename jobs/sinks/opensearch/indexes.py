"""What a view has in an OpenSearch cluster: the names of its indexes and aliases, and whose an
index is.

Indexes have small letters, so views whose names differ in case only would share theirs, and the
index of view ``a`` has the name that people read view ``a-1`` by. Each index remembers its view:
what is another's is neither read, nor shown, nor deleted.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cdc.errors import ViewError
from jobs.sinks.opensearch.client import Client, Refusal, Server
from jobs.sinks.opensearch.mapping import VIEW

_THERE: Final = "resource_already_exists_exception"


def readers_alias(view: str) -> str:
    """The alias by which people read the live index."""
    return view.lower()


def index_of(view: str, generation: int) -> str:
    """The index of a generation."""
    return f"{readers_alias(view)}-{generation}"


def alias_of(index: str) -> str:
    """The alias by which Headwater reads and writes an index, live or not."""
    return f"{index}.rows"


def live_generation(client: Client, view: str) -> int | None:
    """The generation that people read, None if the view was never filled.

    Raises ``ViewError`` when the name is somebody else's.
    """
    numbers = [int(name.rpartition("-")[2]) for name in owned(client, view, readers_alias(view))]
    return max(numbers, default=None)


def create(server: Server, view: str, name: str, body: dict[str, Any]) -> None:
    """Make an index of a view. Raises ``ViewError`` with what the server says of its mapping."""

    def made(client: Client) -> None:
        try:
            client.indices.create(index=name, body=body)
        except Refusal as error:
            # The answer of the first request was lost, and it was asked again.
            if error.error != _THERE or not owned(client, view, name):
                raise

    server.declare(f"view {view}: index {name}", None, made)


def owned(client: Client, view: str, name: str) -> list[str]:
    """The indexes of a view that are under a name, that of an index or an alias.

    Raises ``ViewError`` when all that is there is somebody else's.
    """
    found = client.indices.get_mapping(index=name, params={"ignore_unavailable": "true"})
    whose = {index: held["mappings"].get("_meta", {}).get(VIEW) for index, held in found.items()}
    made = re.compile(re.escape(readers_alias(view)) + r"-\d+")  # no copy of ours by another name
    ours = [index for index, owner in whose.items() if owner == view and made.fullmatch(index)]
    if whose and not ours:
        index, owner = next(iter(whose.items()))
        what = f"index {index} of view {owner}" if owner else f"an index {index} of somebody else"
        raise ViewError(
            f"view {view}: its name {name} in OpenSearch is already used by {what}",
            "rename the view, or remove that index",
        )
    return ours
