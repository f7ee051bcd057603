"""Which texts are compared, and in which order: copies are set aside, the others stand by priority.

A place is the number of a text in that order: the text with the smaller rank, then the smaller identity,
would rather lead a group. Nothing depends on the order of the input.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scrapy_dedup.batch.reading import IDS, ROW, ROWS, SIGNED, SIGNED_ROWS, Rows
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.near.shingles import SHINGLE_TOKENS

Numbers = npt.NDArray[np.int64]

PLACES, COPIES = "places", "copies"

# Of each place: the row of its text, and where its keys stand in the columns of keys.
PLACE = np.dtype([("row", "<i8"), ("key", "<i8")])
# A copy: the place of the text that it equals, and its own row; by place, then by priority.
COPY = np.dtype([("place", "<i8"), ("row", "<i8")])


class Counts(NamedTuple):
    """What the input holds.

    Attributes:
        texts: all of them.
        copies: those that equal another one but for white space, case and composition.
        short: distinct texts of fewer than three tokens, which are not compared; their copies count as such.
        empty: those of them without any token.
    """

    texts: int
    copies: int
    short: int
    empty: int


class Identities:
    """The identities of rows, read when they are asked for."""

    def __init__(self, work: WorkFolder) -> None:
        self._rows: Rows = work.column(ROWS, ROW)
        self._bytes = work.column(IDS, np.uint8)

    def of(self, row: int) -> str:
        """Return the identity of one row."""
        return self.encoded(row).decode()

    def encoded(self, row: int) -> bytes:
        """Return the identity of one row as UTF-8, which is ordered as the text is."""
        start = int(self._rows["id_start"][row])
        return self._bytes[start : start + int(self._rows["id_length"][row])].tobytes()


def find_places(work: WorkFolder) -> Counts:
    """Fill the columns of places and copies; return what the input holds."""
    if not work.get("counts"):
        places, copies, counts = _places(work)
        work.append(PLACES, places)
        work.append(COPIES, copies)
        work.checkpoint(counts=counts)
        work.close(PLACES, COPIES)
    return Counts(*work.get("counts"))


def _places(work: WorkFolder) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void], Counts]:
    rows, signed = work.column(ROWS, ROW), work.column(SIGNED_ROWS, SIGNED)
    identities = Identities(work)
    by_text = np.lexsort((rows["low"], rows["high"]))
    high, low = rows["high"][by_text], rows["low"][by_text]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    bounds = np.append(np.flatnonzero(is_first), len(rows))
    text_of_row = np.empty(len(rows), np.int64)
    text_of_row[by_text] = np.cumsum(is_first) - 1
    key_of_text = np.empty(len(bounds) - 1, np.int64)
    key_of_text[text_of_row[signed["row"]]] = np.arange(len(signed))

    chosen = by_text[bounds[:-1]]
    others: dict[int, list[int]] = {}
    for text in np.flatnonzero(np.diff(bounds) > 1).tolist():
        same = by_text[bounds[text] : bounds[text + 1]].tolist()
        same.sort(key=lambda row: (int(rows["rank"][row]), identities.encoded(row)))
        chosen[text], others[text] = same[0], same[1:]

    tokens = signed["tokens"][key_of_text]
    compared = np.flatnonzero(tokens >= SHINGLE_TOKENS)
    encoded = [identities.encoded(row) for row in chosen[compared].tolist()]
    by_id = compared[sorted(range(len(encoded)), key=encoded.__getitem__)]
    ordered = by_id[np.argsort(rows["rank"][chosen[by_id]], kind="stable")]

    places = np.zeros(len(ordered), PLACE)
    places["row"], places["key"] = chosen[ordered], key_of_text[ordered]
    copies = [
        (place, row) for place, text in enumerate(ordered.tolist()) if text in others for row in others[text]
    ]
    counts = Counts(
        texts=len(rows),
        copies=len(rows) - len(chosen),
        short=len(chosen) - len(compared),
        empty=int(np.count_nonzero(tokens == 0)),
    )
    return places, np.array(copies, COPY), counts
