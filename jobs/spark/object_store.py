"""S3: which paths are in it, and one account of how to reach it, for Spark and for delta-rs.

Spark's own settings (``spark.hadoop.fs.s3a.*``) count. What they leave open Hadoop's client finds
where Amazon's tools look: environment, profile, web identity, the role of a container or machine.
delta-rs is told the place and the credentials that Hadoop's client has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

HADOOP: Final = "spark.hadoop.fs.s3a."
_SCHEMES: Final = ("s3a://", "s3://")
_HADOOPS: Final = "org.apache.hadoop.fs.s3a"
_AMAZONS: Final = "software.amazon.awssdk.auth.credentials"
_PROVIDERS: Final = (
    f"{_HADOOPS}.TemporaryAWSCredentialsProvider",
    f"{_HADOOPS}.SimpleAWSCredentialsProvider",
    # Amazon's default has these, but a JVM has one of it, and a file system that is closed (of two
    # threads that open it one closes its own again) closes it for all: no role is had ever after.
    f"{_AMAZONS}.EnvironmentVariableCredentialsProvider",
    f"{_AMAZONS}.ProfileCredentialsProvider",
    f"{_AMAZONS}.WebIdentityTokenFileCredentialsProvider",
    f"{_HADOOPS}.auth.IAMInstanceCredentialsProvider",
)
SETTINGS: Final = {
    f"{HADOOP}aws.credentials.provider": ",".join(_PROVIDERS),
    "spark.delta.logStore.s3a.impl": "headwater.S3LogStore",
    # A place that is away is told of in a minute, and the batch is tried again.
    f"{HADOOP}attempts.maximum": "3",
    f"{HADOOP}retry.limit": "4",
    f"{HADOOP}connection.establish.timeout": "10s",
}
"""Of every session, unless ``apply.spark`` says otherwise."""
_PATIENCE: Final = {"timeout": "60s", "connect_timeout": "10s", "max_retries": "4"}
_ANYWHERE: Final = "us-east-1"
"""The region of servers that have none."""


def is_in_s3(path: str) -> bool:
    """Whether a store's path is in S3, or in a store of its protocol."""
    return path.startswith(_SCHEMES)


def hadoops(path: str) -> str:
    """A path as Hadoop's client knows it, by its one scheme."""
    return path.replace("s3://", "s3a://", 1) if path.startswith("s3://") else path


def settings(environ: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What Spark is to know of S3: ``given``, which are its settings, and the place that the
    environment names, which Hadoop does not look for there."""
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
    endpoint = given.get(f"{HADOOP}endpoint", endpoint)
    found = dict(SETTINGS)
    if endpoint:  # its buckets have no names of hosts
        found |= {f"{HADOOP}endpoint": endpoint, f"{HADOOP}path.style.access": "true"}
        region = region or _ANYWHERE
    if region:
        found[f"{HADOOP}endpoint.region"] = region
    return {**found, **given}


def place_options(setting: Callable[[str], str | None]) -> dict[str, str]:
    """Where S3 is, for delta-rs; ``setting`` gives what Hadoop has as ``fs.s3a.<name>``."""
    found = dict(_PATIENCE)
    if region := setting("endpoint.region"):
        found["AWS_REGION"] = region
    if endpoint := setting("endpoint"):
        if "://" not in endpoint:
            endpoint = f"https://{endpoint}"
        by_host = setting("path.style.access") == "false"
        found |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower(),
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": str(by_host).lower(),
        }
    return found
