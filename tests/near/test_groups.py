"""Groups form around leaders by direct pairs alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.near.groups import leaders

CASES = {
    "nothing": ([], [], {}),
    "no pairs": (["a", "b"], [], {"a": "a", "b": "b"}),
    "the first by priority leads": (["b", "a"], [("a", "b", 0.9)], {"b": "b", "a": "b"}),
    "a chain makes no group of its ends": (
        ["a", "b", "c"],
        [("a", "b", 0.9), ("b", "c", 0.9)],
        {"a": "a", "b": "a", "c": "c"},
    ),
    "the most similar leader is joined": (
        ["a", "b", "c"],
        [("a", "c", 0.8), ("c", "b", 0.9)],
        {"a": "a", "b": "b", "c": "b"},
    ),
    "of equally similar leaders the first": (
        ["a", "b", "c"],
        [("c", "b", 0.9), ("a", "c", 0.9)],
        {"a": "a", "b": "b", "c": "a"},
    ),
    "a member is no leader to join": (
        ["a", "b", "c"],
        [("a", "b", 0.8), ("b", "c", 0.99), ("a", "c", 0.8)],
        {"a": "a", "b": "a", "c": "a"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_leaders(case):
    order, pairs, expected = CASES[case]

    assert leaders(order, pairs) == expected


def test_a_pair_of_an_unknown_text_is_an_error():
    with pytest.raises(KeyError):
        leaders(["a"], [("a", "b", 0.9)])


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 12), st.integers(0, 12)).filter(lambda pair: pair[0] < pair[1]),
        st.floats(0.8, 1.0),
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_every_member_has_a_pair_with_its_leader_and_the_order_of_pairs_does_not_matter(measured, source):
    pairs = [(a, b, similarity) for (a, b), similarity in measured.items()]
    order = list(range(13))
    found = leaders(order, pairs)
    source.shuffle(pairs)

    assert leaders(order, [(b, a, similarity) for a, b, similarity in pairs]) == found
    for text, leader in found.items():
        assert found[leader] == leader
        assert text == leader or (min(text, leader), max(text, leader)) in measured
    for text, leader in found.items():  # and no leader could have joined an earlier one
        if text == leader:
            assert not [other for other in range(text) if found[other] == other and (other, text) in measured]
