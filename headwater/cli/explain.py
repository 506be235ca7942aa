"""``headwater explain``: what an alarm means and what to do, without any server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cdc.alarms.alarm import Alarm


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("explain")(explain)


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="An alarm: HW001. Default: list all.")
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Print all alarms as a rule file for Prometheus.")
    ] = False,
    inhibitions: Annotated[
        bool, typer.Option("--inhibitions", help="Print what silences what, for Alertmanager.")
    ] = False,
    minute: Annotated[
        float,
        typer.Option(
            "--minute",
            metavar="SECONDS",
            min=0.1,
            max=60,
            help="With --rules: seconds per rule minute; use less to try alarms.",
        ),
    ] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain an alarm: what it means, likely causes, what to look at, how to recover.

    It asks no server and reads no configuration.

    \b
    Examples:
      headwater explain
      headwater explain HW001
      headwater explain --rules > headwater.rules.yml
    """
    from cdc.alarms.page import document, text
    from cdc.alarms.rules import alertmanager_inhibitions, prometheus_rules
    from headwater.cli.common.output import out, print_json

    if rules or inhibitions:
        typer.echo(prometheus_rules(minute) if rules else alertmanager_inhibitions(), nl=False)
    elif as_json:
        print_json([document(alarm) for alarm in _chosen(code)])
    elif code:
        out().print(text(_chosen(code)[0]), markup=False, soft_wrap=True)
    else:
        for alarm in _chosen(None):
            typer.echo(f"{alarm.code}  {alarm.severity:8}  {alarm.name:16}  {told(alarm.summary)}")


def told(summary: str) -> str:
    """A summary of no source in particular: ``view VIEW has ...``."""
    return summary.replace("{source}: ", "").format(view="VIEW", snapshot="SNAPSHOT", alert="NAME")


def _chosen(code: str | None) -> list[Alarm]:
    """One alarm, or all. Raises ``UsageError`` for an unknown code, with those that are near."""
    import re
    from difflib import get_close_matches

    from cdc.alarms.catalog import ALARMS
    from cdc.errors import UsageError

    if not code:
        return list(ALARMS)
    known = {name: alarm for alarm in ALARMS for name in (alarm.code, alarm.name)}
    wanted = re.sub(r"^hw0*(\d{1,3})$", lambda found: f"HW{int(found[1]):03}", code, flags=re.I)
    wanted = re.sub(r"^headwater", "", wanted, flags=re.I).lower()
    found = next((alarm for name, alarm in known.items() if name.lower() == wanted), None)
    if found is None:
        near = get_close_matches(wanted, [name.lower() for name in known], n=2)
        meant = [name for name in known if name.lower() in near]
        raise UsageError(
            f"no alarm {code!r}",
            f"run `headwater explain`: it lists {ALARMS[0].code} to {ALARMS[-1].code}"
            + f". Did you mean {' or '.join(meant)}?" * bool(meant),
        )
    return [found]
