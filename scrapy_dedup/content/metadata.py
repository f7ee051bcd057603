"""What a page states about itself, each value with the place that states it.

trafilatura reads metadata too, but it does not say where a value stands, and it guesses dates from the text
and the URL. A guess is not a statement; here a value is taken as found or not at all. The places for each
field are rows of `PLACES`, the best first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from scrapy_dedup.content.extraction import PageMetadata
from scrapy_dedup.content.licences import spdx_id
from scrapy_dedup.content.normalise import is_well_formed
from scrapy_dedup.content.page import Element
from scrapy_dedup.records import Sourced

MAX_VALUE_CHARS = 1_000

# A page can hold any amount of JSON-LD of any depth; descriptions of the page itself are small and near the
# top.
MAX_JSON_CHARS = 500_000
MAX_JSON_NODES = 500

PLACES: dict[str, tuple[str, ...]] = {
    "title": ("meta:og:title", "title", "h1", "json-ld:headline"),
    "byline": (
        "meta:author",
        "meta:article:author",
        "meta:dc.creator",
        "json-ld:author",
        "itemprop:author",
        "rel:author",
    ),
    "site_name": ("meta:og:site_name", "meta:application-name"),
    "language_declared": ("html:lang", "html:xml:lang", "http-equiv:content-language", "meta:og:locale"),
    "license": ("rel:license", "meta:dc.rights", "json-ld:license"),
    "free_access": ("json-ld:isAccessibleForFree",),
    "date_published": (
        "meta:article:published_time",
        "json-ld:datePublished",
        "itemprop:datePublished",
        "time:pubdate",
        "meta:date",
        "meta:dc.date",
        "meta:dcterms.created",
    ),
    "date_modified": (
        "meta:article:modified_time",
        "meta:og:updated_time",
        "json-ld:dateModified",
        "itemprop:dateModified",
        "meta:last-modified",
        "meta:dcterms.modified",
    ),
}

# An author given as a URL (a profile page) is a link, not a name.
_URL = re.compile(r"https?://", re.IGNORECASE)

_JSON_FIELDS = ("headline", "author", "license", "datePublished", "dateModified", "isAccessibleForFree")
# Types that describe the page or its text, not a comment, review or product on it.
_PAGE_TYPE = re.compile(
    r"(?:.*Article|.*Posting|.*Page|Report|CreativeWork|Book|Recipe|HowTo|Course|Dataset|Legislation)"
)


def metadata(root: Element) -> PageMetadata:
    """Return what the page states; what it does not state is None. Call it before the tree is prepared."""
    stated: dict[str, str] = {}
    identifiers: set[str] = set()
    for place, value in _statements(root):
        tidy = " ".join(value.split())[:MAX_VALUE_CHARS]
        if tidy and is_well_formed(tidy):
            stated.setdefault(place, tidy)
            if place in PLACES["license"]:
                identifiers.update(filter(None, (spdx_id(tidy),)))
    fields = {field: _first(stated, field, places) for field, places in PLACES.items()}
    return PageMetadata(**fields, license_spdx=_one_licence(fields["license"], identifiers))


def _one_licence(stated: Sourced | None, identifiers: set[str]) -> str | None:
    """Return the identifier of the licence of a page, unless it states several, of which any may hold."""
    return spdx_id(stated.value) if stated and len(identifiers) == 1 else None


def _first(stated: dict[str, str], field: str, places: tuple[str, ...]) -> Sourced | None:
    for place in places:
        value = stated.get(place)
        if value is not None and not (field == "byline" and _URL.match(value)):
            return Sourced(value, place)
    return None


def _statements(root: Element) -> Iterator[tuple[str, str]]:
    yield "html:lang", root.get("lang", "")
    yield "html:xml:lang", root.get("xml:lang", "")
    for element in root.iter("meta", "title", "h1", "link", "a", "time", "span", "div", "p", "script"):
        yield from _of_element(element)


def _of_element(element: Element) -> Iterator[tuple[str, str]]:
    tag = element.tag
    if tag == "meta":
        yield from _of_meta(element)
    elif tag == "title" and element.getparent().tag != "svg":
        yield "title", element.text_content()
    elif tag == "h1":
        yield "h1", element.text_content()
    elif tag == "script":
        if element.get("type", "").strip().lower() == "application/ld+json":
            yield from _of_json(element.text or "")
    elif element.attrib:
        yield from _of_attributes(element)


def _of_meta(element: Element) -> Iterator[tuple[str, str]]:
    content = element.get("content", "")
    for attribute in ("property", "name"):
        if element.get(attribute):
            yield f"meta:{element.get(attribute).strip().lower()}", content
    if element.get("http-equiv"):
        yield f"http-equiv:{element.get('http-equiv').strip().lower()}", content
    if element.get("itemprop"):
        yield f"itemprop:{element.get('itemprop').strip()}", content


def _of_attributes(element: Element) -> Iterator[tuple[str, str]]:
    for relation in element.get("rel", "").lower().split():
        if relation == "license":
            yield "rel:license", element.get("href", "")
        elif relation == "author" and element.tag == "a":
            yield "rel:author", element.text_content()
    if element.tag == "time" and element.get("pubdate") is not None:
        yield "time:pubdate", element.get("datetime") or element.text_content()
    prop = element.get("itemprop")
    if prop in {"author", "datePublished", "dateModified"}:
        yield f"itemprop:{prop}", element.get("content") or element.get("datetime") or element.text_content()


def _of_json(source: str) -> Iterator[tuple[str, str]]:
    if len(source) > MAX_JSON_CHARS:
        return
    try:
        document = json.loads(source)
    except (ValueError, RecursionError):  # pages hold broken JSON often; it states nothing
        return
    for node in page_nodes(document):
        for name in _JSON_FIELDS:
            yield f"json-ld:{name}", _as_text(node.get(name))


def page_nodes(document: object) -> Iterator[dict[str, Any]]:
    """Yield the objects that describe the page: top ones, those of a ``@graph``, a main entity."""
    queue = [document]
    for _ in range(MAX_JSON_NODES):
        if not queue:
            return
        node = queue.pop(0)
        if isinstance(node, list):
            queue.extend(node[:MAX_JSON_NODES])
        elif isinstance(node, dict):
            types = node.get("@type")
            names = types if isinstance(types, list) else [types]
            if any(isinstance(name, str) and _PAGE_TYPE.fullmatch(name) for name in names):
                yield node
            queue.extend(node[key] for key in ("@graph", "mainEntity") if key in node)


def _as_text(value: object) -> str:
    """Return a JSON-LD value as text: a string, the name of a thing, or several of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        name = value.get("name") or value.get("url")
        return name if isinstance(name, str) else ""
    if isinstance(value, list):
        return ", ".join(
            filter(None, (_as_text(entry) for entry in value[:20] if not isinstance(entry, list)))
        )
    return ""
