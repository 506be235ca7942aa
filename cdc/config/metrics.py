"""``[metrics]`` of a ``headwater.toml``: where the long-running processes listen."""

from __future__ import annotations

from cdc.config.stores import Section
from cdc.config.values import Address


class Metrics(Section):
    """Each process has an address of its own, for one file is read by all of them. Without one it
    does not listen."""

    capture: Address = ""
    apply: Address = ""
    serve: Address = ""
