"""Hits of a search without their repetitions: five copies of a paragraph become one, and four others move up.

A hit repeats another one when the ledger has put both into one group, when their texts are equal or share
nearly all, or, where vectors are given, when these point the same way. It is held against hits that are kept
and against no others, so no chain of small steps leads from one passage to an unlike one. Whatever the
measure says, two passages whose claims differ are both kept, and so is one that says something of its own.

Everything here is pure: hits go in, and the same objects come out with what was found.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from operator import index
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from scrapy_dedup.near.claims import MIN_CONTAINMENT, MIN_JACCARD
from scrapy_dedup.retrieval.repetition import Passages

H = TypeVar("H")

MAX_DISTANCE_BITS = 3
"""SimHash fingerprints that differ in no more: about 98 % of the shingles are shared."""

MIN_COSINE = 0.95
"""Of two vectors; below it lie passages on one subject that say different things."""

MIN_CONTAINED_SHINGLES = 8
"""A shorter passage, a heading or a phrase, stands in many others by chance."""

MIN_NEW_TEXT = 0.5
"""A hit brings new text when at least so many of its shingles stand in no hit that was taken before it."""

MAX_READ = 50
"""Kept hits that one is read beside, of texts the most similar; if all claim something else, it stays."""

_VECTORS_AT_ONCE = 64
"""Of so many the cosines with all others are held: for twenty hits all, for thousands some megabytes."""

MOSTLY_SHARED = 0.5
"""From this containment on, vectors tell of the text that two passages share more than of what they say."""


class DropReason(str, enum.Enum):
    """Why a hit is not among those that are kept."""

    NOT_VISIBLE = "not_visible"  # the reader may see none of its sources
    SAME_GROUP = "same_group"  # the ledger has put it and the kept one into one group
    SAME_TEXT = "same_text"
    JACCARD = "jaccard"  # it shares nearly all of its text with the kept one
    CONTAINED = "contained"  # nearly all of it stands in the kept one
    SIMHASH = "simhash"
    COSINE = "cosine"
    SAME_LINEAGE = "same_lineage"  # beyond the limit: what it reports may stem from where a kept one has it
    LITTLE_NEW_TEXT = "little_new_text"  # beyond the limit: most of it stands in the kept ones
    OVER_LIMIT = "over_limit"


@dataclass(frozen=True, slots=True)
class Hit:
    """A hit of a search, for callers whose own objects have no such names.

    Attributes:
        text: the passage.
        score: higher is better.
        id: its identity in the index.
        url: the page to cite.
        sources: further pages that show it.
        group: of similar passages, as the chunk records state it: the id of the one that leads the group.
        simhash: 16 hexadecimal digits, as the chunk records state it.
        vector: its embedding.
        lineage: names an origin (an event, a wire report) that several texts may stem from, where nobody
            knows whether they report it independently.
    """

    text: str
    score: float | None = None
    id: str | None = None
    url: str | None = None
    sources: Sequence[str] = ()
    group: str | None = None
    simhash: str | None = None
    vector: Sequence[float] | None = None
    lineage: str | None = None


@dataclass(frozen=True, slots=True)
class Kept(Generic[H]):
    """A hit that is kept.

    Attributes:
        hit: the object that was given.
        source: the page to cite, the first that the reader may see; None where none is known.
        also_seen_at: other pages that show the text: its own, and those of its repetitions but for
            `DropReason.COSINE`.
    """

    hit: H
    source: str | None
    also_seen_at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dropped(Generic[H]):
    """A hit that is not kept.

    Attributes:
        hit: the object that was given.
        reason: see `DropReason`.
        measure: what the reason is based on: similarity, containment, cosine or share of new text (0.0 to
            1.0), or differing bits; None where nothing was measured.
        kept: the hit that it repeats, which a limit may have left out itself; None where it repeats none.
    """

    hit: H
    reason: DropReason
    measure: float | None = None
    kept: H | None = None


class _Read(NamedTuple):
    """What is known of a hit, whatever object it is."""

    text: str
    score: float | None
    id: str | None
    urls: tuple[str, ...]
    group: str | None
    simhash: int | None
    vector: Sequence[float] | None
    lineage: str | None


class _Repetition(NamedTuple):
    """Which kept hit another one repeats, by place."""

    reason: DropReason
    measure: float | None
    kept: int


@dataclass(frozen=True, slots=True)
class _Thresholds:
    jaccard: float
    containment: float
    distance_bits: int
    cosine: float

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}; it has to be above 0 and at most 1"
            for name, value in (
                ("jaccard", self.jaccard),
                ("containment", self.containment),
                ("cosine", self.cosine),
            )
            if not 0 < value <= 1
        ]
        if not 0 <= self.distance_bits <= 64:
            problems.append(f"distance_bits is {self.distance_bits}; it has to be 0 to 64")
        if problems:
            raise ValueError("; ".join(problems))


def dedupe_hits(
    hits: Iterable[H],
    limit: int | None = None,
    *,
    visible: Callable[[str], bool] | None = None,
    diverse: bool = False,
    jaccard: float = MIN_JACCARD,
    containment: float = MIN_CONTAINMENT,
    distance_bits: int = MAX_DISTANCE_BITS,
    cosine: float = MIN_COSINE,
) -> tuple[list[Kept[H]], list[Dropped[H]]]:
    """Keep the best hit of each passage that is there several times, and say what became of the others.

    The best is the one with the highest score where all hits have one, else the first. Nothing is reordered:
    what is kept and what is dropped each come in the order of the hits. The hits are not changed.

    Ask the index for more than the reader is to get, twenty for five, and call this before a reranker.

    Args:
        hits: mappings or objects with ``text`` and, as far as known, the other names of `Hit`. Chunk records
            are such objects. ``sources`` may be URLs, objects or mappings with a ``url``, or a string with a
            URL on each line.
        limit: keep the best of them, so many at most.
        visible: tells whether the reader may see a URL. A hit is cited by the first URL that it is true for;
            without any, the hit is dropped, and so is one that has no source.
        diverse: within the limit, take hits first that bring new text, or another lineage than those taken.
            What is left over fills up the rest, and without a limit nothing changes. Nothing is ever counted
            by site: two different pages of one publisher both stay.
        jaccard: share of common word triples in all of two passages, from which they are the same.
        containment: share of a hit's word triples that the kept one has, from which it adds nothing.
        distance_bits: differing bits of two SimHash fingerprints, up to which they are the same.
        cosine: of two vectors, from which they are the same.

    Returns:
        What is kept, and what is dropped; each hit is in one of the two.

    Raises:
        ValueError: a limit or a threshold is out of range.
        TypeError: a field of a hit is of no type that it can have, or a hit has no field to compare it by.

    >>> kept, dropped = dedupe_hits(
    ...     [
    ...         {"text": "The gate closes at nine in the evening.", "url": "https://a.example/"},
    ...         {"text": "Bicycles are kept in the yard.", "url": "https://b.example/"},
    ...         {"text": "The gate closes at nine in the evening.", "url": "https://c.example/"},
    ...     ]
    ... )
    >>> [(one.source, one.also_seen_at) for one in kept]
    [('https://a.example/', ('https://c.example/',)), ('https://b.example/', ())]
    >>> [(one.hit["url"], one.reason.value, one.measure) for one in dropped]
    [('https://c.example/', 'same_text', 1.0)]
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit is {limit}; it has to be 0 or more")
    given = [*hits]
    read = [_read(hit, place) for place, hit in enumerate(given)]
    cited = [one.urls if visible is None else tuple(filter(visible, one.urls)) for one in read]
    order = _by_priority(read)
    comparing = _Comparing(read, order, _Thresholds(jaccard, containment, distance_bits, cosine))
    for place in order:
        if visible is None or cited[place]:
            comparing.add(place)
    passed_over = _passed_over(comparing, read, limit, diverse=diverse)
    seen_at = {place: [*cited[place]] for place in comparing.kept if place not in passed_over}
    dropped: list[Dropped[H]] = []
    for place, hit in enumerate(given):
        if place in seen_at:
            continue
        repetition = comparing.repetitions.get(place)
        if repetition is None:
            dropped.append(Dropped(hit, *passed_over.get(place, (DropReason.NOT_VISIBLE, None))))
            continue
        reason, measure, kept_place = repetition
        dropped.append(Dropped(hit, reason, measure, given[kept_place]))
        if kept_place in seen_at and reason is not DropReason.COSINE:  # a vector proves no text
            seen_at[kept_place] += cited[place]
    kept = []
    for place in sorted(seen_at):
        urls = tuple(dict.fromkeys(seen_at[place]))
        kept.append(Kept(given[place], urls[0] if urls else None, urls[1:]))
    return kept, dropped


