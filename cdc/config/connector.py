"""What cannot be asked for where a connector of Debezium fills the topics. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdc.config import Config


def refuse_without_capture(config: Config) -> None:
    """Raise ``ValueError`` for what such topics do not hold, or not exactly."""
    if not config.source.of_debezium:
        return
    if config.events.preset is None:
        raise ValueError(
            'source.events: is "debezium", and [events] does not say how the connector writes: set '
            'preset = "debezium" there, and the modes that the connector sets'
        )
    if config.events.format != "json":
        raise ValueError(
            "events.format: a connector's topics are read as JSON: let it write them with "
            "JsonConverter, and remove format and [events.registry]"
        )
    if config.source.routes:
        raise ValueError(
            "source.routes: topics are those of the connector, which names them after its tables: "
            "remove them, and its transforms that route"
        )
    if config.apply.engine != "database":
        raise ValueError(
            "apply.engine: views of a connector's topics are kept over the state database: set "
            '"database"'
        )
    for label, table in config.tables.items():
        if not table.mirror:
            raise ValueError(f"tables.{label}.mirror: a connector's topics are read into mirrors")
    for name, view in config.views.items():
        if view.history:
            raise ValueError(
                f"views.{name}.history: events of a connector do not tell what they would need"
            )
    for label, rules in config.source.treated.items():
        raise ValueError(
            f"source.columns: {label}.{next(iter(rules))}: a connector publishes columns as they "
            'are, and "exclude" is all that can be said of them here'
        )
