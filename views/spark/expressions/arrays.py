"""Arrays in view expressions: what is in them, how much, and their text. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from views.enum_labels import check_labels
from views.parse.expression_parts import is_json_list, quantified, unwrapped
from views.spark.expressions.casts import converted, element_type
from views.spark.expressions.functions import texts
from views.spark.expressions.json_operators import names_of
from views.spark.expressions.operators import EQUAL, common, comparable, typed
from views.spark.expressions.operators import comparison as plain_comparison
from views.spark.expressions.terms import (
    Scope,
    Term,
    adopt,
    cast,
    family,
    literal_count,
    quote,
    readable,
)
from views.types import (
    BOOL,
    FLOAT8,
    FLOATS,
    INT4,
    INTEGERS,
    STRINGS,
    TEXT,
    UNKNOWN,
    PgType,
    array_of,
)


def element(node: exp.Expr, scope: Scope) -> Term:
    """``array[n]`` with a literal n; NULL outside the array in both systems."""
    term = scope.compile(node.this)
    if term.type.name == "jsonb":
        scope.refuse(node, "a subscript of jsonb", "write -> 'name'")
    term = _array(node, scope, node.this)
    if len(node.expressions) != 1:
        scope.refuse(node, "an array has one subscript here")
    index = literal_count(node, scope, node.expressions[0], 0, 1) + 1  # sqlglot counts from 0
    return Term(f"try_element_at({term.sql}, {index})", term.type.item)


def _array(node: exp.Expr, scope: Scope, part: exp.Expr) -> Term:
    """An argument that has to be an array. One of objects is JSON in PostgreSQL."""
    term = scope.compile(part)
    if is_json_list(part) or term.type.element == "struct":
        scope.refuse(
            node, "a list of json_agg, or of objects, is JSON", "write array_agg of values"
        )
    if term.type.name != "array":
        hint = f"write {term.type}_array_length" if term.type.name in ("json", "jsonb") else ""
        scope.refuse(node, f"{term.type} is no array", hint)
    return term


def cardinality(node: exp.Expr, scope: Scope) -> Term:
    return Term(f"array_size({_array(node, scope, node.expressions[0]).sql})", INT4)


def length(node: exp.Expr, scope: Scope) -> Term:
    """``array_length(array, 1)`` and ``array_upper``: NULL of an empty array. All arrays have one
    dimension and begin at 1, for others are put aside."""
    anonymous = isinstance(node, exp.Anonymous)
    part, dimension = node.expressions if anonymous else (node.this, node.expression)
    if literal_count(node, scope, dimension, 1) != 1:
        scope.refuse(node, "arrays have one dimension here")
    return Term(f"nullif(array_size({_array(node, scope, part).sql}), 0)", INT4)


def joined(node: exp.Expr, scope: Scope) -> Term:
    """``array_to_string``: NULLs are left out, or are what the third argument says."""
    array = _array(node, scope, node.this)
    if array.type.element not in (*STRINGS, *INTEGERS, "uuid", "enum"):
        scope.refuse(node, f"the text of {array.type} is not known here")
    sql = array.sql
    if array.type.element in INTEGERS:
        sql = f"CAST({sql} AS array<string>)"
    arguments = [sql, *texts(node, scope, node.expression)]
    instead = node.args.get("null")
    if instead is not None and not isinstance(instead, exp.Null):
        if not isinstance(instead, exp.Literal) or not instead.is_string:
            scope.refuse(node, "what stands for NULL has to be a literal")
        arguments.append(quote(str(instead.this)))
    return Term(f"array_join({', '.join(arguments)})", TEXT)


def comparison(node: exp.Expr, scope: Scope) -> Term:
    """``=``, ``<`` and their kin; also ``= any (array)`` and ``<> all (array)``."""
    asked = quantified(node)
    is_known = asked is not None and (type(node), asked.word) in _KNOWN
    if asked is None or not is_known or asked.of.find(exp.Query) is not None:
        return plain_comparison(node, scope)  # which tells why
    negated = isinstance(node, exp.NEQ)
    items = _written(node, asked.of, scope)
    if items is None:
        return _among(node, asked.of, negated, scope)
    parts, terms = items
    value = scope.compile(node.this)
    if value.type.name == "bpchar" and any(term.type not in (TEXT, UNKNOWN) for term in terms):
        scope.refuse(node, "whether the blanks of char(n) count depends", "cast it to text")
    operands = typed(node, scope, [node.this, *parts], [value, *terms])
    one, *others = comparable(node, scope, operands)
    word = "NOT IN" if negated else "IN"
    return Term(f"({one.sql} {word} ({', '.join(other.sql for other in others)}))", BOOL)


# What is taken; others, like <> any, are seldom meant.
_KNOWN = {(exp.EQ, "any"), (exp.EQ, "some"), (exp.NEQ, "all")}


def _written(
    node: exp.Expr, of: exp.Expr, scope: Scope
) -> tuple[Sequence[exp.Expr], list[Term]] | None:
    """The elements of an array that is written out; None of any other.

    PostgreSQL settles their type before it looks at what they are compared with, but for
    ``'{a,b}'``, which takes the type of that.
    """
    kind = None
    if type(of) is exp.Cast and (kind := element_type(of.to)) is not None:
        of = unwrapped(of.this)
    parts: Sequence[exp.Expr]
    if isinstance(of, exp.Literal) and of.is_string:
        parts = [exp.Literal.string(name) for name in names_of(str(of.this), node, scope)]
    elif isinstance(of, exp.Array):
        parts = of.expressions
    else:
        return None
    if not parts:
        scope.refuse(node, "nothing is in this array")
    if kind is not None:
        return parts, [converted(node, part, kind, scope) for part in parts]
    terms = [scope.compile(part) for part in parts]
    return parts, _of_one_type(node, parts, terms, scope) if isinstance(of, exp.Array) else terms


def _of_one_type(
    node: exp.Expr, parts: Sequence[exp.Expr], terms: list[Term], scope: Scope
) -> list[Term]:
    """Elements of ``array[…]``: of quoted literals it is one of texts, also of NULLs alone."""
    kinds = {term.type for term in terms if not term.is_null}
    if kinds <= {UNKNOWN}:
        return [adopt(term, TEXT, part, scope) for term, part in zip(terms, parts, strict=True)]
    names = " and ".join(sorted(map(str, kinds)))
    if UNKNOWN in kinds:
        (one,) = kinds - {UNKNOWN} if len(kinds) == 2 else (TEXT,)
        scope.refuse(node, "quoted literals and others in one array", f"write '…'::{one}")
    if len(kinds) > 1 and any(kind.name in (*FLOATS, "bpchar") for kind in kinds):
        scope.refuse(node, f"the array mixes {names}", "write the cast")
    if PgType("bpchar") in kinds:
        scope.refuse(node, "whether the blanks of char(n) count depends", "cast it to text")
    known = iter(common(node, scope, [term for term in terms if not term.is_null]))
    return [term if term.is_null else next(known) for term in terms]


def _among(node: exp.Expr, of: exp.Expr, negated: bool, scope: Scope) -> Term:
    """Whether a value is an element. Nothing is in an empty array, not even NULL."""
    array = _array(node, scope, of)
    item = array.type.item
    if family(item) not in EQUAL or item.name == "bpchar":
        scope.refuse(node, f"{item} values cannot be compared here")
    readable(Term("", item), of, scope)
    value = scope.compile(node.this)
    if value.type.name == "bpchar" and item != TEXT:
        scope.refuse(node, "whether the blanks of char(n) count depends", "cast it to text")
    if item.name == "enum":
        check_labels([value], of, node, scope)
    value = readable(adopt(value, item, node.this, scope), node.this, scope)
    kinds = {value.type, item}
    if len(kinds) > 1 and all(family(kind) == "number" for kind in kinds):
        floats = any(kind.name in FLOATS for kind in kinds)
        target = FLOAT8 if floats else common(node, scope, [value, Term("", item)])[0].type
        value = value if value.type == target else cast(value, target)
        array = array if item == target else cast(array, array_of(target))
    else:
        common(node, scope, [value, Term("", item)])
    found = f"array_contains({array.sql}, {value.sql})"
    sql = f"(CASE WHEN array_size({array.sql}) = 0 THEN FALSE ELSE {found} END)"
    return Term(f"(NOT {sql})" if negated else sql, BOOL)
