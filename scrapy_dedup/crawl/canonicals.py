"""What responses declare to be their canonical, and, where it is wanted, requests for what they name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from scrapy import Request

from scrapy_dedup.content.canonical import (
    STUB,
    Claim,
    Declaration,
    PageDeclarations,
    claim_of,
    resolve,
    stub_claim,
)
from scrapy_dedup.content.declarations import is_noindex_header, link_headers
from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.digest_table import DigestTable
from scrapy_dedup.crawl.links import UnfetchedPage
from scrapy_dedup.crawl.requests import JOURNEY, OWN_META, is_governed, with_url
from scrapy_dedup.records import ObservationRecord
from scrapy_dedup.urls import redact

if TYPE_CHECKING:
    from scrapy.http import Headers, Response

    from scrapy_dedup.crawl.suite import Suite

# What a claim waits for that a fetch of its target may bring.
UNSEEN = frozenset({"target_unknown", "redirect_stub"})

# What Scrapy sets anew for each request.
OF_ONE_REQUEST = frozenset(
    {*JOURNEY, *OWN_META, "depth", "cached_response", "cache_timestamp", "_dont_cache"}
)
AUTH_PROXY = "_auth_proxy"  # which proxy the Proxy-Authorization header of a request is for
SCHEME_PROXY = "_scheme_proxy"  # the proxy is that of the environment for the scheme of the URL


class Canonicals:
    """Reads the declarations of responses and requests targets, each once."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._requested = DigestTable()

    def of(
        self,
        response: Response,
        page_url: str,
        declared: PageDeclarations,
        sent_to: str | None,
    ) -> Mapping[str, Any] | None:
        """Return what an observation states of its canonical, None where nothing is declared.

        Args:
            response: as it came from the server.
            page_url: the URL of the page, with a fragment that is a part of its key.
            declared: what stands in its tree.
            sent_to: where a page without a text of its own sends its visitors.
        """
        page_key = self._key_of(page_url)

        def is_own(anchor: str) -> bool:
            return self._key_of(urljoin(response.url, anchor)) == page_key if anchor else True

        stated = [*link_headers(_texts(response.headers, "Link"), is_own), *declared.stated]
        noindex = declared.noindex or is_noindex_header(_texts(response.headers, "X-Robots-Tag"))
        if sent_to is not None:
            stub = Declaration(STUB, sent_to, sent_to, in_head=True)
            return _stored([stub], stub_claim(sent_to, self._key_of), noindex=noindex)
        if not stated and not noindex:
            return None
        found = resolve(stated, response.url, declared.base)
        return _stored(found, claim_of(found, page_url, page_key, self._key_of), noindex=noindex)

    def _key_of(self, url: str) -> str:
        return redact(self._suite.key_of(url))

    def request_target(self, response: Response, observation: ObservationRecord) -> None:
        """Request the target of a page's claim where that is wanted and nothing was seen there yet."""
        suite, canonical = self._suite, observation.canonical or {}
        target, key, request = canonical.get("target"), canonical.get("target_key"), response.request
        if suite.config.canonical == "record" or not target or not key or not suite.is_crawl:
            return
        if request is None or not is_governed(request) or not self._is_wanted(canonical):
            return
        place = key.encode("utf-8", "surrogatepass")
        if place not in self._requested and not suite.is_closing:
            self._requested.add(place)
            suite.spawn(self._request(response, _like(request, target)))

    async def seen_us(self, url_keys: Sequence[str]) -> Mapping[str, int]:
        """Return when the confirmed canonicals of pages were last seen, where pages are skipped for that.

        Raises:
            LedgerError: when the ledger failed.
        """
        if self._suite.config.canonical != "skip" or not url_keys:
            return {}
        return await asyncio.wrap_future(self._suite.writer.canonicals_seen(url_keys))

    def _is_wanted(self, canonical: Mapping[str, Any]) -> bool:
        """Tell whether a target is still to be seen; another site is wanted only by name."""
        reason = canonical.get("reason")
        if reason == "off_site":
            return bool(getattr(self._suite.crawler.spider, "allowed_domains", None))
        return reason in UNSEEN

    async def _request(self, response: Response, target: Request) -> None:
        """Send a request the way that a link of the page goes: past every spider middleware."""
        crawler = self._suite.crawler
        page = UnfetchedPage(response.url, request=response.request, flags=["dedup_canonical"])

        async def callback(_result: Any, _request: Request) -> Iterable[Request]:
            return [target]

        output = await crawler.engine.scraper.spidermw.scrape_response_async(
            callback, page, response.request or target
        )
        async for entry in output:
            if isinstance(entry, Request):
                self._suite.stats.inc_value(names.CANONICALS_REQUESTED)
                if response.request is not None and AUTH_PROXY in response.request.meta:
                    entry.meta[AUTH_PROXY] = response.request.meta[AUTH_PROXY]
                crawler.engine.crawl(entry)


def _like(model: Request, url: str) -> Request:
    """Return a request for another URL under the conditions of a page; its secrets stay at its host."""
    dropped = OF_ONE_REQUEST | {AUTH_PROXY, SCHEME_PROXY}
    if SCHEME_PROXY in model.meta:
        dropped |= {"proxy"}
    meta = {name: value for name, value in model.meta.items() if name not in dropped}
    request = with_url(model, url, meta=meta, dont_filter=False)
    for name in ("Referer", "Cookie"):
        request.headers.pop(name, None)  # Scrapy sets them for the new URL
    if urlsplit(model.url).netloc != urlsplit(request.url).netloc:
        request.headers.pop("Authorization", None)
    return request


def _texts(headers: Headers, name: str) -> list[str]:
    return [value.decode("latin-1") for value in headers.getlist(name)]


def _stored(declared: Iterable[Declaration], claim: Claim | None, *, noindex: bool) -> dict[str, Any]:
    """Return what an observation keeps: the declarations, and what they are worth by themselves."""
    stored: dict[str, Any] = {
        "declared": [
            {"source": item.source, "raw": item.raw, "resolved": item.resolved, "in_head": item.in_head}
            for item in declared
        ],
        "noindex": noindex,
        "status": claim.verdict.state.value if claim else None,
        "target": claim.target if claim else None,
        "reason": claim.verdict.reason if claim else None,
    }
    if claim is not None and claim.target_key is not None:
        stored["target_key"] = claim.target_key
    return stored
