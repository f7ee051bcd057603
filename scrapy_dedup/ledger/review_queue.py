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
one of them has changed. Of a text that no page shows any more nobody is asked.
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
from scrapy_dedup.ledger.review_sides import with_both_shown
from scrapy_dedup.ledger.review_verdicts import ACTIONS
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.near.claims import MIN_JACCARD, Verdict
from scrapy_dedup.records import RelationKind, RelationRecord, RelationState

KINDS = tuple(ACTIONS)
"""The kinds of relations that are reviewed, in the order in which they are asked about."""

MAX_QUEUE = 10_000
"""Pairs of one queue; whoever has answered them asks for the next ones."""

PROBES = 5
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
        open: how many pairs nobody has decided about, of texts that are still shown.
        decided: how many pairs somebody has.
    """

    entries: tuple[Entry, ...]
    open: int
    decided: int


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
            self._decided += len(part) - len(undecided)
            still_open = with_both_shown(self._connection, undecided)
            self._open += len(still_open)
            for entry in self._entries(still_open):
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


# -- what hangs on a pair ----------------------------------------------------------------------------------

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
