"""Syndicated copies: one body, and each page's own word on who says it, when, and under which licence."""

from __future__ import annotations

import json

import pytest
from scrapy import Request

from scrapy_dedup.content import PageMetadata
from scrapy_dedup.crawl.pages import access_of, publisher_of
from scrapy_dedup.records import Sourced

from .server import page

LICENCES = {
    "127.0.0.1": "https://creativecommons.org/licenses/by-nd/4.0/deed.de",
    "localhost": "/terms",
}
BYLINES = {"127.0.0.1": "Ada Agency", "localhost": "From our correspondent"}
DATES = {"127.0.0.1": "2026-03-01", "localhost": "2026-03-02T08:00:00+01:00"}
FREE = {"127.0.0.1": True, "localhost": False}


def article(visit):
    host = visit.headers["host"].partition(":")[0]
    described = {"@type": "NewsArticle", "isAccessibleForFree": FREE[host]}
    return page(
        "syndicated",
        head=f"<meta name=author content='{BYLINES[host]}'><link rel=license href='{LICENCES[host]}'>"
        f"<meta property=article:published_time content='{DATES[host]}'>"
        f"<meta property=og:site_name content='The {host} Daily'>"
        f"<script type='application/ld+json'>{json.dumps(described)}</script>",
    )


@pytest.fixture(scope="module")
def crawled(crawl, serve):
    server = serve({"/story": article, "/own": page("own")})
    other = server.base.replace("127.0.0.1", "localhost")
    urls = [f"{server.base}/story", f"{other}/story", f"{other}/own"]
    return crawl(start=[*urls, [f"{server.base}/own", {"cookiejar": 1}]])


@pytest.fixture(scope="module")
def copies(crawled):
    """Return the observation of the shared article on each host."""
    return {row.publisher.value: row for row in crawled.ledger.observations_of("syndicated")}


def test_copies_are_one_body_with_two_publishers(crawled, copies):
    assert len(crawled.ledger.bodies_of("syndicated")) == 1
    assert sorted(copies) == ["127.0.0.1", "localhost"]
    assert {row.publisher.source for row in copies.values()} == {"url:host"}
    assert len({row.body_id for row in copies.values()}) == 1
    assert {row.validity.value for row in copies.values()} == {"valid"}


def test_whether_copies_are_independent_is_unresolved(crawled, copies):
    assert {row.independence for row in copies.values()} == {"unresolved"}
    assert sorted(row.action.value for row in copies.values()) == ["keep", "reuse"]
    in_feed = [row for row in crawled.feed("observation") if row["url"].endswith("/story")]
    assert [row["independence"] for row in in_feed] == [None, None], "a feed cannot know yet"


@pytest.mark.parametrize("host", LICENCES)
def test_each_copy_keeps_what_its_own_page_states(copies, host):
    row = copies[host]
    assert row.byline.value == BYLINES[host]
    assert row.site_name.value == f"The {host} Daily"
    assert (row.date_published.value, row.date_published.source) == (
        DATES[host],
        "meta:article:published_time",
    )
    assert (row.license.value, row.license.source) == (LICENCES[host], "rel:license")
    assert row.license_spdx == {"127.0.0.1": "CC-BY-ND-4.0", "localhost": None}[host]
    assert row.access == {"127.0.0.1": "anonymous", "localhost": "metered"}[host]
    assert row.language_declared.value == "en"


def test_the_feed_has_a_line_for_each_publisher(crawled):
    lines = {line["url"]: line for line in crawled.feed("observation")}
    assert len(lines) == 4
    assert {line["publisher"]["value"] for line in lines.values()} == {"127.0.0.1", "localhost"}
    assert [line["license_spdx"] for url, line in lines.items() if url.endswith("/own")] == [None, None]


@pytest.mark.parametrize(
    ("headers", "free", "access"),
    [
        ({}, None, "anonymous"),
        ({}, "true", "anonymous"),
        ({}, "https://schema.org/True", "anonymous"),
        ({}, "sometimes", "anonymous"),
        ({}, "false", "metered"),
        ({}, "http://schema.org/False", "metered"),
        ({"Cookie": "session=1"}, "false", "credentialed"),
        ({"Authorization": "Basic eA=="}, None, "credentialed"),
    ],
)
def test_access_is_what_is_known_of_it(headers, free, access):
    stated = PageMetadata(free_access=Sourced(free, "json-ld:isAccessibleForFree") if free else None)
    assert access_of(Request("http://a.test/", headers=headers), stated) == access


@pytest.mark.parametrize(
    ("url", "publisher"),
    [
        ("https://www.news.daily.co.uk:8443/a", Sourced("daily.co.uk", "url:registrable_domain")),
        ("https://alice.github.io/a", Sourced("alice.github.io", "url:registrable_domain")),
        ("https://xn--bcher-kva.example./a", Sourced("xn--bcher-kva.example", "url:registrable_domain")),
        ("http://192.0.2.1/a", Sourced("192.0.2.1", "url:host")),
        ("http://[2001:db8::1]:80/a", Sourced("2001:db8::1", "url:host")),
        ("http://intranet/a", Sourced("intranet", "url:host")),
        ("https://github.io/a", Sourced("github.io", "url:host")),
        ("data:text/html,a", None),
    ],
)
def test_the_publisher_is_the_registrable_domain_else_the_host(url, publisher):
    assert publisher_of(url) == publisher
