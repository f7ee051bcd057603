"""Records as rows and rows as records. Pure; what goes in and comes back is equal where JSON can say it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from scrapy_dedup.ledger import codec
from scrapy_dedup.ledger.decide import Decision
from scrapy_dedup.records import (
    Action,
    AliasRecord,
    BodyRecord,
    Conditions,
    DecisionAction,
    DecisionRecord,
    JobRecord,
    ObservationRecord,
    Outcome,
    Reason,
    Recovery,
    RelationKind,
    RelationRecord,
    RelationState,
    Sourced,
    Text,
    Validity,
)

Row = Mapping[Any, Any]

SOURCED_FIELDS = (
    "title",
    "byline",
    "publisher",
    "site_name",
    "language_declared",
    "license",
    "date_published",
    "date_modified",
)
_STRINGS = ("request_id", "request_url", "fetch_url", "url", "url_key", "policy_id")
_OPTIONAL_STRINGS = (
    "access",
    "document_url",
    "referrer_url",
    "content_type",
    "etag",
    "last_modified",
    "validity_reason",
    "license_spdx",
    "independence",
    "event_id",
)
_PLAIN = ("seq", "from_cache", "gateway_status", "depth", "http_status", "payload_bytes", "reason")
_INTEGERS = {
    "seq": codec.MAX_INT64,
    "gateway_status": codec.MAX_INT32,
    "depth": codec.MAX_INT32,
    "http_status": codec.MAX_INT32,
    "payload_bytes": codec.MAX_INT64,
}
"""The largest value that the column holds on every engine."""

_CONDITION_FIELDS = ("method", "cookie_partition", "language", "renderer")


def job_row(record: JobRecord) -> dict[str, Any]:
    """Return the columns of a job that its record knows."""
    return {
        "job_id": codec.escape(record.job_id),
        "spider": codec.escape(record.spider),
        "corpus": codec.escape(record.corpus),
        "settings_digest": codec.escape(record.settings_digest),
        "policy": codec.escape(record.policy),
        "extractor": codec.escape(record.extractor),
        "source_digest": codec.escape_optional(record.source_digest),
        "started_us": codec.to_micros(record.started_at),
        "finished_us": None if record.finished_at is None else codec.to_micros(record.finished_at),
        "outcome": codec.escape_optional(record.outcome),
    }


def job_record(row: Row) -> JobRecord:
    """Return the record of a job row."""
    return JobRecord(
        job_id=codec.unescape(row["job_id"]),
        spider=codec.unescape(row["spider"]),
        corpus=codec.unescape(row["corpus"]),
        settings_digest=codec.unescape(row["settings_digest"]),
        policy=codec.unescape(row["policy"]),
        extractor=codec.unescape(row["extractor"]),
        source_digest=codec.unescape_optional(row["source_digest"]),
        started_at=codec.from_micros(row["started_us"]),
        finished_at=None if row["finished_us"] is None else codec.from_micros(row["finished_us"]),
        outcome=codec.unescape_optional(row["outcome"]),
    )


def sighting_columns(record: ObservationRecord) -> dict[str, Any]:
    """Return the columns of an observation that the crawl knows, before anything is decided.

    Raises:
        RecordError: a time, digest or number has not the form that records ask for.
    """
    row: dict[str, Any] = {
        name: codec.pack_int(getattr(record, name), largest) for name, largest in _INTEGERS.items()
    }
    row["from_cache"] = bool(record.from_cache)
    row.update({name: codec.escape(getattr(record, name)) for name in _STRINGS})
    row.update({name: codec.escape_optional(getattr(record, name)) for name in _OPTIONAL_STRINGS})
    row["url_key_digest"] = codec.url_digest(record.url_key)
    row["fetched_us"] = codec.to_micros(record.fetched_at)
    row["conditions"] = _packed_conditions(record.conditions)
    row["redirect_urls"] = codec.pack_json(list(record.redirect_urls))
    row["payload_digest"] = _packed(record.payload_digest)
    row["outcome"] = record.outcome.value
    row["validity"] = None if record.validity is None else record.validity.value
    row["recovery"] = None if record.recovery is None else record.recovery.value
    row["canonical"] = None if record.canonical is None else codec.pack_json(codec.bounded(record.canonical))
    # Beside its place among the stated values: what has several publishers is found by this column.
    publisher = None if record.publisher is None else record.publisher.value[: codec.MAX_SOURCED_CHARS]
    row["publisher"] = codec.escape_optional(publisher)
    row["sourced"] = codec.pack_json(_packed_sourced(record))
    row["extra"] = codec.pack_json(codec.bounded(record.extra))
    return row


def decision_columns(decision: Decision, text: Text | None) -> dict[str, Any]:
    """Return the columns of an observation that the ledger decides, less its space and body."""
    related = decision.related_observation_id
    columns: dict[str, Any] = {
        "action": decision.action.value,
        "reason": decision.reason,
        "related_observation": None if related is None else codec.pack_id(related),
        "residual_digest": _packed(text.residual_digest) if text and decision.body else None,
    }
    if decision.note is not None:
        columns["validity_reason"] = decision.note
    return columns


def observation_record(row: Row, job_id: str, spider: str, body_id: str | None) -> ObservationRecord:
    """Return the record of an observation row; job, spider and body come from the rows that it points to."""
    related = row["related_observation"]
    return ObservationRecord(
        observation_id=codec.observation_id(job_id, row["seq"]),
        job_id=job_id,
        spider=spider,
        fetched_at=codec.from_micros(row["fetched_us"]),
        conditions=unpacked_conditions(row["conditions"]),
        redirect_urls=tuple(codec.unpack_json(row["redirect_urls"])),
        payload_digest=_unpacked(row["payload_digest"]),
        outcome=Outcome(row["outcome"]),
        validity=None if row["validity"] is None else Validity(row["validity"]),
        recovery=None if row["recovery"] is None else Recovery(row["recovery"]),
        canonical=None if row["canonical"] is None else codec.unpack_json(row["canonical"]),
        body_id=body_id,
        action=Action(row["action"]),
        related_observation_id=None if related is None else codec.unpack_observation_id(related),
        residual_digest=_unpacked(row["residual_digest"]),
        extra=codec.unpack_json(row["extra"]),
        **_plain_fields(row),
    )


def _plain_fields(row: Row) -> dict[str, Any]:
    fields = {name: row[name] for name in _PLAIN}
    fields.update({name: codec.unescape(row[name]) for name in _STRINGS})
    fields.update({name: codec.unescape_optional(row[name]) for name in _OPTIONAL_STRINGS})
    if fields["document_url"] is None and row["validity"] == "valid":
        fields["document_url"] = fields["url"]  # until a canonical is confirmed
    if fields["document_url"] is None and row["validity"] == Validity.VALID.value:
        fields["document_url"] = fields["url"]  # a page is its own document until a canonical is confirmed
    sourced: dict[str, list[str]] = codec.unpack_json(row["sourced"])
    fields.update({name: Sourced(*stated) for name, stated in sourced.items()})
    return fields


def body_row(record: BodyRecord, residual_digest: str | None) -> dict[str, Any]:
    """Return the columns of a body, less its ordinal, job, space and variant.

    Raises:
        RecordError: a digest or fingerprint has not its form, or the text is malformed.
    """
    return {
        "body_id": codec.pack_id(record.body_id),
        "text_digest": codec.pack_digest(record.text_digest),
        "normalized_digest": codec.pack_digest(record.normalized_digest),
        "visible_digest": _packed(record.visible_digest),
        "residual_digest": _packed(residual_digest),
        "first_observation": codec.pack_id(record.first_observation_id),
        "language": codec.escape_optional(record.language),
        "char_count": record.char_count,
        "word_count": record.word_count,
        "simhash": codec.pack_simhash(record.simhash),
        "simhash_scheme": codec.escape(record.simhash_scheme),
        "codec": codec.CODEC_ZLIB,
        "data": codec.pack_text(record.text),
    }


def body_record(row: Row) -> BodyRecord:
    """Return the record of a body row that was joined with its space."""
    return BodyRecord(
        body_id=codec.unpack_body_id(row["body_id"]),
        corpus=codec.unescape(row["corpus"]),
        text_digest=codec.unpack_digest(row["text_digest"]),
        normalized_digest=codec.unpack_digest(row["normalized_digest"]),
        visible_digest=_unpacked(row["visible_digest"]),
        representation=codec.unescape(row["representation"]),
        extractor_id=codec.unescape(row["extractor_id"]),
        text=codec.unpack_text(row["codec"], row["data"]),
        language=codec.unescape_optional(row["language"]),
        char_count=row["char_count"],
        word_count=row["word_count"],
        simhash=codec.unpack_simhash(row["simhash"]),
        simhash_scheme=codec.unescape(row["simhash_scheme"]),
        first_observation_id=codec.unpack_observation_id(row["first_observation"]),
    )


def alias_row(record: AliasRecord, url_key_digest: bytes, raw_url_digest: bytes) -> dict[str, Any]:
    """Return the columns of an alias, less its ordinal and job."""
    return {
        "url_key_digest": url_key_digest,
        "raw_url_digest": raw_url_digest,
        "rule": codec.escape(record.rule),
        "count": record.count,
        "verdict": codec.escape(record.verdict),
        "depth": record.depth,
        "raw_url": codec.escape(record.raw_url),
        "fetch_url": codec.escape(record.fetch_url),
        "url_key": codec.escape(record.url_key),
        "referrer_url": codec.escape_optional(record.referrer_url),
    }


def alias_record(row: Row, job_id: str) -> AliasRecord:
    """Return the record of an alias row."""
    return AliasRecord(
        job_id=job_id,
        raw_url=codec.unescape(row["raw_url"]),
        fetch_url=codec.unescape(row["fetch_url"]),
        url_key=codec.unescape(row["url_key"]),
        verdict=codec.unescape(row["verdict"]),
        rule=codec.unescape(row["rule"]),
        referrer_url=codec.unescape_optional(row["referrer_url"]),
        depth=row["depth"],
        count=row["count"],
    )


def relation_row(record: RelationRecord) -> dict[str, Any]:
    """Return the columns of a relation, less its ordinal and job."""
    return {
        "relation_id": codec.pack_id(record.relation_id),
        "kind": record.kind.value,
        "corpus": codec.escape(record.corpus),
        "a_place": codec.url_digest(record.a),
        "b_place": codec.url_digest(record.b),
        "a": codec.escape(record.a),
        "b": codec.escape(record.b),
        "a_digest": record.a_digest,
        "b_digest": record.b_digest,
        "state": record.state.value,
        "measures": codec.pack_json(codec.jsonable(record.measures)),
        "reasons": codec.pack_json([[item.code, item.value, item.threshold] for item in record.reasons]),
        "policy": codec.escape(record.policy),
        "created_us": codec.to_micros(record.created_at),
    }


def relation_record(row: Row, job_id: str | None) -> RelationRecord:
    """Return the record of a relation row."""
    return RelationRecord(
        relation_id=codec.unpack_relation_id(row["relation_id"]),
        kind=RelationKind(row["kind"]),
        corpus=codec.unescape(row["corpus"]),
        a=codec.unescape(row["a"]),
        b=codec.unescape(row["b"]),
        a_digest=row["a_digest"],
        b_digest=row["b_digest"],
        state=RelationState(row["state"]),
        measures=codec.unpack_json(row["measures"]),
        reasons=tuple(Reason(*stated) for stated in codec.unpack_json(row["reasons"])),
        policy=codec.unescape(row["policy"]),
        job_id=job_id,
        created_at=codec.from_micros(row["created_us"]),
    )


def decision_row(record: DecisionRecord) -> dict[str, Any]:
    """Return the columns of a decision, less its ordinal."""
    return {
        "decision_id": codec.pack_id(record.decision_id),
        "relation_id": codec.pack_id(record.relation_id),
        "action": record.action.value,
        "supersedes": None if record.supersedes is None else codec.pack_id(record.supersedes),
        "decided_by": codec.escape(record.by),
        "decided_us": codec.to_micros(record.at),
        "note": codec.escape_optional(record.note),
    }


def decision_record(row: Row, relation: RelationRecord) -> DecisionRecord:
    """Return the record of a decision row about a relation."""
    superseded = row["supersedes"]
    return DecisionRecord(
        decision_id=codec.unpack_decision_id(row["decision_id"]),
        relation_id=codec.unpack_relation_id(row["relation_id"]),
        action=DecisionAction(row["action"]),
        supersedes=None if superseded is None else codec.unpack_decision_id(superseded),
        by=codec.unescape(row["decided_by"]),
        at=codec.from_micros(row["decided_us"]),
        note=codec.unescape_optional(row["note"]),
        digests_seen=(relation.a_digest, relation.b_digest),
    )


def _packed(digest: str | None) -> bytes | None:
    return None if digest is None else codec.pack_digest(digest)


def _unpacked(packed: bytes | None) -> str | None:
    return None if packed is None else codec.unpack_digest(packed)


@functools.lru_cache(maxsize=256)
def _packed_conditions(conditions: Conditions) -> str:
    stated = {name: getattr(conditions, name) for name in _CONDITION_FIELDS}
    return codec.pack_json({name: value for name, value in stated.items() if value is not None})


@functools.lru_cache(maxsize=256)
def unpacked_conditions(stored: str) -> Conditions:
    """Return the conditions of an observation row; most rows of a ledger have the same."""
    return Conditions(**codec.unpack_json(stored))


def _packed_sourced(record: ObservationRecord) -> dict[str, list[str]]:
    packed: dict[str, list[str]] = {}
    for name in SOURCED_FIELDS:
        stated: Sourced | None = getattr(record, name)
        if stated is not None:
            packed[name] = [stated.value[: codec.MAX_SOURCED_CHARS], stated.source[: codec.MAX_SOURCED_CHARS]]
    return packed
