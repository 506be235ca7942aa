"""What ``headwater verify`` says of views."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.support.commands.deployment import Deployment

_AT_ONCE: Final = 4
"""Each waits for capture to publish up to an LSN of its own."""


def verified(views: Sequence[str], deployment: Deployment) -> list[str]:
    """Findings of ``headwater verify``, where it does not find a view equal."""

    def finding(view: str) -> list[str]:
        done = deployment.run("verify", view, "--json", "--timeout", "120", "--limit", "3")
        if done.returncode == 0 and json.loads(done.stdout)["equal"]:
            return []
        return [f"headwater verify {view}: {done.returncode}: {done.stdout}{done.stderr}"]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [line for found in pool.map(finding, views) for line in found]
