"""The forms that texts of a ``headwater.toml`` have, each with what it says of another one."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

_SECONDS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_PORTS: Final = range(1, 65_536)


def _of_form(pattern: str, wanted: str) -> AfterValidator:
    """Text that matches as a whole; ``wanted`` says so in words."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"is {value!r}: {wanted}")
        return value

    return AfterValidator(check)


def _sendable(url: str) -> str:
    """A request line takes no other characters. It may hold a token: no message shows it."""
    if not re.fullmatch(r"[!-~]*", url):
        raise ValueError(
            "is no http or https URL: it has a space or another character that a URL does not: "
            "write %20 for a space, and so on"
        )
    return url


def _is_url(example: str, *schemes: str) -> AfterValidator:
    """A URL of one of the schemes. It may hold a password: no message shows it."""

    def check(value: str) -> str:
        try:
            parts = urlsplit(value)
            whole = bool(parts.path if parts.scheme == "unix" else parts.hostname)
            whole = whole and (parts.port is None or parts.port in _PORTS)
        except ValueError:  # a port that is no number, brackets without an address
            whole = False
        if not whole or parts.scheme not in schemes:
            raise ValueError(f"is no {' or '.join(schemes)} URL: write one like {example}")
        return value

    return AfterValidator(check)


def _servers(value: str) -> str:
    """``HOST:PORT``, several with commas."""
    for server in value.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or "//" in host or not port.isdecimal() or int(port) not in _PORTS:
            raise ValueError(f"{server.strip()!r} is not HOST:PORT: write localhost:9092")
    return value


def _address(value: Any) -> str:
    """``HOST:PORT``; of a port alone, the one that only this machine reaches."""
    if value == "":
        return ""
    text = f"127.0.0.1:{value}" if str(value).isdecimal() else str(value)
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not host or (":" in host and not bracketed) or not port.isdecimal():
        raise ValueError(f"is {value!r}: write 127.0.0.1:9464, or a port")
    if int(port) not in _PORTS:
        raise ValueError(f"is {value!r}: ports are from 1 to 65535")
    return text


def _period(value: Any) -> float:
    """``90s``, ``10min``, ``1h``, ``1d``, as seconds; empty for never."""
    if value in ("", 0):
        return 0.0
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|h|d)", str(value))
    if found is None or not float(found[1]):
        raise ValueError(f"is {value!r}: write it like 90s, 10min, 1h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


def _setting(value: Any) -> Any:
    """What a setting of librdkafka may be."""
    if not isinstance(value, str | int | float | bool):
        raise PydanticCustomError("setting_type", "one fault in place of one for each type")
    return value


Address = Annotated[str, BeforeValidator(_address)]
"""Where to listen; empty for nowhere."""

Period = Annotated[float, BeforeValidator(_period)]
"""How long, in seconds; 0 for never."""

EmitTopic = Annotated[
    str, _of_form(r"[A-Za-z0-9_-]{1,100}", "use 1 to 100 letters, digits, _ and -")
]

Rate = Annotated[
    str,
    _of_form(
        r"none|(?=.*[1-9])[0-9]+(\.[0-9]+)? ?(rows|MB)/s",
        "write 32 MB/s, 5000 rows/s or none",
    ),
]
Name = Annotated[
    str,
    _of_form(
        r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}",
        "use up to 100 letters, digits, _ and -, the first one a letter or digit",
    ),
]
TableName = Annotated[
    str, _of_form(r"[^.*]+\.[^*]+", 'name one table, in quotes: [tables."public.orders"]')
]
AlertedTable = Annotated[
    str, _of_form(r"[^.*]+\.[^*]+", 'name one table with its schema: "public.orders"')
]
SlotName = Annotated[str, _of_form(r"[a-z0-9_]{0,63}", "use up to 63 small letters, digits and _")]
Servers = Annotated[str, AfterValidator(_servers)]
Setting = Annotated[str | int | float | bool, BeforeValidator(_setting)]
OpenSearchUrl = Annotated[str, _is_url("http://localhost:9200", "http", "https")]
RedisUrl = Annotated[str, _is_url("redis://localhost:6379/0", "redis", "rediss", "unix")]
RegistryUrl = Annotated[
    str, _is_url("http://localhost:8081", "http", "https"), AfterValidator(_sendable)
]
WebhookUrl = Annotated[
    str, _is_url("https://alarms.example.org/headwater", "http", "https"), AfterValidator(_sendable)
]
