"""Runs spiders, one after the other, and writes down what their users would see.

    python driver.py [FOLDER]

With a folder it runs the crawl prepared there and ends. Without one it reads folders, one a line, from
standard input, and answers each with its exit code once that crawl is over: starting a process costs more
than a small crawl.

A folder holds ``spider.py`` and ``plan.json``: ``settings``, ``arguments`` of the spider, ``proxy``. The
crawl leaves ``crawl.log`` and ``dump.json``: stats, items, errors, the close reason, the exit code that
Scrapy's commands would give, and the lists ``seen`` and ``failures`` of the spider.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from itemadapter import ItemAdapter, is_item
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.log import configure_logging
from scrapy.utils.reactor import install_reactor

from scrapy_dedup.content import pool

OURS = ("PageItem", "PageRow")


async def run(folder: Path) -> int:
    """Run the crawl prepared in a folder and return its exit code."""
    plan = json.loads((folder / "plan.json").read_text())
    os.chdir(folder)
    for name in ("http_proxy", "https_proxy"):
        os.environ.pop(name, None)
        if plan["proxy"]:
            os.environ[name] = plan["proxy"]
    settings = {**plan["settings"], "LOG_FILE": str(folder / "crawl.log")}
    configure_logging(settings)
    dump = Dump()
    try:
        crawler = Crawler(load_spider(folder / "spider.py"), Settings(settings, priority="project"))
        dump.watch(crawler)
        await crawler.crawl_async(**plan["arguments"])
    except Exception:
        logging.getLogger(__name__).exception("The crawl did not start")
        dump.values["exit_code"] = 1
    else:
        dump.finish(crawler)
    (folder / "dump.json").write_text(json.dumps(dump.values, default=str))
    return dump.values["exit_code"]


class Dump:
    """What one crawl shows to the outside."""

    def __init__(self) -> None:
        lists = ("items", "spider_errors", "item_errors", "seen", "failures")
        self.values = {"exit_code": 0, "stats": {}, "reason": None, **{name: [] for name in lists}}
        self._spider: Spider | None = None

    def watch(self, crawler: Crawler) -> None:
        crawler.signals.connect(self.item_scraped, signals.item_scraped)
        crawler.signals.connect(self.spider_error, signals.spider_error)
        crawler.signals.connect(self.item_error, signals.item_error)
        crawler.signals.connect(self.spider_closed, signals.spider_closed)

    def finish(self, crawler: Crawler) -> None:
        self.values["stats"] = crawler.stats.get_stats()
        for name in ("seen", "failures"):
            self.values[name] = getattr(self._spider, name, [])

    def item_scraped(self, item: object) -> None:
        fields = ItemAdapter(item).asdict() if is_item(item) and type(item).__name__ not in OURS else {}
        self.values["items"].append({"class": type(item).__name__, **fields})

    def spider_error(self, failure: object, response: object) -> None:
        self.values["spider_errors"].append([response.url, failure.type.__name__])

    def item_error(self, item: object, failure: object) -> None:
        self.values["item_errors"].append([type(item).__name__, failure.type.__name__])

    def spider_closed(self, spider: Spider, reason: str) -> None:
        self._spider = spider
        self.values["reason"] = reason


def load_spider(path: Path) -> type[Spider]:
    """Return the spider class of a file: the one that it defines last."""
    spec = importlib.util.spec_from_file_location("spider_of_the_test", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    spiders = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Spider) and value.__module__ == module.__name__
    ]
    return spiders[-1]


class SharedNursery(pool._Nursery):
    """A nursery that the next crawl of this process takes over: it loads for longer than a crawl takes.

    The workers are those of one crawl alone and end with it, as they do without this.
    """

    _left: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._workers: list[int] = []

    def new_worker(self) -> pool._Worker:
        worker = super().new_worker()
        self._workers.append(worker.pid)
        return worker

    def close(self) -> None:
        with self._lock:
            if self._process is not None and self._control is not None and self._process.poll() is None:
                SharedNursery._left = self._process, self._control
                self._process = self._control = None
        for pid in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().close()

    def _start(self) -> socket.socket:
        left, SharedNursery._left = SharedNursery._left, None
        if left is None:
            return super()._start()
        self._process, control = left
        return control


async def run_many() -> int:
    """Run crawl after crawl until standard input ends."""
    pool._Nursery = SharedNursery
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(await run(Path(line.strip())), flush=True)
    return 0


def main(arguments: list[str]) -> int:
    """Run the reactor for the crawls asked for."""
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet import reactor

    codes: list[int] = []

    async def work() -> None:
        try:
            codes.append(await run(Path(arguments[0])) if arguments else await run_many())
        finally:
            reactor.stop()

    started: list[asyncio.Task[None]] = []
    reactor.callWhenRunning(lambda: started.append(asyncio.ensure_future(work())))
    reactor.run()
    return codes[0] if codes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
