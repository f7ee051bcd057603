"""Middlewares, requests and copies of the user's own, between the parts of the suite, cost no page."""

from __future__ import annotations

import pytest

from .server import BROKEN, DROPPED, NOT_FOUND, Reply, page, redirect

SPIDER = """
import dataclasses
import hashlib

import scrapy
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.utils.request import fingerprint
from scrapy_dedup import PageItem


class Slow(scrapy.Request):
    # Its own attribute is none of Scrapy's ``attributes``, so replace() forgets it.
    def __init__(self, *args, wait=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.wait = wait


class ByAccount:
    def fingerprint(self, request):
        if isinstance(request, Slow):
            assert request.wait == 5
        account = str(request.meta.get("account")).encode()
        return hashlib.sha1(fingerprint(request) + account).digest()


class Downloader:
    def process_request(self, request):
        if request.url.endswith("/moved_by_request"):
            return request.replace(url=request.url.replace("moved_by", "target_by"))

    def process_response(self, request, response):
        if request.url.endswith("/moved_by_response"):
            return request.replace(url=request.url.replace("moved_by", "target_by"))
        if "/refused/" in request.url:
            raise IgnoreRequest("not wanted")
        return response


class Output:
    async def process_start(self, start):
        async for request in start:
            if request.url.endswith("/not_started"):
                continue
            if request.url.endswith("/account"):
                request.meta["account"] = request.headers["X-Account"].decode()
            yield request

    async def process_spider_output(self, response, result):
        name = response.url.rpartition("/")[2]
        async for entry in result:
            if name == "item_dropped" and isinstance(entry, PageItem):
                continue
            if name == "item_rebuilt" and isinstance(entry, PageItem):
                entry = dataclasses.replace(entry)
            if name == "output_raises":
                raise ValueError("a bug of the middleware")
            yield entry
            if name == "output_cut":
                return


class Users(scrapy.Spider):
    name = "users"
    allowed_domains = ["127.0.0.1"]

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen, self.failures = base, [], []

    async def start(self):
        for account in ("one", "two"):
            yield scrapy.Request(
                self.base + "/account", headers={"X-Account": account}, dont_filter=True
            )
        for target in ("/not_started", "/moved_start", "/"):
            yield scrapy.Request(self.base + target, dont_filter=True)

    async def parse(self, response):
        words = response.text.replace("<", " ").split()
        marks = sorted({word for word in words if word.startswith("Zq")})
        self.seen.append({"url": response.url, "marks": marks})
        name = response.url.rpartition("/")[2]
        if name in ("item_dropped", "item_rebuilt"):
            yield PageItem.from_response(response, own=name)
        elif name == "item_of_a_copy":
            yield PageItem.from_response(response.replace(body=response.body + b"<p>more</p>"), own=name)
        elif name == "inline":
            await self.crawler.engine.download_async(scrapy.Request(self.base + "/inline_moved"))
        elif name == "requested_again" and not response.meta.get("again"):
            response.request.dont_filter, response.request.meta["again"] = True, True
            yield response.request
        elif name == "again":
            yield scrapy.Request(
                self.base + "/polled/", self.polled, dont_filter=True, meta={"dont_cache": True}
            )
        elif name == "index":
            yield Slow(self.base + "/slow?utm_source=x", wait=5)
            yield scrapy.FormRequest(self.base + "/form", formdata={"a": "b"}, callback=self.posted)
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, errback=self.failed)

    def failed(self, failure):
        if failure.request.url.endswith("/lost"):
            yield scrapy.Request(self.base + "/instead", meta=failure.request.meta)

    def polled(self, response):
        self.failures.append({"url": response.url, "by": "polled"})

    def posted(self, response):
        self.failures.append({"url": response.url, "by": "posted"})
"""

# A page at the second URL, where that of the first holds the key and leads to none.
ELSEWHERE = {
    "redirect_to_another_site": ("/offsite/", "/offsite"),
    "redirect_to_a_denied_url": ("/denied/", "/denied"),
    "redirect_to_a_page_known_as_dead": ("/dead/", "/dead"),
    "response_refused": ("/refused/", "/refused"),
}
SEEN = ("item_dropped", "item_rebuilt", "item_of_a_copy", "output_raises", "output_cut")

