"""The spider middleware: judges URLs before they reach the scheduler and makes a page of each response."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import Response

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.items import PageItem
from scrapy_dedup.crawl.requests import LINKED, forget_inherited_hops, is_governed, is_observed
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.urls import Verdict

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class DedupSpiderMiddleware:
    """Judges the URLs that a spider produces and records the responses that reach its callbacks."""

    def __init__(self, crawler: Crawler) -> None:
        self._suite = Suite.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware, as Scrapy does for each crawler."""
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Judge the start requests and remember their keys, which the dupefilter does not."""
        async for entry in start:
            admitted = self._admitted(entry)
            if admitted is None:
                continue
            if isinstance(admitted, Request) and admitted.dont_filter and is_governed(admitted):
                fingerprint = self._suite.crawler.request_fingerprinter.fingerprint(admitted)
                self._suite.start_fingerprints.add(fingerprint)
            yield admitted

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Judge the requests of a callback; afterwards record the response, unless an item did it."""
        has_item = False
        try:
            async for entry in result:
                if isinstance(entry, PageItem) and entry.response is response:
                    has_item = True
                admitted = self._admitted(entry)
                if admitted is not None:
                    yield admitted
        except Exception:
            # The callback failed, but the page was seen.
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
        return self._suite.config.auto_pages and self._suite.pages.reaches_callback(response)

    def _admitted(self, entry: Any) -> Any:
        """Return what may go on: the entry, a request for the cleaned URL, or None."""
        if not isinstance(entry, Request) or not is_governed(entry):
            return entry
        suite = self._suite
        forget_inherited_hops(entry)
        suite.stats.inc_value(names.REQUESTS_SEEN)
        decision = suite.decide(entry.url)
        for rule in {change.rule for change in decision.changes}:
            suite.stats.inc_value(names.RULES + rule)
        if decision.verdict is Verdict.DENY:
            suite.deny(entry, decision)
            return None
        if decision.fetch_url == entry.url:
            return entry
        suite.stats.inc_value(names.REQUESTS_REWRITTEN)
        return entry.replace(
            url=decision.fetch_url, meta={**entry.meta, LINKED: [decision.fetch_url, entry.url]}
        )
