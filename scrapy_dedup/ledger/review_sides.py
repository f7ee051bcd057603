"""The two texts of a relation that somebody looks at: which pages show them, how often, and whether still."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, schema
from scrapy_dedup.ledger.leaders import ended_by
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
_own, _own_job = _t.observation.alias("own"), _t.job.alias("own_job")
_ENDED = ended_by(_own, _own_job)
_SHOWN_SOMEWHERE = ListQuery(
    sa.select(_t.body.c.ordinal).where(
        _t.body.c.ordinal.in_(SOUGHT),
        sa.exists()
        .select_from(_own.join(_own_job, _own_job.c.ordinal == _own.c.job))
        .where(_own.c.body == _t.body.c.ordinal, ~_ENDED),
    )
)
_SHOWN_AT_KEYS = ListQuery(
    sa.select(_own.c.body, _own.c.url_key_digest)
    .select_from(_own.join(_own_job, _own_job.c.ordinal == _own.c.job))
    .where(_own.c.url_key_digest.in_(SOUGHT), _own.c.body.is_not(None), ~_ENDED)
    .distinct()
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
        is_current: some page still showed this text when it was last seen; see `shown`.
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


def places_of(connection: sa.Connection, found: Collection[RelationRecord]) -> dict[str, tuple[Place, Place]]:
    """Return where the texts of relations stand, by the relation; only where the ledger holds two of them."""
    near = [one for one in found if one.kind is RelationKind.NEAR]
    others = [one for one in found if one.kind is not RelationKind.NEAR]
    sought = {codec.pack_id(side) for one in near for side in (one.a, one.b)}
    bodies = {bytes(row["body_id"]): Place(row["ordinal"]) for row in _BODIES_OF_IDS.rows(connection, sought)}
    keys = {codec.url_digest(one.a) for one in others}
    keys |= {codec.url_digest(one.b) for one in others if one.kind is RelationKind.CANONICAL}
    at_keys = _texts_at_keys(connection, keys)
    places = {}
    for one in found:
        if one.kind is RelationKind.NEAR:
            a, b = (bodies.get(codec.pack_id(side)) for side in (one.a, one.b))
        elif one.kind is RelationKind.CANONICAL:
            a = at_keys.get(_text_at(one.corpus, one.a, "normalized_digest", one.a_digest))
            b = at_keys.get(_text_at(one.corpus, one.b, "normalized_digest", one.b_digest))
        else:
            a = at_keys.get(_text_at(one.corpus, one.a, "residual_digest", one.a_digest))
            b = a and Place(a.body, but_key_digest=a.url_key_digest)
        if a is not None and b is not None and a != b:
            places[one.relation_id] = a, b
    return places


_TextAtKey = tuple[str, bytes, str, bytes | None]
"""A corpus, the digest of a URL key, the name of a digest of a text, and that digest."""


def _text_at(corpus: str, url_key: str, column: str, digest: str | None) -> _TextAtKey:
    return corpus, codec.url_digest(url_key), column, codec.pack_digest(digest) if digest else None


def _texts_at_keys(connection: sa.Connection, keys: Collection[bytes]) -> dict[_TextAtKey, Place]:
    """Return the latest text at URL keys with each digest."""
    return {
        (codec.unescape(row["corpus"]), key, column, bytes(row[column])): Place(row["body"], key)
        for row in _BODIES_OF_PAGES.rows(connection, keys)
        for key in [bytes(row["url_key_digest"])]
        for column in ("normalized_digest", "residual_digest")
        if row[column] is not None
    }


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


def shown(connection: sa.Connection, places: Collection[Place]) -> set[Place]:
    """Return which texts some page showed when it was last seen.

    A later text of the page ends an earlier one, and so does a 404 or 410; a failure or a login wall
    does not.
    """
    anywhere = {place.body for place in places if place.url_key_digest is None}
    at_keys = {place.url_key_digest for place in places if place.url_key_digest is not None}
    bodies = {int(row["ordinal"]) for row in _SHOWN_SOMEWHERE.rows(connection, anywhere)}
    pages = {
        (int(row["body"]), bytes(row["url_key_digest"])) for row in _SHOWN_AT_KEYS.rows(connection, at_keys)
    }
    return {
        place
        for place in places
        if (place.body in bodies if place.url_key_digest is None else place[:2] in pages)
    }


def with_both_shown(connection: sa.Connection, found: Sequence[RelationRecord]) -> list[RelationRecord]:
    """Return the relations both texts of which are `shown`."""
    places = places_of(connection, found)
    still = shown(connection, {place for both in places.values() for place in both})
    named = {relation_id for relation_id, both in places.items() if still.issuperset(both)}
    return [one for one in found if one.relation_id in named]
