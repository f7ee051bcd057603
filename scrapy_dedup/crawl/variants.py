"""A key that fails does not take its variants with it: the URLs it suppressed get their turn.

``/foo/`` may be 404 where ``/foo`` is a page, and ``?b=2&a=1`` may fail where ``?a=1&b=2`` works, though
each pair has one key. When the request that holds a key ends without a valid page, the next URL that was
merged into it is requested, and at last the URL exactly as it was linked.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from scrapy import Request

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.digest_table import DigestTable
from scrapy_dedup.crawl.requests import (
    INHERITED,
    JOURNEY,
    LINKED,
    VARIANT,
    chain_of,
    is_holder,
    keyed_chain_of,
    linked_url,
    variant_of_key,
    with_url,
)
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.records import AliasRecord

logger = logging.getLogger(__name__)

# A family of URLs that all fail must not cost a fetch each.
MAX_VARIANTS_PER_KEY = 3

# Verdicts of aliases.
MERGED, LED_HERE = "merged", "redirected"

# Of a URL that was tried for one key; compared only with the few others of that key.
TRIED_BYTES = 8


@dataclass(slots=True)
class FailedKey:
    """A key without a valid page so far, while something is under way for it.

    Attributes:
        model: the request that failed, or was merged after that: the model for requests of variants.
        tried: digests of the URLs that were requested for the key.
        is_waiting: whether a variant is under way.
        offers: how many times variants are being looked up.
    """

    model: Request
    tried: set[bytes] = field(default_factory=set)
    is_waiting: bool = False
    offers: int = 0


class Variants:
    """Gives the variants of failed keys their turn.

    A request is kept only while something is under way for its key. Of all other failed keys a table of
    digests knows which URLs were tried, for the case that another variant is found; that one comes with a
    request of its own.
    """

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._active: dict[str, FailedKey] = {}
        self._at_rest = DigestTable(value_bytes=TRIED_BYTES)

    def key_failed(self, request: Request) -> None:
        """Take note that a request ended without a valid page, and request a variant of its key."""
        if not self._suite.is_crawl or not is_holder(request):
            return
        for key in self._keys_of(request):
            failed = self._activate(key, request)
            failed.tried.update(map(digest_of_url, chain_of(request)))
            failed.is_waiting = False
            self._offer_soon(key, failed)

    def key_succeeded(self, request: Request) -> None:
        """Take note that a request brought a valid page."""
        if not self._active and not len(self._at_rest):
            return
        for key in self._keys_of(request):
            self._active.pop(key, None)
            self._at_rest.discard(bytes_of(key))

    def remember(self, failures: Iterable[tuple[str, str]]) -> None:
        """Take note of failures before the crawl was paused: pairs of URL key and URL as requested."""
        for key, url in failures:
            for failed in {key, self._suite.key_of(url)}:
                self._at_rest.add(bytes_of(failed), digest_of_url(url))

    def _keys_of(self, request: Request) -> set[str]:
        keys = {self._suite.key_of(url) for url in keyed_chain_of(request)}
        variant = variant_of_key(request)
        return keys | {variant.key} if variant else keys

    def merged(self, key: str, request: Request) -> None:
        """Take note that a request was merged into a key, which may have failed before."""
        active = self._active.get(key)
        tried = active.tried if active else set(self._at_rest.values(bytes_of(key)))
        if not tried or len(tried) > MAX_VARIANTS_PER_KEY:
            return
        # A dead link that stands on every page brings nothing new each time.
        if any(digest_of_url(url) not in tried for url in (request.url, linked_url(request))):
            self._offer_soon(key, self._activate(key, request))

    def has_failed(self, key: str) -> bool:
        """Tell whether a key has failed and brought no valid page since."""
        return key in self._active or bytes_of(key) in self._at_rest

    def _activate(self, key: str, model: Request) -> FailedKey:
        """Return what is known of a failed key, to be changed."""
        if key not in self._active:
            self._active[key] = FailedKey(model, set(self._at_rest.values(bytes_of(key))))
        return self._active[key]

    def _offer_soon(self, key: str, failed: FailedKey) -> None:
        failed.offers += 1
        self._suite.spawn(self._offer(key, failed))

    async def _offer(self, key: str, failed: FailedKey) -> None:
        aliases = await asyncio.wrap_future(self._suite.writer.variants(key))
        failed.offers -= 1
        if self._active.get(key) is not failed or failed.is_waiting or self._suite.is_closing:
            return  # it brought a page in the meantime, or this is not the time
        url = self._next_url(aliases, failed)
        if url is not None:
            failed.is_waiting = True
            failed.tried.add(digest_of_url(url))
            self._suite.stats.inc_value(names.VARIANTS_REQUESTED)
            logger.debug("Requesting %s, since %s brought no valid page", url, failed.model)
            self._suite.crawler.engine.crawl(variant_of(failed.model, url, key))
        elif not failed.offers:
            self._put_to_rest(key, failed)

    def _next_url(self, aliases: Sequence[AliasRecord], failed: FailedKey) -> str | None:
        if len(failed.tried) > MAX_VARIANTS_PER_KEY:
            return None
        urls = candidates(aliases, failed.model)
        return next((url for url in urls if digest_of_url(url) not in failed.tried), None)

    def _put_to_rest(self, key: str, failed: FailedKey) -> None:
        """Keep of a key only which URLs were tried; one more than the limit says all about the others."""
        del self._active[key]
        for tried in sorted(failed.tried)[: MAX_VARIANTS_PER_KEY + 1]:
            self._at_rest.add(bytes_of(key), tried)


def candidates(aliases: Sequence[AliasRecord], model: Request) -> Iterator[str]:
    """Yield the URLs to try for a key.

    First what its variants would have fetched, then URLs exactly as linked, and at last those that redirect
    to a variant: the redirect was dropped while the key's own request was under way.
    """
    of = {verdict: [alias for alias in aliases if alias.verdict == verdict] for verdict in (MERGED, LED_HERE)}
    for alias in of[MERGED]:
        yield alias.fetch_url
    yield linked_url(model)
    for alias in of[MERGED]:
        yield alias.raw_url
    for alias in of[LED_HERE]:
        yield alias.fetch_url


def variant_of(model: Request, url: str, key: str) -> Request:
    """Return a request for a variant, like another request for its key but on a way of its own."""
    meta = {name: value for name, value in model.meta.items() if name not in (*JOURNEY, LINKED, INHERITED)}
    return with_url(model, url, meta={**meta, VARIANT: [url, key]}, dont_filter=False)


def bytes_of(key: str) -> bytes:
    """Return a key as bytes; a lone surrogate has no other form in UTF-8."""
    return key.encode("utf-8", "surrogatepass")


def digest_of_url(url: str) -> bytes:
    """Return what is kept of a URL that was tried; the server never sees its fragment."""
    sent = url.partition("#")[0]
    return hashlib.blake2b(bytes_of(sent), digest_size=TRIED_BYTES, person=b"scrapy-dedup-1").digest()
