"""Builds and rollbacks of views that the state database keeps: asked, waited for, told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from cdc.plural import plural
from headwater.cli.common.output import err, out, print_error, print_json
from headwater.cli.view.request import carried_out, command, result

if TYPE_CHECKING:
    from cdc.config import Config
    from jobs.state.views.commands import Answer

_NOBODY = "no process applies it: run `headwater apply`"


def build(
    reload: Callable[[], Config],
    kind: str,
    views: Sequence[str],
    hold: bool,
    as_json: bool,
    new_history: bool = False,
    refill: bool = False,
) -> None:
    """Have views built side by side. Exits with 1 where one of them was not."""
    answers = carried_out(
        reload,
        [command(kind, view, hold=hold, new_history=new_history, refill=refill) for view in views],
    )
    built = [one.result for one in answers if one.error is None and one.result is not None]
    applied = bool(built) and is_kept(reload())
    if as_json:
        print_json([{**one, "applied": applied} for one in built])
    else:
        for one in built:
            out().print(said(one, applied), soft_wrap=True)
    _exit_with_faults(answers)


def drop_kept(reload: Callable[[], Config], views: Sequence[str], generation: int | None) -> None:
    """Have views dropped, or a generation of one. Exits with 1 where one of them was not."""
    if not views:
        return
    answers = carried_out(reload, [command("drop", view, generation=generation) for view in views])
    for view, answer in zip(views, answers, strict=True):
        if answer.error is None and answer.result is not None:
            told_of_drop(view, answer.result["dropped"])
    if len(answers) == 1 and answers[0].error is not None:
        raise answers[0].error
    _exit_with_faults(answers)


def told_of_drop(view: str, dropped: Sequence[int]) -> None:
    for number in dropped:
        out().print(f"{view}: generation {number} dropped")


def _exit_with_faults(answers: Sequence[Answer]) -> None:
    """Print each fault once; ``typer.Exit`` if there is one."""
    failed = [one.error for one in answers if one.error is not None]
    for fault in dict.fromkeys(map(str, failed)):
        print_error(fault)
    if failed:
        raise typer.Exit(max(error.exit_code for error in failed))


def said(built: dict[str, Any], applied: bool) -> str:
    """One line: what is live now, and how long it took."""
    state = "is live" if built["live"] else "is held beside what is live"
    then = "" if applied or not built["live"] else f"; {_NOBODY}"
    return (
        f"{built['view']}: generation {built['generation']} {state}: "
        f"{plural(built['rows'], 'row')}, in {built['seconds']:.1f} s{then}"
    )


def told_of_rollback(reload: Callable[[], Config], view: str, to: int | None) -> None:
    """Show a retired generation again, and say which."""
    from headwater.cli.common.format import age
    from headwater.cli.view.display import utc

    done = result(reload, command("rollback", view, to=to))
    instead = f", instead of {done['instead_of']}" if done["instead_of"] else ""
    left = f"{utc(done['retired_s'])} UTC ({age(time.time() - done['retired_s'])} ago)"
    then = "what has changed since is made up for"
    if not is_kept(reload()):
        then = _NOBODY
    out().print(
        f"{view}: generation {done['generation']} is live again{instead}, left {left}; {then}",
        soft_wrap=True,
    )
    if not done["as_declared"]:
        err().print(
            f"{view}: its SQL, key or store is not what is declared, it stays as it was built: put "
            f"the old declaration back, or `headwater view rebuild {view}` builds the declared one",
            style="yellow",
            soft_wrap=True,
        )


def is_kept(config: Config) -> bool:
    """Whether a process keeps the views of the source now."""
    from cdc.errors import HeadwaterError
    from jobs.state.server.apply_lock import database_holder
    from jobs.state.views.view_status import state_session

    try:
        with state_session(config) as conn:
            return conn is not None and bool(database_holder(conn))
    except HeadwaterError:
        return False
