"""Pairs of texts that somebody should look at, the ones that matter most and are least certain first.

The place of a pair in the queue is impact times uncertainty:

- *impact* is what hangs on the verdict: ``log2(1 + observations) + log2(1 + URLs) + log2(1 + characters /
  1000)``, observations and URLs of both texts together, characters of the shorter one, which is what an
  index would hold twice. Logarithms, so that one page seen a thousand times does not outweigh all others.
- *uncertainty* is the largest of what applies: near the threshold, ``1 - |J - threshold| / 0.1``; a claim
  that differs in texts that are otherwise alike, ``(J - 0.8) / 0.2``, since the more alike two texts are, the
  more such a difference weighs, or the likelier it is none; 0.75 for what was left unresolved; else 0.1.

`PROBES` pairs just above and as many just below the threshold stand among the first, every second one: they
show early whether the threshold is right. Pairs of similar texts come before the other kinds. What somebody
decided is not asked again: a decision is about the digests of both texts, so it is open again by itself when
one of them has changed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import NamedTuple

import sqlalchemy as sa

from scrapy_dedup.ledger import codec, schema
from scrapy_dedup.ledger.derived import DECIDED
from scrapy_dedup.ledger.review_verdicts import ACTIONS
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.near.claims import MIN_JACCARD, Verdict
from scrapy_dedup.records import BodyRecord, RelationKind, RelationRecord, RelationState

KINDS = tuple(ACTIONS)
"""The kinds of relations that are reviewed, in the order in which they are asked about."""

MAX_QUEUE = 10_000
"""Pairs of one queue; whoever has answered them asks for the next ones."""

PROBES = 5
MAX_URLS = 100
"""URLs of one text that are listed; the others are counted."""

_BAND = 0.1
_UNRESOLVED = 0.75
_CERTAIN = 0.1
_PART = 500

_t = schema
_seen = schema.observation.c
_corpus: sa.BindParameter[str] = sa.bindparam("corpus", required=False)


class Weight(NamedTuple):
    """What hangs on a text: how often and under how many URL keys it was seen, and how long it is."""

    observations: int = 0
    urls: int = 0
    chars: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """A pair in the queue, with what gave it its place."""

    relation: RelationRecord
    impact: float
    uncertainty: float
    because: str

    @property
    def priority(self) -> float:
        """Impact times uncertainty: the larger, the earlier."""
        return self.impact * self.uncertainty


@dataclass(frozen=True, slots=True)
class Queue:
    """Pairs in the order in which they should be looked at.

    Attributes:
        entries: at most `MAX_QUEUE`.
        open: how many pairs nobody has decided about.
        decided: how many pairs somebody has.
    """

    entries: tuple[Entry, ...]
    open: int
    decided: int


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


# -- the order of the queue --------------------------------------------------------------------------------


def impact_of(a: Weight, b: Weight) -> float:
    """Return what hangs on a pair of texts; see the module."""
    return (
        math.log2(1 + a.observations + b.observations)
        + math.log2(1 + a.urls + b.urls)
        + math.log2(1 + min(a.chars, b.chars) / 1_000)
    )


def uncertainty_of(relation: RelationRecord) -> tuple[float, str]:
    """Return how little is certain about a pair, 0.1 to 1.0, and why, in words."""
    found = [(_CERTAIN, "the measures leave little doubt")]
    if relation.state is RelationState.UNRESOLVED:
        found.append((_UNRESOLVED, "unresolved"))
    jaccard = _jaccard(relation)
    if jaccard is not None:
        threshold = threshold_of(relation)
        found.append((1 - abs(jaccard - threshold) / _BAND, f"near the threshold {threshold:g}"))
        if relation.measures.get("verdict") == Verdict.CLAIM_CHANGED.value:
            found.append(((jaccard - MIN_JACCARD) / (1 - MIN_JACCARD), "alike, but for a changed claim"))
    return max(found, key=lambda one: one[0])


def threshold_of(relation: RelationRecord) -> float:
    """Return the similarity that the pair was held against when it was found."""
    stated = [reason.threshold for reason in relation.reasons if reason.code == "jaccard"]
    return next((float(one) for one in stated if isinstance(one, (int, float))), MIN_JACCARD)


def is_decided(relation: RelationRecord) -> bool:
    """Tell whether a relation stands as somebody decided."""
    return any(reason.code == DECIDED for reason in relation.reasons)


def ordered(entries: Sequence[Entry], probes: Sequence[Entry] = ()) -> tuple[Entry, ...]:
    """Return entries by kind, then by priority; every second of the first ones is a probe."""
    probed = {entry.relation.relation_id for entry in probes}
    first, *others = [
        sorted((one for one in entries if one.relation.kind is kind), key=_order) for kind in KINDS
    ]
    rest = [one for one in first if one.relation.relation_id not in probed]
    woven = [one for pair in zip_longest(rest[: len(probes)], probes) for one in pair if one is not None]
    return tuple([*woven, *rest[len(probes) :], *(one for part in others for one in part)][:MAX_QUEUE])


def _order(entry: Entry) -> tuple[float, str]:
    return -entry.priority, entry.relation.relation_id


def _jaccard(relation: RelationRecord) -> float | None:
    value = relation.measures.get("jaccard")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if relation.kind is RelationKind.NEAR and is_number else None  # type: ignore[arg-type]


def is_for_review(relation: RelationRecord) -> bool:
    """Tell whether two texts stand behind a relation, and what they are to each other may be asked."""
    if is_decided(relation) or relation.kind is RelationKind.NEAR:
        return True
    has_texts = relation.a_digest is not None and (
        relation.b_digest is not None or relation.kind is RelationKind.RESIDUAL_DIFFERS
    )
    return has_texts and relation.state is RelationState.UNRESOLVED


class _Best:
    """The first entries by some order, of however many are offered, in bounded memory."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, str, Entry]] = []

    def offer(self, value: float, entry: Entry) -> None:
        """Take an entry in when it is among those with the largest values."""
        item = (value, entry.relation.relation_id, entry)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, item)
        elif item[:2] > self._heap[0][:2]:
            heapq.heapreplace(self._heap, item)

    def entries(self) -> list[Entry]:
        return [entry for _, _, entry in sorted(self._heap, key=lambda item: (-item[0], item[1]))]


