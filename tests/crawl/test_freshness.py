"""A crawl with DEDUP_FRESHNESS fetches what is not fresh, follows the links of what is, and loses nothing."""

from __future__ import annotations

import functools
import json
import shutil
import sys
import tarfile
import threading
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import pytest

from scrapy_dedup.content import ExtractOptions
from scrapy_dedup.crawl.freshness import Terms, is_of_run, is_reliable
from scrapy_dedup.ledger import LedgerWriter, Overrides, Sighting
from scrapy_dedup.ledger.seen import SeenPage
from scrapy_dedup.records import Conditions, DecisionAction, Outcome, Validity

from . import by_hand
from .conftest import environment, read_ledger, run
from .server import NOT_FOUND, Reply, page, redirect
from .test_corpus_sites import CORPUS, EXAMPLE, Quiet

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

    def run(spider=SPIDER, *, freshness=None, routes=None, faults=False, arguments=None, **settings):
        site.site.routes = routes if routes is not None else ROUTES
        site.site.forget_hits()
        if freshness:
            settings["DEDUP_FRESHNESS"] = freshness
        result = crawl(spider, base=site.base, folder=tmp_path, settings=settings, **(arguments or {}))
        assert result.exit_code == 0, result.log
        assert faults or "Traceback" not in result.log, result.log
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
    second = own(freshness="1h", routes=ROUTES | added)

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
    assert second.stats["dedup/bodies/distinct"] == second.stats["dedup/payloads/distinct"] == 4
    (new,) = [call for call in second.callbacks if call["url"].endswith("/new")]
    assert new["depth"] == 4
    assert new["note"].endswith("/list/2")


SMALL = {
    "/": page("small index", ["/a", "/old"]),
    "/a": page("small a", ["/b"]),
    "/b": page("small b"),
    "/old": redirect("/moved", status=301),
    "/moved": page("small moved"),
}
EVERYTHING = ["/", "/a", "/b", "/moved", "/old"]

WITH_COOKIES = """
import scrapy

class Own(scrapy.Spider):
    name = "own"

    def __init__(self, base, jar=1, **kwargs):
        super().__init__(**kwargs)
        self.base, self.jar = base, jar

    async def start(self):
        yield scrapy.Request(self.base + "/", meta={"cookiejar": self.jar}, dont_filter=True)

    def parse(self, response):
        yield from response.follow_all(css="a", meta={"cookiejar": response.meta["cookiejar"]})
"""


@pytest.mark.slow
def test_only_what_was_fetched_under_equal_conditions_and_in_time_is_fresh(own, site, dedup, tmp_path):
    """Another corpus, language, cookie partition, spider, extractor; an older fetch; what is forgotten."""

    def fetched(**options):
        own(routes=SMALL, **options)
        return sorted(site.site.targets())

    assert fetched() == EVERYTHING
    assert fetched(freshness="1h") == ["/"]
    assert fetched(freshness="off") == EVERYTHING
    assert fetched(freshness="0.001") == EVERYTHING
    assert fetched(freshness="1h") == ["/"]
    assert fetched(freshness="1h", DEDUP_CORPUS="other") == EVERYTHING
    assert fetched(freshness="1h", DEFAULT_REQUEST_HEADERS={"Accept-Language": "de"}) == EVERYTHING
    assert fetched(freshness="1h", DEFAULT_REQUEST_HEADERS={"Accept-Language": "de"}) == ["/"]
    assert fetched(freshness="1h", spider=WITH_COOKIES) == EVERYTHING
    assert fetched(freshness="1h", spider=WITH_COOKIES) == ["/"]
    assert fetched(freshness="1h", spider=WITH_COOKIES, arguments={"jar": 2}) == EVERYTHING
    assert fetched(freshness="1h", spider=SPIDER.replace('name = "own"', 'name = "other"')) == EVERYTHING
    assert fetched(freshness="1h") == EVERYTHING  # the links that the other spider left are not ours
    assert fetched(freshness="1h") == ["/"]

    ledger = f"sqlite:///{tmp_path / 'dedup.db'}"
    assert dedup("forget", f"{site.base}/a", "--ledger", ledger, "--by", "human:tester").code == 0
    assert dedup("forget", f"{site.base}/old", "--ledger", ledger, "--by", "human:tester").code == 0
    assert fetched(freshness="1h") == ["/", "/a", "/moved", "/old"]
    assert fetched(freshness="1h") == ["/"]
    assert fetched(freshness="1h", DEDUP_EXTRACT={"focus": "precision"}) == EVERYTHING


