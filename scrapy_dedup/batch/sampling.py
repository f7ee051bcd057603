"""Pairs of a corpus around a threshold, for somebody to label: those that a threshold decides about.

Pairs far above or below teach nothing. Half of a sample lies at or just above the threshold, half just below;
no text stands in more than `MAX_OF_A_TEXT` pairs, since a template alone could fill the sample.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scrapy_dedup.batch.candidates import CANDIDATES, find_candidates, packed
from scrapy_dedup.batch.local import Progress, untold
from scrapy_dedup.batch.places import PLACE, PLACES, Identities, find_places
from scrapy_dedup.batch.plan import Plan
from scrapy_dedup.batch.reading import ROW, ROWS, read_all
from scrapy_dedup.batch.sources import JsonLines
from scrapy_dedup.batch.verification import PAIR, PAIRS, objects, verify_all
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.batch.workers import Workers

MAX_OF_A_TEXT = 2
POOL = 2
"""So many times as many pairs as are wanted, the nearest ones, are drawn from."""

Column = npt.NDArray[np.void]


class SampledPair(NamedTuple):
    """Two texts with their identities and their Jaccard similarity, 0.0 to 1.0."""

    a_id: str
    b_id: str
    a: str
    b: str
    jaccard: float


def sample_pairs(
    sources: Sequence[JsonLines],
    plan: Plan,
    work: WorkFolder,
    *,
    threshold: float,
    count: int,
    seed: int,
    known: Iterable[tuple[str, str]] = (),
    max_chars: int,
    progress: Progress = untold,
) -> list[SampledPair]:
    """Draw pairs around a threshold; the same texts and seed give the same pairs.

    Args:
        sources: the texts.
        plan: how pairs are found, from a similarity well below the threshold on.
        work: an entered work folder that nobody goes on with.
        threshold: a Jaccard similarity.
        count: how many pairs are wanted; there may be fewer.
        seed: of the draw.
        known: pairs of identities that are candidates in any case.
        max_chars: of a text; pairs with a longer one are left out.
        progress: is told how it goes.

    Raises:
        DedupError: a process has died, or the memory is not enough.
    """
    with Workers(plan.workers) as workers:
        read_all(sources, plan, work, workers, partial(progress, "reading"))
        find_places(work)
        find_candidates(plan, work, partial(progress, "pairing"))
        _add_candidates(work, known)
        verify_all(sources, plan, work, workers, partial(progress, "comparing"))
    rows, places = work.column(ROWS, ROW), work.column(PLACES, PLACE)
    pairs = work.column(PAIRS, PAIR)
    chars = rows["chars"][places["row"]]
    short = pairs[(chars[pairs["a"]] <= max_chars) & (chars[pairs["b"]] <= max_chars)]
    drawn = draw(short, threshold, count, random.Random(seed))  # noqa: S311 - a sample, no secret
    return _with_texts(sources, drawn, rows, places, Identities(work))


def draw(pairs: Column, threshold: float, count: int, source: random.Random) -> Column:
    """Return some of the pairs nearest to a threshold, half of them below it as far as there are any."""
    below = pairs["jaccard"] < threshold
    sides = [_nearest(pairs[side], threshold, POOL * count) for side in (~below, below)]
    wanted = [count - count // 2, count // 2]
    for side, other in ((0, 1), (1, 0)):
        wanted[other] += max(0, min(wanted[side] - len(sides[side]), len(sides[other]) - wanted[other]))
    chosen = [
        side[sorted(source.sample(range(min(POOL * number, len(side))), min(number, len(side))))]
        for side, number in zip(sides, wanted, strict=True)
    ]
    drawn = np.concatenate(chosen)
    order = list(range(len(drawn)))
    source.shuffle(order)  # who labels them is not told by their order
    return drawn[order]


def _nearest(pairs: Column, threshold: float, count: int) -> Column:
    """Return the pairs nearest to a threshold, nearest first, with each text in few of them."""
    order = np.lexsort((pairs["b"], pairs["a"], np.abs(pairs["jaccard"] - threshold)))
    seen: Counter[int] = Counter()
    taken: list[int] = []
    for place in order.tolist():
        sides = (int(pairs["a"][place]), int(pairs["b"][place]))
        if max(seen[side] for side in sides) < MAX_OF_A_TEXT:
            seen.update(sides)
            taken.append(place)
            if len(taken) == count:
                break
    return pairs[taken]


def _add_candidates(work: WorkFolder, known: Iterable[tuple[str, str]]) -> None:
    """Add pairs of identities to the candidates, those whose texts are compared."""
    wanted = set(known)
    if not wanted:
        return
    sides = {side for pair in wanted for side in pair}
    identities = Identities(work)
    rows = work.column(PLACES, PLACE)["row"].tolist()
    places: Mapping[str, int] = {
        identity: place for place, row in enumerate(rows) if (identity := identities.of(row)) in sides
    }
    pairs = [sorted((places[a], places[b])) for a, b in wanted if a != b and a in places and b in places]
    added = packed(np.array(pairs, np.int64).reshape(-1, 2))
    candidates = np.union1d(work.column(CANDIDATES, np.uint64), added)
    candidates.tofile(work.path / CANDIDATES)
    work.checkpoint(candidates=len(candidates))


def _with_texts(
    sources: Sequence[JsonLines], pairs: Column, rows: Column, places: Column, identities: Identities
) -> list[SampledPair]:
    found: list[SampledPair] = []
    for pair in pairs:
        a, b = (int(places["row"][pair[side]]) for side in ("a", "b"))
        first, second = objects(sources, rows[[a, b]])
        found.append(
            SampledPair(
                identities.of(a),
                identities.of(b),
                str(first["text"]),
                str(second["text"]),
                float(pair["jaccard"]),
            )
        )
    return found
