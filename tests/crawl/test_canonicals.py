"""Declared canonicals in crawls: recorded with every page, judged by their targets, fetched when asked."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from scrapy_dedup import Ledger

from .server import Reply, page

SITE = "http://site.test"
ELSEWHERE = "http://elsewhere.example"


def head(target: str) -> str:
    return f'<link rel="canonical" href="{target}">'


def replied(slug: str, *headers: tuple[str, str], markup: str = "") -> Reply:
    return Reply(page(slug, head=markup), headers=headers)


# name: the route of a page that the index links to, and status and reason of its canonical, with its target
# fetched and without
PAGES = {
    "plain": (page("plain"), None, None),
    "own": (page("own", head=head(f"{SITE}/own?utm_source=x#top")), "self", "self"),
    "amp": (page("article", head=head("/article")), "text_equal", "target_unknown"),
    "header": (
        replied("article", ("Link", '</x>; rel=shortlink, </article>; rel="canonical"')),
        "text_equal",
        "target_unknown",
    ),
    "other": (page("other", head=head("/article")), "text_differs", "target_unknown"),
    "dead": (page("dead", head=head("/missing")), "broken", "target_unknown"),
    "broken": (page("broken", head=head("/failing")), "broken", "target_unknown"),
    "home": (page("home", head=head("/")), "homepage", "homepage"),
    "list?page=2": (page("list 2", head=head("/list")), "first_page_of_series", "first_page_of_series"),
    "two": (page("two", head=head("/article") + head("/own")), "conflict", "conflict"),
    "body": (page("body", extra=head("/article")), "only_in_body", "only_in_body"),
    "weak": (page("weak", head='<meta property="og:url" content="/article">'), "weak", "weak"),
    "empty": (page("empty", head=head("")), "malformed", "malformed"),
    "syndicated": (page("syndicated", head=head(f"{ELSEWHERE}/a")), "off_site", "off_site"),
    "moved": (page("article", head=head("/old")), "text_equal", "target_unknown"),
    "hidden": (page("hidden", head=head("/secret")), "broken", "target_unknown"),
    "session": (page("session", head=head("/denied?facet=1")), "target_unknown", "target_unknown"),
}
ALIASES = ("amp", "header", "moved")


def routes() -> dict[str, object]:
    return {
        "/": page("index", [f"/{name}" for name in PAGES]),
        **{f"/{name}": route for name, (route, _, _) in PAGES.items()},
        "/article": page("article", ["/only-from-article"]),
        "/only-from-article": page("only-from-article"),
        "/failing": Reply(b"<p>failed</p>", 500),
        "/old": Reply(b"", 301, headers=(("Location", "/article"),)),
        "/secret": replied("hidden", ("X-Robots-Tag", "noindex")),
    }


@pytest.fixture(scope="module", params=["fetch", "record"])
def crawled(request, serve, crawl):
    """Return how canonicals were treated, the crawl, and the URLs that were requested."""
    server = serve(routes())
    settings = {
        "DEDUP_CANONICAL": request.param,
        "DEDUP_HOSTS": {"site.test": {"deny": [r"/denied"]}},
        "RETRY_TIMES": 0,
    }
    done = crawl(start=[f"{SITE}/"], proxy=server, settings=settings)
    return request.param, done, server.site.urls()


def test_every_declaration_comes_out_as_the_table_says(crawled):
    mode, done, _ = crawled
    found = {
        row.url.removeprefix(f"{SITE}/"): (row.canonical or {}).get("reason")
        for row in done.ledger.observations
    }
    expected = {
        name: fetched if mode == "fetch" else recorded for name, (_, fetched, recorded) in PAGES.items()
    }
    assert {name: found[name] for name in PAGES} == expected
    assert done.exit_code == 0


def test_targets_are_fetched_only_when_asked_and_once(crawled):
    mode, done, urls = crawled
    asked = Counter(urls)
    targets = [f"{SITE}/{name}" for name in ("article", "missing", "failing", "old", "secret")]
    if mode == "record":
        assert not asked.keys() & set(targets)
        assert "dedup/canonical/requested" not in done.stats
        return
    assert {url: asked[url] for url in targets} == dict.fromkeys(targets, 1)
    assert done.stats["dedup/canonical/requested"] == len(targets)
    assert asked[f"{SITE}/list"] == asked[f"{SITE}/denied?facet=1"] == asked[f"{ELSEWHERE}/a"] == 0


def test_a_fetched_target_goes_the_way_of_a_link_of_the_page(crawled):
    mode, done, urls = crawled
    if mode == "record":
        assert f"{SITE}/only-from-article" not in urls
        return
    (target,) = [row for row in done.ledger.observations if row.url == f"{SITE}/article"]
    assert target.depth == 2
    assert target.referrer_url.startswith(f"{SITE}/")
    assert done.reached_callback("only-from-article") == 1


def test_confirmed_pages_are_cited_under_their_canonical_and_stay(crawled):
    mode, done, _ = crawled
    cited = {row.url.removeprefix(f"{SITE}/"): row.document_url for row in done.ledger.observations}
    article = f"{SITE}/article"
    assert {name: cited[name] for name in ALIASES} == {
        name: article if mode == "fetch" else f"{SITE}/{name}" for name in ALIASES
    }
    others = PAGES.keys() - {*ALIASES}
    assert {cited[name] for name in others} == {f"{SITE}/{name}" for name in others}
    assert len(done.ledger.observations_of("article")) == (4 if mode == "fetch" else 3)
    assert len(done.ledger.bodies_of("article")) == 1


def test_the_feed_says_what_the_ledger_knew_when_the_page_was_written(crawled):
    _, done, _ = crawled
    feed = {line["url"]: line["canonical"] for line in done.feed("observation")}
    assert feed[f"{SITE}/plain"] is None
    own = feed[f"{SITE}/own"]
    assert (own["status"], own["reason"]) == ("confirmed", "self")
    assert [item["resolved"] for item in own["declared"]] == [f"{SITE}/own?utm_source=x#top"]


def test_every_claim_has_a_relation_with_its_measures(crawled):
    mode, done, _ = crawled
    with Ledger.open(f"sqlite:///{done.ledger_path}") as ledger:
        found = {one.a.removeprefix(f"{SITE}/"): one for one in ledger.relations() if one.kind == "canonical"}
    claims = {
        name
        for name, (_, _, reason) in PAGES.items()
        if reason not in {None, "self", "conflict", "only_in_body", "weak", "malformed"}
    }
    assert found.keys() == claims
    assert found["home"].state == "refuted"
    if mode == "fetch":
        assert found["moved"].measures["hops"] == ["redirect"]
        assert found["moved"].measures["judged_url"] == f"{SITE}/article"
        assert found["other"].measures["page_in_target"] < 0.9


FOLLOW_ALLOWED = """
import scrapy

