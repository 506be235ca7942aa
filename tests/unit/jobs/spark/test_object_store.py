"""How Spark and delta-rs are told of S3."""

from __future__ import annotations

import pytest

from jobs.spark.object_store import HADOOP, hadoops, is_in_s3, place_options, settings

ENDPOINT = {"AWS_ENDPOINT_URL": "http://minio:9000"}


def told(environ: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """What delta-rs is told, in a process whose Spark has these settings."""
    found = settings(environ, given)
    return place_options(lambda name: found.get(HADOOP + name))


@pytest.mark.parametrize(
    ("path", "known", "as_hadoop"),
    [
        ("s3://lake/v", True, "s3a://lake/v"),
        ("s3a://lake/v", True, "s3a://lake/v"),
        ("./s3://lake", False, "./s3://lake"),
        ("gs://lake/v", False, "gs://lake/v"),
    ],
)
def test_paths_in_s3_are_known_by_their_scheme(path: str, known: bool, as_hadoop: str) -> None:
    assert is_in_s3(path) is known
    assert hadoops(path) == as_hadoop


def test_what_nobody_says_is_left_to_amazons_tools() -> None:
    assert not [name for name in told({}, {}) if name.startswith("AWS_")]


def test_an_endpoint_is_the_same_for_both_and_has_its_buckets_in_paths() -> None:
    environ = {**ENDPOINT, "AWS_ENDPOINT_URL_S3": "https://s3:443", "AWS_DEFAULT_REGION": "eu-1"}
    assert settings(environ, {})[f"{HADOOP}path.style.access"] == "true"
    found = told(environ, {})
    assert found["AWS_ENDPOINT_URL"] == "https://s3:443"
    assert found["AWS_ALLOW_HTTP"] == found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == "false"
    assert found["AWS_REGION"] == "eu-1"
    assert told(ENDPOINT, {})["AWS_REGION"]


def test_settings_of_spark_win_over_the_environment() -> None:
    given = {
        f"{HADOOP}endpoint": "other:9000",
        f"{HADOOP}endpoint.region": "x",
        f"{HADOOP}path.style.access": "false",
    }
    found = told({**ENDPOINT, "AWS_REGION": "y"}, given)
    assert found["AWS_ENDPOINT_URL"] == "https://other:9000"
    assert found["AWS_REGION"] == "x"
    assert found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == "true"
