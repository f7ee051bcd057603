"""What pages must hold, by host and path: ``{"shop.example/p/*": {"css": "h1.product"}}``.

A key is a host pattern as in the rules for hosts, perhaps with a path pattern behind it. Of several that
cover a URL each adds what it names, from the widest host to the exact one and from the shortest path to the
longest; the last word on ``text`` and on ``css`` counts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from parsel.csstranslator import HTMLTranslator

from scrapy_dedup.errors import ConfigError
from scrapy_dedup.urls import percent
from scrapy_dedup.urls.authority import DEFAULT_PORTS, normal_host, normal_port, split_authority
from scrapy_dedup.urls.hosts import HostPattern
from scrapy_dedup.urls.paths import Glob

Expectation = Mapping[str, str]
"""What a page must hold: a ``text``, a ``css`` selector that matches, or both."""

KEYS = ("text", "css")

_NOTHING: Expectation = MappingProxyType({})
_MAX_HOSTS = 1_024  # remembered with the rows that cover them


class _Row(NamedTuple):
    pattern: HostPattern
    glob: Glob | None
    expect: Expectation

    @property
    def width(self) -> tuple[int, int, bool, int]:
        """Sort wide before narrow: by labels, ``.h`` before ``*.h`` before ``h``, then by port and path."""
        pattern = self.pattern
        depth = pattern.host.count(".")
        path_chars = self.glob.specificity if self.glob else -1
        return (
            depth,
            _KINDS[pattern.covers_host, pattern.covers_subdomains],
            pattern.port is not None,
            path_chars,
        )


# ``.h`` covers both, ``*.h`` the subdomains, ``h`` the host.
_KINDS = {(True, True): 0, (False, True): 1, (True, False): 2}


class Expectations:
    """Finds what the page of a URL must hold.

    Raises:
        ConfigError: with every problem of the table.
    """

    def __init__(self, table: Mapping[str, Expectation]) -> None:
        problems = list(problems_of(table))
        if problems:
            raise ConfigError(problems, "expectations")
        self._rows = sorted((_row(key, expect) for key, expect in table.items()), key=lambda row: row.width)
        self._spec = {key: dict(expect) for key, expect in table.items()}
        self._rows_of = functools.lru_cache(_MAX_HOSTS)(self._find_rows)

    def spec(self) -> dict[str, dict[str, str]]:
        """Return the table in a JSON-ready form."""
        return self._spec

    def __bool__(self) -> bool:
        return bool(self._rows)

    def of(self, url: str) -> Expectation:
        """Return what the page of a URL must hold; nothing, where no row covers it."""
        if not self._rows:
            return _NOTHING
        try:
            parts = urlsplit(url)
            raw = split_authority(parts.netloc)
            port = normal_port(parts.scheme, raw.port) or DEFAULT_PORTS[parts.scheme]
            rows = self._rows_of(normal_host(raw.host).removesuffix("."), port)
        except (ValueError, KeyError):
            return _NOTHING  # no URL of a page
        if not rows:
            return _NOTHING
        path = percent.normal(parts.path or "/")
        merged: dict[str, str] = {}
        for row in rows:
            if row.glob is None or row.glob.matches(path):
                merged.update(row.expect)
        return merged

    def _find_rows(self, host: str, port: int) -> tuple[_Row, ...]:
        return tuple(row for row in self._rows if _covers(row.pattern, host, port))


def problems_of(table: object) -> Iterator[str]:
    """Yield a sentence for each fault in a table of expectations."""
    if not isinstance(table, Mapping):
        yield f"is a {type(table).__name__}; use a dict of host and path to what the page must hold"
        return
    seen: dict[tuple[HostPattern, str], str] = {}
    for key, expect in table.items():
        yield from (f"[{key!r}] {problem}" for problem in problems_of_expectation(expect))
        if not isinstance(key, str):
            yield f"[{key!r}]: the host must be text"
            continue
        try:
            row = _row(key, _NOTHING)
        except ValueError as error:
            yield f"[{key!r}] {error}"
            continue
        place = row.pattern, row.glob.pattern if row.glob else ""
        if place in seen:
            yield f"[{key!r}] is the same place as {seen[place]!r}"
        seen.setdefault(place, key)


def problems_of_expectation(expect: object) -> Iterator[str]:
    """Yield a sentence for each fault in what one page is expected to hold."""
    if not isinstance(expect, Mapping) or not expect:
        yield f"is {expect!r}; use {{'text': ...}}, {{'css': ...}} or both"
        return
    for key, wanted in expect.items():
        if key not in KEYS:
            yield f"has the key {key!r}; the keys are 'text' and 'css'"
        elif not isinstance(wanted, str) or not wanted.strip():
            yield f"[{key!r}] is {wanted!r}; use a string that is not empty"
        elif key == "css" and (fault := selector_fault(wanted)):
            yield f"['css'] is {wanted!r}, not a CSS selector: {fault}"


@functools.lru_cache(maxsize=256)
def selector_fault(css: str) -> str | None:
    """Return why a selector could not be evaluated, or None; spiders repeat a few of them."""
    try:
        HTMLTranslator().css_to_xpath(css)
    except Exception as error:  # noqa: BLE001  cssselect raises SelectorError, and others from its parser
        return str(error) or type(error).__name__
    return None


def _row(key: str, expect: Expectation) -> _Row:
    """Read one key.

    Raises:
        ValueError: its host is no host pattern.
    """
    host, slash, path = key.partition("/")
    if host.endswith(":") and path.startswith("/"):
        msg = "is no host pattern: leave the scheme out"
        raise ValueError(msg)
    return _Row(HostPattern.parse(host), Glob(slash + path) if slash else None, dict(expect))


def _covers(pattern: HostPattern, host: str, port: int) -> bool:
    if pattern.port is not None and pattern.port != port:
        return False
    if host == pattern.host:
        return pattern.covers_host
    return pattern.covers_subdomains and host.endswith("." + pattern.host)
