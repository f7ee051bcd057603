"""The links of a page: the requests that its callback yielded, kept so that they can be made without it.

They are kept as the callback yields them, before any middleware sees them, and made again at the same place,
so that depth, policy and the user's own middlewares judge them anew in every crawl. A list is whole or it is
not kept: a page with a request that cannot be told in JSON, or whose callback failed, is always fetched.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response

from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.requests import ARGUMENTS, JOURNEY, OWN_META, YIELDED, is_observed
from scrapy_dedup.urls import redact

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

FORMAT = 1
MAX_LINKS = 2_000  # a list of more is a dump of a database, which its own listing pages say better
MAX_LINKS_BYTES = 256 * 1024
MAX_DEPTH = 20  # of meta and cb_kwargs; also ends structures that contain themselves

# meta that Scrapy sets anew for each request, and that a callback copies with `meta=response.meta`.
VOLATILE_META = frozenset({*JOURNEY, *OWN_META, "depth", "cached_response", "_dont_cache", "_auth_proxy"})

# meta about the way to a page, which says nothing of what its callback does with it.
WAY_META = frozenset({"proxy", "download_slot", "download_timeout", "dedup_role", "dedup_conditional"})
LINK_TEXT = "link_text"  # meta that CrawlSpider sets beside "rule"; each page may link with another

ARGUMENTS_BYTES = 8  # compared only with those of the same page

# What a spider says in these is nobody else's business, so no ledger holds it.
SECRET_HEADERS = frozenset({b"Authorization", b"Cookie", b"Proxy-Authorization"})


class UnfetchedPage(HtmlResponse):
    """Stands for a page that was not transferred while its stored links pass the spider middlewares.

    It has the URL and the request of the page, and no content; its flags say why.
    """


class Unstorable(Exception):
    """A list of links that cannot be kept; the message names the reason."""


def note_arguments(request: Request) -> None:
    """Remember what a spider gives the callback of a request in ``cb_kwargs`` and ``meta``, as a digest.

    The links of a page may depend on it, such as on how many levels are left. It is noted when the request is
    yielded: what middlewares put into meta later is not the spider's, and may differ each time.
    """
    request.meta.pop(ARGUMENTS, None)
    left_out = {*VOLATILE_META, *WAY_META}
    if "rule" in request.meta:
        left_out.add(LINK_TEXT)
    meta = {name: value for name, value in request.meta.items() if name not in left_out}
    given = {name: values for name, values in (("meta", meta), ("cb_kwargs", request.cb_kwargs)) if values}
    if given:
        told = {
            name: {str(key): _comparable(value) for key, value in part.items()}
            for name, part in given.items()
        }
        text = json.dumps(told, sort_keys=True).encode()
        request.meta[ARGUMENTS] = hashlib.blake2b(text, digest_size=ARGUMENTS_BYTES).hexdigest()


def _comparable(value: object) -> Any:
    """Return a value that JSON can say, or the type of any other: nothing else of it is sure to last."""
    return [value] if _is_json(value) else type(value).__qualname__


class LinkCodec:
    """Turns the requests of one spider into JSON values and back."""

    def __init__(self, spider: Spider) -> None:
        self._spider = spider

    @functools.cached_property
    def _names(self) -> dict[Any, str]:
        """By function; without looking at attributes of the instance, since a property may do anything."""
        home = type(self._spider)
        found = {name: inspect.getattr_static(home, name) for name in dir(home)}
        return {function: name for name, function in found.items() if inspect.isfunction(function)}

    @functools.cached_property
    def _methods(self) -> frozenset[str]:
        return frozenset(self._names.values())

    def name_of(self, function: Callable[..., Any] | None) -> str | None:
        """Return the name under which a method of the spider is found; None stands for None.

        Raises:
            Unstorable: it is none of its methods.
        """
        if function is None:
            return None
        name = self._names.get(getattr(function, "__func__", None))
        if name is None or getattr(self._spider, name, None) != function:
            raise Unstorable("callback")
        return name

    def method_of(self, name: str | None) -> Callable[..., Any] | None:
        """Return the method of a name.

        Raises:
            Unstorable: the spider has no such method any more.
        """
        if name is None:
            return None
        if name not in self._methods:
            raise Unstorable("callback")
        method: Callable[..., Any] = getattr(self._spider, name)
        return method

    def author_of(self, request: Request) -> str:
        """Return what turns the page of a request into links: the callback, its rule, and its arguments.

        Raises:
            Unstorable: the callback is no method of the spider.
        """
        name = self.name_of(request.callback) or "_parse"
        if name == "parse" and type(self._spider)._parse is Spider._parse:
            name = "_parse"  # which calls it
        rule, arguments = request.meta.get("rule"), request.meta.get(ARGUMENTS)
        called = name if rule is None else f"{name}:{rule}"
        return called if arguments is None else f"{called}({arguments})"

    def told(self, request: Request) -> dict[str, Any]:
        """Return a request as a JSON value with only what is not the default.

        Raises:
            Unstorable: JSON cannot say it, or it must not be kept.
        """
        for reason, applies in _REFUSED:
            if applies(request):
                raise Unstorable(reason)
        meta = {name: value for name, value in request.meta.items() if name not in VOLATILE_META}
        value: dict[str, Any] = {
            "url": request.url,
            "callback": self.name_of(request.callback),
            "errback": self.name_of(request.errback),
            "meta": meta,
            "cb_kwargs": request.cb_kwargs,
            "headers": _told_headers(request),
            "flags": request.flags,
            "priority": request.priority,
            "dont_filter": request.dont_filter,
            "encoding": None if request.encoding == "utf-8" else request.encoding,
        }
        if not all(_is_json(value[name]) for name in ("meta", "cb_kwargs", "flags")):
            raise Unstorable("not_json")
        return {name: part for name, part in value.items() if part}

    def made(self, value: Mapping[str, Any]) -> Request:
        """Return the request that a JSON value tells of.

        Raises:
            Unstorable: the spider has no such callback any more.
        """
        headers = {
            name.encode("latin-1"): [entry.encode("latin-1") for entry in entries]
            for name, entries in value.get("headers", {}).items()
        }
        return Request(
            value["url"],
            callback=self.method_of(value.get("callback")),
            errback=self.method_of(value.get("errback")),
            meta=value.get("meta"),
            cb_kwargs=value.get("cb_kwargs"),
            headers=headers or None,
            flags=value.get("flags"),
            priority=value.get("priority", 0),
            dont_filter=value.get("dont_filter", False),
            encoding=value.get("encoding", "utf-8"),
        )


# Reason, and which requests have it. A subclass may hold what its attributes do not tell.
_REFUSED: tuple[tuple[str, Callable[[Request], bool]], ...] = (
    ("method", lambda request: request.method != "GET" or bool(request.body)),
    ("class", lambda request: type(request) is not Request),
    ("secret", lambda request: bool(request.cookies)),
    ("secret", lambda request: not SECRET_HEADERS.isdisjoint(request.headers)),
    ("secret", lambda request: "@" in request.url and redact(request.url) != request.url),
    ("secret", lambda request: "@" in str(request.meta.get("proxy", ""))),
)


def _told_headers(request: Request) -> dict[str, list[str]]:
    return {
        name.decode("latin-1"): [entry.decode("latin-1") for entry in entries]
        for name, entries in request.headers.items()
    }


def _is_json(value: object, depth_left: int = MAX_DEPTH) -> bool:
    """Tell whether a value comes back from JSON as what it was; a tuple would come back as a list.

    Strings may be of a kind that parsers make, as the text of a link is.
    """
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return True
    if isinstance(value, str):
        return not isinstance(value, enum.Enum)
    if isinstance(value, float):
        return kind is float and math.isfinite(value)
    if depth_left == 0 or kind not in (list, dict):
        return False
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(entry, depth_left - 1) for key, entry in value.items())
    return isinstance(value, list) and all(_is_json(entry, depth_left - 1) for entry in value)


class LinkList:
    """The links of one page while its callback yields them.

    Attributes:
        fault: why the list cannot be kept, or None.
        is_whole: whether the callback has come to its end.
    """

    def __init__(self, codec: LinkCodec, request: Request) -> None:
        self._codec = codec
        self._told: dict[str, None] = {}
        self._bytes = 0
        self.fault: str | None = None
        self.is_whole = False
        self._author = ""
        try:
            self._author = codec.author_of(request)
        except Unstorable as error:
            self.spoil(str(error))

    def add(self, request: Request) -> None:
        """Take a request as it is now; middlewares are going to change it."""
        if self.fault is not None:
            return
        try:
            self._add(json.dumps(self._codec.told(request), separators=(",", ":")))
        except Unstorable as error:
            self.spoil(str(error))

    def _add(self, told: str) -> None:
        if told in self._told:
            return
        self._told[told] = None
        self._bytes += len(told) + 1
        if len(self._told) > MAX_LINKS or self._bytes > MAX_LINKS_BYTES:
            raise Unstorable("too_many")

    def spoil(self, reason: str) -> None:
        """Take note that the list cannot be kept."""
        self.fault = self.fault or reason
        self._told.clear()

    def text(self) -> str | None:
        """Return the list as JSON, or None when it cannot be kept."""
        if self.fault is not None or not self.is_whole:
            return None
        head = json.dumps({"format": FORMAT, "author": self._author}, separators=(",", ":"))
        return f'{head[:-1]},"links":[{",".join(self._told)}]}}'


def stored_links(text: str | None, request: Request, codec: LinkCodec) -> list[Request] | None:
    """Return the requests that stand for the page of a request.

    Args:
        text: what was stored with the page.
        request: the one that would fetch it now.
        codec: of the spider that runs.

    Returns:
        None when nothing is stored, or when the page would go to another callback, or its links to one that
        the spider no longer has: then the page has to be fetched.
    """
    if text is None:
        return None
    try:
        stored = json.loads(text)
        if stored["format"] != FORMAT or stored["author"] != codec.author_of(request):
            return None
        return [codec.made(value) for value in stored["links"]]
    except (Unstorable, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # written by another version, or damaged: fetching the page is always right


class OutLinks:
    """Follows what the callbacks of a crawl yield, from the spider to the engine."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._open: WeakKeyDictionary[Response, LinkList] = WeakKeyDictionary()
        self._texts: WeakKeyDictionary[Response, str] = WeakKeyDictionary()
        self._takers: WeakKeyDictionary[Response, Callable[[str], None]] = WeakKeyDictionary()

    @functools.cached_property
    def codec(self) -> LinkCodec:
        """Of the spider of the crawl."""
        if self._crawler.spider is None:
            raise RuntimeError("there are no callbacks before there is a spider")
        return LinkCodec(self._crawler.spider)

    # -- where they are collected

    async def yielded(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Take down the requests of a callback, before a middleware changes them."""
        request = response.request
        if request is None or not is_observed(request) or isinstance(response, UnfetchedPage):
            async for entry in result:
                yield entry
            return
        links = self._open[response] = LinkList(self.codec, request)
        async for entry in result:
            if isinstance(entry, Request):
                links.add(entry)
                entry.meta[YIELDED] = True
            yield entry
        links.is_whole = True

    def failed(self, response: Response) -> None:
        """Take note that a callback failed; what it yielded until then is not all."""
        if (links := self._open.get(response)) is not None:
            links.spoil("failed")

    async def left(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Watch what the middlewares made of it; links that one of them added would be missing later on."""
        async for entry in result:
            if isinstance(entry, Request) and not entry.meta.pop(YIELDED, False):
                self._spoil(response, "middleware")
            yield entry
        self._close(response)

    def _spoil(self, response: Response, reason: str) -> None:
        if (links := self._open.get(response)) is not None:
            links.spoil(reason)

    def _close(self, response: Response) -> None:
        links = self._open.pop(response, None)
        if links is None:
            return
        text = links.text()
        taker = self._takers.pop(response, None)
        if text is None:
            self._crawler.stats.inc_value(names.LINKS_UNSTORABLE + (links.fault or "unfinished"))
        elif taker is not None:
            taker(text)
        else:
            self._texts[response] = text

    # -- where they are stored

    def of(self, response: Response) -> str | None:
        """Return the links of a response as JSON; None when they cannot be kept, or are not yet known."""
        return self._texts.get(response)

    def when_known(self, response: Response, take: Callable[[str], None]) -> None:
        """Have the links of a response handed over once its callback is done, if they can be kept then."""
        if response in self._open:
            self._takers[response] = take

    def stored(self, text: str | None, request: Request) -> list[Request] | None:
        """Return the requests that stand for the page of a request, or None when it has to be fetched."""
        return stored_links(text, request, self.codec)
