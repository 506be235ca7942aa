"""Checks of ``[events.registry]``: reachable, and the schemas of the tables as they are now."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cdc.config.registry import Registry
from cdc.errors import LogError
from cdc.events.formats.packing import table_packing
from cdc.events.formats.subjects import Role
from cdc.registry.schemas import SchemaRegistry, Standing, registry_of
from cdc.source.catalog import relation
from cdc.source.columns.treated_columns import treated
from cdc.source.types import load_types
from headwater.check.finding import Finding
from headwater.check.source import Source


class _Examined:
    """In place of the registry: what is to be registered is only compared. ``findings`` are of what
    capture could not register."""

    def __init__(self, registry: SchemaRegistry, settings: Registry) -> None:
        self.findings: list[Finding] = []
        self.known = self.new = 0
        self._registry, self._settings = registry, settings

    def id_of(self, topic: str, role: Role, record: str, kind: str, document: str) -> int:
        """See ``cdc.events.formats.packing.Registry``."""
        name, standing, reason = self._registry.compared(topic, role, record, kind, document)
        self.known += standing is Standing.KNOWN
        self.new += standing is Standing.NEW
        if standing is Standing.INCOMPATIBLE:
            message = f"the schema of subject {name} is not compatible with its newest version"
            hint = "change the table back, or the subject's compatibility level to NONE in the "
            hint += "registry if its consumers can read both"
            message += f": {reason}" if reason else ""
            self.findings.append(Finding("error", "schema registry", message, hint))
        elif standing is Standing.NEW and not self._settings.auto_register:
            body = {"schema": document} | ({} if kind == "AVRO" else {"schemaType": kind})
            message = f"subject {name} lacks the schema, and auto.register.schemas is false"
            hint = f"post to {self._settings.url}/subjects/{name}/versions: {json.dumps(body)}"
            self.findings.append(Finding("error", "schema registry", message, hint))
        return 0


def schema_registry(source: Source) -> Iterator[Finding]:
    """Raises ``HeadwaterError`` when the registry cannot be reached, or does not let us in."""
    config, settings = source.config, source.config.events.registry
    registry = registry_of(config)
    if registry is None or settings is None:
        return
    registry.reach()
    yield Finding("ok", "schema registry", f"reachable at {settings.url}")
    examined, types = _Examined(registry, settings), load_types(source.conn)
    for table in source.tables:
        shape = relation(
            source.conn, table.oid, types, config.source.publication_name, config.source.keys
        )
        shape = treated(source.conn, shape, config.source)
        name = config.source.name
        try:
            for form, _ in config.form.outputs(name, shape.schema, shape.table):
                table_packing(shape, name, form, examined)
        except LogError as error:
            yield Finding("error", "schema registry", error.message, error.hint)
    yield from examined.findings
    if not examined.findings:
        said = f"{examined.known} schemas are registered, capture registers {examined.new}"
        yield Finding("ok", "schema registry", said)
