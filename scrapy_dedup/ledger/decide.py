"""What becomes of one sighting: an ordered table of rules over what the ledger already holds.

Pure: no database, no clock. The store loads what is known of a batch into `Known`, asks `decide` for each
sighting in turn and lets `Known` learn each decision, so that later sightings of a batch see earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scrapy_dedup.ledger.codec import body_id
from scrapy_dedup.ledger.derived import NEAR_DUPLICATE
from scrapy_dedup.ledger.near_relations import NearFound, NearPair
from scrapy_dedup.records import Action, BodyRecord, ChangeRecord, ObservationRecord, Outcome, Text, Validity

MAX_BODY_BYTES = 16 * 1024 * 1024
"""A larger text is not stored; the observation keeps its digest and length and asks for a review."""


@dataclass(frozen=True, slots=True)
class KnownPage:
    """The page that a response was not transferred for: why, and the observation that holds its content."""

    reason: str
    observation_id: str
    body_id: str | None


@dataclass(frozen=True, slots=True)
class Sighting:
    """One response as the crawl saw it, before the ledger has decided about it.

    ``observation`` carries no body, action, reason or related observation yet; ``text`` is None where
    nothing usable was extracted; ``url_valid`` is False for a URL that must not be a source (credentials,
    a scheme that is not http).

    ``key_reason`` says why the observation stands under another key than the policy's, for example
    ``facet_by_redirect``. It takes the place of the reason of a text that is kept or reused.

    ``links`` is the JSON of the page's links, None where they are not known. ``known`` is the page that a
    skip or a 304 stands for. ``moved_keys`` are other keys whose URLs were redirected to this one.
    """

    observation: ObservationRecord
    text: Text | None
    url_valid: bool = True
    key_reason: str | None = None
    links: str | None = None
    known: KnownPage | None = None
    moved_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A sighting as the ledger holds it; ``body_is_new`` when this sighting brought the body.

    ``changes`` say what became of its key, and of the keys that led to it; empty where nobody asked for them.
    ``near`` says what its new body is similar to; None where that was not looked for.
    """

    observation: ObservationRecord
    body: BodyRecord | None
    body_is_new: bool
    changes: tuple[ChangeRecord, ...] = ()
    near: NearFound | None = None


@dataclass(frozen=True, slots=True)
class HeldBody:
    """A body of the ledger with the residual digest of its first observation."""

    record: BodyRecord
    variant: int
    residual_digest: str | None


