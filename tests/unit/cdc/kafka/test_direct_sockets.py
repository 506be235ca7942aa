"""A connection that cannot be made holds no handle, whenever garbage is collected."""

from __future__ import annotations

import gc
import os
import socket
from contextlib import closing
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net.inet import create_connection
from kafka.net.selector import NetworkSelector

from cdc.kafka.broker.direct_sockets import DIRECT
from stack.ports import free_port


def connect(net: Any, port: int) -> Any:
    return net.run(create_connection, net, "127.0.0.1", port, (), DIRECT)


def test_a_socket_that_cannot_connect_is_closed_at_once() -> None:
    port = free_port(set())
    gc.disable()
    try:
        with closing(NetworkSelector(client_id="test")) as net:
            net.start()
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(3):
                with pytest.raises(KafkaConnectionError, match="ECONNREFUSED"):
                    connect(net, port)
            assert len(os.listdir("/proc/self/fd")) == before
            with (
                closing(socket.create_server(("127.0.0.1", port))) as server,
                closing(connect(net, port)),
            ):
                server.accept()[0].close()
    finally:
        gc.enable()
