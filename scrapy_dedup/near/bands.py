"""Locality-sensitive hashing of MinHash signatures: which pairs are worth a look, without comparing all.

A signature is cut into bands of ``rows`` values. Two texts become a candidate pair when all values of one
band agree, which happens with probability ``1 - (1 - s**rows)**bands`` for a similarity of ``s`` (Indyk and
Motwani 1998; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4). The keys of one band are sorted,
so that equal ones stand side by side: 8 bytes for each text and no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scrapy_dedup.near.minhash import PERMUTATIONS, Signatures
from scrapy_dedup.near.shingles import Hashes, mix

Pairs = npt.NDArray[np.int64]

RECALL = 0.95
"""Share of the pairs at the threshold that bands have to find; of more similar pairs they find more."""

MAX_BUCKET = 1_000
"""Texts under one key that are all paired with each other; a larger bucket costs a million pairs or more."""

_ROW_KEY = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Banding:
    """How signatures are cut: ``bands`` times ``rows`` values, at most `PERMUTATIONS` of them."""

    bands: int
    rows: int

    def __post_init__(self) -> None:
        if self.bands < 1 or self.rows < 1 or self.bands * self.rows > PERMUTATIONS:
            raise ValueError(
                f"{self.bands} bands of {self.rows} rows need {self.bands * self.rows} values; "
                f"a signature has {PERMUTATIONS}, and each has to be at least 1"
            )

    @classmethod
    def for_threshold(cls, similarity: float, recall: float = RECALL) -> Banding:
        """Return the banding with the most rows, so the fewest false candidates, that reaches the recall.

        >>> Banding.for_threshold(0.8)
        Banding(bands=18, rows=7)

        Raises:
            ValueError: the similarity is not above 0 and at most 1.
        """
        if not 0 < similarity <= 1:
            raise ValueError(f"the similarity is {similarity}; it has to be above 0 and at most 1")
        fitting = [cls(PERMUTATIONS // rows, rows) for rows in range(1, PERMUTATIONS + 1)]
        reaching = [banding for banding in fitting if banding.probability(similarity) >= recall]
        return reaching[-1] if reaching else fitting[0]

    @property
    def threshold(self) -> float:
        """The similarity near which the probability rises most steeply, ``(1 / bands) ** (1 / rows)``."""
        return float((1 / self.bands) ** (1 / self.rows))

    def probability(self, similarity: float) -> float:
        """Return the probability that a pair of that similarity becomes a candidate."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)

    def keys(self, signatures: Signatures, band: int) -> Hashes:
        """Return the key of each signature in one band."""
        values = signatures[:, band * self.rows : (band + 1) * self.rows].astype(np.uint64)
        factors = mix(np.arange(1, self.rows + 1, dtype=np.uint64) * _ROW_KEY) | np.uint64(1)
        totals: Hashes = (values * factors).sum(axis=1, dtype=np.uint64)
        return mix(totals)


def candidate_pairs(keys: Hashes, max_bucket: int = MAX_BUCKET) -> Iterator[Pairs]:
    """Yield the pairs of places that have equal keys, as arrays of shape (pairs, 2), the lower place first.

    In a bucket of more than ``max_bucket`` texts each is paired with the first one and with its neighbours
    only. What such a bucket holds is mostly one text with small changes, or a template; a group of it forms
    around the first one.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    bounds = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1], [True]]))
    sizes = np.diff(bounds)
    for size in np.unique(sizes[sizes > 1]).tolist():
        starts = bounds[:-1][sizes == size]
        a, b = _places_in_bucket(size, max_bucket)
        for part in np.array_split(starts, max(1, len(starts) * len(a) // 1_000_000)):
            members = order[part[:, None] + np.arange(size)]  # ascending, since the sort is stable
            yield np.column_stack([members[:, a].ravel(), members[:, b].ravel()])


def _places_in_bucket(size: int, max_bucket: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if size <= max_bucket:
        a, b = np.triu_indices(size, 1)
        return a.astype(np.int64), b.astype(np.int64)
    later = np.arange(1, size)
    with_first, with_neighbour = np.zeros(size - 1, np.int64), later[:-1]
    return np.concatenate([with_first, with_neighbour]), np.concatenate([later, later[1:]])
