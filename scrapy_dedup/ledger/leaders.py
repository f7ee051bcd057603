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
from scrapy_dedup.records import Action, Outcome

_t = schema
_body, _seen = _t.body.c, _t.observation.c
_own, _any = _t.observation.alias("own"), _t.observation.alias("any_of_body")
_own_job, _later_job = _t.job.alias("own_job"), _t.job.alias("later_job")
LATER = _t.observation.alias("later")
"""What was seen of a page after its text was."""


def ended_by(
    own: sa.FromClause, own_job: sa.FromClause, *others: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Return the condition that a page that showed a text showed another one later, or was gone.

    Args:
        own: observations of the text.
        own_job: the job of each of them.
        others: further conditions on `LATER`, each of which ends a text too.
    """
    return (
        sa.exists()
        .select_from(LATER.join(_later_job, _later_job.c.ordinal == LATER.c.job))
        .where(
            LATER.c.url_key_digest == own.c.url_key_digest,
            LATER.c.ordinal > own.c.ordinal,
            _later_job.c.corpus == own_job.c.corpus,
            sa.or_(
                sa.and_(LATER.c.space == own.c.space, LATER.c.body != own.c.body),
                LATER.c.outcome == Outcome.GONE.value,
                *others,
            ),
        )
    )


# A page without evidence, such as a login wall, also ends what stands for others: nobody can read it there.
_ENDED = ended_by(_own, _own_job, sa.and_(LATER.c.outcome == Outcome.FETCHED.value, LATER.c.body.is_(None)))
_SHOWN = ListQuery(
    sa.select(_body.ordinal).where(
        _body.ordinal.in_(SOUGHT),
        sa.exists()
        .select_from(_own.join(_own_job, _own_job.c.ordinal == _own.c.job))
        .where(_own.c.body == _body.ordinal, _own.c.space.is_not(None), ~_ENDED),
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
