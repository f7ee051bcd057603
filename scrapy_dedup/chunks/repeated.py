"""Which blocks a host repeats on pages of different names, and which of them always stand together.

The rule is that of `scrapy_dedup.near.host_blocks`, counted exactly over all pages that are live now. Pages
count by name, so that the text of a manual does not count as repeated because ten versions of it have it; for
the same reason the share is one of the host's names and not of its pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scrapy_dedup.near.host_blocks import MIN_NAMES, MIN_PAGES
from scrapy_dedup.near.paragraphs import WORDLESS

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Repeated:
    """What a host repeats.

    Attributes:
        keys: of the blocks that it repeats.
        joined: pairs of keys, of blocks of which wherever one stands the other follows it.
    """

    keys: frozenset[int]
    joined: frozenset[tuple[int, int]]


NOTHING_REPEATED = Repeated(frozenset(), frozenset())


class HostPages:
    """The pages of one host, as the keys of their blocks."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._pages: list[Keys] = []
        self._numbers: list[int] = []

    def add(self, name: str, keys: Sequence[int]) -> None:
        """Add a page.

        Args:
            name: of the page, see `scrapy_dedup.near.host_blocks.page_name`.
            keys: of its blocks, in the order in which they stand.
        """
        self._numbers.append(self._names.setdefault(name, len(self._names)))
        self._pages.append(np.array(keys, np.uint64))

    def repeated(self, share: float) -> Repeated:
        """Return what the host repeats.

        Args:
            share: of the host's names that a block has to stand under, 0 to 1; never fewer than `MIN_NAMES`.
        """
        if len(self._names) < MIN_PAGES:
            return NOTHING_REPEATED
        least = max(MIN_NAMES, share * len(self._names))
        spoken = [page[page != WORDLESS] for page in self._pages]
        names = np.repeat(np.array(self._numbers, np.int64), [len(page) for page in spoken])
        keys = _often(np.concatenate(spoken), names, least)
        return Repeated(frozenset(keys.tolist()), frozenset(_joined(spoken, keys)))


def _often(keys: Keys, names: npt.NDArray[np.int64], least: float) -> Keys:
    """Return the keys that stand under at least so many names, in ascending order."""
    found, counts = np.unique(keys, return_counts=True)
    is_often = _are_among(keys, found[counts >= least])  # others stand under fewer names; most keys are such
    keys, names = keys[is_often], names[is_often]
    order = np.lexsort((names, keys))
    keys, names = keys[order], names[order]
    is_new = np.ones(len(keys), np.bool_)
    is_new[1:] = (keys[1:] != keys[:-1]) | (names[1:] != names[:-1])
    found, counts = np.unique(keys[is_new], return_counts=True)
    often: Keys = found[counts >= least]
    return often


def _joined(pages: Sequence[Keys], keys: Keys) -> set[tuple[int, int]]:
    """Return the pairs of keys of which one is always followed by the other, and that always by the one."""
    edge = np.array([WORDLESS], np.uint64)  # a page begins and ends, which is a neighbour like any other
    row: Any = np.concatenate([edge, *(part for page in pages for part in (page, edge))])
    is_repeated = _are_among(row, keys)
    # Of a pair without a repeated block nothing is asked, and nearly all pairs are such.
    is_asked = is_repeated[:-1] | is_repeated[1:]
    before, after = row[:-1][is_asked], row[1:][is_asked]
    order = np.lexsort((after, before))
    before, after = before[order], after[order]
    is_new = np.ones(len(before), np.bool_)
    is_new[1:] = (before[1:] != before[:-1]) | (after[1:] != after[:-1])
    before, after = before[is_new], after[is_new]
    alone = _single(before) & _single(after) & _are_among(before, keys) & _are_among(after, keys)
    return set(zip(before[alone].tolist(), after[alone].tolist(), strict=True))


def _are_among(values: Keys, sought: Keys) -> npt.NDArray[np.bool_]:
    """Tell of each value whether it is one of those sought, which are in ascending order."""
    if not len(sought):
        return np.zeros(len(values), np.bool_)
    found: npt.NDArray[np.bool_] = sought.take(np.searchsorted(sought, values), mode="clip") == values
    return found


def _single(values: Keys) -> npt.NDArray[np.bool_]:
    """Tell of each value whether it stands in the array once only."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    single: npt.NDArray[np.bool_] = counts[inverse] == 1
    return single
