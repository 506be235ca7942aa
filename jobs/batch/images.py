"""Images as JSON text: cut out of events, and filled with values that an update left out. Pure.

Text of values is never read and written again: ``1e+20`` and ``\\u00e9`` stay what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

_NULL: Final = b"null"


class _Images(msgspec.Struct, gc=False):
    before: msgspec.Raw = msgspec.Raw(_NULL)
    after: msgspec.Raw = msgspec.Raw(_NULL)


class Image(NamedTuple):
    """The image behind a change, None for a delete, and the columns whose values it lacks."""

    after: str | None
    unchanged: Sequence[str]


_images: Final = msgspec.json.Decoder(_Images).decode
_columns: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def images(event: str | bytes) -> tuple[str | None, str | None]:
    """The texts of ``before`` and ``after`` of an event, None for null."""
    found = _images(event)
    return text(found.before), text(found.after)


def text(image: msgspec.Raw) -> str | None:
    """An image's JSON, None for null."""
    return None if (found := bytes(image)) == _NULL else found.decode()


def filled(last: Image, earlier: Iterable[Image]) -> Image:
    """The last image of a key with the values that it lacks, from ``earlier`` images, the newest
    first, none of them from before the key was last deleted."""
    if last.after is None or not last.unchanged:
        return last
    values = _columns(last.after)
    lacking = [name for name in last.unchanged if name in values]
    found = dict[str, msgspec.Raw]()
    for image in earlier:
        if image.after is None:  # what stood before a delete was another row's
            break
        _take(_columns(image.after), image.unchanged, lacking, found)
        if len(found) == len(lacking):
            break
    if not found:
        return last
    left = [name for name in last.unchanged if name not in found]
    return Image(msgspec.json.encode({**values, **found}).decode(), left)


def renamed(image: Image, names: Mapping[str, str]) -> Image:
    """An image under other names of its columns; without those that ``names`` does not have."""
    if image.after is None:
        return image
    values = _columns(image.after)
    after = {new: values[old] for old, new in names.items() if old in values}
    unchanged = [names[name] for name in image.unchanged if name in names]
    return Image(msgspec.json.encode(after).decode(), unchanged)


def _take(
    values: dict[str, msgspec.Raw],
    unchanged: Collection[str],
    lacking: Sequence[str],
    found: dict[str, msgspec.Raw],
) -> None:
    for name in lacking:
        if name in values and name not in unchanged and name not in found:
            found[name] = values[name]
