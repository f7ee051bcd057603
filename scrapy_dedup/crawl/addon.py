"""The add-on: one line in ``ADDONS`` sets up everything that a crawl needs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.settings import BaseSettings
from scrapy.utils.conf import closest_scrapy_cfg

from scrapy_dedup.config import PREFIX, Config
from scrapy_dedup.crawl import chunk_feed
from scrapy_dedup.crawl.canonicals import Canonicals
from scrapy_dedup.crawl.conditional import ConditionalRequests
from scrapy_dedup.crawl.crawl_delay import CrawlDelayMiddleware
from scrapy_dedup.crawl.downloader_middleware import DedupDownloaderMiddleware
from scrapy_dedup.crawl.exporters import DEFAULT_FORMATS, EXPORTERS, FILTERS, default_feeds
from scrapy_dedup.crawl.extension import DedupExtension
from scrapy_dedup.crawl.fingerprinter import Fingerprinter
from scrapy_dedup.crawl.freshness import Freshness
from scrapy_dedup.crawl.links import OutLinks
from scrapy_dedup.crawl.pages import Pages
from scrapy_dedup.crawl.pipeline import DedupPipeline
from scrapy_dedup.crawl.spider_middleware import (
    DedupLinkMiddleware,
    DedupPageMiddleware,
    DedupSpiderMiddleware,
)
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.crawl.variants import Variants
from scrapy_dedup.errors import ConfigError, LedgerError
from scrapy_dedup.ledger import Ledger, LedgerWriter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

# Component setting, class, order, and why that order.
COMPONENTS: tuple[tuple[str, type, int], ...] = (
    (
        "SPIDER_MIDDLEWARES",
        DedupLinkMiddleware,
        1000,
    ),  # what callbacks yield, before Depth (900) acts
    ("SPIDER_MIDDLEWARES", DedupSpiderMiddleware, 850),  # before UrlLength (800) judges the cleaned URL
    ("SPIDER_MIDDLEWARES", DedupPageMiddleware, 10),  # sees what the user's middlewares (543) leave
    (
        "DOWNLOADER_MIDDLEWARES",
        DedupDownloaderMiddleware,
        10,
    ),  # sees what retry (550) and redirect (600) leave
    ("DOWNLOADER_MIDDLEWARES", CrawlDelayMiddleware, 990),  # after the cache (900): what really goes out
    ("ITEM_PIPELINES", DedupPipeline, 50),  # before pipelines that read .observation
    ("EXTENSIONS", DedupExtension, 500),
)

ASYNCIO_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


class Addon:
    """Enables the suite for a crawl: ``ADDONS = {"scrapy_dedup.Addon": 500}``."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the add-on, as Scrapy does for each crawler."""
        return cls(crawler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Check the settings and the ledger, then enable the components.

        Raises:
            ConfigError: with every problem of the settings, and of the ledger beside them.
            LedgerError: when only the ledger cannot be used; nothing was created or changed.
        """
        # An unknown feed format would switch off every feed of the user: the formats are known even when off.
        for feed_format, exporter in {**EXPORTERS, chunk_feed.FORMAT: chunk_feed.ChunksExporter}.items():
            settings["FEED_EXPORTERS"].setdefault(feed_format, exporter, "addon")
        config = checked_config(settings)
        if not config.enabled:
            return
        suite = Suite(self.crawler, config, Ledger.overrides_at(config.ledger_url, config.corpus))
        suite.pages = Pages(suite)
        suite.links = OutLinks(self.crawler)
        suite.freshness = Freshness(suite)
        suite.conditional = ConditionalRequests(suite)
        suite.canonicals = Canonicals(suite)
        suite.variants = Variants(suite)
        suite.attach()
        suite.users_fingerprinter = settings["REQUEST_FINGERPRINTER_CLASS"]
        settings.set(
            "REQUEST_FINGERPRINTER_CLASS",
            Fingerprinter,
            # Ours has to win over the class it wraps, wherever that was set.
            settings.getpriority("REQUEST_FINGERPRINTER_CLASS") or 0,
        )
        calm_libraries()
        for name, component, order in COMPONENTS:
            settings.setdefault_in_component_priority_dict(name, component, order)
        add_feeds(settings)


def calm_libraries() -> None:
    """Keep Alembic from listing its own parts in the log of each crawl, unless the user gave it a level."""
    alembic = logging.getLogger("alembic")
    if alembic.level == logging.NOTSET:
        alembic.setLevel(logging.WARNING)


def checked_config(settings: BaseSettings) -> Config:
    """Read the configuration and check that its ledger can be used.

    Raises:
        ConfigError: with every problem of the settings, and of the ledger beside them.
        LedgerError: when only the ledger cannot be used.
    """
    try:
        config = read_config(settings)
    except ConfigError as error:
        url = ledger_url(settings)
        if url is None:
            raise
        try:
            LedgerWriter.check(url)
        except LedgerError as ledger_error:
            raise ConfigError([*error.problems, str(ledger_error)]) from None
        raise
    if config.enabled:
        LedgerWriter.check(config.ledger_url)
    return config


def ledger_url(settings: BaseSettings) -> str | None:
    """Return the ledger's URL where it is right, whatever else is wrong, so that all problems are told."""
    named = {name: value for name, value in dedup_settings(settings).items() if name == "DEDUP_LEDGER"}
    try:
        return Config.from_settings(named, base_dir=base_dir()).ledger_url
    except ConfigError:
        return None


def read_config(settings: BaseSettings) -> Config:
    """Read the configuration of the suite from Scrapy settings.

    Raises:
        ConfigError: with every problem found.
    """
    problems: list[str] = []
    if settings.getbool("TWISTED_REACTOR_ENABLED") and settings["TWISTED_REACTOR"] != ASYNCIO_REACTOR:
        problems.append(
            f"TWISTED_REACTOR is {settings['TWISTED_REACTOR']!r}; the suite needs {ASYNCIO_REACTOR!r}, "
            "the default of Scrapy"
        )
    try:
        config = Config.from_settings(dedup_settings(settings), base_dir=base_dir())
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    if problems and config.enabled:
        raise ConfigError(problems)
    return config


def dedup_settings(settings: BaseSettings) -> Mapping[str, Any]:
    """Return the ``DEDUP_*`` settings that are set, as plain values."""
    return {
        name: value.copy_to_dict() if isinstance(value, BaseSettings) else value
        for name, value in settings.items()
        if isinstance(name, str) and name.startswith(PREFIX)
    }


def base_dir() -> Path:
    """Return where relative paths start: the folder of ``scrapy.cfg``, else the current folder."""
    cfg = closest_scrapy_cfg()
    return Path(cfg).parent if cfg else Path.cwd()


def add_feeds(settings: BaseSettings) -> None:
    """Add the two feeds, unless FEEDS holds one of their formats; let only pages into such feeds."""
    feeds = settings["FEEDS"]
    for uri, options in feeds.items():
        item_filter = FILTERS.get(str(options.get("format"))) if isinstance(options, Mapping) else None
        if item_filter and not options.get("item_filter"):
            feeds.set(uri, {**options, "item_filter": item_filter}, feeds.getpriority(uri) or 0)
        if isinstance(options, Mapping | BaseSettings) and options.get("format") == chunk_feed.FORMAT:
            feeds.set(uri, chunk_feed.feed_options(str(uri), options), feeds.getpriority(uri) or 0)
    formats = {
        options.get("format") for options in feeds.values() if isinstance(options, Mapping | BaseSettings)
    }
    if formats.isdisjoint(DEFAULT_FORMATS):
        for uri, options in default_feeds().items():
            feeds.setdefault(uri, options, "addon")
