"""Asks a site, once for each host and first folder, for a page that cannot exist.

Where the answer is a page with status 200, what that page says is said about URLs that lead nowhere. A page
with the same visible text is a soft 404; no language has to be known for that. Nothing else is evidence: a
probe that is answered with an error, refused by robots.txt or lost says nothing, and neither does a page with
another text.

A site may answer every unknown URL with a page that is real: its homepage, the start page of a folder, or
where it redirects to. That page itself is never judged by the probe (`Answer.is_real`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from scrapy_dedup.content.canonical import LINK, resolve
from scrapy_dedup.content.extraction import Extraction
from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.requests import JOURNEY, OWN_META, SWITCH, is_governed

if TYPE_CHECKING:
    from scrapy_dedup.crawl.suite import Suite

logger = logging.getLogger(__name__)

MAX_PROBES = 1_000
"""For a crawl: a broad crawl must not double its requests to small sites."""

# So that a look into the server's log explains itself.
PROBE_NAME = "no-such-page-"

# What a probe must not inherit: a page of the browser would stay open, and a body belongs to a form.
_NOT_INHERITED = frozenset(
    {*JOURNEY, *OWN_META, "playwright_include_page", "playwright_page", "playwright_page_methods"}
)

_CONDITIONAL = frozenset({b"If-None-Match", b"If-Modified-Since"})

# File names under which servers show a folder.
_INDEX_STEMS = frozenset({"index", "default", "home", "main", "welcome"})

Family = tuple[str, str, str]
"""Scheme, host with port, and the first segment of a path."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a site said to a probe.

    Attributes:
        url: the URL that was made up.
        visible_digest: digest of the text of the answer.
        real_keys: keys of the pages that the answer may be: where it came from, and what it says is its own
            address.
    """

    url: str
    visible_digest: str
    real_keys: frozenset[str]

    def is_real(self, url: str, key: str) -> bool:
        """Tell whether a page may be the one that the site shows in the place of missing ones."""
        return key in self.real_keys or is_start_of(url, self.url)


class Soft404Probes:
    """Sends the probes of a crawl and compares pages with what came back."""

    def __init__(self, suite: Suite, extract: Callable[[Response], Awaitable[Extraction | None]]) -> None:
        self._suite = suite
        self._extract = extract
        self._answers: dict[Family, asyncio.Future[Answer | None]] = {}

    async def equals(self, response: Response, extraction: Extraction | None) -> bool:
        """Tell whether the text of a page is what its site says to a URL that leads nowhere.

        The first page of a family waits for the probe, and so do the others meanwhile.
        """
        request = response.request
        if extraction is None or extraction.text is None or request is None or not self._is_wanted(request):
            return False
        family = family_of(response.url)
        if family is None:
            return False
        answering = self._answers.get(family)
        if answering is None:
            if len(self._answers) >= MAX_PROBES:
                return False
            answering = self._answers[family] = asyncio.ensure_future(self._ask(request, response.url))
        answer = await asyncio.shield(answering)
        if answer is None or answer.visible_digest != extraction.text.visible_digest:
            return False
        return not answer.is_real(response.url, self._suite.key_of(response.url))

    def _is_wanted(self, request: Request) -> bool:
        suite = self._suite
        return suite.config.soft404_probe and suite.is_crawl and not suite.is_closing and is_governed(request)

    async def _ask(self, request: Request, url: str) -> Answer | None:
        """Fetch a page that cannot exist the way that its sibling was fetched; None says nothing."""
        probe_url = sibling_of(url, PROBE_NAME + secrets.token_hex(8))
        self._suite.stats.inc_value(names.SOFT404_PROBES)
        try:
            response = await self._suite.crawler.engine.download_async(probe_like(request, probe_url))
        except Exception as error:  # noqa: BLE001  whatever went wrong, a probe must not cost the page
            logger.debug("No answer to the probe %s: %r", probe_url, error)
            return None
        extraction = await self._extract(response) if 200 <= response.status < 300 else None
        if extraction is None or extraction.text is None or extraction.text.visible_digest is None:
            return None
        links = [item for item in extraction.declared.stated if item.source == LINK]
        declared = resolve(links, response.url, extraction.declared.base)
        addresses = {response.url, *(item.resolved for item in declared if item.resolved)} - {probe_url}
        real_keys = frozenset(map(self._suite.key_of, addresses))
        return Answer(probe_url, extraction.text.visible_digest, real_keys)


def family_of(url: str) -> Family | None:
    """Return what one probe is made for; None for a URL without a host.

    >>> family_of("https://a.example/docs/x/y"), family_of("https://a.example/about")
    (('https', 'a.example', 'docs'), ('https', 'a.example', ''))
    """
    parts = urlsplit(url)
    if not parts.netloc:
        return None
    folder, _, _ = parts.path.lstrip("/").rpartition("/")
    return parts.scheme, parts.netloc.lower(), folder.partition("/")[0]


def sibling_of(url: str, name: str) -> str:
    """Return the URL of another page in the same folder, of the same kind.

    >>> sibling_of("https://a.example/docs/x.html?p=1#top", "zz")
    'https://a.example/docs/zz.html'
    >>> sibling_of("https://a.example/docs/x/", "zz"), sibling_of("https://a.example", "zz")
    ('https://a.example/docs/zz/', 'https://a.example/zz')
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    folder, _, last = path.rpartition("/")
    if not folder and parts.path.endswith("/") and last:
        folder, last = path, ""  # the start of the family itself: ask inside of it
    _, dot, kind = last.rpartition(".")
    ending = f".{kind}" if dot and kind.isalnum() and len(kind) <= 5 else ""
    slash = "/" if last and parts.path.endswith("/") else ""
    return f"{parts.scheme}://{parts.netloc}{folder}/{name}{ending}{slash}"


def is_start_of(url: str, probe_url: str) -> bool:
    """Tell whether a URL is the start page of a folder that a probe lies in.

    >>> probe = "https://a.example/en/zz.html"
    >>> [is_start_of(f"https://a.example{path}", probe) for path in ("/", "/en", "/en/", "/en/index.html")]
    [True, True, True, True]
    >>> is_start_of("https://a.example/en/prices.html", probe)
    False
    """
    path = urlsplit(url).path
    folder, _, last = path.rpartition("/")
    if last.partition(".")[0].lower() in _INDEX_STEMS:
        path = folder
    place = path.rstrip("/")
    return not place or urlsplit(probe_url).path.startswith(place + "/")


def probe_like(request: Request, url: str) -> Request:
    """Return a request that is not observed, made as another one was.

    It does not pass the dupefilter, and is none that other middlewares should let off the site.
    """
    meta = {name: value for name, value in request.meta.items() if name not in _NOT_INHERITED}
    headers = {name: value for name, value in request.headers.items() if name not in _CONDITIONAL}
    return Request(
        url,
        callback=NO_CALLBACK,
        headers=headers,
        cookies=request.cookies,
        meta={**meta, SWITCH: False, "dont_retry": True, "dont_cache": True},
        priority=request.priority,
    )
