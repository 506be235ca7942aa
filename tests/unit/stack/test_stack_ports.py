"""Ports that servers are given: nobody listens on them, nor on the second one a server takes."""

from __future__ import annotations

import random
import socket

import pytest

from cdc.errors import StackError
from stack import ports
from stack.ports import HOST, free_port
from stack.redis import Redis

SEED = 20261124


def test_a_port_whose_second_one_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Redis.traits.second_port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind((HOST, free_port(set(), beside) + beside))
        other.listen()
        taken = other.getsockname()[1]
        monkeypatch.setattr(ports, "_LOWEST", taken - beside)
        monkeypatch.setattr(ports, "_HIGHEST", taken)
        with pytest.raises(StackError, match="no free port"):
            free_port(set(), beside)


def test_two_ports_lie_below_those_of_outgoing_connections() -> None:
    random.seed(SEED)
    beside = Redis.traits.second_port
    given = [free_port(set(), beside) for _ in range(200)]
    assert min(given) >= ports._LOWEST
    assert max(given) + beside <= ports._HIGHEST < 32_768


def test_what_is_taken_is_not_given_even_as_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port(set(), 1)
    monkeypatch.setattr(ports, "_LOWEST", first)
    monkeypatch.setattr(ports, "_HIGHEST", first + 1)
    with pytest.raises(StackError, match="no free port"):
        free_port({first + 1}, 1)