class _Comparing:
    """Takes hits in the order of their priority, and tells which of them repeat one that was kept."""

    def __init__(self, read: Sequence[_Read], order: Sequence[int], thresholds: _Thresholds) -> None:
        self._read = read
        self._thresholds = thresholds
        self.kept: list[int] = []
        self.repetitions: dict[int, _Repetition] = {}
        self._of_group: dict[str, list[int]] = {}
        self._of_text: dict[str, int] = {}
        self._without_group: list[int] = []  # kept ones that the ledger has not compared with others
        self._has_vectors = sum(one.vector is not None for one in read) > 1
        self._order = order

    def add(self, place: int) -> None:
        """Keep a hit, or find which kept one it repeats."""
        one = self._read[place]
        found = self._same_group(place) or self._same_text(place) or self._alike(place)
        if found is not None:
            self.repetitions[place] = found
            return
        self.kept.append(place)
        if one.text:
            self._of_text.setdefault(one.text, place)
        if one.group is None:
            self._without_group.append(place)
        else:
            self._of_group.setdefault(one.group, []).append(place)

    @cached_property
    def passages(self) -> Passages:
        """The texts, read as far as they are needed."""
        return Passages([one.text for one in self._read])

    def _same_group(self, place: int) -> _Repetition | None:
        one = self._read[place]
        if one.group is None:
            return None
        for number, kept in enumerate(self._of_group.get(one.group, ())):
            other = self._read[kept]
            # Whoever made the group has read each member beside its leader, but not two members.
            was_read = one.group in (one.id, other.id) or one.text == other.text
            if was_read or (number < MAX_READ and not self._claims_differ(kept, place)):
                return _Repetition(DropReason.SAME_GROUP, None, kept)
        return None

    def _same_text(self, place: int) -> _Repetition | None:
        kept = self._of_text.get(self._read[place].text)
        return None if kept is None else _Repetition(DropReason.SAME_TEXT, 1.0, kept)

    def _alike(self, place: int) -> _Repetition | None:
        """Hold a hit against the kept ones; those in another group of the ledger were compared there."""
        compared = self._without_group if self._read[place].group is not None else self.kept
        found = self._by_text(place, compared) or self._by_simhash(place, compared) if compared else None
        return self._by_vector(place) if found is None and self._has_vectors else found

    def _by_text(self, place: int, compared: Sequence[int]) -> _Repetition | None:
        numbers = self.passages.numbers
        candidates = self.passages.overlap.alike(
            numbers[place],
            [numbers[kept] for kept in compared],
            jaccard=self._thresholds.jaccard,
            containment=self._thresholds.containment,
            min_contained=MIN_CONTAINED_SHINGLES,
            most=MAX_READ,
        )
        # One that is similar comes before one that contains the hit and more; else the best one first.
        for number, alike in sorted(candidates, key=lambda candidate: not candidate[1].similar):
            kept = compared[number]
            if not self._says_something_else(kept, place):
                reason = DropReason.JACCARD if alike.similar else DropReason.CONTAINED
                return _Repetition(reason, alike.measure, kept)
        return None

    def _by_simhash(self, place: int, compared: Sequence[int]) -> _Repetition | None:
        own = self._read[place].simhash
        if not own:  # that of a text without words is zero, and near to nothing
            return None
        read = 0
        for kept in compared:
            theirs = self._read[kept].simhash
            distance = (own ^ theirs).bit_count() if theirs else 64
            if distance > self._thresholds.distance_bits:
                continue
            if not self._says_something_else(kept, place):
                return _Repetition(DropReason.SIMHASH, distance, kept)
            read += 1
            if read == MAX_READ:
                break
        return None

    def _by_vector(self, place: int) -> _Repetition | None:
        cosines = self._vectors.cosines(place)
        numbers = self.passages.numbers
        near = (kept for kept in self.kept if cosines[kept] >= self._thresholds.cosine)
        for kept in islice(near, MAX_READ):
            shared = self.passages.overlap.contained(numbers[place], numbers[kept])
            mostly_shared = shared >= MOSTLY_SHARED
            differs = self._says_something_else if mostly_shared else self._claims_differ
            if not differs(kept, place):
                return _Repetition(DropReason.COSINE, float(cosines[kept]), kept)
        return None

    @cached_property
    def _vectors(self) -> _Vectors:
        return _Vectors([one.vector for one in self._read], self._order)

    def _claims_differ(self, kept: int, place: int) -> bool:
        has_texts = self._read[kept].text and self._read[place].text
        numbers = self.passages.numbers
        return bool(has_texts) and self.passages.claims_differ(numbers[kept], numbers[place])

    def _says_something_else(self, kept: int, place: int) -> bool:
        has_texts = self._read[kept].text and self._read[place].text
        number, other = self.passages.numbers[place], self.passages.numbers[kept]
        return bool(has_texts) and (
            self.passages.claims_differ(other, number) or self.passages.says_more(number, other)
        )