KINDS = """
import asyncio
import scrapy
from scrapy_dedup import PageItem

class Kinds(scrapy.Spider):
    name = "own"
    custom_settings = {"SPIDER_MIDDLEWARES": {__name__ + ".Own": 543}, "DEPTH_LIMIT": 2}

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen = base, []

    async def start(self):
        yield scrapy.Request(self.base + "/", dont_filter=True)

    async def parse(self, response):
        self.seen.append({"url": response.url})
        kind = response.url.removeprefix(self.base)
        below = response.urljoin(kind + "/below")
        if kind == "/":
            for href in response.css("a::attr(href)").getall():
                yield response.follow(href)
        elif kind == "/lambda":
            yield scrapy.Request(below, lambda response: None)
        elif kind == "/form":
            yield scrapy.FormRequest(below, formdata={"q": "1"})
        elif kind == "/tuple":
            yield scrapy.Request(below, meta={"pair": (1, 2)})
        elif kind == "/item":
            yield PageItem.from_response(response, price=1)
            await asyncio.sleep(1.5)  # the item is recorded by now
            yield scrapy.Request(below)
        elif kind == "/copy":
            changed = response.replace(body=response.body + b"<!-- seen -->")
            yield PageItem.from_response(changed)
            yield scrapy.Request(below)
        elif kind in ("/fails", "/handled"):
            yield scrapy.Request(below)
            raise KeyError(kind)
        elif not kind.endswith("/below"):
            yield scrapy.Request(below)

class Own:
    async def process_spider_output(self, response, result):
        if response.url.endswith("/refused") and not response.body:
            raise ValueError("no page without a text")
        async for entry in result:
            if not (isinstance(entry, scrapy.Request) and entry.url.endswith("/dropped/below")):
                yield entry
        if response.url.endswith("/added"):
            yield scrapy.Request(response.url + "/by/below")

    def process_spider_exception(self, response, exception):
        return [] if response.url.endswith("/handled") else None
"""

KEPT = ("/plain", "/item", "/copy", "/dropped", "/deep/er")
ALWAYS_FETCHED = ("/lambda", "/form", "/tuple", "/fails", "/handled", "/added", "/refused")


@pytest.mark.slow
def test_a_page_whose_links_are_not_stored_whole_is_fetched(own, site):
    """By the kind of page: what its callback yields, and what the middlewares of the user make of that."""
    kinds = (*KEPT, *ALWAYS_FETCHED)
    routes = {
        "/": page("kinds", kinds),
        "/added/by/below": page("added by"),
        **{kind: page(kind) for kind in kinds},
    }
    routes |= {f"{kind}/below": page(f"below {kind}") for kind in kinds}
    own(KINDS, routes=routes, faults=True)
    first = sorted(site.site.targets())

    second = own(KINDS, routes=routes, faults=True, freshness="1h", AUTOTHROTTLE_ENABLED=True)

    assert "/dropped/below" not in first
    skipped = {target for target in first if target not in site.site.targets()}
    # What a lambda or a form leads to has no links of a method of the spider, or is no GET.
    below = {f"{kind}/below" for kind in kinds} - {"/dropped/below", "/lambda/below", "/form/below"}
    assert skipped == {*KEPT, *below, "/added/by/below"}
    assert sorted(site.site.targets()) == sorted({*first} - skipped)
    assert second.log.count("a spider middleware refused the page that stands for it") == 1
    assert {name.rpartition("/")[2] for name in second.stats if "links/unstorable" in name} >= {
        "callback", "method", "not_json", "middleware", "failed"
    }  # fmt: skip


