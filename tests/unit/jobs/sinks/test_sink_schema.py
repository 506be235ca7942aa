"""What columns of a view may become, and times that Python has no value for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cdc.errors import ViewError
from jobs.sinks.arrow import python_values
from jobs.sinks.opensearch.mapping import properties
from jobs.sinks.schema_evolution import (
    POSTGRES_TYPE,
    check_key,
    columns_from_json,
    columns_json,
    described,
    evolved,
    evolved_documents,
    quoted,
    widens,
    widens_as_text,
    without_limits,
)

STORED = StructType().add("id", LongType(), False).add("tags", ArrayType(StringType(), False))


def test_columns_are_added_at_the_end_and_may_be_null() -> None:
    wanted = StructType().add("n", IntegerType(), False).add("id", LongType())
    whole = evolved("v", STORED, wanted)
    assert whole.names == ["id", "tags", "n"]
    assert whole["n"].nullable


def test_nullability_is_no_change() -> None:
    wanted = StructType().add("id", LongType()).add("tags", ArrayType(StringType()))
    assert evolved("v", STORED, wanted) == STORED


def test_another_element_type_is_a_change() -> None:
    wanted = StructType().add("tags", ArrayType(LongType()))
    with pytest.raises(
        ViewError, match=r"^view v: the store holds tags.element string, now bigint"
    ):
        evolved("v", STORED, wanted)


def test_what_spark_holds_as_text_is_called_as_postgresql_does() -> None:
    """The sum of a column that became bigint."""
    stored = StructType([StructField("n", LongType()), StructField("a", ArrayType(LongType()))])
    told = {POSTGRES_TYPE: "numeric"}
    wanted = StructType(
        [
            StructField("n", StringType(), metadata=told),
            StructField("a", ArrayType(StringType()), metadata=told),
        ]
    )
    said = "the store holds n bigint, now numeric; a.element bigint, now numeric"
    with pytest.raises(ViewError, match=said):
        evolved("v", stored, wanted)


def test_only_a_store_that_can_takes_wider_types() -> None:
    stored, wanted = StructType().add("n", IntegerType()), StructType().add("n", LongType())
    with pytest.raises(ViewError, match="n int, now bigint"):
        evolved("v", stored, wanted)
    assert evolved("v", stored, wanted, widens) == wanted


def of_lines(number: DataType, price: DataType) -> StructType:
    """An array of objects, and an object in one."""
    inner = StructType().add("n", number)
    line = StructType().add("price", price).add("inner", inner)
    return StructType().add("id", LongType()).add("lines", ArrayType(line))


@pytest.mark.parametrize("can", [widens, widens_as_text])
def test_what_is_in_arrays_and_objects_becomes_wider_as_columns_do(
    can: Callable[[DataType, DataType], bool],
) -> None:
    stored = of_lines(IntegerType(), DecimalType(10, 2))
    wanted = of_lines(LongType(), DecimalType(12, 2))
    assert evolved("v", stored, wanted, can) == wanted
    with pytest.raises(ViewError) as refused:
        evolved("v", wanted, stored, can)
    assert refused.value.message == (
        "view v: the store holds lines.element.price decimal(12,2), now decimal(10,2); "
        "lines.element.inner.n bigint, now int"
    )


def test_an_object_with_other_fields_is_named_alone() -> None:
    stored = StructType().add("id", LongType()).add("o", StructType().add("a", LongType()))
    wanted = StructType().add("id", LongType()).add("o", StructType().add("b", LongType()))
    with pytest.raises(ViewError) as refused:
        evolved("v", stored, wanted, widens)
    assert refused.value.message == (
        "view v: the store holds o struct<a:bigint>, now struct<b:bigint>"
    )


def test_an_index_takes_what_a_wider_integer_or_decimal_holds() -> None:
    """Fields keep their type for good."""
    narrow = of_lines(IntegerType(), DecimalType(10, 2))
    wide = of_lines(LongType(), DecimalType(12, 2))
    assert properties("v", narrow) == properties("v", wide)


@pytest.mark.parametrize(
    ("held", "wanted", "fits", "as_text"),
    [
        (ShortType(), IntegerType(), True, True),
        (IntegerType(), LongType(), True, True),
        (LongType(), IntegerType(), False, False),
        (FloatType(), DoubleType(), True, False),
        (IntegerType(), DoubleType(), False, False),
        (DecimalType(6, 2), DecimalType(8, 2), True, True),
        (DecimalType(6, 2), DecimalType(8, 4), True, False),
        (DecimalType(8, 2), DecimalType(6, 2), False, False),
        (DecimalType(6, 2), DecimalType(7, 4), False, False),
        (DecimalType(6, 2), DecimalType(9, 1), False, False),
        (IntegerType(), StringType(), False, False),
        (DateType(), TimestampType(), False, False),
    ],
)
def test_a_wider_type_has_room_for_every_value_as_it_is(
    held: DataType, wanted: DataType, fits: bool, as_text: bool
) -> None:
    assert (widens(held, wanted), widens_as_text(held, wanted)) == (fits, as_text)


def test_documents_get_another_text_where_rows_are_made_anew_but_for_their_names() -> None:
    """``1.50`` and ``1.5000`` are one number, and two names of a document."""

    def columns(number: DataType) -> StructType:
        return StructType().add("id", LongType()).add("n", number).add("a", ArrayType(number))

    for held, wanted in (
        (FloatType(), DoubleType()),
        (DecimalType(10, 2), DecimalType(12, 4)),
    ):
        both = columns(held), columns(wanted)
        assert evolved_documents("v", *both, ("id",), True) == both[1]
        for key, made_anew in ((("id",), False), (("n",), True), (("id", "n"), True)):
            with pytest.raises(ViewError, match="the store holds n "):
                evolved_documents("v", *both, key, made_anew)


def test_a_numeric_without_limits_has_the_text_that_it_had_with_them() -> None:
    def columns(number: DataType, postgres: str = "") -> StructType:
        told = {POSTGRES_TYPE: postgres} if postgres else None
        listed = StructField("a", ArrayType(number), metadata=told)
        return StructType([StructField("n", number, metadata=told), listed])

    held, endless = columns(DecimalType(10, 2)), columns(StringType(), "numeric")
    for made_anew in (True, False):
        assert evolved_documents("v", held, endless, ("n",), made_anew) == endless
        with pytest.raises(ViewError, match=r"n decimal\(10,2\), now string"):
            evolved_documents("v", held, columns(StringType()), ("n",), made_anew)
    with pytest.raises(ViewError, match=r"n string, now decimal\(10,2\)"):
        evolved_documents("v", endless, held, (), True)


ENDLESS = {POSTGRES_TYPE: "numeric"}
EVERYWHERE = {"delta": "key", "postgres": "key", "documents": "key", "documents by spark": "key"}
WIDENINGS: list[tuple[DataType, DataType, dict[str, str]]] = [
    (ShortType(), LongType(), EVERYWHERE),
    (IntegerType(), LongType(), EVERYWHERE),
    (StringType(), StringType(), EVERYWHERE),  # varchar(10) and text
    (DecimalType(10, 2), DecimalType(12, 2), EVERYWHERE),
    (DecimalType(10, 2), StringType(), EVERYWHERE | {"delta": "none"}),  # numeric
    (
        DecimalType(10, 2),
        DecimalType(14, 4),
        {"delta": "key", "postgres": "key", "documents": "rest", "documents by spark": "none"},
    ),
    (
        FloatType(),
        DoubleType(),
        {"delta": "key", "postgres": "key", "documents": "rest", "documents by spark": "none"},
    ),
]


@pytest.mark.parametrize(("held", "wanted", "where"), WIDENINGS, ids=str)
def test_where_a_column_may_become_wider(
    held: DataType, wanted: DataType, where: dict[str, str]
) -> None:
    """In the ``key``, in the ``rest`` of the columns, or in ``none``; then it is told."""

    def columns(kind: DataType) -> StructType:
        is_numeric = isinstance(kind, StringType) and isinstance(held, DecimalType)
        told = ENDLESS if is_numeric else None
        listed = StructField("list", ArrayType(kind), metadata=told)
        return StructType([StructField("n", kind, metadata=told), listed]).add("id", LongType())

    stored, asked = columns(held), columns(wanted)
    stores: dict[str, Callable[[tuple[str, ...]], StructType]] = {
        "delta": lambda _: evolved("v", stored, asked, widens),
        "postgres": lambda _: evolved("v", without_limits(stored, asked), asked, widens),
        "documents": lambda key: evolved_documents("v", stored, asked, key, True),
        "documents by spark": lambda key: evolved_documents("v", stored, asked, key, False),
    }
    for store, told in where.items():
        for key, allowed in (("n", told == "key"), ("id", told != "none")):
            if allowed:
                assert stores[store]((key,)) == asked, (store, key)
                continue
            with pytest.raises(ViewError) as refused:
                stores[store]((key,))
            is_numeric = isinstance(wanted, StringType) and isinstance(held, DecimalType)
            now = "numeric" if is_numeric else described(wanted)
            change = f"the store holds n {described(held)}, now {now}"
            assert change in refused.value.message
            assert refused.value.hint.startswith("Rebuild the view")


def test_the_order_of_key_columns_matters() -> None:
    check_key("v", ["a", "b"], ("a", "b"))
    with pytest.raises(ViewError, match=r"key is \(a, b\), the view's is \(b, a\)"):
        check_key("v", ["a", "b"], ("b", "a"))


def test_columns_survive_their_json() -> None:
    assert columns_from_json(columns_json(STORED)) == STORED


def test_names_are_quoted() -> None:
    assert quoted("a`b") == "`a``b`"


def test_times_python_has_are_its_own_and_others_are_text() -> None:
    times = pa.array([0, None, 317_283_220_800_500_000], pa.timestamp("us", "UTC"))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert python_values(times) == [epoch, None, "+12024-04-21T12:00:00.500000Z"]
    dates = pa.array([[0, None], [3_700_000], None], pa.list_(pa.date32()))
    assert python_values(dates) == [[date(1970, 1, 1), None], ["+12100-04-04"], None]


def test_the_year_before_the_first_has_no_sign_as_in_events() -> None:
    moments = pa.array([-62_167_219_200_000_000, -62_198_755_200_000_000], pa.timestamp("us"))
    assert python_values(moments) == ["0000-01-01T00:00:00.000000", "-0001-01-01T00:00:00.000000"]
    days = pa.array([-719_528, -719_529], pa.date32())
    assert python_values(days) == ["0000-01-01", "-0001-12-31"]
