"""What a metric is declared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "info", "stateset"]


@dataclass(frozen=True, slots=True)
class Metric:
    """``name`` is whole but for the ending of its kind (``_total``, ``_info``). A state set has one
    more label, named ``name``, with one of ``states``."""

    name: str
    kind: Kind
    help: str
    tells: str
    labels: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    @property
    def exported(self) -> str:
        """The name of its samples."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


def of_source(
    name: str, help: str, tells: str, kind: Kind = "gauge", states: tuple[str, ...] = ()
) -> Metric:
    """One of capture, of the source or of the slot."""
    return Metric(name, kind, help, tells, ("source",), states)


def of_view(
    name: str, help: str, tells: str, kind: Kind = "gauge", states: tuple[str, ...] = ()
) -> Metric:
    """One of a view. Two sources may have a view of the same name."""
    return Metric(name, kind, help, tells, ("source", "view"), states)