@pytest.mark.slow
def test_a_job_that_is_paused_in_the_middle_of_fresh_pages_goes_on(own, site):
    """With JOBDIR the rest is fetched after the pause, and each skip is one row of the job."""
    routes = {
        "/": page("top", ["/a", "/list/1", "/list/2", "/list/3"]),
        "/a": page("a", ["/b"]),
        "/b": page("b", ["/list/4"]),
    }
    routes |= {f"/list/{number}": page(f"list {number}", [f"/n{number}", "/a"]) for number in range(1, 5)}
    routes |= {f"/n{number}": page(f"n{number}", ["/b"]) for number in range(1, 5)}
    own(routes=routes)
    grown = routes | {"/list/3": page("list 3", ["/new"]), "/new": page("new", ["/a"])}
    paused = {"JOBDIR": "job", "CONCURRENT_REQUESTS": 1, "CLOSESPIDER_PAGECOUNT": 3, "freshness": "1h"}

    fetched, reasons = [], []
    while "finished" not in reasons and len(reasons) < 8:
        last = own(routes=grown, **paused)
        fetched += site.site.targets()
        reasons.append(last.dump["reason"])

    assert len(reasons) > 1
    assert set(reasons) == {"closespider_pagecount", "finished"}
    again = [target for target in fetched if target != "/"]  # which Scrapy requests at each start
    assert sorted(again) == ["/list/1", "/list/2", "/list/3", "/list/4", "/new"]
    (earlier, job) = last.ledger.jobs
    skips = [row.url.removeprefix(site.base) for row in last.ledger.observations if row.outcome == "skipped"]
    assert sorted(skips) == ["/a", "/b", "/n1", "/n2", "/n4"]
    assert {row.job_id for row in last.ledger.observations} == {earlier.job_id, job.job_id}


WAITING = """
import asyncio
import scrapy

class Waiting(scrapy.Spider):
    name = "own"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen, self.arrived = base, [], asyncio.Event()

    async def start(self):
        yield scrapy.Request(self.base + "/", dont_filter=True)

    async def parse(self, response):
        yield response.follow("/a", self.parse_page)
        await asyncio.wait_for(self.arrived.wait(), 30)
        yield response.follow("/b", self.parse_page)

    def parse_page(self, response):
        self.seen.append({"url": response.url})
        self.arrived.set()
"""


@pytest.mark.slow
def test_a_callback_may_wait_for_the_page_of_a_request_that_it_yielded(own):
    result = own(WAITING, routes=SMALL, freshness="1h")

    assert [call["url"][-2:] for call in result.callbacks] == ["/a", "/b"]


LEVELS = """
import scrapy

class Own(scrapy.Spider):
    name = "own"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/"]

    def parse(self, response, left=2):
        left = response.meta.get("left", left)
        for link in response.css("a::attr(href)").getall():
            if left and link.startswith("/meta"):
                yield response.follow(link, meta={"left": left - 1})
            elif left:
                yield response.follow(link, cb_kwargs={"left": left - 1})
"""


