"""The spider that crawls any real site."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor


class SiteSpider(Spider):
    """Follows the links of a site, within its domains.

    Args (``-a name=value``):
        start: where to begin; several URLs are separated by commas.
        allowed: the domains to stay in, with subdomains, separated by commas; else the hosts of ``start``.
        depth: how many links to go from the start; 0 for any number.
        pages: after how many pages to stop, less those on their way by then; 0 for any number.

    Raises:
        ValueError: with every argument that is wrong.
    """

    name = "site"

    def __init__(
        self, start: str = "", allowed: str = "", depth: str = "0", pages: str = "0", **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        _check(start, depth, pages)
        self.starts = _listed(start)
        self.allowed_domains = _listed(allowed) or sorted(
            {urlsplit(url).hostname or "" for url in self.starts}
        )
        self.depth = int(depth)
        self.pages = int(pages)
        self.links = LinkExtractor()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> SiteSpider:
        """Make the spider and hand its limits to Scrapy, which keeps to them."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        if spider.depth:
            crawler.settings.set("DEPTH_LIMIT", spider.depth, priority="spider")
        if spider.pages:
            crawler.settings.set("CLOSESPIDER_PAGECOUNT", spider.pages, priority="spider")
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Begin at each start URL."""
        for url in self.starts:
            yield Request(url)

    def parse(self, response: Response) -> Iterator[Request]:
        """Follow every link; Scrapy drops those that lead off the allowed domains or too deep."""
        if isinstance(response, HtmlResponse):
            yield from response.follow_all(self.links.extract_links(response))


def _listed(value: str) -> list[str]:
    return [entry.strip() for entry in value.split(",") if entry.strip()]


def _check(start: str, depth: str, pages: str) -> None:
    problems = [
        f"{name} is {value!r}; use a whole number"
        for name, value in (("depth", depth), ("pages", pages))
        if not value.isdecimal()
    ]
    if not _listed(start):
        problems.append("start is missing; use -a start=https://example.org/")
    problems += [
        f"start has {url!r}; use a URL with http:// or https:// and a host"
        for url in _listed(start)
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname
    ]
    if problems:
        raise ValueError("; ".join(problems))
