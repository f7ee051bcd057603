"""Fetching only what is not fresh: a page that was fetched lately is skipped, and its links are followed.

The requests that a callback yields are judged in the order in which they come, many with one question to the
ledger. One whose page is fresh leaves the stream; the links that were stored with the page pass the spider
middlewares in its place, as if its callback had yielded them, and are judged the same way, breadth first:
depth-first, a page that is first met on a long way would lose links to DEPTH_LIMIT.

Each page is judged once. Nothing of this is told to the dupefilter, so a request that has to be fetched, such
as one for a listing, still is when its page was skipped before.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import Request
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.http import Headers, Response
from scrapy.spiders import SitemapSpider

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.digest_table import DigestTable
from scrapy_dedup.crawl.links import UnfetchedPage
from scrapy_dedup.crawl.pages import conditions_of
from scrapy_dedup.crawl.requests import is_governed, linked_url
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.errors import LedgerError
from scrapy_dedup.ledger.seen import PageQuestion, SeenPage
from scrapy_dedup.records import Conditions, DecisionAction, Validity
from scrapy_dedup.urls import redact

if TYPE_CHECKING:
    from scrapy_dedup.ledger import Overrides

logger = logging.getLogger(__name__)

FRESH = "fresh"  # the reasons of a skip
CANONICAL = "canonical"
ROLE = "dedup_role"  # meta: LISTING for a page that is there for its links
LISTING = "listing"

BATCH = 100  # pages of one question: their links take some hundred kilobytes

# So long a callback may take between two requests before the first goes its way: it may even wait for it.
LINGER_S = 0.25

# What became of a page, in one byte: there may be millions.
TO_FETCH = b"f"
HELD = b"h"  # skipped, or being asked about


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which terms what was seen of a page counts for a crawl.

    Attributes:
        spider: whose callbacks made the links.
        extractor_id: that made the text.
        overrides: what was decided by hand.
    """

    spider: str
    extractor_id: str
    overrides: Overrides


def is_reliable(page: SeenPage, url_key: str, terms: Terms) -> bool:
    """Tell whether what was seen of a page can stand for fetching it, however long ago that was.

    Args:
        page: the latest news of it.
        url_key: by which it was asked for; a redirect may have led from there.
        terms: of the crawl.
    """
    seen, overrides = page.observation, terms.overrides
    moments = (overrides.forgotten_us(key) for key in {url_key, seen.url_key})
    about = (seen.url_key, seen.payload_digest or "")
    return (
        seen.validity is Validity.VALID
        and seen.body_id is not None
        and page.extractor_id == terms.extractor_id
        and seen.spider == terms.spider
        and all(moment is None or moment < page.fetched_us for moment in moments)
        and overrides.contents.get(about) is not DecisionAction.REJECT
    )


def is_of_run(page: SeenPage, job_id: str, started_us: int) -> bool:
    """Tell whether this very process fetched a page; then its key is the dupefilter's.

    Args:
        page: the latest news of it.
        job_id: the job of the process, which may go on with what an earlier one began.
        started_us: when the process took it up, in microseconds since 1970.
    """
    return page.observation.job_id == job_id and page.fetched_us >= started_us


def is_in_time(fetched_us: int, *, now_us: int, max_age_us: int) -> bool:
    """Tell whether a page was fetched so lately that it need not be fetched again; all in microseconds.

    A clock that was ahead does not keep a page fresh for longer than one that was right.

    >>> [is_in_time(fetched_us, now_us=500, max_age_us=100) for fetched_us in (399, 400, 500, 600, 601)]
    [False, True, True, True, False]
    """
    return abs(now_us - fetched_us) <= max_age_us


class _Batch:
    """Requests to be asked about together; those of a slow callback do not wait for its end."""

    def __init__(self, send_late: Callable[[Sequence[Request]], None]) -> None:
        self._requests: list[Request] = []
        self._send_late = send_late
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        return len(self._requests) >= BATCH

    def append(self, request: Request) -> None:
        if not self._requests:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._expire)
        self._requests.append(request)

    def take(self) -> list[Request]:
        if self._timer is not None:
            self._timer.cancel()
        requests, self._requests = self._requests, []
        return requests

    def _expire(self) -> None:
        self._send_late(self.take())


