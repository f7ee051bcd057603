"""Observations as they are read: the stored rows, with everything laid over them that was learnt since.

A stored observation never changes. What somebody decided, that its text turned out to be a template of its
host, and which event it is said to report stand in other tables, and are looked up for many rows at once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, decisions, relations, rows, schema
from scrapy_dedup.ledger.decisions import Decisions, ruled, ruled_relation
from scrapy_dedup.ledger.templates import MAX_TEMPLATE_WORDS, host_of
from scrapy_dedup.records import ObservationRecord, RelationKind, RelationRecord, RelationState

_t = schema


class Overlay:
    """What lies over the observations of one state of the ledger; loaded when it is first asked for."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    @functools.cached_property
    def decisions(self) -> Decisions:
        """All decisions."""
        return decisions.load(self._connection)

    def observations(self, found: Sequence[rows.Row]) -> list[ObservationRecord]:
        """Return the records of rows that were joined with their job and body."""
        templates = self._templates(found)
        records = [
            ruled(
                record,
                self.decisions,
                corpus=codec.unescape(row["corpus"]),
                text_digest=text_digest_of(row),
                template=templates.get((record.body_id, host_of(record.url_key))) if templates else None,
            )
            for row, record in zip(found, map(stored_observation, found), strict=True)
        ]
        return self._with_events(records)

    @functools.cached_property
    def _kinds(self) -> frozenset[RelationKind]:
        """Which of the kinds that lie over observations the ledger holds at all; most hold few."""
        held = (
            sa.select(sa.exists().where(_t.relation.c.kind == kind.value))
            for kind in (RelationKind.SHARED_TEMPLATE, RelationKind.EVENT)
        )
        return frozenset(
            kind
            for kind, query in zip((RelationKind.SHARED_TEMPLATE, RelationKind.EVENT), held, strict=True)
            if self._connection.execute(query).scalar()
        )

    def _templates(self, found: Sequence[rows.Row]) -> dict[tuple[str | None, str], RelationRecord]:
        if RelationKind.SHARED_TEMPLATE not in self._kinds:
            return {}
        short = {
            codec.unpack_body_id(row["body_id"])
            for row in found
            if row["body_id"] is not None and row["word_count"] <= MAX_TEMPLATE_WORDS
        }
        held = relations.with_side(self._connection, RelationKind.SHARED_TEMPLATE, a=short)
        return {(relation.a, relation.b): relation for relation in held}

    def _with_events(self, records: list[ObservationRecord]) -> list[ObservationRecord]:
        """Name the event of each observation about which all who said something say the same."""
        if RelationKind.EVENT not in self._kinds:
            return records
        claimed: dict[str, set[str]] = {}
        identities = [record.observation_id for record in records]
        latest = {
            claim.relation_id: claim
            for claim in relations.with_side(self._connection, RelationKind.EVENT, a=identities)
        }
        for claim in latest.values():
            holds = ruled_relation(claim, self.decisions.in_force(claim.relation_id))
            if holds.state is not RelationState.REFUTED:
                claimed.setdefault(claim.a, set()).add(claim.b)
        return [
            replace(record, event_id=next(iter(events)))
            if len(events := claimed.get(record.observation_id, set())) == 1
            else record
            for record in records
        ]


def stored_observation(row: rows.Row) -> ObservationRecord:
    """Return the record of a row that was joined with its job and body, as it was stored."""
    body_id = None if row["body_id"] is None else codec.unpack_body_id(row["body_id"])
    return rows.observation_record(row, codec.unescape(row["job_id"]), codec.unescape(row["spider"]), body_id)


def text_digest_of(row: rows.Row) -> str | None:
    """Return the text digest of the body of such a row."""
    return None if row["text_digest"] is None else codec.unpack_digest(row["text_digest"])
