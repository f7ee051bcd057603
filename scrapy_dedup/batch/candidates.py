"""Candidate pairs: one band at a time from its file of keys, then all bands together, each pair once.

A pair is one number, the earlier place in its upper half and the later one in its lower, so that runs of
pairs sort and merge as plain numbers. What does not fit the memory stands in sorted runs on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from scrapy_dedup.batch.places import PLACE, PLACES
from scrapy_dedup.batch.plan import Plan
from scrapy_dedup.batch.reading import Progressed, keys_column
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.near.bands import candidate_pairs
from scrapy_dedup.near.shingles import Hashes, distinct

CANDIDATES = "candidates"

_HALF = np.uint64(32)
_LOWER = np.uint64(0xFFFF_FFFF)


def find_candidates(plan: Plan, work: WorkFolder, progressed: Progressed) -> int:
    """Fill the column of candidates, in ascending order; return how many there are.

    Args:
        plan: the options.
        work: where the columns stand.
        progressed: is told how many bands of how many are done.
    """
    if work.get("candidates") is not None:
        return int(work.get("candidates"))
    places = work.column(PLACES, PLACE)
    runs: list[list[str]] = list(work.get("runs", []))
    for band in range(len(runs), plan.banding.bands):
        keys = np.ascontiguousarray(work.column(keys_column(band), np.uint64)[places["key"]])
        runs.append(_write_runs(work, band, keys, plan.max_candidates))
        work.checkpoint(runs=runs)
        work.close(*runs[-1])
        progressed(band + 1, plan.banding.bands)
    names = [name for of_band in runs for name in of_band]
    work.append(CANDIDATES, b"")  # which cuts off what an earlier run wrote that came half way
    count = 0
    for part in _merged([work.column(name, np.uint64) for name in names], len(places), plan.max_candidates):
        work.append(CANDIDATES, part)
        count += len(part)
    work.checkpoint(candidates=count)
    work.close(CANDIDATES)
    work.remove(*names, *map(keys_column, range(plan.banding.bands)))
    return count


def packed(pairs: npt.NDArray[np.int64]) -> Hashes:
    """Return a number for each pair of places, given an array of shape (pairs, 2), the lower place first."""
    numbers: Hashes = pairs[:, 0].astype(np.uint64) << _HALF | pairs[:, 1].astype(np.uint64)
    return numbers


def unpacked(numbers: Hashes) -> npt.NDArray[np.int64]:
    """Return the pairs of places that `packed` was given."""
    return np.column_stack([numbers >> _HALF, numbers & _LOWER]).astype(np.int64)


def _write_runs(work: WorkFolder, band: int, keys: Hashes, max_pairs: int) -> list[str]:
    """Write the pairs of a band in sorted runs of about ``max_pairs``; return their names."""
    names: list[str] = []
    held: list[Hashes] = []
    count = 0

    def write() -> None:
        name = f"run-{band:03d}-{len(names):04d}"
        work.remove(name)
        work.append(name, np.sort(np.concatenate(held)))
        names.append(name)

    for pairs in candidate_pairs(keys):
        held.append(packed(pairs))
        count += len(pairs)
        if count >= max_pairs:
            write()
            held, count = [], 0
    if held:
        write()
    return names


def _merged(runs: Sequence[Hashes], place_count: int, max_pairs: int) -> Iterator[Hashes]:
    """Yield all pairs of sorted runs in ascending order, each once, about ``max_pairs`` at a time."""
    waiting = [(0, place_count)] if runs and place_count else []
    while waiting:
        first, last = waiting.pop()
        bounds = np.array([first, last], np.uint64) << _HALF
        cuts = [np.searchsorted(run, bounds) for run in runs]
        if sum(int(end - start) for start, end in cuts) > max_pairs and last - first > 1:
            middle = (first + last) // 2
            waiting += [(middle, last), (first, middle)]
            continue
        yield distinct(np.concatenate([run[start:end] for run, (start, end) in zip(runs, cuts, strict=True)]))
