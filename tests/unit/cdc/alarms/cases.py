"""For each alarm figures with which it fires, and figures that look like them with which it must
not. Both promtool and the judge in our own processes have to say so."""

from __future__ import annotations

from typing import Final, NamedTuple

from cdc.alarms.catalog import BY_CODE
from cdc.metrics import catalog as m
from cdc.metrics import forecast_catalog as f
from cdc.metrics import serve_catalog as s
from cdc.metrics.metric import Metric

STEP_S: Final = 30
MINUTES: Final = 30
_LABELS: Final = {"source": "shop", "view": "orders", "snapshot": "7", "alert": "big"}


class Line(NamedTuple):
    """Values from ``start``, by ``step`` each ``STEP_S``, from ``since_s`` on, and none any more
    from ``until_s`` on; of a state set, or of a metric with a cause, the one that holds is
    ``word``. ``process`` tells apart what two of them export."""

    metric: Metric
    start: float
    step: float = 0.0
    word: str = ""
    since_s: int = 0
    until_s: int = MINUTES * 60 * 2
    process: str = ""
    view: str = "orders"

    @property
    def labels(self) -> tuple[str, ...]:
        """Values of the metric's labels."""
        own = _LABELS | {"view": self.view}
        return tuple(own.get(name, self.word) for name in self.metric.labels)

    def at(self, now_s: float) -> float:
        return self.start + self.step * (now_s - self.since_s) / STEP_S


class Case(NamedTuple):
    code: str
    lines: tuple[Line, ...]
    fires: bool
    why: str

    @property
    def of_one_process(self) -> bool:
        """Whether a process may export all of it and judge itself."""
        return len({line.process for line in self.lines}) == 1

    @property
    def fired(self) -> dict[str, str]:
        """The labels that it fires with."""
        metric = self.lines[0].metric
        names = metric.labels if metric.states or not self.lines[0].word else metric.labels[:-1]
        return {name: _LABELS[name] for name in names}


def _moves(metric: Metric) -> Line:
    return Line(metric, 0, STEP_S)


def _case(code: str, why: str, *lines: Line) -> Case:
    assert code in BY_CODE
    return Case(code, lines, True, why)


def _quiet(code: str, why: str, *lines: Line) -> Case:
    return Case(code, lines, False, why)


_EVERY = Line(m.SOURCE_HEARTBEAT_EVERY, 10)
_MB: Final = float(1 << 20)

