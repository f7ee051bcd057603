"""What the suite may do with a request, and what it remembers about one.

A value that a request carries in its meta travels into redirects and retries, since Scrapy copies meta. Each
is therefore bound to the URL it was made for and counts only while the request still has that URL.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from scrapy import Request
from scrapy.http.request import NO_CALLBACK

SWITCH = "dedup"  # meta: False turns the suite off for one request
LINKED = "dedup_linked"  # meta: [fetch URL, URL as it was linked]
VARIANT = "dedup_variant"  # meta: [URL of a variant that gets its turn, the key that failed]

REFERRER = "dedup_referrer"  # meta: [fetch URL, page that linked to it]
INHERITED = "dedup_inherited_hops"  # meta: how many of redirect_urls belong to the page that linked here
UNGOVERNED = "dedup_ungoverned_hops"  # meta: [URL of a POST or its like, number of hops up to and with it]
HOLDER = "dedup_holder"  # meta: [URL whose key later requests are merged into, because of this request]
TICKET = "dedup_ticket"  # meta: a name for a request that went out, which what follows it inherits
YIELDED = "dedup_yielded"  # meta: True while a request that a callback yielded passes the spider middlewares
VALIDATORS = "dedup_validators"  # meta: [URL, its ETag, its Last-Modified] that we asked about
ARGUMENTS = "dedup_arguments"  # meta: digest of what the callback is given beside the response

# What the suite itself keeps in meta; SWITCH and its kind are the user's.
OWN_META = (LINKED, VARIANT, REFERRER, INHERITED, UNGOVERNED, HOLDER, TICKET, YIELDED, VALIDATORS, ARGUMENTS)

# Meta of the way a request went so far; a variant starts on a way of its own.
JOURNEY = (
    "redirect_urls",
    "redirect_reasons",
    "redirect_times",
    "redirect_ttl",
    "retry_times",
    "download_latency",
    TICKET,
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


def keyed_chain_of(request: Request) -> tuple[str, ...]:
    """Return the URLs of a request's way that stand for keys: a page behind a form is not the form's page."""
    posted_url, hops = request.meta.get(UNGOVERNED) or (None, 0)
    all_urls = (*request.meta.get("redirect_urls", ()), request.url)
    if not hops or all_urls[hops - 1 : hops] != (posted_url,):
        return chain_of(request)
    return all_urls[max(hops, request.meta.get(INHERITED, 0)) :]


def note_ungoverned_hop(request: Request) -> None:
    """Remember for its redirects that a request has no key."""
    request.meta[UNGOVERNED] = [request.url, len(request.meta.get("redirect_urls", ())) + 1]


def make_holder(request: Request) -> None:
    """Remember for its retries and redirects that other requests are merged into a request."""
    request.meta[HOLDER] = [first_url(request)]


def is_holder(request: Request) -> bool:
    """Tell whether other requests were merged into one; never into one that passed the dupefilter by."""
    return request.meta.get(HOLDER) == [first_url(request)]


def with_url(request: Request, url: str, **changes: Any) -> Request:
    """Return a request for another URL; a subclass of the user's may not have told Scrapy of all it holds."""
    other: Request = request.replace(url=url, **changes)
    if own := getattr(request, "__dict__", None):
        other.__dict__.update(own)
    return other


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
