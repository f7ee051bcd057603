"""Whether one passage repeats another one: exact overlap, what each has of its own, and what both claim.

Some twenty passages are compared while a reader waits, so what is shared is counted for all of them at once,
and claims are read only where two passages differ. Where that leaves a doubt the whole texts are read, by
`scrapy_dedup.near.claims`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scrapy_dedup.near.alignment import Place, differences
from scrapy_dedup.near.claim_tokens import Kind, Token, claim_tokens
from scrapy_dedup.near.claims import PASSAGE_TOKENS, Reading, Verdict, compare_read
from scrapy_dedup.near.shingles import SHINGLE_TOKENS, UNSPACED, shingle_hashes

OWN_PASSAGE_WORDS = 16
"""So many words in one place that the other passage lacks are a statement of their own: about a sentence.

Pages of one template are alike in four words of five and still say different things; small corrections
spread over a text are alike to the same degree and say the same.
"""

_FIRST_UNSPACED = chr(UNSPACED[0][0])
_PUNCTUATION = ".,;:!?"
_NO_SHINGLES = np.zeros(0, np.uint64)
_ALL_AT_ONCE = 64
"""So many passages are compared at once; more of them one by one, for the memory that takes."""


class Alike(NamedTuple):
    """How a passage is like another one: ``measure`` is Jaccard where it is ``similar``, else containment."""

    similar: bool
    measure: float


class Overlap:
    """How many shingles each passage shares with each other one.

    What is held grows with the shingles, not with the pairs of passages.

    Args:
        texts: the passages; one without words shares nothing with any.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        hashes, offsets = shingle_hashes(texts)
        owners = np.repeat(np.arange(len(texts)), np.diff(offsets))
        order = np.argsort(hashes, kind="stable")  # owners of equal shingles stay in ascending order
        hashes, owners = hashes[order], owners[order]
        is_new = np.ones(len(hashes), np.bool_)
        np.not_equal(hashes[1:], hashes[:-1], out=is_new[1:])
        is_first = is_new.copy()
        is_first[1:] |= owners[1:] != owners[:-1]
        shingles, owners = (np.cumsum(is_new) - 1)[is_first], owners[is_first]
        self.sizes: npt.NDArray[np.int64] = np.bincount(owners, minlength=len(texts))
        """The number of distinct shingles of each passage."""
        # A shingle of one passage alone is shared with none, and most are.
        is_shared = np.bincount(shingles)[shingles] > 1
        shingles, self._owners = shingles[is_shared], owners[is_shared]
        numbers = np.cumsum(np.diff(shingles, prepend=-1) != 0) - 1
        self._owners_from = _starts(np.bincount(numbers))
        self._shingles = numbers[np.argsort(self._owners, kind="stable")]
        self._shingles_from = _starts(np.bincount(self._owners, minlength=len(texts)))

    def alike(
        self,
        place: int,
        others: Sequence[int],
        *,
        jaccard: float,
        containment: float,
        min_contained: int,
        most: int,
    ) -> list[tuple[int, Alike]]:
        """Return which of some other passages one is like: where each stands among them, and how it is.

        Args:
            place: of the passage.
            others: places of the others.
            jaccard: shared shingles in all shingles of the two, from which they are alike.
            containment: the share of the passage's shingles that the other one has, from which they are.
            min_contained: a passage with fewer shingles is contained in none.
            most: of more than so many, the most similar.
        """
        if self._shingles_from[place] == self._shingles_from[place + 1]:
            return []
        places = np.asarray(others, np.int64)
        shared, size = self._shared(place)[places], int(self.sizes[place])
        # Whatever is similar or contains the passage has this much of it; mostly nothing does.
        found = np.flatnonzero(shared >= max(min(jaccard, containment) * size - 0.5, 1))
        if not len(found):
            return []
        shared, sizes = shared[found], self.sizes[places[found]]
        similar = shared >= jaccard * (size + sizes - shared)
        is_alike = similar | (shared >= containment * size) if size >= min_contained else similar
        found, similar = found[is_alike], similar[is_alike]
        shared, sizes = shared[is_alike], sizes[is_alike]
        measures = shared / np.where(similar, size + sizes - shared, size)
        if len(found) > most:
            best = np.lexsort((-measures, ~similar))[:most]
            found, similar, measures = found[best], similar[best], measures[best]
        pairs = map(Alike, similar.tolist(), measures.tolist())
        return list(zip(found.tolist(), pairs, strict=True))

    def contained(self, place: int, other: int) -> float:
        """Return the share of the smaller passage's shingles that the larger one has, 0.0 to 1.0."""
        smaller = min(int(self.sizes[place]), int(self.sizes[other]))
        common = len(np.intersect1d(self._of(place), self._of(other), assume_unique=True))
        return common / smaller if smaller else 0.0

    def new_share(self, place: int, others: Sequence[int]) -> float:
        """Return the share of a passage's shingles that none of some other passages has, 0.0 to 1.0."""
        if not self.sizes[place]:
            return 0.0
        known = np.concatenate([self._of(other) for other in others]) if others else ()
        return 1 - int(np.isin(self._of(place), known).sum()) / int(self.sizes[place])

    def _of(self, place: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the shingles that a passage shares with any."""
        start, end = self._shingles_from[place : place + 2].tolist()
        shingles: npt.NDArray[np.int64] = self._shingles[start:end]
        return shingles

    def _shared(self, place: int) -> npt.NDArray[np.int64]:
        """Return how many shingles a passage shares with each one."""
        if len(self.sizes) <= _ALL_AT_ONCE:
            row: npt.NDArray[np.int64] = self._all_shared[place]
            return row
        own = self._of(place)
        starts = self._owners_from[own]
        counts = self._owners_from[own + 1] - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        owners = self._owners[np.repeat(starts, counts) + within]
        return np.bincount(owners, minlength=len(self.sizes))

    @cached_property
    def _all_shared(self) -> npt.NDArray[np.int64]:
        """How many shingles each passage shares with each one."""
        has = np.zeros((len(self.sizes), len(self._owners_from) - 1), np.float32)
        has[self._owners, np.repeat(np.arange(has.shape[1]), np.diff(self._owners_from))] = 1
        shared: npt.NDArray[np.int64] = (has @ has.T).astype(np.int64)
        return shared


def _starts(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where runs of some lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)])


class Passages:
    """Some passages that are held against each other; each is read once at most, and so are its copies.

    Attributes:
        numbers: of the text of each passage among the distinct ones, which all methods take.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        distinct: dict[str, int] = {}
        self.numbers = [distinct.setdefault(text, len(distinct)) for text in texts]
        self._texts = [*distinct]
        self._split: dict[int, Sequence[str]] = {}
        self._readings: dict[int, Reading] = {}
        self._verdicts: dict[tuple[int, int], Verdict] = {}
        self._differing: dict[tuple[int, int], Sequence[Place]] = {}

    @cached_property
    def overlap(self) -> Overlap:
        """The shingles that the distinct texts share, counted when first asked for."""
        return Overlap(self._texts)

    def claims_differ(self, a: int, b: int) -> bool:
        """Tell whether two passages may claim different things, in whatever degree they are similar."""
        return self._judged(a, b) is Verdict.CLAIM_CHANGED

    def says_more(self, place: int, other: int) -> bool:
        """Tell whether a passage has `OWN_PASSAGE_WORDS` or more in one place that another one lacks."""
        if self._judged(other, place) is Verdict.REFORMATTED:
            return False
        places = merged(self._places_between(other, place))
        return any(end - start >= OWN_PASSAGE_WORDS for _, _, start, end in places)

    def _judged(self, a: int, b: int) -> Verdict:
        key = (min(a, b), max(a, b))
        if key not in self._verdicts:
            self._verdicts[key] = self._read_claims(a, b)
        return self._verdicts[key]

    def _read_claims(self, a: int, b: int) -> Verdict:
        if self._is_spaced(a) and self._is_spaced(b):
            screened = screened_claims(self._words(a), self._words(b), self._places_between(a, b))
            if screened is not None:
                return Verdict.CLAIM_CHANGED if screened else Verdict.EDITED
        compared = compare_read(self._reading(a), self._reading(b), min_jaccard=0.0, min_containment=0.0)
        return compared.verdict

    def _places_between(self, a: int, b: int) -> Sequence[Place]:
        if (a, b) not in self._differing:
            self._differing[a, b] = list(places_between(self._words(a), self._words(b)))
        return self._differing[a, b]

    def _words(self, place: int) -> Sequence[str]:
        if place not in self._split:
            spaced = self._is_spaced(place)
            self._split[place] = self._texts[place].split() if spaced else self._reading(place).words
        return self._split[place]

    def _is_spaced(self, place: int) -> bool:
        text = self._texts[place]
        return text.isascii() or max(text) < _FIRST_UNSPACED

    def _reading(self, place: int) -> Reading:
        if place not in self._readings:
            tokens = claim_tokens(self._texts[place])
            words = [token.text for token in tokens]
            self._readings[place] = Reading(self._texts[place], tokens, words, _NO_SHINGLES)
        return self._readings[place]


def screened_claims(a: Sequence[str], b: Sequence[str], places: Sequence[Place]) -> bool | None:
    """Tell from the words where two texts differ whether their claims do; None where that takes more reading.

    Words of small letters that no table of claims knows change none. A number, a unit or a negation that
    stands on one side alone changes one. Names are known by their place in a sentence, a long passage may
    only be added, signs may be markup: such places are left to who reads the whole texts.

    Args:
        a: the words of one text, as white space sets them apart.
        b: those of the other one.
        places: where the two differ.
    """
    in_doubt = False
    for start, end, new_start, new_end in places:
        left, right = a[start:end], b[new_start:new_end]
        if max(len(left), len(right)) >= PASSAGE_TOKENS:
            in_doubt = True
            continue
        if len(left) == len(right) == 1 and _is_number(left[0]) and _is_number(right[0]):
            return True
        differing = [*left, *right]
        # What a word is to a claim can depend on its neighbours: "m" is a unit behind a number, "#" is markup
        # at the start of a line.
        left_in_place = a[max(0, start - 1) : end + 1]
        right_in_place = b[max(0, new_start - 1) : new_end + 1]
        in_doubt = in_doubt or not all(map(_is_spoken, (*left_in_place, *right_in_place)))
        if all(map(_is_ordinary, differing)):
            continue
        in_doubt = in_doubt or not all(map(_is_plain, differing))
        if _critical(left_in_place) != _critical(right_in_place) and all(map(_is_spoken, differing)):
            return True
    return None if in_doubt else False


def merged(places: Iterable[Place]) -> Iterator[Place]:
    """Join places that lie so close together that no shingle fits between them."""
    current: Place | None = None
    for place in places:
        if current is not None and place[0] - current[1] < SHINGLE_TOKENS:
            current = (current[0], place[1], current[2], place[3])
            continue
        if current is not None:
            yield current
        current = place
    if current is not None:
        yield current


def places_between(a: Sequence[str], b: Sequence[str]) -> Iterator[Place]:
    """Yield where two texts differ; what both begin and end with is set aside at little cost."""
    least = min(len(a), len(b))
    first = next((place for place in range(least) if a[place] != b[place]), least)
    rest = least - first
    last = next((place for place in range(rest) if a[-1 - place] != b[-1 - place]), rest)
    middle, new_middle = a[first : len(a) - last], b[first : len(b) - last]
    if not middle and not new_middle:
        return
    if not middle or not new_middle or len(middle) == len(new_middle) == 1:
        yield first, first + len(middle), first, first + len(new_middle)
        return
    for start, end, new_start, new_end in differences(middle, new_middle):
        yield first + start, first + end, first + new_start, first + new_end


def _critical(words: Sequence[str]) -> list[Token]:
    tokens = claim_tokens(" ".join(words))
    return [token for token in tokens if token.kind not in (None, Kind.NAME, Kind.INITIAL)]


def _is_number(word: str) -> bool:
    """Tell whether a word is of digits alone; of two such that differ each says something else."""
    return word.rstrip(_PUNCTUATION).isdecimal()


def _is_spoken(word: str) -> bool:
    """Tell whether a word is more than signs."""
    return any(map(str.isalnum, word))


def _is_plain(word: str) -> bool:
    """Tell whether a word is of small letters alone."""
    bare = word.rstrip(_PUNCTUATION)
    return bare.isalpha() and bare.islower()


@functools.lru_cache(maxsize=65_536)
def _is_ordinary(word: str) -> bool:
    """Tell whether a word is of small letters alone and changes no claim, not even behind a number."""
    return _is_plain(word) and all(token.kind is None for token in claim_tokens(f"1 {word}")[1:])
