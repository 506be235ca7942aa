"""What a person reads when a connection fails: where, why, what to do, and no secret."""

from __future__ import annotations

import pytest

from cdc.errors import HeadwaterError, RetryableError, SourceError
from cdc.source.errors import connection_error, place
from cdc.source.postgres import connection_parameters, identifier, literal

SECRET = "s3cr3t"
DSN = f"postgresql://app:{SECRET}@db.example:6543/shop"


def failure(text: str) -> HeadwaterError:
    return connection_error(text, connection_parameters(DSN))


@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        (
            "Connection refused\n\tIs the server running",
            RetryableError,
            "PostgreSQL is running",
        ),
        ('FATAL:  password authentication failed for user "app"', SourceError, "password"),
        ('FATAL:  role "app" does not exist', SourceError, "CREATE ROLE app LOGIN"),
        ('FATAL:  database "shop" does not exist', SourceError, "Correct the database"),
        ("FATAL:  no pg_hba.conf entry for host", SourceError, "pg_hba.conf"),
        ("FATAL:  the database system is starting up", RetryableError, "Wait"),
        ("FATAL:  sorry, too many clients already", RetryableError, "max_connections"),
        (
            "FATAL:  number of requested standby connections exceeds max_wal_senders",
            RetryableError,
            "max_wal_senders",
        ),
        (
            "FATAL:  permission denied to start WAL sender",
            SourceError,
            "ALTER ROLE app REPLICATION",
        ),
        ("server does not support SSL, but SSL was required", SourceError, "sslmode=disable"),
        ("something nobody has seen", RetryableError, "PostgreSQL is running"),
        ("", RetryableError, "PostgreSQL is running"),
    ],
)
def test_a_failed_connection_names_the_place_and_the_way_out(
    text: str, kind: type[HeadwaterError], hint: str
) -> None:
    error = failure(f'connection to server at "db.example", port 6543 failed: {text}')
    assert type(error) is kind
    assert "app@db.example:6543/shop" in error.message
    assert hint in error.hint
    assert "\n" not in str(error)


def test_no_message_holds_the_password() -> None:
    assert SECRET not in str(failure(f"FATAL:  something quotes {SECRET}"))
    assert SECRET not in place(connection_parameters(DSN))
    with pytest.raises(SourceError) as caught:
        connection_parameters(f"host=x {SECRET}")
    assert SECRET not in str(caught.value)


def test_options_of_the_connection_string_are_kept_and_ours_win() -> None:
    options = connection_parameters("host=h options='-c geqo=off -c DateStyle=SQL'")["options"]
    assert options.startswith("-c geqo=off -c DateStyle=SQL ")
    assert options.index("DateStyle=ISO") > options.index("DateStyle=SQL")


def test_several_hosts_are_all_named() -> None:
    parameters = connection_parameters("host=a,b port=1,2 dbname=d user=u")
    assert place(parameters) == "u@a:1,b:2/d"


def test_names_and_constants_are_quoted() -> None:
    assert identifier('a"b') == '"a""b"'
    assert literal("it's") == "'it''s'"


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        ("reports", "rep", 'password authentication failed for user "reports"'),
        ("reports", "password", 'password authentication failed for user "reports"'),
        ("app", "shop", 'database "shop" does not exist'),
    ],
)
def test_a_short_password_within_a_name_or_a_fixed_text_hides_no_reason(
    user: str, password: str, reason: str
) -> None:
    parameters = {"user": user, "password": password, "host": "h", "dbname": "shop"}
    error = connection_error(f"FATAL:  {reason}", parameters)
    assert error.message == f"cannot connect to PostgreSQL at {place(parameters)}: {reason}"


@pytest.mark.parametrize(
    "text", ["FATAL:  it was rep", 'FATAL:  role "rep" does not exist', "FATAL:  xrep@reports"]
)
def test_a_password_that_a_reason_quotes_is_withheld(text: str) -> None:
    parameters = {"user": "reports", "password": "rep", "host": "h", "dbname": "shop"}
    assert "text withheld" in connection_error(text, parameters).message
