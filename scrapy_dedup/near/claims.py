"""Whether two similar texts say the same: the exact measures of a pair, and what its differences claim.

A near-duplicate index answers "these look alike". "The bridge is open" and "The bridge is not open" look
alike, so every candidate is read here before anything follows from it: both texts are cut into the tokens of
`near.claim_tokens`, aligned, and the spans that differ are searched for tokens that can turn a statement into
another one. The doubt always goes one way: what may be a changed claim is called one.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scrapy_dedup.near.alignment import Place, differences
from scrapy_dedup.near.claim_tokens import Kind, Token, plain, tokens_of_plain
from scrapy_dedup.near.overlap import overlap
from scrapy_dedup.near.shingles import Hashes, distinct, shingle_hashes

POLICY = "claims-3"
"""Names tokens, tables and rules; stored with every relation that they settle."""

MIN_JACCARD = 0.8
MIN_CONTAINMENT = 0.9
PASSAGE_TOKENS = 8
"""So many tokens added or taken out in one place are a passage: more text, not another claim."""

MAX_SPANS = 20
MAX_SPAN_TOKENS = 40


class Verdict(str, enum.Enum):
    """How a pair of texts relates."""

    REFORMATTED = "reformatted"  # the same words; case, punctuation, spaces or markup differ
    EDITED = "edited"  # other words, and none of them changes a claim as far as the tables know
    CLAIM_CHANGED = "claim_changed"  # a number, unit, date, name, negation or its like differs
    CONTAINS = "contains"  # one holds nearly all of the other, and passages beside it
    DIFFERENT = "different"


JOINING = (Verdict.REFORMATTED, Verdict.EDITED)
"""Verdicts by which one text can stand for the other: nothing is lost or changed."""


@dataclass(frozen=True, slots=True)
class ChangedSpan:
    """A place where two texts differ: the tokens of both sides, and which of them can change a claim."""

    a: str
    b: str
    critical_a: tuple[str, ...]
    critical_b: tuple[str, ...]
    changes_claim: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """What reading a pair has shown.

    Attributes:
        verdict: see `Verdict`.
        jaccard: of the sets of word 3-grams, 0.0 to 1.0.
        containment_a: the share of the first text's 3-grams that the second one has.
        containment_b: the share of the second text's 3-grams that the first one has.
        passage_tokens_a: tokens in passages that only the first text has.
        passage_tokens_b: tokens in passages that only the second text has.
        spans: where they differ, those that change a claim first, at most `MAX_SPANS`.
    """

    verdict: Verdict
    jaccard: float
    containment_a: float
    containment_b: float
    passage_tokens_a: int = 0
    passage_tokens_b: int = 0
    spans: tuple[ChangedSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it is compared: its tokens, their words, and the set of its shingles, ascending."""

    text: str
    tokens: list[Token]
    words: list[str]
    shingles: Hashes

    @classmethod
    def of(cls, text: str) -> Reading:
        """Read a text."""
        compared = plain(text)
        tokens = tokens_of_plain(compared)
        return cls(text, tokens, [token.text for token in tokens], distinct(shingle_hashes([compared])[0]))


def compare(
    a: str, b: str, *, min_jaccard: float = MIN_JACCARD, min_containment: float = MIN_CONTAINMENT
) -> Comparison:
    """Read two texts side by side.

    Args:
        a: one text, plain or Markdown.
        b: the other one.
        min_jaccard: less similar texts are different, unless one contains the other.
        min_containment: so much of one text has to stand in the other one to be contained in it.

    >>> compare("The bridge is open.", "The bridge is not open.", min_jaccard=0.2).verdict.value
    'claim_changed'
    """
    return compare_read(
        Reading.of(a), Reading.of(b), min_jaccard=min_jaccard, min_containment=min_containment
    )


