"""The extension: what happens at the start and at the end of a crawl."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import Spider, signals
from scrapy.dupefilters import RFPDupeFilter

from scrapy_dedup.crawl.funnel import funnel
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.errors import LedgerError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class DedupExtension:
    """Names a set-up that bypasses the suite, and closes the ledger and the pool when the crawl is over."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._suite = Suite.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension, as Scrapy does for each crawler."""
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        return extension

    async def spider_opened(self, spider: Spider) -> None:
        """Name a dupefilter that does not ask our fingerprinter; take up the job of a paused crawl."""
        self._suite.spider_opened()
        slot = self._crawler.engine._slot
        complaint = bypass(slot.scheduler, self._crawler.request_fingerprinter) if slot else None
        if complaint:
            logger.warning(complaint, extra={"spider": spider})
        await self._suite.resume()

    async def spider_closed(self, spider: Spider, reason: str) -> None:
        """End the job, before Scrapy writes the stats out, and show the funnel."""
        try:
            await self._suite.close(reason)
        except LedgerError as error:
            self._suite.fail(error)
        logger.info(
            "What became of the URLs:\n%s", funnel(self._suite.stats.get_stats()), extra={"spider": spider}
        )


def bypass(scheduler: Any, fingerprinter: Any) -> str | None:
    """Return a complaint about a scheduler whose dupefilter has an identity of its own, else None."""
    dupefilter = getattr(scheduler, "df", None)
    if dupefilter is None:
        return (
            f"The scheduler {_class_name(scheduler)} has no dupefilter that can be checked; where it does "
            "not use crawler.request_fingerprinter, URLs with one key are fetched more than once"
        )
    if asks(dupefilter, fingerprinter):
        return None
    return (
        f"The dupefilter {_class_name(dupefilter)} does not use crawler.request_fingerprinter, so it "
        "bypasses the URL keys of scrapy_dedup: URLs with one key are fetched more than once. Their texts "
        "are still stored once"
    )


def asks(dupefilter: Any, fingerprinter: Any) -> bool:
    """Tell whether a dupefilter takes the identity of requests from a fingerprinter."""
    own = getattr(type(dupefilter), "request_fingerprint", None)
    has_own = own is not None and own is not RFPDupeFilter.request_fingerprint
    return getattr(dupefilter, "fingerprinter", None) is fingerprinter and not has_own


def _class_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
