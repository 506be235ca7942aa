"""Which dead letters a page has, and what of them somebody may see."""

from __future__ import annotations

from dataclasses import replace

from headwater.api.access.principal import Principal, Role
from headwater.api.pipeline.figures import MOST_LETTERS, letters_page
from tests.support.console import sample

LETTER = sample.dead_letters().letters[0]
ALL = Principal("alice", Role.OPERATOR, frozenset(("*",)))


def test_of_one_view_all_are_counted_however_many_another_has() -> None:
    letters = [replace(LETTER, view="a")] * 250 + [replace(LETTER, view="b")] * 5
    page = letters_page(1.0, letters, ("x",), ALL, "b")
    assert (page.keys, [one.view for one in page.letters]) == (5, ["b"] * 5)
    assert (page.at_s, page.problems) == (1.0, ("x",))
    every = letters_page(1.0, letters, (), ALL)
    assert (every.keys, len(every.letters)) == (255, MOST_LETTERS)


def test_a_key_and_its_cause_are_of_who_may_see_all_its_tables() -> None:
    granted = Principal("bob", Role.VIEWER, frozenset(("public.orders",)))
    both = replace(LETTER, tables=("public.orders", "public.people"))
    (seen, hidden) = letters_page(1.0, [LETTER, both], (), granted).letters
    assert seen == LETTER
    assert (hidden.id, hidden.key, hidden.name, hidden.cause) == (None,) * 4
