"""Conditional requests: the server says whether a page changed, and if not, its stored links are followed.

A request carries the validators of the last valid observation under equal conditions (RFC 9110, section
13.1), where the links of that page are stored. The 304 that may come back becomes an observation of the same
text. Neither callback nor errback hears of it: a page without content passes the spider middlewares in its
place, with the stored links for its callback's output.
"""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.http import Response

from scrapy_dedup.crawl.freshness import is_reliable
from scrapy_dedup.crawl.links import UnfetchedPage
from scrapy_dedup.crawl.requests import VALIDATORS, chain_of, is_governed
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.errors import LedgerError
from scrapy_dedup.ledger.seen import SeenPage
from scrapy_dedup.urls import redact

SWITCH = "dedup_conditional"  # meta: True or False for one request
NOT_MODIFIED = "not_modified"  # the reason of the observation

MAX_VALIDATOR_CHARS = 1_000  # servers refuse long headers, and no sound ETag comes near

# Header of a request, and its preconditions that the user may have set: then the request is the user's.
IF_NONE_MATCH, IF_MODIFIED_SINCE = "If-None-Match", "If-Modified-Since"
PRECONDITIONS = (IF_NONE_MATCH, IF_MODIFIED_SINCE, "If-Match", "If-Unmodified-Since", "If-Range", "Range")


class ConditionalRequests:
    """Puts validators into requests, and knows what their 304 stands for."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite

    async def prepare(self, request: Request) -> None:
        """Make a request conditional, if that was asked for and a 304 could stand for the page."""
        withdraw_validators(request)
        if not self._may_ask(request):
            return
        page = await self._known_page(request)
        validators = page and validators_of(page)
        if page is None or not validators or self._suite.links.stored(page.links, request) is None:
            return
        for name, value in validators.items():
            request.headers[name] = value
        request.meta[VALIDATORS] = [
            request.url,
            validators.get(IF_NONE_MATCH),
            validators.get(IF_MODIFIED_SINCE),
        ]

    def _may_ask(self, request: Request) -> bool:
        suite = self._suite
        if not suite.is_crawl or not is_governed(request):
            return False
        if not request.meta.get(SWITCH, suite.config.conditional):
            return False
        if len(chain_of(request)) > 1 or any(name in request.headers for name in PRECONDITIONS):
            return False
        has_cache = suite.crawler.get_downloader_middleware(HttpCacheMiddleware) is not None
        return not has_cache or bool(request.meta.get("dont_cache"))

    async def _known_page(self, request: Request) -> SeenPage | None:
        """Return the last valid observation of exactly this URL, if it counts for this crawl."""
        suite = self._suite
        try:
            (page,) = await suite.latest_pages([suite.freshness.question_about(request)])
        except LedgerError as error:
            suite.fail(error)
            return None
        if page is None or page.observation.redirect_urls or page.observation.conditions.renderer:
            return None
        # Validators belong to a URL as it was sent, not to its key.
        is_same = page.observation.url == redact(request.url).partition("#")[0]
        reliable = is_reliable(page, suite.key_of(request.url), suite.freshness.terms)
        return page if is_same and reliable else None

    def is_answered(self, request: Request, response: Response) -> bool:
        """Tell whether a response says that the page is what we asked about."""
        asked = request.meta.get(VALIDATORS)
        return response.status == 304 and asked is not None and bool(asked[0] == request.url)

    async def stand_in(self, request: Request, response: Response) -> Response | Request:
        """Record a 304 and return what stands for its page.

        Returns:
            A page without content, whose callback yields the stored links. When they are not there any more,
            the request as it has to be made to get the page.
        """
        suite = self._suite
        page = await self._known_page(request)
        links = None if page is None else suite.links.stored(page.links, request)
        if page is None or links is None:
            return unconditional(request)
        await suite.guard(suite.pages.record_not_modified(request, response, page))
        return UnfetchedPage(
            response.url,
            headers=response.headers,
            flags=[*response.flags, f"dedup_{NOT_MODIFIED}"],
            request=request.replace(callback=lambda _page, **_arguments: links, errback=None),
        )


def validators_of(page: SeenPage) -> dict[str, str]:
    """Return the preconditions that ask whether a page is still what it was, as far as they can be sent."""
    stated = {IF_NONE_MATCH: page.observation.etag, IF_MODIFIED_SINCE: page.observation.last_modified}
    return {name: value for name, value in stated.items() if value and _can_be_sent(value)}


def _can_be_sent(value: str) -> bool:
    return value.isascii() and value.isprintable() and len(value) <= MAX_VALIDATOR_CHARS


def withdraw_validators(request: Request) -> None:
    """Take out what we put in, before a retry or for the URL that a redirect led to."""
    asked: Any = request.meta.pop(VALIDATORS, None)
    if not asked:
        return
    for name, value in zip((IF_NONE_MATCH, IF_MODIFIED_SINCE), asked[1:], strict=True):
        if value is not None and request.headers.get(name) == value.encode():
            del request.headers[name]


def unconditional(request: Request) -> Request:
    """Return a request for the page itself, whatever was known of it."""
    again: Request = request.replace(dont_filter=True, meta={**request.meta, SWITCH: False})
    withdraw_validators(again)
    return again
