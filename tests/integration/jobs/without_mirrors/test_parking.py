"""Dead letters of views: a real Kafka, real stores, events written by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bootstrap.build import build
from bootstrap.retention import clear
from bootstrap.switch import switch
from cdc.errors import HeadwaterError, ViewError
from cdc.topics import view_dead_letters_topic
from jobs.without_mirrors.dead_letters.retry import discard, names, retry
from jobs.without_mirrors.views import apply_views
from tests.support.events.events import delete
from tests.support.events.written_topics import V1, V2, row, v1, v2
from tests.support.views.parkings import ONE, TWO, applied, lacking, letters_of, parked
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.views.bootstraps import Setting

LOUD = "select id, body, upper(body) as loud from t"
"""What an UPDATE leaves out of ``body`` is poison here."""


def written(setting: Setting) -> list[str]:
    """The ids of all letters that were ever written, tombstones left out."""
    topic = view_dead_letters_topic(setting.view)
    end = setting.broker.end_offsets([topic])[topic][0]
    records = setting.broker.read(topic, 0, 0, end)
    return [(one.key or b"").decode().partition("/")[2] for one in records if one.value is not None]


def test_what_a_store_cannot_be_given_waits_and_the_rest_flows(cached: Setting) -> None:
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")), lacking(2, 2), v1(3, 1, row(3, "c")))
    assert applied(cached) == {}
    assert cached.shown() == {1: "a", 3: "c"}
    log.write(v1(4, 1, row(2, "later"), "u"), v1(5, 1, row(3, "d"), "u"))
    assert applied(cached) == {}
    assert cached.shown() == {1: "a", 3: "d"}
    assert parked(cached) == {TWO: 2}
    outcome = retry(cached.spark, cached.config, cached.view, None)
    assert ([names(one) for one in outcome.settled], outcome.left) == ([TWO, TWO], {})
    assert cached.shown() == {1: "a", 2: "later", 3: "d"}
    log.write(v1(6, 1, row(2, "flows"), "u"))
    assert applied(cached) == {}
    assert cached.shown() == {1: "a", 2: "flows", 3: "d"}


@pytest.mark.exhaustive
def test_what_is_still_refused_stays_and_a_delete_frees_it(cached: Setting) -> None:
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")), lacking(2, 2), (ONE.encode(), b"odd"), (None, b"odd too"))
    assert applied(cached) == {}
    outcome = retry(cached.spark, cached.config, cached.view, None)
    assert outcome.settled == []
    assert outcome.left[ONE] == "not an event of Headwater"
    assert "neither the change nor the store" in outcome.left[TWO]
    assert len(outcome.left) == 4  # without a key it went to both partitions
    log.write(*delete(5, 1, row(2, None), V1.schema_id()), v1(6, 1, row(2, "new life")))
    assert applied(cached) == {}
    assert cached.shown()[2] == "new life"
    assert TWO not in parked(cached)


@pytest.mark.exhaustive
def test_what_is_discarded_is_missing_and_the_next_event_of_the_key_wins(cached: Setting) -> None:
    log = cached.table.log
    cached.declare(LOUD)
    log.write(v1(1, 1, row(1, "a")), v1(1, 2, row(2, "b")))
    assert applied(cached) == {}
    log.write(lacking(2, 1), lacking(3, 2))
    assert applied(cached) == {}
    with pytest.raises(ViewError, match="1 of the keys are not parked"):
        discard(cached.config, cached.view, ['{"id":9}'])
    outcome = discard(cached.config, cached.view, [ONE])
    assert [names(letter) for letter in outcome.settled] == [ONE]
    assert parked(cached) == {TWO: 1}
    log.write(v1(4, 1, row(1, "next"), "u"), v1(5, 1, row(2, "behind"), "u"))
    assert applied(cached) == {}
    assert cached.shown() == {1: "next", 2: "b"}
    assert parked(cached) == {TWO: 2}


@pytest.mark.exhaustive
def test_a_batch_that_comes_again_writes_no_letter_twice(cached: Setting) -> None:
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")), lacking(2, 2), v1(3, 1, row(3, "c")), (None, b"odd"))
    assert applied(cached) == {}
    uncommit(cached)
    assert applied(cached) == {}
    assert len(written(cached)) == len(set(written(cached))) == 3
    discard(cached.config, cached.view, None)
    uncommit(cached)
    assert applied(cached) == {}
    assert parked(cached) == {}
    assert cached.shown() == {1: "a", 3: "c"}


def uncommit(setting: Setting) -> None:
    """As a kill before the commit of the newest batch leaves the checkpoint."""
    config = setting.config
    commits = Path(config.apply.state) / config.source.name / setting.view / "checkpoint/commits"
    newest = max(commits.glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


@contextmanager
def applying(setting: Setting) -> Iterator[None]:
    """The view is applied until the block ends, and does not fail."""
    stopping, failed = threading.Event(), dict[str, HeadwaterError]()

    def run() -> None:
        failed.update(apply_views(setting.spark, setting.config, [setting.view], stopping))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(120)
    assert failed == {}


def test_letters_are_settled_while_apply_runs_and_it_goes_on(cached: Setting) -> None:
    log = cached.table.log
    cached.declare(LOUD)
    with applying(cached):
        log.write(v1(1, 1, row(1, "a")), lacking(2, 2))
        wait_until(lambda: parked(cached) == {TWO: 1}, "the event to be parked")
        log.write(v1(3, 1, row(2, "mended"), "u"))
        wait_until(lambda: parked(cached) == {TWO: 2}, "the next event behind it")
        retry(cached.spark, cached.config, cached.view, None)
        log.write(v1(4, 1, row(2, "flows"), "u"))
        wait_until(lambda: cached.shown().get(2) == "flows", "the key to flow again")
    assert parked(cached) == {}


@pytest.mark.exhaustive
def test_an_event_of_a_version_described_since_is_no_poison(cached: Setting) -> None:
    log = cached.table.log
    cached.declare(LOUD)
    with applying(cached):
        log.write(v1(1, 1, row(1, "a")))
        wait_until(lambda: cached.shown() == {1: "a"}, "the first row")
        log.describe(V2)
        log.write(lacking(2, 2), *(v2(3, i, row(i, "new", n=i)) for i in range(3, 9)))
        wait_until(lambda: len(cached.shown()) == 7, "the rows of the new version")
    assert parked(cached) == {TWO: 1}
    assert "does not carry its TOASTed value" in letters_of(cached)[0].cause


def test_more_than_the_limit_stops_the_view_until_somebody_looked(cached: Setting) -> None:
    log = cached.table.log
    cached.declare(LOUD, dlq_limit=2)
    log.write(lacking(1, 1), lacking(2, 2))
    assert applied(cached) == {}
    log.write(lacking(3, 3), v1(4, 1, row(4, "d")))
    assert "more than 2 keys would be parked" in str(applied(cached)[cached.view])
    assert parked(cached) == {ONE: 1, TWO: 1}
    discard(cached.config, cached.view, [ONE])
    assert applied(cached) == {}
    assert cached.shown() == {4: "d"}
    assert parked(cached) == {TWO: 1, '{"id":3}': 1}


def test_letters_that_kafka_no_longer_has_are_missed(cached: Setting) -> None:
    cached.declare(LOUD)
    cached.table.log.write(lacking(1, 1))
    assert applied(cached) == {}
    topic = view_dead_letters_topic(cached.view)
    cached.broker.delete_topics([topic])
    wait_until(lambda: topic not in cached.broker.partitions([topic]), "the topic to be gone")
    said = str(applied(cached)[cached.view])
    assert "no longer holds the dead letters of its 1 parked keys" in said


@pytest.mark.exhaustive
def test_a_rebuild_begins_without_letters_and_a_rollback_finds_its_own(cached: Setting) -> None:
    cached.declare(LOUD)
    cached.table.write(row(1, "a"), row(2, "b"))
    assert applied(cached) == {}
    cached.table.touch(2)
    assert applied(cached) == {}
    assert parked(cached) == {TWO: 1}
    build(cached.kit())
    assert parked(cached) == {}
    assert cached.shown() == {1: "a", 2: "b"}
    switch(cached.kit(), 1)
    assert parked(cached) == {TWO: 1}
    clear(cached.kit())
    topic = view_dead_letters_topic(cached.view)
    wait_until(lambda: topic not in cached.broker.partitions([topic]), "the topic to be gone")