class QueueBuilder:
    """Takes all relations, part by part, and gives the queue.

    Args:
        connection: of the ledger, for what hangs on the texts.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._best = {kind: _Best(MAX_QUEUE) for kind in KINDS}
        self._above, self._below = _Best(PROBES), _Best(PROBES)
        self._open = self._decided = 0

    def take(self, found: Iterable[RelationRecord]) -> None:
        """Take relations of one corpus, each in the state that decisions give it."""
        remaining = iter(found)
        while part := list(islice(remaining, _PART)):
            undecided = [one for one in part if not is_decided(one)]
            self._open += len(undecided)
            self._decided += len(part) - len(undecided)
            for entry in self._entries(undecided):
                self._offer(entry)

    def queue(self) -> Queue:
        """Return what was taken, in order."""
        entries = [entry for best in self._best.values() for entry in best.entries()]
        probes = [
            one for pair in zip_longest(self._above.entries(), self._below.entries()) for one in pair if one
        ]
        return Queue(ordered(entries, probes), self._open, self._decided)

    def _entries(self, part: Sequence[RelationRecord]) -> Iterator[Entry]:
        weights = _weights(self._connection, part)
        for relation in part:
            uncertainty, because = uncertainty_of(relation)
            impact = impact_of(*weights[relation.relation_id])
            yield Entry(relation, round(impact, 3), round(uncertainty, 3), because)

    def _offer(self, entry: Entry) -> None:
        relation = entry.relation
        self._best[relation.kind].offer(entry.priority, entry)
        jaccard = _jaccard(relation)
        if jaccard is not None:
            margin = jaccard - threshold_of(relation)
            if abs(margin) < _BAND:
                (self._above if margin >= 0 else self._below).offer(-abs(margin), entry)


# -- what hangs on a pair, and its texts -------------------------------------------------------------------

_OF_BODIES = ListQuery(
    sa.select(
        _t.body.c.body_id,
        _t.body.c.char_count,
        sa.func.count(_seen.ordinal).label("observations"),
        sa.func.count(_seen.url_key_digest.distinct()).label("urls"),
    )
    .select_from(_t.body.outerjoin(_t.observation, _seen.body == _t.body.c.ordinal))
    .where(_t.body.c.body_id.in_(SOUGHT))
    .group_by(_t.body.c.body_id, _t.body.c.char_count)
)
_OF_KEYS = ListQuery(
    sa.select(
        _seen.url_key_digest,
        sa.func.count().label("observations"),
        sa.func.max(_t.body.c.char_count).label("chars"),
    )
    .select_from(
        _t.observation.join(_t.job, _t.job.c.ordinal == _seen.job).join(
            _t.body, _t.body.c.ordinal == _seen.body
        )
    )
    .where(_seen.url_key_digest.in_(SOUGHT), _t.job.c.corpus == _corpus)
    .group_by(_seen.url_key_digest)
)


def _weights(connection: sa.Connection, part: Collection[RelationRecord]) -> dict[str, tuple[Weight, Weight]]:
    """Return what hangs on both sides of relations, by their identities."""
    near = [one for one in part if one.kind is RelationKind.NEAR]
    bodies = _body_weights(connection, {side for one in near for side in (one.a, one.b)})
    others = [one for one in part if one.kind is not RelationKind.NEAR]
    keys: dict[str, Mapping[str, Weight]] = {}
    for corpus in {one.corpus for one in others}:
        sides = {side for one in others if one.corpus == corpus for side in (one.a, one.b)}
        keys[corpus] = _key_weights(connection, corpus, sides)
    nothing = Weight()
    weights = {one.relation_id: (bodies.get(one.a, nothing), bodies.get(one.b, nothing)) for one in near}
    for one in others:
        a = keys[one.corpus].get(one.a, nothing)
        b = keys[one.corpus].get(one.b, nothing)
        if one.kind is RelationKind.RESIDUAL_DIFFERS:  # the prose beside one and the same text
            b = Weight(1, 1, a.chars)
        weights[one.relation_id] = a, b
    return weights


def _body_weights(connection: sa.Connection, body_ids: Collection[str]) -> Mapping[str, Weight]:
    return {
        codec.unpack_body_id(row["body_id"]): Weight(
            int(row["observations"]), int(row["urls"]), int(row["char_count"])
        )
        for row in _OF_BODIES.rows(connection, {codec.pack_id(one) for one in body_ids})
    }


def _key_weights(connection: sa.Connection, corpus: str, keys: Collection[str]) -> Mapping[str, Weight]:
    names = {codec.url_digest(key): key for key in keys}
    return {
        names[bytes(row["url_key_digest"])]: Weight(int(row["observations"]), 1, int(row["chars"]))
        for row in _OF_KEYS.rows(connection, names, corpus=codec.escape(corpus))
    }


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


class Place(NamedTuple):
    """A text by the ordinal of its body, seen at one key only where ``url_key_digest`` is given."""

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
