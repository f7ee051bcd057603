"""The two texts of a relation that somebody looks at: which pages show them, how often, and whether still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, schema
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.records import BodyRecord, RelationKind, RelationRecord

MAX_URLS = 100
"""URLs of one text that are listed; the others are counted."""

_t = schema
_seen = schema.observation.c
_BODIES_OF_IDS = ListQuery(
    sa.select(_t.body.c.ordinal, _t.body.c.body_id).where(_t.body.c.body_id.in_(SOUGHT))
)
_BODIES_OF_PAGES = ListQuery(
    sa.select(
        _seen.ordinal,
        _seen.body,
        _seen.url_key_digest,
        _seen.residual_digest,
        _t.body.c.normalized_digest,
        _t.job.c.corpus,
    )
    .select_from(
        _t.observation.join(_t.job, _t.job.c.ordinal == _seen.job).join(
            _t.body, _t.body.c.ordinal == _seen.body
        )
    )
    .where(_seen.url_key_digest.in_(SOUGHT))
    .order_by(_seen.ordinal)
)


@dataclass(frozen=True, slots=True)
class Page:
    """One URL key that shows a text: its URL when it was first seen, how often, first and last when."""

    url: str
    times: int
    first_seen: str
    last_seen: str


@dataclass(frozen=True, slots=True)
class Side:
    """One text of a pair.

    Attributes:
        body: the text.
        pages: where it was seen, the first ones first, at most `MAX_URLS`.
        more_pages: how many more there are.
        observations: how often it was seen.
        is_current: some page still showed this text when it was last seen.
    """

    body: BodyRecord
    pages: tuple[Page, ...]
    more_pages: int
    observations: int
    is_current: bool

    @property
    def first_seen(self) -> str | None:
        """When the text was first seen; None where no page is known."""
        return min((page.first_seen for page in self.pages), default=None)

    @property
    def last_seen(self) -> str | None:
        """When the text was last seen at one of `pages`."""
        return max((page.last_seen for page in self.pages), default=None)


class Place(NamedTuple):
    """A text and the observations of it that count.

    Attributes:
        body: its ordinal.
        url_key_digest: only those of this key count; None for all keys.
        but_key_digest: those of this key do not count, unless there are no others.
    """

    body: int
    url_key_digest: bytes | None = None
    but_key_digest: bytes | None = None


def places_of(connection: sa.Connection, relation: RelationRecord) -> tuple[Place, Place] | None:
    """Return where the two texts of a relation stand, None where the ledger does not hold both."""
    if relation.kind is RelationKind.NEAR:
        sought = [codec.pack_id(relation.a), codec.pack_id(relation.b)]
        found = {bytes(row["body_id"]): row["ordinal"] for row in _BODIES_OF_IDS.rows(connection, sought)}
        return None if len(found) < 2 else (Place(found[sought[0]]), Place(found[sought[1]]))
    if relation.kind is RelationKind.CANONICAL:
        a = _at_key(connection, relation.corpus, relation.a, "normalized_digest", relation.a_digest)
        b = _at_key(connection, relation.corpus, relation.b, "normalized_digest", relation.b_digest)
        return None if a is None or b is None else (a, b)
    a = _at_key(connection, relation.corpus, relation.a, "residual_digest", relation.a_digest)
    return None if a is None else (a, Place(a.body, but_key_digest=a.url_key_digest))


def _at_key(
    connection: sa.Connection, corpus: str, url_key: str, column: str, digest: str | None
) -> Place | None:
    """Return the latest text with a digest at a URL key."""
    if digest is None:
        return None
    key, wanted = codec.url_digest(url_key), codec.pack_digest(digest)
    found = [
        row["body"]
        for row in _BODIES_OF_PAGES.rows(connection, [key])
        if codec.unescape(row["corpus"]) == corpus
        and row[column] is not None
        and bytes(row[column]) == wanted
    ]
    return Place(found[-1], key) if found else None


def pages_of(connection: sa.Connection, place: Place) -> tuple[tuple[Page, ...], int, int]:
    """Return where a text was seen: the first pages, how many more there are, and how often in all."""
    where = [_seen.body == place.body]
    if place.url_key_digest is not None:
        where.append(_seen.url_key_digest == place.url_key_digest)
    if place.but_key_digest is not None:
        where.append(_seen.url_key_digest != place.but_key_digest)
    grouped = (
        sa.select(
            sa.func.min(_seen.ordinal).label("first"),
            sa.func.count().label("times"),
            sa.func.min(_seen.fetched_us).label("first_us"),
            sa.func.max(_seen.fetched_us).label("last_us"),
        )
        .where(*where)
        .group_by(_seen.url_key_digest)
        .subquery()
    )
    totals = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(grouped.c.times), 0))
    keys, observations = connection.execute(totals.select_from(grouped)).one()
    if not keys and place.but_key_digest is not None:  # one page that has shown both
        return pages_of(connection, Place(place.body))
    listed = (
        sa.select(_seen.url, grouped.c.times, grouped.c.first_us, grouped.c.last_us)
        .select_from(grouped.join(_t.observation, _seen.ordinal == grouped.c.first))
        .order_by(grouped.c.first)
        .limit(MAX_URLS)
    )
    pages = tuple(
        Page(
            codec.unescape(row.url),
            int(row.times),
            codec.from_micros(row.first_us),
            codec.from_micros(row.last_us),
        )
        for row in connection.execute(listed)
    )
    return pages, int(keys) - len(pages), int(observations)


def is_current(connection: sa.Connection, place: Place) -> bool:
    """Tell whether some page showed a text when it was last seen with any text."""
    later, own = _t.observation.alias("later"), _t.observation.alias("own")
    replaced = sa.exists().where(
        later.c.url_key_digest == own.c.url_key_digest,
        later.c.space == own.c.space,
        later.c.ordinal > own.c.ordinal,
        later.c.body != own.c.body,
    )
    shown = [own.c.body == place.body, ~replaced]
    if place.url_key_digest is not None:
        shown.append(own.c.url_key_digest == place.url_key_digest)
    return bool(connection.execute(sa.select(sa.exists().where(*shown))).scalar())
