"""The distinct chunks of live pages: what a site repeats stands once, and every page stays listed."""

from __future__ import annotations

import tempfile

import pytest

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.errors import DedupError
from scrapy_dedup.jobs import live
from scrapy_dedup.jobs.similar import relate_similar
from scrapy_dedup.ledger import Ledger

from ..ledger.test_schemas import validate
from .conftest import GONE, TIMEOUT

WORDS = "harbour ferry times winter pier ticket mild lamp bike keeper storm isle".split()  # noqa: SIM905


def sentence(seed: int, length: int = 12) -> str:
    words = (WORDS[(seed * 7 + place * 5) % len(WORDS)] for place in range(length - 1))
    return f"{' '.join(words)} {seed}."


def paragraph(seed: int, words: int = 130) -> str:
    return " ".join(sentence(seed * 100 + place) for place in range(words // 12 + 1))


PREAMBLE = [paragraph(9_001), paragraph(9_002), paragraph(9_003)]


def page(number: int, position: int, *, headings: bool, preamble=PREAMBLE) -> str:
    own = [paragraph(number, 60), paragraph(number + 5_000, 60)]
    parts = [*own[:position], *(["## About this notice"] if headings else []), *preamble, *own[position:]]
    title = [f"# Page {number}"] if headings else []
    return "\n\n".join([*title, *parts])


@pytest.mark.parametrize("headings", [False, True], ids=["without_headings", "with_headings"])
@pytest.mark.parametrize("pages", [24, pytest.param(500, marks=pytest.mark.slow)])
def test_a_preamble_of_all_pages_is_three_chunks_with_every_page_as_source(site, headings, pages):
    site.crawl({f"/p/{number}": page(number, number % 3, headings=headings) for number in range(pages)})
    made = site.chunks()
    shared = [one for one in made.records if one.shared]
    assert [one.text for one in shared] == (
        [f"## About this notice\n\n{PREAMBLE[0]}", *PREAMBLE[1:]] if headings else PREAMBLE
    )
    for one in shared:
        assert len({source.url for source in one.sources}) == pages
    own = [one for one in made.records if not one.shared]
    assert {source.url for one in own for source in one.sources} == {
        f"https://site.example/p/{number}" for number in range(pages)
    }
    assert all(part not in one.text for one in own for part in PREAMBLE)
    assert made.counts.distinct == len(made.records)


def test_own_text_of_versioned_docs_is_never_shared(site):
    names = [f"page{number}" for number in range(12)]
    pages = {
        f"/v{version}/{name}": f"# {name}\n\n{paragraph(number)}\n\nChanged in version {version}.1 of {name}."
        for version in range(10)
        for number, name in enumerate(names)
    }
    site.crawl(pages)
    made = site.chunks()
    assert not any(one.shared for one in made.records)


def test_what_all_pages_of_all_versions_have_is_shared(site):
    pages = {
        f"/v{version}/page{number}": f"{paragraph(number)}\n\n{PREAMBLE[0]}"
        for version in range(30)
        for number in range(6)
    }
    site.crawl(pages)
    assert [one.text for one in site.chunks().records if one.shared] == [PREAMBLE[0]]


@pytest.mark.parametrize(
    "options",
    [{"shared_share": None}, {"keep_shared": ("ferry",)}],
    ids=["by_setting", "by_pattern"],
)
def test_shared_blocks_stay_with_their_pages_where_the_user_wants_it(site, options):
    site.crawl({f"/p/{number}": page(number, 1, headings=False) for number in range(8)})
    assert any(one.shared for one in site.chunks().records)
    assert not any(one.shared for one in site.chunks(**options).records)


def test_a_short_label_that_a_manual_repeats_stays_with_its_text(site):
    site.crawl(
        {f"/p/{number}": f"{paragraph(number)}\n\nFor example:\n\n`run {number}`" for number in range(8)}
    )
    made = site.chunks().records
    assert not any(one.shared for one in made)
    assert sum("For example:" in one.text for one in made) == 8
    assert [one.text for one in site.chunks(shared_chars=0).records if one.shared] == ["For example:"]


def test_a_host_with_few_pages_shares_nothing(site):
    site.crawl({f"/p/{number}": page(number, 1, headings=False) for number in range(4)})
    assert not any(one.shared for one in site.chunks().records)


def test_a_heading_that_stands_over_other_text_elsewhere_is_not_shared_alone(site):
    pages = {f"/p/{number}": f"# P{number}\n\n## Notes\n\n{paragraph(number)}" for number in range(8)}
    pages |= {f"/q/{number}": f"# Q{number}\n\n## Notes\n\n{PREAMBLE[0]}" for number in range(8)}
    site.crawl(pages)
    made = site.chunks()
    assert [one.text for one in made.records if one.shared] == [PREAMBLE[0]]
    assert sum("## Notes" in one.text for one in made.records for _ in one.sources) == 16


def test_blocks_that_do_not_always_stand_together_are_cut_apart(site):
    pages = {
        f"/p/{number}": page(number, 1, headings=False, preamble=[part[:200] for part in PREAMBLE])
        for number in range(8)
    }
    pages |= {f"/q/{number}": f"{paragraph(number + 70)}\n\n{PREAMBLE[1][:200]}" for number in range(8)}
    site.crawl(pages)
    made = {one.text: len(one.sources) for one in site.chunks().records if one.shared}
    assert made == {PREAMBLE[0][:200]: 8, PREAMBLE[1][:200]: 16, PREAMBLE[2][:200]: 8}


def test_every_chunk_stands_where_it_says_and_validates(site):
    site.crawl({f"/p/{number}": page(number, number % 3, headings=True) for number in range(9)})
    from scrapy_dedup.ledger import Ledger

    with Ledger.open(site.url) as ledger:
        texts = {body.body_id: body.text for body in ledger.bodies()}
    for one in site.chunks().records:
        validate(one)
        assert texts[one.body_id][one.start_char : one.end_char] == one.text
        for source in one.sources:
            assert texts[source.body_id][source.start_char : source.end_char] == one.text
        assert len({source.chunk_id for source in one.sources}) == len(one.sources)


TEXT = "The ferry leaves at nine in the morning, and tickets are sold on the pier."


@pytest.mark.parametrize(
    ("later", "moved", "owners"),
    [
        pytest.param({"/a": GONE}, (), {"/b"}, id="gone"),
        pytest.param({"/a": TIMEOUT}, (), {"/a", "/b"}, id="timeout"),
        pytest.param({}, (), {"/a", "/b"}, id="not_visited"),
        pytest.param({"/a": "Another text stands here now."}, (), {"/b"}, id="replaced"),
        pytest.param({"/b": TEXT}, [("/a", "/b")], {"/b"}, id="moved"),
        pytest.param({"/login": TIMEOUT}, [("/a", "/login")], {"/a", "/b"}, id="led_to_what_failed"),
        pytest.param({"/a": GONE, "/x": "x"}, [("/a", "/x")], {"/b"}, id="gone_and_moved"),
    ],
)
def test_live_pages_own_their_text(site, later, moved, owners):
    site.crawl({"/a": TEXT, "/b": TEXT})
    if later or moved:
        site.crawl(later, moved=moved)
    (found,) = [one for one in site.chunks().records if one.text == TEXT]
    assert {source.url.removeprefix("https://site.example") for source in found.sources} == owners


def test_a_page_that_is_back_owns_its_text_again(site):
    for seen in (TEXT, GONE, TEXT):
        site.crawl({"/a": seen})
    assert [one.text for one in site.chunks().records] == [TEXT]
    assert site.chunks(until="job-2").records == []


def test_a_page_within_one_job_outranks_a_404_of_the_same_key(site):
    site.crawl({"/a": TEXT})
    site.crawl({"/a": GONE, "https://site.example/a": TEXT})
    assert [one.text for one in site.chunks().records] == [TEXT]


def test_a_reformatted_text_reuses_the_chunks_of_the_first(site):
    site.crawl({"/a": TEXT, "/b": TEXT.replace(" ", "  ")})
    (found,) = site.chunks().records
    assert found.text == TEXT
    assert [source.url for source in found.sources] == ["https://site.example/a", "https://site.example/b"]


def test_other_corpora_do_not_count(site):
    site.crawl({"/a": TEXT}, corpus="other")
    site.crawl({"/b": TEXT})
    assert [len(one.sources) for one in site.chunks().records] == [1]
    assert [one.corpus for one in site.chunks(corpus="other").records] == ["other"]


def test_a_full_disk_is_said_where_the_work_file_stands(site, monkeypatch, tmp_path):
    site.crawl({f"/{number}": paragraph(number) for number in range(3)})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(live, "_TABLES", "pragma max_page_count = 3;" + live._TABLES)

    with pytest.raises(DedupError, match=rf"in {tmp_path} cannot be used \(database or disk is full\)"):
        site.chunks()

    assert not [*tmp_path.glob("dedup-chunks-*")]


def test_a_chunk_leads_its_own_group_once_chunks_were_compared(site):
    text = paragraph(1)
    site.crawl({"/a": text, "/b": text.replace(" ", " reworded ", 1), "/c": paragraph(9)})
    with Ledger.open(site.url) as ledger, live.live_chunks(ledger, "default", ChunkOptions()) as chunks:
        assert {one.group for one in chunks.records()} == {None}
        relate_similar(chunks)
        a, b, c = chunks.records()
    assert (a.group, b.group, c.group) == (a.id, a.id, c.id)