CASES: Final = (
    _case("HW001", "the mark is old", Line(m.CAPTURE_MARK, 0), _EVERY,
          Line(m.CAPTURE_STATE, 1, word="source unknown")),
    _case("HW001", "it stalls", Line(m.CAPTURE_STATE, 1, word="stalled")),
    _quiet("HW001", "marks come", _moves(m.CAPTURE_MARK), _EVERY,
           Line(m.CAPTURE_STATE, 1, word="catching up")),
    _quiet("HW001", "it works through old heartbeats", Line(m.CAPTURE_HEARTBEAT, 0),
           _moves(m.CAPTURE_MARK), _EVERY, Line(m.CAPTURE_STATE, 1, word="catching up")),
    _quiet("HW001", "a large transaction has no mark yet", Line(m.CAPTURE_MARK, 0), _EVERY,
           Line(m.CAPTURE_STATE, 1, word="falling back")),
    _quiet("HW001", "apply cannot look", _moves(m.CAPTURE_MARK), _EVERY,
           Line(m.CAPTURE_STATE, 1, word="no data")),
    _quiet("HW001", "only apply does not reach the source", _moves(m.CAPTURE_MARK), _EVERY,
           Line(m.CAPTURE_STATE, 1, word="idle", process="capture"),
           Line(m.CAPTURE_STATE, 1, word="source unknown", process="apply")),
    _case("HW002", "nobody reads it", Line(m.SLOT_ACTIVE, 0)),
    _quiet("HW002", "somebody does", Line(m.SLOT_ACTIVE, 1)),
    _case("HW003", "only one moves", Line(m.SLOT_RESTART, 5), Line(m.SLOT_CONFIRMED, 9, 1)),
    _quiet("HW003", "both move", Line(m.SLOT_RESTART, 5, 1), Line(m.SLOT_CONFIRMED, 9, 1)),
    _quiet("HW003", "nothing is written", Line(m.SLOT_RESTART, 5), Line(m.SLOT_CONFIRMED, 9)),
    _case("HW004", "an hour is left", Line(f.SLOT_FORECAST, 3_600)),
    _case("HW004", "the disk is full in an hour", Line(f.DISK_FORECAST, 3_600)),
    _case("HW004", "the disk is full first", Line(f.DISK_FORECAST, 3_600),
          Line(f.SLOT_FORECAST, 86_400)),
    _case("HW004", "a checkpoint may take it", Line(m.SLOT_WAL_STATUS, 1, word="unreserved")),
    _quiet("HW004", "a day is left", Line(f.SLOT_FORECAST, 86_400), Line(f.DISK_FORECAST, 86_400),
           Line(m.SLOT_WAL_STATUS, 1, word="extended")),
    _case("HW005", "lost", Line(m.SLOT_WAL_STATUS, 1, word="lost")),
    _case("HW005", "dropped", Line(m.CAPTURE_BLOCKED, 1, word="no slot")),
    _quiet("HW005", "only not read", Line(m.CAPTURE_BLOCKED, 1, word="not running"),
           Line(m.SLOT_WAL_STATUS, 1, word="reserved")),
    _case("HW006", "a third", Line(m.SLOT_RETAINED, 33 * _MB), Line(f.SOURCE_VOLUME, 100 * _MB)),
    _quiet("HW006", "a fifth", Line(m.SLOT_RETAINED, 20 * _MB), Line(f.SOURCE_VOLUME, 100 * _MB)),
    _quiet("HW006", "of unknown size", Line(m.SLOT_RETAINED, 33 * _MB)),
    _case("HW007", "late", Line(m.VIEW_LAG_SECONDS, 301), Line(m.VIEW_LAG_TARGET, 300)),
    _quiet("HW007", "in time", Line(m.VIEW_LAG_SECONDS, 299), Line(m.VIEW_LAG_TARGET, 300)),
    _case("HW008", "stalled", Line(m.VIEW_STATE, 1, word="stalled")),
    _quiet("HW008", "at work", Line(m.VIEW_STATE, 1, word="falling back")),
    _case("HW009", "half is used", Line(f.VIEW_RETENTION_USED, 0.51)),
    _case("HW009", "records are lost", Line(m.VIEW_LOST, 1)),
    _quiet("HW009", "a third is used", Line(f.VIEW_RETENTION_USED, 0.33), Line(m.VIEW_LOST, 0)),
    _case("HW010", "a key waits", Line(m.VIEW_PARKED, 1)),
    _case("HW010", "records are cut", Line(m.CAPTURE_DEAD_LETTERS, 0, 1)),
    _quiet("HW010", "none, and old ones of capture", Line(m.VIEW_PARKED, 0),
           Line(m.CAPTURE_DEAD_LETTERS, 3)),
    _case("HW011", "stopped", Line(m.VIEW_BLOCKED, 1, word="stopped")),
    _quiet("HW011", "only not applied", Line(m.VIEW_BLOCKED, 1, word="not applied")),
    _case("HW012", "no chunk", Line(f.SNAPSHOT_MOVED, 0)),
    _case("HW012", "the slot dies before", Line(f.SNAPSHOT_LEFT, 900), Line(f.SLOT_FORECAST, 800)),
    _case("HW012", "the disk is full before", Line(f.SNAPSHOT_LEFT, 900),
          Line(f.DISK_FORECAST, 800), Line(f.SLOT_FORECAST, 9_000)),
    _quiet("HW012", "chunks, and time enough", _moves(f.SNAPSHOT_MOVED),
           Line(f.SNAPSHOT_LEFT, 700), Line(f.SLOT_FORECAST, 800), Line(f.DISK_FORECAST, 800)),
    _case("HW013", "apply is gone", Line(m.VIEW_HEARTBEAT, 0, STEP_S, until_s=300), _EVERY,
          Line(m.VIEW_STATE, 1, word="idle", until_s=300)),
    _case("HW013", "apply cannot measure", Line(m.VIEW_HEARTBEAT, 0, STEP_S, until_s=300), _EVERY,
          Line(m.VIEW_STATE, 1, word="no data")),
    _quiet("HW013", "passed", _moves(m.VIEW_HEARTBEAT), _EVERY,
           Line(m.VIEW_STATE, 1, word="idle")),
    _quiet("HW013", "as late as alerts.lag_s allows", Line(m.VIEW_HEARTBEAT, -200, STEP_S), _EVERY,
           Line(m.VIEW_STATE, 1, word="catching up")),
    _quiet("HW013", "dropped, and apply is there", _EVERY,
           Line(m.VIEW_HEARTBEAT, 0, STEP_S, until_s=300),
           Line(m.VIEW_STATE, 1, word="idle", view="others")),
    _case("HW014", "spills", Line(m.SLOT_SPILLED, 0, _MB)),
    _quiet("HW014", "has spilled", Line(m.SLOT_SPILLED, 9 * _MB)),
    _case("HW015", "differs", Line(f.VIEW_DIFFERENCES, 2)),
    _quiet("HW015", "is equal", Line(f.VIEW_DIFFERENCES, 0)),
    _case("HW016", "the source is behind", Line(m.SOURCE_CLOCK, -1.5)),
    _quiet("HW016", "a little ahead", Line(m.SOURCE_CLOCK, 0.9)),
    _case("HW017", "nobody sends it", Line(s.ROW_ALERT_STATE, 1, word="blocked")),
    _quiet("HW017", "its messages wait", Line(s.ROW_ALERT_STATE, 1, word="stalled")),
    _case("HW018", "a message waits", Line(s.ROW_ALERT_UNDELIVERED, 301),
          Line(s.ROW_ALERT_LIMIT, 300)),
    _case("HW018", "one was given up", Line(s.ROW_ALERT_LETTERS, 1)),
    _quiet("HW018", "what waits has come now", Line(s.ROW_ALERT_UNDELIVERED, 299),
           Line(s.ROW_ALERT_LIMIT, 300), Line(s.ROW_ALERT_LETTERS, 0)),
)  # fmt: skip
