"""Views that were built and are not declared any more: their rows stay in their stores, and their
tables in the state database, until `headwater view drop`."""

from __future__ import annotations

from cdc.config import Config, View
from cdc.errors import HeadwaterError
from jobs.generations.built_views import built_views
from jobs.state.views.view_record import view_records
from jobs.state.views.view_status import state_session


def undeclared_views(config: Config) -> dict[str, View]:
    """As their newest generation was declared, by their names. Of a state database that does not
    run, what the files beside it tell."""
    found: dict[str, View] = {}
    for name, generations in built_views(config.apply.state, config.source.name).items():
        built = (generations.live or generations.of[max(generations.of)]).declared
        found[name] = _view(built.store, built.key, built.sql, built.history)
    for name, view in views_of_state(config).items():
        found.setdefault(name, view)
    return {name: view for name, view in found.items() if name not in config.views}


def with_undeclared(config: Config) -> Config:
    """A configuration that declares these views, too, for who shows or drops them."""
    if not (found := undeclared_views(config)):
        return config
    return config.model_copy(update={"views": {**config.views, **found}})


def views_of_state(config: Config) -> dict[str, View]:
    """Views that the state database has, as their newest generation was declared, by their names;
    none while it does not run."""
    if config.apply.engine != "database":
        return {}
    try:
        with state_session(config) as conn:
            records = [] if conn is None else view_records(conn)
    except HeadwaterError:  # what it says against itself is told elsewhere
        return {}
    return {one.name: _view(one.store, one.key, one.sql, one.history) for one in records}


def _view(store: str, key: tuple[str, ...], sql: str, history: str) -> View:
    """Without settings of its store, which nothing that exists needs."""
    return View.model_construct(store=store, key=key, sql=sql, history=history)
