"""Finding the short texts that a host shows under unrelated URLs, as they come in again.

Only a short text that was seen before is looked at, until it was found once; new texts cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, relations, schema, templates
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.records import BodyRecord, RelationKind, RelationRecord

_seen = schema.observation.c
_KEYS_OF_BODY = ListQuery(
    sa.select(_seen.url_key)
    .where(_seen.body.in_(SOUGHT), _seen.space.is_not(None))
    .order_by(_seen.ordinal.desc())
    .limit(templates.MAX_COUNTED)
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A short text that was shown again: the body and its ordinal, the host, and when that was."""

    body: BodyRecord
    ordinal: int
    host: str
    at: str


def new_templates(connection: sa.Connection, shown: Sequence[Shown], *, job_id: str) -> list[RelationRecord]:
    """Return the relations that put texts under quarantine and are not stored yet.

    Args:
        connection: the observations of ``shown`` stand in it already.
        shown: of one batch.
        job_id: the job that found them.
    """
    latest = {(one.body.body_id, one.host): one for one in shown}
    bodies = {body_id for body_id, _ in latest}
    for known in relations.with_side(connection, RelationKind.SHARED_TEMPLATE, a=bodies):
        latest.pop((known.a, known.b), None)
    counted = [(one, _unrelated_paths(connection, one)) for one in latest.values()]
    return [
        templates.template(one.body, one.host, urls=urls, job_id=job_id, created_at=one.at)
        for one, urls in counted
        if urls >= templates.MIN_UNRELATED_PATHS
    ]


def _unrelated_paths(connection: sa.Connection, shown: Shown) -> int:
    found = _KEYS_OF_BODY.rows(connection, [shown.ordinal])
    keys = (codec.unescape(row["url_key"]) for row in found)
    return templates.unrelated_paths(key for key in keys if templates.host_of(key) == shown.host)
