"""Memory for each known URL key, beside what Scrapy itself keeps: ``python tests/bench/bench_memory.py``.

Each case is a real crawl in a process of its own, with a scheduler that asks the dupefilter and then forgets
the request, so that nothing is downloaded and only what is kept for a known key stays. The same crawl without
the add-on is subtracted. Resident memory is read after a warm-up of 20,000 keys, which fills the bounded
caches, and after ``--keys`` further ones.

Cases:
    links: requests of a callback.
    start: start requests, which Scrapy's dupefilter does not keep (dont_filter).
    merged: links of which each comes again with a tracking parameter; each leaves an alias in a SQLite
        ledger. Plain Scrapy sees each link once.
    failing: links whose request is then reported as failed, which looks for variants of each in the ledger.
    queued: links that stay in the scheduler, which is not memory of known keys but of requests.

The bound is 40 bytes for each key at 1,000,000 keys (``--keys 1000000``); resident memory is a few megabytes
uncertain, so a short run says little. The exit code is 0 whatever the numbers are.
"""

from __future__ import annotations

import _sqlite3
import argparse
import asyncio
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse

from scrapy_dedup.crawl.suite import Suite

MAX_BYTES_PER_KEY = 40
WARM_UP_KEYS = 20_000
AT_A_TIME = 1_000
CASES = ("links", "start", "merged", "failing", "queued")
SETTINGS = {
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "RETRY_ENABLED": False,
    "SCHEDULER": "__main__.ForgetfulScheduler",
    "DOWNLOADER_MIDDLEWARES": {"__main__.NotFound": 950},
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DEDUP_WORKERS": 1,
}
ADDONS = {"scrapy_dedup.Addon": 500}


def url_of(number: int) -> str:
    return f"http://site.example/section/{number % 97}/article-{number}?id={number}"


class ForgetfulScheduler(Scheduler):
    """Asks the dupefilter as Scrapy's scheduler does, and keeps a request only where the case needs it."""

    kept: list[scrapy.Request]

    def open(self, spider):
        self.kept = []
        return super().open(spider)

    def enqueue_request(self, request: scrapy.Request) -> bool:
        if request.url.startswith("data:") or "first" in request.meta:
            return super().enqueue_request(request)
        if not request.dont_filter and self.df.request_seen(request):
            return False
        if "stays" in request.meta:
            self.kept.append(request)
        return True


class NotFound:
    """Answers every request for the site with 404, without a network."""

    def process_request(self, request: scrapy.Request) -> HtmlResponse | None:
        if request.url.startswith("data:"):
            return None
        return HtmlResponse(request.url, status=404, body=b"<p>Not found</p>", request=request)


class Keys(scrapy.Spider):
    name = "keys"
    case = ""
    keys = 0
    warm_up_keys = 0
    with_suite = False

    async def start(self):
        # Its failure is recorded, which opens the ledger.
        yield scrapy.Request("http://site.example/first", meta={"first": True}, dont_filter=True)
        if self.case != "start":
            yield scrapy.Request("data:text/plain,start", dont_filter=True)
            return
        async for request in self.all_requests():
            yield request
        yield scrapy.Request("data:text/plain,end", callback=self.ignore, dont_filter=True)

    async def parse(self, response):
        async for request in self.all_requests():
            yield request

    def ignore(self, response):
        """Do nothing."""

    async def all_requests(self):
        self.marks = []
        warm_up = self.warm_up_keys
        for first, last in ((0, warm_up), (warm_up, warm_up + self.keys)):
            for number in range(first, last):
                for request in self.requests_of(number):
                    yield request
                if not number % AT_A_TIME:
                    await self.caught_up()
            await self.caught_up(settle_s=3.0)
            self.marks.append([resident_bytes(), sqlite_bytes()])

    def requests_of(self, number: int) -> Iterator[scrapy.Request]:
        meta = {"stays": True} if self.case == "queued" else {}
        request = scrapy.Request(url_of(number), dont_filter=self.case == "start", meta=meta)
        yield request
        if self.case == "merged" and self.with_suite:
            yield scrapy.Request(url_of(number) + "&utm_source=mail")
        if self.case == "failing" and self.with_suite:
            Suite.of(self.crawler).variants.key_failed(request)

    async def caught_up(self, settle_s: float = 0.0) -> None:
        """Let the engine, the ledger and all tasks finish what was yielded so far."""
        await asyncio.sleep(settle_s)
        if self.with_suite:
            await Suite.of(self.crawler).settle()


def resident_bytes() -> int:
    """Return the resident memory, after everything that is free was given back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sqlite_bytes() -> int:
    """Return what SQLite holds, nearly all of it pages of the ledger."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_int64
    return used()


def crawl(case: str, side: str, keys: int, warm_up_keys: int) -> int:
    with_suite = side == "suite"
    Keys.case, Keys.with_suite, Keys.keys, Keys.warm_up_keys = case, with_suite, keys, warm_up_keys
    spiders = []

    def remember(spider: scrapy.Spider) -> None:
        spiders.append(spider)

    process = CrawlerProcess({**SETTINGS, **({"ADDONS": ADDONS} if with_suite else {})})
    crawler = process.create_crawler(Keys)
    process.crawl(crawler)
    crawler.signals.connect(remember, scrapy.signals.spider_closed, weak=False)
    process.start()
    (spider,) = spiders
    stats = {name: value for name, value in crawler.stats.get_stats().items() if name.startswith("dedup/")}
    Path("result.json").write_text(json.dumps({"marks": spider.marks, "stats": stats}, default=str))
    return 0


def start_crawl(folder: Path, case: str, side: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True)
    command = [sys.executable, str(Path(__file__).absolute()), "--crawl", case, side, *arguments]
    return subprocess.Popen(command, cwd=folder)


def measure(folder: Path, case: str, arguments: list[str]) -> dict[str, Any]:
    """Run both sides of a case at the same time."""
    sides = ("plain", "suite")
    processes = {side: start_crawl(folder / case / side, case, side, arguments) for side in sides}
    try:
        for side, process in processes.items():
            if process.wait():
                sys.exit(f"the crawl of case {case}, side {side}, ended with exit code {process.returncode}")
    finally:
        for process in processes.values():
            process.kill()
    return {side: json.loads((folder / case / side / "result.json").read_text()) for side in processes}


def report(case: str, keys: int, results: dict[str, Any]) -> None:
    grown, sqlite = {}, {}
    for side, result in results.items():
        (resident, held), (resident_after, held_after) = result["marks"]
        sqlite[side] = held_after - held
        grown[side] = resident_after - resident - sqlite[side]
    beside = (grown["suite"] - grown["plain"]) / keys
    verdict = "" if case == "queued" else "ok" if beside <= MAX_BYTES_PER_KEY else "ABOVE THE BOUND"
    print(
        f"{case:8} {keys:9,} keys   plain {grown['plain'] / keys:8.1f} bytes a key"
        f"   suite {grown['suite'] / keys:8.1f}   beside Scrapy's own {beside:8.1f}  {verdict}"
        f"   (SQLite's cache grew by {sqlite['suite'] / 1e6:.1f} MB)",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=200_000, help="keys after the warm-up (default 200,000)")
    parser.add_argument("--warm-up", type=int, default=WARM_UP_KEYS, help="keys before (default 20,000)")
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--crawl", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crawl:
        return crawl(*options.crawl, options.keys, options.warm_up)
    arguments = ["--keys", str(options.keys), "--warm-up", str(options.warm_up)]
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            report(case, options.keys, measure(Path(folder), case, arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
