"""The item pipeline: records the pages that a spider yields itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import Spider, signals
from scrapy.exceptions import DropItem

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.downloader_middleware import DedupDownloaderMiddleware
from scrapy_dedup.crawl.items import PageItem
from scrapy_dedup.crawl.pages import SpidersView
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.errors import LedgerError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class DedupPipeline:
    """Fills a `PageItem` with its observation, body and action once these are durable."""

    def __init__(self, crawler: Crawler) -> None:
        self._suite = Suite.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the pipeline, as Scrapy does for each crawler."""
        pipeline = cls(crawler)
        crawler.signals.connect(pipeline.item_dropped, signal=signals.item_dropped)
        crawler.signals.connect(pipeline.item_error, signal=signals.item_error)
        return pipeline

    async def process_item(self, item: Any) -> Any:
        """Record a page; other items pass untouched.

        Raises:
            DropItem: when the ledger failed, so that nothing downstream counts the page as recorded.
        """
        if not isinstance(item, PageItem) or not self._suite.is_crawl:
            return item
        if item.response is None:
            self._warn(f"A PageItem for {item.url} has no response; make it with PageItem.from_response")
            return item
        response, item.response = item.response, None
        item.is_repeat = self._suite.pages.is_recorded(response)
        if item.is_repeat:
            self._warn(f"{item.url} has more than one PageItem; only the fields of the first are recorded")
        try:
            recorded = await self._suite.pages.record(response, SpidersView.of(item))
        except LedgerError as error:
            self._suite.fail(error)
            raise DropItem(f"the ledger failed: {error}") from error
        self._suite.stats.inc_value(names.PAGES_ITEMS)
        item.observation = recorded.observation
        item.body = recorded.body
        item.action = recorded.observation.action.value
        item.body_is_new = recorded.body_is_new and not item.is_repeat
        item.changes = recorded.changes
        return item

    def _warn(self, message: str) -> None:
        logger.warning(message, extra={"spider": self._suite.crawler.spider})

    async def close_spider(self) -> None:
        """Finish what is under way while the feeds are still open."""
        self._suite.is_closing = True
        watcher = self._suite.crawler.get_downloader_middleware(DedupDownloaderMiddleware)
        if watcher is not None:
            watcher.judge_unanswered()
        await self._suite.settle()

    def item_dropped(self, item: Any, spider: Spider) -> None:  # noqa: ARG002
        """Record a page whose item an earlier pipeline dropped; the page was seen all the same."""
        self._record_unprocessed(item)

    def item_error(self, item: Any, spider: Spider) -> None:  # noqa: ARG002
        """Record a page whose item an earlier pipeline failed on."""
        self._record_unprocessed(item)

    def _record_unprocessed(self, item: Any) -> None:
        if isinstance(item, PageItem) and item.response is not None:
            response, item.response = item.response, None
            self._suite.spawn(self._suite.pages.record_automatically(response, SpidersView.of(item)))
