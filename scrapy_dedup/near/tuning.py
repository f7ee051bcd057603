"""What a threshold would do, counted over pairs that somebody has labelled; false merges first.

Two texts that say different things and become one are a loss that nobody notices; two copies that stay apart
cost some room. So a threshold is worth a recommendation only if it merges no pair labelled different, and of
those thresholds the one is best that finds most pairs labelled the same; of equally good ones, the strictest.

Each scheme is judged by two measures, the Hamming distance of fingerprints and the exact Jaccard similarity,
each alone and with the claim diff behind it, which lets only pairs pass that are reformatted or edited. Some
pairs prove little: when none of ``n`` different ones was merged, up to ``3 / n`` of all may still be, at a
confidence of 95 % (the rule of three, Hanley and Lippman-Hand, JAMA 1983).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scrapy_dedup.near.claims import JOINING, ChangedSpan, Verdict, compare
from scrapy_dedup.near.hamming import MAX_RADIUS
from scrapy_dedup.near.overlap import ShingleSets
from scrapy_dedup.near.schemes import PRODUCT, SCHEMES, Scheme
from scrapy_dedup.near.shingles import SHINGLE_TOKENS, size_in_words, tokens, word_hashes
from scrapy_dedup.near.simhash import MIN_WORDS, vote

DISTANCES = tuple(range(13))
JACCARDS = tuple(step / 20 for step in range(10, 21))

RADII = tuple(range(MAX_RADIUS + 1))
"""Distances within which the index can look for candidates."""

MIN_TOKENS = SHINGLE_TOKENS
"""Shorter texts are compared by nothing but equality."""

SHOWN_SPANS = 3

Mask = npt.NDArray[np.bool_]


class Measure(str, enum.Enum):
    """What a threshold is about."""

    JACCARD = "jaccard"
    SIMHASH = "simhash"


THRESHOLDS: Mapping[Measure, Sequence[float]] = {Measure.JACCARD: JACCARDS, Measure.SIMHASH: DISTANCES}


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts, and what somebody says about them.

    Attributes:
        line: where they stand in their file, from 1.
        a: one text.
        b: the other one.
        same: whether one may stand for the other.
        note: why, or whatever else is to be told with the pair.
    """

    line: int
    a: str
    b: str
    same: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """What can be counted about a pair; its texts are not kept.

    Attributes:
        line: where it stands in its file.
        same: its label.
        note: its note.
        tokens: of the shorter text; below `MIN_TOKENS` the pair is never merged.
        words: of the smaller text, as a crawl counts them: a character of an unspaced script is half a word.
        verdict: of the claim diff.
        containment_a: the share of the first text's word 3-grams that the second one has.
        containment_b: the share of the second text's that the first one has.
        spans: some places where the texts differ, those that change a claim first.
        distances: bits between the fingerprints, for each of `SCHEMES`.
        jaccards: of the sets of shingles, for each of `SCHEMES`.
    """

    line: int
    same: bool
    note: str
    tokens: int
    words: int
    verdict: Verdict
    containment_a: float
    containment_b: float
    spans: tuple[ChangedSpan, ...]
    distances: tuple[int, ...]
    jaccards: tuple[float, ...]

    def value(self, scheme: Scheme, measure: Measure) -> float:
        """Return one measure of the pair."""
        place = SCHEMES.index(scheme)
        return self.jaccards[place] if measure is Measure.JACCARD else self.distances[place]

    @property
    def joins(self) -> bool:
        """Whether the claim diff lets the pair be merged."""
        return self.verdict in JOINING


@dataclass(frozen=True, slots=True)
class Score:
    """What one rule makes of the labelled pairs.

    Attributes:
        scheme: the tokens and shingles.
        measure: what is held against the threshold.
        threshold: the greatest distance in bits, or the least Jaccard similarity, 0.0 to 1.0.
        claims: whether the claim diff has to let the pair pass too.
        merged: pairs labelled the same that the rule merges.
        missed: pairs labelled the same that it does not.
        false_merges: lines of the pairs labelled different that it merges.
    """

    scheme: Scheme
    measure: Measure
    threshold: float
    claims: bool
    merged: int
    missed: int
    false_merges: tuple[int, ...]

    @property
    def precision(self) -> float | None:
        """The share of the merged pairs that are labelled the same; None where nothing is merged."""
        total = self.merged + len(self.false_merges)
        return self.merged / total if total else None

    @property
    def recall(self) -> float | None:
        """The share of the pairs labelled the same that are merged; None where there are none."""
        total = self.merged + self.missed
        return self.merged / total if total else None


@dataclass(frozen=True, slots=True)
class Radius:
    """The least distance at which an index finds what a threshold would keep.

    Attributes:
        bits: one of `RADII`.
        found: pairs to be kept that are within it.
        wanted: pairs to be kept, those alone that are looked for by fingerprints.
    """

    bits: int
    found: int
    wanted: int


