"""The fragment of a URL: never sent (RFC 3986 3.5), but sometimes the address of a view made by a script."""

from __future__ import annotations

from scrapy_dedup.urls import percent
from scrapy_dedup.urls.decision import Change

_DIRECTIVE = ":~:"  # the client takes it out before a script can see it (URL Fragment Text Directives, 3.3)
_ROUTES = ("!", "/")  # a script reads such fragments as the address of another view; both are never decoded

_DROPPED = (Change("fragment"),)


def settle_fragment(fragment: str, rule: str) -> tuple[str | None, tuple[Change, ...]]:
    """Return the fragment that a key has, None for none, and what was done to it.

    Args:
        fragment: what stands after the ``#``.
        rule: "keep"; "drop"; or "routes", which keeps only ``#!...`` and ``#/...``.

    >>> settle_fragment("top", "routes")
    (None, (Change(rule='fragment', detail=''),))
    >>> settle_fragment("!/item/%7e1", "routes")[0]
    '!/item/~1'
    """
    if not fragment or rule == "drop" or (rule == "routes" and not fragment.startswith(_ROUTES)):
        return None, _DROPPED
    changes = []
    text = percent.normal(fragment)
    if text != fragment:
        changes.append(Change("percent_encoding", "fragment"))
    text, directive, _ = text.partition(_DIRECTIVE)
    if directive:
        changes.append(Change("fragment_directive"))
    return text or None, tuple(changes)
