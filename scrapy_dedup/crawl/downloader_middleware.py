"""The downloader middleware: denies what comes past the spider middleware, keeps aliases, records failures.

A downloader middleware runs after the dupefilter, so what it decides about new requests it decides on the
signal ``request_scheduled``. It never rewrites: a replaced request would skip the dupefilter.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http import Response

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.pages import page_url
from scrapy_dedup.crawl.requests import (
    REFERRER,
    chain_of,
    is_governed,
    is_observed,
    linked_url,
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
        self._unanswered: OrderedDict[str, Request] = OrderedDict()

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
        self._unanswered.pop(chain_of(request)[-2:][0], None)  # of the request that it follows
        if not is_governed(request):
            return
        suite = self._suite
        decision = suite.decide(request.url)
        if decision.verdict is Verdict.DENY and variant_of_key(request) is None:
            suite.deny(request, decision)
            raise IgnoreRequest(f"{decision.reason}: denied by the URL policy")
        if request.dont_filter or not suite.start_fingerprints:
            return
        if suite.crawler.request_fingerprinter.fingerprint(request) in suite.start_fingerprints:
            self._merged(request)
            raise IgnoreRequest("a start request has the same URL key")

    def request_dropped(self, request: Request, spider: Spider) -> None:  # noqa: ARG002
        """Keep the aliases of a request that the dupefilter dropped."""
        if is_governed(request):
            self._merged(request)

    def _merged(self, request: Request) -> None:
        suite = self._suite
        key = suite.key_of(request.url)
        suite.stats.inc_value(names.REQUESTS_MERGED)
        if len(chain_of(request)) == 1:
            suite.note(request, linked_url(request), key=key, verdict="merged")
        self._note_redirects(request, key)
        suite.variants.merged(key, request)

    def _note_redirects(self, request: Request, key: str) -> None:
        for url in chain_of(request)[:-1]:
            self._suite.note(request, url, key=key, verdict="redirected", rule="redirect")

    # -- on the way out

    def process_request(self, request: Request) -> None:
        """Take note that a request goes out."""
        if not is_observed(request):
            return
        self._unanswered[request.url] = request
        if len(self._unanswered) > MAX_UNANSWERED:
            self._unanswered.popitem(last=False)
        if len(chain_of(request)) == 1 and "retry_times" not in request.meta:
            if referrer := referrer_of(request):
                request.meta[REFERRER] = [request.url, referrer]
            linked = linked_url(request)
            if linked != request.url:
                self._suite.note(request, linked, key=self._suite.key_of(request.url), verdict="rewritten")

    def process_response(self, request: Request, response: Response) -> Response:
        """Record a response that is the end of its request and reaches no callback."""
        self._unanswered.pop(request.url, None)
        if is_observed(request):
            self._note_redirects(request, self._suite.key_of(page_url(request, response)))
            if response.request is None:
                response.request = request  # as the engine does next
            if not self._suite.pages.reaches_callback(response):
                self._ended(request, f"http_{response.status}", response)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Record a download that failed for good; a request that was refused only frees its key."""
        self._unanswered.pop(request.url, None)
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
        if is_governed(request):
            self._suite.variants.key_failed(request)

    # -- at rest

    def spider_idle(self, spider: Spider) -> None:  # noqa: ARG002
        """Judge requests that ended without a word, and keep the spider open while work is under way.

        Scrapy tells no middleware when another one refuses a response, for example one that is too large once
        decompressed, or a redirect over the limit. Nothing is under way when the spider is idle, so what was
        not answered by now never will be.
        """
        while self._unanswered:
            _, request = self._unanswered.popitem(last=False)
            self._ended(request, "response_refused", None)
        if self._suite.is_busy:
            raise DontCloseSpider