class _Vectors:
    """The vectors of hits, by their length, for the cosine of each two that have one length.

    Args:
        given: the vector of each hit, None where there is none.
        order: of the hits, in which they are asked for.
    """

    def __init__(self, given: Sequence[Any], order: Sequence[int]) -> None:
        self._count = len(given)
        self._rows: dict[int, tuple[int, int]] = {}  # place: length, and row among those of this length
        self._units: dict[int, npt.NDArray[np.float64]] = {}
        self._places: dict[int, npt.NDArray[np.int64]] = {}
        self._block: tuple[tuple[int, int], npt.NDArray[np.float64]] | None = None
        by_length: dict[int, list[tuple[int, npt.NDArray[np.float64]]]] = {}
        for place in order:
            if (vector := _vector(given[place], place)) is not None:
                by_length.setdefault(len(vector), []).append((place, vector))
        for length, found in by_length.items():
            vectors = np.array([vector for _, vector in found])
            with np.errstate(over="ignore", invalid="ignore"):  # what is too long counts as unusable
                lengths = np.linalg.norm(vectors, axis=1)
            usable = np.isfinite(lengths) & (lengths > 0)
            self._units[length] = vectors[usable] / lengths[usable, None]
            self._places[length] = np.array([place for place, _ in found], np.int64)[usable]
            self._rows.update(
                (place, (length, row)) for row, place in enumerate(self._places[length].tolist())
            )

    def cosines(self, place: int) -> npt.NDArray[np.float64]:
        """Return the cosine with each one; -1 where one is missing, of other length or without direction."""
        cosines = np.full(self._count, -1.0)
        if place in self._rows:
            length, row = self._rows[place]
            number, within = divmod(row, _VECTORS_AT_ONCE)
            if self._block is None or self._block[0] != (length, number):
                units = self._units[length]
                first = number * _VECTORS_AT_ONCE
                self._block = (length, number), units[first : first + _VECTORS_AT_ONCE] @ units.T
            cosines[self._places[length]] = self._block[1][within]
        return cosines


