"""What texts share, exactly: Jaccard similarity and containment of their sets of shingles, for many pairs.

An estimate finds pairs; whether a pair is above a threshold is counted here. The shingles of a batch are
numbered once; then, for each text, its numbers are marked and those of all its partners looked up, which
takes a nanosecond or two for each shingle.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scrapy_dedup.near.shingles import Hashes, Offsets

Measures = npt.NDArray[np.float64]


class Overlaps(NamedTuple):
    """Parallel arrays for pairs of texts, each value 0.0 to 1.0.

    Attributes:
        jaccard: shared shingles in all shingles of the two.
        containment_a: the share of the first text's shingles that the second one has.
        containment_b: the share of the second text's shingles that the first one has.
    """

    jaccard: Measures
    containment_a: Measures
    containment_b: Measures


class ShingleSets:
    """The sets of shingles of some texts.

    Args:
        hashes: of all texts, as `shingle_hashes` returns them, repeats included.
        offsets: text ``i`` owns ``hashes[offsets[i]:offsets[i + 1]]``.
    """

    def __init__(self, hashes: Hashes, offsets: Offsets) -> None:
        distinct, numbers = np.unique(hashes, return_inverse=True)
        self._distinct_count = max(len(distinct), 1)
        owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        owned = np.unique(owners * self._distinct_count + numbers)
        self._numbers = owned % self._distinct_count
        sizes = np.bincount(owned // self._distinct_count, minlength=len(offsets) - 1)
        self._bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])

    @property
    def sizes(self) -> Offsets:
        """The number of distinct shingles of each text."""
        return np.diff(self._bounds)

    def overlaps(self, pairs: Offsets) -> Overlaps:
        """Measure pairs of places, an array of shape (pairs, 2); fastest when sorted by the first place.

        A text without shingles shares nothing with any.
        """
        shared = self._shared(pairs)
        size_a, size_b = self.sizes[pairs[:, 0]], self.sizes[pairs[:, 1]]
        return Overlaps(
            *(shared / np.maximum(size, 1) for size in (size_a + size_b - shared, size_a, size_b))
        )

    def _shared(self, pairs: Offsets) -> Offsets:
        counts = np.zeros(len(pairs), np.int64)
        is_marked = np.zeros(self._distinct_count, np.bool_)
        starts, ends = self._bounds[:-1][pairs[:, 1]], self._bounds[1:][pairs[:, 1]]
        runs = np.flatnonzero(np.diff(pairs[:, 0])) + 1
        for first, last in pairwise([0, *runs.tolist(), len(pairs)]):
            if first == last:
                continue
            own = self._numbers[slice(*self._bounds[pairs[first, 0] :][:2])]
            is_marked[own] = True
            if last - first == 1:
                counts[first] = np.count_nonzero(is_marked[self._numbers[starts[first] : ends[first]]])
            else:
                counts[first:last] = self._marked(is_marked, starts[first:last], ends[first:last])
            is_marked[own] = False
        return counts

    def _marked(self, is_marked: npt.NDArray[np.bool_], starts: Offsets, ends: Offsets) -> Offsets:
        lengths = ends - starts
        until = np.cumsum(lengths)
        places = np.arange(until[-1]) + np.repeat(starts - until + lengths, lengths)
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_marked[self._numbers[places]])])
        counts: Offsets = totals[until] - totals[until - lengths]
        return counts
