"""Finding the texts that a new one is similar to, in the transaction that writes it.

Only the later text looks back, so no pair is found twice, and a text that was seen before is not looked up.
A text that an earlier one can stand for, its leader, is no longer looked for itself: what is like it is like
its leader, or is not of that group (see `near.groups` on chains). The rest are found by fingerprints where
they have enough words, else by the bands of their MinHash signatures, and every candidate is read side by
side with the new text, less what their hosts show on every page, before anything is said about the two.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from scrapy_dedup.ledger import codec, near_bands, schema
from scrapy_dedup.ledger.host_blocks import FIRST_URL_KEY, HostBlocks, OwnPage
from scrapy_dedup.ledger.near_bands import Keys, band_keys
from scrapy_dedup.ledger.near_index import NearIndex, folder_of
from scrapy_dedup.ledger.near_relations import (
    FEW_PAGES,
    Measures,
    NearFound,
    NearPair,
    Side,
    near_relation,
)
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.ledger.templates import host_of
from scrapy_dedup.near import claims, host_blocks
from scrapy_dedup.near.claims import (
    JOINING,
    MIN_CONTAINMENT,
    MIN_JACCARD,
    Reading,
    Verdict,
    compare,
    compare_read,
)
from scrapy_dedup.near.hamming import MAX_RADIUS, Nearest
from scrapy_dedup.near.host_blocks import MIN_PAGES, without
from scrapy_dedup.near.overlap import Overlap, overlap
from scrapy_dedup.near.paragraphs import Paragraph, paragraphs
from scrapy_dedup.near.shingles import Hashes, distinct, shingle_hashes
from scrapy_dedup.near.simhash import MIN_WORDS, SCHEME
from scrapy_dedup.records import BodyRecord, Reason

OFF, REVIEW, SUPPRESS = MODES = ("off", "review", "suppress")

POLICY = f"{SCHEME}+{claims.POLICY}+{host_blocks.POLICY}"
"""The rules by which the crawl finds and judges pairs; stored with every relation."""

MAX_CANDIDATES = 10
"""Of one new text so many are read, the nearest ones; the others are counted."""

MAX_COMPARED_BYTES = 1_000_000
"""Of one text and its candidates, as UTF-8: to read them takes about a second. Where each character is a
word, as in Chinese, a character takes three times as long, and as many bytes."""

HELD_CHARS = 2_000_000
"""Characters of texts that stay in memory after they were read, with what was made of them some 40 MB."""

RELATED = 0.2
"""What is left of two texts is two versions of something, and not something else, if it is so similar."""

SLACK = 0.05
"""The measures by which candidates are sorted out count markup, which the claim diff does not."""

_body, _seen = schema.body.c, schema.observation.c
_page: sa.BindParameter[bytes] = sa.bindparam("page", required=False)
_HELD = ListQuery(
    sa.select(
        _body.ordinal,
        _body.body_id,
        _body.text_digest,
        _body.first_observation,
        _body.codec,
        _body.data,
        FIRST_URL_KEY.label("url_key"),
    ).where(_body.ordinal.in_(SOUGHT))
)
_SHOWN_THERE = ListQuery(
    sa.select(_seen.body).where(_seen.body.in_(SOUGHT), _seen.url_key_digest == _page).distinct()
)


@dataclass(frozen=True, slots=True)
class NearOptions:
    """How a crawl deals with texts that are similar to earlier ones.

    Attributes:
        mode: one of `MODES`.
        radius: the differing bits of fingerprints up to which texts are read side by side, 0 to 7.
        min_jaccard: the similarity from which one text can stand for another, 0.0 to 1.0.
    """

    mode: str = OFF
    radius: int = MAX_RADIUS
    min_jaccard: float = MIN_JACCARD


class Newcomer(NamedTuple):
    """A new text: its ordinal, its body, and the key and time of the observation that brought it."""

    ordinal: int
    body: BodyRecord
    url_key: str
    at: str


class _Part:
    """A text or what is left of it, with what comparing it takes, each made when it is first needed."""

    def __init__(self, text: str) -> None:
        self.text = text

    @functools.cached_property
    def shingles(self) -> Hashes:
        """The set of its shingles, ascending."""
        return distinct(shingle_hashes([self.text])[0])

    @functools.cached_property
    def reading(self) -> Reading:
        """The text as it is read side by side with another."""
        return Reading.of(self.text)


class _Held:
    """A text as far as a pair with it needs it."""

    def __init__(self, side: Side, first_observation_id: str, url_key: str, text: str) -> None:
        self.side = side
        self.first_observation_id = first_observation_id
        self.url_key = url_key
        self.host = host_of(url_key)
        self.whole = _Part(text)
        self._shared: frozenset[int] = frozenset()
        self._own = self.whole

    @functools.cached_property
    def paragraphs(self) -> list[Paragraph]:
        """The paragraphs of the whole text."""
        return paragraphs(self.whole.text)

    def own(self, shared: frozenset[int]) -> _Part:
        """Return what is left without the paragraphs that the host shares."""
        if shared is not self._shared:
            left = without(self.whole.text, shared, self.paragraphs)
            if left != self._own.text:
                self._own = self.whole if left == self.whole.text else _Part(left)
            self._shared = shared
        return self._own

    def set_aside(self, shared: frozenset[int]) -> str:
        """Return the paragraphs that the host shares."""
        own = {one.key for one in self.paragraphs} - shared
        return without(self.whole.text, own, self.paragraphs)


class _Candidate(NamedTuple):
    """An earlier text that may be similar; the distance is None where it was found by its bands alone."""

    ordinal: int
    distance: int | None
    shared_bands: int


class _Candidates(NamedTuple):
    """The candidates of one new text.

    Attributes:
        listed: those that may be among the nearest.
        further: how many more there are, all of them farther away than `MAX_CANDIDATES` others.
    """

    listed: list[_Candidate]
    further: int = 0

    @classmethod
    def of(cls, hit: Nearest, sharing: Mapping[int, int]) -> _Candidates:
        """Return what the index of fingerprints and the bands, which tell how many are shared, have found."""
        listed = [_Candidate(match.id, match.distance, 0) for match in hit.matches]
        if sharing:
            by_bands = np.setdiff1d(list(sharing), hit.ids).tolist()
            listed += [_Candidate(body, None, sharing[body]) for body in by_bands]
        return cls(listed, len(hit.ids) - len(hit.matches))

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.listed) + self.further

    def and_these(self, more: Iterable[_Candidate]) -> _Candidates:
        """Return these and more of them."""
        return _Candidates([*self.listed, *more], self.further)


class Nearness:
    """Finds the pairs of one space for the store of one job.

    Args:
        options: of the crawl.
        ledger: the file of a SQLite ledger, None for another one.
        space: the ordinal of the space.
        corpus: of the job.
        job_id: of the job.
    """

    def __init__(
        self, options: NearOptions, ledger: Path | None, space: int, *, corpus: str, job_id: str
    ) -> None:
        self._options = options
        self._least = min(options.min_jaccard, MIN_JACCARD)
        self._space = space
        self._corpus = corpus
        self._job_id = job_id
        self._index = NearIndex(None if ledger is None else folder_of(ledger, space), space)
        self._blocks = HostBlocks(space)
        self._texts: OrderedDict[int, _Held] = OrderedDict()
        self._held_chars = 0

    def look_back(self, connection: sa.Connection, new: Sequence[Newcomer]) -> dict[int, NearFound]:
        """Return what is similar to each of some new texts, by their ordinals.

        Args:
            connection: inside a transaction that holds the writers' turn; none of the texts stands in it yet.
            new: in the order of their ordinals.
        """
        batch = _Batch(new)
        self._follow(connection, batch)
        matches = self._matches(connection, batch)
        found: dict[int, NearFound] = {}
        for one in new:
            in_batch = batch.earlier(one.ordinal, self._options.radius)
            found[one.ordinal] = self._read(connection, one, matches[one.ordinal].and_these(in_batch), batch)
            if found[one.ordinal].leading(self._options.min_jaccard) is None:
                batch.leaders.append(one.ordinal)
        near_bands.keep(
            connection,
            self._space,
            {leader: batch.keys[leader] for leader in batch.leaders if leader in batch.keys},
        )
        return found

    def save(self, connection: sa.Connection) -> None:
        """Write what was counted of hosts since the last time."""
        self._follow(connection, _Batch(()))
        self._blocks.save(connection)

    def close(self) -> None:
        """Bring the index to the disk."""
        self._index.close()

    def _follow(self, connection: sa.Connection, batch: _Batch) -> None:
        """Take in what was committed since the last time; of others also the bands that they did not keep."""
        self._index.follow(connection)
        own = {
            ordinal: OwnPage(held.side.body_id, held.url_key, tuple(one.key for one in held.paragraphs))
            for ordinal, held in batch.held.items()
        }
        others = [
            one
            for one in self._blocks.follow(connection, own)
            if one.word_count < near_bands.MAX_WORDS and not one.has_leader
        ]
        if others:
            keys = band_keys([one.text for one in others])
            keys_of = {one.ordinal: key for one, key in zip(others, keys, strict=True)}
            missing = near_bands.without_keys(connection, self._space, keys_of)
            near_bands.keep(connection, self._space, {ordinal: keys_of[ordinal] for ordinal in missing})

    def _matches(self, connection: sa.Connection, batch: _Batch) -> Mapping[int, _Candidates]:
        """Return the texts in the ledger that each new text may be similar to."""
        sharing = {
            ordinal: near_bands.sharing(connection, self._space, keys)
            for ordinal, keys in batch.keys.items()
            if keys
        }
        found = {
            ordinal: _Candidates([_Candidate(body, None, count) for body, count in shared.items()])
            for ordinal, shared in sharing.items()
        }
        if batch.fingerprints:
            fingerprints = list(batch.fingerprints.values())
            hits = self._index.nearest(fingerprints, self._options.radius, MAX_CANDIDATES)
            for ordinal, hit in zip(batch.fingerprints, hits, strict=True):
                found[ordinal] = _Candidates.of(hit, sharing.get(ordinal, {}))
        return {ordinal: found.get(ordinal, _Candidates([])) for ordinal in batch.new}

    def _read(
        self, connection: sa.Connection, one: Newcomer, candidates: _Candidates, batch: _Batch
    ) -> NearFound:
        """Read a new text side by side with the nearest of its candidates."""
        nearest = _nearest(candidates.listed)[:MAX_CANDIDATES]
        if not nearest:
            return NearFound()
        held = self._held(connection, nearest, batch)
        compared: list[tuple[_Candidate, _Held]] = []
        room = MAX_COMPARED_BYTES - len(one.body.text.encode())
        for candidate in nearest:
            room -= len(held[candidate.ordinal].whole.text.encode())
            if room < 0:
                break
            compared.append((candidate, held[candidate.ordinal]))
        pairs = self._pairs(connection, one, compared, batch)
        return NearFound(tuple(pairs), len(compared) - len(pairs), candidates.total - len(compared))

    def _pairs(
        self,
        connection: sa.Connection,
        one: Newcomer,
        compared: Sequence[tuple[_Candidate, _Held]],
        batch: _Batch,
    ) -> list[NearPair]:
        new = batch.held[one.ordinal]
        read = [(*pair, self._compared(connection, pair[1], new)) for pair in compared]
        similar = [(candidate, held, found) for candidate, held, found in read if found is not None]
        if not similar:
            return []
        same_page = self._shown_under(
            connection, one, [candidate.ordinal for candidate, _, _ in similar], batch
        )
        pairs: list[NearPair] = []
        for candidate, held, (measures, own_jaccard) in similar:
            relation = near_relation(
                self._corpus,
                held.side,
                new.side,
                measures,
                policy=POLICY,
                reasons=(
                    Reason("verdict", measures.verdict),
                    Reason("jaccard", measures.jaccard, self._options.min_jaccard),
                    *self._hosts_with_few_pages(connection, held.host, new.host),
                ),
                created_at=one.at,
                job_id=self._job_id,
                distance=candidate.distance,
                own_jaccard=own_jaccard,
                same_page=candidate.ordinal in same_page,
                same_host=held.host == new.host,
            )
            pairs.append(NearPair(relation, candidate.ordinal, held.first_observation_id))
        return pairs

    def _compared(
        self, connection: sa.Connection, earlier: _Held, new: _Held
    ) -> tuple[Measures, float | None] | None:
        """Return how two texts compare, and how their own parts do where the whole texts had to be read.

        What their hosts show on many pages is set aside, and read by itself where what is left says the same.
        A text that a small host shows under several names is nothing but such paragraphs, or has others
        beside them that are versions of each other; then the whole texts are read, and nothing follows from
        that by itself.
        """
        shared_a, shared_b = (self._blocks.shared(connection, held.host) for held in (earlier, new))
        own_a, own_b = earlier.own(shared_a), new.own(shared_b)
        own = overlap(own_a.shingles, own_b.shingles)
        if self._is_likely(own):
            found = self._side_by_side(own_a, own_b)
            if found is not None and found.verdict in JOINING:
                found = _with_set_aside(found, earlier.set_aside(shared_a), new.set_aside(shared_b))
            return None if found is None else (found, None)
        is_whole = own_a is earlier.whole and own_b is new.whole
        empty = [not len(part.shingles) for part in (own_a, own_b)]
        if is_whole or not (any(empty) or own.jaccard >= RELATED):
            return None
        if not self._is_likely(overlap(earlier.whole.shingles, new.whole.shingles)):
            return None
        found = self._side_by_side(earlier.whole, new.whole)
        return None if found is None else (found, 1.0 if all(empty) else round(own.jaccard, 6))

    def _side_by_side(self, earlier: _Part, new: _Part) -> Measures | None:
        """Return how two texts compare, None where they are different."""
        comparison = compare_read(earlier.reading, new.reading, min_jaccard=self._least)
        return None if comparison.verdict is Verdict.DIFFERENT else Measures.of(comparison)

    def _is_likely(self, shared: Overlap) -> bool:
        """Tell whether two texts share enough to be read side by side."""
        contained = max(shared.containment_a, shared.containment_b)
        return shared.jaccard >= self._least - SLACK or contained >= MIN_CONTAINMENT - SLACK

    def _hosts_with_few_pages(self, connection: sa.Connection, *hosts: str) -> list[Reason]:
        """Return why nothing could be set aside, if it could not."""
        pages = {host: self._blocks.pages(connection, host) for host in hosts}
        return [Reason(FEW_PAGES, count, MIN_PAGES) for count in pages.values() if count < MIN_PAGES]

    def _shown_under(
        self, connection: sa.Connection, one: Newcomer, ordinals: Sequence[int], batch: _Batch
    ) -> set[int]:
        """Return which of some texts were seen under the key of a new one."""
        rows = _SHOWN_THERE.rows(connection, ordinals, page=codec.url_digest(one.url_key))
        in_batch = {
            other for other in ordinals if other in batch.new and batch.new[other].url_key == one.url_key
        }
        return {row["body"] for row in rows} | in_batch

    def _held(
        self, connection: sa.Connection, candidates: Sequence[_Candidate], batch: _Batch
    ) -> dict[int, _Held]:
        """Return earlier texts, from this batch, from memory or from the ledger."""
        wanted = [one.ordinal for one in candidates]
        found = {ordinal: batch.held[ordinal] for ordinal in wanted if ordinal in batch.held}
        for ordinal in wanted:
            if ordinal in self._texts:
                self._texts.move_to_end(ordinal)
                found[ordinal] = self._texts[ordinal]
        for row in _HELD.rows(connection, [ordinal for ordinal in wanted if ordinal not in found]):
            held = found[row["ordinal"]] = _Held(
                Side(codec.unpack_body_id(row["body_id"]), codec.unpack_digest(row["text_digest"])),
                codec.unpack_observation_id(row["first_observation"]),
                codec.unescape(row["url_key"] or ""),
                codec.unpack_text(row["codec"], row["data"]),
            )
            self._texts[row["ordinal"]] = held
            self._held_chars += len(held.whole.text)
        while self._held_chars > HELD_CHARS:
            _, oldest = self._texts.popitem(last=False)
            self._held_chars -= len(oldest.whole.text)
        return found


class _Batch:
    """The new texts of one transaction, which look back at each other as well.

    Attributes:
        new: all of them, by ordinal.
        held: what comparing them takes.
        keys: the bands of the short ones.
        fingerprints: of those that have enough words.
        leaders: those so far that no earlier text leads, which the later ones find.
    """

    def __init__(self, new: Sequence[Newcomer]) -> None:
        self.new = {one.ordinal: one for one in new}
        self.held = {one.ordinal: _held_of(one) for one in new}
        short = [one for one in new if one.body.word_count < near_bands.MAX_WORDS]
        keys = band_keys([one.body.text for one in short]) if short else []
        self.keys: dict[int, Keys] = {one.ordinal: key for one, key in zip(short, keys, strict=True)}
        self.fingerprints = {
            one.ordinal: int(one.body.simhash, 16) for one in new if _has_fingerprint(one.body)
        }
        self.leaders: list[int] = []

    def earlier(self, ordinal: int, radius: int) -> Iterable[_Candidate]:
        """Return the leaders before a text that it may be similar to."""
        for leader in self.leaders:
            distance = self._distance(leader, ordinal)
            if distance is not None and distance <= radius:
                yield _Candidate(leader, distance, 0)
            elif shared := len({*self.keys.get(leader, ())} & {*self.keys.get(ordinal, ())}):
                yield _Candidate(leader, None, shared)

    def _distance(self, a: int, b: int) -> int | None:
        if a not in self.fingerprints or b not in self.fingerprints:
            return None
        return (self.fingerprints[a] ^ self.fingerprints[b]).bit_count()


def _with_set_aside(measures: Measures, a: str, b: str) -> Measures:
    """Return the measures of two texts that say the same, less what their hosts share, with a look at that.

    A notice that names a version stands on all pages of that version, and what two hosts show on their pages
    has nothing to do with each other. So only what is a version of the other side's counts.

    Args:
        measures: of what is left of the texts.
        a: what was set aside of the first text.
        b: what was set aside of the second one.
    """
    if a == b:
        return measures
    comparison = compare(a, b, min_jaccard=RELATED)
    if comparison.verdict is not Verdict.CLAIM_CHANGED and comparison.verdict is not Verdict.CONTAINS:
        return measures
    found = Measures.of(comparison)
    return replace(
        measures,
        verdict=found.verdict,
        spans=(measures.spans or 0) + (found.spans or 0),
        claim_spans=(measures.claim_spans or 0) + (found.claim_spans or 0),
    )


def _has_fingerprint(body: BodyRecord) -> bool:
    return body.word_count >= MIN_WORDS and body.simhash_scheme == SCHEME


def _nearest(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Return candidates in the order in which they are read; of equally near ones the earlier first."""
    return sorted(
        candidates,
        key=lambda one: (one.distance is None, one.distance or 0, -one.shared_bands, one.ordinal),
    )


def _held_of(one: Newcomer) -> _Held:
    side = Side(one.body.body_id, one.body.text_digest)
    return _Held(side, one.body.first_observation_id, one.url_key, one.body.text)
