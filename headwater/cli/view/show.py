"""``headwater view show``: one view, from its SQL to what it holds by now."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from cdc.errors import HeadwaterError, one_line
from cdc.plural import plural
from headwater.cli.common.format import size
from headwater.cli.view import state_views
from headwater.cli.view.display import described, generations
from headwater.cli.view.position import reached

if TYPE_CHECKING:
    from rich.console import Console

    from cdc.config import Config
    from cdc.kafka.broker import Broker
    from views.parse.definition import ViewDefinition

Document = dict[str, Any]


def outline(config: Config, name: str) -> Document:
    """A view as it was built, or is declared, with its generations: what needs neither source nor
    Kafka. Raises ``ViewError`` for SQL that cannot be read."""
    from verification.view_facts import is_kept_by_state, kept

    if is_kept_by_state(config, name):
        return state_views.outline(config, name, described(config, name))
    found, declared = described(config, name), config.views[name]
    definition = kept(config, name)
    changed = _changed(config, name)
    return found | {
        "store": definition.store,
        "store_kind": config.store(definition.store).kind,
        "settings": declared.model_dump(exclude={"store", "key", "sql"}, exclude_defaults=True),
        "sql": dedent((definition if changed else declared).sql).strip(),
        "key": list(definition.key),
        "declared_otherwise": changed,
        "tables": [{"table": table} for table in definition.table_names],
        **dict.fromkeys(("plan", "below_lsn", "lag", "replay")),
        "problems": [],
    }


def gathered(config: Config, name: str) -> Document:
    """All that is known of a view, as JSON. ``problems`` say what is not known, and why."""
    from cdc.kafka.broker import Broker
    from verification.view_facts import is_kept_by_state, kept

    found = outline(config, name)
    if is_kept_by_state(config, name):
        return state_views.gathered(config, name, found)
    definition = kept(config, name)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        for learn in (_plan, _standing):
            try:
                found |= learn(config, name, definition, broker)
            except HeadwaterError as error:
                if str(error) not in found["problems"]:
                    found["problems"].append(str(error))
    return found


def _changed(config: Config, name: str) -> str:
    """What of the declaration is another than the live generation was built with."""
    from jobs.generations.declaration import declared, differing
    from jobs.generations.generation_record import read_generations
    from jobs.generations.view_state import view_directory
    from views.parse.definition import parse_view

    view = config.views[name]
    live = read_generations(view_directory(config.apply.state, config.source.name, name)).live
    wanted = parse_view(name, view.store, view.key, view.sql, view.history)
    return "" if live is None else differing(live.declared, declared(wanted))


def _plan(config: Config, name: str, definition: ViewDefinition, broker: Broker) -> Document:
    from jobs.generations.view_state import view_directory
    from jobs.without_mirrors.column_names import Names, live_state
    from jobs.without_mirrors.table_descriptions import described as versions_of
    from jobs.without_mirrors.table_descriptions import newest
    from views.spark.description import plan
    from views.spark.generation_names import called_now
    from views.spark.view import resolve_view

    live = live_state(view_directory(config.apply.state, config.source.name, name))
    versions = versions_of(broker, config.source.name, definition)
    names = Names(broker, config.source.own_topic, definition, live)
    tables = newest(names.under(versions))
    made = plan(resolve_view(definition, tables))
    renamed = {
        table.table: {
            column: sent
            for column, sent in called_now(tables[table.table]).items()
            if column in table.columns
        }
        for table in made.tables
    }
    document = {
        "kept": made.kept,
        "changes": [step._asdict() for step in made.steps],
        "rows": made.rows,
        "rows_sql": made.rows_sql,
    }
    found = [{**one._asdict(), "called_now": renamed[one.table]} for one in made.tables]
    return {"tables": found, "plan": document}


def _standing(config: Config, name: str, definition: ViewDefinition, broker: Broker) -> Document:

    source = config.source
    named = (source.own_topic(one.schema, one.table) for one in definition.occurrences)
    return reached(config, name, list(dict.fromkeys(named)), broker)


def shown(found: Document, console: Console, with_plan: bool) -> None:
    """For people; wide as the terminal, also one of 80 columns."""
    from rich.table import Table
    from rich.text import Text

    state = f"generation {found['live']} is live" if found["live"] else "not built yet"
    place = f"{found['store']} ({found['store_kind']})"
    console.print(Text.assemble((found["view"], "bold"), f": {state}, in {place}"))
    console.print()
    _print_sql(found["sql"], console)
    console.print()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for title, text in _facts(found):
        grid.add_row(title, Text(text))
    console.print(grid)
    if with_plan and found["plan"]:
        _print_queries(found["plan"], console)
    if found["generations"]:
        console.print()
        console.print(generations(found))


def _facts(found: Document) -> Iterator[tuple[str, str]]:
    if stopped := found["stopped"]:
        yield "stopped", f"at {stopped['at']}: {one_line(stopped['fault'], stopped['hint'])}"
    if error := found.get("error"):
        yield "stopped", one_line(error, "it is tried again by itself")
    elif not stopped and found.get("applied") is False:
        yield "stopped", "no process applies it: `headwater apply` does"
    if refused := found.get("build_error"):
        yield "build", f"refused: {refused}; what readers see goes on"
    if changed := found["declared_otherwise"]:
        yield "declared", f"{changed} changed since: run `headwater view rebuild {found['view']}`"
    yield "key", ", ".join(found["key"])
    for number, table in enumerate(found["tables"]):
        columns = f": {', '.join(table['columns'])}" if "columns" in table else ""
        keyed = f" (key {', '.join(table['key'])})" if "key" in table else ""
        mirror = _mirror(table.get("mirror"))
        yield "" if number else "tables", f"{table['table']}{keyed}{columns}{mirror}"
    for table in found["tables"]:
        for column, name in table.get("called_now", {}).items():
            yield "renamed", f"{column} of {table['table']} is called {name} in the source now"
    for number, (name, value) in enumerate(found["settings"].items()):
        yield "" if number else "settings", f"{name} = {value}"
    plan = found["plan"]
    if plan:
        yield "kept from", plan["kept"]
        for number, step in enumerate(plan["changes"]):
            called = f"{step['table']} {step['alias']}"
            yield "" if number else "a change", f"of {called}: {step['words']}"
        if plan["rows"]:
            yield "its rows", plan["rows"]
        if plan.get("groups"):
            yield "its groups", plan["groups"]
        for number, granted in enumerate(plan.get("assumes", ())):
            yield "" if number else "assumes", granted
    if reason := found.get("reason"):
        yield "", reason
    if found["lag"]:
        yield "holds", _holds(found)
    if proven := found.get("proof"):
        yield "checked", proven
    if found["replay"]:
        replay = found["replay"]
        yield "replay", f"from {replay['from']}: {plural(replay['left_records'], 'record')} left"
    of_live = (one for one in found["generations"] if one["generation"] == found["live"])
    parked = found.get("parked_keys", sum(one["parked_keys"] for one in of_live))
    if parked:
        keys = plural(parked, "key")
        yield "parked", f"{keys}, and not in it: headwater dead-letters list {found['view']}"


def _mirror(held: Document | None) -> str:
    """The mirror of a table in the state database."""
    if held is None:
        return ""
    stale = "" if held["reason"] is None else f", {held['state']}: {held['reason']}"
    return f"; mirror: {plural(held['rows'], 'row')}, {size(held['bytes'])}{stale}"


def _holds(found: Document) -> str:
    lag = found["lag"]
    if lag["lost_records"]:
        return f"not all: {lag['lost_records']:,} records were lost to retention"
    if found["below_lsn"] is None:
        return "nothing yet"
    behind = f"{lag['behind_records']:,} records, {lag['behind_s']:,.1f} s behind"
    return f"what was committed below {found['below_lsn']}; {behind}"


def _print_queries(plan: Document, console: Console) -> None:
    if not plan["changes"]:
        return
    for step in plan["changes"]:
        if not step["sql"]:
            continue
        said = f"keys that a change of {step['table']} {step['alias']} touches"
        console.print(f"\n{said}", style="dim", markup=False)
        _print_sql(step["sql"], console)
    console.print("\nrows of touched keys", style="dim")
    _print_sql(plan["rows_sql"], console)


def _print_sql(sql: str, console: Console) -> None:
    """Highlighted on a terminal; elsewhere as it is."""
    from rich.syntax import Syntax

    if not console.is_terminal:
        console.print(sql, markup=False, soft_wrap=True)
        return
    theme = "ansi_dark"
    console.print(Syntax(sql, "sql", theme=theme, background_color="default", word_wrap=True))
