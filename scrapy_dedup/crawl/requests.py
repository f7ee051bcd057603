"""What the suite may do with a request, and what it remembers about one.

A value that a request carries in its meta travels into redirects and retries, since Scrapy copies meta. Each
is therefore bound to the URL it was made for and counts only while the request still has that URL.
"""

from __future__ import annotations

from typing import NamedTuple

from scrapy import Request
from scrapy.http.request import NO_CALLBACK

SWITCH = "dedup"  # meta: False turns the suite off for one request
LINKED = "dedup_linked"  # meta: [fetch URL, URL as it was linked]
VARIANT = "dedup_variant"  # meta: [URL of a variant that gets its turn, the key that failed]

REFERRER = "dedup_referrer"  # meta: [fetch URL, page that linked to it]
INHERITED = "dedup_inherited_hops"  # meta: how many of redirect_urls belong to the page that linked here

# Meta of the way a request went so far; a variant starts on a way of its own.
JOURNEY = (
    "redirect_urls",
    "redirect_reasons",
    "redirect_times",
    "redirect_ttl",
    "retry_times",
    "download_latency",
)


def is_observed(request: Request) -> bool:
    """Tell whether the response of a request is an observation; robots.txt and media are not."""
    return (
        request.meta.get(SWITCH) is not False
        and request.callback is not NO_CALLBACK
        and request.url.startswith(("http://", "https://"))
    )


def is_governed(request: Request) -> bool:
    """Tell whether the URL policy applies to a request."""
    return request.method == "GET" and not request.meta.get("verbatim_url") and is_observed(request)


def linked_url(request: Request) -> str:
    """Return the URL as it was linked, before the policy rewrote it."""
    fetch_url, linked = request.meta.get(LINKED) or (None, None)
    return linked if fetch_url == first_url(request) and linked else first_url(request)


def chain_of(request: Request) -> tuple[str, ...]:
    """Return the URLs of a request's way: what was requested first, each redirect, and its own URL."""
    hops = request.meta.get("redirect_urls", ())
    return (*hops[request.meta.get(INHERITED, 0) :], request.url)


def forget_inherited_hops(request: Request) -> None:
    """Set the redirects of another page apart; ``Request(url, meta=response.meta)`` copies them."""
    hops = len(request.meta.get("redirect_urls", ()))
    if hops or INHERITED in request.meta:
        request.meta[INHERITED] = hops


def first_url(request: Request) -> str:
    """Return the URL that was requested before any redirect."""
    return chain_of(request)[0]


def referrer_of(request: Request) -> str | None:
    """Return the page that linked to a request; after a redirect Scrapy's header names the redirect."""
    fetch_url, linking_page = request.meta.get(REFERRER) or (None, None)
    if fetch_url == first_url(request):
        return linking_page
    header = request.headers.get("Referer")
    return header.decode("latin-1") if header else None


class Variant(NamedTuple):
    """A URL that gets its turn because the request for its key failed, and that key."""

    url: str
    key: str


def variant_of_key(request: Request) -> Variant | None:
    """Return the variant that a request, or the way that led to it, is the turn of."""
    variant = request.meta.get(VARIANT)
    return Variant(*variant) if variant and variant[0] == first_url(request) else None
