"""The model of the demo site keeps its promises about texts and duplicates."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from example.site.handbook import PREAMBLE, VERSIONS
from example.site.html import COOKIE_BANNER, LEGAL, SIDEBAR
from example.site.pages import build_pages, build_products
from example.site.site import write_manifest

PAGES = build_pages()
ORIGINALS = [page for page in PAGES if page.duplicates_of is None]


def _sentences(page):
    return [sentence for paragraph in page.paragraphs for sentence in paragraph]


def _said(page):
    return page.preamble, page.headings, page.paragraphs


def test_there_are_about_300_pages_and_200_products():
    assert 290 <= len(PAGES) <= 330
    assert len(build_products()) == 200


def test_keys_are_unique_for_each_host():
    assert len({(page.host, page.key) for page in PAGES}) == len(PAGES)


def test_each_page_but_the_empty_one_has_prose_of_60_words_or_more():
    short = [page.key for page in PAGES if len(" ".join(_sentences(page)).split()) < 60]
    assert short == ["/empty"]


def test_no_sentence_stands_on_two_originals_but_for_versions():
    pages = [page for page in ORIGINALS if page.kind != "handbook"]
    count = Counter(sentence for page in pages for sentence in _sentences(page))
    assert [sentence for sentence, times in count.items() if times > 1] == []


def test_each_guide_begins_with_the_preamble_and_no_other_page_does():
    assert {page.kind for page in ORIGINALS if page.preamble == PREAMBLE} == {"guide", "case_sensitive"}
    assert {page.preamble for page in ORIGINALS} == {PREAMBLE, ()}


@pytest.mark.parametrize("chapter", ["pump", "filter"])
def test_the_versions_of_a_chapter_differ_in_a_few_sentences(chapter):
    pages = [page for page in ORIGINALS if page.kind == "handbook" and page.key.endswith(chapter)]
    assert len({page.paragraphs for page in pages}) == len(pages) == len(VERSIONS)
    shared = set.intersection(*(set(_sentences(page)) for page in pages))
    assert all(1 <= len(set(_sentences(page)) - shared) <= 2 for page in pages)


def test_copies_have_the_text_of_their_original():
    originals = {page.key: page for page in ORIGINALS}
    copies = [page for page in PAGES if page.duplicates_of is not None]
    assert {page.kind for page in copies} == {"mirror", "print", "alias", "listing", "news"}
    assert all(_said(page) == _said(originals[page.duplicates_of]) for page in copies)


def test_no_furniture_stands_in_a_text():
    prose = {sentence for page in PAGES for sentence in _sentences(page)}
    assert prose.isdisjoint({*COOKIE_BANNER, *SIDEBAR, *LEGAL})


def test_another_edition_changes_one_page():
    changed = [a.key for a, b in zip(build_pages(1), build_pages(2), strict=True) if a != b]
    assert changed == ["/changelog"]


@pytest.mark.parametrize("edition", [1, 2])
def test_the_manifest_is_the_same_each_time(edition):
    manifest = write_manifest(edition)
    assert manifest == write_manifest(edition)
    assert len(json.loads(manifest)["pages"]) == len(PAGES)
