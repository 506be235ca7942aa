"""When alerts begin, wait and go on: with a catalog, Kafka and a receiver that are in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from cdc.config import Alerts, Config, Kafka, RowAlert, Source, View
from cdc.config.routes import RouteSettings
from cdc.errors import HeadwaterError, LogError, RetryableError, SourceError, UsageError
from cdc.kafka.group_reader import Noted
from cdc.metrics import serve_catalog as catalog
from cdc.protocol.relation import Column, Relation, TypeInfo
from headwater.alerts import service, table_source, view_source
from headwater.alerts.service import RowAlerts, fitting_relation
from headwater.alerts.table_source import begin_at_end
from headwater.alerts.view_source import ViewReader
from headwater.api.tables import CapturedTable
from tests.support.waiting import wait_until

TOPIC = "shop.public.orders"
GROUP = "headwater.shop.__alerts.big"


def table(identity: str) -> CapturedTable:
    columns = tuple(
        Column(name, TypeInfo(1, "pg_catalog", "int4", "base", "int4"), -1, name == "id")
        for name in ("id", "total")
    )
    return CapturedTable(
        "public.orders", TOPIC, Relation(7, "public", "orders", identity, columns, ("id",))
    )


FITS, FITS_NOT = table("f"), table("d")


def config(when: str = "before.total > 1") -> Config:
    alert = RowAlert(table="public.orders", when=when, webhook="http://localhost")
    return Config(
        source=Source(name="shop", dsn="postgresql://nowhere", tables=("public.*",)),
        kafka=Kafka(bootstrap_servers="localhost:1"),
        alerts=Alerts(secret_file="secret", rows={"big": alert}),
    )


class Cluster:
    """Kafka: topics by name with their ends, and committed offsets."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, int]] = {}
        self.groups: dict[str, dict[str, dict[int, int]]] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to let go of."""

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return {topic: len(self.topics[topic]) for topic in topics if topic in self.topics}

    def end_offsets(self, topics: list[str]) -> Mapping[str, Mapping[int, int]]:
        if any(topic not in self.topics for topic in topics):
            raise LogError("Kafka has no such topic")
        return {topic: self.topics[topic] for topic in topics}

    def committed(self, group: str, _: list[str]) -> dict[str, dict[int, int]]:
        return self.groups.get(group, {})

    def commit_group(self, group: str, offsets: dict[str, dict[int, int]]) -> None:
        self.groups[group] = offsets


class Reader:
    """Gives nothing; ``fault`` is raised once."""

    fault: HeadwaterError | None = None
    has_fault = threading.Event()

    def __init__(self, *_: Any) -> None:
        """As a member of the group."""

    @classmethod
    def fail(cls, error: HeadwaterError) -> None:
        """With the next read."""
        cls.fault = error
        cls.has_fault.set()

    def read(self, timeout_s: float) -> list[Any]:
        if Reader.has_fault.wait(timeout_s):
            Reader.has_fault.clear()
            assert Reader.fault is not None
            raise Reader.fault
        return []

    def pause(self, is_paused: bool) -> None:
        """It gives nothing anyway."""

    def commit(self, _: Mapping[int, Noted]) -> bool:
        return True

    def behind(self, _: Mapping[int, int]) -> int:
        return 0

    def close(self) -> None:
        """Nothing to let go of."""


class Box:
    def __init__(self, _: Config) -> None:
        """Without letters."""

    def close(self) -> None:
        """Nothing to let go of."""


class Catalog:
    """``found`` is what a look-up gives or raises; ``asked`` is how often one was made."""

    def __init__(self, found: CapturedTable | HeadwaterError | None) -> None:
        self.found, self.asked = found, 0

    def find(self, name: str) -> CapturedTable | None:
        assert name == "public.orders"
        self.asked += 1
        if isinstance(self.found, HeadwaterError):
            raise self.found
        return self.found


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    found.topics[TOPIC] = {0: 7}
    monkeypatch.setattr(table_source, "Broker", lambda *_: found)
    monkeypatch.setattr(table_source, "GroupReader", Reader)
    monkeypatch.setattr(service, "LetterBox", Box)
    monkeypatch.setattr(service, "_PAUSES_S", (0.005,))
    monkeypatch.setattr(service, "_MISFIT_S", 0.005)
    return found


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as entries:
        yield entries


def until_running(alerts: RowAlerts) -> None:
    def running() -> bool:
        (value,) = [
            one.value for one in alerts.samples() if one.metric is catalog.ROW_ALERT_RUNNING
        ]
        return bool(value)

    wait_until(running, "the alert to run")


def events(logged: list[Any]) -> list[str]:
    return [str(one["event"]) for one in logged]


@pytest.mark.parametrize(
    ("found", "event"),
    [
        (None, "row_alert_stopped"),
        (FITS_NOT, "row_alert_stopped"),
        (SourceError("source.tables: public.other does not exist"), "row_alert_waits"),
        (RetryableError("PostgreSQL does not answer"), "row_alert_waits"),
    ],
)
def test_an_alert_waits_for_a_table_that_fits_and_keeps_no_server_from_starting(
    cluster: Cluster, logged: list[Any], found: CapturedTable | HeadwaterError | None, event: str
) -> None:
    source = Catalog(found)
    alerts = RowAlerts(config(), source.find)
    assert source.asked == 0
    alerts.start()
    wait_until(lambda: source.asked >= 3, "it to be looked at again")
    assert set(events(logged)) == {event}
    if event == "row_alert_stopped":
        assert len(logged) == 1, "told once"
    source.found = FITS
    until_running(alerts)
    alerts.close()
    assert cluster.groups == {GROUP: {TOPIC: {0: 7}}}


def test_an_alert_waits_for_its_topic(cluster: Cluster, logged: list[Any]) -> None:
    del cluster.topics[TOPIC]
    alerts = RowAlerts(config(), Catalog(FITS).find)
    alerts.start()
    wait_until(lambda: len(logged) >= 2, "it to be looked for again")
    assert set(events(logged)) == {"row_alert_waits"}
    assert "no topic shop.public.orders yet" in logged[0]["error"]
    cluster.topics[TOPIC] = {0: 0, 1: 3}
    until_running(alerts)
    alerts.close()
    assert cluster.groups == {GROUP: {TOPIC: {0: 0, 1: 3}}}


def test_a_group_that_has_offsets_goes_on_there(cluster: Cluster) -> None:
    assert begin_at_end(cluster, GROUP, TOPIC)  # type: ignore[arg-type]
    cluster.topics[TOPIC] = {0: 9}
    assert not begin_at_end(cluster, GROUP, TOPIC)  # type: ignore[arg-type]
    assert cluster.groups == {GROUP: {TOPIC: {0: 7}}}


@pytest.mark.usefixtures("cluster")
def test_what_kafka_does_not_hold_any_more_ends_the_alert_and_what_passes_does_not(
    logged: list[Any],
) -> None:
    alerts = RowAlerts(config(), Catalog(FITS).find)
    Reader.fail(RetryableError("Kafka does not answer"))
    alerts.start()
    wait_until(lambda: "row_alert_waits" in events(logged), "it to wait")
    until_running(alerts)
    Reader.fail(LogError("offset 5 is gone"))
    wait_until(lambda: "row_alert_stopped" in events(logged), "it to end")
    wait_until(lambda: not alive("alert big"), "its thread to end")
    assert next(one.value for one in alerts.samples()) == 0
    alerts.close()


def test_of_servers_over_one_view_the_one_that_reads_runs(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cluster
    asked: list[str] = []
    settings = {"view": "v", "when": "after.id = 1", "webhook": "http://localhost"}
    view = View(store="cache", key=("id",), sql="select", change_stream=True)
    declared = config().model_copy(
        update={
            "views": {"v": view},
            "alerts": Alerts(secret_file="s", rows={"big": RowAlert.model_validate(settings)}),
        }
    )

    @contextmanager
    def session(_: Config) -> Iterator[object]:
        yield object()

    def held(_: object, __: str, alert: str) -> bool:
        asked.append(alert)
        return False

    monkeypatch.setattr(view_source, "feed_session", session)
    monkeypatch.setattr(view_source, "hold_alert", held)
    alerts = RowAlerts(declared, Catalog(None).find)
    alerts.start()
    wait_until(lambda: len(asked) >= 3, "it to ask again and again")
    told = {one.metric: one.value for one in alerts.samples()}
    assert told[catalog.ROW_ALERT_RUNNING] == 0
    assert catalog.ROW_ALERT_LAG not in told, "another server knows it"
    monkeypatch.setattr(ViewReader, "read", first_read)
    until_running(alerts)
    assert catalog.ROW_ALERT_LAG in {one.metric for one in alerts.samples()}
    alerts.close()


def first_read(reader: ViewReader, timeout_s: float) -> list[Any]:
    """The other server has gone: the log is entered."""
    column = {"name": "id", "schema": "pg_catalog", "type": "int4", "kind": "base", "base": "int4"}
    log: Any = SimpleNamespace(epoch="e", columns=[column | {"typmod": -1}], key=("id",), view="v")
    reader._enter(log)
    threading.Event().wait(timeout_s)  # nothing comes
    return []


def alive(name: str) -> bool:
    return any(one.name == name for one in threading.enumerate())


@pytest.mark.parametrize("when", ["after.total >", "after.total ! 1"])
def test_a_condition_that_does_not_parse_is_refused_at_once(when: str) -> None:
    with pytest.raises(UsageError, match=r"alerts\.rows\.big: at character"):
        RowAlerts(config(when), Catalog(None).find)


def test_a_table_whose_topic_has_no_events_is_refused() -> None:
    found = config()
    routes = (RouteSettings(tables=("public.orders",), content="row"),)
    source = Source(name="shop", dsn="postgresql://nowhere", tables=("public.*",), routes=routes)
    told = r"alerts\.rows\.big\.table: public\.orders: its topic shop\.public\.orders has no events"
    with pytest.raises(UsageError, match=told):
        fitting_relation(found.model_copy(update={"source": source}), "big", lambda _: FITS)
    assert fitting_relation(found, "big", lambda _: FITS) == FITS.relation
