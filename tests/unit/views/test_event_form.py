"""Forms of events that views cannot be kept by are refused with what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.errors import ViewError
from cdc.events.form import DEBEZIUM, OURS
from views.event_form import refuse_unread


def test_views_are_refused_where_operations_are_skipped() -> None:
    refuse_unread(OURS)
    refuse_unread(replace(DEBEZIUM, skipped=frozenset()))
    refuse_unread(replace(OURS, format="avro", schemas=True))
    with pytest.raises(ViewError, match="skips operations: t"):
        refuse_unread(DEBEZIUM)
