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
    that was requested for it. ``url_key`` is the identity of ``url`` under ``policy_id``.
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
    date_published: Sourced | None = None
    date_modified: Sourced | None = None
    independence: str | None = None
    event_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


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
