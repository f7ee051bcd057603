"""A callback that fails midway leaves its page once: in the ledger, in the stats and in each feed."""

from __future__ import annotations

import json

import pytest

from .server import page

pytestmark = pytest.mark.slow

SPIDER = """
import scrapy


class Failing(scrapy.Spider):
    name = "failing"

    async def start(self):
        for name in ("one", "two"):
            yield scrapy.Request(self.base + "/" + name)

    def parse(self, response):
        yield {"url": response.url}
        raise KeyError("price")
"""
FEEDS = """
FEEDS = {"all/observations.jsonl": {"format": "observations"}, "all/bodies.jsonl": {"format": "bodies"}}
"""


@pytest.fixture
def failed(serve, project):
    server = serve({"/one": page("one"), "/two": page("two")})
    made = project({"shop/spiders/failing.py": SPIDER, "shop/settings.py": FEEDS})
    code, log = made.scrapy("crawl", "failing", "-a", f"base={server.base}", WITH_DEDUP="1")
    assert code == 0, log
    return made.folder, log


def test_a_page_is_written_once_and_items_of_the_spider_are_no_pages(failed):
    folder, log = failed

    for name, key in (("observations", "observation_id"), ("bodies", "body_id")):
        lines = (folder / "all" / f"{name}.jsonl").read_text().splitlines()
        assert len(lines) == len({json.loads(line)[key] for line in lines}) == 2
        assert f"{name} feed (2 items)" in log
