"""Which observations report which event, because somebody says so; the suite never finds that out alone.

A claim is a relation between an observation and an event. Claims of one observation for two events both
stand, beside a third relation that names their conflict; texts are never merged because of them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scrapy_dedup.ledger import codec, relations
from scrapy_dedup.records import Reason, RelationKind, RelationRecord, RelationState

POLICY = "claimed-1"
CLAIMED = "claimed"


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody says that an observation reports an event.

    Attributes:
        observation_id: the observation.
        corpus: that of its job.
        event_id: the event, under whatever name the user gives it.
        reason: why, in the user's words.
        evidence: where that can be seen.
        by: who says so, as ``human:<name>`` or ``policy:<name>``.
        at: when, as an RFC 3339 time; None for the moment when it is written.
    """

    observation_id: str
    corpus: str
    event_id: str
    reason: str
    evidence: str | None
    by: str
    at: str | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """What became of claims: how many were new, how many the ledger held, and the conflicts that are new."""

    new: int
    known: int
    conflicts: tuple[RelationRecord, ...]


def record_claims(url: str, claims: Sequence[Claim], *, at: str) -> Claimed:
    """Write claims, durably and all together; those that the ledger holds already are not written again.

    Args:
        url: the ledger, which must be there.
        claims: of observations that the ledger holds.
        at: the time of claims that have none.

    Raises:
        LedgerUnavailable: there is no ledger, or it cannot be written.
    """
    sides = {claim.observation_id for claim in claims}
    with relations.writing(url) as connection:
        held = [
            relation
            for kind in (RelationKind.EVENT, RelationKind.EVENT_CONFLICT)
            for relation in relations.with_side(connection, kind, a=sides)
        ]
        claimed, conflicts = plan(claims, held, at=at)
        relations.insert(connection, [*claimed, *conflicts], job=None)
    return Claimed(len(claimed), len(claims) - len(claimed), tuple(conflicts))


def plan(
    claims: Iterable[Claim], held: Sequence[RelationRecord], *, at: str
) -> tuple[list[RelationRecord], list[RelationRecord]]:
    """Return the claims that are new, as relations, and the conflicts that they bring. Pure.

    Args:
        claims: in the order of the file.
        held: the claims and conflicts of their observations that the ledger holds.
        at: the time of claims that have none.
    """
    # A claim without a time is known when the same was said at any time, so that a file can be taken twice.
    known = {said for relation in held if relation.kind is RelationKind.EVENT for said in _said(relation)}
    new: list[RelationRecord] = []
    for claim in claims:
        relation = _of_claim(claim, at=at)
        undated, dated = _said(relation)
        if (dated if claim.at else undated) not in known:
            new.append(relation)
            known |= {undated, dated}
    events: dict[str, dict[str, str]] = {}
    for relation in (*held, *new):
        if relation.kind is RelationKind.EVENT:
            events.setdefault(relation.a, {})[relation.b] = relation.corpus
    conflicts = [
        _conflict(observation_id, pair, corpus=claimed[pair[0]], at=at)
        for observation_id, claimed in events.items()
        for pair in itertools.combinations(sorted(claimed), 2)
    ]
    named = {relation.relation_id for relation in held}
    return new, [conflict for conflict in conflicts if conflict.relation_id not in named]


def claims_in_conflict(conflict: RelationRecord) -> tuple[str, str]:
    """Return the identities of the two claims whose conflict a relation names."""
    first, second = (
        codec.relation_id(RelationKind.EVENT.value, conflict.corpus, conflict.a, event)
        for event in json.loads(conflict.b)
    )
    return first, second


def _said(relation: RelationRecord) -> tuple[tuple[str | None, ...], tuple[str | None, ...]]:
    """Return what a claim says, without its time and with it."""
    (reason,) = relation.reasons
    measures = relation.measures
    undated = (relation.a, relation.b, str(reason.value), measures["evidence"], measures["by"])
    return undated, (*undated, relation.measures["at"])


def _of_claim(claim: Claim, *, at: str) -> RelationRecord:
    moment = codec.from_micros(codec.to_micros(claim.at or at))
    return RelationRecord(
        relation_id=codec.relation_id(
            RelationKind.EVENT.value, claim.corpus, claim.observation_id, claim.event_id
        ),
        kind=RelationKind.EVENT,
        corpus=claim.corpus,
        a=claim.observation_id,
        b=claim.event_id,
        a_digest=None,
        b_digest=None,
        state=RelationState.CONFIRMED,
        measures={"evidence": claim.evidence, "by": claim.by, "at": moment},
        reasons=(Reason(CLAIMED, claim.reason),),
        policy=POLICY,
        job_id=None,
        created_at=at,
    )


def _conflict(observation_id: str, events: Sequence[str], *, corpus: str, at: str) -> RelationRecord:
    b = json.dumps(list(events))
    kind = RelationKind.EVENT_CONFLICT
    return RelationRecord(
        relation_id=codec.relation_id(kind.value, corpus, observation_id, b),
        kind=kind,
        corpus=corpus,
        a=observation_id,
        b=b,
        a_digest=None,
        b_digest=None,
        state=RelationState.UNRESOLVED,
        measures={},
        reasons=(Reason(CLAIMED, events[0]), Reason(CLAIMED, events[1])),
        policy=POLICY,
        job_id=None,
        created_at=at,
    )
