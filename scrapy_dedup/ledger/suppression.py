"""What the suppression of near-duplicates would leave out of an index, by the relations that are known.

A crawl with ``DEDUP_NEAR = "suppress"`` compares each new text with those that came before and lead; the
same is done here after the fact, in the order in which the texts came. A text that was left out leads none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import NamedTuple

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, relations, schema
from scrapy_dedup.ledger.derived import NEAR_DUPLICATE
from scrapy_dedup.ledger.leaders import standing
from scrapy_dedup.ledger.near_relations import is_suppressible
from scrapy_dedup.ledger.overlay import Overlay
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.ledger.templates import host_of
from scrapy_dedup.records import Action, RelationRecord

LOOKED = "near_looked:"
"""What the name of the row in ``meta`` begins with that says when somebody looked; the corpus follows."""

MAX_LISTED = 1_000

_t = schema
_seen = schema.observation.c
_own = _t.observation.alias("own")
_first = sa.func.min(_seen.ordinal).label("first")
_FIRST_SEEN = (
    sa.select(_seen.body, _first).where(_seen.body.is_not(None)).group_by(_seen.body).subquery("first_seen")
)
_TEXTS = ListQuery(
    sa.select(
        _t.body.c.body_id,
        _t.body.c.ordinal,
        _t.body.c.char_count,
        _seen.url,
        _seen.url_key,
        _seen.url_key_digest,
        _seen.action,
        _seen.reason,
    )
    .select_from(_t.body.join(_t.observation, _seen.body == _t.body.c.ordinal))
    .where(
        _t.body.c.body_id.in_(SOUGHT),
        _seen.ordinal
        == sa.select(sa.func.min(_own.c.ordinal)).where(_own.c.body == _t.body.c.ordinal).scalar_subquery(),
    )
)
_KEYS = ListQuery(sa.select(_seen.body, _seen.url_key_digest).where(_seen.body.in_(SOUGHT)).distinct())


class _Text(NamedTuple):
    """A text, and where it was first seen; whether it was kept there but for suppression."""

    ordinal: int
    chars: int
    url: str
    host: str
    key_digest: bytes
    is_kept_otherwise: bool


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A text that would be left out, and the one that would stand for it; URLs where they were first seen."""

    relation_id: str
    verdict: str
    jaccard: float
    chars: int
    url: str
    leader_url: str


@dataclass(frozen=True, slots=True)
class Suppression:
    """What suppression would do to a corpus.

    Attributes:
        relations: how many pairs of similar texts are known, whatever they are to each other.
        texts: how many texts the corpus holds.
        suppressed: how many would be left out.
        chars: how long these are.
        hosts: of each host that would lose texts: how many, and how many it has.
        listed: the least similar ones first, at most `MAX_LISTED`.
    """

    relations: int
    texts: int
    suppressed: int
    chars: int
    hosts: Mapping[str, tuple[int, int]]
    listed: tuple[Suppressed, ...]


def suppression(
    connection: sa.Connection,
    corpus: str,
    found: Iterable[RelationRecord],
    min_jaccard: float,
    overlay: Overlay,
) -> Suppression:
    """Return what suppression would do.

    Args:
        connection: of the ledger.
        corpus: whose texts.
        found: its relations of similar texts, in the state that decisions give them.
        min_jaccard: the least similarity, 0.0 to 1.0.
        overlay: what is known of the observations by now.
    """
    pairs, count = [], 0
    for relation in found:
        count += 1
        if is_suppressible(relation, min_jaccard):
            pairs.append(relation)
    texts = _texts(connection, {side for pair in pairs for side in (pair.a, pair.b)})
    keys = _keys(connection, {text.ordinal for text in texts.values()})
    stand = standing(connection, overlay, {text.ordinal for text in texts.values()})
    chosen = list(_chosen(pairs, texts, keys, stand))
    lost = Counter(texts[later].host for later, _, _ in chosen)
    totals = _totals(connection, corpus, lost)
    listed = sorted((_suppressed(texts, *one) for one in chosen), key=lambda one: (one.jaccard, one.url))
    return Suppression(
        relations=count,
        texts=totals.total(),
        suppressed=len(chosen),
        chars=sum(one.chars for one in listed),
        hosts={host: (number, totals[host]) for host, number in lost.most_common()},
        listed=tuple(listed[:MAX_LISTED]),
    )


