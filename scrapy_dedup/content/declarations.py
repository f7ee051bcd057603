"""Where a page says what its own address is: links in its tree, ``Link`` headers, metadata, noindex.

What is read here depends on the bytes alone, so that equal payloads are read once; `content.canonical`
resolves it for the URL of each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from scrapy_dedup.content import canonical
from scrapy_dedup.content.canonical import PageDeclarations, Stated
from scrapy_dedup.content.metadata import MAX_JSON_CHARS, page_nodes
from scrapy_dedup.content.normalise import is_well_formed
from scrapy_dedup.content.page import Element

MAX_DECLARATIONS = 10
"""Of links, and of all others together."""

MAX_READ_CHARS = canonical.MAX_URL_CHARS + 1
"""One more than a URL may have: the rest of a longer one changes nothing."""

MAX_HEADER_CHARS = 8_192


def declarations(root: Element) -> PageDeclarations:
    """Return what a page's tree declares. Call it before the tree is prepared."""
    stated: dict[bool, list[Stated]] = {True: [], False: []}  # claims, and what is only beside them
    base: str | None = None
    noindex = False
    for element in root.iter("link", "meta", "base", "script"):
        if element.tag == "base":
            href = element.get("href")
            if base is None and href is not None and _in_head(element):
                base = href[:MAX_READ_CHARS]
        elif element.tag == "meta" and _is_noindex(element):
            noindex = True
        else:
            kept = stated[element.tag == "link"]
            found = (item for item in _declared(element) if item not in kept)
            kept += islice(found, MAX_DECLARATIONS - len(kept))
    return PageDeclarations(base, (*stated[True], *stated[False]), noindex)


def link_headers(values: Iterable[str], is_own: Callable[[str], bool]) -> Iterator[Stated]:
    """Yield the canonicals of ``Link`` headers.

    Args:
        values: of each header.
        is_own: tells whether an ``anchor``, the resource that a link is about, is the page itself.
    """
    found = (link for value in values for link in links_of(value))
    own = (link for link in found if "canonical" in link.relations and is_own(link.anchor or ""))
    for link in islice(own, MAX_DECLARATIONS):
        yield Stated(canonical.HEADER, link.target[:MAX_READ_CHARS])


def is_noindex_header(values: Iterable[str]) -> bool:
    """Tell whether an ``X-Robots-Tag`` keeps every search engine from indexing a page.

    >>> is_noindex_header(["nofollow, NoIndex"]), is_noindex_header(["somebot: noindex"])
    (True, False)
    """
    return any(_says_noindex(value) for value in values)


def _says_noindex(value: str) -> bool:
    directives = [part.strip().lower() for part in value[:MAX_HEADER_CHARS].split(",")]
    # What follows the name of a crawler is for that one alone; times and sizes have a colon too.
    named = next((place for place, part in enumerate(directives) if ":" in part), len(directives))
    return not {"noindex", "none"}.isdisjoint(directives[:named])


def _is_noindex(element: Element) -> bool:
    return element.get("name", "").strip().lower() == "robots" and _says_noindex(element.get("content", ""))


def _declared(element: Element) -> Iterator[Stated]:
    for source, raw in _READERS[element.tag](element):
        if raw is not None and is_well_formed(raw):
            yield Stated(source, raw[:MAX_READ_CHARS], _in_head(element))


def _in_head(element: Element) -> bool:
    """Tell whether an element counts as one of the head.

    The parser has ended the head where the standard ends it: at an image, for example.
    """
    parent = element.getparent()
    return parent is not None and parent.tag == "head"


_Found = Iterator[tuple[str, str | None]]


def _of_link(element: Element) -> _Found:
    # Of an inactive part of the page nothing counts.
    inactive = any(True for _ in element.iterancestors("template", "noscript"))
    if "canonical" in element.get("rel", "").lower().split() and not inactive:
        yield canonical.LINK, element.get("href")


def _of_meta(element: Element) -> _Found:
    if "og:url" in (element.get(name, "").strip().lower() for name in ("property", "name")):
        yield canonical.OG_URL, element.get("content")


def _of_script(element: Element) -> _Found:
    if element.get("type", "").strip().lower() == "application/ld+json":
        yield from _of_json(element.text or "")


def _of_json(source: str) -> _Found:
    if len(source) > MAX_JSON_CHARS:
        return
    try:
        document = json.loads(source)
    except (ValueError, RecursionError):  # pages hold broken JSON often; it declares nothing
        return
    for node in page_nodes(document):
        main = node.get("mainEntityOfPage")
        yield canonical.JSON_LD_MAIN, _as_url(main.get("@id") if isinstance(main, dict) else main)
        yield canonical.JSON_LD_URL, _as_url(node.get("url"))


def _as_url(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


_READERS: dict[str, Callable[[Element], _Found]] = {
    "link": _of_link,
    "meta": _of_meta,
    "script": _of_script,
}


class Link(NamedTuple):
    """One link of a ``Link`` header: its target as written, its relations in lower case, its anchor."""

    target: str
    relations: tuple[str, ...]
    anchor: str | None


_BLANK = " \t"
_TOKEN = re.compile(r"[^\s;,=\"<>]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def links_of(value: str) -> list[Link]:
    r"""Parse the value of a ``Link`` header by RFC 8288, appendix B.2; what is no link is passed over.

    >>> links_of('</a>; title="x, <y>"; rel="Next canonical"')
    [Link(target='/a', relations=('next', 'canonical'), anchor=None)]
    >>> links_of('<b>; rel=canonical; rel=next, <c>;anchor="#c"')
    [Link(target='b', relations=('canonical',), anchor=None), Link(target='c', relations=(), anchor='#c')]
    """
    found: list[Link] = []
    value = value[:MAX_HEADER_CHARS]
    place = 0
    while (start := value.find("<", place)) >= 0:
        end = value.find(">", start)
        if end < 0:
            break
        parameters, place = _parameters(value, end + 1)
        relations = tuple(parameters.get("rel", "").lower().split())
        found.append(Link(value[start + 1 : end].strip(), relations, parameters.get("anchor")))
    return found


def _parameters(value: str, place: int) -> tuple[dict[str, str], int]:
    """Read parameters up to the comma that ends a link; of those with one name the first counts."""
    parameters: dict[str, str] = {}
    while place < len(value) and value[place] != ",":
        if value[place] != ";":
            place += 1
            continue
        place = _skip(value, place + 1)
        name = _TOKEN.match(value, place)
        if name is None:
            continue
        place = _skip(value, name.end())
        given = ""
        if value[place : place + 1] == "=":
            given, place = _value(value, _skip(value, place + 1))
        parameters.setdefault(name[0].lower(), given)
    return parameters, place


def _value(value: str, place: int) -> tuple[str, int]:
    quoted = _QUOTED.match(value, place)
    if quoted:
        return re.sub(r"\\(.)", r"\1", quoted[1]), quoted.end()
    token = re.compile(r"[^;,]*").match(value, place)
    return (token[0].strip(), token.end()) if token else ("", place)


def _skip(value: str, place: int) -> int:
    while place < len(value) and value[place] in _BLANK:
        place += 1
    return place
