"""``[serve]``: off loopback there is no server without TLS and a login."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cdc.config.serve import Serve

TLS = {"tls_certificate": "a.pem", "tls_key": "b.pem"}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"listen": 9000},
        {"listen": "[::1]:9000"},
        {"listen": "localhost:9000", "users": "u"},
        {"listen": "127.5.5.5:9000"},
        {"listen": "0.0.0.0:443", "users": "u", **TLS},
        {"listen": "10.1.2.3:80", "users": "u", "behind_proxy": ["10.0.0.0/8"]},
    ],
)
def test_what_may_listen(given: dict[str, Any]) -> None:
    Serve(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"listen": "0.0.0.0:80"}, "tls_certificate"),
        ({"listen": "[::]:80", "users": "u"}, "tls_certificate"),
        ({"listen": "10.1.2.3:80", **TLS}, "set users"),
        ({"listen": "example.org:80", "users": "u"}, "tls_certificate"),
        ({"listen": "0.0.0.0:80", "behind_proxy": ["10.0.0.1"]}, "set users"),
        ({"behind_proxy": ["127.0.0.1"]}, "set users"),
        ({"users": "u", "behind_proxy": ["*"]}, "an address or a network"),
        ({"tls_certificate": "a.pem"}, "belong together"),
        ({"listen": ""}, "is empty"),
        ({"session": ""}, "session"),
        ({"max_streams": 0}, "max_streams"),
        ({"listen": "127.0.0.1.example.org:80", "users": "u"}, "tls_certificate"),
    ],
)
def test_what_may_not(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Serve(**given)
