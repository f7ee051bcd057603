"""Exact measures of many pairs are those of Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.near.overlap import ShingleSets

SHINGLES = st.lists(st.lists(st.integers(0, 12), max_size=15), min_size=1, max_size=8)


def sets_of(lists):
    offsets = np.cumsum([0, *map(len, lists)])
    return ShingleSets(np.array([value for one in lists for value in one], np.uint64), offsets)


@given(SHINGLES, st.data())
def test_pairs_measure_as_sets_do(lists, data):
    place = st.integers(0, len(lists) - 1)
    pairs = data.draw(st.lists(st.tuples(place, place), max_size=20))
    found = sets_of(lists).overlaps(np.array(pairs, np.int64).reshape(-1, 2))

    for number, (a, b) in enumerate(pairs):
        left, right = set(lists[a]), set(lists[b])
        shared = len(left & right)
        expected = [shared / max(1, len(base)) for base in (left | right, left, right)]
        assert [column[number] for column in found] == expected


@given(SHINGLES)
def test_a_repeated_shingle_counts_once(lists):
    assert sets_of(lists).sizes.tolist() == [len(set(one)) for one in lists]