ROUTES = {
    "/": page("start", ["/index"]),
    "/index": page(
        "index",
        [
            "/gone",
            *(url for urls in ELSEWHERE.values() for url in urls),
            *(f"/{name}" for name in SEEN),
            *("/moved_by_request", "/moved_by_response", "/inline", "/not_started", "/wait"),
            *("/moved_to_lost", "/requested_again"),
            *("/form/", "/form/?utm_source=b", "/form", "/polled/", "/polled", "/cart/x"),
        ],
    ),
    "/offsite/": redirect("http://other.example/"),
    "/denied/": redirect("/cart/y"),
    "/dead/": Reply(b"", 302, headers=(("Location", "/gone"),), delay_s=0.5),
    "/gone": NOT_FOUND,
    "/refused/": page("refused_as_such"),
    **{working: page(case) for case, (_, working) in ELSEWHERE.items()},
    **{f"/{name}": page(name, ["/index"]) for name in SEEN},
    "/target_by_request": page("target_by_request"),
    "/target_by_response": page("target_by_response"),
    "/inline": page("inline"),
    "/inline_moved": redirect("/inline_target"),
    "/inline_target": page("inline_target"),
    "/not_started": page("not_started"),
    "/moved_start": redirect("/start_target"),
    "/start_target": page("start_target"),
    "/wait": Reply(page("wait", ["/again", "/refused/"]), delay_s=1.5),
    "/again": page("again"),
    "/polled": page("polled_as_such"),
    "/polled/": lambda visit: BROKEN if visit.count else page("polled"),
    "/form/": page("form"),
    "/form": lambda visit: redirect("/forbidden") if visit.method == "POST" else page("form_as_such"),
    "/forbidden": Reply(page("forbidden"), 403),
    "/moved_to_lost": redirect("/lost"),
    "/lost": DROPPED,
    "/instead": page("instead"),
    "/requested_again": page("requested_again"),
    "/account": lambda visit: page(f"account {visit.headers.get('x-account')}"),
    "/slow": page("slow"),
}


@pytest.fixture(scope="module")
def used(serve, crawl):
    server = serve(ROUTES)
    settings = {
        "REQUEST_FINGERPRINTER_CLASS": "spider_of_the_test.ByAccount",
        "DOWNLOADER_MIDDLEWARES": {"spider_of_the_test.Downloader": 543},
        "SPIDER_MIDDLEWARES": {"spider_of_the_test.Output": 543},
        "DEDUP_HOSTS": {"127.0.0.1": {"deny": ["/cart/*"]}},
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": "httpcache",
        "HTTPCACHE_IGNORE_HTTP_CODES": [500],
        "RETRY_TIMES": 0,
        "REFERRER_POLICY": "same-origin",
    }
    return crawl(SPIDER, base=server.base, settings=settings), server


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_key_that_ends_without_a_page_gives_its_variants_their_turn(used, case):
    result, _ = used

    assert result.reached_callback(case) == 1
    assert len(result.ledger.bodies_of(case)) == 1


@pytest.mark.parametrize("name", SEEN)
def test_a_page_is_recorded_once_whatever_becomes_of_what_its_callback_yields(used, name):
    result, _ = used

    assert len(result.ledger.at(f"/{name}")) == 1


def test_a_page_item_of_a_changed_copy_stands_for_its_response(used):
    result, _ = used

    (row,) = result.ledger.at("/item_of_a_copy")

    assert row.extra == {"own": "item_of_a_copy"}


def test_a_refused_response_that_is_linked_again_is_one_failure(used):
    result, _ = used

    (row,) = result.ledger.at("/refused/")

    assert (row.outcome, row.validity_reason) == ("error", "response_refused")


@pytest.mark.parametrize("name", ["moved_by_request", "moved_by_response", "inline_moved"])
def test_a_request_that_another_took_the_place_of_is_no_failure(used, name):
    result, _ = used

    assert result.ledger.at(f"/{name}") == []


def test_a_start_request_that_a_middleware_drops_holds_no_key(used):
    result, _ = used

    assert result.reached_callback("not_started") == 1