@dataclass(frozen=True, slots=True)
class Earlier:
    """The first observation of a body whose text has the same normalized form."""

    first_observation_id: str
    residual_digest: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a sighting.

    Attributes:
        body: the body that it belongs to, None where there is no content.
        known_body_id: of the body of a page that was not transferred.
        body_is_new: the body has to be stored.
        note: what the observation must say beside its reason (for a text over the cap).
    """

    action: Action
    reason: str | None
    body: HeldBody | None = None
    body_is_new: bool = False
    related_observation_id: str | None = None
    known_body_id: str | None = None
    note: str | None = None


NEW_TEXT = "new_text"
ORDINARY_REASONS = frozenset({NEW_TEXT, "revision", "text_equal", "normalized_equal"})
"""Reasons that the action already implies; all others name something to look at."""

TextKey = tuple[str, str, str]
"""Representation, extractor and a digest (or a URL key): what may be compared at all."""


def text_key(text: Text) -> TextKey:
    """Return the key under which equal texts are found."""
    return text.representation, text.extractor_id, text.text_digest


def normalized_key(text: Text) -> TextKey:
    """Return the key under which texts with equal normalized form are found."""
    return text.representation, text.extractor_id, text.normalized_digest


def url_key_in_space(text: Text, url_key: str) -> TextKey:
    """Return the key under which the latest valid observation of a URL key is found."""
    return text.representation, text.extractor_id, url_key


@dataclass(slots=True)
class Known:
    """What one corpus of the ledger holds, as far as the sightings at hand can touch it."""

    corpus: str
    bodies: dict[TextKey, list[HeldBody]] = field(default_factory=dict)
    normalized: dict[TextKey, Earlier] = field(default_factory=dict)
    latest: dict[TextKey, str] = field(default_factory=dict)

    def learn(self, sighting: Sighting, decision: Decision) -> None:
        """Take a decision into account for the sightings after it."""
        text, held = sighting.text, decision.body
        if text is None or held is None:
            return
        observation = sighting.observation
        if decision.body_is_new:
            self.bodies.setdefault(text_key(text), []).append(held)
            first = Earlier(observation.observation_id, text.residual_digest)
            self.normalized.setdefault(normalized_key(text), first)
        self.latest[url_key_in_space(text, observation.url_key)] = observation.observation_id


@dataclass(frozen=True, slots=True)
class _Case:
    sighting: Sighting
    known: Known
    reuse_normalized: bool

    @property
    def observation(self) -> ObservationRecord:
        return self.sighting.observation

    @property
    def text(self) -> Text:
        text = self.sighting.text
        if text is None:
            raise LookupError("the rules for content came before the rule for its absence")
        return text

    @property
    def variants(self) -> list[HeldBody]:
        return self.known.bodies.get(text_key(self.text), [])


def decide(sighting: Sighting, known: Known, *, reuse_normalized: bool) -> Decision:
    """Return what becomes of ``sighting``: the first rule of `RULES` that applies.

    Args:
        sighting: with its observation's identity set.
        known: what the ledger holds under the sighting's digests and URL key.
        reuse_normalized: whether a text that differs only in spaces, case or composition is reused
            (the standard policy) or kept (the conservative one).
    """
    case = _Case(sighting, known, reuse_normalized)
    decision = next(decision for rule in RULES if (decision := rule(case)) is not None)
    if sighting.key_reason is not None and decision.reason in ORDINARY_REASONS:
        return replace(decision, reason=sighting.key_reason)
    return decision


def _url_invalid(case: _Case) -> Decision | None:
    return None if case.sighting.url_valid else Decision(Action.REVIEW, "url_invalid")


def _not_transferred(case: _Case) -> Decision | None:
    known = case.sighting.known
    if known is None:
        return None
    confirmed = case.observation.outcome is Outcome.NOT_MODIFIED
    return Decision(
        Action.REUSE if confirmed else Action.NONE,
        known.reason,
        related_observation_id=known.observation_id,
        known_body_id=known.body_id,
    )


def _nothing_fetched(case: _Case) -> Decision | None:
    return None if case.observation.outcome is Outcome.FETCHED else Decision(Action.NONE, None)


def _content_invalid(case: _Case) -> Decision | None:
    if case.observation.validity is Validity.VALID and case.sighting.text is not None:
        return None
    return Decision(Action.REVIEW, "content_invalid")


def _body_over_cap(case: _Case) -> Decision | None:
    text = case.text
    if len(text.text) * 4 <= MAX_BODY_BYTES:  # no character takes more than 4 bytes
        return None
    size = len(text.text.encode("utf-8", "surrogatepass"))
    if size <= MAX_BODY_BYTES:
        return None
    return Decision(
        Action.REVIEW,
        "body_over_cap",
        note=f"body_over_cap: {size} bytes of text, more than {MAX_BODY_BYTES}; {text.text_digest}",
    )


def _same_text(case: _Case) -> Decision | None:
    held = next((body for body in case.variants if body.record.text == case.text.text), None)
    if held is None:
        return None
    same_prose = held.residual_digest == case.text.residual_digest
    return Decision(
        Action.REUSE if same_prose else Action.REVIEW,
        "text_equal" if same_prose else "residual_differs",
        body=held,
        related_observation_id=held.record.first_observation_id,
    )


def _digest_collision(case: _Case) -> Decision | None:
    if not case.variants:
        return None
    first = case.variants[0].record.first_observation_id
    return _new_body(case, Action.KEEP, "digest_collision", first)


def _normalized_equal(case: _Case) -> Decision | None:
    earlier = case.known.normalized.get(normalized_key(case.text))
    if earlier is None:
        return None
    if earlier.residual_digest != case.text.residual_digest:
        return _new_body(case, Action.REVIEW, "residual_differs", earlier.first_observation_id)
    action = Action.REUSE if case.reuse_normalized else Action.KEEP
    return _new_body(case, action, "normalized_equal", earlier.first_observation_id)


def _revision(case: _Case) -> Decision | None:
    latest = case.known.latest.get(url_key_in_space(case.text, case.observation.url_key))
    return None if latest is None else _new_body(case, Action.KEEP, "revision", latest)


def _new_text(case: _Case) -> Decision | None:
    return _new_body(case, Action.KEEP, NEW_TEXT, None)


RULES: tuple[Callable[[_Case], Decision | None], ...] = (
    _url_invalid,
    _not_transferred,
    _nothing_fetched,
    _content_invalid,
    _body_over_cap,
    _same_text,  # the text itself is compared, not only its digest
    _digest_collision,
    _normalized_equal,
    _revision,  # only texts of one extractor are compared: another extractor's text is no change of the page
    _new_text,
)


def suppressed(decision: Decision, pair: NearPair) -> Decision:
    """Return a decision under what its new body is suppressed by.

    Only a text that would be kept and stands in no other relation gives way: a revision is what its page says
    now. The body and the observation stay; later stages are pointed to the text that says the same.
    """
    if decision.action is not Action.KEEP or decision.related_observation_id is not None:
        return decision
    return replace(
        decision,
        action=Action.REUSE,
        reason=NEAR_DUPLICATE,
        related_observation_id=pair.first_observation_id,
    )


def _new_body(case: _Case, action: Action, reason: str, related: str | None) -> Decision:
    text, variant = case.text, len(case.variants)
    record = BodyRecord(
        body_id=body_id(case.known.corpus, text.text_digest, text.representation, text.extractor_id, variant),
        corpus=case.known.corpus,
        text_digest=text.text_digest,
        normalized_digest=text.normalized_digest,
        visible_digest=text.visible_digest,
        representation=text.representation,
        extractor_id=text.extractor_id,
        text=text.text,
        language=text.language,
        char_count=text.char_count,
        word_count=text.word_count,
        simhash=text.simhash,
        simhash_scheme=text.simhash_scheme,
        first_observation_id=case.observation.observation_id,
    )
    return Decision(action, reason, HeldBody(record, variant, text.residual_digest), True, related)
