"""A crawl with DEDUP_FRESHNESS fetches what is not fresh, follows the links of what is, and loses nothing."""

from __future__ import annotations

import pytest

from .server import NOT_FOUND, page, redirect

# Follows all links; marks those to /list as listings.
SPIDER = """
import scrapy

class Own(scrapy.Spider):
    name = "own"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen = base, []

    async def start(self):
        yield scrapy.Request(self.base + "/", dont_filter=True)

    def parse(self, response):
        told = {name: response.meta.get(name) for name in ("depth", "note")}
        self.seen.append({"url": response.url, **told})
        for href in response.css("a::attr(href)").getall():
            meta = {"dedup_role": "listing"} if href.startswith("/list") else {"note": "from " + response.url}
            yield response.follow(href, meta=meta)
"""

ROUTES = {
    "/": page("index", ["/a", "/b?utm_source=mail", "/list/1", "/old"]),
    "/a": page("a", ["/a/deep", "/", "/b"]),
    "/a/deep": page("a deep", ["/list/2", "/a", "/a/deeper"]),
    "/a/deeper": page("a deeper", []),
    "/b": page("b", ["/a", "/gone"]),
    "/list/1": page("list 1", ["/c"]),
    "/list/2": page("list 2", ["/d"]),
    "/c": page("c", []),
    "/d": page("d", []),
    "/old": redirect("/moved", status=301),
    "/moved": page("moved", ["/below"]),
    "/below": page("below", []),
    "/gone": NOT_FOUND,
}


@pytest.fixture(scope="module")
def site(serve):
    return serve(ROUTES)


@pytest.fixture
def own(site, crawl, tmp_path):
    """Return a function that crawls again and again in one folder."""

    def run(spider=SPIDER, *, freshness=None, routes=None, **settings):
        site.site.routes = {**ROUTES, **(routes or {})}
        site.site.forget_hits()
        if freshness:
            settings["DEDUP_FRESHNESS"] = freshness
        result = crawl(spider, base=site.base, folder=tmp_path, settings=settings)
        assert result.exit_code == 0, result.log
        assert "Traceback" not in result.log, result.log
        assert "ERROR" not in result.log, result.log
        return result

    return run


CONTENT = ("/a", "/a/deep", "/a/deeper", "/b", "/c", "/d", "/moved", "/below")


def rows(crawl, path, **fields):
    """Return the observations of the latest job at a path that have these values."""
    latest = crawl.ledger.jobs[-1].job_id
    return [
        row
        for row in crawl.ledger.at(path)
        if row.job_id == latest and all(getattr(row, name) == value for name, value in fields.items())
    ]


def test_a_fresh_page_is_skipped_and_its_links_are_followed(own, site):
    """Start pages, listings and failed pages are fetched; a page added behind fresh ones is found."""
    own()
    added = {"/list/2": page("list 2", ["/d", "/new"]), "/new": page("new")}
    second = own(freshness="1h", routes=added)

    assert sorted(site.site.targets()) == ["/", "/gone", "/list/1", "/list/2", "/new"]
    assert second.stats["dedup/requests/fresh"] == len(CONTENT)
    assert second.stats["dedup/bodies/new"] == 1
    for path in CONTENT:
        (row,) = rows(second, path)
        (before,) = [one for one in second.ledger.at(path) if one.job_id != row.job_id]
        assert (row.outcome, row.reason, row.action) == ("skipped", "fresh", "none")
        assert (row.body_id, row.related_observation_id) == (before.body_id, before.observation_id)
        assert (row.depth, row.referrer_url) == (before.depth, before.referrer_url)
        assert (row.http_status, row.validity, row.conditions) == (None, None, before.conditions)
    (new,) = [call for call in second.callbacks if call["url"].endswith("/new")]
    assert new["depth"] == 4
    assert new["note"].endswith("/list/2")
