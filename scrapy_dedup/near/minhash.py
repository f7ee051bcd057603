"""MinHash: 128 numbers from which the Jaccard similarity of two texts can be estimated.

For each of `PERMUTATIONS` functions the least value over all shingles of a text is kept. Two texts agree in
one of these with a probability equal to the Jaccard similarity of their sets of shingles (Broder 1997), so
the share of agreeing values estimates it with a standard error of at most ``0.5 / sqrt(128) = 0.044``.

Why these functions and not those of a library: stored values must stay comparable for years, and two
libraries that many use changed theirs in 2026. Function ``i`` is ``(A[i] * x + B[i]) mod 2**32`` with an odd
``A[i]``, a bijection of 32-bit numbers; ``x`` is the upper half of a shingle's mixed hash; ``A`` and ``B``
are BLAKE2b digests of a name. The values have the form that datasketch holds: `as_datasketch` makes its
``MinHash`` of them, which goes into ``MinHashLSH`` with any of its storages. They are not the values that
datasketch would compute from the same text, so a set of signatures must come from one of the two.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scrapy_dedup.near.shingles import Hashes, Offsets, shingle_hashes

if TYPE_CHECKING:
    from datasketch import MinHash

Signatures = npt.NDArray[np.uint32]

PERMUTATIONS = 128

# Stored beside every signature. A change of tokens, shingles or functions is a new scheme.
SCHEME = "minhash128-w3-1"

EMPTY = np.uint32(0xFFFF_FFFF)
"""Every value of a text without tokens; such a text is similar to nothing."""

_UPPER_HALF = np.uint64(32)
# So many shingles at a time that they and their values stay in the processor's cache.
_BLOCK_SHINGLES = 32_768


def minhash(text: str) -> Signatures:
    """Return the signature of a text: `PERMUTATIONS` unsigned 32-bit numbers."""
    signature: Signatures = minhash_batch([text])[0]
    return signature


def minhash_batch(texts: Sequence[str]) -> Signatures:
    """Return the signatures of many texts, one row for each: the same values as one by one, but cheaper."""
    return signatures(*shingle_hashes(texts))


def signatures(hashes: Hashes, offsets: Offsets) -> Signatures:
    """Return the signature of each set of shingle hashes.

    Args:
        hashes: of all texts, as `shingle_hashes` returns them; repeats do not matter.
        offsets: text ``i`` owns ``hashes[offsets[i]:offsets[i + 1]]``.

    Returns:
        An array of shape (texts, `PERMUTATIONS`).
    """
    counts = np.diff(offsets)
    values = np.full((len(counts), PERMUTATIONS), EMPTY, np.uint32)
    owners = np.flatnonzero(counts)
    for block in _blocks(owners, counts):
        first, last = offsets[block[0]], offsets[block[-1] + 1]
        upper = (hashes[first:last] >> _UPPER_HALF).astype(np.uint32)
        values[block] = _least_values(upper, offsets[block] - first)
    return values


def similarity(a: Signatures, b: Signatures) -> float:
    """Return the estimated Jaccard similarity of the texts of two signatures, 0.0 to 1.0."""
    if (a == EMPTY).all() or (b == EMPTY).all():
        return 0.0
    return float(np.count_nonzero(a == b)) / PERMUTATIONS


def as_datasketch(signature: Signatures) -> MinHash:
    """Return a signature as a ``datasketch.MinHash``, for ``MinHashLSH`` and its storages.

    Its scheme is datasketch's ``affine32``, whose values have the same form; to ``update`` it with further
    tokens would mix two families of functions.
    """
    from datasketch import MinHash  # noqa: PLC0415 - it loads scipy, which takes longer than a crawl's start

    return MinHash(num_perm=PERMUTATIONS, hashvalues=signature, scheme="affine32")


def _blocks(owners: Offsets, counts: Offsets) -> list[Offsets]:
    """Cut the texts that have shingles into runs of about `_BLOCK_SHINGLES`."""
    if len(owners) == 0:
        return []
    run = np.cumsum(counts[owners]) // _BLOCK_SHINGLES
    return np.split(owners, np.flatnonzero(np.diff(run)) + 1)


def _least_values(upper: npt.NDArray[np.uint32], starts: Offsets) -> Signatures:
    factors, summands = _functions()
    least: Signatures = np.empty((PERMUTATIONS, len(starts)), np.uint32)
    values = np.empty_like(upper)
    for place, (factor, summand) in enumerate(zip(factors, summands, strict=True)):
        np.multiply(upper, factor, out=values)
        values += summand
        np.minimum.reduceat(values, starts, out=least[place])
    by_text: Signatures = least.T
    return by_text


@functools.cache
def _functions() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the factors, all odd, and the summands of the functions."""
    drawn = np.frombuffer(
        b"".join(
            hashlib.blake2b(f"{SCHEME} function {place}".encode(), digest_size=8).digest()
            for place in range(PERMUTATIONS)
        ),
        "<u4",
    ).reshape(PERMUTATIONS, 2)
    return drawn[:, 0] | np.uint32(1), drawn[:, 1].copy()
