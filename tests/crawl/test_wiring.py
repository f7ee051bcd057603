"""What the URL policy must leave alone in a crawl, and what it must tell apart."""

from __future__ import annotations

import pytest

from .server import BROKEN, DROPPED, Reply, Visit, free_port, page, redirect

WIRED = """
import scrapy
from scrapy import signals
from scrapy.exceptions import DontCloseSpider

class Wired(scrapy.Spider):
    name = "wired"

    def __init__(self, base, refused, **kwargs):
        super().__init__(**kwargs)
        self.base, self.refused, self.seen, self.failures, self.idled = base, refused, [], [], 0

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    async def start(self):
        yield scrapy.Request(self.base + "/", errback=self.failed, dont_filter=True)

    def idle(self):
        self.idled += 1
        if self.idled == 1:
            for target in ("/engine?utm_source=x", "/", "/once"):
                self.crawler.engine.crawl(self.get(target))
            raise DontCloseSpider

    def get(self, target, **kwargs):
        return scrapy.Request(self.base + target, errback=self.failed, callback=self.parse, **kwargs)

    def parse(self, response):
        marks = sorted(set(word for word in response.text.replace("<", " ").split() if word.startswith("Zq")))
        self.seen.append({"url": response.url, "method": response.request.method, "marks": marks})
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, errback=self.failed)
        if response.url == self.base + "/":
            for body in ("name=a", "name=b", "name=a"):
                yield self.get("/form", method="POST", body=body)
            yield self.get("/post?b=2&a=1&utm_source=x", method="POST", body="x")
            yield self.get("/signed?z=1&a=2&utm_source=mail", meta={"verbatim_url": True})
            yield self.get("/again", dont_filter=True)
            yield self.get("/again", dont_filter=True)
            yield self.get("/off?utm_source=x&b=2&a=1", meta={"dedup": False})
            for target in ("/missing", "/broken", "/dropped", "/slow"):
                yield self.get(target, meta={"download_timeout": 1})
            yield scrapy.Request(self.refused, errback=self.failed)

    def failed(self, failure):
        self.failures.append([failure.request.url, failure.request.method, failure.type.__name__])
        if "/missing" in failure.request.url:
            yield self.get("/from_errback?utm_source=x")
"""

DISTINCT = {
    "order of equal names, first": "/list?a=1&a=2",
    "order of equal names, second": "/list?a=2&a=1",
    "bare name": "/service?wsdl",
    "name with an empty value": "/service?wsdl=",
    "upper case path": "/Product/ABC",
    "lower case path": "/product/abc",
    "undecodable escape E9": "/search?q=%E9",
    "undecodable escape E8": "/search?q=%E8",
    "value 1": "/show?gallery=1",
    "value 2": "/show?gallery=2",
    "story 42": "/story?sid=42",
    "story 43": "/story?sid=43",
    "page 1": "/blog?page=1",
    "page 2": "/blog?page=2",
    "escaped hash": "/a%23b",
    "escaped slash": "/a%2Fb",
    "a name that looks like tracking": "/map?utm_zone=33",
    "another value of it": "/map?utm_zone=34",
}
SENT_AS_LINKED = ("/order?b=1&a=2", "/order2?z=1&y=2&x=3", "/Case/Kept/?Q=Up")
MERGED = ("/once?utm_source=a", "/once?utm_source=b", "/once", "/once#top", "/once?gclid=1")