def measure_pairs(pairs: Sequence[LabelledPair]) -> list[MeasuredPair]:
    """Measure pairs under all schemes, and read each side by side."""
    texts = [text for pair in pairs for text in (pair.a, pair.b)]
    places = np.arange(len(texts), dtype=np.int64).reshape(-1, 2)
    token_counts = np.diff(word_hashes(texts)[1])[places].min(axis=1).tolist()
    distances: list[list[int]] = []
    jaccards: list[list[float]] = []
    for scheme in SCHEMES:
        hashes, offsets = scheme.shingles(texts)
        signed = vote(hashes, offsets)[places]
        distances.append(_set_bits(signed[:, 0] ^ signed[:, 1]))
        overlaps = ShingleSets(hashes, offsets).overlaps(places)
        jaccards.append(overlaps.jaccard.tolist())
        if scheme is PRODUCT:
            contained = list(
                zip(overlaps.containment_a.tolist(), overlaps.containment_b.tolist(), strict=True)
            )
    measured = []
    for place, pair in enumerate(pairs):
        read = compare(pair.a, pair.b, min_jaccard=0.0)
        measured.append(
            MeasuredPair(
                pair.line,
                pair.same,
                pair.note,
                token_counts[place],
                min(int(size_in_words(tokens(text))) for text in (pair.a, pair.b)),
                read.verdict,
                *contained[place],
                read.spans[:SHOWN_SPANS],
                tuple(of_scheme[place] for of_scheme in distances),
                tuple(of_scheme[place] for of_scheme in jaccards),
            )
        )
    return measured


def unfit_for_advice(pairs: Sequence[MeasuredPair]) -> str | None:
    """Return why no threshold can be recommended from such labels, else None."""
    labels = {pair.same for pair in pairs}
    if not labels:
        return "no pair is labelled"
    if labels == {True}:
        return "no pair is labelled different, so any threshold would seem harmless"
    if labels == {False}:
        return "no pair is labelled the same, so nothing would be lost by never merging"
    return None


def all_scores(pairs: Sequence[MeasuredPair]) -> list[Score]:
    """Return what every rule makes of the pairs: by scheme, measure, with the claim diff first, threshold."""
    return [
        score
        for scheme in SCHEMES
        for measure in Measure
        for claims in (True, False)
        for score in scores(pairs, scheme, measure, claims=claims)
    ]


def scores(
    pairs: Sequence[MeasuredPair], scheme: Scheme, measure: Measure, *, claims: bool
) -> Iterator[Score]:
    """Yield what the rules of one scheme and measure make of the pairs, by ascending threshold."""
    lines = np.array([pair.line for pair in pairs], np.int64)
    same = np.array([pair.same for pair in pairs], np.bool_)
    values = np.array([pair.value(scheme, measure) for pair in pairs], np.float64)
    allowed = np.array([pair.tokens >= MIN_TOKENS and (pair.joins or not claims) for pair in pairs], np.bool_)
    for threshold in THRESHOLDS[measure]:
        merges = allowed & _within(values, measure, threshold)
        merged = int(np.count_nonzero(merges & same))
        yield Score(
            scheme,
            measure,
            threshold,
            claims,
            merged,
            int(np.count_nonzero(same)) - merged,
            tuple(lines[merges & ~same].tolist()),
        )


def scores_of(found: Sequence[Score], scheme: Scheme, measure: Measure, *, claims: bool) -> list[Score]:
    """Return the scores of one scheme and measure in their order, so by ascending threshold."""
    return [
        score for score in found if (score.scheme, score.measure, score.claims) == (scheme, measure, claims)
    ]


def recommended(found: Sequence[Score], scheme: Scheme, measure: Measure, *, claims: bool) -> Score | None:
    """Return the rule without false merges that keeps most pairs, the strictest of several; None: no such."""
    fitting = [
        score
        for score in scores_of(found, scheme, measure, claims=claims)
        if score.merged and not score.false_merges
    ]
    return min(fitting, key=lambda score: (-score.merged, _looseness(score)), default=None)


def best_rule(
    pairs: Sequence[MeasuredPair], found: Sequence[Score], measure: Measure, *, claims: bool = True
) -> Score | None:
    """Return the best rule of the product's scheme; None where the labels or the scores allow no advice."""
    return None if unfit_for_advice(pairs) else recommended(found, PRODUCT, measure, claims=claims)


def better_schemes(found: Sequence[Score], measure: Measure, than: Score | None) -> list[Score]:
    """Return the best rule of each other scheme that keeps more pairs without a false merge, the best first.

    Args:
        found: all scores.
        measure: the one that is compared, with the claim diff.
        than: the best rule of the product's scheme by that measure; None: nothing is kept.
    """
    best = (recommended(found, scheme, measure, claims=True) for scheme in SCHEMES if scheme is not PRODUCT)
    kept = than.merged if than else 0
    return sorted(
        (score for score in best if score is not None and score.merged > kept),
        key=lambda score: -score.merged,
    )


def radius_for(pairs: Sequence[MeasuredPair], kept: Score) -> Radius | None:
    """Return the radius in which candidates have to be looked for; None where no kept pair is long enough.

    A radius only finds candidates, each of which is verified, so a wide one costs time and merges nothing.
    """
    distances = [
        pair.value(PRODUCT, Measure.SIMHASH)
        for pair in pairs
        if pair.same
        and pair.joins
        and pair.words >= MIN_WORDS
        and pair.value(PRODUCT, Measure.JACCARD) >= kept.threshold
    ]
    if not distances:
        return None
    found = [sum(distance <= bits for distance in distances) for bits in RADII]
    return Radius(RADII[found.index(max(found))], max(found), len(distances))


def likely_harm(different: int) -> float:
    """Return the share of different pairs that may be merged although none of so many was, at 95 %.

    >>> likely_harm(30)
    0.1
    """
    return min(1.0, 3 / different)


def _within(values: npt.NDArray[np.float64], measure: Measure, threshold: float) -> Mask:
    within: Mask = values >= threshold if measure is Measure.JACCARD else values <= threshold
    return within


def _looseness(score: Score) -> float:
    return score.threshold if score.measure is Measure.SIMHASH else -score.threshold


def _set_bits(values: npt.NDArray[np.uint64]) -> list[int]:
    return [value.bit_count() for value in values.tolist()]
