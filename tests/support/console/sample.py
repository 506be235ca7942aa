"""Pages' models of a deployment that is not there: every state, long names, sixty views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from cdc.lag.states import GOOD, State
from headwater.console.words import WORST_FIRST
from headwater.pipeline import pages as p
from headwater.pipeline.picture import (
    Advice,
    AlertLine,
    Arrow,
    FiringAlarm,
    Part,
    Pipeline,
    ViewLine,
)
from headwater.pipeline.work import AuditLine, Freshness, History, Job, Series

NOW_S: Final = 1_795_864_990.0
NASTY: Final = "<script>alert('x')</script>\"&'"
LONG: Final = "orders_of_all_customers_of_every_branch_by_region_and_by_month_" * 2
STATES: Final = {
    "open_orders": State.BLOCKED,
    "customer_totals": State.STALLED,
    "stock_levels": State.FALLING_BACK,
    "product_search": State.CATCHING_UP,
    "invoices": State.FRESH,
    "shipments": State.IDLE,
    "returns": State.NO_DATA,
    "suppliers": State.SOURCE_UNKNOWN,
}
_STORES: Final = (("search", "opensearch"), ("cache", "redis"), ("lake", "delta"))


def advice(code: str = "HW011", view: str = "open_orders") -> Advice:
    return Advice(
        code,
        f"View {view} has stopped: store search refuses the document of 3 keys.",
        "Correct the mapping of its index, then run `headwater apply`.",
        f"headwater explain {code}",
        f"/alarms/{code}",
    )


def view_line(view: str, state: State, number: int = 0) -> ViewLine:
    store, kind = _STORES[number % 3]
    known = state != State.NO_DATA
    late = 0.0 if state in GOOD else 12.5 * (number + 1)
    return ViewLine(
        view=view,
        store=store,
        kind=kind,
        state=state,
        lag_s=late if known else None,
        lag_records=round(late * 130) if known else None,
        lag_bytes=round(late * 40_000) if known else None,
        applied_s=117.0 + number if known else None,
        added_s=131.0 if known else None,
        catch_up_s=95.0 if state == State.CATCHING_UP else None,
        parked_keys=(3 if state == State.BLOCKED else 0) if known else None,
        blocked_by="the store refuses documents" if state == State.BLOCKED else "",
        verified_at_s=NOW_S - 240 if known else None,
        verified_lsn="0/3A2F1B8" if known else None,
        differences=0 if known else None,
        advice=(advice(view=view),) if state == State.BLOCKED else (),
    )


def row_alert(of: str, state: State) -> AlertLine:
    known = state != State.NO_DATA
    why = "no `headwater serve` sends it: start one, or see its log"
    return AlertLine(
        f"{of}_risen", of, state, 3.5 if known else None, 42 if known else None,
        7 if known else None, 2 if known else None, NOW_S - 60 if known else None,
        why if state == State.BLOCKED else "", "", (),
    )  # fmt: skip


def alarm(code: str = "HW011", view: str = "open_orders") -> FiringAlarm:
    return FiringAlarm(
        code, "ViewStopped", "critical", NOW_S - 600, view, "", "",
        f"shop: view {view} has stopped",
        "A fault has ended the view.", ("Do what its error says.",), f"headwater explain {code}",
        f"/alarms/{code}",
    )  # fmt: skip


def pipeline(states: dict[str, State] | None = None, source: str = "shop") -> Pipeline:
    """The worst first, as the server has it."""
    named = STATES if states is None else states
    lines = [view_line(view, state, i) for i, (view, state) in enumerate(named.items())]
    lines.sort(key=lambda one: WORST_FIRST.index(one.state))
    arrows = [
        Arrow(Part.SOURCE, Part.CAPTURE, "", State.FRESH, 412.0, 0.2, None, 12_000),
        Arrow(Part.CAPTURE, Part.TOPICS, "", State.FRESH, 412.0, 0.8, None, 30_000),
    ]
    for line in lines:
        own = line.view, line.state, line.applied_s, line.lag_s, line.lag_records, None
        arrows.append(Arrow(Part.TOPICS, Part.VIEW, *own, line.blocked_by))
        arrows.append(Arrow(Part.VIEW, Part.STORE, *own, line.blocked_by))
    blocked = [one.view for one in lines if one.state == State.BLOCKED]
    return Pipeline(
        source=source,
        state=lines[0].state if lines else State.IDLE,
        measured_at_s=NOW_S,
        problem="",
        wal_lsn="0/3A2F1B8",
        progress_lsn="0/3A2F0A0",
        slot=f"headwater_{source}",
        topics=14,
        arrows=tuple(arrows),
        views=tuple(lines),
        advice=tuple(advice(view=one) for one in blocked),
        alarms=tuple(alarm(view=one) for one in blocked),
    )


def alerted(found: Pipeline) -> Pipeline:
    """With alerts on the rows of its worst views."""
    return replace(found, row_alerts=tuple(row_alert(v.view, v.state) for v in found.views[:3]))


def well() -> Pipeline:
    return pipeline(dict.fromkeys(("open_orders", "customer_totals", "stock"), State.IDLE))


def many() -> Pipeline:
    states = {f"view_{i:02}": State.IDLE if i % 7 else State.CATCHING_UP for i in range(60)}
    return pipeline(states)


def unknown() -> Pipeline:
    """While the source does not answer."""
    found = pipeline(dict.fromkeys(STATES, State.NO_DATA))
    arrows = tuple(
        replace(one, state=State.NO_DATA, records_s=None, lag_s=None) for one in found.arrows
    )
    why = "PostgreSQL at 127.0.0.1:5432 does not answer: connection refused."
    return replace(
        found, state=State.NO_DATA, problem=why, wal_lsn=None, progress_lsn=None, topics=None,
        arrows=arrows, measured_at_s=NOW_S - 95,
        advice=(Advice("", why, "Start the server that does not answer.", "", ""),),
    )  # fmt: skip


def source(state: State = State.FRESH) -> p.SourcePage:
    slot = p.SlotPage(
        slot="headwater_shop", exists=True, active=True, received_lsn="0/3A2F1B8",
        durable_lsn="0/3A2F0A0", confirmed_lsn="0/3A2F0A0", restart_lsn="0/3A00000",
        wal_status="reserved", unconfirmed_bytes=280, retained_bytes=192_000_000,
        safe_bytes=830_000_000, loss_s=5_400.0, disk_free_bytes=41_000_000_000, disk_full_s=None,
        spilled_bytes=0, spilled_transactions=0, walsender_wait="WalSenderMain",
        catalog_xmin_age=120, oldest_transaction_s=0.4, inactive_since_s=None, clock_ahead_s=0.02,
    )  # fmt: skip
    checks = (
        p.Check("ok", "source", "PostgreSQL 18 at 127.0.0.1:5432", ""),
        p.Check("warning", "wal", "max_slot_wal_keep_size is not set",
                "Set it, so that a stopped capture cannot fill the disk."),
        p.Check("error", "view open_orders", f"column {NASTY} is gone", "Rebuild the view."),
    )  # fmt: skip
    return p.SourcePage("shop", state, NOW_S, "0/3A2F1B8", 0.2, 412.0, 96_000.0, "", slot, checks,
                        NOW_S - 40, ())  # fmt: skip


def topics() -> p.TopicsPage:
    parts = tuple(p.PartitionPage(i, 0, 41_233 + i) for i in range(3))
    return p.TopicsPage(
        NOW_S,
        tuple(
            p.TopicPage(f"shop.public.{name}", f"public.{name}", parts, 123_699, 604_800.0, None,
                        "delete", ("open_orders", "customer_totals"))
            for name in ("orders", "customers", "order_lines", LONG)
        ),
    )  # fmt: skip


def view(state: State = State.BLOCKED, name: str = "open_orders") -> p.ViewPage:
    parts = tuple(
        p.ViewPartition("shop.public.orders", i, state, 41_000 + i, 41_233 + i, 233, 80_000, 12.5,
                        12.1, 0)
        for i in range(3)
    )  # fmt: skip
    generations = (
        p.GenerationLine(3, "live", 48_211, 3, "0/39F0000", "2026-11-28T10:02:11Z",
                         "2026-11-28T10:03:40Z", None),
        p.GenerationLine(2, "retired", 47_901, 0, "0/2100000", "2026-11-20T08:00:00Z",
                         "2026-11-20T08:01:10Z", "2026-11-28T10:03:40Z"),
    )  # fmt: skip
    return p.ViewPage(
        line=view_line(name, state),
        measured_at_s=NOW_S,
        sql="select o.id, o.total, c.name as customer, c.city\nfrom orders o join customers c on "
        "c.id = o.customer_id\nwhere not o.shipped and o.note <> '<b>'",
        key=("id",),
        tables=("public.orders", "public.customers"),
        declared_otherwise="",
        applied=True,
        source_to_kafka_s=0.4,
        kafka_to_view_s=12.1,
        partitions=parts,
        generations=generations,
        live=3,
        building=None,
        checked_at_s=NOW_S - 240,
        checked_keys=1_000,
        differing_keys=0,
        not_checked="",
        problems=(),
    )


def snapshots() -> p.SnapshotsPage:
    tables = (
        p.SnapshotTable("public.orders", 1_200_000, 0.62, False, 48_000.0, 15.0, 0),
        p.SnapshotTable("public.customers", 90_000, 1.0, True, None, None, 0),
    )
    running = p.SnapshotLine(7, "tables", "running", "0/3A2F1B8", 1_290_000, 0.71, 48_000.0, 15.0,
                             NOW_S - 31, None, "", tables)  # fmt: skip
    failed = replace(running, id=6, status="failed", rows_s=None, left_s=None, ended_at_s=NOW_S - 9,
                     error="public.orders: the role may not read column note")  # fmt: skip
    paused = replace(running, id=5, status="paused")
    done = replace(running, id=4, status="complete", share=1.0, ended_at_s=NOW_S - 3_600)
    return p.SnapshotsPage(NOW_S, (running, failed, paused, done))


def dead_letters() -> p.DeadLettersPage:
    shown = p.DeadLetterLine(
        "open_orders", ("public.orders",), "shop.public.orders-1-4411", '{"id": 17}', "17",
        f"store search: mapper_parsing_exception: field total {NASTY}", 4, NOW_S - 700,
    )  # fmt: skip
    hidden = replace(shown, id=None, key=None, name=None, cause=None, tables=("public.people",))
    return p.DeadLettersPage(NOW_S, 612, 500, (shown, hidden), ())


def alarms() -> p.AlarmsPage:
    return p.AlarmsPage(NOW_S, pipeline().alarms)


def audit() -> tuple[AuditLine, ...]:
    return (
        AuditLine(NOW_S, "alice", "operator", "127.0.0.1", "rebuild", "open_orders",
                  {"fresh": True}, "done", "j1", ""),
        AuditLine(NOW_S - 9, NASTY, "viewer", "10.0.0.9", "discard", "open_orders", {},
                  "refused", "", "a viewer may not act"),
    )  # fmt: skip


def job() -> Job:
    return Job(
        "j1", "view rebuild", "open_orders", "alice", "running", NOW_S - 20, None,
        ("reading public.orders", "loading generation 4"), 21_000, 48_000, None, "", "",
    )  # fmt: skip


def trace(table: str, key: Any) -> dict[str, Any]:
    """As ``headwater trace --json`` prints it."""
    change = {"offset": 4411, "op": "update", "lsn": "0/3A2F1B8", "ordinal": 1,
              "committed_s": NOW_S - 9, "captured_s": NOW_S - 8, "sent_s": NOW_S - 7}  # fmt: skip
    stored = {"key": {"id": "17"}, "present": True, "version_lsn": "0/3A2F1B8", "batch": None}
    view = {"view": "open_orders", "store": "search", "applied": True, "waits_for": None,
            "row": stored, "row_not_checked": None}  # fmt: skip
    late = view | {"view": "stock", "applied": False, "row": None, "waits_for": "dead letters"}
    searched = {"from": 0, "to": 4412, "all": True}
    return {"table": table, "key": key, "topic": f"shop.{table}", "partition": 1,
            "searched": searched, "changes": [change], "views": [view, late]}  # fmt: skip


def history(views: Iterable[str] = (), points: int = 700, step_s: float = 5.0) -> History:
    at_s = tuple(NOW_S - step_s * (points - 1 - i) for i in range(points))
    lag = tuple(
        None if 100 < i < 120 else abs((i * 37 % 101) - 50) / 25 + (60 if i > points - 40 else 0)
        for i in range(points)
    )
    states = tuple(
        None if one is None else "stalled" if one > 30 else "fresh" if one > 1 else "idle"
        for one in lag
    )
    rates = tuple(None if one is None else 400 + (i * 13 % 57) for i, one in enumerate(lag))
    figures = {"lag_s": lag, "state": states, "records_s": rates}
    series = (Series(name, view, of) for view in views for name, of in figures.items())
    return History(step_s, at_s, tuple(series))


def freshness(view: str) -> Freshness:
    lags_s = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0, 3_600.0)
    return Freshness(view, 24.0, 0.4, lags_s, (0.9, 0.6, 0.4, 0.2, 0.08, 0.04, 0.01, 0.0))
