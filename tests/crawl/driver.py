"""Runs one spider in its own process and writes down what its user would see.

    python driver.py SPIDER_FILE PLAN_FILE DUMP_FILE

The plan is JSON: ``settings`` of the crawl and ``arguments`` of the spider. The dump is JSON: stats, items,
errors, the close reason, and the lists ``seen`` and ``failures`` of the spider.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

from itemadapter import ItemAdapter, is_item
from scrapy import Spider, signals
from scrapy.crawler import CrawlerProcess


def main(spider_file: str, plan_file: str, dump_file: str) -> int:
    plan = json.loads(Path(plan_file).read_text())
    dump = {
        "stats": {},
        "items": [],
        "reason": None,
        "spider_errors": [],
        "item_errors": [],
        "seen": [],
        "failures": [],
    }
    spiders: list[Spider] = []
    process = CrawlerProcess(plan["settings"])
    crawler = process.create_crawler(load_spider(spider_file))

    def item_scraped(item: object) -> None:
        fields = ItemAdapter(item).asdict() if is_item(item) and type(item).__name__ not in OURS else {}
        dump["items"].append({"class": type(item).__name__, **fields})

    def spider_error(failure: object, response: object) -> None:
        dump["spider_errors"].append([response.url, failure.type.__name__])

    def item_error(item: object, failure: object) -> None:
        dump["item_errors"].append([type(item).__name__, failure.type.__name__])

    def spider_closed(spider: Spider, reason: str) -> None:
        spiders.append(spider)
        dump["reason"] = reason

    crawler.signals.connect(item_scraped, signals.item_scraped)
    crawler.signals.connect(spider_error, signals.spider_error)
    crawler.signals.connect(item_error, signals.item_error)
    crawler.signals.connect(spider_closed, signals.spider_closed)
    process.crawl(crawler, **plan["arguments"])
    process.start()
    if not process.bootstrap_failed:
        dump["stats"] = crawler.stats.get_stats()
    for spider in spiders:
        dump["seen"] = getattr(spider, "seen", [])
        dump["failures"] = getattr(spider, "failures", [])
    Path(dump_file).write_text(json.dumps(dump, default=str))
    return 1 if process.bootstrap_failed else 0


OURS = ("PageItem", "PageRow")


def load_spider(path: str) -> type[Spider]:
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
