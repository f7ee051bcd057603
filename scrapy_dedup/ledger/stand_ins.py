"""Which texts others stand for: spellings, suppressed near-duplicates, and what somebody decided.

The observation that brings a text says whether an earlier one stands for it, as far as the crawl knew; what
was decided since is laid over it. All later observations of that text only say that it is the same text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, schema
from scrapy_dedup.ledger.history import Stream
from scrapy_dedup.ledger.owners import ReadObservations
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.records import Action

READ_AT_ONCE = 500

_t = schema
_seen = _t.observation.c

_OF_TEXTS = ListQuery(
    sa.select(sa.func.min(_seen.ordinal).label("ordinal"))
    .select_from(_t.observation.join(_t.body, _t.body.c.ordinal == _seen.body))
    .where(_t.body.c.body_id.in_(SOUGHT))
    .group_by(_seen.body)
)
_own = _t.observation.alias("own")
_AT_KEYS = ListQuery(
    sa.select(_seen.ordinal).where(
        _seen.url_key_digest.in_(SOUGHT),
        _seen.related_observation.is_not(None),
        _seen.ordinal
        == sa.select(sa.func.min(_own.c.ordinal)).where(_own.c.body == _seen.body).scalar_subquery(),
    )
)


def stand_ins(
    connection: sa.Connection,
    stream: Stream,
    read: ReadObservations,
    corpus: str,
    *,
    decided_texts: Collection[str] = (),
    decided_keys: Collection[str] = (),
) -> dict[int, int]:
    """Return by the ordinals of texts the ordinal of the one that stands for each of them.

    Args:
        connection: reads one state of the ledger.
        stream: iterates over the rows of a statement without holding all of them.
        read: reads observations.
        corpus: whose texts.
        decided_texts: identities of bodies of which somebody decided whether others stand for them.
        decided_keys: URL keys of observations of which somebody decided what their texts are to earlier ones.
    """
    found = [
        *stream(_reusing(corpus)),
        *_OF_TEXTS.rows(connection, map(codec.pack_id, decided_texts)),
        *_AT_KEYS.rows(connection, map(codec.url_digest, decided_keys)),
    ]
    firsts = iter(sorted({row["ordinal"] for row in found}))
    related: dict[bytes, list[int]] = {}
    while part := list(islice(firsts, READ_AT_ONCE)):
        for row, record in read(part):
            # A page that somebody rejects says nothing about its text, which other pages may show.
            stays = row["action"] == Action.REUSE.value and record.action is Action.REVIEW
            if (record.action is Action.REUSE or stays) and record.related_observation_id is not None:
                packed = codec.pack_id(record.related_observation_id)
                related.setdefault(packed, []).append(row["body"])
    return {
        body: other
        for first, other in _brought_by(stream, related)
        for body in related[first]
        if body != other
    }


def resolved(body: int, stands_for_it: Mapping[int, int], shown: Collection[int]) -> int:
    """Return the text to take for one: the first on the way that a page shows as its own, else itself.

    Args:
        body: the ordinal of a text.
        stands_for_it: as `stand_ins` returns it.
        shown: the texts that pages show as their own.
    """
    passed: set[int] = set()
    reached = body
    while reached not in shown and reached in stands_for_it and reached not in passed:
        passed.add(reached)
        reached = stands_for_it[reached]
    return reached if reached in shown else body


def _reusing(corpus: str) -> sa.Select[tuple[int]]:
    """Return the query for the observations that brought a text and an earlier one to stand for it."""
    spaces = sa.select(_t.space.c.ordinal).where(_t.space.c.corpus == codec.escape(corpus))
    firsts = (
        sa.select(sa.func.min(_seen.ordinal))
        .where(_seen.body.is_not(None), _seen.space.in_(spaces))
        .group_by(_seen.body)
    )
    return sa.select(_seen.ordinal).where(_seen.ordinal.in_(firsts), _seen.action == Action.REUSE.value)


def _brought_by(stream: Stream, observations: Collection[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield those of some observations that brought a text, as they are stored, with its ordinal."""
    if observations:
        body = _t.body.c
        for row in stream(sa.select(body.ordinal, body.first_observation).order_by(body.ordinal)):
            if (first := bytes(row["first_observation"])) in observations:
                yield first, row["ordinal"]