@pytest.mark.parametrize("settings", [{"freshness": "1h"}, {"DEDUP_CONDITIONAL": True}], ids=["fresh", "304"])
def test_links_do_not_stand_for_a_page_that_is_asked_for_with_other_arguments(own, site, settings):
    """What was seen at the lowest level is linked from the top: what lies below it is to be found."""
    added = {"/": page("index", ["/a", "/meta/a", "/b", "/meta/b"])}
    routes = {"/": page("index", ["/a", "/meta/a"])}
    for top in ("", "/meta"):
        routes[f"{top}/a"] = page(f"{top} a", [f"{top}/b"])
        routes[f"{top}/b"] = page(f"{top} b", [f"{top}/c"])
        routes[f"{top}/c"] = page(f"{top} c", [])
    tagged = {url: functools.partial(tagged_with, url, body) for url, body in routes.items()}
    own(LEVELS, routes=tagged)
    assert sorted(site.site.targets()) == ["/", "/a", "/b", "/meta/a", "/meta/b"]

    second = own(LEVELS, routes=tagged | added, **settings)

    assert {"/b", "/c", "/meta/b", "/meta/c"} <= set(site.site.targets())
    assert rows(second, "/a", outcome="skipped" if "freshness" in settings else "not_modified")


def tagged_with(tag, body, visit):
    """Answer with a page that has an ETag, or with a 304 to who knows it."""
    headers = (("ETag", f'"{tag}"'),)
    is_known = visit.headers.get("if-none-match") == f'"{tag}"'
    return Reply(b"", 304, headers=headers) if is_known else Reply(body, headers=headers)


RULES = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

class Rules(CrawlSpider):
    name = "rules"
    rules = (
        Rule(LinkExtractor(allow="/section")),
        Rule(LinkExtractor(allow="/article"), callback="article", follow=True),
    )

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls, self.seen = [base + "/"], []

    def article(self, response):
        self.seen.append({"url": response.url})
"""

MAP = """
from scrapy.spiders import SitemapSpider

class Map(SitemapSpider):
    name = "map"

    def __init__(self, base, **kwargs):
        self.sitemap_urls, self.seen = [base + "/robots.txt"], []
        super().__init__(**kwargs)

    def parse(self, response):
        self.seen.append({"url": response.url})
        yield from response.follow_all(css="a")
