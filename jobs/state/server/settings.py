"""Settings of the embedded server, and of every session with a state database.

The server is for one application on one machine, so its memory is bounded and it listens on no
address. It is as safe as any PostgreSQL: nothing that is committed is lost in a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cdc.source.postgres import STATEMENT_OPTIONS, WIRE_OPTIONS
from jobs.state.server.location import PORT, Place

MAX_CONNECTIONS: Final = 40
_NEWER_18: Final = 18

_MEMORY: Final = {
    "shared_buffers": "64MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "64MB",
    "max_connections": str(MAX_CONNECTIONS),
    "max_worker_processes": "4",
    "max_parallel_workers": "2",
    "max_locks_per_transaction": "128",  # a batch locks tables of all views
    "huge_pages": "off",
    "effective_cache_size": "512MB",
}
_SAFETY: Final = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "restart_after_crash": "on",
}
_VOLUME: Final = {
    "wal_level": "minimal",  # a table that is filled where it was made is not logged
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",  # no launcher process
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    "random_page_cost": "1.1",
}
_UPKEEP: Final = {
    "autovacuum": "on",
    "autovacuum_max_workers": "2",
    "autovacuum_naptime": "20s",
}
_LOG: Final = {
    # Errors go to the session that caused them. Here are starts, stops and crashes only, so that
    # the file stays small, and no value of a row.
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
}
_LOCALE: Final = {
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "lc_messages": "C",
    "jit": "off",  # compiling costs more than any query of few keys takes
    "update_process_title": "off",
}

_SESSION: Final = {
    "lc_numeric": "C",
    "lc_time": "C",
    "lc_monetary": "C",
    "jit": "off",
    "synchronous_commit": "on",
    # The order in which floats are summed stays the same; a build may ask for workers.
    "max_parallel_workers_per_gather": "0",
}
SESSION_OPTIONS: Final = " ".join(
    [WIRE_OPTIONS, STATEMENT_OPTIONS, *(f"-c {name}={value}" for name, value in _SESSION.items())]
)
"""libpq's ``options``: text forms are those of the source's sessions."""


def server_settings(place: Place, major: int) -> Mapping[str, str]:
    """All that differs from PostgreSQL's defaults."""
    found = {**_MEMORY, **_SAFETY, **_VOLUME, **_UPKEEP, **_LOG, **_LOCALE}
    if major >= _NEWER_18:
        found["io_method"] = "sync"  # three processes less; what is read is mostly in memory
    return found | {
        "port": str(PORT),
        "listen_addresses": "",
        "unix_socket_directories": _listed(place.socket),
        "unix_socket_permissions": "0700",
        "hba_file": str(place.directory / "pg_hba.conf"),
        "ident_file": str(place.directory / "pg_ident.conf"),
    }


def configuration(settings: Mapping[str, str]) -> str:
    """The text of a ``postgresql.conf``."""
    quoted = {
        name: value.replace("\\", "\\\\").replace("'", "''") for name, value in settings.items()
    }
    lines = [f"{name} = '{value}'" for name, value in quoted.items()]
    return "\n".join(["# Written by headwater at each start.", *lines, ""])


def _listed(path: Path) -> str:
    """One entry of a list that commas separate."""
    return '"' + str(path).replace('"', '""') + '"'
