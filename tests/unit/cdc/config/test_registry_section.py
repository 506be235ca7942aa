"""``[events] format`` and ``[events.registry]``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.config import Config, parse_config
from cdc.errors import ConfigError

BASE = {
    "source": {"name": "s", "dsn": "postgresql://h/d", "tables": ["public.t"]},
    "kafka": {"bootstrap_servers": "h:1"},
}
URL = {"url": "http://registry:8081/"}


def parsed(events: dict[str, Any], environ: dict[str, str] | None = None) -> Config:
    return parse_config({**BASE, "events": events}, environ or {}, Path("/etc/headwater"))


def test_a_format_keeps_its_schemas_in_the_registry() -> None:
    names = {"subject": {"name": {"strategy": "RecordNameStrategy"}}}
    more = {"auto": {"register": {"schemas": False}}, "username": "me", "password": "${PASSWORD}"}
    given = {"format": "avro", "registry": {**URL, **names, **more}}
    config = parsed(given, {"PASSWORD": "hunter2"})
    registry, form = config.events.registry, config.form
    assert registry is not None
    assert (registry.url, registry.strategy) == ("http://registry:8081", "RecordNameStrategy")
    assert not registry.auto_register
    assert registry.password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(config)
    assert (form.registered, form.schemas, form.wrapped) == (True, True, False)
    assert form.recorded == {"format": "avro", "schemas": True}


def test_without_a_format_there_is_no_registry() -> None:
    form = parsed({}).form
    assert (form.registered, form.wrapped, form.recorded) == (False, False, {})


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ({"format": "avro"}, "registry: is missing"),
        ({"registry": URL}, "registry: without effect"),
        ({"format": "xml", "registry": URL}, "format"),
        ({"format": "avro", "registry": URL, "schemas": True}, "schemas: without effect"),
        ({"format": "avro", "registry": {"url": "h:8081"}}, "is no http or https URL"),
        ({"format": "avro", "registry": {"url": "http://me:x@h"}}, "holds a login"),
        ({"format": "avro", "registry": {**URL, "username": "me"}}, "go together"),
        ({"format": "avro", "registry": {**URL, "subject.name.strategy": "x"}}, "strategy"),
        ({"format": "avro", "registry": {**URL, "ssl_ca_location": "/no"}}, "ssl_ca_location: /no"),
    ],
)
def test_what_does_not_fit_is_refused(events: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(events)
    assert said in str(caught.value)
    assert "me:x" not in str(caught.value)


def test_a_file_of_authorities_is_found_from_the_configurations_folder() -> None:
    with pytest.raises(ConfigError, match=r"/etc/headwater/ca\.pem"):
        parsed({"format": "avro", "registry": {**URL, "ssl_ca_location": "ca.pem"}})
