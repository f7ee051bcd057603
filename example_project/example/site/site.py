"""What the site answers to a request: a pure function from request and visit count to response."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from example.site.html import (
    COOKIE_BANNER,
    LEGAL,
    NAVIGATION,
    SIDEBAR,
    Visit,
    all_spellings,
    break_markup,
    render,
    render_message,
)
from example.site.pages import FACETS, PRODUCTS_PER_LISTING, Page, Product, build_pages, build_products

ROBOTS = "User-agent: *\nDisallow: /private/\n"

# The pairs of a query that choose the content; all others change nothing.
_MEANINGFUL: Mapping[str, tuple[str, ...]] = {
    "/news": ("page",),
    "/gallery": ("id",),
    "/map": ("utm_zone", "utm_easting"),
    "/compare": ("a", "b"),
    "/files/report": ("doc",),
    **{f"/shop/{category}": ("page",) for category in ("tools", "garden", "kitchen", "lighting", "storage")},
}

_MOVED: Mapping[str, tuple[int, str]] = {
    "/guides": (301, "/guides/"),
    "/faq/": (301, "/faq"),
    "/shop": (301, "/shop/"),
    "/shop/sale": (302, "/shop/garden?color=red&sort=price"),
}

# The home page and the overview of guides link to each of these.
_LISTED_KINDS = ("guide", "case_sensitive", "handbook")

_SESSION = re.compile(r"[0-9a-f]{32}")
_JSESSIONID = re.compile(r";jsessionid=[^/?#]*", re.IGNORECASE)
_SIGNING_KEY = b"harbour-street-files"


@dataclass(frozen=True, slots=True)
class Request:
    """One GET request: ``target`` is path and query as sent, ``host`` the host name alone."""

    target: str
    host: str = "localhost"
    cookies: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; ``headers`` lacks the length."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),)


class Site:
    """The whole site, without a server.

    Args:
        edition: which edition of the pages to show.
    """

    def __init__(self, edition: int = 1) -> None:
        self.pages = build_pages(edition)
        self._by_key = {(page.host, page.key): page for page in self.pages}
        self._copies: dict[str, list[Page]] = {}
        for page in self.pages:
            if page.duplicates_of is not None:
                self._copies.setdefault(page.duplicates_of, []).append(page)
        self._products = build_products()

    def respond(self, request: Request, visit: Visit) -> Response:
        """Return the answer to one request; equal arguments give equal answers."""
        raw_path, _, query = request.target.partition("?")
        path = _resolved(raw_path)
        host = "alias" if request.host == "127.0.0.1" else "main"
        if host == "alias" and ("alias", path) not in self._by_key and path != "/robots.txt":
            return _redirect(301, visit.main + request.target)
        if path in _MOVED:
            return _redirect(*_MOVED[path])
        quirk = _QUIRKS.get(path)
        special = quirk(request, query, visit) if quirk else None
        return special or self._show(host, path, query, visit)

    def manifest(self) -> dict[str, object]:
        """Return what a crawl should find: every page with its text, and the furniture that is no text."""
        return {
            "pages": [
                {
                    "path": page.key,
                    "host": page.host,
                    "kind": page.kind,
                    "sentences": [
                        text for paragraph in (*page.preamble, *page.paragraphs) for text in paragraph
                    ],
                    "duplicates_of": page.duplicates_of,
                }
                for page in self.pages
            ],
            "furniture": {
                "navigation": [text for _, text in NAVIGATION if " " in text],
                "cookie_banner": list(COOKIE_BANNER),
                "sidebar": list(SIDEBAR),
                "legal": list(LEGAL),
            },
        }

    def _show(self, host: str, path: str, query: str, visit: Visit) -> Response:
        pairs = tuple(parse_qsl(query, keep_blank_values=True))
        page = self._find(host, path, pairs)
        if page is None:
            return _message(404, "Not found", "There is nothing under this address.", visit)
        if page.kind in ("mirror", "alias"):  # the very file of the original, under another address
            page = self._by_key["main", page.duplicates_of or ""]
        here = Visit(visit.port, visit.count, visit.now, pairs)
        document = render(page, here, goods=self._goods(page, pairs), links=tuple(self._links(page, here)))
        if page.kind == "broken_html":
            document = break_markup(document)
        return Response(200, document.encode())

    def _find(self, host: str, path: str, pairs: tuple[tuple[str, str], ...]) -> Page | None:
        meaningful = [f"{name}={value}" for name, value in pairs if name in _MEANINGFUL.get(path, ())]
        facets = [f"{name}={value}" for name, value in pairs if name in FACETS or name == "sort"]
        key = path + ("?" + "&".join(meaningful) if meaningful else "")
        view = self._by_key.get((host, f"{path}?{'&'.join(facets)}")) if facets and not meaningful else None
        return view or self._by_key.get((host, key.rstrip("/") if key.startswith("/docs/") else key))

    def _goods(self, page: Page, pairs: tuple[tuple[str, str], ...]) -> tuple[Product, ...]:
        if page.category is None:
            return ()
        chosen = {name: value for name, value in pairs if name in FACETS}
        goods = [
            product
            for product in self._products
            if product.category == page.category and chosen.items() <= product.facets.items()
        ]
        order = dict(pairs).get("sort")
        if order in ("price", "name"):
            goods.sort(key=lambda product: (getattr(product, order), product.slug))
        elif order:
            goods.reverse()
        start = PRODUCTS_PER_LISTING * (page.number - 1)
        return tuple(goods[start : start + PRODUCTS_PER_LISTING])

    def _links(self, page: Page, visit: Visit) -> Iterator[str]:
        yield from _PAGE_LINKS.get(page.path, ())
        if page.key == "/":
            yield f"http://visitor:secret@localhost:{visit.port}/changelog"
            yield from (_signed(f"user=Anna&expires=1999999999&doc={doc}") for doc in ("C9", "A7", "B2"))
            yield from all_spellings("/changelog", visit)
            yield from (f"{visit.alias}{path}" for path in ("/", "/shop/", "/news", "/faq"))
        if page.key in ("/", "/guides/"):
            yield from (other.key for other in self.pages if other.kind in _LISTED_KINDS)
        if page.kind == "guide":
            yield from (f"{page.key}/", f"{page.key}#step-2", f"{page.key}?utm_source=handbook&gclid=Cj0KCQ")
        if page.kind == "product":
            yield from self._similar(page, visit)
        for copy in self._copies.get(page.key, ()):
            yield (visit.alias if copy.host == "alias" else "") + copy.key

    def _similar(self, page: Page, visit: Visit) -> Iterator[str]:
        place = self._products.index(page.product)
        for step in range(1, 5):
            other = self._products[(place + step) % len(self._products)]
            yield from list(all_spellings(f"/shop/{other.category}/{other.slug}", visit))[step::4]


def write_manifest(edition: int) -> str:
    """Return the manifest of an edition as JSON."""
    return json.dumps(Site(edition).manifest(), ensure_ascii=False, indent=1) + "\n"


_PAGE_LINKS: Mapping[str, tuple[str, ...]] = {
    "/": (
        # Where one spelling fails, it stands first: the page must come from the other one.
        "/foo/", "/foo", "/bar", "/bar/", "/compare?b=2&a=1", "/compare?a=1&b=2",
        "/guides", "/guides/", "/faq/", "/faq", "/p?utm_source=mail", "/c", "/wall", "/shop/sale", "/shop",
        "/gallery?id=1", "/gallery?id=2", "/gallery?id=3", "/map?utm_zone=32&utm_easting=461300",
        "/map?utm_zone=33&utm_easting=461300", "/manual/", "/broken", "/empty", "/error", "/missing",
        "/private/accounts", "javascript:void(0)", "mailto:shop@harbour.example", "data:text/plain,hello",
    ),
    "/manual/": ("install", "configure", "operate"),  # relative: right only under the <base> of the page
    "/news": tuple(f"/news?page={number}" for number in range(1, 7)),
}  # fmt: skip


def _resolved(raw_path: str) -> str:
    """Return the path that is meant: without session, %-escapes and dot segments, its last slash kept."""
    path = unquote(_JSESSIONID.sub("", raw_path))
    plain = posixpath.normpath("/" + path.lstrip("/"))
    return plain + "/" if path.endswith("/") and plain != "/" else plain


def _signature(query: str) -> str:
    digest = hmac.new(_SIGNING_KEY, query.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _signed(query: str) -> str:
    return f"/files/report?{query}&signature={_signature(query)}"


def _redirect(status: int, target: str, *headers: tuple[str, str]) -> Response:
    return Response(status, b"", (("Location", target), ("Content-Type", "text/html"), *headers))


def _message(status: int, title: str, text: str, visit: Visit) -> Response:
    return Response(status, render_message(title, text, visit).encode())


def _report(_: Request, query: str, visit: Visit) -> Response | None:
    signed, _sep, signature = query.partition("&signature=")
    if hmac.compare_digest(signature.encode(), _signature(signed).encode()):
        return None
    return _message(403, "Forbidden", "The signature does not belong to this address.", visit)


def _compare(_: Request, query: str, visit: Visit) -> Response | None:
    return None if query == "a=1&b=2" else _message(404, "Not found", "Nothing to compare.", visit)


def _campaign(_: Request, query: str, __: Visit) -> Response | None:
    return _redirect(302, "/p") if "utm_" in query else None


def _tour(_: Request, query: str, visit: Visit) -> Response | None:
    session = dict(parse_qsl(query)).get("sid", "")
    return None if _SESSION.fullmatch(session) else _redirect(302, f"/c?sid={visit.token('tour')}")


def _wall(request: Request, _: str, __: Visit) -> Response | None:
    seen = (request.cookies or {}).get("age_checked") == "yes"
    return None if seen else _redirect(302, "/wall", ("Set-Cookie", "age_checked=yes; Path=/"))


def _error(_: Request, __: str, visit: Visit) -> Response:
    return _message(500, "Server error", "Something broke on our side.", visit)


def _empty(_: Request, __: str, ___: Visit) -> Response:
    return Response(200, b"<!DOCTYPE html><html><head><title></title></head><body></body></html>\n")


def _robots(_: Request, __: str, ___: Visit) -> Response:
    return Response(200, ROBOTS.encode(), (("Content-Type", "text/plain; charset=utf-8"),))


_QUIRKS: Mapping[str, Callable[[Request, str, Visit], Response | None]] = {
    "/files/report": _report,
    "/compare": _compare,
    "/p": _campaign,
    "/c": _tour,
    "/wall": _wall,
    "/error": _error,
    "/empty": _empty,
    "/robots.txt": _robots,
}
