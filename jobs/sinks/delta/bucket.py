"""A bucket of S3: whether a Delta store can be written there, asked without Spark, and what its
refusals mean, whoever asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from cdc.errors import HeadwaterError, RetryableError, SinkError
from jobs.spark.disk_full import thrown
from jobs.spark.object_store import HADOOP, settings

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

_TIMEOUT_S: Final = 5
_GIVEN: Final = {
    "access_key": "access.key",
    "secret_key": "secret.key",
    "session_token": "session.token",
    "region": "endpoint.region",
    "endpoint_override": "endpoint",
}
_TOGETHER: Final = ("access_key", "secret_key")
_RIGHTS: Final = "s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject"
_DENIED: Final = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH"  # of Arrow
    r"|403 Forbidden|lacked the necessary privileges"  # of delta-rs
    r"|AccessDeniedException"  # of Hadoop
)
_NONE: Final = re.compile(r"NoAuthWithAWSException|CredentialInitializationException")
_OF_STS: Final = re.compile(r"\.services\.sts\.model\.(\w+)Exception")
_MISSING: Final = re.compile(r"<Code>NoSuchBucket</Code>|UnknownStoreException")
_AWAY: Final = re.compile(
    r"NETWORK_CONNECTION|error sending request|50[0234] [A-Z]|429 Too Many"
    r"|java\.net\.\w+Exception|ConnectTimeoutException|HttpHostConnectException|SocketTimeout"
    r"|AWSServiceThrottledException|AWSStatus500Exception"
)


def ask_bucket(path: str, spark: Mapping[str, str]) -> None:
    """Write an object below ``path`` and delete it; ``spark`` are the settings of ``apply.spark``.
    Where there was no such folder yet, the empty object stays that stands for one.

    Raises ``HeadwaterError`` for a bucket that does not exist, does not answer or refuses that.
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
        raise _refused(f"cannot {doing} bucket {bucket}", error) from None


def _files(spark: Mapping[str, str]) -> S3FileSystem:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    said = settings(os.environ, spark)
    given: dict[str, Any] = {
        to: said[HADOOP + of] for to, of in _GIVEN.items() if HADOOP + of in said
    }
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


def _refused(what: str, error: Exception) -> HeadwaterError:
    said = (str(error).strip().splitlines() or [""])[0][:200]
    return fault_of_s3(what, error) or SinkError(f"{what}: {said}")


def fault_of_s3(what: str, error: Exception) -> HeadwaterError | None:
    """What S3 said to one of its clients, or that it said nothing; None where that is not known.
    Java's exceptions are told by their classes: what they say may quote values."""
    java = list(thrown(error))
    said = " ".join(name for name, _ in java) or str(error)
    if _NONE.search(said) or _OF_STS.search(said):
        return _no_credentials(what, said, java)
    if _DENIED.search(said):
        return SinkError(f"{what}: access denied", f"allow its credentials {_RIGHTS} there")
    if _MISSING.search(said):
        return SinkError(f"{what}: the bucket does not exist", "create it, or correct the path")
    if _AWAY.search(said):
        hint = "correct AWS_ENDPOINT_URL or fs.s3a.endpoint, or check the network"
        return RetryableError(f"{what}: no answer from S3", hint)
    return None


def _no_credentials(what: str, said: str, java: Sequence[tuple[str, str]]) -> HeadwaterError:
    """Java's last word is that of STS, where a role is to be had by web identity."""
    of_sts = _OF_STS.search(said)
    if _AWAY.search(said) or (of_sts and any("Status Code: 5" in text for _, text in java)):
        hint = "correct AWS_ENDPOINT_URL_STS, or check the network"
        return RetryableError(f"{what}: no answer from STS, which gives the credentials", hint)
    if of_sts:
        why = of_sts[1].replace("Sts", "AccessDenied")
        hint = "check AWS_ROLE_ARN, the role's trust policy and AWS_WEB_IDENTITY_TOKEN_FILE"
        return SinkError(f"{what}: STS refused to give the role's credentials ({why})", hint)
    ways = "AWS_PROFILE, or AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE"
    hint = f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, {ways}, see docs/delta.md"
    return SinkError(f"{what}: no credentials for S3 were found", hint)
