"""Relations: what is known of how two things relate, and the identities by which it is decided about.

Most relations follow from an observation or an alias and are not stored a second time; `of_observation` and
`of_alias` say which. Their identity depends on nothing but what stands in those rows, so a decision finds
them again in every later run for as long as the content of both sides stays what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, rows, schema
from scrapy_dedup.ledger.statement import SOUGHT, Change, ListQuery
from scrapy_dedup.records import RelationKind, RelationRecord

_t = schema
_INSERT = Change(sa.insert(_t.relation).inline())
_LAST_ORDINAL = sa.select(sa.func.max(_t.relation.c.ordinal))
_RELATIONS = sa.select(*_t.relation.c, _t.job.c.job_id).select_from(
    _t.relation.outerjoin(_t.job, _t.job.c.ordinal == _t.relation.c.job)
)
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
    return [rows.relation_record(row, codec.unescape_optional(row["job_id"])) for row in ordered.values()]
