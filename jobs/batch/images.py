"""Images as JSON text, as events carry them, filled with values that an update left out. Pure.

Text of values is never read and written again: ``1e+20`` and ``\\u00e9`` stay what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

_NULL: Final = b"null"


class Image(NamedTuple):
    """The image behind a change, None for a delete, and the columns whose values it lacks.

    With ``read_lsn`` it has their values, too, but only as a snapshot read them at that LSN. A row
    of a snapshot may stand behind changes that were committed later and applied in earlier batches:
    who has a row that is newer than that LSN takes the values from there.
    """

    after: str | None
    unchanged: Sequence[str]
    read_lsn: int | None = None


_columns: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read_row(after: str | None, lsn: int) -> Image:
    """The image of a row of a snapshot, as one that values left out are taken from."""
    return Image(after, () if after is None else list(_columns(after)), lsn)


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
    found, read = dict[str, msgspec.Raw](), dict[str, msgspec.Raw]()
    read_lsn = None
    for image in earlier:
        if image.after is None:  # what stood before a delete was another row's
            break
        held = _columns(image.after)
        _take(held, image.unchanged, lacking, found)
        left = [name for name in last.unchanged if name not in found]
        if image.read_lsn is not None and left and held.keys() >= set(left):
            read, read_lsn = {name: held[name] for name in left}, image.read_lsn
        if image.read_lsn is not None or len(found) == len(lacking):
            break
    if not found and not read:
        return last
    left = [name for name in last.unchanged if name not in found]
    return Image(msgspec.json.encode({**values, **found, **read}).decode(), left, read_lsn)


def renamed(image: Image, names: Mapping[str, str]) -> Image:
    """An image under other names of its columns; without those that ``names`` does not have."""
    if image.after is None:
        return image
    values = _columns(image.after)
    after = {new: values[old] for old, new in names.items() if old in values}
    unchanged = [names[name] for name in image.unchanged if name in names]
    return Image(msgspec.json.encode(after).decode(), unchanged, image.read_lsn)


def _take(
    values: dict[str, msgspec.Raw],
    unchanged: Collection[str],
    lacking: Sequence[str],
    found: dict[str, msgspec.Raw],
) -> None:
    for name in lacking:
        if name in values and name not in unchanged and name not in found:
            found[name] = values[name]
