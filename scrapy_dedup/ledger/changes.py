"""What became of a URL key since it was last seen valid: an ordered table of rules. Pure.

What counts is evidence. A page, a 304 and a skip of what is fresh say that the text stands; a redirect says
where it went; a 404 or 410 that it is gone. A timeout, a login wall or a job that never came by say nothing,
and nothing is concluded from them: absent is not gone.

Texts are compared under equal conditions and by one extractor only. Where the earlier observations of a key
were all made otherwise, equal bytes still show that the page is unchanged; else there is no saying.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from scrapy_dedup.content.spans import Difference, difference
from scrapy_dedup.ledger import codec
from scrapy_dedup.records import (
    BodyRecord,
    ChangeKind,
    ChangeRecord,
    Conditions,
    ObservationRecord,
    Outcome,
    Validity,
)

FRESH = "fresh"
"""The reason of a skip that stands for the page: it was seen within the time that the user set."""


class Evidence(enum.IntEnum):
    """What an observation proves about its key; within one job the higher outranks the lower.

    A key may be a 404 under one of its URLs and a page under another, so a page outranks all else.
    """

    NONE = 0
    GONE = 1
    REDIRECT = 2
    PAGE = 3


def evidence_of(outcome: Outcome, *, has_text: bool, reason: str | None) -> Evidence:
    """Return what an observation proves, by its outcome, whether it has a text, and its reason."""
    if outcome is Outcome.FETCHED:
        return Evidence.PAGE if has_text else Evidence.NONE
    if outcome is Outcome.SKIPPED:
        return Evidence.PAGE if reason == FRESH else Evidence.NONE
    return _PROVED.get(outcome, Evidence.NONE)


_PROVED = {Outcome.NOT_MODIFIED: Evidence.PAGE, Outcome.GONE: Evidence.GONE}


@dataclass(frozen=True, slots=True)
class SeenText:
    """What identifies the text of an observation; digests stand as they are stored, to be compared."""

    body_id: str
    representation: str
    extractor_id: str
    normalized_digest: bytes


@dataclass(frozen=True, slots=True)
class Seen:
    """What one observation says about its URL key."""

    observation_id: str
    job_id: str
    url_key: str
    url: str
    at: str
    conditions: Conditions
    http_status: int | None
    outcome: Outcome
    validity: Validity | None
    validity_reason: str | None
    reason: str | None
    payload_digest: bytes | None
    residual_digest: bytes | None
    text: SeenText | None

    @classmethod
    def of(cls, observation: ObservationRecord, body: BodyRecord | None) -> Seen:
        """Return what an observation with its body says."""
        text = None
        if body is not None:
            normalized = codec.pack_digest(body.normalized_digest)
            text = SeenText(body.body_id, body.representation, body.extractor_id, normalized)
        return cls(
            observation_id=observation.observation_id,
            job_id=observation.job_id,
            url_key=observation.url_key,
            url=observation.url,
            at=observation.fetched_at,
            conditions=observation.conditions,
            http_status=observation.http_status,
            outcome=observation.outcome,
            validity=observation.validity,
            validity_reason=observation.validity_reason,
            reason=observation.reason,
            payload_digest=_packed(observation.payload_digest),
            residual_digest=_packed(observation.residual_digest),
            text=text,
        )

    @property
    def is_page(self) -> bool:
        """Whether its text was fetched, and not only known from before."""
        return self.outcome is Outcome.FETCHED and self.text is not None

    @property
    def evidence(self) -> Evidence:
        """What the observation proves."""
        return evidence_of(self.outcome, has_text=self.text is not None, reason=self.reason)


def _packed(digest: str | None) -> bytes | None:
    return None if digest is None else codec.pack_digest(digest)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect away from a URL key.

    Attributes:
        to_key: the key of the URL at its end.
        job_id: the job that followed it.
        end: the last that was seen at that key; None where the crawl did not go there.
    """

    to_key: str
    job_id: str
    end: Seen | None


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of a key at two moments.

    Attributes:
        now: its observation, None where there is none.
        before: its last valid observation before, if possible one that can be compared; None: never valid.
        was_gone: after ``before`` a 404 or 410 was the last that was seen.
        redirect: where it leads now, instead of ``now``.
    """

    now: Seen | None
    before: Seen | None
    was_gone: bool = False
    redirect: Redirect | None = None

    @property
    def seen(self) -> Seen | None:
        """The observation that decides: of the key, or at the end of its redirect."""
        return self.redirect.end if self.redirect else self.now

    @property
    def evidence(self) -> Evidence:
        """What is proved about the key now."""
        if self.redirect and (self.seen is None or self.seen.evidence is Evidence.PAGE):
            return Evidence.REDIRECT
        return self.seen.evidence if self.seen else Evidence.NONE


Reason = Callable[[Case], "str | None"] | str | None


def change_kind(case: Case) -> tuple[ChangeKind, str | None]:
    """Return what became of a key, and why where the kind does not say it.

    Without a page the evidence decides, with one the first of the `RULES` that applies.
    """
    kind, reason = WITHOUT_A_PAGE.get(case.evidence) or next(
        (kind, reason) for applies, kind, reason in RULES if applies(case)
    )
    return kind, reason(case) if callable(reason) else reason


def _why_no_news(case: Case) -> str | None:
    """Return the kind of failure: the state of a page that is no evidence, or what went wrong."""
    seen = case.seen
    if seen is None:
        return "not_visited"
    if seen.validity is not None and seen.validity not in (Validity.VALID, Validity.HTTP_ERROR):
        return str(seen.validity.value)
    if seen.http_status is not None and not 200 <= seen.http_status < 300:
        return f"http_{seen.http_status}"
    return seen.reason or seen.validity_reason or seen.outcome.value


def _stands_unread(case: Case) -> bool:
    return case.now is not None and case.now.outcome is not Outcome.FETCHED


def _how_it_stands(case: Case) -> str | None:
    if case.now is None or case.now.outcome is Outcome.NOT_MODIFIED:
        return Outcome.NOT_MODIFIED.value
    return case.now.reason


def _is_same_payload(case: Case) -> bool:
    now, before = _pages(case)
    return now.payload_digest is not None and now.payload_digest == before.payload_digest


def _residual_reason(case: Case) -> str | None:
    now, before = _pages(case)
    return None if now.residual_digest == before.residual_digest else "residual_differs"


def _pages(case: Case) -> tuple[Seen, Seen]:
    if case.now is None or case.before is None:
        raise LookupError("the rules for two pages came before the rules for their absence")
    return case.now, case.before


def _is_same_text(case: Case) -> bool:
    now, before = _texts(case)
    return now.body_id == before.body_id


def _is_same_normalized(case: Case) -> bool:
    now, before = _texts(case)
    return now.normalized_digest == before.normalized_digest


def _is_other_extractor(case: Case) -> bool:
    now, before = _texts(case)
    return (now.representation, now.extractor_id) != (before.representation, before.extractor_id)


def _has_other_conditions(case: Case) -> bool:
    now, before = _pages(case)
    return now.conditions != before.conditions


def _texts(case: Case) -> tuple[SeenText, SeenText]:
    now, before = _pages(case)
    if now.text is None or before.text is None:
        raise LookupError("the rules for two texts came before the rules for their absence")
    return now.text, before.text


def _is_same_page_read_otherwise(case: Case) -> bool:
    return (_is_other_extractor(case) or _has_other_conditions(case)) and _is_same_payload(case)


WITHOUT_A_PAGE: dict[Evidence, tuple[ChangeKind, Reason]] = {
    Evidence.NONE: (ChangeKind.UNKNOWN, _why_no_news),
    Evidence.GONE: (ChangeKind.GONE, None),
    Evidence.REDIRECT: (ChangeKind.MOVED, None),
}
RULES: tuple[tuple[Callable[[Case], bool], ChangeKind, Reason], ...] = (
    # A 304 of a page that the ledger never saw tells nothing of it.
    (lambda case: case.before is None and _stands_unread(case), ChangeKind.UNKNOWN, _how_it_stands),
    (lambda case: case.before is None, ChangeKind.NEW, None),
    (lambda case: case.was_gone, ChangeKind.NEW, "returned"),
    (_stands_unread, ChangeKind.UNCHANGED, _how_it_stands),
    # From here on there are two texts.
    (_is_same_text, ChangeKind.UNCHANGED, _residual_reason),
    (_is_same_page_read_otherwise, ChangeKind.UNCHANGED, "same_payload"),
    (_is_other_extractor, ChangeKind.UNKNOWN, "other_extractor"),
    (_has_other_conditions, ChangeKind.UNKNOWN, "other_conditions"),
    (_is_same_normalized, ChangeKind.REFORMATTED, None),
    (lambda _: True, ChangeKind.CHANGED, None),
)


def change_of(case: Case, *, job_id: str, texts: Callable[[], tuple[str, str]]) -> ChangeRecord:
    """Return the record of what became of a key.

    Args:
        case: with an observation of the key, now or before, or both.
        job_id: the job to name where nothing was seen.
        texts: returns the text before and the text now; called for a changed page alone.
    """
    kind, reason = change_kind(case)
    seen, before, redirect = case.seen, case.before, case.redirect
    of_key = before if redirect else case.now or before
    if of_key is None:
        raise LookupError("a change of a key of which nothing was ever seen")
    found = difference(*texts()) if kind is ChangeKind.CHANGED else NO_DIFFERENCE
    return ChangeRecord(
        kind=kind,
        url_key=of_key.url_key,
        url=of_key.url,
        job_id=redirect.job_id if redirect else seen.job_id if seen else job_id,
        observation_id=seen.observation_id if seen else None,
        previous_observation_id=before.observation_id if before else None,
        body_id=_body_now(case, kind),
        previous_body_id=before.text.body_id if before and before.text else None,
        at=seen.at if seen else None,
        previous_at=before.at if before else None,
        http_status=seen.http_status if seen else None,
        reason=reason,
        detail=seen.validity_reason if seen else None,
        moved_to=redirect.to_key if redirect else None,
        spans=found.spans,
        spans_cut=found.is_cut,
    )


NO_DIFFERENCE = Difference((), is_cut=False)


def _body_now(case: Case, kind: ChangeKind) -> str | None:
    """Return the body that the key is known to have now: a page that stands unread has the one before."""
    if case.redirect or case.now is None:
        return None
    text = case.now.text
    if text is None and kind in (ChangeKind.UNCHANGED, ChangeKind.NEW) and case.before:
        text = case.before.text
    return text.body_id if text else None
