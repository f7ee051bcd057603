"""What a crawl costs beside a pipeline that calls trafilatura: ``python tests/bench/bench_crawl.py``.

A server process serves article pages: the 181 real ones of ``SCRAPY_DEDUP_CORPUS``, or generated ones without
it. Each crawl is a process of its own with the same spider, settings and URLs; each round asks for the pages
under other URLs, with bytes that differ. "plain" extracts Markdown with metadata in ``process_item`` and
writes it to a JSON Lines feed; "suite" is one line in ADDONS. CPU is that of the crawl's own process with all
its threads, from the first response to the end of the work, for each page. Total CPU and wall time are also
given with the start and with all child processes.

A last crawl of the suite asks for every page at two URLs, to see that equal payloads are extracted once. It
also measures each callback of the event loop after the first 20 pages, in thread time less that of Python's
garbage collector, which runs whenever it likes; that slows a crawl, so it is not done while the sides are
compared. A section is ours when a frame of the package was on the stack while it ran.

The ratios of one run are what counts; the exit code is 1 only when a page is missing or extracted twice.
"""

from __future__ import annotations

import argparse
import asyncio.events
import contextlib
import gc
import gzip
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import scrapy
from scrapy import signals
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import NotConfigured

MAX_CPU_RATIO = 1 / 3
MAX_SECTION_MS = 50.0
WARM_UP_PAGES = 20
SHOWN_SECTIONS = 5
SAMPLE_EVERY_S = 0.005
SAMPLE_AFTER_S = 0.015

SETTINGS = {
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_TIMEOUT": 60,
    "RETRY_ENABLED": False,
    "EXTENSIONS": {"__main__.Meter": 0},
}
SIDES: dict[str, dict[str, Any]] = {
    "plain": {
        "ITEM_PIPELINES": {"__main__.TrafilaturaPipeline": 300},
        "FEEDS": {"pages.jsonl": {"format": "jsonlines"}},
        "YIELD_ITEMS": True,
    },
    "suite": {"ADDONS": {"scrapy_dedup.Addon": 500}},
}


# ---- pages ----


def corpus_pages(corpus: Path) -> list[bytes]:
    with tarfile.open(corpus / "pages" / "aeb-html.tar") as archive:
        members = sorted((one for one in archive if one.name.endswith(".html.gz")), key=lambda one: one.name)
        return [gzip.decompress(archive.extractfile(member).read()) for member in members]


def generated_pages(count: int = 181) -> list[bytes]:
    """Return article pages of about 30 KB, half of it navigation, scripts and links."""
    rng = random.Random(11)
    words = ["".join(rng.choices("eetaaoinshrdlu", k=2 + number % 8)) for number in range(3_000)]

    def sentence(length: int) -> str:
        return " ".join(rng.choices(words, k=length)).capitalize() + "."

    def paragraphs(number: int) -> str:
        return "".join(f"<p>{' '.join(sentence(14) for _ in range(6))}</p>" for _ in range(number))

    menu = "".join(f'<li><a href="/section/{word}">{word}</a></li>' for word in words[:150])
    script = f"<script>var state = {json.dumps(words[:400])};</script>"
    return [
        f'<html lang="en"><head><title>{sentence(6)}</title><meta name="author" content="Ann Author">{script}'
        "</head>"
        f"<body><nav><ul>{menu}</ul></nav><article><h1>{sentence(6)}</h1>{paragraphs(15)}</article>"
        f"<aside>{paragraphs(1)}</aside><footer>{menu}</footer></body></html>".encode()
        for _ in range(count)
    ]


def body_of(pages: list[bytes], target: str) -> bytes | None:
    """Return the page that a URL names; its round is part of its bytes, its mirror is not."""
    url = urlsplit(target)
    name = url.path.strip("/")
    if not name.isdigit() or int(name) >= len(pages):
        return None
    (number,) = parse_qs(url.query).get("round", ["0"])
    return pages[int(name)] + f"\n<!-- round {number} -->".encode()


