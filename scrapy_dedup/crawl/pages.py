"""From a response to its observation: gather the facts, extract the text, record both."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.extensions.feedexport import FeedExporter
from scrapy.http import Response, TextResponse
from scrapy.spidermiddlewares.httperror import HttpError, HttpErrorMiddleware

from scrapy_dedup.content.canonical import PageDeclarations
from scrapy_dedup.content.digest import sha256_id
from scrapy_dedup.content.expectations import Expectation
from scrapy_dedup.content.extraction import Extraction, PageMetadata, Payload
from scrapy_dedup.content.pool import DIGEST_HERE_MAX_BYTES
from scrapy_dedup.content.validity import HEADERS, Judgement, ResponseFacts, end_of, is_html, judge
from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.exporters import EXPORTERS
from scrapy_dedup.crawl.items import PageItem, PageRow
from scrapy_dedup.crawl.overrides import judged
from scrapy_dedup.crawl.requests import (
    chain_of,
    first_url,
    is_governed,
    keyed_chain_of,
    linked_url,
    referrer_of,
)
from scrapy_dedup.crawl.soft404 import Soft404Probes
from scrapy_dedup.crawl.suite import Suite, utc_now
from scrapy_dedup.ledger import KnownPage, Recorded, Sighting, observation_id
from scrapy_dedup.ledger.seen import SeenPage
from scrapy_dedup.records import Conditions, ObservationRecord, Outcome, Recovery, Sourced, Validity
from scrapy_dedup.urls import redact, site_of

logger = logging.getLogger(__name__)

GONE = (404, 410)
FACET_BY_REDIRECT = "facet_by_redirect"

# A URL of these kinds identifies nothing that others could look up.
UNSENDABLE = ("credentials", "unsupported_scheme")

# States of a response that another URL of the same key may do better than: its slash, or a session that the
# policy left out, may be what the server asks for. A type or text that cannot be extracted is a page all the
# same, and so is one that needs a browser.
NO_PAGE = frozenset(
    {
        Validity.HTTP_ERROR,
        Validity.EMPTY,
        Validity.UNEXPECTED_CONTENT,
        Validity.BLOCKED,
        Validity.LOGIN,
        Validity.CONSENT,
        Validity.SOFT_404,
        Validity.ERROR_PAGE,
        Validity.PLACEHOLDER,
        Validity.REDIRECT_STUB,
        Validity.TRUNCATED,
    }
)

# What a 304 says by itself to be as it was, and what it may state anew (RFC 9110, section 15.4.5).
UNCHANGED_BY_304 = (
    "payload_digest",
    "payload_bytes",
    "validity",
    "validity_reason",
    "recovery",
    "canonical",
    "title",
    "byline",
    "publisher",
    "site_name",
    "language_declared",
    "license",
    "license_spdx",
    "date_published",
    "date_modified",
)
RENEWED_BY_304 = ("content_type", "etag", "last_modified")


@dataclass(frozen=True, slots=True)
class SpidersView:
    """What a spider said about its own page."""

    extra: Mapping[str, Any]
    content_valid: bool | None = None
    validity_reason: str | None = None
    expect: Mapping[str, str] | None = None

    @classmethod
    def of(cls, item: PageItem) -> SpidersView:
        """Return what an item says."""
        return cls(item.extra, item.content_valid, item.validity_reason, item.expect)


NOTHING_SAID = SpidersView({})


class Pages:
    """Records the responses and failures of a crawl, each response once."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._probes = Soft404Probes(suite, self._extract)
        self._recorded: WeakKeyDictionary[Response, asyncio.Future[Recorded]] = WeakKeyDictionary()
        self._delivered: WeakKeyDictionary[Response, Response] = WeakKeyDictionary()

    def reaches_callback(self, response: Response) -> bool:
        """Tell whether Scrapy gives a response to the callback of its request, by Scrapy's own rule."""
        gate = self._suite.crawler.get_spider_middleware(HttpErrorMiddleware)
        if gate is None:
            return True
        try:
            gate.process_spider_input(response)
        except HttpError:
            return False
        return True

    def is_recorded(self, response: Response) -> bool:
        """Tell whether a response is recorded already, or is being recorded."""
        return self._delivered.get(response, response) in self._recorded

    def stands_for(self, item: PageItem, response: Response) -> bool:
        """Tell whether an item is the page of a response, perhaps of a copy that the spider changed."""
        if item.response is None or item.response is response:
            return item.response is response
        if response.request is None or item.response.request is not response.request:
            return False
        self._delivered[item.response] = response
        return True

    async def record(self, response: Response, said: SpidersView = NOTHING_SAID) -> Recorded:
        """Record a response that reached a callback; a second call returns what the first one recorded.

        Raises:
            LedgerError: when the ledger failed.
        """
        delivered = self._delivered.get(response, response)
        recording = self._recorded.get(delivered)
        if recording is None:
            recording = asyncio.ensure_future(self._record(response, said, delivered))
            self._recorded[delivered] = recording
        # A caller that gives up must not take the recording of the page with it.
        return await asyncio.shield(recording)

    async def record_automatically(self, response: Response, said: SpidersView = NOTHING_SAID) -> None:
        """Record a response that comes to the feeds by no item of the spider, once."""
        if self.is_recorded(response):
            return
        recorded = await self.record(response, said)
        self._suite.stats.inc_value(names.PAGES_AUTO)
        self.export(recorded)

    async def _record(self, response: Response, said: SpidersView, delivered: Response) -> Recorded:
        suite = self._suite
        suite.stats.inc_value(names.PAGES_FETCHED)
        extraction = await self._extract(response)
        judgement = self._overridden(await self._judged(response, extraction, said), response, extraction)
        observation = await self._observe(
            response.request or Request(response.url),
            response=response,
            payload_digest=extraction.payload_digest if extraction else await digest_of(response.body),
            outcome=outcome_of(response.status),
            judgement=judgement,
            metadata=extraction.metadata if extraction else None,
            canonical=self._canonical(response, extraction, judgement),
            extra=said.extra,
        )
        is_valid = judgement.validity is Validity.VALID
        text = extraction.text if extraction and is_valid else None
        request = response.request
        if request is not None and is_governed(request):
            if judgement.validity in NO_PAGE:
                suite.variants.key_failed(request)
            else:
                suite.variants.key_succeeded(request)
        links = suite.links.of(delivered)
        if links is None:
            suite.links.when_known(delivered, functools.partial(suite.writer.add_links, observation.seq))
        recorded = await suite.record(
            Sighting(
                observation,
                text,
                links=links,
                moved_keys=self._moved_keys(request, observation),
                url_valid=suite.decide(response.url).reason not in UNSENDABLE,
                key_reason=FACET_BY_REDIRECT if suite.urls.shows_facets(response.url) else None,
            )
        )
        suite.canonicals.request_target(response, recorded.observation)
        return recorded

    async def _judged(
        self, response: Response, extraction: Extraction | None, said: SpidersView
    ) -> Judgement:
        expected = (self._suite.config.expectations.of(response.url), said.expect or {})
        facts = response_facts(response, extraction, said, expected)
        judgement = judge(facts)
        if judgement.validity is not Validity.VALID or said.content_valid:
            return judgement
        is_probe = await self._probes.equals(response, extraction)
        return judge(replace(facts, equals_probe=True)) if is_probe else judgement

    def _canonical(
        self, response: Response, extraction: Extraction | None, judgement: Judgement
    ) -> Mapping[str, Any] | None:
        declared = extraction.declared if extraction else PageDeclarations()
        url = page_url(response.request or Request(response.url), response)
        sent_to = judgement.evidence if judgement.validity is Validity.REDIRECT_STUB else None
        return self._suite.canonicals.of(response, url, declared, sent_to)

    def _overridden(
        self, judgement: Judgement, response: Response, extraction: Extraction | None
    ) -> Judgement:
        """Return the judgement of a page under what was decided about these bytes under this key."""
        contents = self._suite.overrides.contents
        if not contents or extraction is None:
            return judgement
        url = page_url(response.request or Request(response.url), response)
        action = contents.get((redact(self._suite.key_of(url)), extraction.payload_digest))
        return judged(judgement, action, has_text=extraction.text is not None)

    async def _extract(self, response: Response) -> Extraction | None:
        if not isinstance(response, TextResponse) or not holds_html(response):
            return None
        payload = Payload(
            body=response.body,
            encoding=response.encoding,
            url=response.url,
            declared_charset=response._declared_encoding(),
        )
        self._suite.pool.warm_up()
        return await self._suite.pool.extract(payload)

    async def record_failure(
        self, request: Request, reason: str, *, response: Response | None = None
    ) -> None:
        """Record a request that ended without a page for a callback.

        Args:
            request: the request that ended.
            reason: why, such as ``http_404`` or ``timeout``.
            response: the response that reaches no callback, when there was one.
        """
        if response is None:
            observation = await self._observe(request, outcome=Outcome.ERROR, failure=reason)
        else:
            observation = await self._observe(
                request,
                response=response,
                payload_digest=await digest_of(response.body),
                outcome=outcome_of(response.status),
                judgement=None if response.status == 304 else judge(response_facts(response, None)),
            )
        self._suite.stats.inc_value(names.FAILURES)
        sighting = Sighting(observation, None, moved_keys=self._moved_keys(request, observation))
        self.export(await self._suite.record(sighting))

    def _moved_keys(self, request: Request | None, observation: ObservationRecord) -> tuple[str, ...]:
        """Return the keys whose URLs were redirected to a page, when a feed wants to know."""
        if request is None or not self._suite.has_changes_feed:
            return ()
        keys = (redact(self._suite.key_of(url)) for url in keyed_chain_of(request)[:-1])
        return tuple(dict.fromkeys(key for key in keys if key != observation.url_key))

    async def record_skip(
        self, request: Request, page: SeenPage, *, reason: str, conditions: Conditions
    ) -> None:
        """Record that a request is not made because its page is known.

        Args:
            request: the one that would fetch the page.
            page: what is known of it; behind a redirect it has another key.
            reason: why it is not fetched, such as ``fresh``.
            conditions: those under which it would have been fetched.
        """
        known = page.observation
        observation = replace(
            await self._observe(request, outcome=Outcome.SKIPPED),
            url=known.url,
            url_key=known.url_key,
            conditions=conditions,
        )
        self.export(
            await self._suite.record(
                Sighting(observation, None, known=KnownPage(reason, known.observation_id, known.body_id))
            )
        )

    async def record_not_modified(self, request: Request, response: Response, page: SeenPage) -> None:
        """Record a 304: the page is what it was, so it is described as it was.

        Args:
            request: the one that asked.
            response: the 304.
            page: what the request asked about.
        """
        known = page.observation
        observation = await self._observe(request, response=response, outcome=Outcome.NOT_MODIFIED)
        self._suite.stats.inc_value(names.PAGES_NOT_MODIFIED)
        observation = replace(
            observation,
            **{name: getattr(known, name) for name in UNCHANGED_BY_304},
            **{name: getattr(observation, name) or getattr(known, name) for name in RENEWED_BY_304},
        )
        self.export(
            await self._suite.record(
                Sighting(
                    observation,
                    None,
                    links=page.links,
                    known=KnownPage("not_modified", known.observation_id, known.body_id),
                )
            )
        )

    async def _observe(
        self,
        request: Request,
        *,
        outcome: Outcome,
        response: Response | None = None,
        payload_digest: str | None = None,
        judgement: Judgement | None = None,
        failure: str | None = None,
        metadata: PageMetadata | None = None,
        canonical: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> ObservationRecord:
        suite = self._suite
        seq = await suite.next_seq()
        url = page_url(request, response)
        source_url = response.url if response is not None else request.url
        referrer = referrer_of(request)
        found = metadata or PageMetadata()
        return ObservationRecord(
            observation_id=observation_id(suite.job.job_id, seq),
            job_id=suite.job.job_id,
            spider=suite.spider_name,
            seq=seq,
            fetched_at=utc_now(),
            request_id=suite.crawler.request_fingerprinter.fingerprint(request).hex(),
            conditions=conditions_of(request),
            from_cache=response is not None and "cached" in response.flags,
            gateway_status=gateway_status(request),
            access=access_of(request, found),
            request_url=redact(linked_url(request)),
            fetch_url=redact(first_url(request)),
            url=redact(source_url),
            redirect_urls=tuple(map(redact, chain_of(request)[:-1])),
            url_key=redact(suite.key_of(url)),
            policy_id=suite.decide(url).policy_id,
            document_url=None,
            referrer_url=redact(referrer) if referrer else None,
            depth=request.meta.get("depth"),
            http_status=response.status if response is not None else None,
            content_type=content_type(response) if response is not None else None,
            etag=header_of(response, "ETag"),
            last_modified=header_of(response, "Last-Modified"),
            payload_digest=payload_digest,
            payload_bytes=len(response.body) if response is not None else None,
            outcome=outcome,
            validity=judgement.validity if judgement else None,
            validity_reason=judgement.explained if judgement else failure,
            recovery=judgement.recovery if judgement else Recovery.RETRY if failure else Recovery.NONE,
            canonical=canonical,
            title=found.title,
            byline=found.byline,
            publisher=publisher_of(response.url) if response is not None else None,
            site_name=found.site_name,
            language_declared=found.language_declared,
            license=found.license,
            license_spdx=found.license_spdx,
            date_published=found.date_published,
            date_modified=found.date_modified,
            extra=extra or {},
        )

    def export(self, recorded: Recorded) -> None:
        """Write a page or failure that is no item of the spider's to our feeds, and to no other."""
        crawler = self._suite.crawler
        feeds = crawler.get_extension(FeedExporter)
        if feeds is None or crawler.spider is None:
            return
        body = recorded.body if recorded.body_is_new else None
        row = PageRow(recorded.observation, body, recorded.changes)
        ours = [slot for slot in feeds.slots if slot.format in EXPORTERS]
        others = [slot for slot in feeds.slots if slot.format not in EXPORTERS]
        feeds.slots = ours
        try:
            feeds.item_scraped(row, crawler.spider)
        finally:
            feeds.slots = others + feeds.slots


def page_url(request: Request, response: Response | None) -> str:
    """Return the URL of a page, with the fragment that a response's URL lacks: ``#!/a`` is part of a key."""
    if response is None or request.url.partition("#")[0] == response.url:
        return request.url
    return response.url


def outcome_of(status: int) -> Outcome:
    """Return what became of a request that was answered with a status."""
    if 200 <= status < 300:
        return Outcome.FETCHED
    if status == 304:
        return Outcome.NOT_MODIFIED
    return Outcome.GONE if status in GONE else Outcome.ERROR


def response_facts(
    response: Response,
    extraction: Extraction | None,
    said: SpidersView = NOTHING_SAID,
    expected: Iterable[Expectation] = (),
) -> ResponseFacts:
    """Gather what the judgement of a response rests on."""
    unmet = (unmet_expectation(response, extraction, expect) for expect in expected)
    flags = frozenset(response.flags)
    sent = {name: header_of(response, name) for name in HEADERS}
    declared_bytes = declared_length(response)
    is_short = declared_bytes is not None and declared_bytes > len(response.body)
    return ResponseFacts(
        status=response.status,
        content_type=content_type(response),
        payload_bytes=len(response.body),
        supported=holds_html(response),
        extraction=extraction,
        unmet_expectation=next((problem for problem in unmet if problem), None),
        declared_valid=said.content_valid,
        declared_reason=said.validity_reason,
        url=response.url,
        headers={name: value for name, value in sent.items() if value is not None},
        flags=flags,
        declared_bytes=declared_bytes,
        end=end_of(response.body) if is_short or "partial" in flags else "unknown",
    )


def declared_length(response: Response) -> int | None:
    """Return the Content-Length where it is about the body that we have.

    Of a compressed body it is another length, and a browser hands over what became of the page.
    """
    value = header_of(response, "Content-Length") or ""
    request = response.request
    is_rendered = request is not None and bool(request.meta.get("playwright"))
    is_sent_without_body = request is not None and request.method == "HEAD"
    if is_rendered or is_sent_without_body or "Content-Encoding" in response.headers:
        return None
    return int(value) if re.fullmatch(r"[0-9]{1,15}", value) else None


def holds_html(response: Response) -> bool:
    """Tell whether the body of a response is HTML."""
    return is_html(content_type(response), response.body[:1024])


def unmet_expectation(
    response: Response, extraction: Extraction | None, expect: Mapping[str, str] | None
) -> str | None:
    """Return what a page lacks of what is expected of it, or None when it has everything."""
    if not expect:
        return None
    text = extraction.text.text if extraction and extraction.text else ""
    if "text" in expect and expect["text"] not in text:
        return f"no text {expect['text']!r}"
    if "css" in expect and not (isinstance(response, TextResponse) and response.css(expect["css"])):
        return f"no element {expect['css']!r}"
    return None


def conditions_of(request: Request) -> Conditions:
    """Return the conditions under which a request was made."""
    cookiejar = request.meta.get("cookiejar")
    return Conditions(
        method=request.method,
        cookie_partition=None if cookiejar is None else str(cookiejar),
        language=header_of(request, "Accept-Language"),
        renderer="playwright" if request.meta.get("playwright") else None,
    )


def access_of(request: Request, stated: PageMetadata) -> str:
    """Tell whether a request carried credentials, and else whether its page says that it is not free."""
    if "Authorization" in request.headers or "Cookie" in request.headers:
        return "credentialed"
    free = stated.free_access
    return "metered" if free and free.value.rpartition("/")[2].lower() == "false" else "anonymous"


def publisher_of(url: str) -> Sourced | None:
    """Return who answers for a URL: the registrable domain, or the host where there is none.

    >>> publisher_of("https://blog.daily.co.uk/a")
    Sourced(value='daily.co.uk', source='url:registrable_domain')
    >>> publisher_of("http://192.0.2.1:8080/a"), publisher_of("data:,a")
    (Sourced(value='192.0.2.1', source='url:host'), None)
    """
    host = (urlsplit(url).hostname or "").removesuffix(".")
    if not host:
        return None
    site = site_of(host)
    return Sourced(site, "url:registrable_domain") if site else Sourced(host, "url:host")


def gateway_status(request: Request) -> int | None:
    """Return the status of a gateway between us and the target, where a middleware of the user states it."""
    status = request.meta.get("gateway_status")
    return status if isinstance(status, int) else None


def content_type(response: Response) -> str | None:
    """Return the Content-Type header."""
    return header_of(response, "Content-Type")


def header_of(message: Request | Response | None, name: str) -> str | None:
    """Return a header as text; bytes that are not UTF-8 are read as Latin-1, which loses none."""
    value = message.headers.get(name) if message is not None else None
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def digest_of(body: bytes) -> str:
    """Return the digest of a payload that is not extracted; a large one is hashed off the reactor."""
    if len(body) > DIGEST_HERE_MAX_BYTES:
        return await asyncio.get_running_loop().run_in_executor(None, sha256_id, body)
    return sha256_id(body)
