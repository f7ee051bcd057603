"""Candidates become pairs: the similarity of each is counted, what is similar is read side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scrapy_dedup.batch.candidates import CANDIDATES, unpacked
from scrapy_dedup.batch.places import PLACE, PLACES
from scrapy_dedup.batch.plan import Plan
from scrapy_dedup.batch.reading import ROW, ROWS, Progressed
from scrapy_dedup.batch.sources import JsonLines
from scrapy_dedup.batch.work import WorkFolder, mapped
from scrapy_dedup.batch.workers import Workers
from scrapy_dedup.near.claims import Reading, Verdict, compare_read
from scrapy_dedup.near.overlap import ShingleSets
from scrapy_dedup.near.shingles import shingle_hashes

PAIRS = "pairs"
PAIR = np.dtype(
    [
        ("a", "<i8"),
        ("b", "<i8"),
        ("jaccard", "<f8"),
        ("containment_a", "<f8"),
        ("containment_b", "<f8"),
        ("verdict", "<i1"),
        ("spans", "<u2"),
        ("claim_spans", "<u2"),
    ]
)
VERDICTS = tuple(verdict.value for verdict in Verdict)
"""What the numbers in the column ``verdict`` mean; -1: claims were not compared."""

NOT_COMPARED = -1

_SLICE_PAIRS = 1_024


@dataclass(frozen=True, slots=True)
class Verification:
    """What a process needs to know to verify candidates: where they and their texts are."""

    folder: Path
    sources: tuple[JsonLines, ...]
    jaccard: float
    with_claims: bool
    max_chars: int


def verify_all(
    sources: Sequence[JsonLines], plan: Plan, work: WorkFolder, workers: Workers, progressed: Progressed
) -> None:
    """Fill the column of pairs from where an earlier run has come.

    Args:
        sources: where the texts stand.
        plan: the options.
        work: where the columns stand, those of places and candidates filled.
        workers: who verify.
        progressed: is told how many candidates of how many are done.

    Raises:
        DedupError: a source has changed, or a process has died.
    """
    count = int(work.get("candidates"))
    task = Verification(work.path, tuple(sources), plan.jaccard, plan.with_claims, plan.max_chars)
    done = int(work.get("verified", 0))
    work.append(PAIRS, b"")
    slices = (
        (min(start + _SLICE_PAIRS, count), (task, start, min(start + _SLICE_PAIRS, count)))
        for start in range(done, count, _SLICE_PAIRS)
    )
    for end, found in workers.in_order(verify, slices):
        work.append(PAIRS, found)
        work.checkpoint_if_due(verified=end)
        progressed(end, count)
    work.checkpoint(verified=count)
    work.close(PAIRS)


def verify(given: tuple[Verification, int, int]) -> npt.NDArray[np.void]:
    """Return those of a slice of the candidates that are similar enough, in their order."""
    task, start, end = given
    pairs = unpacked(mapped(task.folder / CANDIDATES, np.uint64)[start:end])
    places = mapped(task.folder / PLACES, PLACE)
    rows = mapped(task.folder / ROWS, ROW)
    parts = [
        _verified(task, part, rows, places) for part in _parts(pairs, rows["chars"], places, task.max_chars)
    ]
    return np.concatenate([np.zeros(0, PAIR), *parts])


def _parts(
    pairs: npt.NDArray[np.int64],
    chars: npt.NDArray[np.uint32],
    places: npt.NDArray[np.void],
    max_chars: int,
) -> Iterator[npt.NDArray[np.int64]]:
    """Cut pairs into parts whose texts can be held together; two texts always can."""
    total = int(chars[places["row"][np.unique(pairs)]].sum(dtype=np.int64))
    if total <= max_chars or len(pairs) == 1:
        yield pairs
        return
    for half in np.array_split(pairs, 2):
        yield from _parts(half, chars, places, max_chars)


def _verified(
    task: Verification,
    pairs: npt.NDArray[np.int64],
    rows: npt.NDArray[np.void],
    places: npt.NDArray[np.void],
) -> npt.NDArray[np.void]:
    needed, numbers = np.unique(pairs, return_inverse=True)
    texts = [str(entry["text"]) for entry in objects(task.sources, rows[places["row"][needed]])]
    local = numbers.reshape(pairs.shape)
    overlaps = ShingleSets(*shingle_hashes(texts)).overlaps(local)
    similar = np.flatnonzero(overlaps.jaccard >= task.jaccard)
    found = np.zeros(len(similar), PAIR)
    found["a"], found["b"] = pairs[similar].T
    for name, values in overlaps._asdict().items():
        found[name] = values[similar]
    found["verdict"] = NOT_COMPARED
    if task.with_claims:
        read: dict[int, Reading] = {place: Reading.of(texts[place]) for place in set(local[similar].flat)}
        for place, (a, b) in enumerate(local[similar].tolist()):
            # They are similar by the measure of this run; what is left to ask is what differs.
            compared = compare_read(read[a], read[b], min_jaccard=0.0)
            changing = sum(span.changes_claim for span in compared.spans)
            found[place]["verdict"] = VERDICTS.index(compared.verdict.value)
            found[place]["spans"], found[place]["claim_spans"] = len(compared.spans), changing
    return found


def objects(sources: Sequence[JsonLines], rows: npt.NDArray[np.void]) -> list[Mapping[str, Any]]:
    """Return the lines of the input that rows stand for, each as it is written there."""
    found: dict[int, Mapping[str, Any]] = {}
    for number in np.unique(rows["source"]).tolist():
        ours = np.flatnonzero(rows["source"] == number)
        ours = ours[np.argsort(rows["offset"][ours])]  # forward through the file
        read = sources[number].read(rows["offset"][ours].tolist())
        found.update(zip(ours.tolist(), read, strict=True))
    return [found[place] for place in range(len(rows))]