ROUTES = {
    "/": page(
        "index",
        [
            *DISTINCT.values(),
            *SENT_AS_LINKED,
            *MERGED,
            "/spa#!/a",
            "/spa#!/b",
            "/refresh",
            "/based/",
            "/copy1",
            "/copy2",
            "/signed?a=2&z=1",
        ],
    ),
    **{target: page(name) for name, target in DISTINCT.items()},
    **{target: page(target) for target in SENT_AS_LINKED},
    "/once": page("once"),
    "/spa": page("spa"),
    "/refresh": page(
        "refreshing", head='<meta http-equiv="refresh" content="0; url=/refreshed?b=1&amp;a=2">'
    ),
    "/refreshed?b=1&a=2": page("refreshed"),
    "/based/": page("based", ["leaf"], head='<base href="/deep/er/">'),
    "/deep/er/leaf": page("leaf"),
    "/based/leaf": page("wrong leaf"),
    "/copy1": page("copied", ["/only1"]),
    "/copy2": page("copied", ["/only2"]),
    "/only1": page("only1"),
    "/only2": page("only2"),
    "/signed?z=1&a=2&utm_source=mail": page("signed"),
    "/signed?a=2&z=1": page("signed otherwise"),
    "/again": page("again"),
    "/off": page("off"),
    "/form": lambda visit: page(visit.body.decode()),
    "/post": page("post"),
    "/engine": page("engine"),
    "/from_errback": page("from errback"),
    "/broken": BROKEN,
    "/dropped": DROPPED,
    "/slow": Reply(page("slow"), delay_s=3),
}


@pytest.fixture(scope="module")
def refused():
    return f"http://127.0.0.1:{free_port()}/refused"


@pytest.fixture(scope="module", params=["standard", pytest.param("conservative", marks=pytest.mark.slow)])
def wired(request, serve, crawl, refused):
    server = serve(ROUTES)
    settings = {"DEDUP_URL_POLICY": request.param}
    result = crawl(WIRED, base=server.base, refused=refused, settings=settings)
    return result, server, request.param


@pytest.mark.parametrize("name", DISTINCT)
def test_different_pages_with_similar_urls_are_all_fetched(wired, name):
    result, server, _ = wired

    assert server.site.targets().count(DISTINCT[name]) == 1
    assert len(result.ledger.bodies_of(name)) == 1
    assert result.reached_callback(name) == 1


@pytest.mark.parametrize("target", SENT_AS_LINKED)
def test_a_url_is_requested_as_it_was_linked(wired, target):
    _, server, _ = wired

    assert server.site.targets().count(target) == 1


def test_urls_that_differ_by_tracking_are_one_request(wired):
    result, server, preset = wired

    asked = [target for target in server.site.targets() if target.startswith("/once")]
    if preset == "standard":
        assert asked == ["/once"]
    else:
        assert set(asked) == {target.partition("#")[0] for target in MERGED}
    assert len(result.ledger.bodies_of("once")) == 1


def test_merged_urls_stay_known_with_their_referrer(wired):
    result, server, preset = wired
    if preset == "conservative":
        pytest.skip("nothing is merged here under the conservative preset")

    kept = {alias.raw_url: alias for alias in result.ledger.aliases}
    expected = {f"{server.base}{target}" for target in MERGED if "?" in target}
    assert expected <= set(kept)
    assert {kept[url].referrer_url for url in expected} == {f"{server.base}/"}
    assert {kept[url].depth for url in expected} == {1}


def test_hash_bang_routes_have_keys_of_their_own(wired):
    result, server, _ = wired

    rows = [row for row in result.ledger.observations if row.url.startswith(f"{server.base}/spa")]
    aliases = [alias for alias in result.ledger.aliases if alias.raw_url.startswith(f"{server.base}/spa")]
    keys = {row.url_key for row in rows} | {alias.url_key for alias in aliases}
    assert {key.partition("#")[2] for key in keys} >= {"!/a", "!/b"}


def test_posts_are_told_apart_by_their_body(wired):
    result, server, _ = wired

    sent = sorted(visit.body for visit in server.site.hits if visit.target == "/form")
    assert sent == [b"name=a", b"name=b"]
    assert len(result.ledger.bodies_of("name=a")) == 1
    assert len(result.ledger.bodies_of("name=b")) == 1
    assert {row.conditions.method for row in result.ledger.at("/form")} == {"POST"}


def test_the_url_of_a_post_is_not_rewritten(wired):
    _, server, _ = wired

    assert "/post?b=2&a=1&utm_source=x" in server.site.targets()


def test_a_verbatim_url_is_not_rewritten_nor_merged(wired):
    result, server, _ = wired

    assert server.site.targets().count("/signed?z=1&a=2&utm_source=mail") == 1
    assert len(result.ledger.bodies_of("signed")) == 1
    assert len(result.ledger.bodies_of("signed otherwise")) == 1


