"""Registrable domains, by the public suffix list that tldextract brings along: never from the network."""

from __future__ import annotations

from functools import lru_cache

import tldextract


@lru_cache(maxsize=1)
def _suffix_list() -> tldextract.TLDExtract:
    return tldextract.TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)


def is_public_suffix(host: str) -> bool:
    """Tell whether unrelated people register names below a host.

    >>> is_public_suffix("co.uk"), is_public_suffix("github.io"), is_public_suffix("shop.example")
    (True, True, False)
    """
    return _suffix_list().extract_str(host).suffix == host


@lru_cache(maxsize=4096)
def site_of(host: str) -> str | None:
    """Return the registrable domain of a host, or None for an address, a suffix or a single label.

    Private suffixes count, so two users of one hosting service are two sites. A top-level domain that the
    list does not know is a suffix by itself, which is the list's own default rule.

    >>> site_of("www.shop.co.uk"), site_of("alice.github.io"), site_of("a.shop.example")
    ('shop.co.uk', 'alice.github.io', 'shop.example')
    >>> site_of("com"), site_of("192.0.2.1"), site_of("localhost")
    (None, None, None)
    """
    name = host.lower().removesuffix(".")
    found = _suffix_list().extract_str(name)
    if found.suffix:
        return f"{found.domain}.{found.suffix}" if found.domain else None
    labels = name.split(".")
    if len(labels) < 2 or labels[-1].isdigit() or not all(labels) or ":" in name:
        return None
    return ".".join(labels[-2:])