def serve(folder: Path) -> None:
    pages = [path.read_bytes() for path in sorted(folder.glob("*.html"))]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            body = body_of(pages, self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        print(server.server_port, flush=True)
        server.serve_forever()


# ---- inside the process of a crawl ----


class Articles(scrapy.Spider):
    name = "articles"
    urls: ClassVar[list[str]] = []

    async def start(self):
        for url in self.urls:
            yield scrapy.Request(url, dont_filter=True)

    def parse(self, response):
        if self.settings.getbool("YIELD_ITEMS"):
            yield {"url": response.url, "html": response.text}


class TrafilaturaPipeline:
    def open_spider(self) -> None:
        self.extract(
            "<html><body><p>Loads what is loaded at the first page.</p></body></html>", "http://a.invalid/"
        )

    def extract(self, html: str, url: str) -> str | None:
        import trafilatura

        options = {"output_format": "markdown", "with_metadata": True, "include_comments": False}
        return trafilatura.extract(html, url=url, **options)

    def process_item(self, item):
        return {"url": item["url"], "page": self.extract(item["html"], item["url"])}


class LoopClock:
    """Measures every callback of the event loop in thread time, and samples the stack of long ones."""

    def __init__(self) -> None:
        self.is_recording = False
        self.collections_ms = [0.0]
        self._collection_started_ns = 0
        self._collected_ms = 0.0
        self.sections: list[tuple[float, str, dict[str, int], bool]] = []
        self._main = threading.get_ident()
        self._serial = 0
        self._started: float | None = None
        self._samples: list[tuple[int, str, bool]] = []
        self._run_handle = asyncio.events.Handle._run

    def install(self) -> None:
        clock = self

        def timed(handle: asyncio.events.Handle) -> None:
            clock._serial += 1
            clock._collected_ms = 0.0
            clock._started = time.monotonic()
            start_ns = time.thread_time_ns()
            clock._run_handle(handle)
            spent_ms = (time.thread_time_ns() - start_ns) / 1e6 - clock._collected_ms
            clock._started = None
            if clock.is_recording:
                clock._note(spent_ms, handle)

        asyncio.events.Handle._run = timed
        gc.callbacks.append(self._collection)
        threading.Thread(target=self._sample, daemon=True).start()

    def _collection(self, phase: str, info: object) -> None:
        if threading.get_ident() != self._main:
            return
        if phase == "start":
            self._collection_started_ns = time.thread_time_ns()
            return
        spent_ms = (time.thread_time_ns() - self._collection_started_ns) / 1e6
        self._collected_ms += spent_ms
        if self.is_recording:
            self.collections_ms.append(spent_ms)

    def _note(self, spent_ms: float, handle: asyncio.events.Handle) -> None:
        if len(self.sections) == SHOWN_SECTIONS * 4 and spent_ms <= self.sections[-1][0]:
            return
        samples = [sample for sample in self._samples if sample[0] == self._serial]
        self._samples.clear()
        where = dict(Counter(place for _, place, _ in samples).most_common(3))
        self.sections.append((spent_ms, name_of(handle), where, any(ours for _, _, ours in samples)))
        self.sections.sort(key=lambda section: -section[0])
        del self.sections[SHOWN_SECTIONS * 4 :]

    def _sample(self) -> None:
        while True:
            time.sleep(SAMPLE_EVERY_S)
            started, serial = self._started, self._serial
            if started is not None and time.monotonic() - started > SAMPLE_AFTER_S:
                frame = sys._current_frames().get(self._main)
                if frame is not None and serial == self._serial:
                    self._samples.append((serial, *place_of(frame)))


def name_of(handle: asyncio.events.Handle) -> str:
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task {owner.get_coro().__qualname__}"
    return getattr(callback, "__qualname__", type(callback).__name__)


def place_of(frame: FrameType | None) -> tuple[str, bool]:
    """Return the innermost frame, after the innermost one of the package if there is any."""
    innermost = ours = None
    while frame is not None:
        place = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
        innermost = innermost or place
        if ours is None and f"{os.sep}scrapy_dedup{os.sep}" in frame.f_code.co_filename:
            ours = place
        frame = frame.f_back
    return (f"{ours} > {innermost}" if ours else str(innermost)), ours is not None


class Meter:
    """Writes down what the crawl cost, from the first response to the last time that nothing was to do."""

    def __init__(self, crawler: Crawler) -> None:
        if not hasattr(crawler.spidercls, "clock"):
            raise NotConfigured
        self.clock: LoopClock = crawler.spidercls.clock
        self.pages = 0
        self.first = self.last = (0.0, 0.0)
        for handler in ("response_received", "spider_idle"):
            crawler.signals.connect(getattr(self, handler), getattr(signals, handler))
        crawler.spidercls.meter = self

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Meter:
        return cls(crawler)

    def response_received(self) -> None:
        if not self.pages:
            self.first = cost_so_far()
        self.pages += 1
        self.clock.is_recording = self.pages > WARM_UP_PAGES

    def spider_idle(self) -> None:
        self.last = cost_so_far()

    def result(self) -> dict[str, Any]:
        cpu_s, wall_s = (end - start for end, start in zip(self.last, self.first, strict=True))
        return {
            "pages": self.pages,
            "cpu_s": cpu_s,
            "wall_s": wall_s,
            "sections": self.clock.sections,
            "longest_collection_ms": max(self.clock.collections_ms),
            "collections_s": sum(self.clock.collections_ms) / 1000,
        }


def cost_so_far() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, time.monotonic()


def crawl(plan_file: str) -> int:
    plan = json.loads(Path(plan_file).read_text())
    Articles.urls = plan["urls"]
    Articles.clock = LoopClock()
    if plan["measure_sections"]:
        Articles.clock.install()
    profile = None
    if plan["profile"]:
        import cProfile

        profile = cProfile.Profile()
    process = CrawlerProcess({**SETTINGS, **SIDES[plan["side"]]})
    crawler = process.create_crawler(Articles)
    process.crawl(crawler)
    with profile or contextlib.nullcontext():
        process.start()
    if profile:
        profile.dump_stats(plan["profile"])
    result = {**Articles.meter.result(), "stats": crawler.stats.get_stats()}
    Path("result.json").write_text(json.dumps(result, default=str))
    return 1 if process.bootstrap_failed else 0


# ---- around the processes ----


class Family:
    """Adds up the CPU of a process and of all that descend from it, by looking at /proc again and again."""

    def __init__(self, pid: int) -> None:
        self._root = str(pid)
        self._cpu_s: dict[tuple[str, str], float] = {}

    def look(self) -> None:
        parents, spent = {}, {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                pid = path.parent.name
                parents[pid] = fields[1]
                spent[pid, fields[19]] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        for (pid, born), cpu_s in spent.items():
            if (pid, born) in self._cpu_s or self._descends(pid, parents):
                self._cpu_s[pid, born] = cpu_s

    def _descends(self, pid: str, parents: dict[str, str]) -> bool:
        while pid in parents and pid != self._root:
            pid = parents[pid]
        return pid == self._root

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())


def run_crawl(
    folder: Path, side: str, urls: list[str], *, measure_sections: bool = False, profile: str | None = None
) -> dict[str, Any]:
    folder.mkdir()
    plan = folder / "plan.json"
    plan.write_text(
        json.dumps({"side": side, "urls": urls, "measure_sections": measure_sections, "profile": profile})
    )
    start = time.monotonic()
    command = [sys.executable, str(Path(__file__).absolute()), "--crawl", str(plan)]
    with subprocess.Popen(command, cwd=folder) as process:
        family = Family(process.pid)
        while process.poll() is None:
            family.look()
            time.sleep(0.1)
    if process.returncode:
        sys.exit(f"the crawl of side {side} ended with exit code {process.returncode}")
    result = json.loads((folder / "result.json").read_text())
    return {**result, "whole_wall_s": time.monotonic() - start, "whole_cpu_s": family.cpu_s}


def print_side(side: str, result: dict[str, Any]) -> None:
    pages = result["pages"]
    print(
        f"{side:6} {pages:5} pages   crawl process {1000 * result['cpu_s'] / pages:7.2f} ms CPU a page"
        f"   with children and start {1000 * result['whole_cpu_s'] / pages:7.2f} ms"
        f"   wall {result['wall_s']:6.1f} s ({result['whole_wall_s']:.1f} s with the start)"
    )


def print_ratios(suite: dict[str, Any], plain: dict[str, Any]) -> None:
    def ratio(name: str) -> float:
        return (suite[name] / suite["pages"]) / (plain[name] / plain["pages"])

    print(
        f"\nsuite / plain: CPU of the crawl process {ratio('cpu_s'):.3f} (wanted: {MAX_CPU_RATIO:.3f})",
        end="",
    )
    print(f"   wall {ratio('wall_s'):.2f} ({ratio('whole_wall_s'):.2f} with the start)", end="")
    print(f"   total CPU {ratio('whole_cpu_s'):.2f}")


def print_sections(result: dict[str, Any]) -> None:
    print(
        f"\nlongest sections after {WARM_UP_PAGES} pages (wanted for ours: at most {MAX_SECTION_MS:.0f} ms):"
    )
    for spent_ms, name, where, ours in result["sections"][:SHOWN_SECTIONS]:
        mark = " OURS, TOO LONG" if ours and spent_ms > MAX_SECTION_MS else " ours" if ours else ""
        print(f"  {spent_ms:7.1f} ms{mark}  {name}  {', '.join(where)}")
    print(
        f"  garbage collection: longest {result['longest_collection_ms']:.1f} ms,"
        f" together {result['collections_s']:.2f} s"
    )


def payload_faults(name: str, result: dict[str, Any], distinct: int) -> list[str]:
    extractions = result["stats"]["dedup/extract/extractions"]
    print(f"{name}: {result['pages']} pages, {distinct} distinct payloads, {extractions} extractions")
    if extractions != distinct:
        return [f"{name}: {extractions} extractions of {distinct} distinct payloads"]
    return []


def distinct_payloads(pages: list[bytes], urls: list[str]) -> int:
    return len({hashlib.sha256(body_of(pages, url)).digest() for url in urls})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2, help="how often each page is asked for (default 2)")
    parser.add_argument(
        "--profile", metavar="FILE", help="write a cProfile of the suite's crawl; distorts its CPU"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--crawl", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Path(options.serve))
    if options.crawl:
        return crawl(options.crawl)
    corpus = os.environ.get("SCRAPY_DEDUP_CORPUS")
    if not corpus:
        print("SCRAPY_DEDUP_CORPUS is not set: generated pages instead of real ones")
    pages = corpus_pages(Path(corpus)) if corpus else generated_pages()
    with tempfile.TemporaryDirectory() as folder:
        return compare(Path(folder), pages, options)


def compare(folder: Path, pages: list[bytes], options: argparse.Namespace) -> int:
    (folder / "pages").mkdir()
    for number, body in enumerate(pages):
        (folder / "pages" / f"{number:05}.html").write_bytes(body)
    command = [sys.executable, str(Path(__file__).absolute()), "--serve", str(folder / "pages")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            base = f"http://127.0.0.1:{int(server.stdout.readline())}"
            return compare_at(base, folder, pages, options)
        finally:
            server.kill()


def compare_at(base: str, folder: Path, pages: list[bytes], options: argparse.Namespace) -> int:
    urls = [f"{base}/{page}?round={turn}" for turn in range(options.rounds) for page in range(len(pages))]
    profiles = {"suite": options.profile}
    results = {side: run_crawl(folder / side, side, urls, profile=profiles.get(side)) for side in SIDES}
    for side, result in results.items():
        print_side(side, result)
    print_ratios(results["suite"], results["plain"])
    doubled = [
        url
        for page in range(len(pages))
        for url in (f"{base}/{page}?round=0", f"{base}/{page}?round=0&mirror=1")
    ]
    mirrored = run_crawl(folder / "mirrored", "suite", doubled, measure_sections=True)
    print_sections(mirrored)
    print()
    faults = [
        f"{side}: {result['pages']} pages of {len(urls)}"
        for side, result in results.items()
        if result["pages"] != len(urls)
    ]
    faults += payload_faults("suite", results["suite"], distinct_payloads(pages, urls))
    faults += payload_faults("suite, each page at two URLs", mirrored, distinct_payloads(pages, doubled))
    for fault in faults:
        print(f"BROKEN: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