# -- the limit ---------------------------------------------------------------------------------------------

_PassedOver = Mapping[int, tuple[DropReason, float | None]]


def _passed_over(
    comparing: _Comparing, read: Sequence[_Read], limit: int | None, *, diverse: bool
) -> _PassedOver:
    """Return which of the kept hits the limit leaves no room for, and why they and not others."""
    best = comparing.kept
    if limit is None or len(best) <= limit:
        return {}
    wanting = _wanting(comparing.passages, read, best, limit) if diverse else {}
    taken = [place for place in best if place not in wanting][:limit]
    taken += [place for place in best if place in wanting][: limit - len(taken)]
    left = {*best} - {*taken}
    return {place: wanting.get(place, (DropReason.OVER_LIMIT, None)) for place in left}


def _wanting(passages: Passages, read: Sequence[_Read], best: Sequence[int], limit: int) -> _PassedOver:
    """Return which hits bring little that those before them do not, as long as there is room."""
    wanting: dict[int, tuple[DropReason, float | None]] = {}
    lineages: set[str] = set()
    taken: list[int] = []
    for place in best:
        if len(taken) == limit:
            break
        lineage = read[place].lineage
        numbers = passages.numbers
        new = passages.overlap.new_share(numbers[place], [numbers[other] for other in taken])
        if lineage is not None and lineage in lineages:
            wanting[place] = (DropReason.SAME_LINEAGE, None)
        elif new < MIN_NEW_TEXT:
            wanting[place] = (DropReason.LITTLE_NEW_TEXT, new)
        else:
            taken.append(place)
            lineages.update([lineage] if lineage is not None else [])
    return wanting


