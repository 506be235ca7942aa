"""Names in the JVM are asked for once; no JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from py4j import protocol
from py4j.java_gateway import JavaClass, JavaPackage, JVMView

from jobs.spark.java_names import remember


class Client(SimpleNamespace):
    """What Java answers: in small letters all are packages, ``Thread`` is a class by now."""

    def __init__(self) -> None:
        property_ = SimpleNamespace(pool=None)
        super().__init__(
            asked=[], classes={"java.lang.Thread"}, converters=None, gateway_property=property_
        )

    def send_command(self, command: str) -> str:
        name = command.splitlines()[2]
        self.asked.append(name)
        if name in self.classes:
            return f"{protocol.SUCCESS_CLASS}{name}"
        return str(protocol.SUCCESS_PACKAGE)


def test_packages_and_classes_are_asked_for_once() -> None:
    remember()
    remember()
    client: Any = Client()
    jvm = JVMView(client, "view", id="v")
    first, again = jvm.java.lang.Thread, jvm.java.lang.Thread
    assert isinstance(first, JavaClass)
    assert again is first
    assert isinstance(jvm.java.util, JavaPackage)
    assert client.asked == ["java", "java.lang", "java.lang.Thread", "java.util"]


def test_a_class_that_is_imported_later_is_found() -> None:
    remember()
    client: Any = Client()
    jvm = JVMView(client, "view", id="v")
    assert isinstance(jvm.SparkConf, JavaPackage)
    client.classes.add("SparkConf")
    assert isinstance(jvm.SparkConf, JavaClass)