"""


def xml(text):
    return Reply(text.encode(), content_type="application/xml")


@pytest.mark.slow
def test_a_crawl_spider_goes_on_by_the_rules_behind_fresh_pages(own, site):
    routes = {
        "/": page("top", ["/section/1", "/other"]),
        "/section/1": page("section", ["/article/1"]),
        "/article/1": page("one", ["/article/2"]),
        "/article/2": page("two", []),
    }
    own(RULES, routes=routes)
    gone = own(RULES, routes=routes | {"/article/2": NOT_FOUND})
    assert [call["url"][-2:] for call in gone.callbacks] == ["/1"]

    third = own(RULES, routes=routes, freshness="1h")

    assert site.site.targets() == ["/", "/article/2"]
    assert [call["url"][-2:] for call in third.callbacks] == ["/2"]  # by the callback of its rule


@pytest.mark.slow
def test_sitemaps_are_fetched_and_fresh_pages_in_them_are_not(own, site):
    def urlset(*paths):
        return xml(
            "<urlset>" + "".join(f"<url><loc>{site.base}{path}</loc></url>" for path in paths) + "</urlset>"
        )

    routes = {
        "/robots.txt": Reply(f"Sitemap: {site.base}/index.xml".encode(), content_type="text/plain"),
        "/index.xml": xml(
            f"<sitemapindex><sitemap><loc>{site.base}/pages.xml</loc></sitemap></sitemapindex>"
        ),
        "/pages.xml": urlset("/a", "/b"),
        "/a": page("a", ["/c"]),
        "/b": page("b"),
        "/c": page("c"),
        "/new": page("new"),
    }
    own(MAP, routes=routes)

    second = own(MAP, routes=routes | {"/pages.xml": urlset("/a", "/b", "/new")}, freshness="1h")

    assert site.site.targets() == ["/index.xml", "/pages.xml", "/new"]
    assert [call["url"] for call in second.callbacks] == [f"{site.base}/new"]


CHAIN = 500  # many times deeper than calls may be nested, were they nested for each page


@pytest.mark.slow
def test_a_long_chain_of_fresh_pages_is_followed_to_its_end(own, site, tmp_path):
    """Each links to the next and to one that all share: no recursion, and none is asked about twice."""
    extractor_id = ExtractOptions().extractor_id
    job = replace(by_hand.job("before"), spider="own", extractor=extractor_id)
    writer = LedgerWriter(
        f"sqlite:///{tmp_path / 'dedup.db'}", job, by_hand.POLICY.spec(), reuse_normalized=True
    )
    writer.open()
    recorded = [writer.record(_chained(writer, site.base, number, extractor_id)) for number in range(CHAIN)]
    assert len([future.result(60) for future in recorded]) == CHAIN
    writer.finish("finished")
    routes = {"/": page("top", ["/n/0"]), f"/n/{CHAIN}": page("the end", ["/n/0"]), "/hub": page("hub")}

    result = own(routes=routes, freshness="3650d")

    assert site.site.targets() in (["/", "/hub", f"/n/{CHAIN}"], ["/", f"/n/{CHAIN}", "/hub"])
    assert result.stats["dedup/requests/fresh"] == CHAIN
    assert result.stats["request_depth_max"] == CHAIN + 2  # of the link back
    assert len(rows(result, "/hub")) == 1
    (hub,) = [alias for alias in result.ledger.aliases if alias.raw_url.endswith("/hub")]
    assert (hub.verdict, hub.count) == ("merged", CHAIN - 1)


def _chained(writer, base, number, extractor_id):
    url = f"{base}/n/{number}"
    links = [{"url": f"{base}/n/{number + 1}"}, {"url": f"{base}/hub"}]
    return Sighting(
        replace(
            by_hand.observation(writer, "before", url),
            spider="own",
            conditions=Conditions(language="en"),
            fetched_at="2026-11-01T00:00:00Z",
        ),
        replace(by_hand.text_of(f"The text of page {number} of the chain."), extractor_id=extractor_id),
        links=json.dumps({"format": 1, "author": "_parse", "links": links}),
    )


NOW_US = 1_800_000_000_000_000
KEY = "https://docs.example/a"
TERMS = Terms("shop", "x", Overrides())


def seen(*, extractor_id="x", **changes):
    observation = by_hand.observation(SimpleNamespace(next_seq=lambda: 0), "before", KEY)
    held = replace(observation, body_id="body1-" + "0" * 32, **changes)
    return SeenPage(held, NOW_US, extractor_id, "[]", in_job=False)


UNRELIABLE = {
    "an invalid page": (seen(validity=Validity.LOGIN), TERMS),
    "a failure": (seen(outcome=Outcome.ERROR, validity=None), TERMS),
    "a text that was too long to keep": (
        replace(seen(), observation=replace(seen().observation, body_id=None)),
        TERMS,
    ),
    "another extractor": (seen(extractor_id="y"), TERMS),
    "another spider": (seen(spider="other"), TERMS),
    "a page that was forgotten": (seen(), replace(TERMS, overrides=Overrides(forgotten={KEY: NOW_US}))),
    "all below were forgotten": (
        seen(),
        replace(TERMS, overrides=Overrides(forgotten={"https://docs.example/*": NOW_US + 1})),
    ),
    "the URL that redirects there was forgotten": (
        seen(url_key="https://docs.example/moved"),
        replace(TERMS, overrides=Overrides(forgotten={KEY: NOW_US})),
    ),
    "content that was rejected": (
        seen(payload_digest="sha256:1"),
        replace(TERMS, overrides=Overrides(contents={(KEY, "sha256:1"): DecisionAction.REJECT})),
    ),
}


@pytest.mark.parametrize(("page_", "terms"), UNRELIABLE.values(), ids=UNRELIABLE.keys())
def test_such_a_page_does_not_stand_for_a_fetch(page_, terms):
    assert not is_reliable(page_, KEY, terms)


RELIABLE = {
    "a valid page": TERMS,
    "forgotten before it was fetched": replace(TERMS, overrides=Overrides(forgotten={KEY: NOW_US - 1})),
    "other content was rejected": replace(
        TERMS, overrides=Overrides(contents={(KEY, "sha256:2"): DecisionAction.REJECT})
    ),
}


@pytest.mark.parametrize("terms", RELIABLE.values(), ids=RELIABLE.keys())
def test_such_a_page_stands_for_a_fetch(terms):
    assert is_reliable(seen(payload_digest="sha256:1"), KEY, terms)


@pytest.mark.parametrize(
    ("job_id", "started_us", "is_own"),
    [("before", NOW_US, True), ("before", NOW_US + 1, False), ("other", NOW_US, False)],
    ids=["in this process", "before the job was resumed", "by another job"],
)
def test_what_a_process_fetched_itself_is_known_to_the_dupefilter(job_id, started_us, is_own):
    assert is_of_run(seen(), job_id, started_us) == is_own


class Counting(Quiet):
    """Serves files, answers 304 to If-Modified-Since, and writes down what was transferred."""

    transferred: ClassVar[list[str]]

    def send_response(self, code: int, message: str | None = None) -> None:
        if code != 304:
            self.transferred.append(self.path)
        super().send_response(code, message)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not CORPUS, reason="SCRAPY_DEDUP_CORPUS names no folder with real sites")
def test_a_real_site_that_did_not_change_is_not_transferred_again(tmp_path):
    """Once more as it is, then with freshness, then with conditional requests."""
    with tarfile.open(Path(CORPUS) / "sites" / "httpcommand.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / "httpcommand"
    handler = type("Handler", (Counting,), {"transferred": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(root)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    start = f"http://127.0.0.1:{server.server_port}/"
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))

    def crawl(**settings):
        handler.transferred.clear()
        settings |= {"DEDUP_LEDGER": f"sqlite:///{tmp_path}/dedup.db", "DOWNLOAD_DELAY": 0, "DEPTH_LIMIT": 0}
        settings |= {"AUTOTHROTTLE_ENABLED": False, "LOG_LEVEL": "INFO", "TELNETCONSOLE_ENABLED": False}
        given = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
        command = [sys.executable, "-m", "scrapy", "crawl", "site", "-a", f"start={start}", *given]
        code, log = run(command, project, 400, environment())
        assert code == 0, log[-3000:]
        assert "Traceback" not in log
        seen = read_ledger(tmp_path / "dedup.db")
        return seen, [row for row in seen.observations if row.job_id == seen.jobs[-1].job_id]

    try:
        first, rows = crawl()
        second, again = crawl()
        third, fresh = crawl(DEDUP_FRESHNESS="1d")
        fetched_when_fresh = set(handler.transferred)
        fourth, asked = crawl(DEDUP_CONDITIONAL=True)
        fetched_when_asked = set(handler.transferred)
    finally:
        server.shutdown()
        server.server_close()

    valid = {row.url_key: row.body_id for row in rows if row.validity == "valid"}
    assert len(valid) > 20
    assert len(first.bodies) == len(second.bodies) == len(third.bodies) == len(fourth.bodies)
    assert {row.url_key: row.body_id for row in again if row.validity == "valid"} == valid
    failed = {urlsplit(row.url).path for row in rows if row.validity != "valid"}
    assert {unquote(urlsplit(path).path) for path in fetched_when_fresh} <= failed | {"/", "/robots.txt"}
    assert {row.url_key: row.body_id for row in fresh if row.body_id} == valid
    assert {unquote(urlsplit(path).path) for path in fetched_when_asked} <= failed | {"/robots.txt"}
    assert {row.url_key: row.body_id for row in asked if row.body_id} == valid
    assert {row.outcome for row in asked if row.body_id} == {"not_modified"}
