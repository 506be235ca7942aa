"""Names in the JVM, looked up once.

Py4J asks Java for each part of ``jvm.org.apache.spark...`` each time it is written, PySpark writes
such names for every column, and for a package Java looks for a class of that name in each jar of
the class path: a tenth of a driver's CPU that has small batches to plan.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView


def remember() -> None:
    """From now on, in this process. Safe to repeat."""
    for owner in (JVMView, JavaPackage):
        if owner.__getattr__.__module__ != __name__:
            owner.__getattr__ = _remembering(owner.__getattr__)


def _remembering(look_up: Any) -> Any:
    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        found = look_up(self, name)
        # A class that is imported behind PySpark's own imports would be one in capitals.
        if isinstance(found, JavaClass) or (isinstance(found, JavaPackage) and name.islower()):
            vars(self)[name] = found
        return found

    return __getattr__
