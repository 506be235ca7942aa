"""What every verb gets from the top of the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cdc.config import Config, View

DEFAULT_CONFIG = Path("headwater.toml")
MasterOption = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark master URL. Default: apply.master."),
]


@dataclass(frozen=True, slots=True)
class CliContext:
    """The global options, kept in ``typer.Context.obj``."""

    config_path: Path = DEFAULT_CONFIG


def config_path(ctx: typer.Context) -> Path:
    """The file named by ``--config``, or the default."""
    obj = ctx.find_object(CliContext)
    return obj.config_path if obj else DEFAULT_CONFIG


def configured(ctx: typer.Context) -> Config:
    """The configuration, read and checked whole. Raises ``ConfigError``."""
    from cdc.config import load_config

    return load_config(config_path(ctx))


def captured(ctx: typer.Context) -> Config:
    """The same for what Headwater's own capture does. Raises ``UsageError`` where a connector of
    Debezium fills the topics."""
    config = configured(ctx)
    if config.source.of_debezium:
        from cdc.errors import UsageError

        raise UsageError(
            'source.events is "debezium": its topics, slot and publication are the connector\'s',
            "use the connector for this; `headwater check`, `apply`, `view`, `wait`, `lag` and "
            "`verify` work with its topics",
        )
    return config


def configured_for(ctx: typer.Context, master: str | None) -> Config:
    """The same with another Spark, if one is named. Raises ``UsageError`` if that is not ours to
    choose."""
    config = configured(ctx)
    if master is None:
        return config
    from cdc.errors import UsageError
    from jobs.spark.session import under_spark_submit

    if under_spark_submit():
        raise UsageError("--master cannot be used under spark-submit", "pass it to spark-submit")
    apply = config.apply.model_copy(update={"master": master})
    return config.model_copy(update={"apply": apply})


def reloading(ctx: typer.Context, master: str | None = None) -> Callable[[], Config]:
    """Reads the configuration as it is now, for a process that follows it: it is parsed again when
    its file was written. Raises what ``configured_for`` does."""
    path = config_path(ctx)
    known: list[tuple[tuple[int, int, int], Config]] = []

    def read() -> Config:
        try:
            stat = path.stat()
        except OSError:  # being replaced, or gone: reading it says so
            return configured_for(ctx, master)
        mark = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if not known or known[0][0] != mark:
            known[:] = [(mark, configured_for(ctx, master))]
        return known[0][1]

    return read


def declared(config: Config, view: str) -> View:
    """A view's section of the configuration. Raises ``UsageError`` when there is none."""
    from cdc.errors import UsageError

    if view not in config.views:
        known = ", ".join(config.views) or "none"
        raise UsageError(f"no view {view!r}", f"choose a declared view: {known}")
    return config.views[view]
