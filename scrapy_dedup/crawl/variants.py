"""A key that fails does not take its variants with it: the URLs it suppressed get their turn.

``/foo/`` may be 404 where ``/foo`` is a page, and ``?b=2&a=1`` may fail where ``?a=1&b=2`` works, though
each pair has one key. When the request that holds a key ends without a valid page, the next URL that was
merged into it is requested, and at last the URL exactly as it was linked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from scrapy import Request

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.requests import (
    INHERITED,
    JOURNEY,
    LINKED,
    VARIANT,
    chain_of,
    linked_url,
    variant_of_key,
)
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.records import AliasRecord

logger = logging.getLogger(__name__)

# A family of URLs that all fail must not cost a fetch each.
MAX_VARIANTS_PER_KEY = 3


@dataclass(slots=True)
class FailedKey:
    """A key without a valid page so far.

    Attributes:
        holder: the request that failed, the model for requests of variants.
        tried: the URLs that were requested for the key.
        is_waiting: whether a variant is under way.
    """

    holder: Request
    tried: set[str] = field(default_factory=set)
    is_waiting: bool = False


class Variants:
    """Gives the variants of failed keys their turn."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._failed: dict[str, FailedKey] = {}

    def key_failed(self, request: Request) -> None:
        """Take note that a request ended without a valid page, and request a variant of its key."""
        if not self._suite.is_crawl:
            return
        for key in self._keys_of(request):
            failed = self._failed.setdefault(key, FailedKey(request))
            failed.tried.update(chain_of(request))
            failed.is_waiting = False
            self._suite.spawn(self._offer(key))

    def key_succeeded(self, request: Request) -> None:
        """Take note that a request brought a valid page."""
        if self._failed:
            for key in self._keys_of(request):
                self._failed.pop(key, None)

    def _keys_of(self, request: Request) -> set[str]:
        keys = {self._suite.key_of(url) for url in chain_of(request)}
        variant = variant_of_key(request)
        return keys | {variant.key} if variant else keys

    def merged(self, key: str) -> None:
        """Take note that a URL was merged into a key, which may have failed before."""
        if key in self._failed:
            self._suite.spawn(self._offer(key))

    async def _offer(self, key: str) -> None:
        aliases = await asyncio.wrap_future(self._suite.writer.variants(key))
        failed = self._failed.get(key)
        if (
            failed is None
            or failed.is_waiting
            or self._suite.is_closing
            or len(failed.tried) > MAX_VARIANTS_PER_KEY
        ):
            return
        url = next((url for url in candidates(aliases, failed.holder) if url not in failed.tried), None)
        if url is None:
            return
        failed.is_waiting = True
        failed.tried.add(url)
        self._suite.stats.inc_value(names.VARIANTS_REQUESTED)
        logger.debug("Requesting %s, since %s brought no valid page", url, failed.holder)
        self._suite.crawler.engine.crawl(variant_of(failed.holder, url, key))


def candidates(aliases: Iterable[AliasRecord], holder: Request) -> Iterator[str]:
    """Yield the URLs to try for a key: what its variants would have fetched, then URLs exactly as linked."""
    merged = [alias for alias in aliases if alias.verdict == "merged"]
    for alias in merged:
        yield alias.fetch_url
    yield linked_url(holder)
    for alias in merged:
        yield alias.raw_url


def variant_of(holder: Request, url: str, key: str) -> Request:
    """Return a request for a variant, like the request that failed but on a way of its own."""
    meta = {name: value for name, value in holder.meta.items() if name not in (*JOURNEY, LINKED, INHERITED)}
    return holder.replace(url=url, meta={**meta, VARIANT: [url, key]}, dont_filter=False)
