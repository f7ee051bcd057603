"""The texts of one space of a ledger, one after the other, for those who compare all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, rows, schema
from scrapy_dedup.ledger.review_verdicts import stated_in
from scrapy_dedup.records import DecisionRecord, RelationKind, RelationRecord

MAX_URL_CHARS = (1 << 20) - 1

_t = schema
_ORDINAL_BITS, _PLACE_BITS = 38, 22

UNSTATED = 2
"""The preference of a text about which no reviewer has said anything."""


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


def preferences(decided: Iterable[tuple[RelationRecord, DecisionRecord]]) -> Mapping[str, int]:
    """Return how much some texts are preferred by reviewers, by identity: 0 most, `UNSTATED` for all others.

    Args:
        decided: relations of texts, with the decision that is in force about each.
    """
    preferred: set[str] = set()
    passed_over: set[str] = set()
    for relation, decision in decided:
        stated = stated_in(decision.note) if relation.kind is RelationKind.NEAR else None
        if stated is not None and stated.prefer is not None:
            sides = (relation.a, relation.b)
            first, other = sides if stated.prefer == "a" else sides[::-1]
            preferred.add(first)
            passed_over.add(other)
    return {body_id: int(body_id in passed_over) for body_id in preferred}


def ranks(places: Iterable[rows.Row], confirmed: Collection[str]) -> Mapping[int, int]:
    """Return the rank of each text by where it was seen, by its ordinal.

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


def of_row(row: rows.Row, ranks: Mapping[int, int], preferred: Mapping[str, int]) -> BodyText:
    """Return the text of a row of `bodies_of`; of equally good ones the first that was seen ranks first.

    Args:
        row: of a text.
        ranks: as `ranks` returns them.
        preferred: as `preferences` returns them; what a reviewer prefers goes before all else.
    """
    ordinal, body_id = int(row["ordinal"]), codec.unpack_body_id(row["body_id"])
    rank = preferred.get(body_id, UNSTATED) << _PLACE_BITS | ranks.get(ordinal, (1 << _PLACE_BITS) - 1)
    return BodyText(
        body_id=body_id,
        text_digest=codec.unpack_digest(row["text_digest"]),
        text=codec.unpack_text(row["codec"], row["data"]),
        rank=rank << _ORDINAL_BITS | ordinal,
    )
