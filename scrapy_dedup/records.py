"""The records of the suite: frozen values, written as JSON Lines, read back from the ledger.

Digests are written ``sha256:<64 hex>``, times RFC 3339 in UTC with ``Z``, languages BCP 47.
What is unknown is None and is never invented.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


class Outcome(str, enum.Enum):
    """What became of one request."""

    FETCHED = "fetched"
    NOT_MODIFIED = "not_modified"
    GONE = "gone"  # 404 or 410 was seen; absence alone is never "gone"
    ERROR = "error"
    SKIPPED = "skipped"


class Validity(str, enum.Enum):
    """Whether a fetched response can serve as evidence; only valid content has a content identity."""

    VALID = "valid"
    EMPTY = "empty"
    HTTP_ERROR = "http_error"
    UNSUPPORTED_TYPE = "unsupported_type"
    EXTRACTION_FAILED = "extraction_failed"
    MALFORMED_TEXT = "malformed_text"
    UNEXPECTED_CONTENT = "unexpected_content"
    BLOCKED = "blocked"
    LOGIN = "login"
    CONSENT = "consent"
    JS_REQUIRED = "js_required"
    SOFT_404 = "soft_404"
    ERROR_PAGE = "error_page"  # the status says success, the page says that something failed
    PLACEHOLDER = "placeholder"
    REDIRECT_STUB = "redirect_stub"
    TRUNCATED = "truncated"


class Recovery(str, enum.Enum):
    """What may turn an unusable response into a usable one."""

    RETRY = "retry"
    RENDER = "render"
    AUTHENTICATE = "authenticate"
    NONE = "none"


class Action(str, enum.Enum):
    """What later stages (embedding, indexing) should do with the text of an observation."""

    KEEP = "keep"  # new text: chunk and embed it
    REUSE = "reuse"  # known text: use what was made of it before
    REVIEW = "review"  # a person or a rule has to look
    NONE = "none"  # there is no content to act on


class RelationKind(str, enum.Enum):
    """How two things relate.

    The first five are stored as such. The others follow from observations and aliases and are only stored
    once somebody has decided about them.
    """

    CANONICAL = "canonical"  # a page, and the URL that it declares to be its own
    SHARED_TEMPLATE = "shared_template"  # a body, and the host that shows it under unrelated URLs
    EVENT = "event"  # an observation, and the event that somebody says it reports
    EVENT_CONFLICT = "event_conflict"  # an observation, and two events that are claimed for it
    NEAR = "near"  # two bodies whose texts are similar
    SAME_TEXT = "same_text"
    SAME_NORMALIZED = "same_normalized"
    RESIDUAL_DIFFERS = "residual_differs"
    REVISION = "revision"
    URL_MERGED = "url_merged"  # a URL as linked, and the key that it was merged into
    URL_DENIED = "url_denied"  # a URL as linked, and the rule that denied it
    CONTENT_INVALID = "content_invalid"  # a URL key, and why its content is no evidence
    SKIPPED = "skipped"  # a URL key, and why it was not fetched
    FORGOTTEN = "forgotten"  # URL keys that start alike, and what is to be fetched again


class RelationState(str, enum.Enum):
    """What the evidence says about a relation; a decision outranks it."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNRESOLVED = "unresolved"


class ChangeKind(str, enum.Enum):
    """What became of a URL key since it was last seen; `ledger.changes` holds the rules."""

    NEW = "new"  # nothing valid stood there before, or a 404 or 410 was the last that was seen
    CHANGED = "changed"  # another text
    REFORMATTED = "reformatted"  # another text that differs in white space, case or composition alone
    UNCHANGED = "unchanged"  # the same text, or the server or the freshness says so
    MOVED = "moved"  # the URL now redirects to another key
    GONE = "gone"  # 404 or 410 was seen; absence alone is never "gone"
    UNKNOWN = "unknown"  # failed, invalid, not comparable, or not visited: no news


