"""What a host shows on many pages, and what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.near import host_blocks
from scrapy_dedup.near.host_blocks import MIN_PAGES, BlockCounts, page_name, without
from scrapy_dedup.near.paragraphs import WORDLESS, paragraph_keys, paragraphs

NAMES = {
    "https://s.example/": "",
    "https://s.example/v1/install": "install",
    "https://s.example/v2/install/": "install",
    "https://s.example/v2/install/index.html": "install",
    "https://s.example/5.1/": "",
    "https://s.example/v2": "",
    "https://s.example/latest/index.html": "",
    "https://s.example/manual/2.x/": "manual",
    "https://s.example/manual/1.0-rc1?print": "manual?print",
    "https://s.example/post/17": "17",
    "https://s.example/install?page=2": "install?page=2",
    "https://s.example/?p=7": "?p=7",
    "https://s.example/index.php?p=7": "?p=7",
    "https://s.example/%E4%B8%AD": "%E4%B8%AD",
    "no url": "no url",
}


@pytest.mark.parametrize(("url_key", "name"), NAMES.items(), ids=NAMES)
def test_a_page_is_named_by_the_end_of_its_path(url_key, name):
    assert page_name(url_key) == name


def counted(pages):
    counts = BlockCounts()
    for name, keys in pages:
        counts.add(name, keys)
    return counts


def test_what_stands_on_pages_of_other_names_is_shared():
    counts = counted((f"page-{number}", [1, 100 + number]) for number in range(10))

    assert counts.shared() == {1}
    assert counts.count(1) == 10


def test_the_paragraphs_of_a_manual_are_not_shared_by_its_versions():
    """Ten versions of ten pages, each with a paragraph of its own, under one navigation."""
    counts = counted(
        (f"page-{page}", [1, 100 + page]) for version in range(10) for page in range(10)
    )  # fmt: skip

    assert counts.shared() == {1}
    assert {counts.count(100 + page) for page in range(10)} == {1}


def test_a_host_with_few_pages_shares_nothing():
    pages = [(f"page-{number}", [1]) for number in range(MIN_PAGES)]

    assert counted(pages[:-1]).shared() == frozenset()
    assert not counted(pages[:-1]).knows_enough
    assert counted(pages).shared() == {1}


def test_a_share_of_a_large_host_is_more_than_three_pages():
    pages = [(f"page-{number}", [1] if number % 50 == 0 else [number + 10]) for number in range(200)]

    assert counted(pages).shared() == frozenset()  # on 4 of 200
    assert counted(pages).shared(0.02) == {1}


def test_what_has_no_words_is_never_shared():
    assert counted((f"page-{number}", [WORDLESS]) for number in range(9)).shared() == frozenset()


def test_memory_is_bounded_and_what_is_shared_stays(monkeypatch):
    monkeypatch.setattr(host_blocks, "MAX_PARAGRAPHS", 400)
    monkeypatch.setattr(host_blocks, "_KEPT", 300)
    counts = counted(
        (f"page-{number}", [1, *range(1_000 * number + 10, 1_000 * number + 30)] + [2] * (number % 10 == 0))
        for number in range(500)
    )

    assert len(counts) <= 400
    assert counts.shared() == {1, 2}
    assert counts.count(499_010) == 1  # the latest is remembered
    assert counts.count(10) == 0


TEXT = "# Title\n\nOwn words.\n\nAll rights reserved.\n\nMore own words."


def test_a_text_without_what_is_shared():
    shared = {*paragraph_keys(["all rights reserved"]).tolist()}

    assert without(TEXT, shared) == "# Title\n\nOwn words.\n\nMore own words."
    assert without(TEXT, frozenset()) is TEXT
    assert without(TEXT, {1}) is TEXT
    assert without(TEXT, {one.key for one in paragraphs(TEXT)}) == ""


@given(st.lists(st.tuples(st.text(max_size=3), st.lists(st.integers(0, 2**64 - 1), max_size=4)), max_size=30))
def test_counts_come_back_from_bytes(pages):
    counts = counted(pages)
    restored = BlockCounts.from_bytes(counts.to_bytes())

    assert restored.to_bytes() == counts.to_bytes()
    assert (restored.pages, restored.shared()) == (counts.pages, counts.shared())
    for name, keys in pages:
        restored.add(name, keys)
        counts.add(name, keys)
    assert restored.to_bytes() == counts.to_bytes()


@pytest.mark.parametrize(
    "data", [b"", b"host-blocks 1\n", b"host-blocks 2\n" + bytes(16), counted([("a", [1])]).to_bytes()[:-1]]
)
def test_bytes_of_another_form_are_refused(data):
    with pytest.raises(ValueError, match="counts"):
        BlockCounts.from_bytes(data)