def mark_looked(url: str, corpus: str) -> None:
    """Write down that somebody has looked at what suppression would do to a corpus.

    Raises:
        LedgerUnavailable: the ledger cannot be written.
    """
    name, now = looked_name(corpus), datetime.now(timezone.utc).isoformat()
    with relations.writing(url) as connection:
        connection.execute(sa.delete(_t.meta).where(_t.meta.c.name == name))
        connection.execute(sa.insert(_t.meta), {"name": name, "value": now})


def first_urls(connection: sa.Connection, body_ids: Collection[str]) -> Mapping[str, str]:
    """Return the URL where each of some texts was first seen, by the identity of its body."""
    return {body_id: text.url for body_id, text in _texts(connection, body_ids).items()}


def looked_name(corpus: str) -> str:
    """Return the name of the row in ``meta`` by which a crawl knows that somebody has looked."""
    return LOOKED + codec.escape(corpus)


def _chosen(
    pairs: Sequence[RelationRecord],
    texts: Mapping[str, _Text],
    keys: Mapping[int, set[bytes]],
    stand: Collection[int],
) -> Iterator[tuple[str, str, RelationRecord]]:
    """Yield (the text left out, the one that leads, their relation), in the order in which texts came."""
    earlier: dict[str, list[tuple[str, RelationRecord]]] = defaultdict(list)
    for pair in pairs:
        if pair.a in texts and pair.b in texts:
            first, later = sorted((pair.a, pair.b), key=lambda side: texts[side].ordinal)
            earlier[later].append((first, pair))
    followers: set[str] = set()
    for later in sorted(earlier, key=lambda side: texts[side].ordinal):
        text = texts[later]
        leaders = [
            (first, pair)
            for first, pair in earlier[later]
            # What the same page showed before does not stand for what it shows now.
            if first not in followers
            and texts[first].ordinal in stand
            and text.key_digest not in keys[texts[first].ordinal]
        ]
        if leaders and text.is_kept_otherwise:
            first, pair = max(leaders, key=lambda one: (one[1].measures["jaccard"], -texts[one[0]].ordinal))
            followers.add(later)
            yield later, first, pair


def _suppressed(texts: Mapping[str, _Text], later: str, first: str, pair: RelationRecord) -> Suppressed:
    return Suppressed(
        relation_id=pair.relation_id,
        verdict=str(pair.measures["verdict"]),
        jaccard=float(pair.measures["jaccard"]),
        chars=texts[later].chars,
        url=texts[later].url,
        leader_url=texts[first].url,
    )


def _texts(connection: sa.Connection, body_ids: Collection[str]) -> dict[str, _Text]:
    return {
        codec.unpack_body_id(row["body_id"]): _Text(
            int(row["ordinal"]),
            int(row["char_count"]),
            codec.unescape(row["url"]),
            host_of(codec.unescape(row["url_key"])),
            bytes(row["url_key_digest"]),
            row["action"] == Action.KEEP.value or row["reason"] == NEAR_DUPLICATE,
        )
        for row in _TEXTS.rows(connection, {codec.pack_id(one) for one in body_ids})
    }


def _keys(connection: sa.Connection, bodies: Collection[int]) -> Mapping[int, set[bytes]]:
    keys: dict[int, set[bytes]] = defaultdict(set)
    for row in _KEYS.rows(connection, bodies):
        keys[int(row["body"])].add(bytes(row["url_key_digest"]))
    return keys


def _totals(connection: sa.Connection, corpus: str, hosts: Collection[str]) -> Counter[str]:
    """Return how many texts of a corpus each host was the first to show; other hosts than these as one."""
    statement = (
        sa.select(_seen.url_key)
        .select_from(
            _FIRST_SEEN.join(_t.observation, _seen.ordinal == _FIRST_SEEN.c.first).join(
                _t.job, _t.job.c.ordinal == _seen.job
            )
        )
        .where(_t.job.c.corpus == codec.escape(corpus))
    )
    totals: Counter[str] = Counter()
    with connection.execution_options(yield_per=500).execute(statement) as result:
        for url_key in result.scalars():
            host = host_of(codec.unescape(url_key))
            totals[host if host in hosts else ""] += 1
    return totals
