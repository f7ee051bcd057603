"""The spider middlewares: one judges URLs before they reach the scheduler, one makes a page of each response.

Between them stand the middlewares of the user, which may drop, add or change what passes. So URLs are judged
next to the spider, and what was started or yielded in the end is seen next to the engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import Response

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.items import PageItem
from scrapy_dedup.crawl.links import UnfetchedPage, note_arguments
from scrapy_dedup.crawl.requests import (
    LINKED,
    forget_inherited_hops,
    is_governed,
    is_observed,
    make_holder,
    with_url,
)
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.urls import Verdict

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class DedupSpiderMiddleware:
    """Judges the URLs that a spider produces."""

    def __init__(self, crawler: Crawler) -> None:
        self._suite = Suite.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware, as Scrapy does for each crawler."""
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Judge the start requests."""
        async for entry in start:
            admitted = self._admitted(entry)
            if admitted is not None:
                yield admitted

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Judge the requests of a callback."""
        async for entry in result:
            if isinstance(entry, Request) and entry is response.request:
                # Scrapy tells what is under way by the object, and the page of this one is not recorded yet.
                entry = with_url(entry, entry.url)  # noqa: PLW2901
            admitted = self._admitted(entry, response.url)
            if admitted is not None:
                yield admitted

    def _admitted(self, entry: Any, linking_page: str | None = None) -> Any:
        """Return what may go on: the entry, a request for the cleaned URL, or None."""
        if isinstance(entry, Request) and is_observed(entry):
            note_arguments(entry)
        if not isinstance(entry, Request) or not is_governed(entry):
            return entry
        suite = self._suite
        forget_inherited_hops(entry)
        suite.stats.inc_value(names.REQUESTS_SEEN)
        decision = suite.decide(entry.url)
        for rule in {change.rule for change in decision.changes}:
            suite.stats.inc_value(names.RULES + rule)
        if decision.verdict is Verdict.DENY:
            suite.deny(entry, decision, referrer=linking_page)
            return None
        if decision.fetch_url == entry.url:
            return entry
        suite.stats.inc_value(names.REQUESTS_REWRITTEN)
        meta = {**entry.meta, LINKED: [decision.fetch_url, entry.url]}
        return with_url(entry, decision.fetch_url, meta=meta)


class DedupLinkMiddleware:
    """Takes down what callbacks yield, for the crawls that skip their pages."""

    def __init__(self, crawler: Crawler) -> None:
        self._suite = Suite.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware, as Scrapy does for each crawler."""
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Take down the requests of a callback as it yields them."""
        if self._suite.is_crawl:
            result = self._suite.links.yielded(response, result)
        async for entry in result:
            yield entry

    def process_spider_exception(self, response: Response, exception: Exception) -> None:  # noqa: ARG002
        """Take note that a callback failed, even when a middleware of the user handles that."""
        self._suite.links.failed(response)


class DedupPageMiddleware:
    """Records the responses that reach callbacks, skips fresh pages, remembers the keys of start requests."""

    def __init__(self, crawler: Crawler) -> None:
        self._suite = Suite.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware, as Scrapy does for each crawler."""
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Remember the keys of start requests, which the dupefilter does not."""
        async for entry in start:
            if isinstance(entry, Request) and entry.dont_filter and is_governed(entry):
                make_holder(entry)
                fingerprint = self._suite.crawler.request_fingerprinter.fingerprint(entry)
                self._suite.start_fingerprints.add(fingerprint)
            if isinstance(entry, Request):
                self._suite.freshness.will_fetch(entry)
            yield entry

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Record the response of a callback, unless an item does it."""
        has_item = False
        entries = self._suite.freshness.sifted(response, self._suite.links.left(response, result))
        try:
            async for entry in entries:
                if isinstance(entry, PageItem) and self._suite.pages.stands_for(entry, response):
                    has_item = True
                yield entry
        except Exception:
            # Nothing is swallowed: the error goes on to Scrapy. The callback failed, but the page was seen.
            self._record_beside(response, has_item=has_item)
            raise
        if not has_item and self._is_wanted(response):
            # Waited for, so that Scrapy's limit of active responses holds back the downloader.
            await self._suite.guard(self._suite.pages.record_automatically(response))

    def process_spider_exception(self, response: Response, exception: Exception) -> None:  # noqa: ARG002
        """Record a response whose callback failed before it produced anything."""
        self._record_beside(response, has_item=False)

    def _record_beside(self, response: Response, *, has_item: bool) -> None:
        if not has_item and self._is_wanted(response) and not self._suite.pages.is_recorded(response):
            self._suite.spawn(self._suite.pages.record_automatically(response))

    def _is_wanted(self, response: Response) -> bool:
        if response.request is None or not is_observed(response.request) or not self._suite.is_crawl:
            return False
        if isinstance(response, UnfetchedPage):
            return False
        return self._suite.config.auto_pages and self._suite.pages.reaches_callback(response)
