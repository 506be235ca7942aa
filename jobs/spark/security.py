"""What Spark's processes open to others, and how they prove themselves to each other.

Who reaches the driver or an executor can have it run code, and what executors are sent to run holds
the passwords of Kafka and of the stores. So they authenticate by a shared secret, which Spark makes
up itself for a master of one process, and between machines all is encrypted.
https://spark.apache.org/docs/latest/security.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cdc.errors import StackError

STANDALONE: Final = "spark://"
_AUTHENTICATE: Final = "spark.authenticate"
_SECRET: Final = "spark.authenticate.secret"
CLOSED: Final = {
    "spark.ui.enabled": "false",  # its pages show queries, to everybody
    _AUTHENTICATE: "true",
}
"""Of every session, unless ``apply.spark`` says otherwise."""
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Of a session whose tasks are this process's own. The block manager binds there, too."""
ENCRYPTED: Final = {"spark.network.crypto.enabled": "true"}
"""Of a session with executors on other machines."""


def refuse_no_secret(master: str, settings: Mapping[str, str]) -> None:
    """Raises ``StackError`` where a standalone cluster's secret is not known: the master has it,
    too, so that it cannot be made up."""
    wanted = settings.get(_AUTHENTICATE, "").strip().lower() == "true"
    if master.startswith(STANDALONE) and wanted and not settings.get(_SECRET):
        raise StackError(
            f"{_SECRET} is not set, but {master} needs it",
            "give its master and workers a secret and name it in apply.spark, see "
            f'docs/cluster.md; for a cluster without one: "{_AUTHENTICATE}" = "false"',
        )
