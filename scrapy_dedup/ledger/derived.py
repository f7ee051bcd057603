"""The relations that follow from what was observed, and that nobody has to store a second time. Pure.

Their identity depends on nothing but what stands in the observation or the alias, so that whatever was
decided about one is found again in every later run, for as long as the content stays what it was.
"""

from __future__ import annotations

from collections.abc import Mapping

from scrapy_dedup.ledger.codec import relation_id
from scrapy_dedup.records import (
    Action,
    AliasRecord,
    JobRecord,
    ObservationRecord,
    Outcome,
    Reason,
    RelationKind,
    RelationRecord,
    RelationState,
    Validity,
)

CONTENT_INVALID = "content_invalid"
DECIDED = "decided"
"""The reason of an action that somebody decided."""

NEAR_DUPLICATE = "near_duplicate"
"""The reason of a text that a similar one stands for; the relation of the two texts is stored by itself."""

TEXT_RELATIONS: Mapping[str, RelationKind] = {
    "text_equal": RelationKind.SAME_TEXT,
    "normalized_equal": RelationKind.SAME_NORMALIZED,
    "residual_differs": RelationKind.RESIDUAL_DIFFERS,
    "revision": RelationKind.REVISION,
}
"""What the reason of an observation says about its text and that of the related observation."""

KINDS = (
    *TEXT_RELATIONS.values(),
    RelationKind.CONTENT_INVALID,
    RelationKind.SKIPPED,
    RelationKind.URL_MERGED,
    RelationKind.URL_DENIED,
)
"""The kinds of relations that follow from observations and aliases."""


def of_observation(record: ObservationRecord, text_digest: str | None, corpus: str) -> RelationRecord | None:
    """Return the relation that an observation states, or None where it states none.

    Args:
        record: as it was stored. One whose action was decided about no longer says how it came about; the way
            from there to its relation is its decision.
        text_digest: that of its body.
        corpus: that of its job.
    """
    if record.outcome is Outcome.SKIPPED:
        return _of_key(record, corpus, RelationKind.SKIPPED, record.reason or "", None)
    if record.reason == CONTENT_INVALID:
        return of_content(record, corpus)
    kind = _text_relation(record)
    if kind is None or record.related_observation_id is None:
        return None
    is_about_prose = kind is RelationKind.RESIDUAL_DIFFERS
    digest = record.residual_digest if is_about_prose else text_digest
    return _of_key(record, corpus, kind, record.related_observation_id, digest)


def of_content(record: ObservationRecord, corpus: str) -> RelationRecord:
    """Return the relation by which it is decided whether the content of an observation is evidence.

    Of a page that the suite took, it is refuted: nothing speaks against the content until somebody does.
    """
    validity = record.validity.value if record.validity else ""
    stated = f"{validity}:{record.validity_reason or ''}"
    return _of_key(record, corpus, RelationKind.CONTENT_INVALID, stated, record.payload_digest)


def of_alias(alias: AliasRecord, job: JobRecord) -> RelationRecord | None:
    """Return the relation of a URL as linked to its key, or to the rule that denied it.

    Args:
        alias: as it was stored; the row that counts the URLs beyond the bound names none, so None comes back.
        job: the job of the alias.
    """
    if not alias.raw_url:
        return None
    is_denied = alias.verdict == "denied"
    kind = RelationKind.URL_DENIED if is_denied else RelationKind.URL_MERGED
    b = alias.rule if is_denied else alias.url_key
    return RelationRecord(
        relation_id=relation_id(kind.value, job.corpus, alias.raw_url, b),
        kind=kind,
        corpus=job.corpus,
        a=alias.raw_url,
        b=b,
        a_digest=None,
        b_digest=None,
        state=RelationState.CONFIRMED,
        measures={},
        reasons=(Reason(alias.rule),),
        policy=job.policy,
        job_id=job.job_id,
        created_at=job.started_at,
    )


def _text_relation(record: ObservationRecord) -> RelationKind | None:
    kind = TEXT_RELATIONS.get(record.reason or "")
    if kind is None and record.action is Action.REUSE and record.reason not in (DECIDED, NEAR_DUPLICATE):
        return RelationKind.SAME_TEXT  # reused for a reason of its own: a 304, or a special key
    return kind


def _of_key(
    record: ObservationRecord, corpus: str, kind: RelationKind, b: str, a_digest: str | None
) -> RelationRecord:
    return RelationRecord(
        relation_id=relation_id(kind.value, corpus, record.url_key, b, a_digest=a_digest),
        kind=kind,
        corpus=corpus,
        a=record.url_key,
        b=b,
        a_digest=a_digest,
        b_digest=None,
        state=_state(record, kind),
        measures={},
        reasons=(_reason(record, kind),),
        policy=record.policy_id,
        job_id=record.job_id,
        created_at=record.fetched_at,
    )


def _state(record: ObservationRecord, kind: RelationKind) -> RelationState:
    if kind is RelationKind.RESIDUAL_DIFFERS:
        return RelationState.UNRESOLVED  # the suite asks for a review
    if kind is RelationKind.SAME_NORMALIZED and record.action is not Action.REUSE:
        return RelationState.UNRESOLVED  # the conservative policy does not take it for one text
    if kind is RelationKind.CONTENT_INVALID and record.validity is Validity.VALID:
        return RelationState.REFUTED
    return RelationState.CONFIRMED


def _reason(record: ObservationRecord, kind: RelationKind) -> Reason:
    if kind is RelationKind.CONTENT_INVALID:
        return Reason(record.validity.value if record.validity else kind.value, record.validity_reason)
    return Reason(record.reason or kind.value)
