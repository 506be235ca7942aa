"""The transactions whose whole events are recorded: one of each kind of change."""

from __future__ import annotations

from typing import Final

TABLES: Final = """
create table plain (id int primary key, a text, b text);
create table whole (id int primary key, a text);
alter table whole replica identity full;
create table keyless (a int, b text);
alter table keyless replica identity full;
create table compound (a int, b text, c text, primary key (b, a));
alter table plain alter b set storage external;
"""

KEYS: Final = {"plain": ["id"], "whole": ["id"], "keyless": [], "compound": ["b", "a"]}

_LARGE: Final = "repeat('large', 2000)"

TRANSACTIONS: Final = [
    [f"insert into plain values (1, 'one', {_LARGE})"],
    ["insert into plain values (2, 'two', null), (3, 'three', 'é \"q\"')"],
    [
        "update plain set a = 'uno' where id = 1",
        "update plain set id = 20 where id = 2",
        "delete from plain where id = 3",
    ],
    [
        "insert into whole values (1, 'q')",
        "update whole set a = 'r'",
        "update whole set id = 2",
        "delete from whole",
    ],
    [
        "insert into keyless values (1, 'q')",
        "update keyless set b = 'r'",
        "delete from keyless",
    ],
    ["insert into compound values (1, 'k', 'v')", "update compound set b = 'l'"],
    [
        "select pg_logical_emit_message(true, 'inside', 'hello')",
        "insert into plain values (30, 'thirty', null)",
    ],
    ["select pg_logical_emit_message(false, 'outside', 'hello')"],
    ["truncate plain, whole"],
    ["insert into plain values (40, 'forty', null)"],
]

COUNTS: Final = {
    "public.plain": 12,
    "public.whole": 8,
    "public.keyless": 4,
    "public.compound": 4,
    "message": 2,
}

TRANSACTION_RECORDS: Final = 18
"""Begin and end of each transaction: the message outside of any has none."""