def test_dont_filter_requests_are_all_sent_and_share_one_body(wired):
    result, server, _ = wired

    assert server.site.targets().count("/again") == 2
    first, second = result.ledger.observations_of("again")
    assert (first.action, second.action) == ("keep", "reuse")


def test_a_request_with_the_suite_off_is_sent_as_it_is_and_not_recorded(wired):
    result, server, _ = wired

    assert "/off?utm_source=x&b=2&a=1" in server.site.targets()
    assert result.reached_callback("off") == 1
    assert result.ledger.bodies_of("off") == []
    assert [row for row in result.ledger.observations if "/off" in row.url] == []


def test_requests_of_errbacks_and_of_the_engine_reach_their_pages(wired):
    result, _, _ = wired

    for slug in ("from errback", "engine"):
        assert len(result.ledger.bodies_of(slug)) == 1
        assert result.reached_callback(slug) == 1


def test_the_engine_does_not_fetch_a_start_url_again(wired):
    _, server, _ = wired

    assert server.site.targets().count("/") == 1


def test_a_meta_refresh_reaches_its_page(wired):
    result, _, _ = wired

    assert len(result.ledger.bodies_of("refreshed")) == 1
    assert result.reached_callback("refreshed") == 1


def test_links_are_resolved_against_the_base_of_a_page(wired):
    result, server, _ = wired

    assert "/deep/er/leaf" in server.site.targets()
    assert "/based/leaf" not in server.site.targets()
    assert len(result.ledger.bodies_of("leaf")) == 1


def test_links_of_duplicate_pages_are_followed(wired):
    result, _, _ = wired

    assert len(result.ledger.bodies_of("copied")) == 1
    assert len(result.ledger.observations_of("copied")) == 2
    assert result.reached_callback("only1") == result.reached_callback("only2") == 1


def test_errbacks_are_called_as_without_the_addon(wired, serve, crawl, refused):
    result, server, _ = wired
    plain_server = serve(ROUTES)
    plain = crawl(WIRED, addon=False, base=plain_server.base, refused=refused)

    def without_port(failures, base):
        return sorted([url.replace(base, ""), method, kind] for url, method, kind in failures)

    expected = without_port(plain.dump["failures"], plain_server.base)
    assert len(expected) == 5
    assert without_port(result.dump["failures"], server.base) == expected


def test_the_crawl_ends_without_an_error_of_ours(wired):
    result, _, _ = wired

    assert result.exit_code == 0
    assert result.dump["reason"] == "finished"
    assert "scrapy_dedup/" not in result.log  # no traceback through our files
    assert "DeprecationWarning" not in result.log


# A cookie wall behind a POST, and a redirect whose meta the spider filled.

POSTED = """
import scrapy

class Posted(scrapy.Spider):
    name = "posted"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen = base, []

    async def start(self):
        yield scrapy.FormRequest(self.base + "/login", formdata={"user": "a"}, callback=self.parse)
        yield scrapy.Request(self.base + "/here", meta={"own": {"deep": [1]}}, cb_kwargs={"number": 7})

    def parse(self, response, number=None):
        marks = sorted(set(word for word in response.text.replace("<", " ").split() if word.startswith("Zq")))
        self.seen.append({
            "url": response.url, "marks": marks, "own": response.meta.get("own"), "number": number,
            "meta": sorted(key for key in response.meta if "dedup" in key),
        })
"""


def login(visit: Visit) -> Reply | bytes:
    if visit.method == "POST":
        return redirect("/login", 303, cookie="in=1; Path=/")
    return page("logged in") if "in=1" in visit.headers.get("cookie", "") else page("login form")


@pytest.fixture(scope="module")
def posted(serve, crawl):
    server = serve({"/login": login, "/here": redirect("/here/"), "/here/": page("here")})
    return crawl(POSTED, base=server.base)


def test_the_page_after_a_login_form_is_seen(posted):
    assert posted.reached_callback("logged in") == 1
    assert len(posted.ledger.bodies_of("logged in")) == 1


def test_meta_and_arguments_of_a_request_reach_its_callback(posted):
    (call,) = [call for call in posted.callbacks if call["url"].endswith("/here/")]

    assert call["own"] == {"deep": [1]}
    assert call["number"] == 7
