"""Collations of the source, as the state database has them.

Text compares as in the source only under the same collation: the same provider, locale and rules,
in the same version. It may have another name in the state database, or be its default. Where there
is none, and none can be made, the values are mirrored all the same, for equality asks no locale;
what compares, sorts or changes the case of such a column would be wrong, and is told (``fault``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import psycopg

from cdc.source.errors import translated
from cdc.source.postgres import Connection, identifier, literal
from jobs.state.mirrors.table import TYPE_SCHEMA

_NAMELESS: Final = ("C", "POSIX")
_LIBC, _ICU, _BUILTIN = "c", "i", "b"
_PROVIDERS: Final = {_LIBC: "libc", _ICU: "icu", _BUILTIN: "builtin"}
_DEFAULT: Final = 100
"""The OID of the collation that stands for the database's own."""


class Locale(NamedTuple):
    """What decides how text compares. ``name`` is of libc its LC_COLLATE and LC_CTYPE."""

    provider: str
    name: str
    rules: str
    deterministic: bool


class Collation(NamedTuple):
    """``version`` is empty where the provider has none."""

    schema: str
    name: str
    locale: Locale
    version: str

    @property
    def sql(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.name)}"


class Match(NamedTuple):
    """What stands for a collation of the source: SQL, empty for the default of the database."""

    sql: str = ""
    fault: str = ""
    deterministic: bool = True


def read_collations(conn: Connection) -> Mapping[int, Collation]:
    """The collations of a database by OID; the default is under the OID of ``default``."""
    with translated("reading the collations of the database"):
        rows = conn.execute(_query(conn.info.server_version).encode()).fetchall()
    found = {}
    for oid, schema, name, provider, collate, ctype, locale, rules, deterministic, version in rows:
        what = _locale(provider, collate, ctype, locale, rules, deterministic)
        found[oid] = Collation(schema, name, what, "" if what.provider == "" else version)
    return found


class Collations:
    """Those of the source in terms of the state database, where missing ones are made."""

    def __init__(self, source: Connection, state: Connection) -> None:
        self._state = state
        self._wanted = read_collations(source)
        self._held = read_collations(state)
        self._made: dict[int, Match] = {}

    def match(self, oid: int) -> Match:
        """What stands for the source's collation ``oid``; 0 is none."""
        if oid == 0:
            return Match()
        if oid not in self._made:
            self._made[oid] = self._match(self._wanted[oid])
        return self._made[oid]

    def _match(self, wanted: Collation) -> Match:
        found = self._find(wanted.locale)
        if found is None:
            self._make(wanted)
            found = self._find(wanted.locale)
        deterministic = wanted.locale.deterministic
        called = f"the collation {wanted.locale.name or wanted.name}"
        if found is None:
            return Match("", f"the state database does not have {called}", deterministic)
        fault = ""
        if wanted.version != found.version:
            fault = f"the state database has {called} in version {found.version or 'unknown'}"
            fault += f", the source in {wanted.version or 'unknown'}"
        sql = "" if found.name == "default" else found.sql
        return Match(sql, fault, deterministic)

    def _find(self, locale: Locale) -> Collation | None:
        same = [one for one in self._held.values() if one.locale == locale]
        return min(same, key=lambda one: (one.name != "default", one.name), default=None)

    def _make(self, wanted: Collation) -> None:
        """Try to: the operating system or the server may not have the locale."""
        statement = _creation(wanted)
        try:
            with self._state.transaction():
                self._state.execute(statement.encode())
        except psycopg.Error:
            return
        self._held = read_collations(self._state)


def _creation(wanted: Collation) -> str:
    locale = wanted.locale
    collate, _, ctype = locale.name.partition(" ")
    options = [f"provider = {_PROVIDERS.get(locale.provider, 'libc')}"]
    if locale.provider == _LIBC:
        options += [f"lc_collate = {literal(collate)}", f"lc_ctype = {literal(ctype or collate)}"]
    else:
        options.append(f"locale = {literal(locale.name)}")
    if locale.rules:
        options.append(f"rules = {literal(locale.rules)}")
    if not locale.deterministic:
        options.append("deterministic = false")
    name = identifier(f"{wanted.schema}.{wanted.name}"[:40])
    return f"create collation if not exists {TYPE_SCHEMA}.{name} ({', '.join(options)})"


def _locale(
    provider: str, collate: str, ctype: str, locale: str, rules: str, deterministic: bool
) -> Locale:
    if provider == _LIBC:
        names = [_without_dashes(name) for name in (collate, ctype)]
        if set(names) <= set(_NAMELESS):
            return Locale("", "C", "", True)
        name = names[0] if names[0] == names[1] else " ".join(names)
        return Locale(_LIBC, name, "", deterministic)
    if provider == _BUILTIN and locale in _NAMELESS:
        return Locale("", "C", "", True)
    return Locale(provider, locale, rules, deterministic)


def _without_dashes(name: str) -> str:
    """``en_US.UTF-8`` and ``en_US.utf8`` are one."""
    language, dot, codeset = name.partition(".")
    return language + dot + codeset.replace("-", "").lower()


def _query(version: int) -> str:
    locale = "colllocale" if version >= 170000 else "colliculocale"
    of_database = "datlocale" if version >= 170000 else "daticulocale"
    rules, of_rules = "collicurules", "daticurules"
    if version < 160000:
        rules, of_rules = "null::text", "null::text"
    provider = "d.datlocprovider"
    if version < 150000:
        locale, of_database, provider = "c.collcollate", "null::text", "'c'"
    else:
        locale, of_database = f"c.{locale}", f"d.{of_database}"
    default = f"c.oid = {_DEFAULT}"
    return f"""
select c.oid::bigint, n.nspname, c.collname,
       (case when {default} then {provider} else c.collprovider end)::text,
       coalesce(case when {default} then d.datcollate else c.collcollate end, '')::text,
       coalesce(case when {default} then d.datctype else c.collctype end, '')::text,
       coalesce(case when {default} then {of_database} else {locale} end, '')::text,
       coalesce(case when {default} then {of_rules} else {rules} end, '')::text,
       c.collisdeterministic,
       coalesce(pg_catalog.pg_collation_actual_version(c.oid), '')::text
from pg_catalog.pg_collation c join pg_catalog.pg_namespace n on n.oid = c.collnamespace
join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
where c.collencoding in (-1, pg_catalog.pg_char_to_encoding(pg_catalog.getdatabaseencoding()))
"""
