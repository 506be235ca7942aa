"""Capture and Debezium over the same WAL, with the same modes: events that have schemas, in front
of them or in a registry.

As the races of ``benchmarks.capture.race``, over usual rows. Whoever reads them pays for their
size; here it is who writes them.
"""

from __future__ import annotations

from benchmarks.capture.race import run_race
from benchmarks.capture.shapes import RACES, RaceForm
from benchmarks.environment import Setting
from benchmarks.peers.debezium import warm_worker
from benchmarks.report.medians import Run, form_figures, worst_form
from benchmarks.report.metrics import REPEATS
from stack.schema_registry import SchemaRegistry, schema_registry

_SCHEMAS = {
    f"{role}.converter{name}": value
    for role in ("key", "value")
    for name, value in (
        ("", "org.apache.kafka.connect.json.JsonConverter"),
        (".schemas.enable", "true"),
    )
}
_PRESET = {
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive",
    "interval.handling.mode": "numeric",
    "binary.handling.mode": "bytes",
    "skipped.operations": "t",
}


def forms(registry: SchemaRegistry) -> tuple[RaceForm, ...]:
    """With the modes of a connector without settings, but for the first; the last one keeps its
    schemas in ``registry``."""
    url = registry.url
    in_registry = f'format = "avro"\npreset = "debezium"\n[events.registry]\nurl = "{url}"\n'
    return (
        RaceForm("schemas", "schemas = true\n", _SCHEMAS),
        RaceForm("preset", 'preset = "debezium"\n', {**_SCHEMAS, **_PRESET}),
        RaceForm("avro", in_registry, {**_avro(registry), **_PRESET}),
    )


def _avro(registry: SchemaRegistry) -> dict[str, str]:
    """Connect's converter, with Confluent's framing, as Debezium's documentation sets it up."""
    settings = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": registry.own_url,
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.find-latest": "true",
        ".apicurio.registry.headers.enabled": "false",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
    }
    found = {f"{role}.converter{name}": value for role in ("key", "value")
             for name, value in settings.items()}  # fmt: skip
    return {**found, "schema.name.adjustment.mode": "avro"}


_RACE = next(race for race in RACES if race.name == "usual_1000row")


def measure_forms(setting: Setting) -> dict[str, float]:
    """Each form; medians of ``REPEATS`` runs."""
    runs: dict[str, dict[str, list[Run]]] = {}
    with (
        setting.connect() as conn,
        schema_registry(setting.home / "registry") as registry,
        warm_worker(setting, conn, "avro") as worker,
    ):
        setting.guardian.end(registry.process.pid)
        for form in forms(registry):
            runs[form.name] = run_race(setting, conn, worker, _RACE, REPEATS, form)
    figures = {
        name: value
        for form, of_form in runs.items()
        for name, value in form_figures(form, of_form).items()
    }
    return figures | worst_form(figures, list(runs))
