"""What a process follows of the section ``source`` while it runs."""

from __future__ import annotations

from cdc.config import Config, Kafka, Source
from cdc.errors import ConfigError
from jobs.run.tables.source_settings import SourceSettings


def test_tables_are_followed_and_what_else_they_are_is_not() -> None:
    source = Source(name="shop", dsn="host=a", tables=("public.a",), keys={"public.a": ("id",)})
    config = Config(source=source, kafka=Kafka(bootstrap_servers="a:1"))
    keys = {"public.a": ("other",), "public.b": ("id",)}
    written = [
        source.model_copy(update={"dsn": "host=b", "tables": ("public.*",), "keys": keys}),
        None,
    ]

    def reload() -> Config:
        if (read := written.pop(0)) is None:
            raise ConfigError("half of it is written")
        return config.model_copy(update={"source": read})

    settings = SourceSettings(config, reload)
    now = settings.now()
    assert (now.dsn, now.tables) == ("host=a", ("public.*",))
    assert now.keys == {"public.a": ("id",), "public.b": ("id",)}
    assert settings.now() == now, "a file that cannot be read changes nothing"
