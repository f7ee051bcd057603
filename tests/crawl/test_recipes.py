"""The other kinds of spiders and set-ups that people have, with the add-on on."""

from __future__ import annotations

import gzip

import pytest

from .server import Reply, Visit, page

pytestmark = pytest.mark.slow  # each recipe is a project of its own

CRAWL_SPIDER = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

class Rules(CrawlSpider):
    name = "rules"
    rules = (
        Rule(LinkExtractor(allow="/section/")),
        Rule(LinkExtractor(allow="/article/"), callback="article", follow=True),
    )

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/"]

    def article(self, response):
        return None
"""
ARTICLES = [f"/article/{number}" for number in range(5)]


def test_a_crawl_spider_records_the_pages_of_all_rules(serve, crawl):
    server = serve(
        {
            "/": page("index", ["/section/1?utm_source=menu", "/section/1", "/other"]),
            "/section/1": page("section", ARTICLES[:3]),
            **{target: page(target, ["/article/4?utm_medium=x"]) for target in ARTICLES},
        }
    )

    result = crawl(CRAWL_SPIDER, base=server.base)

    fetched = ["/", "/article/0", "/article/1", "/article/2", "/article/4", "/section/1"]
    assert sorted(server.site.targets()) == fetched
    assert sorted(row.url.removeprefix(server.base) for row in result.ledger.observations) == fetched
    assert len(result.ledger.bodies) == len(fetched)


SITEMAP_SPIDER = """
from scrapy.spiders import SitemapSpider

class Map(SitemapSpider):
    name = "map"

    def __init__(self, base, **kwargs):
        self.sitemap_urls = [base + "/index.xml"]
        super().__init__(**kwargs)

    def parse(self, response):
        return None
"""
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def sitemap(visit: Visit) -> Reply:
    base = visit.url.removesuffix(visit.target)
    urls = "".join(
        f"<url><loc>{base}{target}</loc></url>" for target in [*ARTICLES, ARTICLES[0] + "?utm_source=m"]
    )
    return Reply(gzip.compress(f"<urlset {NAMESPACE}>{urls}</urlset>".encode()), 200, "application/gzip")


def sitemap_index(visit: Visit) -> Reply:
    place = visit.url.removesuffix(visit.target) + "/map.xml.gz"
    text = f"<sitemapindex {NAMESPACE}><sitemap><loc>{place}</loc></sitemap></sitemapindex>"
    return Reply(text.encode(), 200, "application/xml")


def test_a_sitemap_spider_records_each_page_once_in_every_run(serve, crawl):
    server = serve(
        {
            "/index.xml": sitemap_index,
            "/map.xml.gz": sitemap,
            **{target: page(target) for target in ARTICLES},
        }
    )

    first = crawl(SITEMAP_SPIDER, base=server.base)
    second = crawl(SITEMAP_SPIDER, base=server.base, folder=first.folder)

    seen = second.ledger
    assert server.site.targets().count(ARTICLES[0]) == 2
    assert len(seen.bodies) == len(ARTICLES)
    for target in ARTICLES:
        assert [row.action for row in seen.observations_of(target)] == ["keep", "reuse"]
    maps = [row for row in seen.observations if row.url.endswith((".xml", ".xml.gz"))]
    assert {(row.validity, row.body_id) for row in maps} <= {("unsupported_type", None)}


SESSIONS = """
import scrapy

class Sessions(scrapy.Spider):
    name = "sessions"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen = base, []

    async def start(self):
        for jar in (1, 2):
            meta = {"cookiejar": jar}
            yield scrapy.Request(self.base + "/set?user=%d" % jar, meta=meta, callback=self.after_login)
        yield scrapy.Request(self.base + "/rendered", meta={"playwright": True})
        yield scrapy.Request(self.base + "/german", headers={"Accept-Language": "de"})
        yield scrapy.Request(self.base + "/secret", headers={"Authorization": "Bearer abc"})

    def after_login(self, response):
        meta = {"cookiejar": response.meta["cookiejar"]}
        yield response.follow("/account", meta=meta, dont_filter=True)

    def parse(self, response):
        return None
"""


@pytest.fixture(scope="module")
def sessions(serve, crawl):
    server = serve(
        {
            "/set": lambda visit: Reply(
                page("set"), headers=(("Set-Cookie", f"user={visit.target[-1]}; Path=/"),)
            ),
            "/account": lambda visit: page("account " + visit.headers["cookie"]),
            "/rendered": page("rendered"),
            "/german": page("german"),
            "/secret": page("secret"),
        }
    )
    return crawl(SESSIONS, base=server.base)


def test_the_same_url_in_two_sessions_is_two_observations_under_their_conditions(sessions):
    rows = sessions.ledger.at("/account")

    assert sorted(row.conditions.cookie_partition for row in rows) == ["1", "2"]
    assert len({row.body_id for row in rows}) == 2


@pytest.mark.parametrize(
    ("target", "condition", "value"),
    [("/rendered", "renderer", "playwright"), ("/german", "language", "de")],
)
def test_the_conditions_of_a_response_are_kept(sessions, target, condition, value):
    (row,) = sessions.ledger.at(target)

    assert getattr(row.conditions, condition) == value


def test_a_response_fetched_with_credentials_says_so_without_them(sessions):
    (row,) = sessions.ledger.at("/secret")

    assert row.access == "credentialed"
    assert b"Bearer abc" not in sessions.ledger_path.read_bytes()


BATCHES = {
    "pages-%(batch_id)d.jsonl.gz": {
        "format": "bodies",
        "batch_item_count": 2,
        "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"],
    }
}


def test_the_feeds_work_in_compressed_batches(serve, crawl):
    import json

    server = serve({"/": page("index", ARTICLES), **{target: page(target) for target in ARTICLES}})

    result = crawl(start=[f"{server.base}/"], settings={"FEEDS": BATCHES})

    files = sorted(result.folder.glob("pages-*.jsonl.gz"))
    records = [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert len(files) >= 3
    assert sorted(record["body_id"] for record in records) == sorted(
        body.body_id for body in result.ledger.bodies
    )
