"""Spark of a process: its session, JVM, memory, classes and what its faults mean."""
