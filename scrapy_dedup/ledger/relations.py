"""Relations: what is known of how two things relate, and the identities by which it is decided about.

Most relations follow from an observation or an alias and are not stored a second time (see ``derived``), but
for those that somebody decided about. All others stand here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from scrapy_dedup.errors import LedgerUnavailable
from scrapy_dedup.ledger import codec, engine, rows, schema
from scrapy_dedup.ledger.derived import (
    CONTENT_INVALID,
    NEAR_DUPLICATE,
    TEXT_RELATIONS,
    of_alias,
    of_content,
    of_observation,
)
from scrapy_dedup.ledger.engine import Target, WriteSession, driver_message
from scrapy_dedup.ledger.statement import SOUGHT, Change, ListQuery
from scrapy_dedup.records import RelationKind, RelationRecord

__all__ = [
    "ALL",
    "identity",
    "insert",
    "of_alias",
    "of_content",
    "of_observation",
    "of_row",
    "record",
    "stating",
    "stored",
    "with_identity",
    "with_side",
    "writing",
]

_t = schema
_INSERT = Change(sa.insert(_t.relation).inline())
_LAST_ORDINAL = sa.select(sa.func.max(_t.relation.c.ordinal))
_RELATIONS = sa.select(*_t.relation.c, _t.job.c.job_id).select_from(
    _t.relation.outerjoin(_t.job, _t.job.c.ordinal == _t.relation.c.job)
)
ALL = _RELATIONS.order_by(_t.relation.c.ordinal)
"""The query for every row of every relation."""

_kind: sa.BindParameter[str] = sa.bindparam("kind", required=False)
_BY_A = ListQuery(
    _RELATIONS.where(_t.relation.c.a_place.in_(SOUGHT), _t.relation.c.kind == _kind).order_by(
        _t.relation.c.ordinal
    )
)
_BY_B = ListQuery(
    _RELATIONS.where(_t.relation.c.b_place.in_(SOUGHT), _t.relation.c.kind == _kind).order_by(
        _t.relation.c.ordinal
    )
)

_BY_IDENTITY = ListQuery(
    _RELATIONS.where(_t.relation.c.relation_id.in_(SOUGHT)).order_by(_t.relation.c.ordinal)
)

_REUSED_FOR_ITS_OWN_REASON = sa.and_(
    _t.observation.c.action == "reuse", _t.observation.c.reason.not_in([*TEXT_RELATIONS, NEAR_DUPLICATE])
)
_KEY = (_t.job.c.corpus, _t.observation.c.url_key_digest)
_PAIR = (*_KEY, _t.observation.c.related_observation, _t.observation.c.body)

_Stating = tuple[sa.ColumnElement[bool], tuple[sa.ColumnElement[Any], ...]]

# Of each kind, which observations state a relation, and what tells two such relations apart.
_STATING_OBSERVATIONS: Mapping[
    RelationKind, tuple[sa.ColumnElement[bool], tuple[sa.ColumnElement[Any], ...]]
] = {
    RelationKind.SAME_TEXT: (
        sa.or_(_t.observation.c.reason == "text_equal", _REUSED_FOR_ITS_OWN_REASON),
        _PAIR,
    ),
    RelationKind.SAME_NORMALIZED: (_t.observation.c.reason == "normalized_equal", _PAIR),
    RelationKind.REVISION: (_t.observation.c.reason == "revision", _PAIR),
    RelationKind.RESIDUAL_DIFFERS: (
        _t.observation.c.reason == "residual_differs",
        (*_KEY, _t.observation.c.related_observation, _t.observation.c.residual_digest),
    ),
    RelationKind.CONTENT_INVALID: (
        _t.observation.c.reason == CONTENT_INVALID,
        (
            *_KEY,
            _t.observation.c.validity,
            _t.observation.c.validity_reason,
            _t.observation.c.payload_digest,
        ),
    ),
    RelationKind.SKIPPED: (_t.observation.c.outcome == "skipped", (*_KEY, _t.observation.c.reason)),
}
_STATING_ALIASES: Mapping[RelationKind, _Stating] = {
    RelationKind.URL_MERGED: (
        _t.alias.c.verdict != "denied",
        (_t.job.c.corpus, _t.alias.c.raw_url_digest, _t.alias.c.url_key_digest),
    ),
    RelationKind.URL_DENIED: (
        _t.alias.c.verdict == "denied",
        (_t.job.c.corpus, _t.alias.c.raw_url_digest, _t.alias.c.rule),
    ),
}


def stored(kind: RelationKind | None = None, job_id: str | None = None) -> sa.Select[Any]:
    """Return the query for the stored relations, the latest row of each, in the order of commits.

    Args:
        kind: those of this kind only.
        job_id: those that this job found, also where another one has found more since.
    """
    found = _t.relation.c
    latest = sa.select(sa.func.max(found.ordinal)).group_by(found.relation_id)
    if kind is not None:
        latest = latest.where(found.kind == kind.value)
    if job_id is not None:
        job = sa.select(_t.job.c.ordinal).where(_t.job.c.job_id == codec.escape(job_id)).scalar_subquery()
        latest = latest.where(found.relation_id.in_(sa.select(found.relation_id).where(found.job == job)))
    return _RELATIONS.where(found.ordinal.in_(latest)).order_by(found.ordinal)


def stating(kind: RelationKind, job_id: str | None = None) -> tuple[sa.Table, sa.Select[Any]] | None:
    """Return where the relations of a kind follow from, and the query for the rows: the latest of each.

    Args:
        kind: of relations.
        job_id: the rows of this job only.

    Returns:
        The table of observations or that of aliases, with the query for ordinals; None for a kind that is
        always stored.
    """
    for table, kinds in ((_t.observation, _STATING_OBSERVATIONS), (_t.alias, _STATING_ALIASES)):
        if kind in kinds:
            states, apart = kinds[kind]
            query = (
                sa.select(sa.func.max(table.c.ordinal))
                .select_from(table.join(_t.job, _t.job.c.ordinal == table.c.job))
                .where(states)
                .group_by(*apart)
            )
            return table, query if job_id is None else query.where(_t.job.c.job_id == codec.escape(job_id))
    return None


def record(url: str, found: Sequence[RelationRecord]) -> None:
    """Append relations to a ledger, durably and all together; crawls may be writing to it.

    Args:
        url: the ledger, which must be there.
        found: in the order in which they are to stand.

    Raises:
        LedgerUnavailable: there is no ledger, or it cannot be written.
    """
    with writing(url) as connection:
        insert(connection, found, job=None)


@contextmanager
def writing(url: str) -> Iterator[sa.Connection]:
    """Give one transaction of a command that adds to a ledger: all of it is written, or on an error nothing.

    Raises:
        LedgerUnavailable: there is no ledger, or it cannot be written.
    """
    session = open_to_write(url)
    try:
        with session.transaction() as connection:
            yield connection
    except sa.exc.SQLAlchemyError as error:
        name, said = Target.parse(url).name, driver_message(error)
        raise LedgerUnavailable(f"The ledger {name} cannot be written ({said}), so nothing was.") from error
    finally:
        session.close()


def open_to_write(url: str) -> WriteSession:
    """Return a session of a command that adds to a ledger; the caller closes it.

    Raises:
        LedgerUnavailable: there is no ledger, or it cannot be written.
    """
    target = Target.parse(url)
    if engine.probe(target) is None:
        raise LedgerUnavailable(f"There is no ledger at {target.name}. Run a crawl first, or name another.")
    return WriteSession(target)


def insert(connection: sa.Connection, relations: Sequence[RelationRecord], *, job: int | None) -> None:
    """Append relations in the caller's transaction, which holds the writers' turn.

    Args:
        connection: inside that transaction.
        relations: in the order in which they are to stand.
        job: the ordinal of the job that found them, or None for a command.
    """
    if not relations:
        return
    last = connection.execute(_LAST_ORDINAL).scalar() or 0
    numbered = enumerate(relations, last + 1)
    _INSERT.run(
        connection,
        [{**rows.relation_row(relation), "ordinal": ordinal, "job": job} for ordinal, relation in numbered],
    )


def with_side(
    connection: sa.Connection, kind: RelationKind, *, a: Iterable[str] = (), b: Iterable[str] = ()
) -> list[RelationRecord]:
    """Return the stored relations of a kind that have one of these sides, the oldest first, all states."""
    found = [
        *_BY_A.rows(connection, {codec.url_digest(side) for side in a}, kind=kind.value),
        *_BY_B.rows(connection, {codec.url_digest(side) for side in b}, kind=kind.value),
    ]
    ordered = {row["ordinal"]: row for row in sorted(found, key=lambda row: int(row["ordinal"]))}
    return [of_row(row) for row in ordered.values()]


def with_identity(connection: sa.Connection, identities: Iterable[bytes]) -> dict[str, RelationRecord]:
    """Return the stored relations with these packed identities, each in its latest state."""
    found = _BY_IDENTITY.rows(connection, set(identities))
    latest = {bytes(row["relation_id"]): row for row in sorted(found, key=lambda row: int(row["ordinal"]))}
    return {relation.relation_id: relation for relation in map(of_row, latest.values())}


def identity(relation: RelationRecord) -> str:
    """Return the identity that a relation must have."""
    return codec.relation_id(
        relation.kind.value,
        relation.corpus,
        relation.a,
        relation.b,
        a_digest=relation.a_digest,
        b_digest=relation.b_digest,
    )


def of_row(row: rows.Row) -> RelationRecord:
    """Return the record of a row that was joined with its job."""
    return rows.relation_record(row, codec.unescape_optional(row["job_id"]))
