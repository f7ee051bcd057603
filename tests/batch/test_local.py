"""A batch finds the similar pairs and no others, in any order, memory and number of processes."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from scrapy_dedup.batch.plan import MIN_MEMORY_BYTES
from scrapy_dedup.near.bands import Banding
from scrapy_dedup.near.shingles import shingle_hashes

from .conftest import planted

FERRY = "The ferry leaves the harbour at nine in the morning, and the winter timetable holds until spring."
QUARRY = "Granite from the quarry is cut in the yard behind the station before it goes down to the river."


def entry(identity, text, **more):
    return {"id": identity, "text": text, **more}


def truth(entries, least):
    """Return the exact similarity of all pairs that are similar enough, by an inverted index of shingles."""
    sets = []
    for one in entries:
        hashes, _ = shingle_hashes([one["text"]])
        sets.append(set(hashes.tolist()))
    holders = {}
    for number, shingles in enumerate(sets):
        for shingle in shingles:
            holders.setdefault(shingle, []).append(number)
    shared = Counter()
    for numbers in holders.values():
        shared.update(itertools.combinations(numbers, 2))
    measured = {(a, b): count / (len(sets[a]) + len(sets[b]) - count) for (a, b), count in shared.items()}
    return {
        frozenset((entries[a]["id"], entries[b]["id"])): jaccard
        for (a, b), jaccard in measured.items()
        if jaccard >= least
    }


def found(pairs):
    return {frozenset((pair["a"], pair["b"])): pair["jaccard"] for pair in pairs}


def test_pairs_are_those_of_an_exact_comparison_of_all_with_all(batch):
    entries = planted(400, 60)

    _, pairs, _ = batch(entries, with_claims=False, jaccard=0.7, banding=Banding(64, 2))

    expected = truth(entries, 0.7)
    assert len(expected) > 50
    assert found(pairs) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_recall_and_precision_of_the_chosen_bands(batch):
    entries = planted(8_000, 80)

    _, pairs, _ = batch(entries, with_claims=False)

    expected, measured = truth(entries, 0.8), found(pairs)
    assert len(expected) > 1_500
    assert set(measured) <= set(expected)
    assert len(measured) >= 0.99 * len(expected)


def test_the_order_of_the_input_does_not_matter(batch):
    entries = [*planted(150, 40), *(entry(f"c{n}", FERRY if n % 2 else FERRY.upper()) for n in range(6))]
    shuffled = random.Random(4).sample(entries, len(entries))

    first, second = batch(entries), batch(shuffled)

    assert first[0].counts == second[0].counts
    assert first[1:] == second[1:]


def test_little_memory_and_several_runs_of_pairs_change_nothing(batch, monkeypatch):
    entries = planted(300, 40)
    expected = batch(entries)
    monkeypatch.setattr("scrapy_dedup.batch.plan.BYTES_PER_CANDIDATE", MIN_MEMORY_BYTES // 40)
    monkeypatch.setattr("scrapy_dedup.batch.plan.BYTES_PER_CHAR", MIN_MEMORY_BYTES // 2_000)
    monkeypatch.setattr("scrapy_dedup.batch.plan.BYTES_PER_DIGEST", MIN_MEMORY_BYTES)

    assert batch(entries, memory_bytes=MIN_MEMORY_BYTES)[1:] == expected[1:]


@pytest.mark.slow
def test_several_processes_find_the_same(batch):
    entries = planted(5_000, 40)

    assert batch(entries, workers=3)[1:] == batch(entries)[1:]


def test_a_text_of_ten_thousand_copies_is_signed_once(batch, monkeypatch):
    from scrapy_dedup.batch import reading

    signed = []
    sign = reading.sign
    monkeypatch.setattr(reading, "sign", lambda given: signed.extend(given[0]) or sign(given))
    copies = [entry(f"c{n:05}", FERRY if n % 2 else f"  {FERRY.lower()}\n") for n in range(10_000)]

    summary, pairs, groups = batch([*copies, entry("other", QUARRY)])

    assert len(signed) == 2
    assert (summary.counts.texts, summary.counts.copies) == (10_001, 9_999)
    assert {(pair["a"], pair["verdict"], pair["jaccard"]) for pair in pairs} == {("c00000", "equal", 1.0)}
    assert [(group["leader"], group["size"]) for group in groups] == [("c00000", 10_000)]
    assert {member["copy_of"] for member in groups[0]["members"]} == {"c00000"}


SHORT = {"empty": "", "no words": " ... \n!", "one word": "yes", "two words": "Not found"}


@pytest.mark.parametrize("text", SHORT.values(), ids=SHORT)
def test_texts_of_fewer_than_three_tokens_are_counted_and_not_compared(batch, text):
    summary, pairs, groups = batch([entry("a", text), entry("b", text), entry("c", FERRY)])

    assert (summary.counts.texts, summary.counts.short) == (3, 1)
    assert summary.counts.empty == (0 if text[-1:].isalpha() else 1)
    assert (pairs, groups) == ([], [])


ODD = {
    "right to left": "السفينة تغادر الميناء في الساعة التاسعة صباحا كل يوم من أيام الأسبوع حتى نهاية الشتاء",
    "without spaces": "橋は今日から通行止めです。詳しいことは市役所の窓口でお尋ねください。",
    "emoji between words": "one \U0001f600 two \U0001f600 three \U0001f600 four \U0001f680 five six",
    "numbers": " ".join(str(number) for number in range(40)),
    "one line over and over": "the same line again\n" * 400,
    "NUL": "one\0two\0three\0four five six",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_texts_pair_with_their_edit(batch, text):
    _, pairs, groups = batch([entry("a", text), entry("b", text + "!"), entry("c", FERRY)])

    assert [(pair["a"], pair["b"], pair["jaccard"], pair["verdict"]) for pair in pairs] == [
        ("a", "b", 1.0, "reformatted")
    ]
    assert [group["leader"] for group in groups] == ["a"]


def test_a_changed_claim_is_a_pair_and_no_group(batch):
    _, pairs, groups = batch([entry("a", FERRY), entry("b", FERRY.replace("nine", "ten"))], jaccard=0.6)

    assert [(pair["verdict"], pair["claim_spans"]) for pair in pairs] == [("claim_changed", 1)]
    assert groups == []


def test_without_claims_similar_texts_are_a_group(batch):
    changed = [entry("a", FERRY), entry("b", FERRY.replace("nine", "ten"))]
    summary, pairs, groups = batch(changed, jaccard=0.6, with_claims=False)

    assert [(pair["verdict"], pair["spans"]) for pair in pairs] == [(None, None)]
    assert summary.verdicts == {"similar": 1}
    assert [member["id"] for member in groups[0]["members"]] == ["b"]


@pytest.mark.parametrize(("one", "groups_expected"), [(True, 1), (False, 0)])
def test_what_was_decided_about_a_pair_goes_before_its_verdict(batch, one, groups_expected):
    text = FERRY if one else QUARRY
    other = text.replace("nine", "ten") if one else text.replace("river", "river now")
    _, pairs, groups = batch([entry("b", text), entry("a", other)], jaccard=0.6, decided={("a", "b"): one})

    assert [pair["verdict"] for pair in pairs] == ["claim_changed" if one else "edited"]
    assert len(groups) == groups_expected


def test_rank_chooses_the_leader_before_the_id_does(batch):
    edited = FERRY.replace("the harbour", "our harbour")
    entries = [entry("a", FERRY, rank=2), entry("b", edited, rank=1), entry("c", f" {edited}", rank=-3)]
    _, pairs, groups = batch(entries, jaccard=0.6)

    (group,) = groups
    assert group["leader"] == "c"
    assert [(member["id"], member["copy_of"]) for member in group["members"]] == [("b", "c"), ("a", None)]
    assert [(pair["a"], pair["b"]) for pair in pairs] == [("c", "a"), ("c", "b")]


def test_no_member_of_a_chain_of_versions_is_unlike_its_leader(batch):
    source = random.Random(9)
    words = [source.choice(["oak", "elm", "ash", "fir"]) + str(n) for n in range(200)]
    versions = []
    for number in range(21):
        versions.append(entry(f"v{number:02}", " ".join(words)))
        for place in source.sample(range(200), 3):
            words[place] = f"new{number}x{place}"
    _, pairs, groups = batch(versions, jaccard=0.85, with_claims=False)

    measured = found(pairs)
    assert len(groups) > 3
    for group in groups:
        for member in group["members"]:
            assert measured[frozenset((group["leader"], member["id"]))] == member["jaccard"] >= 0.85


def test_more_texts_than_the_memory_is_enough_for_are_refused(batch, monkeypatch):
    from scrapy_dedup.errors import DedupError

    monkeypatch.setattr("scrapy_dedup.batch.plan.BYTES_PER_TEXT", MIN_MEMORY_BYTES // 2)
    with pytest.raises(DedupError, match="more texts than 2"):
        batch([entry(str(n), FERRY) for n in range(3)], memory_bytes=MIN_MEMORY_BYTES)
