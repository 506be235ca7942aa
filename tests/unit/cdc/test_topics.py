"""Topics are named as Debezium names them: an underscore for each of Java's characters outside."""

from __future__ import annotations

import pytest

from cdc.topics import kafka_name, snapshot_topic, table_topic


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("plain-1_.x", "plain-1_.x"),
        ("Größe", "Gr__e"),
        ("名前", "__"),
        ("a😀b", "a__b"),
        ("\uffff", "_"),
        ("a b/c", "a_b_c"),
    ],
)
def test_a_name_has_an_underscore_for_each_utf_16_unit(name: str, wanted: str) -> None:
    assert kafka_name(name) == wanted
    assert len(wanted) == len(name.encode("utf-16-le")) // 2


def test_topics_of_tables_and_snapshots_are_named_alike() -> None:
    assert table_topic("shop", "public", "😀") == "shop.public.__"
    assert snapshot_topic("shop", 7, "public", "😀") == "shop.__snapshot.7.public.__"
