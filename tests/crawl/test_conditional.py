"""With DEDUP_CONDITIONAL the server says what has not changed; discovery goes on behind every 304."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from scrapy import Request

from scrapy_dedup.crawl.conditional import unconditional, validators_of, withdraw_validators
from scrapy_dedup.crawl.requests import VALIDATORS
from scrapy_dedup.ledger.seen import SeenPage

from . import by_hand
from .server import Reply, page, redirect

SPIDER = """
import scrapy

class Own(scrapy.Spider):
    name = "own"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen, self.failures = base, [], []

    async def start(self):
        yield scrapy.Request(self.base + "/", dont_filter=True, errback=self.failed)

    def parse(self, response, **given):
        self.seen.append({"url": response.url, "status": response.status, "depth": response.meta["depth"]})
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, callback=self.parse, errback=self.failed, cb_kwargs={"came": "here"})

    def failed(self, failure):
        self.failures.append({"type": failure.type.__name__})
"""

OLD = "Tue, 01 Sep 2026 08:00:00 GMT"


def tagged(body, tag='"v1"', modified=OLD):
    """Return a route that answers 304 to whoever names its ETag, or its date and no ETag."""

    def answer(visit):
        asked = (visit.headers.get("if-none-match"), visit.headers.get("if-modified-since"))
        headers = [("ETag", tag)] if tag else []
        headers += [("Last-Modified", modified)] if modified else []
        if (asked[0] == tag) if asked[0] else (modified and asked[1] == modified):
            return Reply(b"", 304, None, tuple(headers))
        return Reply(body, headers=tuple(headers))

    return answer


ROUTES = {
    "/": tagged(page("index", ["/a", "/dated", "/plain", "/old", "/x/"])),
    "/a": tagged(page("a", ["/a/below"])),
    "/a/below": tagged(page("a below")),
    "/dated": tagged(page("dated"), tag=None),
    "/plain": page("plain"),
    "/old": redirect("/target", 301),
    "/target": tagged(page("target")),
    "/x": page("x without slash"),
    "/x/": tagged(page("x with slash")),
}


@pytest.fixture(scope="module")
def site(serve):
    return serve(ROUTES)


@pytest.fixture
def own(site, crawl, tmp_path):
    """Return a function that crawls again and again in one folder."""

    def run(spider=SPIDER, *, routes=None, **settings):
        site.site.routes = {**ROUTES, **(routes or {})}
        site.site.forget_hits()
        result = crawl(spider, base=site.base, folder=tmp_path, settings=settings)
        assert result.exit_code == 0, result.log
        assert "Traceback" not in result.log, result.log
        return result

    return run


def latest(crawl, url):
    """Return the observations of the last job at a URL."""
    job_id = crawl.ledger.jobs[-1].job_id
    return [row for row in crawl.ledger.observations if (row.url, row.job_id) == (url, job_id)]


def test_an_unchanged_page_is_not_modified_and_its_links_are_followed(own, site):
    """One crawl that asks, over everything that may be asked about: ETag, date, neither, redirect, news."""
    before = {row.url: row for row in own().ledger.observations}
    news = {
        "/a/below": tagged(
            page("a below, changed", ["/new"]), tag='"v2"', modified="Wed, 02 Sep 2026 08:00:00 GMT"
        ),
        "/new": page("new"),
    }
    second = own(routes=news, DEDUP_CONDITIONAL=True)

    asked = {visit.path: visit.headers for visit in site.site.hits}
    assert asked["/"]["if-none-match"] == '"v1"'
    assert asked["/dated"].get("if-none-match") is None
    assert asked["/dated"]["if-modified-since"] == OLD
    assert asked["/plain"].get("if-none-match") is None
    assert asked["/old"].get("if-none-match") is None
    assert sorted(site.site.targets()) == [
        "/", "/a", "/a/below", "/dated", "/new", "/old", "/plain", "/target", "/x/"
    ]  # fmt: skip
    for path in ("/", "/a", "/dated", "/x/"):
        known, (row,) = before[site.base + path], latest(second, site.base + path)
        assert (row.outcome, row.reason, row.action) == ("not_modified", "not_modified", "reuse")
        assert (row.http_status, row.validity, row.body_id) == (304, "valid", known.body_id)
        assert row.related_observation_id == known.observation_id
        assert (row.payload_digest, row.title, row.etag) == (known.payload_digest, known.title, known.etag)
        assert (row.depth or 0, row.referrer_url) == (known.depth, known.referrer_url)
    assert second.failures == []
    called = {call["url"].removeprefix(site.base): call for call in second.callbacks}
    assert set(called) == {"/a/below", "/new", "/plain", "/target"}
    assert (called["/a/below"]["depth"], called["/new"]["depth"]) == (2, 3)
    assert second.stats["dedup/pages/not_modified"] == 4
    assert "dedup/variants/requested" not in second.stats

    third = own(routes=news, DEDUP_CONDITIONAL=True)
    assert (
        latest(third, site.base + "/a")[0].outcome == "not_modified"
    )  # asked about a page whose last news was a 304
    assert {call["url"].removeprefix(site.base) for call in third.callbacks} == {"/new", "/plain", "/target"}
    assert third.stats.get("dedup/bodies/new", 0) == 0


CHOOSING = """
import scrapy

