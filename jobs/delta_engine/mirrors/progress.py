"""How far mirrors have got, beside what the checkpoint, the store and Kafka say of it.

They are of one time, but for a checkpoint that is older: that one only makes come again what the
mirrors have had. Whatever else does not fit means that something was lost, or restored alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from cdc.errors import ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.topics import view_group
from jobs.delta_engine.mirrors.attempts import is_begun, read_attempts
from jobs.generations.view_state import ViewState
from jobs.sinks.contract import Sink
from jobs.spark.checkpoint import committed_batch
from jobs.without_mirrors.snapshot_rows import ahead
from views.parse.definition import ViewDefinition


def refuse_lost(view: ViewDefinition, state: ViewState, created: bool) -> None:
    """Raises ``ViewError`` for a store that was ``created`` just now where the mirrors were begun,
    and for mirrors that are gone where a batch was applied."""
    state.refuse_lost(view, created and bool(read_attempts(state.mirrors).last))
    applied = committed_batch(state.checkpoint) is not None or state.beginning() is not None
    if applied and not is_begun(state.mirrors):
        raise ViewError(
            f"view {view.name}: {state.mirrors}, from which it is computed, was deleted",
            _hint(view.name),
        )


def refuse_unknown(view: ViewDefinition, state: ViewState, sink: Sink, created: bool) -> None:
    """Raises ``ViewError`` for a store with rows where there is no state: that was lost, or is
    another host's.

    What comes again makes the view anew as if there were no rows. One of them that is gone by the
    end of a batch would have changed nothing, and stay.
    """
    if created or is_begun(state.mirrors) or next(sink.scan(), None) is None:
        return
    raise ViewError(
        f"view {view.name}: store {view.store} holds its rows, but {state.directory} has no "
        "state of them: it was lost or replaced",
        f"run `headwater view create {view.name}`, which builds it beside them",
    )


def refuse_older(
    view: ViewDefinition, state: ViewState, broker: Broker, topics: Sequence[str]
) -> None:
    """Raises ``ViewError`` for a copy of the whole state from before what was applied.

    The store has rows of what came since. Going on from the copy, a row that came and went in the
    meantime would have changed nothing, and stay.
    """
    applied = broker.reached(view_group(view.name), topics, state.generation)
    held = read_attempts(state.mirrors).offsets
    for topic, of_topic in applied.items():
        for partition, at in of_topic.items():
            if at > (reached := held.get(topic, {}).get(partition, 0)):
                raise ViewError(
                    f"view {view.name}: its state ends at {topic}-{partition}, offset "
                    f"{reached}, but the store holds changes up to {at}: the state is an older "
                    "copy",
                    _hint(view.name),
                )


def left_to_do(view: str, state: ViewState, records: DataFrame, begin: Offsets) -> DataFrame:
    """Of a batch that begins at ``begin``, what settled attempts have not had.

    Raises ``ViewError`` where the mirrors lack what is before.
    """
    done = read_attempts(state.mirrors).offsets
    for topic, of_topic in done.items():
        for partition, at in of_topic.items():
            came = begin.get(topic, {}).get(partition, 0)
            if came > at:
                raise ViewError(
                    f"view {view}: its mirrors end at {topic}-{partition}, offset {at}, but its "
                    f"checkpoint continues at {came}: changes in between would be lost",
                    _hint(view),
                )
    return ahead(records, done) if _is_behind(begin, done) else records


def _is_behind(begin: Offsets, done: Offsets) -> bool:
    return any(
        begin.get(topic, {}).get(partition, 0) < at
        for topic, of_topic in done.items()
        for partition, at in of_topic.items()
    )


def _hint(view: str) -> str:
    return f"run `headwater view rebuild {view}`"
