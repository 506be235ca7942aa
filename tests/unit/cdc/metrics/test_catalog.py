"""The catalog of metrics, its page, and what Prometheus reads of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from cdc.lag.measure import PartitionLag
from cdc.lag.report import Assessor, Block, Report
from cdc.lag.states import State
from cdc.metrics import catalog, forecast_catalog, serve_catalog
from cdc.metrics.catalog import CATALOG, Metric
from cdc.metrics.exposition import Sample, registry_of
from cdc.metrics.forecast_samples import (
    SnapshotProgress,
    snapshot_samples,
    source_forecasts,
    view_forecasts,
)
from cdc.metrics.lag_samples import capture_samples, view_samples
from tests.unit.cdc.lag.test_report import SLOT, lag, partition

STOPPED = Block("stopped", "its column is gone")
PAGE = Path(__file__).parents[4] / "docs/metrics.md"


def row(metric: Metric) -> str:
    labels = [*metric.labels, *([metric.name] if metric.states else [])]
    shown = ", ".join(f"`{label}`" for label in labels)
    return f"| `{metric.exported}` | {metric.kind} | {shown} | {metric.help} {metric.tells} |"


@pytest.mark.parametrize("metric", CATALOG, ids=lambda metric: metric.name)
def test_names_and_units_follow_prometheus_and_the_page_has_each(metric: Metric) -> None:
    assert re.fullmatch(r"headwater_[a-z0-9_]+[a-z0-9]", metric.name)
    assert not metric.name.endswith(("_total", "_info", "_count", "_sum", "_bucket"))
    assert not re.search(r"_(ms|milliseconds|mb|kb|minutes)(_|$)", metric.name)
    assert (metric.kind == "stateset") == bool(metric.states)
    assert metric.help.endswith(".")
    assert metric.tells.endswith(".")
    assert row(metric) in PAGE.read_text(encoding="utf-8")


def test_names_are_unique_and_the_page_has_no_others() -> None:
    assert len({metric.name for metric in CATALOG}) == len(CATALOG)
    named = re.findall(r"^\| `(headwater_\w+)`", PAGE.read_text(encoding="utf-8"), re.M)
    assert named == [metric.exported for metric in CATALOG]


def whole_report() -> Report:
    """One that has something of everything."""
    slot = SLOT._replace(
        safe_wal_size=9, inactive_since_s=5.0, spilled_bytes=3, spilled_transactions=1,
        wait_event="Client/WalSenderWaitForWal", catalog_xmin_age=4, oldest_transaction_s=2.0,
        volume_bytes=1 << 30, volume_free_bytes=1 << 29, clock_ahead_s=0.1,
    )  # fmt: skip
    views = (partition(0, 4, 5, behind_s=0.4, lost_records=2), partition(1, moved_s=98.0))
    assessor = Assessor(10.0)
    assessor.report(lag(*views, at_s=60.0, slot=slot._replace(wal_end=990)))
    assessor.report(lag(*views, at_s=90.0, slot=slot))
    caught_up: PartitionLag = partition(0, 5, 5, lost_records=2)
    return assessor.report(lag(caught_up, views[1], at_s=100.0, slot=slot), {}, {"v": 1})


def whole() -> Iterable[Sample]:
    report = whole_report()
    yield Sample(catalog.BUILD, ("0.1.0", "capture"), 1)
    yield Sample(catalog.MEASURED, ("capture",), 100.0)
    for metric in (catalog.CAPTURE_RECORDS, catalog.CAPTURE_RECEIVED, catalog.CAPTURE_DURABLE,
                   catalog.CAPTURE_CONFIRMED):  # fmt: skip
        yield Sample(metric, ("shop",), 7)
    yield Sample(catalog.CAPTURE_DEAD_LETTERS, ("shop",), 0)
    yield Sample(catalog.CAPTURE_NULL_VALUES, ("shop",), 0)
    yield Sample(catalog.SOURCE_HEARTBEAT_EVERY, ("shop",), 10.0)
    yield from capture_samples("shop", report, 100.0)
    yield from source_forecasts("shop", report.capture)
    yield from snapshot_samples("shop", [SnapshotProgress(7, 10, 0.5, 9.0, 99.0)])
    yield from view_samples("shop", "v", report.views[0], 0.0, 100.0, 100.0)
    late = Assessor(10.0).report(lag(partition(0, 4, 5, behind_s=0.4, in_kafka_s=0.3)))
    yield from view_samples("shop", "w", late.views[0], 0.0, 100.0, 100.0)
    yield from view_forecasts("shop", late.views[0], {"shop.public.orders": 60.0})
    yield Sample(catalog.VIEW_LAG_TARGET, ("shop", "w"), 300.0)
    stopped = Assessor(10.0).report(lag(partition(), slot=SLOT._replace(pid=None)), {"v": STOPPED})
    yield from capture_samples("other", stopped, 100.0)
    yield from view_samples("other", "v", stopped.views[0], 0.0, 100.0, 100.0)
    yield Sample(forecast_catalog.VIEW_VERIFIED, ("shop", "w"), 100.0)
    yield Sample(forecast_catalog.VIEW_VERIFIED_LSN, ("shop", "w"), 1 << 24)
    yield Sample(forecast_catalog.VIEW_DIFFERENCES, ("shop", "w"), 0)
    yield Sample(serve_catalog.STREAMS_CUT, ("shop", "slow"), 1)
    for metric in vars(serve_catalog).values():
        if isinstance(metric, Metric) and metric.labels == ("source", "alert"):
            yield Sample(metric, ("shop", "big"), State.IDLE if metric.states else 1)
    for metric in (serve_catalog.STREAMS, serve_catalog.STREAMS_REFUSED, serve_catalog.EVENTS):
        yield Sample(metric, ("shop",), 2)


@pytest.mark.parametrize("form", ["plain", "openmetrics"])
def test_what_is_exported_is_parsed_and_is_all_of_the_catalog(form: str) -> None:
    registry = registry_of(whole)
    if form == "plain":
        families = list(plain(generate_latest(registry).decode()))
    else:
        text = generate_openmetrics(registry).decode()  # type: ignore[no-untyped-call]
        families = list(openmetrics(text))  # type: ignore[no-untyped-call]
    found = {one.name for family in families for one in family.samples
             if one.name.startswith("headwater_")}  # fmt: skip
    assert found == {metric.exported for metric in CATALOG}
    helped = {family.name: family.documentation for family in families}
    for metric in CATALOG:
        known = helped.get(metric.name) or helped.get(metric.exported)
        assert known == metric.help


def samples_of(metric: Metric, samples: Iterable[Sample]) -> dict[str, float]:
    families = plain(generate_latest(registry_of(lambda: samples)).decode())
    return {
        one.labels.get(metric.name, ""): one.value
        for family in families
        for one in family.samples
        if one.name == metric.exported
    }


def test_of_a_state_set_exactly_one_is_set_and_all_are_there() -> None:
    found = samples_of(catalog.VIEW_STATE, view_samples("s", "v", None, None, 0.0, 0.0))
    assert found == {state.value: float(state is State.NO_DATA) for state in State}


def test_what_is_not_known_has_no_sample() -> None:
    names = {one.metric for one in view_samples("s", "v", None, None, 0.0, 0.0)}
    assert names == {catalog.VIEW_STATE}
    unstarted = Assessor(10.0).report(lag(partition(0, None, 9))).views[0]
    assert {one.metric for one in view_samples("s", "v", unstarted, 0.0, 0.0, 0.0)} == names
    assert {one.metric for one in capture_samples("s", None, 0.0)} == {catalog.CAPTURE_STATE}


def test_lag_grows_between_a_measurement_and_a_scrape() -> None:
    late = Assessor(10.0).report(lag(partition(0, 4, 5, behind_s=4.0), at_s=100.0)).views[0]
    for scraped_s, lag_s in ((100.0, 4.0), (107.5, 11.5)):
        found = view_samples("s", "v", late, 0.0, 100.0, scraped_s)
        assert samples_of(catalog.VIEW_LAG_SECONDS, found) == {"": lag_s}
    done = Assessor(10.0).report(lag(partition(), at_s=100.0)).views[0]
    found = view_samples("s", "v", done, 0.0, 100.0, 107.5)
    assert samples_of(catalog.VIEW_LAG_SECONDS, found) == {"": 0.0}


def test_the_cause_that_blocks_a_view_is_a_label() -> None:
    blocked = Assessor(10.0).report(lag(partition()), {"v": Block("stopped", "full")}).views[0]
    (found,) = [one for one in view_samples("s", "v", blocked, 0.0, 0.0, 0.0)
                if one.metric is catalog.VIEW_BLOCKED]  # fmt: skip
    assert (found.labels, found.value) == (("s", "v", "stopped"), 1)
