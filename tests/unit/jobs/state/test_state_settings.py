"""The embedded server's settings, and the names that libpq and PostgreSQL read."""

from __future__ import annotations

import re
from pathlib import Path

from psycopg import conninfo

from jobs.state.batch import staged_parts
from jobs.state.server.location import Place, home_of
from jobs.state.server.migration import FOLDER
from jobs.state.server.requirements import SCHEMAS
from jobs.state.server.settings import SESSION_OPTIONS, configuration, server_settings
from migrations.runner import migrations

ODD = Path('/srv/it\'s, "here"\\now/shop/_database')


def test_a_path_is_quoted_for_libpq_and_for_the_configuration() -> None:
    place = Place(ODD, ODD, ODD / "socket")
    assert conninfo.conninfo_to_dict(place.dsn)["host"] == str(ODD / "socket")
    settings = server_settings(place, 18)
    assert (
        settings["unix_socket_directories"] == '"/srv/it\'s, ""here""\\now/shop/_database/socket"'
    )
    assert "'\"/srv/it''s, " in configuration(settings)


def test_only_a_server_that_knows_a_setting_is_given_it() -> None:
    place = Place(ODD, ODD, ODD / "socket")
    assert "io_method" in server_settings(place, 18)
    assert "io_method" not in server_settings(place, 17)


def test_no_view_has_the_folder_s_name() -> None:
    assert home_of("/srv/views", "shop") == Path("/srv/views/shop/_database")


def test_every_schema_that_a_migration_makes_is_looked_for_before() -> None:
    texts = "".join(one.sql for one in migrations(FOLDER))
    made = set(re.findall(r"create schema (\w+);", texts)) - {"headwater"}
    assert made | {staged_parts._SCHEMA} == set(SCHEMAS)


def test_no_option_of_a_session_holds_a_space() -> None:
    """libpq would cut it there, but for one behind a backslash."""
    options = SESSION_OPTIONS.replace("\\ ", "")
    assert all("=" in option for option in options.removeprefix("-c ").split(" -c "))
    assert options.count(" ") == 2 * options.count("-c ") - 1
