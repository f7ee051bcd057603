"""Two texts side by side: the passages in which they differ, each with what is equal around it. Pure.

Lines are aligned first, and the words only within the lines that differ, so that two distant changes of a
text of megabytes are found like those of a short one. What is equal and far from any difference is left out
and counted. A place is marked as one that can change a claim by the rules of `scrapy_dedup.near.claims`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from scrapy_dedup.content.spans import MAX_SPANS, difference
from scrapy_dedup.near.alignment import Place, differences
from scrapy_dedup.near.claims import compare

CONTEXT_CHARS = 160
"""What is equal on either side of a difference, to read it by."""

WHOLE_CHARS = 4_000
"""Texts up to this length, both, are shown whole."""

MAX_PLACES = 200
MAX_PIECE_CHARS = 1_000
"""Of one place; of a longer one, such as a passage that the other text lacks, both ends are shown."""

_CLAIM_CONTEXT = 80
_WORD_CHARS = 40
_SPACE = re.compile(r"\s")


class Mark(str, enum.Enum):
    """What a piece of a text is to the other text."""

    EQUAL = "equal"
    DIFFERS = "differs"
    CLAIM = "claim"  # it differs in a number, date, name, negation or the like
    LEFT_OUT = "left_out"  # so many characters are not shown


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of one text; of what is left out ``chars`` says how much, and ``text`` is empty."""

    text: str
    mark: Mark
    chars: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of both texts, with at least one difference unless the texts are shown whole."""

    a: tuple[Piece, ...]
    b: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two texts, as far as they are worth reading.

    Attributes:
        passages: in the order of the texts.
        is_whole: nothing of either text is left out.
        places: where the texts differ.
        claim_places: those of them that can change a claim, among the places shown.
        more_places: how many of ``places`` are not shown.
        rest_a: the characters of the first text behind the last passage.
        rest_b: those of the second one.
    """

    passages: tuple[Passage, ...]
    is_whole: bool
    places: int
    claim_places: int
    more_places: int
    rest_a: int
    rest_b: int


def side_by_side(
    a: str,
    b: str,
    *,
    context_chars: int = CONTEXT_CHARS,
    whole_chars: int = WHOLE_CHARS,
    max_places: int = MAX_PLACES,
) -> SideBySide:
    """Return two texts as passages of pieces, which are equal or differ.

    Args:
        a: one text.
        b: the other one.
        context_chars: what is shown on either side of a difference.
        whole_chars: texts up to this length are shown whole.
        max_places: differences beyond these are counted only.

    >>> (passage,) = side_by_side("The ferry leaves at 9.", "The ferry leaves at 10.").passages
    >>> [(piece.text, piece.mark.value) for piece in passage.b]
    [('The ferry leaves at ', 'equal'), ('10', 'claim'), ('.', 'equal')]
    """
    places = list(_places(a, b))
    shown = places[:max_places]
    is_short = max(len(a), len(b)) <= whole_chars and len(shown) == len(places)
    context = max(len(a), len(b)) if is_short else context_chars
    marks = _marks(a, b, [*places[: max_places + 1]])[: len(shown)]
    runs = list(_runs(shown, context))
    passages, end_a, end_b = [], 0, 0
    for first, last in runs:
        passage = _Draft(a, b, context, end_a, end_b)
        for number in range(first, last):
            passage.add(shown[number], marks[number])
        end_a, end_b = passage.close(places[last] if last < len(places) else None)
        passages.append(passage.passage())
    if not shown:
        passages, end_a, end_b = _without_places(a, b, context)
    pieces = [piece for passage in passages for piece in (*passage.a, *passage.b)]
    rest_a, rest_b = len(a) - end_a, len(b) - end_b
    return SideBySide(
        passages=tuple(passages),
        is_whole=not (rest_a or rest_b or any(piece.mark is Mark.LEFT_OUT for piece in pieces)),
        places=len(places),
        claim_places=marks.count(Mark.CLAIM),
        more_places=len(places) - len(shown),
        rest_a=rest_a,
        rest_b=rest_b,
    )


def _without_places(a: str, b: str, context: int) -> tuple[list[Passage], int, int]:
    """Return the beginning of two equal texts."""
    shown = min(len(a), max(context, MAX_PIECE_CHARS))
    if not shown:
        return [], 0, 0
    piece = Piece(a[:shown], Mark.EQUAL, shown)
    return [Passage((piece,), (Piece(b[:shown], Mark.EQUAL, shown),))], shown, shown


# -- where two texts differ --------------------------------------------------------------------------------


def _places(a: str, b: str) -> Iterator[Place]:
    """Yield the places where two texts differ, in characters, in order; outside of them they are equal."""
    if a == b:
        return
    lines_a, lines_b = a.splitlines(keepends=True), b.splitlines(keepends=True)
    starts_a, starts_b = _starts(lines_a), _starts(lines_b)
    for start, end, other, other_end in differences(lines_a, lines_b):
        left = starts_a[start], starts_a[end]
        right = starts_b[other], starts_b[other_end]
        yield from _within(a, b, (*left, *right))


def _starts(lines: Sequence[str]) -> list[int]:
    return list(accumulate(map(len, lines), initial=0))


