"""Observations as they are read: the stored rows, with everything laid over them that was learnt since.

A stored observation never changes. What somebody decided, that its text turned out to be a template of its
host, and which event it is said to report stand in other tables, and are looked up for many rows at once.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa

from scrapy_dedup.ledger import canonicals, codec, decisions, relations, rows, schema
from scrapy_dedup.ledger.claims import claimed
from scrapy_dedup.ledger.decisions import Decisions, ruled, ruled_near, ruled_relation
from scrapy_dedup.ledger.near_relations import leader_of
from scrapy_dedup.ledger.publishers import UNRESOLVED, Publishers
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.ledger.templates import MAX_TEMPLATE_WORDS, host_of
from scrapy_dedup.records import ObservationRecord, RelationKind, RelationRecord, RelationState

_t = schema

OBSERVATION_COLUMNS = (
    *_t.observation.c,
    _t.job.c.job_id,
    _t.job.c.spider,
    _t.job.c.corpus,
    _t.body.c.body_id,
    _t.body.c.text_digest,
    _t.body.c.normalized_digest,
    _t.body.c.word_count,
)
OBSERVATION_JOIN = _t.observation.join(_t.job, _t.job.c.ordinal == _t.observation.c.job).outerjoin(
    _t.body, _t.body.c.ordinal == _t.observation.c.body
)
"""What an observation is read with: its job and its body."""

_FIRST_OBSERVATIONS = ListQuery(
    sa.select(_t.body.c.body_id, _t.body.c.first_observation).where(_t.body.c.body_id.in_(SOUGHT))
)

Templates = Mapping[tuple[str | None, str], RelationRecord]
"""By body and host: the relation that puts the one under quarantine on the other."""


class Overlay:
    """What lies over the observations of one state of the ledger.

    Args:
        connection: it is read in the transaction that is open on it.
        held: all decisions, where the caller knows them; else they are read when they are first needed.
    """

    def __init__(self, connection: sa.Connection, held: Decisions | None = None) -> None:
        self._connection = connection
        self._held = held
        self._publishers = Publishers(connection)

    @functools.cached_property
    def decisions(self) -> Decisions:
        """All decisions."""
        return decisions.load(self._connection) if self._held is None else self._held

    def observations(self, found: Sequence[rows.Row]) -> list[ObservationRecord]:
        """Return the records of rows that were joined with their job and body."""
        records = self._with_independence(found, self.new_observations(found, _short_bodies(found)))
        return self._with_events(records) if self._holds_events else records

    def new_observations(
        self, found: Sequence[rows.Row], seen_before: Collection[str]
    ) -> list[ObservationRecord]:
        """Return the records of rows that nobody can have said anything about yet.

        Args:
            found: as for `observations`.
            seen_before: the bodies among theirs that may be templates; one that is new is none.
        """
        records = list(map(stored_observation, found))
        templates = self.templates(seen_before)
        if templates or self.decisions:
            records = [
                ruled(
                    record,
                    self.decisions,
                    corpus=codec.unescape(row["corpus"]),
                    text_digest=text_digest_of(row),
                    template=templates.get((record.body_id, host_of(record.url_key))),
                )
                for row, record in zip(found, records, strict=True)
            ]
            records = self._with_near(records)
        return self._with_canonicals(found, records)

    def _with_near(self, records: list[ObservationRecord]) -> list[ObservationRecord]:
        """Apply what was decided about similar texts."""
        leaders = {
            leader_of(relation)
            for record in records
            for relation, _ in self.decisions.about_text(record.body_id)
        }
        if not leaders:
            return records
        rows_of_leaders = _FIRST_OBSERVATIONS.rows(self._connection, map(codec.pack_id, leaders))
        first_observations = {
            codec.unpack_body_id(row["body_id"]): codec.unpack_observation_id(row["first_observation"])
            for row in rows_of_leaders
        }
        return [ruled_near(record, self.decisions, first_observations) for record in records]

    def _with_canonicals(
        self, found: Sequence[rows.Row], records: list[ObservationRecord]
    ) -> list[ObservationRecord]:
        """State what is known of each page's claim, and the URL that it is to be cited under."""
        claims = list(map(_claim_of, found, records))
        held = canonicals.of_claims(self._connection, {claim for claim in claims if claim})
        if not held:
            return records
        return [
            self._with_canonical(record, held[claim]) if claim in held else record
            for record, claim in zip(records, claims, strict=True)
        ]

    def _with_canonical(self, record: ObservationRecord, relation: RelationRecord) -> ObservationRecord:
        decision = self.decisions.in_force(relation.relation_id)
        stated = canonicals.with_canonical(record, ruled_relation(relation, decision))
        if decision is None or record.decision_id is not None:
            return stated
        return replace(stated, decision_id=decision.decision_id)

    def _with_independence(
        self, found: Sequence[rows.Row], records: list[ObservationRecord]
    ) -> list[ObservationRecord]:
        """Say of texts that several publishers show that their independence is unresolved."""
        several = self._publishers.several(row["body"] for row in found if row["body"] is not None)
        if not several:
            return records
        return [
            replace(record, independence=UNRESOLVED) if row["body"] in several else record
            for row, record in zip(found, records, strict=True)
        ]

    def templates(self, body_ids: Iterable[str | None]) -> Templates:
        """Return which of some bodies were found to be templates of which hosts."""
        held = relations.with_side(self._connection, RelationKind.SHARED_TEMPLATE, a=filter(None, body_ids))
        return {(relation.a, relation.b): relation for relation in held}

    def is_quarantined(self, record: ObservationRecord, held: Templates) -> bool:
        """Tell whether the body of an observation is a template of its host, and nobody said otherwise."""
        template = held.get((record.body_id, host_of(record.url_key))) if held else None
        if template is None:
            return False
        decision = self.decisions.in_force(template.relation_id)
        return ruled_relation(template, decision).state is RelationState.CONFIRMED

    @functools.cached_property
    def _holds_events(self) -> bool:
        """Whether anybody has said of any observation what event it reports; mostly nobody has."""
        claims = sa.exists().where(_t.relation.c.kind == RelationKind.EVENT.value)
        return bool(self._connection.execute(sa.select(claims)).scalar())

    def _with_events(self, records: list[ObservationRecord]) -> list[ObservationRecord]:
        """Name the event of each observation about which all who said something say the same."""
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


def _short_bodies(found: Sequence[rows.Row]) -> set[str]:
    return {
        codec.unpack_body_id(row["body_id"])
        for row in found
        if row["body_id"] is not None and row["word_count"] <= MAX_TEMPLATE_WORDS
    }


def _claim_of(row: rows.Row, record: ObservationRecord) -> canonicals.ClaimKey | None:
    claim = claimed(record.canonical)
    if claim is None or row["normalized_digest"] is None:
        return None
    digest = codec.unpack_digest(row["normalized_digest"])
    return codec.unescape(row["corpus"]), record.url_key, claim[1], digest


def stored_observation(row: rows.Row) -> ObservationRecord:
    """Return the record of a row that was joined with its job and body, as it was stored."""
    body_id = None if row["body_id"] is None else codec.unpack_body_id(row["body_id"])
    return rows.observation_record(row, codec.unescape(row["job_id"]), codec.unescape(row["spider"]), body_id)


def text_digest_of(row: rows.Row) -> str | None:
    """Return the text digest of the body of such a row."""
    return None if row["text_digest"] is None else codec.unpack_digest(row["text_digest"])
