"""The spelling of a query and of the names in it."""

from __future__ import annotations

from scrapy_dedup.urls import percent


def normal(query: str) -> str:
    """Return a query in normal percent-encoding; ``'`` is encoded, as in the WHATWG special-query set."""
    query = percent.normal(query)
    return query.replace("'", "%27") if "'" in query else query


def loose(query: str) -> str:
    """Return a query in normal form as the `standard` preset spells it.

    A form-decoding server reads ``+`` for ``%20`` (WHATWG application/x-www-form-urlencoded), and raw
    brackets are an illegal spelling of their escapes (RFC 3986 3.4).

    >>> loose("f[mat]=a%20b")
    'f%5Bmat%5D=a+b'
    """
    if "[" in query or "]" in query:
        query = query.replace("[", "%5B").replace("]", "%5D")
    return query.replace("%20", "+") if "%20" in query else query


def name_of(parameter: str) -> str:
    """Return the name of a parameter in normal form, spelled as rules spell it.

    >>> name_of("f[0]=red"), name_of("sale")
    ('f%5B0%5D', 'sale')
    """
    return rule_name(parameter.partition("=")[0])


def rule_name(name: str) -> str:
    """Return the one spelling under which the name of a parameter is compared."""
    return name if name.isalnum() and name.isascii() else loose(normal(name))