def _within(a: str, b: str, place: Place) -> Iterator[Place]:
    """Yield the places within lines that differ."""
    start, end, other, other_end = place
    for _ in range(MAX_PLACES // MAX_SPANS):
        if start == end or other == other_end:
            break
        found = difference(a[start:end], b[other:other_end])
        for span in found.spans:
            yield (
                start + span.before_start,
                start + span.before_end,
                other + span.after_start,
                other + span.after_end,
            )
        if len(found.spans) < MAX_SPANS:
            return
        # There may be more places than a difference has spans.
        start, other = start + found.spans[-1].before_end, other + found.spans[-1].after_end
    if a[start:end] != b[other:other_end]:
        yield start, end, other, other_end


def _marks(a: str, b: str, places: Sequence[Place]) -> list[Mark]:
    """Tell of each place whether it can change a claim, by reading it with what is equal around it."""
    edges = [0, *(edge for place in places for edge in place[:2]), len(a)]
    return [
        _mark(
            _around(a, edges[2 * number], place[0], place[1], edges[2 * number + 3]),
            (a[place[0] : place[1]], b[place[2] : place[3]]),
        )
        for number, place in enumerate(places)
    ]


def _mark(around: tuple[str, str], sides: tuple[str, str]) -> Mark:
    if max(map(len, sides)) > MAX_PIECE_CHARS:
        return Mark.DIFFERS  # a passage: more text, not another claim
    lead, tail = around
    left, right = (f"{lead}{side}{tail}" for side in sides)
    read = compare(left, right, min_jaccard=0.0)
    return Mark.CLAIM if any(span.changes_claim for span in read.spans) else Mark.DIFFERS


def _around(text: str, after: int, start: int, end: int, before: int) -> tuple[str, str]:
    """Return some words before and behind a place, as far as the places beside it."""
    first, last = max(after, start - _CLAIM_CONTEXT), min(before, end + _CLAIM_CONTEXT)
    if first > after and (space := _SPACE.search(text, first, min(first + _WORD_CHARS, start))):
        first = space.end()
    if last < before:
        spaces = [found.start() for found in _SPACE.finditer(text, max(end, last - _WORD_CHARS), last)]
        last = spaces[-1] if spaces else last
    return text[first:start], text[end:last]


# -- what is shown of them ---------------------------------------------------------------------------------


def _runs(places: Sequence[Place], context: int) -> Iterator[tuple[int, int]]:
    """Yield (first, beyond the last) of the places that stand in one passage: no gap between is too long."""
    first = 0
    for number in range(1, len(places)):
        if places[number][0] - places[number - 1][1] > 2 * context:
            yield first, number
            first = number
    if places:
        yield first, len(places)


class _Draft:
    """One passage while it grows, place by place, from where the passage before it ended."""

    def __init__(self, a: str, b: str, context: int, end_a: int, end_b: int) -> None:
        self._texts = (a, b)
        self._context = context
        self._ends = (end_a, end_b)
        self._pieces: tuple[list[Piece], list[Piece]] = ([], [])

    def add(self, place: Place, mark: Mark) -> None:
        """Add what is equal up to a place, and the place."""
        starts, ends = (place[0], place[2]), (place[1], place[3])
        left_out = 0
        if not any(self._pieces):
            left_out = _to_word(self._texts[0], self._ends[0], starts[0] - self._context, starts[0])
        for side in (0, 1):
            text, pieces, last = self._texts[side], self._pieces[side], self._ends[side]
            if left_out:
                pieces.append(Piece("", Mark.LEFT_OUT, left_out))
            _append(pieces, text[last + left_out : starts[side]], Mark.EQUAL)
            pieces.extend(_cut(text[starts[side] : ends[side]], mark))
        self._ends = ends

    def close(self, following: Place | None) -> tuple[int, int]:
        """Add what is equal behind the last place; return where the passage ends in both texts."""
        limits = (following[0], following[2]) if following else tuple(map(len, self._texts))
        room = min(limit - end for limit, end in zip(limits, self._ends, strict=True))
        tail = room
        if room > self._context:
            text, end = self._texts[0], self._ends[0]
            spaces = list(
                _SPACE.finditer(text, max(end, end + self._context - _WORD_CHARS), end + self._context)
            )
            tail = spaces[-1].end() - end if spaces else self._context
        ends = []
        for side in (0, 1):
            end = self._ends[side]
            _append(self._pieces[side], self._texts[side][end : end + tail], Mark.EQUAL)
            ends.append(end + tail)
        return ends[0], ends[1]

    def passage(self) -> Passage:
        return Passage(tuple(self._pieces[0]), tuple(self._pieces[1]))


def _to_word(text: str, last: int, start: int, end: int) -> int:
    """Return what to leave out behind ``last``, so that what is shown begins with a word near ``start``."""
    if start <= last:
        return 0
    space = _SPACE.search(text, start, min(start + _WORD_CHARS, end))
    return (space.end() if space else start) - last


def _append(pieces: list[Piece], text: str, mark: Mark) -> None:
    if text:
        pieces.append(Piece(text, mark, len(text)))


def _cut(text: str, mark: Mark) -> Iterator[Piece]:
    """Yield a place, or both ends of one that is too long."""
    if len(text) <= MAX_PIECE_CHARS:
        if text:
            yield Piece(text, mark, len(text))
        return
    half = MAX_PIECE_CHARS // 2
    yield Piece(text[:half], mark, half)
    yield Piece("", Mark.LEFT_OUT, len(text) - 2 * half)
    yield Piece(text[-half:], mark, half)