def test_a_fingerprinter_sees_what_a_middleware_changed_last(used):
    result, _ = used

    assert len({row.request_id for row in result.ledger.at("/account")}) == 2
    assert result.reached_callback("account one") == result.reached_callback("account two") == 1


def test_a_request_of_a_class_of_the_user_keeps_what_it_holds(used):
    result, _ = used

    assert result.reached_callback("slow") == 1


@pytest.mark.parametrize("by", ["posted", "polled"])
def test_a_request_that_holds_no_key_gives_no_variant_to_its_callback(used, by):
    result, _ = used

    assert [call for call in result.failures if call["by"] == by] == []


def test_the_referrer_of_a_page_is_never_a_hop_of_its_own_way(used):
    result, server = used

    (row,) = result.ledger.at("/start_target")

    assert (row.redirect_urls, row.referrer_url) == ((f"{server.base}/moved_start",), None)


def test_a_request_of_an_errback_has_a_way_of_its_own_though_it_copies_meta(used):
    result, server = used

    (row,) = result.ledger.at("/instead")

    assert (row.redirect_urls, row.request_url) == ((), f"{server.base}/instead")


def test_a_request_that_its_callback_yields_once_more_is_sent_once_more(used):
    result, _ = used

    assert result.reached_callback("requested_again") == len(result.ledger.at("/requested_again")) == 2


def test_a_denied_url_is_kept_with_the_page_that_linked_to_it(used):
    result, server = used

    (alias,) = [alias for alias in result.ledger.aliases if alias.raw_url.endswith("/cart/x")]

    assert alias.referrer_url == f"{server.base}/index"


def test_nothing_else_is_an_error(used):
    result, _ = used

    assert [line for line in result.log.splitlines() if "Error: " in line] == [
        "ValueError: a bug of the middleware"
    ]
    errors = [line for line in result.log.splitlines() if " ERROR: " in line]
    assert len([line for line in errors if "Gave up retrying" not in line]) == 1


STOPPED = """
import scrapy
from scrapy.exceptions import CloseSpider, IgnoreRequest

class Refuse:
    def process_response(self, request, response):
        if request.url.endswith("/refused"):
            raise IgnoreRequest("not wanted")
        return response

class Stopped(scrapy.Spider):
    name = "stopped"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/refused", base + "/stop"]

    def parse(self, response):
        raise CloseSpider("enough")
"""

INTERRUPTED = """
import asyncio
import scrapy
from scrapy_dedup import PageItem

class Interrupted(scrapy.Spider):
    name = "interrupted"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/slow", base + "/slow_item", base + "/first"]
        self.seen = []

    async def parse(self, response):
        self.seen.append({"url": response.url, "marks": []})
        if response.url.endswith("/first"):
            self.stopping = asyncio.ensure_future(self.crawler.stop_async())  # as Scrapy does at an interrupt
        elif response.url.endswith("_item"):
            yield PageItem.from_response(response)
"""


@pytest.mark.slow
def test_pages_that_still_arrive_after_an_interrupt_are_recorded(serve, crawl):
    slow = ("slow", "slow_item")
    server = serve({"/first": page("first"), **{f"/{name}": Reply(page(name), delay_s=1) for name in slow}})

    result = crawl(INTERRUPTED, base=server.base)

    assert result.stats["finish_reason"] == "shutdown"
    assert {call["url"] for call in result.callbacks} == {
        f"{server.base}/{name}" for name in (*slow, "first")
    }
    assert {row.url for row in result.ledger.observations} == {call["url"] for call in result.callbacks}


@pytest.mark.slow
def test_a_refused_response_is_recorded_though_the_crawl_is_stopped(serve, crawl):
    server = serve({"/refused": page("refused"), "/stop": Reply(page("stop"), delay_s=1)})
    settings = {"DOWNLOADER_MIDDLEWARES": {"spider_of_the_test.Refuse": 543}}

    result = crawl(STOPPED, base=server.base, settings=settings)

    assert result.stats["finish_reason"] == "enough"
    assert {(row.url, row.outcome) for row in result.ledger.observations} == {
        (f"{server.base}/refused", "error"),
        (f"{server.base}/stop", "fetched"),
    }
