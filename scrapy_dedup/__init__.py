"""Deduplication for Scrapy crawls that feed a retrieval system.

The public names are loaded when they are asked for, so that reading a ledger or deciding about a URL does not
import Scrapy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_dedup.config import Config as Config
    from scrapy_dedup.crawl.addon import Addon as Addon
    from scrapy_dedup.crawl.items import PageItem as PageItem
    from scrapy_dedup.errors import ConfigError as ConfigError
    from scrapy_dedup.errors import DedupError as DedupError
    from scrapy_dedup.errors import LedgerError as LedgerError
    from scrapy_dedup.ledger import Ledger as Ledger
    from scrapy_dedup.records import BodyRecord as BodyRecord
    from scrapy_dedup.records import JobRecord as JobRecord
    from scrapy_dedup.records import ObservationRecord as ObservationRecord
    from scrapy_dedup.urls import UrlDecision as UrlDecision
    from scrapy_dedup.urls import UrlPolicy as UrlPolicy

__version__ = "0.1.0"

_HOMES = {
    "Addon": "scrapy_dedup.crawl.addon",
    "PageItem": "scrapy_dedup.crawl.items",
    "Config": "scrapy_dedup.config",
    "ConfigError": "scrapy_dedup.errors",
    "DedupError": "scrapy_dedup.errors",
    "LedgerError": "scrapy_dedup.errors",
    "Ledger": "scrapy_dedup.ledger",
    "BodyRecord": "scrapy_dedup.records",
    "JobRecord": "scrapy_dedup.records",
    "ObservationRecord": "scrapy_dedup.records",
    "UrlDecision": "scrapy_dedup.urls",
    "UrlPolicy": "scrapy_dedup.urls",
}

__all__ = [
    "Addon",
    "BodyRecord",
    "Config",
    "ConfigError",
    "DedupError",
    "JobRecord",
    "Ledger",
    "LedgerError",
    "ObservationRecord",
    "PageItem",
    "UrlDecision",
    "UrlPolicy",
    "__version__",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
