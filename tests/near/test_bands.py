"""Bands find the pairs that theory says, and each pair of equal keys."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.near.bands import Banding, candidate_pairs
from scrapy_dedup.near.minhash import PERMUTATIONS, minhash_batch


@pytest.mark.parametrize(
    ("similarity", "bands", "rows"),
    [(0.7, 25, 5), (0.8, 18, 7), (0.9, 10, 12), (0.01, 128, 1), (1.0, 1, 128)],
)
def test_the_banding_of_a_threshold(similarity, bands, rows):
    assert Banding.for_threshold(similarity) == Banding(bands, rows)


@given(st.floats(0.05, 1.0))
def test_a_banding_reaches_the_recall_with_the_most_rows(similarity):
    banding = Banding.for_threshold(similarity)

    assert banding.probability(similarity) >= 0.95
    if banding.rows < PERMUTATIONS:
        more = Banding(PERMUTATIONS // (banding.rows + 1), banding.rows + 1)
        assert more.probability(similarity) < 0.95


def test_the_threshold_and_the_curve_of_a_banding():
    banding = Banding(18, 7)

    assert banding.threshold == pytest.approx((1 / 18) ** (1 / 7))
    assert [round(banding.probability(s), 3) for s in (0.0, 0.5, 0.8, 1.0)] == [0.0, 0.132, 0.986, 1.0]


@pytest.mark.parametrize(("bands", "rows"), [(0, 7), (18, 0), (19, 7), (129, 1)])
def test_a_banding_that_no_signature_fills_is_refused(bands, rows):
    with pytest.raises(ValueError, match="a signature has 128"):
        Banding(bands, rows)


@pytest.mark.parametrize("similarity", [0.0, -1.0, 1.01])
def test_a_similarity_outside_of_its_range_is_refused(similarity):
    with pytest.raises(ValueError, match="the similarity is"):
        Banding.for_threshold(similarity)


@given(st.lists(st.integers(0, 6), max_size=30))
def test_all_pairs_of_equal_keys_are_candidates_once(keys):
    found = [tuple(pair) for part in candidate_pairs(np.array(keys, np.uint64)) for pair in part.tolist()]

    expected = [(a, b) for a, b in itertools.combinations(range(len(keys)), 2) if keys[a] == keys[b]]
    assert sorted(found) == expected


def test_a_large_bucket_is_paired_with_its_first_text_and_with_neighbours():
    found = {tuple(pair) for part in candidate_pairs(np.zeros(6, np.uint64), 5) for pair in part.tolist()}

    assert found == {(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)}


def test_equal_values_of_a_band_have_equal_keys_and_other_bands_do_not():
    banding = Banding(18, 7)
    signatures = minhash_batch(["one text of five words", "quite another one of seven words here"])
    signatures[1, 14:21] = signatures[0, 14:21]

    equal = [bool(np.equal(*banding.keys(signatures, band))) for band in range(18)]

    assert equal == [band == 2 for band in range(18)]
