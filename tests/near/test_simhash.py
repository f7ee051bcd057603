"""SimHash and the shingles under it: golden values, a slow reference, laws."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_dedup.near import SCHEME, simhash, simhash_batch
from scrapy_dedup.near.shingles import UNSPACED, tokens, word_hashes

MASK = (1 << 64) - 1

# What is stored under the scheme's name. If one of these changes, the scheme needs a new name.
GOLDEN = {
    "": "0000000000000000",
    " ... ": "0000000000000000",
    "one": "917159a3770361b2",
    "The bridge is open.": "19280232022d51b0",
    "The bridge is not open.": "5fcf8175a23d51be",
    "東京都は日本の首都です。": "05b5dfe4ac41a989",
    "สวัสดีครับ": "3c4270896988a141",
}


def distance(left: str, right: str) -> int:
    return (int(left, 16) ^ int(right, 16)).bit_count()


def mix(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & MASK
    return value ^ value >> 33


def slow_tokens(text: str) -> list[str]:
    found, run = [], ""
    for character in unicodedata.normalize("NFC", text).lower():
        unspaced = any(first <= ord(character) <= last for first, last, _ in UNSPACED)
        in_word = re.fullmatch(r"\w", character) is not None
        if in_word and not unspaced:
            run += character
            continue
        if run:
            found.append(run)
            run = ""
        if unspaced and (in_word or unicodedata.category(character).startswith("M")):
            found.append(character)
    return [*found, run] if run else found


def slow_word_hash(word: str) -> int:
    total = 0
    for position, character in enumerate(word):
        value = mix((ord(character) * 0xD6E8FEB86659FD93 + 0xA0761D6478BD642F) & MASK)
        total += value * pow(0x9E3779B97F4A7C15, position, 1 << 64)
    return mix(total & MASK)


def slow_simhash(text: str) -> str:
    words = [slow_word_hash(word) for word in slow_tokens(text)]
    size = min(3, len(words))
    keys = (0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)
    shingles: Counter[int] = Counter()
    for start in range(len(words) - size + 1 if words else 0):
        shingles[
            mix(sum(key * word for key, word in zip(keys, words[start : start + size], strict=False)) & MASK)
        ] += 1
    votes = sum(shingles.values())
    bits = [2 * sum(n for value, n in shingles.items() if value >> bit & 1) > votes for bit in range(64)]
    return f"{sum(1 << bit for bit, is_set in enumerate(bits) if is_set):016x}"


MIXED = st.text(
    st.sampled_from("ab Zé_1\n.,ßİΣς東京かカーไทยกำម្ក\u0301\u200b\0\U00020000\U0001f600"), max_size=60
)


def test_the_scheme_is_named():
    assert SCHEME == "simhash64-w3-1"


@pytest.mark.parametrize(("text", "expected"), GOLDEN.items(), ids=[repr(text) for text in GOLDEN])
def test_golden_values(text, expected):
    assert simhash(text) == expected


@given(st.one_of(MIXED, st.text(max_size=40)))
def test_the_fast_value_is_the_slow_one(text):
    assert simhash(text) == slow_simhash(text)


def test_many_shingles_do_not_overflow_the_byte_lanes():
    """Counts are kept in bytes; 255 votes fill one, so longer texts are counted in runs."""
    for count in (254, 255, 256, 257, 258, 600):
        text = "same " * count
        assert simhash(text) == slow_simhash(text)


@given(st.lists(MIXED, max_size=6))
def test_a_batch_gives_what_single_calls_give(texts):
    assert simhash_batch(texts) == [simhash(text) for text in texts]


@given(st.one_of(MIXED, st.text(max_size=40)))
def test_tokens_as_strings_and_as_hashes_agree(text):
    hashes, offsets = word_hashes([text])
    assert hashes.tolist() == [slow_word_hash(word) for word in tokens(text)]
    assert tokens(text) == slow_tokens(text)
    assert offsets.tolist() == [0, len(hashes)]


@pytest.mark.slow
def test_a_token_is_what_the_regular_expression_module_calls_a_word():
    """Holds for every code point outside the scripts without spaces."""
    unspaced = {point for first, last, _ in UNSPACED for point in range(first, last + 1)}
    surrogates = set(range(0xD800, 0xE000))
    text = " ".join(map(chr, sorted(set(range(sys.maxunicode + 1)) - unspaced - surrogates)))
    prepared = unicodedata.normalize("NFC", text).lower()
    # Composition turns some characters into ones of those scripts.
    expected = [word for word in re.findall(r"\w+", prepared) if not unspaced & set(map(ord, word))]
    found = [word for word in tokens(text) if not unspaced & set(map(ord, word))]
    assert found == expected


@pytest.mark.slow
def test_only_listed_characters_need_their_text_for_their_lower_case():
    """All others are looked up in a table, one by one, up to a bound that keeps it cheap."""
    lower = {point: chr(point).lower() for point in range(sys.maxunicode + 1)}

    assert [point for point, low in lower.items() if len(low) > 1] == [0x130]
    assert max(point for point, low in lower.items() if low != chr(point)) < 0x20000
    in_words = {point for point, low in lower.items() if ("a" + chr(point)).lower() != "a" + low}
    assert in_words - {0x130} <= {0x3A3}


@given(st.lists(st.text("abc ", min_size=1, max_size=30_000).filter(str.strip), min_size=1, max_size=4))
@settings(max_examples=5)
def test_texts_of_more_than_one_block_are_hashed_as_alone(texts):
    long = [text * (40_000 // len(text)) for text in texts]

    hashes, offsets = word_hashes(["x", *long, "y"])

    alone = [word_hashes([text])[0] for text in ["x", *long, "y"]]
    assert (hashes == np.concatenate(alone)).all()
    assert np.diff(offsets).tolist() == list(map(len, alone))


@given(MIXED)
def test_case_and_unicode_composition_do_not_count(text):
    assert simhash(unicodedata.normalize("NFD", text)) == simhash(text)


def test_a_lone_surrogate_does_not_stop_it():
    assert len(simhash("a \ud800 b")) == 16


def test_scripts_without_spaces_have_shingles_of_characters():
    """One changed character leaves most of the shingles of a Japanese text as they were."""
    text = "橋は今日から通行止めです。詳しいことは市役所の窓口でお尋ねください。電話でも受け付けます。" * 3
    assert distance(simhash(text), simhash(text.replace("今日", "明日", 1))) <= 12
    assert len(tokens(text)) > 100


def test_order_and_frequency_count():
    assert simhash("a b c d e f") != simhash("f e d c b a")
    assert simhash("a b c a b c a b c x y z") != simhash("a b c x y z")


def test_unrelated_texts_differ_in_half_of_the_bits():
    draw = random.Random(7)
    words = [f"w{number}" for number in range(5000)]
    prints = simhash_batch([" ".join(draw.choices(words, k=200)) for _ in range(400)])
    distances = [distance(left, right) for left, right in zip(prints[::2], prints[1::2], strict=True)]
    assert 31 <= np.mean(distances) <= 33
    assert 3.3 <= np.std(distances) <= 4.7


def test_a_small_edit_of_a_long_text_moves_few_bits():
    draw = random.Random(8)
    words = [f"w{number}" for number in range(5000)]
    for _ in range(20):
        text = draw.choices(words, k=600)
        edited = [*text[:300], "changed", *text[301:]]
        assert distance(simhash(" ".join(text)), simhash(" ".join(edited))) <= 8


def test_distances_have_the_shape_of_the_reference():
    """The reference hashes shingles by BLAKE2b; values differ, what is equal and what is far does not."""
    cases = os.environ.get("SCRAPY_DEDUP_CASES")
    if not cases:
        pytest.skip("SCRAPY_DEDUP_CASES is not set")
    reference = json.loads(Path(cases, "reference-vectors.json").read_text("utf-8"))["simhash_blake2b_w3"]
    texts = list(reference)
    ours = dict(zip(texts, simhash_batch(texts), strict=True))
    for left in texts:
        for right in texts:
            assert (reference[left] == reference[right]) == (ours[left] == ours[right])
            if left and right and not set(left.lower().split()) & set(right.lower().split()):
                assert distance(ours[left], ours[right]) >= 16
    fox = "the quick brown fox jumps over the lazy dog"
    assert distance(ours[fox], ours[fox + " again"]) <= 20
