"""The spider that crawls the site which the project serves itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor

from example.site.process import SiteProcess


class DemoSpider(Spider):
    """Follows every link of the demo site.

    Args (``-a name=value``):
        edition: which edition of the site to serve; 2 differs from 1 in one page.
        port: where to serve it; 0 takes any free port. URLs hold the port, so a second crawl that shall find
            the same pages in the ledger has to use the same one.
        url: home page of a site that runs already (``python -m example.site``); nothing is started then.
    """

    name = "demo"
    allowed_domains = ("localhost", "127.0.0.1")
    custom_settings = {  # noqa: RUF012 (Scrapy reads a plain dict)
        # In the shop, the page number alone chooses the content: filters, orders and views are dropped.
        "DEDUP_HOSTS": {"localhost": {"paths": [{"path": "/shop/*", "allow": ["page"]}]}},
        "DOWNLOAD_DELAY": 0,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    }

    def __init__(self, edition: str = "1", port: str = "8765", url: str = "", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.site = None if url else SiteProcess(int(port), int(edition))
        self.home = self.site.url if self.site else url
        self.links = LinkExtractor()

    async def start(self) -> AsyncIterator[Request]:
        """Begin at the home page."""
        yield Request(self.home)

    def parse(self, response: Response) -> Iterator[Request]:
        """Follow every link."""
        if isinstance(response, HtmlResponse):
            yield from response.follow_all(self.links.extract_links(response))

    def closed(self, reason: str) -> None:
        """End the site when the crawl has ended."""
        self.logger.debug("the site ends with the crawl (%s)", reason)
        if self.site is not None:
            self.site.stop()
