"""The texts of one space of a ledger, one after the other, for those who compare all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, rows, schema

MAX_URL_CHARS = (1 << 20) - 1

_t = schema
_ORDINAL_BITS = 38


class Space(NamedTuple):
    """Texts that were made alike and may be compared; ``bodies`` counts them."""

    ordinal: int
    corpus: str
    representation: str
    extractor_id: str
    bodies: int


class BodyText(NamedTuple):
    """A text with its identity. Of similar texts the one with the smallest rank stands for the others."""

    body_id: str
    text_digest: str
    text: str
    rank: int


def spaces(connection: sa.Connection, corpus: str) -> list[Space]:
    """Return the spaces of a corpus that hold texts, the one with the newest text first."""
    newest = sa.func.max(_t.body.c.ordinal)
    statement = (
        sa.select(*_t.space.c, sa.func.count().label("bodies"))
        .select_from(_t.space.join(_t.body, _t.body.c.space == _t.space.c.ordinal))
        .where(_t.space.c.corpus == codec.escape(corpus))
        .group_by(*_t.space.c)
        .order_by(newest.desc())
    )
    return [
        Space(
            row.ordinal,
            corpus,
            codec.unescape(row.representation),
            codec.unescape(row.extractor_id),
            int(row.bodies),
        )
        for row in connection.execute(statement)
    ]


def places_of(space: Space) -> sa.Select[Any]:
    """Return the query for the URLs that the texts of a space were seen under."""
    seen = _t.observation.c
    return sa.select(seen.body, seen.url, seen.url_key).where(
        seen.space == space.ordinal, seen.body.is_not(None)
    )


def bodies_of(space: Space) -> sa.Select[Any]:
    """Return the query for the texts of a space."""
    body = _t.body.c
    return (
        sa.select(body.ordinal, body.body_id, body.text_digest, body.codec, body.data)
        .where(body.space == space.ordinal)
        .order_by(body.ordinal)
    )


def ranks(places: Iterable[rows.Row], confirmed: Collection[str]) -> Mapping[int, int]:
    """Return the rank of each text, by its ordinal.

    Who leads is seen under a confirmed canonical, else under https, else under the shortest URL.

    Args:
        places: rows of `places_of`.
        confirmed: URL keys that are confirmed canonicals of others.
    """
    best: dict[int, int] = {}
    for row in places:
        url = codec.unescape(row["url"])
        rank = (
            (codec.unescape(row["url_key"]) not in confirmed) << 21
            | (not url.startswith("https:")) << 20
            | min(len(url), MAX_URL_CHARS)
        )
        best[row["body"]] = min(rank, best.get(row["body"], rank))
    return best


def of_row(row: rows.Row, ranks: Mapping[int, int]) -> BodyText:
    """Return the text of a row of `bodies_of`; of equally good ones the first that was seen ranks first."""
    ordinal = int(row["ordinal"])
    return BodyText(
        body_id=codec.unpack_body_id(row["body_id"]),
        text_digest=codec.unpack_digest(row["text_digest"]),
        text=codec.unpack_text(row["codec"], row["data"]),
        rank=ranks.get(ordinal, 1 << 22) << _ORDINAL_BITS | ordinal,
    )
