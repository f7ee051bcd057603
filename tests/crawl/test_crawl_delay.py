"""The pause that a host asks for in its robots.txt is kept, whatever else adjusts the delay."""

from __future__ import annotations

import itertools
import time
from urllib.parse import urlsplit

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from scrapy_dedup.crawl.crawl_delay import CrawlDelayMiddleware, keeps_the_slot_of_another_host

from .conftest import ADDONS
from .server import Reply, page, redirect

# Requests everything at once, and tells at the end which delay each slot has.
FETCH = """
import scrapy

class Fetch(scrapy.Spider):
    name = "fetch"

    def __init__(self, urls=(), slots=None, **kwargs):
        super().__init__(**kwargs)
        self.urls, self.own_slots, self.seen = urls, slots or {}, []

    async def start(self):
        for url in self.urls:
            slot = self.own_slots.get(url)
            yield scrapy.Request(url, meta={"download_slot": slot} if slot else {}, dont_filter=True)

    def parse(self, response):
        self.seen.append({"url": response.url})

    def closed(self, reason):
        self.seen.append({"slots": self.crawler.engine.downloader.per_slot_settings})
"""

# States delays as if they stood in the robots.txt of hosts, and tells what became of their slots.
STATE = """
import scrapy
from scrapy import signals
from scrapy.robotstxt import RobotParser

class Stating(RobotParser):
    def __init__(self, value):
        self.value = value

    @classmethod
    def from_crawler(cls, crawler, robotstxt_body):
        return cls(None)

    def allowed(self, url, user_agent):
        return True

    def crawl_delay(self, user_agent):
        value = self.value.get(user_agent) if isinstance(self.value, dict) else self.value
        return float(value) if isinstance(value, str) else value

class State(scrapy.Spider):
    name = "state"

    def __init__(self, stated=(), **kwargs):
        super().__init__(**kwargs)
        self.stated, self.seen = stated, []

    async def start(self):
        downloader = self.crawler.engine.downloader
        _, early = downloader._get_slot(scrapy.Request("http://early.test/"))
        for host, value in self.stated:
            await self.crawler.signals.send_catch_log_async(
                signals.robots_parsed, robotparser=Stating(value), request=scrapy.Request(f"http://{host}/")
            )
        self.seen = [downloader.per_slot_settings, early.delay, early.jitter]
        _, late = downloader._get_slot(scrapy.Request("http://half.test/"))
        self.seen += [late.delay, late.jitter]
        return
        yield
"""

OBEYING = {"ROBOTSTXT_OBEY": True, "ROBOTSTXT_USER_AGENT": "tester", "CONCURRENT_REQUESTS": 32}
THROTTLED = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.05, "AUTOTHROTTLE_DEBUG": True}


class Clock:
    """Answers every request and notes when it came."""

    def __init__(self, delays):
        self.delays, self.times = delays, {}

    def __call__(self, visit):
        host = urlsplit(visit.url).hostname
        if visit.target == "/robots.txt":
            lines = f"User-agent: tester\nCrawl-delay: {self.delays.get(host, '')}\n"
            return Reply(lines.encode(), content_type="text/plain")
        self.times.setdefault((host, visit.target.split("/")[1]), []).append(time.monotonic())
        if visit.target.startswith("/to/"):
            return redirect("http://" + visit.target.removeprefix("/to/"))
        return page(visit.target)

    def gaps(self, host, family):
        return [later - earlier for earlier, later in itertools.pairwise(self.times[host, family])]


def keeps(gaps, delay_s):
    """Tell whether requests kept a delay; a busy machine may note one late and the next in time."""
    return sum(gaps) >= len(gaps) * delay_s - 0.1 and min(gaps) > 0.6 * delay_s


@pytest.mark.slow
@pytest.mark.parametrize("throttle", [{}, THROTTLED], ids=["alone", "with AutoThrottle"])
def test_each_host_gets_the_delay_that_it_asks_for(crawl, serve, throttle):
    clock = Clock({"127.0.0.1": 0.5, "localhost": 0.25})
    server = serve({"*": clock})
    other = server.base.replace("127.0.0.1", "localhost")
    own = {f"{server.base}/own/{number}": "apart" for number in range(4)}
    urls = [f"{base}/page/{number}" for number in range(6) for base in (server.base, other)]

    done = crawl(FETCH, settings=OBEYING | throttle, urls=[*urls, *own], slots=own)

    assert len(done.callbacks) == len(urls) + len(own) + 1
    assert keeps(clock.gaps("127.0.0.1", "page"), 0.5), clock.times
    assert keeps(clock.gaps("127.0.0.1", "own"), 0.5), clock.times
    assert keeps(clock.gaps("localhost", "page"), 0.25), clock.times
    assert sum(clock.gaps("localhost", "page")) < sum(clock.gaps("127.0.0.1", "page"))
    assert done.callbacks[-1]["slots"] == {
        "127.0.0.1": {"delay": 0.5, "jitter": 0.0},
        "localhost": {"delay": 0.25, "jitter": 0.0},
        "apart": {"delay": 0.5, "jitter": 0.0},
    }
    assert done.stats["dedup/crawl_delay/hosts"] == 2


