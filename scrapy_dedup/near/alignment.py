"""Where two sequences differ: the patience difference of Bram Cohen, in bounded time.

A longest common subsequence takes time in the product of both lengths. Units that occur once in each sequence
and stand in one order are anchors; between two anchors what is equal at both ends is set aside, and the few
units that are left go to `difflib` as long as `MAX_WORK` lasts. Beyond that a place may cover more than what
differs, but never less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

MAX_WORK = 200_000
"""Pairs of units that `difflib` may compare for two sequences, a tenth of a second when they are unkind."""

Place = tuple[int, int, int, int]
"""Start and end in the first sequence, start and end in the second one."""


def differences(before: Sequence[Hashable], after: Sequence[Hashable]) -> Iterator[Place]:
    """Yield the places where two sequences differ, in order; outside of them they are equal.

    >>> list(differences("It is 5 m high".split(), "It is 15 m".split()))
    [(2, 3, 2, 3), (4, 5, 4, 4)]
    """
    work = MAX_WORK
    for place in between_anchors(before, after):
        start, end, new_start, new_end = place
        price = (end - start) * (new_end - new_start)
        if price == 0 or price > work:
            yield place
            continue
        work -= price
        for first, last, new_first, new_last in unmatched(before[start:end], after[new_start:new_end]):
            yield start + first, start + last, new_start + new_first, new_start + new_last


def between_anchors(before: Sequence[Hashable], after: Sequence[Hashable]) -> Iterator[Place]:
    """Yield the places between the units that stand in both: anchors, and what is equal beside them."""
    anchors = [(-1, -1), *_anchors(before, after), (len(before), len(after))]
    for (left, new_left), (right, new_right) in pairwise(anchors):
        first, new_first = left + 1, new_left + 1
        last, new_last = right, new_right
        while first < last and new_first < new_last and before[first] == after[new_first]:
            first, new_first = first + 1, new_first + 1
        while first < last and new_first < new_last and before[last - 1] == after[new_last - 1]:
            last, new_last = last - 1, new_last - 1
        if first < last or new_first < new_last:
            yield first, last, new_first, new_last


def unmatched(before: Sequence[Hashable], after: Sequence[Hashable]) -> Iterator[Place]:
    """Yield the places where two sequences differ, in time that grows with the product of both lengths."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag != "equal":
            yield first, last, new_first, new_last


def _anchors(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the indices of units that occur once in each sequence, the most that have one order in both."""
    counts, new_counts = Counter(before), Counter(after)
    indices = {unit: index for index, unit in enumerate(after) if new_counts[unit] == 1}
    pairs = [
        (index, indices[unit]) for index, unit in enumerate(before) if counts[unit] == 1 and unit in indices
    ]
    return _longest_increasing(pairs)


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs whose second numbers increase (patience sorting)."""
    lowest: list[int] = []  # the smallest end of a run of each length
    ends: list[int] = []  # which pair that is
    earlier: list[int] = []  # the pair before each pair in its run; -1: none
    for number, (_, value) in enumerate(pairs):
        length = bisect_left(lowest, value)
        earlier.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [value]
        ends[length : length + 1] = [number]
    run: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        run.append(pairs[number])
        number = earlier[number]
    return run[::-1]