class DecisionAction(str, enum.Enum):
    """What somebody decided about a relation."""

    SAME = "same"  # the two sides stand for one thing
    DIFFERENT = "different"  # they are two things
    ACCEPT = "accept"  # what was refused (a URL, a page) is to be taken
    REJECT = "reject"  # what was taken is to be refused
    FORGET = "forget"  # what is known does not count as seen
    UNDO = "undo"  # the decision that this one supersedes does not hold any more


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for a relation or its state: a code, the value found, and the value it was held against."""

    code: str
    value: str | int | float | bool | None = None
    threshold: str | int | float | None = None


@dataclass(frozen=True, slots=True)
class Sourced:
    """A stated value and the place that states it, for example ``meta:article:published_time``."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions under which a response was collected; unequal conditions are not comparable."""

    method: str = "GET"
    cookie_partition: str | None = None
    language: str | None = None
    renderer: str | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One run of one spider."""

    schema: ClassVar[str] = "scrapy-dedup/job/1"

    job_id: str
    spider: str
    corpus: str
    settings_digest: str
    policy: str
    extractor: str
    source_digest: str | None
    started_at: str
    finished_at: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class ObservationRecord:
    """One response delivered to a callback, or one final failure.

    ``url`` is where the response came from, ``request_url`` the URL as it was linked, ``fetch_url`` the URL
    that was requested for it. ``url_key`` is the identity of ``url`` under ``policy_id``. ``decision_id`` is
    the decision that made ``action`` and ``reason`` what they are, None where they are the suite's own.
    """

    schema: ClassVar[str] = "scrapy-dedup/observation/1"

    observation_id: str
    job_id: str
    spider: str
    seq: int
    fetched_at: str
    request_id: str
    conditions: Conditions
    from_cache: bool
    gateway_status: int | None
    access: str | None
    request_url: str
    fetch_url: str
    url: str
    redirect_urls: tuple[str, ...]
    url_key: str
    policy_id: str
    document_url: str | None
    referrer_url: str | None
    depth: int | None
    http_status: int | None
    content_type: str | None
    etag: str | None
    last_modified: str | None
    payload_digest: str | None
    payload_bytes: int | None
    outcome: Outcome
    validity: Validity | None
    validity_reason: str | None
    recovery: Recovery | None
    canonical: Mapping[str, Any] | None = None
    body_id: str | None = None
    action: Action = Action.NONE
    reason: str | None = None
    related_observation_id: str | None = None
    residual_digest: str | None = None
    title: Sourced | None = None
    byline: Sourced | None = None
    publisher: Sourced | None = None
    site_name: Sourced | None = None
    language_declared: Sourced | None = None
    license: Sourced | None = None
    license_spdx: str | None = None
    date_published: Sourced | None = None
    date_modified: Sourced | None = None
    independence: str | None = None
    event_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    decision_id: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """One extracted text with everything that identifies it; it becomes a body once the ledger holds it.

    ``text_digest`` is the SHA-256 of the exact UTF-8 string; ``normalized_digest`` is the key for
    deduplication and change detection; ``residual_digest`` covers the visible prose that ``text`` lacks.
    """

    text: str
    representation: str
    extractor_id: str
    text_digest: str
    normalized_digest: str
    visible_digest: str | None
    residual_digest: str | None
    language: str | None
    char_count: int
    word_count: int
    simhash: str  # 16 hexadecimal digits
    simhash_scheme: str


@dataclass(frozen=True, slots=True)
class BodyRecord:
    """One distinct text of a corpus, stored once however often it was seen."""

    schema: ClassVar[str] = "scrapy-dedup/body/1"

    body_id: str
    corpus: str
    text_digest: str
    normalized_digest: str
    visible_digest: str | None
    representation: str
    extractor_id: str
    text: str
    language: str | None
    char_count: int
    word_count: int
    simhash: str
    simhash_scheme: str
    first_observation_id: str


@dataclass(frozen=True, slots=True)
class AliasRecord:
    """A discovered URL that was merged into a key, rewritten, or denied; the URL itself is never lost.

    ``rule`` names what acted, for example ``tracking``, ``trailing_slash``, ``redirect``, ``credentials``.
    ``verdict`` is ``merged``, ``rewritten``, ``redirected`` or ``denied``.
    """

    schema: ClassVar[str] = "scrapy-dedup/alias/1"

    job_id: str
    raw_url: str
    fetch_url: str
    url_key: str
    verdict: str
    rule: str
    referrer_url: str | None
    depth: int | None
    count: int


@dataclass(frozen=True, slots=True)
class RelationRecord:
    """How two things relate, by what evidence.

    ``relation_id`` is a digest of kind, corpus, both sides and the digests of their content, so whatever was
    decided about a relation holds until the content of one side changes. ``a`` and ``b`` are URL keys, URLs,
    or identities of observations, bodies or events, as the kind says.
    """

    schema: ClassVar[str] = "scrapy-dedup/relation/1"

    relation_id: str
    kind: RelationKind
    corpus: str
    a: str
    b: str
    a_digest: str | None
    b_digest: str | None
    state: RelationState
    measures: Mapping[str, Any]
    reasons: tuple[Reason, ...]
    policy: str
    job_id: str | None
    created_at: str


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """What somebody decided about a relation; never changed, only superseded.

    ``by`` is ``human:<name>`` or ``policy:<name>``. ``digests_seen`` are those of the relation's sides.
    """

    schema: ClassVar[str] = "scrapy-dedup/decision/1"

    decision_id: str
    relation_id: str
    action: DecisionAction
    supersedes: str | None
    by: str
    at: str
    note: str | None
    digests_seen: tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Span:
    """A place where two texts differ, in characters (code points), with equal text of both around it.

    ``before`` and ``after`` may be shortened; start and end say where the whole of it stands.
    """

    before: str
    after: str
    before_start: int
    before_end: int
    after_start: int
    after_end: int
    lead: str
    tail: str


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """What became of a URL key since its last valid observation, which ``previous_...`` and names tell.

    - ``new``: the key had no valid observation, or the last that was seen there was a 404 or 410; then
      ``reason`` is ``returned`` and ``previous_...`` names what stood there before.
    - ``changed``: valid, with a text whose normalised form is another. ``spans`` say where.
    - ``reformatted``: valid, with another text of the same normalised form.
    - ``unchanged``: the same body. ``reason`` is ``not_modified`` for a 304, ``fresh`` where the fetch was
      skipped because the last one is fresh, ``same_payload`` where another extractor read the same bytes,
      ``residual_differs`` where prose beside the main text changed, else null.
    - ``moved``: the URL redirects to another key, ``moved_to``.
    - ``gone``: answered with 404 or 410, also at the end of a redirect.
    - ``unknown``: everything else is no news of the text. ``reason`` is ``not_visited``, the kind of failure
      (``timeout``, ``http_503``), the validity (``login``), the reason of a skip, or ``other_extractor`` and
      ``other_conditions``, under which texts cannot be compared. A key that is absent is never gone.

    ``observation_id``, ``body_id`` and ``at`` (time of the observation) are null where nothing was seen.
    ``detail`` says more about ``reason`` in words. ``spans_cut`` is true when there are more or longer spans.
    """

    schema: ClassVar[str] = "scrapy-dedup/change/1"

    kind: ChangeKind
    url_key: str
    url: str
    job_id: str
    observation_id: str | None
    previous_observation_id: str | None
    body_id: str | None
    previous_body_id: str | None
    at: str | None
    previous_at: str | None
    http_status: int | None
    reason: str | None
    detail: str | None
    moved_to: str | None
    spans: tuple[Span, ...] = ()
    spans_cut: bool = False


@dataclass(frozen=True, slots=True)
class PairRecord:
    """Two texts of a corpus that are similar.

    ``verdict`` is one of `scrapy_dedup.near.claims.Verdict`, or ``equal`` for texts that differ in white
    space, case and composition alone; None where claims were not compared. ``spans`` counts the places where
    the two differ, up to `scrapy_dedup.near.claims.MAX_SPANS`, ``claim_spans`` those that change a claim.
    """

    schema: ClassVar[str] = "scrapy-dedup/pair/1"

    a: str
    b: str
    jaccard: float
    containment_a: float
    containment_b: float
    verdict: str | None
    spans: int | None
    claim_spans: int | None


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A text that stands behind the leader of its group.

    ``jaccard`` and ``verdict`` are those of its pair with the leader, or of the text that it equals:
    ``copy_of``.
    """

    id: str
    jaccard: float
    verdict: str | None
    copy_of: str | None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A text and those that it can stand for: each member has a pair with the leader."""

    schema: ClassVar[str] = "scrapy-dedup/group/1"

    leader: str
    size: int
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """A page that shows a chunk now.

    ``url`` is the one to cite, that of the document where a canonical was confirmed; ``observation_id`` the
    latest valid observation of ``url_key``; ``start_char`` and ``end_char`` the place in the text of
    ``body_id``; ``title`` that of the page. Where ``similar`` is true the page shows another text, which this
    one stands for: the same in other spelling or layout, an edited copy that was suppressed, or what somebody
    decided to be the same. Such pages come last.
    """

    url: str
    url_key: str
    observation_id: str
    body_id: str
    chunk_id: str
    start_char: int
    end_char: int
    title: str | None
    similar: bool


@dataclass(frozen=True, slots=True)
class ChunkNear:
    """Another chunk whose text is similar: its ``id``, and what reading the two side by side has shown.

    ``containment`` is the share of this chunk's shingles that the other one has.
    """

    id: str
    verdict: str
    jaccard: float
    containment: float


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """A piece of text as it is embedded, once however many pages show it.

    ``id`` and ``uuid`` identify it in an index: they follow from ``embed_text`` alone, so they stay when the
    page that it was first cut from goes. ``embed_key`` follows from ``embed_text`` and the model: equal keys,
    equal vectors. ``chunk_id``, ``body_id``, ``ordinal``, ``start_char`` and ``end_char`` (code points,
    end-exclusive) say where the first of ``sources`` has it; ``body.text[start_char:end_char] == text``.
    ``shared`` is true for text that the host repeats across its pages. ``group`` is the ``id`` of the chunk
    that it can stand behind, else its own; None where chunks were not compared.
    """

    schema: ClassVar[str] = "scrapy-dedup/chunk/1"

    id: str
    uuid: str
    chunk_id: str
    corpus: str
    body_id: str
    ordinal: int
    start_char: int
    end_char: int
    headings: tuple[str, ...]
    text: str
    embed_text: str
    text_digest: str
    normalized_digest: str
    simhash: str
    simhash_scheme: str
    language: str | None
    chunk_policy: str
    embed_key: str
    shared: bool
    group: str | None
    near: tuple[ChunkNear, ...]
    sources: tuple[ChunkSource, ...]


class PlanOp(str, enum.Enum):
    """What is to be done in an index."""

    UPSERT = "upsert"
    KEEP = "keep"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """What is to be done with one entry of an index, so that it holds what the pages hold now.

    ``text``, ``embed_text`` and ``metadata`` (str, int, float and bool values only) are those of an upsert
    and None for keep and delete. ``reuse_embedding`` is true where a vector of this ``embed_key`` was made
    before. ``because`` tells why: of an upsert ``new``, ``returned``, ``model_changed`` or
    ``sources_changed``; of a delete what became of the pages that showed it.
    """

    schema: ClassVar[str] = "scrapy-dedup/plan/1"

    plan_id: str
    op: PlanOp
    id: str
    uuid: str
    embed_key: str
    reuse_embedding: bool
    text: str | None
    embed_text: str | None
    metadata: Mapping[str, str | int | float | bool] | None
    sources: tuple[ChunkSource, ...]
    because: tuple[Reason, ...]


def to_dict(record: Any) -> dict[str, Any]:
    """Return the JSON-ready form of a record: ``schema`` first, then its fields in declared order.

    Args:
        record: an instance of one of the record classes of this module.

    Returns:
        A dict of str, int, bool, None, list and dict values only.
    """
    plain: dict[str, Any] = {"schema": record.schema}
    for item in dataclasses.fields(record):
        plain[item.name] = _plain(getattr(record, item.name))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value