@pytest.mark.slow
def test_a_redirect_waits_in_the_slot_of_the_host_that_it_leads_to(crawl, serve):
    clock = Clock({"slow.test": 0.4})
    server = serve({"*": clock})
    urls = [f"http://quick.test/to/slow.test/page/{number}" for number in range(4)]

    done = crawl(FETCH, settings=OBEYING, proxy=server, urls=urls)

    assert len(done.callbacks) == 5
    assert keeps(clock.gaps("slow.test", "page"), 0.4), clock.times
    assert list(done.callbacks[-1]["slots"]) == ["slow.test"]


@pytest.mark.parametrize(
    "off",
    [{"DEDUP_CRAWL_DELAY": False}, {"ROBOTSTXT_OBEY": False}, {"DEDUP_ENABLED": False}],
    ids=lambda off: next(iter(off)),
)
def test_a_crawl_without_it_goes_as_scrapy_does(crawl, serve, off):
    clock = Clock({"127.0.0.1": 2})
    server = serve({"*": clock})

    done = crawl(FETCH, settings=OBEYING | off, urls=[f"{server.base}/page/{number}" for number in range(3)])

    assert sum(clock.gaps("127.0.0.1", "page")) < 2
    assert done.callbacks[-1]["slots"] == {}
    assert "dedup/crawl_delay/hosts" not in done.stats


@pytest.mark.slow
def test_what_is_stated_becomes_a_delay_within_bounds(crawl):
    stated = [
        ("half.test", 0.5),
        ("text.test", "1.5"),
        ("day.test", 86_400),
        ("hour.test", 3_600),
        ("agents.test", {"tester": 2, "Scrapy": 9}),
        ("none.test", None),
        ("zero.test", 0),
        ("negative.test", -5),
        ("nan.test", "nan"),
        ("infinite.test", "1e999"),
        ("word.test", "soon"),
        ("list.test", [5]),
        ("huge.test", 10**400),
        ("slow-slot.test", 0.7),
        ("fast-slot.test", 0.7),
        ("early.test", 5),
        ("ports.test:8001", 4),
        ("ports.test:8002", 3),
        ("below.test", 0.1),
    ]
    own = {"slow-slot.test": {"delay": 3, "concurrency": 2}, "fast-slot.test": {"delay": 0, "jitter": 0.3}}
    settings = OBEYING | {"DOWNLOAD_SLOTS": own, "DOWNLOAD_DELAY": 0.2, "LOG_LEVEL": "DEBUG"}

    done = crawl(STATE, settings=settings, stated=stated)

    assert done.exit_code == 0
    slots, *existing = done.callbacks
    assert {host: slot["delay"] for host, slot in slots.items()} == {
        "half.test": 0.5,
        "text.test": 1.5,
        "day.test": 60,
        "hour.test": 60,
        "agents.test": 2,
        "slow-slot.test": 3,
        "fast-slot.test": 0.7,
        "early.test": 5,
        "ports.test": 4,
        "below.test": 0.2,
    }
    assert {slot["jitter"] for slot in slots.values()} == {0}
    assert slots["slow-slot.test"]["concurrency"] == 2
    assert existing == [5, 0, 0.5, 0], "a slot that was there before, and one that is made after"
    assert done.log.count("it gets 60 s") == 1
    assert "day.test asks for 86400 s" in done.log
    for host in ("zero", "negative", "nan", "infinite"):
        assert f"{host}.test states a Crawl-delay that is no pause" in done.log
    for host in ("word", "list", "huge"):
        assert f"{host}.test states a Crawl-delay that is no number" in done.log
    assert "ERROR" not in done.log


@pytest.mark.parametrize("off", [{"DEDUP_CRAWL_DELAY": False}, {"ROBOTSTXT_OBEY": False}])
def test_it_is_not_there_when_it_has_nothing_to_do(off, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    crawler = get_crawler(Spider, {"ADDONS": ADDONS, **OBEYING, **off})
    with pytest.raises(NotConfigured):
        CrawlDelayMiddleware.from_crawler(crawler)


@pytest.mark.parametrize(
    ("slot", "redirect_urls", "kept"),
    [
        (None, ["http://a.test/"], False),
        ("a.test", ["http://a.test/"], True),
        ("a.test", ["http://a.test/", "http://b.test:80/x"], True),
        ("b.test", ["http://b.test/", "http://a.test/"], False),
        ("mine", ["http://a.test/"], False),
        ("a.test", [], False),
    ],
)
def test_a_slot_that_the_user_chose_stays(slot, redirect_urls, kept):
    request = Request("http://b.test/", meta={"download_slot": slot, "redirect_urls": redirect_urls})
    assert keeps_the_slot_of_another_host(request) is kept
