"""SimHash: 64 bits that differ little between texts that differ little.

Every shingle of three tokens votes with each bit of its hash, as often as it occurs; a bit of the
fingerprint is set when more than half of the votes are for it. Two fingerprints of unrelated texts differ in
about 32 bits; a distance of 3 or less means that about 98 % of the shingles are shared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scrapy_dedup.near.shingles import Hashes, Offsets, shingle_hashes

# Stored beside every fingerprint. A change of tokens, constants or voting is a new scheme with new golden
# values.
SCHEME = "simhash64-w3-1"

MIN_WORDS = 100
"""In a shorter text one word moves so many bits that fingerprints are near by chance more than by likeness;
its candidates are found by MinHash."""

_EVERY_EIGHTH_BIT = np.uint64(0x0101010101010101)
_RUN = 255  # as many votes as one byte can count


def simhash(text: str) -> str:
    """Return the fingerprint of a text as 16 hexadecimal digits; of a text without tokens, sixteen zeros."""
    return simhash_batch([text])[0]


def simhash_batch(texts: Sequence[str]) -> list[str]:
    """Return the fingerprints of many texts: the same values as one by one, at a fraction of the cost."""
    return [f"{value:016x}" for value in vote(*shingle_hashes(texts)).tolist()]


def vote(hashes: Hashes, offsets: Offsets) -> Hashes:
    """Return the fingerprint of each text as a number, given the hashes of its shingles.

    The votes are counted in byte lanes, eight bits of the fingerprint at a time.
    """
    counts = np.diff(offsets)
    fingerprints = np.zeros(len(counts), np.uint64)
    voters = np.flatnonzero(counts)
    if len(voters) == 0:
        return fingerprints
    runs = (counts[voters] + _RUN - 1) // _RUN
    first_runs = np.concatenate([np.zeros(1, np.int64), np.cumsum(runs)[:-1]])
    run_starts = np.repeat(offsets[:-1][voters], runs)
    run_starts += _RUN * (np.arange(len(run_starts)) - np.repeat(first_runs, runs))
    lanes = np.empty((8, len(run_starts)), "<u8")
    for shift in range(8):
        bits = (hashes >> np.uint64(shift)) & _EVERY_EIGHTH_BIT
        np.add.reduceat(bits, run_starts, out=lanes[shift])
    # [shift, run, byte] to [run, bit 8 * byte + shift]
    votes = lanes.view(np.uint8).reshape(8, -1, 8).transpose(1, 2, 0).reshape(-1, 64)
    totals = np.add.reduceat(votes.astype(np.int64), first_runs, axis=0)
    majority = 2 * totals > counts[voters][:, None]
    fingerprints[voters] = np.packbits(majority, axis=1, bitorder="little").view("<u8").ravel()
    return fingerprints