class Freshness:
    """Takes requests for fresh pages out of the stream of a callback and puts their links in."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._started_us = _now_us()
        self._judged = DigestTable(value_bytes=1)
        self._recorded = DigestTable()
        self._in_place: WeakSet[Response] = WeakSet()

    @property
    def is_on(self) -> bool:
        """Whether anything is skipped in this crawl."""
        return self._suite.config.freshness_s is not None and self._suite.is_crawl

    @functools.cached_property
    def terms(self) -> Terms:
        """The terms of this crawl."""
        suite = self._suite
        return Terms(suite.spider_name, suite.config.extract.extractor_id, suite.overrides)

    @functools.cached_property
    def _default_language(self) -> str | None:
        """What Scrapy will set as Accept-Language where a request says nothing."""
        crawler = self._suite.crawler
        if crawler.get_downloader_middleware(DefaultHeadersMiddleware) is None:
            return None
        headers = {
            name: value
            for name, value in crawler.settings.getdict("DEFAULT_REQUEST_HEADERS").items()
            if value is not None
        }
        value = Headers(headers).get("Accept-Language")
        return None if value is None else value.decode("utf-8", "replace")

    def conditions_of(self, request: Request) -> Conditions:
        """Return the conditions under which a request is going to be made."""
        return _with_language(conditions_of(request), self._default_language)

    def question_about(self, request: Request) -> PageQuestion:
        """Return the question whether the page of a request was seen, at its URL or behind a redirect.

        Where somebody decided that a URL is not the one that it was merged into, no redirect answers for it.
        """
        url = redact(request.url)
        is_apart = self.terms.overrides.urls.get(url) is DecisionAction.DIFFERENT
        return PageQuestion(
            self._suite.key_of(request.url), self.conditions_of(request), url=None if is_apart else url
        )

    # -- the stream of a callback

    def will_fetch(self, request: Request) -> None:
        """Take note that a request goes out whatever is known: a start request, a listing."""
        if self.is_on and is_governed(request):
            self._settle(self._place(request), TO_FETCH)

    async def sifted(self, response: Response, entries: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield what comes from a callback, less the requests for fresh pages, with their links in place."""
        if not self.is_on or response in self._in_place:
            async for entry in entries:
                yield entry
            return
        batch = _Batch(self._crawl_beside)
        try:
            async for entry in entries:
                if self._passes(entry, batch.append):
                    yield entry
                if batch.is_full:
                    async for request in self._admitted(batch.take()):
                        yield request
        except Exception:
            # Nothing is swallowed: what the callback yielded before it failed goes its way first.
            async for request in self._admitted(batch.take()):
                yield request
            raise
        async for request in self._admitted(batch.take()):
            yield request

    def _passes(self, entry: Any, ask: Callable[[Request], None]) -> bool:
        """Tell whether an entry goes on at once; ``ask`` gets a request that there is something to ask about.

        Of the other requests for its page none goes on: what becomes of the first becomes of the page.
        """
        if not isinstance(entry, Request) or not is_governed(entry):
            return True
        place = self._place(entry)
        verdicts = self._judged.values(place)
        if any(applies(entry, self._suite) for applies in _ALWAYS_FETCHED):
            self._settle(place, TO_FETCH)
            return True
        if verdicts == [HELD]:
            self._merge(entry)
            return False
        if verdicts == [TO_FETCH]:
            return True
        if _is_off_site(entry, self._suite):
            return True
        self._judged.add(place, HELD)
        ask(entry)
        return False

    def _merge(self, request: Request) -> None:
        suite = self._suite
        suite.stats.inc_value(names.REQUESTS_MERGED)
        key = suite.key_of(request.url)
        suite.note(request, linked_url(request), key=key, verdict="merged")

    def _crawl_beside(self, requests: Sequence[Request]) -> None:
        self._suite.spawn(self._crawl(requests))

    async def _crawl(self, requests: Sequence[Request]) -> None:
        async for request in self._admitted(requests):
            self._suite.crawler.engine.crawl(request)

    def _place(self, request: Request) -> bytes:
        """Return where the judgement of a request's page stands: by key, for each set of conditions."""
        stated = f"{self._suite.key_of(request.url)}\0{_written(self.conditions_of(request))}"
        return stated.encode("utf-8", "surrogatepass")

    def _settle(self, place: bytes, verdict: bytes) -> None:
        self._judged.discard(place)
        self._judged.add(place, verdict)

    async def _admitted(self, asked: Sequence[Request]) -> AsyncIterator[Request]:
        """Yield the requests to be made: of those asked about, and of the links of pages that are skipped."""
        waiting = deque(asked)
        while waiting:
            batch = [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]
            for request, known in zip(batch, await self._known_pages(batch), strict=True):
                links = None if known is None else await self._skip(request, *known)
                if links is None:
                    self._settle(self._place(request), TO_FETCH)
                    yield request
                    continue
                for link in links:
                    if self._passes(link, waiting.append):
                        yield link

    # -- one page

    async def _known_pages(self, requests: Sequence[Request]) -> list[tuple[SeenPage, str] | None]:
        """Return the page of each request and why it need not be fetched, None for those to be fetched."""
        suite = self._suite
        try:
            pages = await suite.latest_pages([self.question_about(request) for request in requests])
            reliable = [
                page if page and is_reliable(page, suite.key_of(request.url), self.terms) else None
                for request, page in zip(requests, pages, strict=True)
            ]
            keys = [page.observation.url_key for page in reliable if page]
            canonicals_us = await suite.canonicals.seen_us(keys)
        except LedgerError as error:
            suite.fail(error)
            return [None] * len(requests)
        return [self._if_known(page, canonicals_us) if page else None for page in reliable]

    def _if_known(self, page: SeenPage, canonicals_us: Mapping[str, int]) -> tuple[SeenPage, str] | None:
        """Return a page with the reason for which it is not fetched, if there is one."""
        if is_of_run(page, self._suite.job.job_id, self._started_us):
            return None
        now_us, max_age_us = _now_us(), int((self._suite.config.freshness_s or 0) * 1_000_000)
        if is_in_time(page.fetched_us, now_us=now_us, max_age_us=max_age_us):
            return page, FRESH
        canonical_us = canonicals_us.get(page.observation.url_key)
        if canonical_us is not None and is_in_time(canonical_us, now_us=now_us, max_age_us=max_age_us):
            return page, CANONICAL
        return None

    async def _skip(self, request: Request, page: SeenPage, reason: str) -> list[Request] | None:
        """Record that a page is skipped and return its links; None when they cannot stand for it."""
        suite = self._suite
        stored = suite.links.stored(page.links, request)
        links = None if stored is None else await self._passed(request, page, stored)
        if links is None:
            return None
        suite.stats.inc_value(names.REQUESTS_FRESH if reason == FRESH else names.REQUESTS_CANONICAL)
        key = page.observation.url_key.encode("utf-8", "surrogatepass")  # others may redirect to it as well
        if not page.in_job and key not in self._recorded:
            self._recorded.add(key)
            # Beside the others, so that many are one commit; the next question waits in line behind them.
            conditions = self.conditions_of(request)
            suite.spawn(suite.pages.record_skip(request, page, reason=reason, conditions=conditions))
        return links

    async def _passed(
        self, request: Request, page: SeenPage, links: Iterable[Request]
    ) -> list[Request] | None:
        """Return what the spider middlewares make of the links of a page; None when one of them fails."""
        stand_in = UnfetchedPage(page.observation.url, request=request, flags=[f"dedup_{FRESH}"])
        self._in_place.add(stand_in)

        async def callback(result: Any, _request: Request) -> Iterable[Request]:
            if not isinstance(result, Response):  # a middleware refused the response
                result.raiseException()
            return links

        middlewares = self._suite.crawler.engine.scraper.spidermw
        try:
            output = await middlewares.scrape_response_async(callback, stand_in, request)
            return [entry async for entry in output if isinstance(entry, Request)]
        except Exception:
            logger.warning(
                "%s is fetched though its page is known, since a spider middleware refused the page that "
                "stands for it",
                request,
                exc_info=True,
                extra={"spider": self._suite.crawler.spider},
            )
            return None


def _is_off_site(request: Request, suite: Suite) -> bool:
    """Tell whether Scrapy is going to refuse a request; then there is nothing to skip."""
    gate = suite.crawler.get_downloader_middleware(OffsiteMiddleware)
    spider = suite.crawler.spider
    if gate is None or spider is None or request.meta.get("allow_offsite"):
        return False
    return not gate.should_follow(request, spider)


@functools.lru_cache(maxsize=256)
def _with_language(conditions: Conditions, default: str | None) -> Conditions:
    return conditions if conditions.language is not None else replace(conditions, language=default)


@functools.lru_cache(maxsize=256)
def _written(conditions: Conditions) -> str:
    return repr(conditions)


def _is_sitemap(request: Request, suite: Suite) -> bool:
    spider = suite.crawler.spider
    return isinstance(spider, SitemapSpider) and request.callback == spider._parse_sitemap


# Requests that are never skipped.
_ALWAYS_FETCHED: tuple[Callable[[Request, Suite], bool], ...] = (
    lambda request, _: request.dont_filter,
    lambda request, _: request.meta.get(ROLE) == LISTING,
    _is_sitemap,
)


def _now_us() -> int:
    return time.time_ns() // 1000
