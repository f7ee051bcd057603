"""Text for a terminal: nothing that a web page wrote may act on it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from scrapy_dedup.urls import redact

# Control, format (with the marks that turn the writing direction), surrogate, line and paragraph separators.
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

URL_FIELDS = frozenset(
    {"raw_url", "request_url", "fetch_url", "url", "url_key", "document_url", "referrer_url", "redirect_urls"}
)


def printable(text: str) -> str:
    r"""Return the text with every character that could act on a terminal written as an escape.

    >>> print(printable("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(char) if unicodedata.category(char) in _ACTING else char for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def shown_url(url: str | None) -> str:
    """Return a URL as it may be shown: without credentials and without control characters."""
    return "-" if url is None else printable(redact(url))


def redacted(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as a dict in which no URL shows credentials."""
    return {name: _redacted(value) if name in URL_FIELDS else value for name, value in record.items()}


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    return [redact(url) for url in value] if isinstance(value, (list, tuple)) else value


def columns(rows: Iterable[tuple[str, str]]) -> str:
    """Return two columns, the first as wide as its widest cell."""
    listed = list(rows)
    width = max((len(left) for left, _ in listed), default=0)
    return "\n".join(f"{left:<{width}}  {right}".rstrip() for left, right in listed)
