"""Relations of two texts that are similar: how one is stated, and what may follow from it. Pure.

The crawl states them one by one, the batch for a whole corpus; what both say of a pair has one form, so that
a decision about it holds whoever found it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from scrapy_dedup.ledger import codec
from scrapy_dedup.near.claims import JOINING, Comparison, Verdict
from scrapy_dedup.records import Reason, RelationKind, RelationRecord, RelationState

EQUAL = "equal"
"""The verdict on texts that differ in white space, case and composition alone."""

FEW_PAGES = "few_pages"
"""The reason that a host is not known well enough to set its shared paragraphs aside."""

_OF_A_CRAWL = ("distance", "own_jaccard", "same_page", "same_host")

STATES: Mapping[str | None, RelationState] = {
    EQUAL: RelationState.CONFIRMED,
    Verdict.REFORMATTED.value: RelationState.CONFIRMED,
    Verdict.EDITED.value: RelationState.CONFIRMED,
    Verdict.CONTAINS.value: RelationState.UNRESOLVED,  # the longer one says more
    Verdict.CLAIM_CHANGED.value: RelationState.REFUTED,
    Verdict.DIFFERENT.value: RelationState.REFUTED,
    None: RelationState.UNRESOLVED,  # nobody has read the two
}
"""What a verdict makes of the relation that one text can stand for the other."""


class Side(NamedTuple):
    """One text of a pair: its identity, and the digest of its text."""

    body_id: str
    text_digest: str


@dataclass(frozen=True, slots=True)
class Measures:
    """What is known of a pair of texts, the first and the second; None where claims were not compared.

    Attributes:
        jaccard: of the sets of shingles, 0.0 to 1.0.
        containment_a: the share of the first text's shingles that the second one has.
        containment_b: the share of the second text's shingles that the first one has.
        verdict: one of the keys of `STATES`.
        spans: how many places differ, up to `near.claims.MAX_SPANS`.
        claim_spans: how many of these change a claim.
    """

    jaccard: float
    containment_a: float
    containment_b: float
    verdict: str | None
    spans: int | None
    claim_spans: int | None

    @classmethod
    def of(cls, comparison: Comparison) -> Measures:
        """Return what reading two texts side by side has shown."""
        return cls(
            jaccard=round(comparison.jaccard, 6),
            containment_a=round(comparison.containment_a, 6),
            containment_b=round(comparison.containment_b, 6),
            verdict=comparison.verdict.value,
            spans=len(comparison.spans),
            claim_spans=sum(span.changes_claim for span in comparison.spans),
        )


@dataclass(frozen=True, slots=True)
class NearPair:
    """A new text and an earlier one that it is similar to.

    Attributes:
        relation: of the two.
        ordinal: of the earlier text.
        first_observation_id: the one that brought the earlier text.
    """

    relation: RelationRecord
    ordinal: int
    first_observation_id: str

    @property
    def jaccard(self) -> float:
        """The similarity of the two."""
        return float(self.relation.measures["jaccard"])


@dataclass(frozen=True, slots=True)
class NearFound:
    """What looking up a new text has found.

    Attributes:
        pairs: with the earlier texts that it is similar to.
        different: texts that looked alike and turned out to be different.
        left: texts that looked alike and were not read, since there were too many.
    """

    pairs: tuple[NearPair, ...] = ()
    different: int = 0
    left: int = 0

    def leading(self, min_jaccard: float) -> NearPair | None:
        """Return the pair with the text that leads the new one: the most similar that can stand for it."""
        return _best(pair for pair in self.pairs if _joins(pair.relation, min_jaccard))

    def suppressing(self, min_jaccard: float) -> NearPair | None:
        """Return the pair by which the new text is to be suppressed."""
        return _best(pair for pair in self.pairs if is_suppressible(pair.relation, min_jaccard))


def _best(pairs: Iterable[NearPair]) -> NearPair | None:
    return max(pairs, key=lambda pair: (pair.jaccard, -pair.ordinal), default=None)


def near_relation(
    corpus: str,
    first: Side,
    second: Side,
    measures: Measures,
    *,
    policy: str,
    reasons: tuple[Reason, ...],
    created_at: str,
    job_id: str | None = None,
    distance: int | None = None,
    own_jaccard: float | None = None,
    same_page: bool = False,
    same_host: bool = False,
) -> RelationRecord:
    """Return the relation of two similar texts.

    Its side ``a`` is the smaller identity, whichever text comes first, so that a pair has one identity; the
    measure ``leader`` says which side is the first text, the one that can stand for the other.

    Args:
        corpus: of both texts.
        first: the text that was there before, or that is preferred.
        second: the other one.
        measures: of the two, in this order.
        policy: the schemes and rules that found and judged the pair.
        reasons: why they are related, and in which state.
        created_at: RFC 3339 in UTC.
        job_id: the job that found them, None for a command.
        distance: the differing bits of their fingerprints, None where they were not found by these.
        own_jaccard: the similarity of what is left of the two without the paragraphs that their hosts share,
            where that is too little to compare by itself.
        same_page: whether the second text was seen under a URL that had the first one.
        same_host: whether both were first seen on one host.
    """
    flipped = second.body_id < first.body_id
    a, b = (second, first) if flipped else (first, second)
    containments = (measures.containment_a, measures.containment_b)
    stated: dict[str, Any] = {
        "jaccard": measures.jaccard,
        "containment_a": containments[flipped],
        "containment_b": containments[not flipped],
        "verdict": measures.verdict,
        "spans": measures.spans,
        "claim_spans": measures.claim_spans,
        "leader": "b" if flipped else "a",
    }
    if distance is not None:
        stated["distance"] = distance
    if own_jaccard is not None:
        stated["own_jaccard"] = own_jaccard
    stated |= {name: True for name, holds in (("same_page", same_page), ("same_host", same_host)) if holds}
    kind = RelationKind.NEAR
    return RelationRecord(
        relation_id=codec.relation_id(
            kind.value, corpus, a.body_id, b.body_id, a_digest=a.text_digest, b_digest=b.text_digest
        ),
        kind=kind,
        corpus=corpus,
        a=a.body_id,
        b=b.body_id,
        a_digest=a.text_digest,
        b_digest=b.text_digest,
        state=STATES[measures.verdict],
        measures=stated,
        reasons=reasons,
        policy=policy,
        job_id=job_id,
        created_at=created_at,
    )


def with_what_a_crawl_found(relation: RelationRecord, known: RelationRecord | None) -> RelationRecord:
    """Return a relation that a batch found, with what only a crawl can know of the pair.

    Where the two were seen, and what their hosts shared then, says whether one may stand for the other, and a
    batch sees nothing but texts.

    Args:
        relation: as it is stated now.
        known: as it was stated before, by whomever; None for a pair that is new.
    """
    if known is None:
        return relation
    measures = {name: value for name, value in known.measures.items() if name in _OF_A_CRAWL}
    reasons = (reason for reason in known.reasons if reason.code == FEW_PAGES)
    return replace(
        relation,
        measures={**relation.measures, **measures},
        reasons=(*relation.reasons, *reasons),
    )


def leader_of(relation: RelationRecord) -> str:
    """Return the identity of the text that can stand for the other one."""
    return relation.b if relation.measures.get("leader") == "b" else relation.a


def other_of(relation: RelationRecord) -> str:
    """Return the identity of the text that the leader can stand for."""
    return relation.a if relation.measures.get("leader") == "b" else relation.b


def is_suppressible(relation: RelationRecord, min_jaccard: float) -> bool:
    """Tell whether suppression lets the leader of a pair stand for the other text.

    Two revisions of one page never are: the later one is what the page says now. A pair that somebody decided
    to be different is refuted, so it is not suppressible either. Two pages of a host of which few are known
    may share a template that nobody could set aside yet.

    Args:
        relation: of two texts, in the state that holds: under what was decided about it.
        min_jaccard: the least similarity, 0.0 to 1.0.
    """
    return not relation.measures.get("same_page") and _joins(relation, min_jaccard)


def _joins(relation: RelationRecord, min_jaccard: float) -> bool:
    """Tell whether the leader of a pair says all that the other text says.

    Of two texts of one host that may share a template which is not known yet, or which is all that makes them
    similar, nobody can tell.
    """
    measures = relation.measures
    few_pages = any(reason.code == FEW_PAGES for reason in relation.reasons)
    return (
        relation.kind is RelationKind.NEAR
        and relation.state is RelationState.CONFIRMED
        and measures.get("verdict") in JOINING
        and not measures.get("claim_spans")
        and not (few_pages and measures.get("same_host"))
        and min(measures.get("jaccard", 0.0), measures.get("own_jaccard", 1.0)) >= min_jaccard
    )
