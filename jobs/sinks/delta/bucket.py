"""Whether a bucket of S3 lets a Delta store be written, asked without Spark.

Credentials are those of ``apply.spark``, if it has some, else what Amazon's tools find:
environment, profile, web identity, the role of a container or machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from cdc.errors import SinkError

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

SCHEMES: Final = ("s3a://", "s3://")
_TIMEOUT_S: Final = 5
_HADOOP: Final = "spark.hadoop.fs.s3a."
_GIVEN: Final = {
    "access_key": "access.key",
    "secret_key": "secret.key",
    "session_token": "session.token",
    "region": "endpoint.region",
    "endpoint_override": "endpoint",
}
_TOGETHER: Final = ("access_key", "secret_key")
_DENIED: Final = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH")
_RIGHTS: Final = "s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject"


def ask_bucket(path: str, spark: Mapping[str, str]) -> None:
    """Write an object below ``path`` and delete it; ``spark`` are the settings of ``apply.spark``.
    Where there was no such folder yet, the empty object stays that stands for one.

    Raises ``SinkError`` for a bucket that does not exist, does not answer or refuses that.
    """
    from pyarrow.fs import FileType

    place = urlsplit(path)
    bucket = place.netloc
    probe = "/".join(filter(None, (bucket, place.path.strip("/"), f".headwater-{uuid4()}")))
    doing = "read"
    try:
        files = _files(spark)
        if files.get_file_info(bucket).type == FileType.NotFound:
            raise SinkError(f"bucket {bucket} does not exist", "create it, or correct {store}.path")
        doing = "write"
        with files.open_output_stream(probe) as stream:
            stream.write(b"headwater check")
        files.delete_file(probe)
    except (OSError, ValueError) as error:
        raise _refused(f"cannot {doing} bucket {bucket}", str(error)) from None


def _files(spark: Mapping[str, str]) -> S3FileSystem:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    given: dict[str, Any] = {"endpoint_override": endpoint} if endpoint else {}
    given |= {to: spark[_HADOOP + of] for to, of in _GIVEN.items() if _HADOOP + of in spark}
    if not given.keys() >= set(_TOGETHER):  # Hadoop passes over a half, and looks elsewhere
        given = {
            name: one for name, one in given.items() if name not in (*_TOGETHER, "session_token")
        }
    return S3FileSystem(
        connect_timeout=_TIMEOUT_S,
        request_timeout=_TIMEOUT_S,
        allow_delayed_open=True,  # one put, no upload of parts
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1),
        **given,
    )


def _refused(what: str, said: str) -> SinkError:
    if any(code in said for code in _DENIED):
        return SinkError(f"{what}: access denied", f"allow its credentials {_RIGHTS} there")
    if "NETWORK_CONNECTION" in said:
        hint = "correct AWS_ENDPOINT_URL or fs.s3a.endpoint, or check the network"
        return SinkError(f"{what}: no answer from S3", hint)
    return SinkError(f"{what}: {(said.strip().splitlines() or [''])[0][:200]}")
