"""The fingerprinter: one identity for each URL key, chained over the user's own fingerprinter."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinter

from scrapy_dedup.crawl.requests import chain_of, is_governed, variant_of_key, with_url
from scrapy_dedup.crawl.suite import Suite

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class Fingerprinter:
    """Gives requests with one URL key one fingerprint.

    A redirect to a URL whose key stands in its own chain (``/slash`` to ``/slash/``) has to be followed, so
    the number of earlier hops with that key is part of the fingerprint; a loop still ends by
    REDIRECT_MAX_TIMES. A variant that gets its turn after its key failed has its URL in the fingerprint, for
    the dupefilter and for HTTPCACHE, which would return the failure again.

    Scrapy's default fingerprinter canonicalizes the URL once more and would merge ``a=1&a=2`` with
    ``a=2&a=1``; in its place the key is hashed here. A fingerprinter of the user's is asked about the
    request with the key as its URL.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._suite = Suite.of(crawler)
        users_class = load_object(self._suite.users_fingerprinter)
        self._users = build_from_crawler(users_class, crawler)
        self._hashes_key = users_class is RequestFingerprinter
        # Bound to the request object: a URL cached in meta would travel into its redirects.
        self._known: WeakKeyDictionary[Request, bytes] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the fingerprinter, as Scrapy does for each crawler."""
        return cls(crawler)

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint of a request."""
        if not is_governed(request):
            fingerprint: bytes = self._users.fingerprint(request)
            return fingerprint
        if not self._hashes_key:  # a fingerprinter of the user's may read what a middleware changes later
            return self._fingerprint(request)
        known = self._known.get(request)
        if known is None:
            known = self._known[request] = self._fingerprint(request)
        return known

    def _fingerprint(self, request: Request) -> bytes:
        key = self._suite.key_of(request.url)
        hops = sum(self._suite.key_of(url) == key for url in chain_of(request)[:-1])
        if self._hashes_key:
            base = framed_digest(b"request", request.method.encode(), key.encode(), request.body)
        else:
            base = self._users.fingerprint(with_url(request, key))
            if self._suite.urls.is_decided(request.url):  # it may take a key of its own for the one it shared
                base = framed_digest(b"decided", base, key.encode())
        variant = variant_of_key(request)
        if not hops and variant is None:
            return base
        return framed_digest(b"hop", base, str(hops).encode(), variant.url.encode() if variant else b"")


def framed_digest(*parts: bytes) -> bytes:
    """Return a 20-byte digest of parts, each framed by its length so that no two lists of parts collide."""
    digest = hashlib.blake2b(digest_size=20, person=b"scrapy-dedup-1")
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
