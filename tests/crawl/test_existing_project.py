"""A project that exists gives the same items and feeds with and without the add-on."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from pathlib import Path

import pytest

from .conftest import write_project
from .server import Reply, page

pytestmark = pytest.mark.slow  # each crawl is a process of its own, with and without the add-on

FILES = {
    "shop/settings.py": """
REQUEST_FINGERPRINTER_CLASS = "shop.fingerprints.ByUrlAndAccount"
DOWNLOADER_MIDDLEWARES = {"shop.middlewares.Stamp": 543}
SPIDER_MIDDLEWARES = {"shop.middlewares.Mark": 543}
ITEM_PIPELINES = {"shop.pipelines.Price": 300}
HTTPCACHE_ENABLED = True
CONCURRENT_REQUESTS = 1
FEEDS = {"items-%(name)s.jsonl": {"format": "jsonlines"}}
""",
    "shop/items.py": """
from dataclasses import dataclass
import scrapy

class Product(scrapy.Item):
    url = scrapy.Field()
    price = scrapy.Field()

@dataclass
class Offer:
    url: str
    price: int
""",
    "shop/fingerprints.py": """
import hashlib

class ByUrlAndAccount:
    def fingerprint(self, request):
        account = str(request.meta.get("account", ""))
        return hashlib.sha1(f"{request.method} {request.url} {account}".encode()).digest()
""",
    "shop/middlewares.py": """
from scrapy import Request

class Stamp:
    def process_request(self, request):
        request.headers["X-Stamp"] = "shop"

    def process_response(self, request, response):
        response.headers["X-Seen"] = "1"
        return response

class Mark:
    async def process_spider_output(self, response, result):
        async for made in result:
            if isinstance(made, Request):
                made.meta["marked"] = True
            yield made
""",
    "shop/pipelines.py": """
class Price:
    def process_item(self, item):
        price = item["price"] if not hasattr(item, "__dataclass_fields__") else item.price
        if isinstance(item, dict):
            item["price"] = price * 2
        return item
""",
    "shop/spiders/products.py": """
import scrapy
from shop.items import Offer, Product

class Products(scrapy.Spider):
    name = "products"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/"]

    def parse(self, response):
        seen = response.headers["X-Seen"].decode(), response.request.headers["X-Stamp"].decode()
        yield {"url": response.url, "price": 1, "seen": seen, "marked": response.meta.get("marked")}
        yield Product(url=response.url, price=2)
        yield Offer(response.url, 3)
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
        if response.url.endswith("/account"):
            for account in (1, 2):
                yield response.follow("/account", meta={"account": account})
""",
    "shop/spiders/rules.py": """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

class Rules(CrawlSpider):
    name = "rules"
    rules = (
        Rule(LinkExtractor(allow="/product/"), callback="parse_product", follow=True),
        Rule(LinkExtractor(allow="/list/")),
    )

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/"]

    def parse_product(self, response):
        yield {"url": response.url, "price": 1, "title": response.css("h1::text").get()}
""",
    "shop/spiders/sitemap.py": """
from scrapy.spiders import SitemapSpider

class Map(SitemapSpider):
    name = "map"
    sitemap_rules = [("/product/", "parse_product")]

    def __init__(self, base, **kwargs):
        self.sitemap_urls = [base + "/robots.txt"]
        super().__init__(**kwargs)

    def parse_product(self, response):
        yield {"url": response.url, "price": 1}
""",
    "shop/spiders/files.py": """
import scrapy

class Files(scrapy.Spider):
    name = "files"
    custom_settings = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1, "shop.pipelines.Price": 300},
        "FILES_STORE": "files",
    }

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/"]

    def parse(self, response):
        files = [response.url + name for name in ("f/1?b=1&a=2", "f/1?a=2&b=1", "f/2")]
        yield {"url": response.url, "price": 1, "file_urls": files}
""",
}
SPIDERS = ("products", "rules", "map", "files")
MAP = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>"""


def routes() -> dict[str, object]:
    products = [f"/product/{number}" for number in range(6)]
    made = {
        "/": page("index", ["/list/1", "/account"]),
        "/list/1": page("list 1", [*products[:3], "/list/2"]),
        "/list/2": page("list 2", products[3:]),
        "/account": page("account"),
        **{product: page(product) for product in products},
        "/f/1?b=1&a=2": Reply(b"one", 200, "application/octet-stream"),
        "/f/1?a=2&b=1": Reply(b"other", 200, "application/octet-stream"),
        "/f/2": Reply(b"two", 200, "application/octet-stream"),
    }
    made["/robots.txt"] = lambda visit: Reply(
        f"Sitemap: {origin(visit)}/sitemap.xml.gz\n".encode(), 200, "text/plain"
    )
    made["/sitemap.xml.gz"] = lambda visit: Reply(
        gzip.compress(
            MAP.format("".join(f"<url><loc>{origin(visit)}{p}</loc></url>" for p in products)).encode()
        ),
        200,
        "application/gzip",
    )
    return made


def origin(visit) -> str:
    return visit.url.removesuffix(visit.target)


@dataclasses.dataclass
class Runs:
    """The same project crawled with the add-on and without it."""

    folders: dict[bool, Path]
    codes: dict[tuple[bool, str], int]
    logs: dict[tuple[bool, str], str]
    hits: dict[tuple[bool, str], list[str]]

    def feed(self, with_dedup: bool, spider: str) -> bytes:
        return (self.folders[with_dedup] / f"items-{spider}.jsonl").read_bytes()


