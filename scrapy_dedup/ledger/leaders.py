"""Whether a text can stand for similar ones: it is kept itself, and some page still shows it.

What stands for others and is then rejected, put under quarantine, replaced or gone would take them along.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from scrapy_dedup.ledger import schema
from scrapy_dedup.ledger.derived import NEAR_DUPLICATE
from scrapy_dedup.ledger.overlay import OBSERVATION_COLUMNS, OBSERVATION_JOIN, Overlay
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.records import Action

_t = schema
_body, _seen = _t.body.c, _t.observation.c
_own, _later, _any = (_t.observation.alias(name) for name in ("own", "later", "any_of_body"))
_own_job, _later_job = _t.job.alias("own_job"), _t.job.alias("later_job")

_REPLACED = (
    sa.exists()
    .select_from(_later.join(_later_job, _later_job.c.ordinal == _later.c.job))
    .where(
        _later.c.url_key_digest == _own.c.url_key_digest,
        _later.c.ordinal > _own.c.ordinal,
        _later_job.c.corpus == _own_job.c.corpus,
        sa.or_(
            sa.and_(_later.c.space == _own.c.space, _later.c.body != _own.c.body),
            _later.c.outcome == "gone",
            sa.and_(_later.c.outcome == "fetched", _later.c.body.is_(None)),  # a page without evidence
        ),
    )
)
_SHOWN = ListQuery(
    sa.select(_body.ordinal).where(
        _body.ordinal.in_(SOUGHT),
        sa.exists()
        .select_from(_own.join(_own_job, _own_job.c.ordinal == _own.c.job))
        .where(_own.c.body == _body.ordinal, _own.c.space.is_not(None), ~_REPLACED),
    )
)
_FIRST = ListQuery(
    sa.select(*OBSERVATION_COLUMNS)
    .select_from(OBSERVATION_JOIN)
    .where(
        _seen.ordinal.in_(
            sa.select(sa.func.min(_own.c.ordinal)).where(_own.c.body.in_(SOUGHT)).group_by(_own.c.body)
        )
    )
)
_NEVER_KEPT = ListQuery(
    sa.select(_body.ordinal, _body.leader).where(
        _body.ordinal.in_(SOUGHT),
        _body.leader.is_not(None),
        sa.exists().where(_own.c.body == _body.ordinal, _own.c.reason == NEAR_DUPLICATE),
        ~sa.exists().where(_any.c.body == _body.ordinal, _any.c.action == Action.KEEP.value),
    )
)


def standing(connection: sa.Connection, overlay: Overlay, bodies: Collection[int]) -> set[int]:
    """Return which of some texts can stand for others.

    Args:
        connection: of the ledger.
        overlay: what is known of its observations by now.
        bodies: ordinals.
    """
    shown = {int(row["ordinal"]) for row in _SHOWN.rows(connection, bodies)}
    first = _FIRST.rows(connection, shown)
    return {
        int(row["body"])
        for row, record in zip(first, overlay.observations(first), strict=True)
        if record.action is Action.KEEP
    }


def left_alone(connection: sa.Connection, overlay: Overlay, bodies: Collection[int]) -> set[int]:
    """Return which of some texts were suppressed only for one that cannot stand for them any more."""
    leader_of = {int(row["ordinal"]): int(row["leader"]) for row in _NEVER_KEPT.rows(connection, bodies)}
    stand = standing(connection, overlay, {*leader_of.values()})
    return {body for body, leader in leader_of.items() if leader not in stand}
