"""HTML as a browser takes it apart, and what must not be wrong with it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from typing import Final

_BREAK: Final = "\0"
"""Where a long name may be broken."""
_VOID: Final = frozenset(
    ("meta", "link", "input", "br", "wbr", "img", "hr", "path", "circle", "rect", "use")
)


class Markup(HTMLParser):
    """``text`` is what people read; ``problems`` what is wrong: tags that do not close, ids that
    are there twice, references to none, and what the content security policy forbids."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.problems: list[str] = []
        self.texts: list[str] = []
        self.tags: Counter[str] = Counter()
        self._open: list[str] = []
        self._ids: Counter[str] = Counter()
        self._meant: list[str] = []
        self.feed(html)
        self.close()
        self.problems += [f"<{one}> is not closed" for one in self._open]
        self.problems += [f"id {one} is there twice" for one, n in self._ids.items() if n > 1]
        self.problems += [f"no element has id {one}" for one in self._meant if one not in self._ids]
        joined = " ".join(self.texts).replace(f" {_BREAK} ", "")
        self.text = " ".join(joined.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._attributes(tag, dict(attrs))
        if tag == "wbr":
            self.texts.append(_BREAK)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._attributes(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"</{tag}> closes {self._open[-1:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            self.problems.append(f"inline {self._open[-1]}: {data.strip()[:40]}")
        self.texts.append(data)

    def _attributes(self, tag: str, found: dict[str, str | None]) -> None:
        for name in found:
            if name == "style" or name.startswith(("on", "data-hx-on", "hx-on")):
                self.problems.append(f"<{tag}> has {name}")
        if one := found.get("id"):
            self._ids[one] += 1
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self._meant += (found.get(name) or "").split()
