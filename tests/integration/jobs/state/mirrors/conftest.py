"""Mirrors of the tables of a source of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.views.mirror_tables import MirrorSetting


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[MirrorSetting]:
    made = MirrorSetting(
        database, store_database, {"public.full": ("a", "b"), "public.num": ("n",)}
    )
    yield made
    made.close()
