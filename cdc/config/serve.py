"""``[serve]`` of a ``headwater.toml``: where `headwater serve` listens, and who may ask."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from pydantic import Field, field_validator, model_validator

from cdc.config.stores import Section
from cdc.config.values import Address, Period

PATHS = ("tls_certificate", "tls_key", "users", "spool", "audit")


class Serve(Section):
    """Off loopback it wants a login, and TLS or a proxy that has it."""

    listen: Address = "127.0.0.1:8484"
    hosts: tuple[str, ...] = ()
    """Names by which clients reach it, besides the address that it listens on."""
    tls_certificate: str = ""
    tls_key: str = ""
    behind_proxy: tuple[str, ...] = ()
    """Addresses or networks of proxies, whose X-Forwarded-For and -Proto are believed."""
    users: str = ""
    session: Period = 43_200.0
    spool: str = "./.headwater/serve"
    audit: str = ""
    """Where it is written who did what; by default in ``spool``."""
    snapshot_max_age: Period = 60.0
    max_streams: int = Field(default=1_000, ge=1, le=100_000)
    client_buffer_mb: int = Field(default=4, ge=1, le=1_024)
    ring_mb: int = Field(default=64, ge=1, le=65_536)
    max_waits: int = Field(default=32, ge=1, le=1_000)

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @field_validator("behind_proxy")
    @classmethod
    def _proxies_are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            try:
                ip_network(one)
            except ValueError:
                raise ValueError(f"is {one!r}: write an address or a network, 10.0.0.0/8") from None
        return value

    @model_validator(mode="after")
    def _nobody_else_listens(self) -> Serve:
        if not self.listen:
            raise ValueError('listen: is empty: write "127.0.0.1:8484"')
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ValueError("tls_certificate and tls_key belong together: set both")
        if self.session <= 0:
            raise ValueError('session: is 0: write "12h"')
        if self.behind_proxy and not self.users:
            raise ValueError(
                "behind_proxy: other machines come through the proxy: set users to a file, and add "
                "a user with `headwater serve add-user NAME`"
            )
        if self.is_local:
            return self
        if not (self.tls_certificate or self.behind_proxy):
            raise ValueError(
                f"listen: {self.listen} is reached from other machines: set tls_certificate and "
                "tls_key, or behind_proxy to the addresses of the proxy that has TLS"
            )
        if not self.users:
            raise ValueError(
                f"listen: {self.listen} is reached from other machines: set users to a file, and "
                "add a user with `headwater serve add-user NAME`"
            )
        return self