class Own(scrapy.Spider):
    name = "own"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen, self.failures = base, [], []

    async def start(self):
        for path in ("/asked", "/silent", "/form", "/mine", "/moving"):
            yield self.request(path)

    def request(self, path):
        meta = {} if path == "/silent" else {"dedup_conditional": True}
        headers = {"If-None-Match": '"v1"'} if path == "/mine" and self.settings.getbool("AGAIN") else None
        url = self.base + path
        return scrapy.Request(url, meta=meta, headers=headers, errback=self.failed, dont_filter=True)

    def parse(self, response):
        self.seen.append({"url": response.url})
        if response.url.endswith("/form"):
            yield scrapy.FormRequest(response.url + "/sent", formdata={"q": "1"})

    def failed(self, failure):
        self.failures.append({"url": failure.value.response.url, "status": failure.value.response.status})
"""


@pytest.mark.slow
def test_only_a_request_that_asks_for_it_and_whose_page_has_links_is_conditional(own, site):
    """One switch for one request; a list that cannot be stored, validators of the user, a redirect."""
    routes = {
        "/asked": tagged(page("asked")),
        "/silent": tagged(page("silent")),
        "/form": tagged(page("form")),
        "/form/sent": page("sent"),
        "/mine": tagged(page("mine")),
        "/moving": tagged(page("moving")),
        "/moved": tagged(page("moved")),
    }
    own(CHOOSING, routes=routes)

    second = own(CHOOSING, routes=routes | {"/moving": redirect("/moved")}, AGAIN=True)

    asked = {visit.path: visit.headers.get("if-none-match") for visit in site.site.hits}
    no_one = dict.fromkeys(("/silent", "/form", "/form/sent", "/moved"))
    assert asked == {"/asked": '"v1"', "/mine": '"v1"', "/moving": '"v1"', **no_one}
    called = sorted(call["url"].removeprefix(site.base) for call in second.callbacks)
    assert called == ["/form", "/form/sent", "/moved", "/silent"]
    assert second.failures == [{"url": f"{site.base}/mine", "status": 304}]  # as without the suite
    (mine,) = latest(second, site.base + "/mine")
    assert (mine.outcome, mine.validity, mine.action, mine.body_id) == ("not_modified", None, "none", None)
    assert second.stats["dedup/pages/not_modified"] == 1


@pytest.mark.slow
def test_a_cache_of_responses_asks_by_itself(own, site):
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy"}
    own(**cache)

    second = own(**cache, DEDUP_CONDITIONAL=True)

    assert "dedup/pages/not_modified" not in second.stats
    called = {call["url"].removeprefix(site.base) for call in second.callbacks}
    assert called == {"/", "/a", "/a/below", "/dated", "/plain", "/target", "/x/"}
    assert any(row.from_cache for row in latest(second, site.base + "/a"))


def seen(**changes):
    observation = by_hand.observation(SimpleNamespace(next_seq=lambda: 0), "job", "https://docs.example/")
    return SeenPage(replace(observation, **changes), 0, "x", "[]", in_job=False)


@pytest.mark.parametrize(
    ("stated", "sent"),
    [
        ({}, {}),
        ({"etag": 'W/"a"'}, {"If-None-Match": 'W/"a"'}),
        ({"etag": '"a"', "last_modified": OLD}, {"If-None-Match": '"a"', "If-Modified-Since": OLD}),
        ({"etag": '"ä"', "last_modified": OLD}, {"If-Modified-Since": OLD}),
        ({"etag": '"a"\r\nX-Evil: 1'}, {}),
        ({"etag": '"' + "a" * 1_000 + '"'}, {}),
        ({"etag": ""}, {}),
    ],
    ids=["nothing", "weak", "both", "not ASCII", "a header in a header", "too long", "empty"],
)
def test_validators_are_sent_as_they_were_stated_or_not_at_all(stated, sent):
    assert validators_of(seen(**stated)) == sent


def test_only_our_own_validators_are_taken_out():
    request = Request("https://docs.example/", headers={"If-None-Match": '"users"', "If-Modified-Since": OLD})
    request.meta[VALIDATORS] = [request.url, '"ours"', OLD]

    withdraw_validators(request)

    assert request.headers.get("If-None-Match") == b'"users"'
    assert "If-Modified-Since" not in request.headers
    assert VALIDATORS not in request.meta


def test_a_page_whose_links_are_gone_is_asked_for_itself():
    request = Request(
        "https://docs.example/", headers={"If-None-Match": '"a"'}, meta={"dedup_conditional": True}
    )
    request.meta[VALIDATORS] = [request.url, '"a"', None]

    again = unconditional(request)

    assert again.dont_filter
    assert again.meta == {"dedup_conditional": False}
    assert "If-None-Match" not in again.headers
    assert request.meta[VALIDATORS]
