"""What a page states about itself, and from where."""

# ruff: noqa: E501  a row of a table is a line

from __future__ import annotations

import json

import pytest

from scrapy_dedup.content.metadata import MAX_VALUE_CHARS, metadata
from scrapy_dedup.content.page import parse
from scrapy_dedup.records import Sourced


def stated(head: str, body: str = "<p>text</p>", html: str = ""):
    return metadata(parse(f"<html {html}><head>{head}</head><body>{body}</body></html>"))


def json_ld(value: object) -> str:
    return f'<script type="application/ld+json">{value if isinstance(value, str) else json.dumps(value)}</script>'


@pytest.mark.parametrize(
    ("field", "head", "body", "value", "source"),
    [
        ("title", "<meta property=og:title content=' A  b '><title>B</title>", "<h1>C</h1>", "A b", "meta:og:title"),
        ("title", "<title>B</title>", "<h1>C</h1>", "B", "title"),
        ("title", "", "<h1>C <i>d</i></h1>", "C d", "h1"),
        ("byline", "<meta name=Author content=Ann>", "", "Ann", "meta:author"),
        ("byline", "<meta property=article:author content=https://x.invalid/ann>", "<a rel=author href=/a>Ann</a>", "Ann", "rel:author"),
        ("byline", json_ld({"@type": "NewsArticle", "author": [{"name": "Ann"}, {"name": "Bo"}]}), "", "Ann, Bo", "json-ld:author"),
        ("site_name", "<meta property=og:site_name content=Courier>", "", "Courier", "meta:og:site_name"),
        ("license", "<link rel='x License' href=https://l.invalid/by>", "", "https://l.invalid/by", "rel:license"),
        ("license", "", "<a rel=license href=/terms>terms</a>", "/terms", "rel:license"),
        ("date_published", "<meta property=article:published_time content=2024-01-02T03:04>", "", "2024-01-02T03:04", "meta:article:published_time"),
        ("date_published", json_ld({"@graph": [{"@type": "Organization"}, {"@type": ["Article"], "datePublished": "2 May"}]}), "", "2 May", "json-ld:datePublished"),
        ("date_published", "", "<time pubdate datetime=2024-05-06>today</time>", "2024-05-06", "time:pubdate"),
        ("date_published", "", "<span itemprop=datePublished>6 May</span>", "6 May", "itemprop:datePublished"),
        ("date_modified", "<meta property=article:modified_time content=2024>", "", "2024", "meta:article:modified_time"),
        ("language_declared", "<meta http-equiv=Content-Language content=de>", "", "de", "http-equiv:content-language"),
    ],
)  # fmt: skip
def test_places(field, head, body, value, source):
    assert getattr(stated(head, body), field) == Sourced(value, source)


def test_the_language_of_the_document_comes_first():
    found = stated("<meta http-equiv=Content-Language content=de>", html="lang=en-GB")
    assert found.language_declared == Sourced("en-GB", "html:lang")


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("<meta name=author content=' '>", id="blank"),
        pytest.param(json_ld("{broken"), id="broken JSON"),
        pytest.param(json_ld("[" * 100_000), id="deep JSON"),
        pytest.param(json_ld('{"@type": "Article", "author": "\\ud800"}'), id="a lone surrogate"),
        pytest.param(json_ld({"@type": "Review", "author": "Reader"}), id="the author of a review"),
        pytest.param(
            json_ld({"@type": "Article", "author": {"name": {"x": 1}}}), id="a name that is no text"
        ),
        pytest.param(json_ld(3), id="a number"),
        pytest.param(json_ld('"' + "x" * 600_000 + '"'), id="too much JSON"),
    ],
)
def test_what_states_no_author(head):
    assert stated(head).byline is None


def test_a_date_in_the_text_is_no_statement():
    found = stated("", "<p>Published on 3 June 2025</p>")
    assert (found.date_published, found.date_modified) == (None, None)


def test_values_are_bounded():
    assert len(stated(f"<title>{'x' * 5000}</title>").title.value) == MAX_VALUE_CHARS


BY = "https://creativecommons.org/licenses/by/4.0/"


@pytest.mark.parametrize(
    ("head", "body", "spdx"),
    [
        (f"<link rel=license href={BY}>", "", "CC-BY-4.0"),
        (
            f"<link rel=license href={BY}>" + json_ld({"@type": "Article", "license": "CC BY 4.0"}),
            "",
            "CC-BY-4.0",
        ),
        (f"<link rel=license href={BY}><meta name=DC.rights content='© 2026 The Daily'>", "", "CC-BY-4.0"),
        (
            f"<link rel=license href={BY}>",
            "<a rel=license href=https://opensource.org/license/mit>code</a>",
            None,
        ),
        (f"<meta name=DC.rights content='© 2026'>{json_ld({'@type': 'Article', 'license': BY})}", "", None),
        ("<link rel=license href=/terms>", "", None),
        ("", "", None),
    ],
    ids=["one", "one, stated twice", "one, and a notice", "two", "notice first", "terms", "nothing stated"],
)
def test_a_licence_has_an_identifier_where_the_page_states_one_alone(head, body, spdx):
    assert stated(head, body).license_spdx == spdx


@pytest.mark.parametrize("value", [False, "False", "http://schema.org/False"])
def test_a_page_states_that_it_is_not_free(value):
    found = stated(json_ld({"@type": "NewsArticle", "isAccessibleForFree": value}))
    assert found.free_access == Sourced(
        str(value) if isinstance(value, str) else "false", "json-ld:isAccessibleForFree"
    )


@pytest.mark.parametrize(
    "date",
    [
        "2026-03-01",
        "2026-03-01T10:00:00",
        "2026-03-01T10:00:00+02:00",
        "1 March 2026",
        "March 2026",
        "gestern",
    ],
)
def test_a_date_stays_as_it_is_stated(date):
    found = stated(f"<meta property=article:published_time content='{date}'>")
    assert found.date_published == Sourced(date, "meta:article:published_time")