@pytest.fixture(scope="module")
def runs(serve, tmp_path_factory):
    server = serve(routes())
    made = Runs({}, {}, {}, {})
    for with_dedup in (False, True):
        project = write_project(tmp_path_factory.mktemp("existing") / "project", FILES)
        made.folders[with_dedup] = project.folder
        for spider in SPIDERS:
            server.site.forget_hits()
            env = {"WITH_DEDUP": "1"} if with_dedup else {}
            code, log = project.scrapy("crawl", spider, "-a", f"base={server.base}", **env)
            key = (with_dedup, spider)
            made.codes[key], made.logs[key], made.hits[key] = code, log, server.site.targets()
    return made


@pytest.mark.parametrize("spider", SPIDERS)
def test_the_feed_of_the_project_is_the_same_byte_for_byte(runs, spider):
    assert runs.codes[True, spider] == runs.codes[False, spider] == 0
    assert runs.feed(False, spider)
    assert runs.feed(True, spider) == runs.feed(False, spider)


@pytest.mark.parametrize("spider", SPIDERS)
def test_the_same_requests_are_sent(runs, spider):
    assert sorted(runs.hits[True, spider]) == sorted(runs.hits[False, spider])


@pytest.mark.parametrize("spider", SPIDERS)
def test_no_error_is_logged(runs, spider):
    for with_dedup in (False, True):
        assert (
            re.findall(r"^.*(?:ERROR|CRITICAL|Traceback).*$", runs.logs[with_dedup, spider], re.MULTILINE)
            == []
        )
    assert "DeprecationWarning" not in runs.logs[True, spider]


def test_what_scrapy_counts_as_items_is_the_same(runs):
    def items(with_dedup, spider):
        return re.findall(r"'item_scraped_count': (\d+)", runs.logs[with_dedup, spider])

    for spider in SPIDERS:
        assert items(True, spider) == items(False, spider)


def test_the_fingerprinter_of_the_project_still_tells_accounts_apart(runs):
    records = [json.loads(line) for line in runs.feed(True, "products").splitlines()]

    assert len([record for record in records if record["url"].endswith("/account")]) == 3 * 3


def test_the_pages_of_all_spiders_are_in_the_ledger(runs):
    from .conftest import read_ledger

    seen = read_ledger(runs.folders[True] / "dedup.db")

    assert [job.spider for job in seen.jobs] == list(SPIDERS)
    for number in range(6):
        assert len(seen.bodies_of(f"/product/{number}")) == 1
        spiders = {row.spider for row in seen.observations_of(f"/product/{number}")}
        assert spiders == {"products", "rules", "map"}


# Commands of Scrapy that do not crawl.


@pytest.fixture(scope="module")
def served(serve):
    return serve(routes())


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["list"], "products"),
        (["check"], "OK"),
        (["shell", "--nolog", "-c", "response.status", "{base}/"], "200"),
        (["fetch", "--nolog", "{base}/product/1"], "About product 1"),
    ],
    ids=["list", "check", "shell", "fetch"],
)
def test_a_command_that_does_not_crawl_works_and_creates_nothing(served, project, command, printed):
    made = project(
        {name: text for name, text in FILES.items() if "spiders/" not in name or "products" in name}
    )
    arguments = [argument.format(base=served.base) for argument in command]

    code, output = made.scrapy(*arguments, WITH_DEDUP="1")

    assert code == 0, output
    assert printed in output
    assert not (made.folder / "dedup.db").exists()
    assert not (made.folder / "dedup").exists()


def test_an_output_file_of_the_command_line_stands_beside_the_feeds(served, project):
    made = project(FILES)

    code, log = made.scrapy("crawl", "rules", "-a", f"base={served.base}", "-O", "mine.jsonl", WITH_DEDUP="1")

    assert code == 0, log
    mine = [json.loads(line) for line in (made.folder / "mine.jsonl").read_text().splitlines()]
    assert len(mine) == 6
    assert all("price" in record for record in mine)
    assert (made.folder / "dedup" / "bodies.jsonl").exists()


def test_a_crawl_with_a_jobdir_is_paused_and_resumed(served, project):
    from .conftest import read_ledger

    made = project(FILES)
    command = [
        "crawl",
        "rules",
        "-a",
        f"base={served.base}",
        "-s",
        "JOBDIR=job",
        "-s",
        "CLOSESPIDER_PAGECOUNT=4",
    ]
    ends = []
    while "finished" not in ends and len(ends) < 5:
        code, log = made.scrapy(*command, WITH_DEDUP="1")
        assert code == 0, log
        ends += re.findall(r"Spider closed \((\w+)\)", log)

    assert ends[0] == "closespider_pagecount"
    assert ends[-1] == "finished"
    items = [json.loads(line)["url"] for line in (made.folder / "items-rules.jsonl").read_text().splitlines()]
    assert sorted(items) == [f"{served.base}/product/{number}" for number in range(6)]
    seen = read_ledger(made.folder / "dedup.db")
    assert [len(seen.bodies_of(f"/product/{number}")) for number in range(6)] == [1] * 6
    assert [len(seen.observations_of(f"/product/{number}")) for number in range(6)] == [1] * 6
