"""What differs between two texts, as spans of words. Pure, deterministic, and fast for every pair.

A longest common subsequence takes time in the product of both lengths, a second for a thousand words a side.
So the texts are aligned in steps, each on what the one before left open (see `scrapy_dedup.near.alignment`):

0. what is common at both ends is set aside;
1. lines that occur once in each text are anchors; the longest run of them in the order of both stays;
2. between two anchors the same is done with the words;
3. what is still open, a few words that repeat, goes to `difflib` as long as `MAX_WORK` lasts.

What is open after that is one span: it may cover more than what differs, but never less. The spans in order
turn the first text into the second one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from scrapy_dedup.near.alignment import MAX_WORK, Place, between_anchors, unmatched
from scrapy_dedup.near.shingles import UNSPACED
from scrapy_dedup.records import Span

MAX_SPANS = 20
"""Spans of one difference; whoever wants more of it compares the texts."""

MAX_SPAN_CHARS = 500
CONTEXT_CHARS = 40
MAX_OPEN_CHARS = 200_000
"""Of both texts together, less what they have in common at both ends; more is one span, unread."""

_WORD = re.compile(r"\w")
_SPACES = (" ", "\n")


@dataclass(frozen=True, slots=True)
class Difference:
    """The spans in which two texts differ, in order.

    Attributes:
        spans: at most `MAX_SPANS`, each with at most `MAX_SPAN_CHARS` of either text.
        is_cut: there are more spans than these, or longer ones than they show.
    """

    spans: tuple[Span, ...]
    is_cut: bool


def difference(before: str, after: str) -> Difference:
    """Return where and how ``after`` differs from ``before``.

    >>> [(span.before, span.after) for span in difference("It is 5 m high.", "It is 15 m high.").spans]
    [('5', '15')]
    """
    places = list(_joined(_places(before, after), before))
    shown = places[:MAX_SPANS]
    is_cut = len(places) > len(shown) or any(
        max(end - start, new_end - new_start) > MAX_SPAN_CHARS for start, end, new_start, new_end in shown
    )
    bounds = [0, *(bound for start, end, _, _ in places for bound in (start, end)), len(before)]
    spans = [
        _span(before, after, place, lead_from=bounds[2 * number], tail_to=bounds[2 * number + 3])
        for number, place in enumerate(shown)
    ]
    return Difference(tuple(spans), is_cut)


def _span(before: str, after: str, place: Place, *, lead_from: int, tail_to: int) -> Span:
    """Return the span at a place; its context ends where the neighbouring spans begin."""
    start, end, new_start, new_end = place
    return Span(
        before=before[start : min(end, start + MAX_SPAN_CHARS)],
        after=after[new_start : min(new_end, new_start + MAX_SPAN_CHARS)],
        before_start=start,
        before_end=end,
        after_start=new_start,
        after_end=new_end,
        lead=before[max(lead_from, start - CONTEXT_CHARS) : start],
        tail=before[end : min(tail_to, end + CONTEXT_CHARS)],
    )


def _places(before: str, after: str) -> Iterator[Place]:
    if before == after:
        return
    common = _common_ends(before, after)
    whole = _out_to_spaces(before, common)
    if whole[1] - whole[0] + whole[3] - whole[2] > MAX_OPEN_CHARS:
        yield common
        return
    work = MAX_WORK
    middle, new_middle = _cut(before, after, whole)
    for lines in _open(middle.splitlines(keepends=True), new_middle.splitlines(keepends=True)):
        a, b = _cut(middle, new_middle, lines)
        for words in _open(_words(a), _words(b)):
            left, right = map(_words, _cut(a, b, words))
            price = len(left) * len(right)
            closer: Iterable[Place] = [(0, words[1] - words[0], 0, words[3] - words[2])]
            if price <= work:
                work -= price
                closer = _in_characters(unmatched(left, right), left, right)
            yield from (_moved(_moved(_moved(place, words), lines), whole) for place in closer)


def _cut(before: str, after: str, place: Place) -> tuple[str, str]:
    return before[place[0] : place[1]], after[place[2] : place[3]]


def _moved(place: Place, within: Place) -> Place:
    start, end, new_start, new_end = place
    return start + within[0], end + within[0], new_start + within[2], new_end + within[2]


def _common_ends(before: str, after: str) -> Place:
    """Return the place between what two texts that differ have in common at both ends."""
    shorter = min(len(before), len(after))
    head = _largest(shorter, lambda size: before[:size] == after[:size])
    tail = _largest(shorter - head, lambda size: before[len(before) - size :] == after[len(after) - size :])
    return head, len(before) - tail, head, len(after) - tail


def _out_to_spaces(before: str, place: Place) -> Place:
    """Return a place that cuts no word: widened to the next spaces, or the ends, of what is common."""
    start, end, _, new_end = place
    head = max(before.rfind(space, 0, start) for space in _SPACES) + 1
    found = [at for space in _SPACES if (at := before.find(space, end)) >= 0]
    last = min(found, default=len(before))
    return head, last, head, last + new_end - end


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest size up to ``most`` that holds; 0 does, and all below one that does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _open(before: Sequence[str], after: Sequence[str]) -> Iterator[Place]:
    return _in_characters(between_anchors(before, after), before, after)


def _in_characters(places: Iterable[Place], before: Iterable[str], after: Iterable[str]) -> Iterator[Place]:
    """Yield places among pieces as places in the texts that the pieces make up."""
    starts, new_starts = (list(accumulate(map(len, pieces), initial=0)) for pieces in (before, after))
    for first, last, new_first, new_last in places:
        yield starts[first], starts[last], new_starts[new_first], new_starts[new_last]


def _joined(places: Iterable[Place], before: str) -> Iterator[Place]:
    """Yield the places, joined where no word stands between two: ``5.3`` became ``6.4``."""
    held: Place | None = None
    for place in places:
        if held is not None and not _WORD.search(before, held[1], place[0]):
            held = (held[0], place[1], held[2], place[3])
            continue
        if held is not None:
            yield held
        held = place
    if held is not None:
        yield held


def _words(text: str) -> list[str]:
    """Return the pieces that make up a text: words, characters of unspaced scripts, spaces, other signs."""
    found: list[str] = _pieces().findall(text)
    return found


@functools.lru_cache(maxsize=1)
def _pieces() -> re.Pattern[str]:
    unspaced = "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in UNSPACED)
    return re.compile(rf"[{unspaced}]|[^\W{unspaced}]+|\s+|.", re.DOTALL)