def _by_priority(read: Sequence[_Read]) -> Sequence[int]:
    """Return the places of the hits, the best first; equally good ones as they come."""
    scores = [math.nan if one.score is None else one.score for one in read]
    if any(map(math.isnan, scores)):
        return range(len(read))
    return sorted(range(len(read)), key=scores.__getitem__, reverse=True)


# -- reading hits ------------------------------------------------------------------------------------------

_NAMES = ("text", "score", "id", "url", "sources", "group", "simhash", "vector", "lineage")
_COMPARED = ("text", "group", "simhash", "vector")


def _read(hit: Any, place: int) -> _Read:
    if type(hit) is dict or isinstance(hit, Mapping):
        values: Iterator[Any] = map(hit.get, _NAMES)
    else:
        values = (getattr(hit, name, None) for name in _NAMES)
    text, score, identity, url, sources, group, simhash, vector, lineage = values
    if text is None:
        if not any(map(hit.__contains__ if isinstance(hit, Mapping) else partial(hasattr, hit), _COMPARED)):
            raise TypeError(f"hit {place}, of type {type(hit).__name__}, has none of {', '.join(_COMPARED)}")
        text = ""
    elif not isinstance(text, str):
        raise TypeError(f"the text of hit {place} is of type {type(text).__name__}; it has to be a string")
    try:
        hash((group, lineage))  # they are looked up
        return _Read(
            text,
            None if score is None else float(score),
            identity,
            _urls(url, sources),
            group,
            _number_of(simhash),
            vector,
            lineage,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"hit {place} cannot be read: {error}") from error


def _vector(vector: Any, place: int) -> npt.NDArray[np.float64] | None:
    if vector is None:
        return None
    try:
        numbers = np.asarray(vector, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"the vector of hit {place} cannot be read: {error}") from error
    if numbers.ndim != 1:
        raise TypeError(
            f"the vector of hit {place} has {numbers.ndim} dimensions; it has to be a row of numbers"
        )
    return numbers


def _number_of(simhash: Any) -> int | None:
    return int(simhash, 16) if isinstance(simhash, str) else None if simhash is None else index(simhash)


def _urls(url: Any, sources: Any) -> tuple[str, ...]:
    if url is not None and not isinstance(url, str):
        raise TypeError(f"its url is of type {type(url).__name__}; it has to be a string")
    if not sources:
        return () if url is None else (url,)
    if isinstance(sources, str):
        listed = sources.splitlines()
    else:
        listed = [_url_of(source) for source in sources if not _is_similar(source)]
    return tuple(dict.fromkeys(listed if url is None else [url, *listed]))


def _is_similar(source: Any) -> bool:
    """Tell whether a source shows another text, which that of the hit stands for; see `ChunkSource`."""
    if isinstance(source, str):
        return False
    stated = source.get("similar") if isinstance(source, Mapping) else getattr(source, "similar", False)
    return stated is True


def _url_of(source: Any) -> str:
    if isinstance(source, Mapping):
        source = source.get("url")
    elif not isinstance(source, str):
        source = getattr(source, "url", None)
    if not isinstance(source, str):
        raise TypeError("a source has to be a URL, or something with a url")
    return source
