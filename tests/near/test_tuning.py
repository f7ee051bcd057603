"""Measures of labelled pairs, what thresholds make of them, and which one is recommended."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_dedup.near import simhash_batch
from scrapy_dedup.near.claims import Verdict
from scrapy_dedup.near.schemes import PRODUCT, SCHEMES, Scheme, character_hashes
from scrapy_dedup.near.shingles import shingle_hashes, tokens, word_hashes
from scrapy_dedup.near.simhash import vote
from scrapy_dedup.near.tuning import (
    DISTANCES,
    JACCARDS,
    LabelledPair,
    Measure,
    MeasuredPair,
    Radius,
    all_scores,
    best_rule,
    better_schemes,
    measure_pairs,
    radius_for,
    recommended,
    scores,
    unfit_for_advice,
)

TEXTS = st.lists(st.text("ab é東京\u0e01ß_.-", max_size=25), min_size=1, max_size=4)

OWN = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "labelled-pairs.jsonl")
    .read_text("utf-8")
    .splitlines()
]
KINDS = ("navigation", "notice", "translation", "correction", "report")


def own_pairs(without: str = "none") -> list[LabelledPair]:
    return [
        LabelledPair(line, row["a"], row["b"], row["same"], row["note"])
        for line, row in enumerate(OWN, 1)
        if without not in row["language"]
    ]


def measured(same, jaccard, bits=0, *, verdict=Verdict.EDITED, tokens=200, words=200, line=1):
    """A pair with these measures under every scheme."""
    count = len(SCHEMES)
    return MeasuredPair(
        line, same, "", tokens, words, verdict, jaccard, jaccard, (), (bits,) * count, (jaccard,) * count
    )


# -- schemes


@pytest.mark.parametrize(
    ("scheme", "golden"),
    [
        ("simhash64-w1-1", "5e2f228a0bd28461"),
        ("simhash64-w5-1", "a369708e8700a640"),
        ("simhash64-c4-1", "5e71a864c68b8760"),
    ],
)
def test_the_values_of_a_scheme_stay(scheme, golden):
    (found,) = (one for one in SCHEMES if one.name == scheme)
    (value,) = vote(*found.shingles(["The bridge is open, and the ferry sails."])).tolist()
    assert f"{value:016x}" == golden


@given(TEXTS)
def test_the_scheme_of_the_product_is_the_stored_one(texts):
    assert [f"{value:016x}" for value in vote(*PRODUCT.shingles(texts)).tolist()] == simhash_batch(texts)
    assert np.array_equal(PRODUCT.shingles(texts)[0], shingle_hashes(texts)[0])


@given(TEXTS, st.sampled_from(SCHEMES))
def test_a_shingle_is_a_run_of_tokens_and_of_one_text(texts, scheme):
    """Equal runs have equal hashes, unequal ones do not, wherever they stand."""
    found, offsets = scheme.shingles(texts)
    cut = {"w": word_hashes, "c": character_hashes}[scheme.tokeniser]
    all_tokens, bounds = cut(texts)
    expected = []
    for place in range(len(texts)):
        own = all_tokens[bounds[place] : bounds[place + 1]].tolist()
        size = min(scheme.length, len(own))
        runs = [tuple(own[at : at + size]) for at in range(len(own) - size + 1)] if own else []
        assert offsets[place + 1] - offsets[place] == len(runs)
        expected += runs
    pairs = Counter(zip(expected, found.tolist(), strict=True))
    assert len(pairs) == len(set(expected)) == len(set(found.tolist()))


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        pytest.param("Ab, c!", "ab c", id="one space for all that stands between words"),
        pytest.param("東京 都", "東京都", id="no space where the script has none"),
        pytest.param("go 東京 go", "go東京go", id="nor between two scripts of which one has none"),
        pytest.param(" ... ", "", id="no characters where no words are"),
    ],
)
def test_characters_are_those_of_words(text, characters):
    assert np.array_equal(character_hashes([text])[0], character_hashes([characters])[0])
    assert len(character_hashes([text])[0]) == len(characters)


# -- measures


def test_a_pair_is_measured_under_every_scheme():
    a, b = OWN[0]["a"], OWN[0]["b"]
    (pair,) = measure_pairs([LabelledPair(7, a, b, True, "menu")])

    assert (pair.line, pair.same, pair.note, pair.verdict) == (7, True, "menu", Verdict.CONTAINS)
    assert pair.tokens == min(len(tokens(a)), len(tokens(b)))
    assert pair.containment_a == 1.0 > pair.containment_b
    left, right = (int(value, 16) for value in simhash_batch([a, b]))
    assert pair.value(PRODUCT, Measure.SIMHASH) == (left ^ right).bit_count()
    words = [tuple(tokens(text)[at : at + 2] for at in range(len(tokens(text)) - 1)) for text in (a, b)]
    sets = [{tuple(run) for run in runs} for runs in words]
    exact = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    assert pair.value(Scheme("w", 2), Measure.JACCARD) == pytest.approx(exact)


def test_a_character_without_spaces_is_half_a_word_as_in_a_crawl():
    (pair,) = measure_pairs([LabelledPair(1, "渡轮早上九点离开港" * 20, "one two " * 200, False)])
    assert (pair.tokens, pair.words) == (180, 90)


def test_measures_do_not_depend_on_what_else_is_measured():
    pairs = own_pairs()[:5]
    assert measure_pairs(pairs) == [one for pair in pairs for one in measure_pairs([pair])]
    assert measure_pairs([]) == []


def test_texts_without_words_are_never_merged():
    pairs = measure_pairs([LabelledPair(1, "", "", False), LabelledPair(2, "one", "one", True)])
    assert [pair.tokens for pair in pairs] == [0, 1]
    assert not any(score.merged or score.false_merges for score in all_scores(pairs))


# -- scores

PAIRS = st.lists(
    st.builds(
        measured,
        st.booleans(),
        st.sampled_from([0.0, 0.5, 0.75, 0.8, 0.95, 1.0]),
        st.integers(0, 20),
        verdict=st.sampled_from(Verdict),
        tokens=st.integers(0, 200),
    ),
    max_size=12,
).map(lambda pairs: [replace(pair, line=line) for line, pair in enumerate(pairs, 1)])


@given(PAIRS)
@settings(max_examples=25, deadline=None)
def test_every_rule_counts_what_it_merges(pairs):
    found = all_scores(pairs)

    assert len(found) == len(SCHEMES) * 2 * (len(DISTANCES) + len(JACCARDS))
    for score in found:
        merges = [
            pair
            for pair in pairs
            if pair.tokens >= 3
            and (not score.claims or pair.verdict in (Verdict.REFORMATTED, Verdict.EDITED))
            and (
                pair.value(score.scheme, score.measure) >= score.threshold
                if score.measure is Measure.JACCARD
                else pair.value(score.scheme, score.measure) <= score.threshold
            )
        ]
        assert score.false_merges == tuple(pair.line for pair in merges if not pair.same)
        assert score.merged == sum(pair.same for pair in merges)
        assert score.merged + score.missed == sum(pair.same for pair in pairs)
        assert score.precision == (score.merged / len(merges) if merges else None)


@given(PAIRS, st.sampled_from(Measure), st.booleans())
@settings(max_examples=50)
def test_the_recommended_rule_merges_nothing_falsely_and_none_such_keeps_more(pairs, measure, claims):
    found = list(scores(pairs, PRODUCT, measure, claims=claims))
    best = recommended(found, PRODUCT, measure, claims=claims)
    harmless = [score for score in found if not score.false_merges and score.merged]
    if best is None:
        assert harmless == []
    else:
        assert best in harmless
        assert best.merged == max(score.merged for score in harmless)


@pytest.mark.parametrize(
    ("pairs", "threshold"),
    [
        pytest.param([measured(True, 0.9), measured(False, 0.6)], 0.9, id="the strictest of equally good"),
        pytest.param([measured(True, 0.7), measured(False, 0.69)], 0.7, id="as loose as it has to be"),
        pytest.param([measured(True, 0.7), measured(True, 0.9), measured(False, 0.8)], 0.9, id="some lost"),
        pytest.param([measured(True, 0.7), measured(False, 0.8)], None, id="none: it would merge first"),
        pytest.param(
            [measured(True, 0.7), measured(False, 0.8, verdict=Verdict.CLAIM_CHANGED)],
            0.7,
            id="the claim diff holds the different pair apart",
        ),
        pytest.param([measured(True, 0.7)], None, id="none without a different pair"),
        pytest.param([measured(False, 0.7)], None, id="none without one that is the same"),
        pytest.param([], None, id="none without pairs"),
    ],
)
def test_what_is_recommended(pairs, threshold):
    best = best_rule(pairs, all_scores(pairs), Measure.JACCARD)
    assert (best and best.threshold) == threshold


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([], "no pair is labelled"),
        ([True], "no pair is labelled different, so any threshold would seem harmless"),
        ([False], "no pair is labelled the same, so nothing would be lost by never merging"),
        ([True, False], None),
    ],
)
def test_one_kind_of_label_is_no_ground_for_advice(labels, reason):
    assert unfit_for_advice([measured(label, 0.5) for label in labels]) == reason


@pytest.mark.parametrize(
    ("pairs", "radius"),
    [
        pytest.param([(0.9, 4, 200), (0.9, 6, 200), (0.6, 9, 200)], Radius(6, 2, 2), id="as wide as is kept"),
        pytest.param([(0.9, 4, 200), (0.9, 30, 200)], Radius(4, 1, 2), id="what is out of reach is counted"),
        pytest.param([(0.9, 4, 99)], None, id="short texts are not looked for by fingerprints"),
    ],
)
def test_the_radius_finds_what_the_threshold_keeps(pairs, radius):
    found = [measured(True, jaccard, bits, words=words) for jaccard, bits, words in pairs]
    found.append(measured(False, 0.7, 1))
    best = best_rule(found, all_scores(found), Measure.JACCARD)
    assert best is not None
    assert radius_for(found, best) == radius


def test_another_scheme_is_named_only_if_it_keeps_more():
    other = SCHEMES.index(Scheme("c", 4))
    same, different = measured(True, 0.7), measured(False, 0.8, line=2)
    raised = list(same.jaccards)
    raised[other] = 0.9
    pairs = [replace(same, jaccards=tuple(raised)), different]
    found = all_scores(pairs)

    (better,) = better_schemes(found, Measure.JACCARD, best_rule(pairs, found, Measure.JACCARD))

    assert (better.scheme.name, better.threshold, better.merged) == ("simhash64-c4-1", 0.9, 1)
    assert better_schemes(found, Measure.SIMHASH, best_rule(pairs, found, Measure.SIMHASH)) == []


# -- our own pairs


def test_our_own_pairs_are_of_five_kinds_in_several_languages():
    kinds = Counter(row["kind"] for row in OWN)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 5
    for kind in KINDS:
        assert len({row["language"] for row in OWN if row["kind"] == kind}) >= 3
    assert all(row["note"] for row in OWN)
    assert Counter(row["same"] for row in OWN).keys() == {True, False}


def test_where_the_tables_know_the_words_the_claim_diff_makes_loose_thresholds_safe():
    pairs = measure_pairs(own_pairs(without="ja"))
    found = all_scores(pairs)

    with_claims = best_rule(pairs, found, Measure.JACCARD)
    alone = best_rule(pairs, found, Measure.JACCARD, claims=False)

    assert with_claims is not None
    assert with_claims.threshold <= 0.7
    assert all(not score.false_merges for score in scores(pairs, PRODUCT, Measure.JACCARD, claims=True))
    assert alone is not None
    assert alone.threshold == 1.0


def test_translations_are_no_near_duplicates():
    pairs = [pair for pair, row in zip(own_pairs(), OWN, strict=True) if row["kind"] == "translation"]
    assert max(pair.value(PRODUCT, Measure.JACCARD) for pair in measure_pairs(pairs)) < 0.1
