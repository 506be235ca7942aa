"""The schema of a column: what ``cdc.events.values.encoder`` gives for its values in a form.

Types that Debezium does not know have a schema all the same, a string's. Three things are not as
Debezium has them: elements of every array may be null; ``varbit`` is text of 0 and 1, as its values
are; a negative scale is negative. ``default`` is never there: with one, readers take null for it.
"""

from __future__ import annotations

from typing import Final

from cdc.events.form import Form
from cdc.events.schemas.schema import BYTES, DOUBLE, INT32, STRING, Schema, struct
from cdc.events.values.decimals import money_digits, precision_and_scale
from cdc.events.values.encoder import TEXT_KINDS
from cdc.events.values.epochs import date_unit, time_unit
from cdc.protocol.relation import Column, TypeInfo

_SIMPLE: Final = {
    "bool": "boolean",
    "int2": "int16",
    "int4": "int32",
    "int8": "int64",
    "oid": "int64",
    "float4": "float",
    "float8": "double",
}
_LOGICAL: Final = {
    "uuid": "io.debezium.data.Uuid",
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "xml": "io.debezium.data.Xml",
    "ltree": "io.debezium.data.Ltree",
    "tsvector": "io.debezium.data.Tsvector",
    "timetz": "io.debezium.time.ZonedTime",
    "timestamptz": "io.debezium.time.ZonedTimestamp",
}
"""Types that are strings in every mode."""
_ISO: Final = {
    "date": "io.debezium.time.IsoDate",
    "time": "io.debezium.time.IsoTime",
    "timestamp": "io.debezium.time.IsoTimestamp",
}
_SRID: Final = INT32.as_optional()
_WKB: Final = BYTES.as_optional()
_POINT: Final = struct(
    "io.debezium.data.geometry.Point",
    1,
    "Geometry (POINT)",
    x=DOUBLE,
    y=DOUBLE,
    wkb=_WKB,
    srid=_SRID,
)
_GEOMETRY: Final = struct(
    "io.debezium.data.geometry.Geometry",
    2,
    "Geometry",
    wkb=BYTES,
    srid=_SRID,
    extensions=Schema("map", optional=True, keys=STRING, values=STRING),
)
_STRUCTS: Final = {
    "point": _POINT,
    "line": struct(
        "io.debezium.data.geometry.Line", 1, "Geometry (LINE)", a=DOUBLE, b=DOUBLE, c=DOUBLE
    ),
    "circle": struct(
        "io.debezium.data.geometry.Circle", 1, "Geometry (CIRCLE)", center=_POINT, radius=DOUBLE
    ),
    **dict.fromkeys(("lseg", "box", "path", "polygon"), _GEOMETRY),
    "vector": Schema("array", name="io.debezium.data.DoubleVector", version=1, items=DOUBLE),
    "halfvec": Schema(
        "array", name="io.debezium.data.FloatVector", version=1, items=Schema("float")
    ),
    "sparsevec": struct(
        "io.debezium.data.SparseDoubleVector",
        1,
        "Sparse double vector",
        dimensions=Schema("int16"),
        vector=Schema("map", keys=Schema("int16"), values=DOUBLE),
    ),
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL: Final = struct(
    "io.debezium.data.VariableScaleDecimal", 1, "Variable scaled decimal", scale=INT32, value=BYTES
)
_INTERVALS: Final = {
    "string": Schema("string", name="io.debezium.time.Interval", version=1),
    "numeric": Schema("int64", name="io.debezium.time.MicroDuration", version=1),
}


def column_schema(column: Column, form: Form) -> Schema:
    """Of a column's values, optional where the column may be NULL."""
    return type_schema(column.type, column.typmod, form).as_optional(column.nullable)


def type_schema(type: TypeInfo, typmod: int, form: Form) -> Schema:
    """Of values of a type, null not among them."""
    if type.kind == "enum":
        labels = (("allowed", ",".join(type.labels)),)
        return Schema("string", name="io.debezium.data.Enum", version=1, parameters=labels)
    if type.kind in TEXT_KINDS:
        return STRING
    if type.element is not None:
        of = type.element
        element = type_schema(of, of.typmod if of.typmod != -1 else typmod, form)
        return Schema("array", items=element.as_optional())
    base = type.base
    if base in _SIMPLE:
        return Schema(_SIMPLE[base])
    if base in _LOGICAL:
        return Schema("string", name=_LOGICAL[base], version=1)
    return _STRUCTS.get(base) or _of_mode(base, typmod, form)


def _of_mode(base: str, typmod: int, form: Form) -> Schema:
    match base:
        case "numeric" | "money":
            return _decimal(base, typmod, form)
        case "bytea":
            return BYTES if form.binaries == "bytes" else STRING
        case "bit":
            return _bits(typmod)
        case "date" | "time" | "timestamp":
            return _moment(base, typmod, form)
        case "interval":
            return _INTERVALS[form.intervals]
        case "hstore" if form.hstores == "map":
            return Schema("map", keys=STRING, values=STRING.as_optional())
        case "hstore":
            return Schema("string", name="io.debezium.data.Json", version=1)
    return STRING


def _decimal(base: str, typmod: int, form: Form) -> Schema:
    if form.decimals != "precise":
        return STRING if form.decimals == "string" else DOUBLE
    if base == "money":
        scale = (("scale", str(money_digits(typmod))),)
        return Schema("bytes", name=_DECIMAL, version=1, parameters=scale)
    digits = precision_and_scale(typmod)
    if digits is None:
        return VARIABLE_DECIMAL
    precision, scale_of = digits
    parameters = (("scale", str(scale_of)), ("connect.decimal.precision", str(precision)))
    return Schema("bytes", name=_DECIMAL, version=1, parameters=parameters)


def _moment(base: str, typmod: int, form: Form) -> Schema:
    unit = date_unit(form.times) if base == "date" else time_unit(base, form.times, typmod)
    if unit is None:
        return Schema("string", name=_ISO[base], version=1)
    return Schema(unit.type, name=unit.name, version=1)


def _bits(length: int) -> Schema:
    """Of an expression's bit, whose length nobody knows, the text is kept."""
    if length < 1:
        return STRING
    if length == 1:
        return Schema("boolean")
    parameters = (("length", str(length)),)
    return Schema("bytes", name="io.debezium.data.Bits", version=1, parameters=parameters)
