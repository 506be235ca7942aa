"""The same servers in containers, by ``docker-compose.yml``, for whoever has a Docker engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testcontainers.compose import DockerCompose

from cdc.errors import StackError
from stack.ports import HOST
from stack.servers import Endpoints

COMPOSE_FILE = Path(__file__).resolve().parent.parent / "docker-compose.yml"
# The ports on the host; the compose file has the same defaults.
PORTS: Mapping[str, tuple[str, str]] = {
    "postgres": ("HEADWATER_POSTGRES_PORT", "5432"),
    "kafka": ("HEADWATER_KAFKA_PORT", "9092"),
    "opensearch": ("HEADWATER_OPENSEARCH_PORT", "9200"),
    "redis": ("HEADWATER_REDIS_PORT", "6379"),
}
_ASK_TIMEOUT_S = 20


def require_engine() -> None:
    """Raise ``StackError`` with the reason when no Docker engine answers."""
    if shutil.which("docker") is None:
        raise StackError("the command docker was not found", "run without --docker")
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(
            asked, capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise StackError(
            f"the Docker engine does not answer within {_ASK_TIMEOUT_S} s", "run without --docker"
        ) from None
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StackError(f"no Docker engine answers ({said})", "start it, or run without --docker")


def up() -> Endpoints:
    """Start the containers and wait until they are healthy."""
    require_engine()
    with _said("up"):
        _containers().start()
    port = {name: os.environ.get(*setting) for name, setting in PORTS.items()}
    return Endpoints(
        {
            "postgres": f"postgresql://postgres:postgres@{HOST}:{port['postgres']}/postgres",
            "kafka": f"{HOST}:{port['kafka']}",
            "opensearch": f"http://{HOST}:{port['opensearch']}",
            "redis": f"redis://{HOST}:{port['redis']}/0",
        }
    )


def down(purge: bool) -> None:
    """Stop the containers, and delete their volumes if asked."""
    require_engine()
    with _said("down"):
        _containers(keep_volumes=not purge).stop()


def _containers(keep_volumes: bool = True) -> DockerCompose:
    if not COMPOSE_FILE.is_file():
        raise StackError(f"{COMPOSE_FILE.name} is not here", "run it in a checkout of headwater")
    return DockerCompose(
        str(COMPOSE_FILE.parent), COMPOSE_FILE.name, wait=True, keep_volumes=keep_volumes
    )


@contextmanager
def _said(verb: str) -> Iterator[None]:
    """Turn a failed ``docker compose`` into ours, with the last line it said."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        said = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"exit code {error.returncode}"
        raise StackError(
            f"docker compose {verb} failed: {reason}", "run `docker compose logs` for details"
        ) from None
