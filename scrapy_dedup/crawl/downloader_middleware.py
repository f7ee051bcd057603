"""The downloader middleware: denies what comes past the spider middleware, keeps aliases, records failures.

A downloader middleware runs after the dupefilter, so what it decides about new requests it decides on the
signal ``request_scheduled``. It never rewrites: a replaced request would skip the dupefilter.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING

from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http import Response

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.pages import page_url
from scrapy_dedup.crawl.requests import (
    REFERRER,
    TICKET,
    chain_of,
    forget_inherited_hops,
    is_governed,
    is_observed,
    linked_url,
    make_holder,
    note_ungoverned_hop,
    referrer_of,
    variant_of_key,
)
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.urls import Verdict

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

# Requests of which nothing was heard; far more than can be under way at once.
MAX_UNANSWERED = 10_000

# Exception class name, reason. Names, since Scrapy's download handlers raise classes of several libraries.
DOWNLOAD_ERRORS = {
    "TimeoutError": "timeout",
    "DownloadTimeoutError": "timeout",
    "DNSLookupError": "dns_lookup",
    "CannotResolveHostError": "dns_lookup",
    "ConnectionRefusedError": "connection_refused",
    "DownloadConnectionRefusedError": "connection_refused",
    "ConnectionLost": "connection_lost",
    "ResponseFailed": "connection_lost",
    "ResponseNeverReceived": "connection_lost",
    "DownloadFailedError": "connection_lost",
    "DownloadCancelledError": "response_too_large",
    "ResponseDataLossError": "data_loss",
}


class DedupDownloaderMiddleware:
    """Watches every request from the scheduler to its end."""

    def __init__(self, crawler: Crawler) -> None:
        self._suite = Suite.of(crawler)
        # By ticket: requests that went out, and those of them that a retry or redirect is to follow.
        self._unanswered: OrderedDict[str, Request] = OrderedDict()
        self._followed: OrderedDict[str, Request] = OrderedDict()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware, as Scrapy does for each crawler."""
        middleware = cls(crawler)
        crawler.signals.connect(middleware.request_scheduled, signal=signals.request_scheduled)
        crawler.signals.connect(middleware.request_dropped, signal=signals.request_dropped)
        crawler.signals.connect(middleware.spider_idle, signal=signals.spider_idle)
        return middleware

    # -- on the way in

    def request_scheduled(self, request: Request, spider: Spider) -> None:  # noqa: ARG002
        """Deny what the spider middleware did not see: redirects, errback output, ``engine.crawl``.

        Raises:
            IgnoreRequest: when the policy denies the URL, or a start request has its key.
        """
        self._follow(request)
        if not is_governed(request):
            return
        suite = self._suite
        decision = suite.decide(request.url)
        if decision.verdict is Verdict.DENY and variant_of_key(request) is None:
            suite.deny(request, decision)
            raise IgnoreRequest(f"{decision.reason}: denied by the URL policy")
        if request.dont_filter:
            return
        make_holder(request)
        if not suite.start_fingerprints:
            return
        if suite.crawler.request_fingerprinter.fingerprint(request) in suite.start_fingerprints:
            self._merged(request)
            raise IgnoreRequest("a start request has the same URL key")

    def request_dropped(self, request: Request, spider: Spider) -> None:  # noqa: ARG002
        """Keep the aliases of a request that the dupefilter dropped."""
        if is_governed(request):
            self._merged(request)

    def _follow(self, request: Request) -> None:
        """Take note that a request, when it goes out, is what became of an earlier one."""
        if variant_of_key(request) is not None and TICKET not in request.meta:
            ticket = request.meta[TICKET] = new_ticket()
            put(self._followed, ticket, request)
        elif earlier := self._unanswered.pop(request.meta.get(TICKET, ""), None):
            put(self._followed, request.meta[TICKET], earlier)
        elif TICKET in request.meta:  # of a request that has ended: an errback or other code copied its meta
            forget_inherited_hops(request)

    def _settled(self, request: Request) -> Request | None:
        """Return the request that a request follows, or that it is, and wait for neither any more."""
        ticket = request.meta.get(TICKET, "")
        return self._unanswered.pop(ticket, None) or self._followed.pop(ticket, None)

    def _merged(self, request: Request) -> None:
        suite = self._suite
        key = suite.key_of(request.url)
        suite.stats.inc_value(names.REQUESTS_MERGED)
        if len(chain_of(request)) == 1:
            suite.note(request, linked_url(request), key=key, verdict="merged")
        self._note_redirects(request, key)
        suite.variants.merged(key, request)
        earlier = self._settled(request)
        if earlier is not None and is_governed(earlier) and suite.variants.has_failed(key):
            suite.variants.key_failed(earlier)  # it led to a page that is known to be none

    def _note_redirects(self, request: Request, key: str) -> None:
        for url in chain_of(request)[:-1]:
            self._suite.note(request, url, key=key, verdict="redirected", rule="redirect")

    # -- on the way out

    async def process_request(self, request: Request) -> None:
        """Take note that a request goes out, and make it conditional where that is wanted."""
        if is_observed(request):
            self._goes_out(request)
            await self._suite.conditional.prepare(request)

    def _goes_out(self, request: Request) -> None:
        self._settled(request)
        ticket = request.meta[TICKET] = new_ticket()
        put(self._unanswered, ticket, request)
        if request.method != "GET":
            note_ungoverned_hop(request)
        noted_url, _ = request.meta.get(REFERRER) or (None, None)
        if len(chain_of(request)) == 1 and noted_url != request.url:
            request.meta[REFERRER] = [request.url, referrer_of(request)]
            linked = linked_url(request)
            if linked != request.url:
                self._suite.note(request, linked, key=self._suite.key_of(request.url), verdict="rewritten")

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        """Record a response that is the end of its request and reaches no callback."""
        if self._suite.conditional.is_answered(request, response):
            return await self._confirmed(request, response)
        self._settled(request)
        if is_observed(request):
            self._note_redirects(request, self._suite.key_of(page_url(request, response)))
            if response.request is None:
                response.request = request  # as the engine does next
            if not self._suite.pages.reaches_callback(response):
                self._ended(request, f"http_{response.status}", response)
            elif is_governed(request) and not self._suite.config.auto_pages:
                self._suite.variants.key_succeeded(request)  # else the page decides, once it is judged
        return response

    async def _confirmed(self, request: Request, response: Response) -> Response | Request:
        """Put the known page in the place of a 304 that we asked for."""
        result = await self._suite.conditional.stand_in(request, response)
        if isinstance(result, Response):
            self._settled(request)
            self._suite.variants.key_succeeded(request)
        return result

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Record a download that failed for good; a request that was refused only frees its key."""
        self._settled(request)
        if not is_observed(request):
            return
        if isinstance(exception, IgnoreRequest):
            if is_governed(request):
                self._suite.variants.key_failed(request)
            return
        name = type(exception).__name__
        self._ended(request, DOWNLOAD_ERRORS.get(name, name), None)

    def _ended(self, request: Request, reason: str, response: Response | None) -> None:
        if self._suite.is_crawl:
            self._suite.spawn(self._suite.pages.record_failure(request, reason, response=response))
        is_unchanged = response is not None and response.status == 304
        if is_governed(request) and not is_unchanged:
            self._suite.variants.key_failed(request)

    # -- at rest

    def spider_idle(self, spider: Spider) -> None:  # noqa: ARG002
        """Judge requests that ended without a word, and keep the spider open while work is under way.

        What was to follow a request and did not go out by now was refused, as a redirect to another site is:
        no failure, but no page for its key either.
        """
        self.judge_unanswered()
        while self._followed:
            _, request = self._followed.popitem(last=False)
            if is_governed(request):
                self._suite.variants.key_failed(request)
        if self._suite.is_busy:
            raise DontCloseSpider

    def judge_unanswered(self) -> None:
        """Record requests that ended without a word, when no request is under way.

        Scrapy tells no middleware when another one refuses a response, for example one that is too large once
        decompressed, or a redirect over the limit. What was not answered by now never will be.
        """
        while self._unanswered:
            _, request = self._unanswered.popitem(last=False)
            self._ended(request, "response_refused", None)


def new_ticket() -> str:
    """Return a name that no other request has, in this run or in one that it resumes."""
    return secrets.token_hex(8)


def put(waiting: OrderedDict[str, Request], ticket: str, request: Request) -> None:
    """Add a request to those waited for; of too many the oldest is given up."""
    waiting[ticket] = request
    if len(waiting) > MAX_UNANSWERED:
        waiting.popitem(last=False)