def compare_read(
    a: Reading, b: Reading, *, min_jaccard: float = MIN_JACCARD, min_containment: float = MIN_CONTAINMENT
) -> Comparison:
    """Compare two texts that were read, as `compare` does; for texts that stand in several pairs."""
    tokens_a, tokens_b = a.tokens, b.tokens
    words_a, words_b = a.words, b.words
    measures = overlap(a.shingles, b.shingles)
    if words_a == words_b:
        # Texts of nothing but signs have no words to say the same with.
        same = bool(words_a) or a.text.strip() == b.text.strip() != ""
        return Comparison(Verdict.REFORMATTED if same else Verdict.DIFFERENT, *measures)
    jaccard, containment_a, containment_b = measures
    if jaccard < min_jaccard and max(containment_a, containment_b) < min_containment:
        return Comparison(Verdict.DIFFERENT, *measures)
    places = list(differences(words_a, words_b))
    spans = [_span(tokens_a, tokens_b, place) for place in places]
    passage_a = sum(
        end - start for start, end, other, other_end in places if _is_passage(start, end, other, other_end)
    )
    passage_b = sum(
        end - start for other, other_end, start, end in places if _is_passage(start, end, other, other_end)
    )
    changed = any(span.changes_claim for span in spans) or _numbers_replaced(tokens_a, tokens_b)
    if passage_a and passage_b:  # neither contains the other, so what only one of them says can be missed
        changed = changed or _claims_of_passages(tokens_a, tokens_b, places)
    if changed:
        verdict = Verdict.CLAIM_CHANGED
    elif jaccard < min_jaccard or bool(passage_a) != bool(passage_b):
        verdict = Verdict.CONTAINS
    else:
        verdict = Verdict.EDITED
    shown = sorted(spans, key=lambda span: not span.changes_claim)[:MAX_SPANS]
    return Comparison(verdict, *measures, passage_a, passage_b, tuple(shown))


def _span(tokens_a: Sequence[Token], tokens_b: Sequence[Token], place: Place) -> ChangedSpan:
    start, end, new_start, new_end = place
    left, right = tokens_a[start:end], tokens_b[new_start:new_end]
    critical_a, critical_b = _critical(left, right)
    if left and right:
        changes = critical_a != critical_b
    else:
        changes = (
            bool(critical_a or critical_b)
            and not _is_passage(start, end, new_start, new_end)
            and (not _is_passage(new_start, new_end, start, end))
        )
    return ChangedSpan(_shown(left), _shown(right), critical_a, critical_b, changes)


def _critical(left: Sequence[Token], right: Sequence[Token]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens of both sides that can change a claim; what may be a name counts in place of one."""
    named = any(token.kind in (Kind.NAME, Kind.INITIAL) for token in (*left, *right))
    if named and len(left) == len(right) <= PASSAGE_TOKENS:
        # One word for another where one of the two is a name: compare them all.
        return tuple(token.text for token in left), tuple(token.text for token in right)
    return tuple(_claims(left)), tuple(_claims(right))


def _claims(tokens: Iterable[Token]) -> Iterator[str]:
    """Yield the tokens that can change a claim wherever they stand."""
    return (token.text for token in tokens if token.kind not in (None, Kind.INITIAL))


def _is_passage(start: int, end: int, other_start: int, other_end: int) -> bool:
    """Tell whether a side of a place is a passage beside which the other side has nothing."""
    return end - start >= PASSAGE_TOKENS and other_start == other_end


def _claims_of_passages(
    tokens_a: Sequence[Token], tokens_b: Sequence[Token], places: Sequence[Place]
) -> bool:
    """Tell whether the passages of both sides claim different things; one that has moved does not."""
    claims_a: Counter[str] = Counter()
    claims_b: Counter[str] = Counter()
    for start, end, new_start, new_end in places:
        if _is_passage(start, end, new_start, new_end) or _is_passage(new_start, new_end, start, end):
            claims_a.update(_claims(tokens_a[start:end]))
            claims_b.update(_claims(tokens_b[new_start:new_end]))
    return claims_a != claims_b


def _numbers_replaced(tokens_a: Sequence[Token], tokens_b: Sequence[Token]) -> bool:
    """Tell whether each text has a number that the other one lacks, wherever the two stand."""
    numbers_a = Counter(token.text for token in tokens_a if token.kind is Kind.NUMBER)
    numbers_b = Counter(token.text for token in tokens_b if token.kind is Kind.NUMBER)
    return bool(numbers_a - numbers_b) and bool(numbers_b - numbers_a)


def _shown(tokens: Sequence[Token]) -> str:
    words = [token.text for token in tokens[:MAX_SPAN_TOKENS]]
    return " ".join([*words, *(["..."] if len(tokens) > MAX_SPAN_TOKENS else [])])