class Allowed(scrapy.Spider):
    name = "allowed"
    allowed_domains = ["site.test", "sister.example"]
    custom_settings = {"DEPTH_LIMIT": 1}

    def __init__(self, start=(), **kwargs):
        super().__init__(**kwargs)
        self.start_urls = list(start)

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
"""


def test_another_site_is_fetched_only_where_it_is_allowed_by_name_and_within_the_depth(serve, crawl):
    server = serve(
        {
            f"{SITE}/": page("start", ["/deep"], head=head("http://www.sister.example/a")),
            f"{SITE}/other": page("other", head=head("http://stranger.example/a")),
            f"{SITE}/deep": page("deep", head=head("/deeper")),
            "*": page("somewhere"),
        }
    )
    done = crawl(
        FOLLOW_ALLOWED,
        start=[f"{SITE}/", f"{SITE}/other"],
        proxy=server,
        settings={"DEDUP_CANONICAL": "fetch"},
    )
    assert done.exit_code == 0
    assert set(server.site.urls()) == {
        f"{SITE}/",
        f"{SITE}/other",
        f"{SITE}/deep",
        "http://www.sister.example/a",
    }


def test_a_page_is_skipped_while_its_canonical_is_fresh_and_its_links_are_followed(serve, crawl):
    copies = {
        "/": page("index", ["/article", "/print", "/other", "/list"]),
        "/article": page("article"),
        "/print": page("article", ["/behind"], head=head("/article")),
        "/other": page("other", head=head("/article")),
        "/list": page("list"),
        "/behind": page("behind"),
    }
    server = serve(copies)
    settings = {"DEDUP_CANONICAL": "skip", "DEDUP_FRESHNESS": "1h"}
    first = crawl(start=[f"{SITE}/"], proxy=server, settings=settings)
    assert set(server.site.targets()) == copies.keys()
    with closing(sqlite3.connect(first.ledger_path)) as ledger, ledger:  # two hours later, but for one page
        ledger.execute(
            "update observation set fetched_us = fetched_us - 7200000000 where url not like '%/article'"
        )
    server.site.forget_hits()

    again = crawl(start=[f"{SITE}/"], proxy=server, settings=settings, folder=first.folder)
    assert set(server.site.targets()) == {"/", "/other", "/list", "/behind"}
    assert again.stats["dedup/requests/canonical"] == again.stats["dedup/requests/fresh"] == 1
    skipped = {row.url: row.reason for row in again.ledger.observations if row.outcome == "skipped"}
    assert skipped == {f"{SITE}/article": "fresh", f"{SITE}/print": "canonical"}
    assert again.exit_code == 0
