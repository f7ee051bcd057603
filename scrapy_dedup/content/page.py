"""A page as a tree: its bytes decoded, parsed, and rid of what the extractors would trip over.

We parse the page ourselves. The extractor's own loader knows neither the HTTP charset nor a page nested
deeper than 256 elements, and it rejects fragments that lack ``<html>``. Then the tree is prepared
(`PREPARATIONS`): what no visitor sees is dropped, so is what a site repeats around its text, and sections
get rid of ids that would make the extractor throw them away.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import lxml.etree
import lxml.html

from scrapy_dedup.content.extraction import Payload

# lxml has no types; an element, as far as the type checker goes.
Element = Any

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")

_SINGLE_BYTE = re.compile(
    r"ascii|iso8859-\d+|cp(125\d|437|85\d|86\d|874)|koi8-[rtu]|mac-\w+|hp-roman8|tis-620|latin-1"
)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a payload and what was odd about reading it."""

    text: str
    flags: tuple[str, ...]


def decode(payload: Payload) -> Decoded:
    """Return the text of a payload.

    The crawler's encoding is used, with one exception: a body that has bytes above 127 and is valid UTF-8 to
    the last one, but declared as a single-byte charset, is UTF-8 (flag ``charset_suspect``). NUL characters
    are dropped, as HTML parsers do. An encoding that decodes nothing (flag ``charset_unusable``) gives way
    to UTF-8.
    """
    if _is_mislabelled(payload):
        return Decoded(_cleaned(payload.body.decode("utf-8")), ("charset_suspect",))
    try:
        return Decoded(_cleaned(payload.body.decode(payload.encoding, "replace")), ())
    except (LookupError, ValueError):
        return Decoded(_cleaned(payload.body.decode("utf-8", "replace")), ("charset_unusable",))


def parse(text: str) -> Element | None:
    """Return the root of the page's tree, or None when there is nothing to parse.

    Comments and processing instructions are left out.

    Raises:
        RecursionError: the parser stopped in the middle, at an element nested more than 2,048 deep.
    """
    # A parser for each page: the libxml2 dictionary of a parser keeps every name that it ever saw.
    parser = lxml.html.HTMLParser(
        huge_tree=True, collect_ids=False, remove_comments=True, remove_pis=True, encoding="utf-8"
    )
    try:
        root = lxml.html.document_fromstring(text.encode("utf-8"), parser=parser)
    except lxml.etree.ParserError:  # an empty document
        return None
    if any(entry.type == lxml.etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log):
        raise RecursionError("the page is nested too deep")  # its end is missing from the tree
    return root


def prepare(root: Element) -> None:
    """Apply every one of `PREPARATIONS` to the tree, in place."""
    for preparation in PREPARATIONS:
        preparation(root)


def is_hidden(element: Element) -> bool:
    """Tell whether the element itself says that it is not shown."""
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    style = element.get("style")
    return style is not None and _NOT_SHOWN.search(style) is not None


def _cleaned(text: str) -> str:
    return text.replace("\0", "").removeprefix("\ufeff")


def _is_mislabelled(payload: Payload) -> bool:
    if payload.body.isascii() or not _is_single_byte(payload.declared_charset or payload.encoding):
        return False
    try:
        payload.body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_single_byte(charset: str) -> bool:
    try:
        return _SINGLE_BYTE.fullmatch(codecs.lookup(charset).name) is not None
    except LookupError:
        return False


_NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)

# Only shown where scripts do not run ("enable JavaScript"), or never.
_NEVER_SHOWN = ("noscript", "noframes", "template")

# Around the text by definition.
_LANDMARKS = frozenset({"nav", "footer", "aside"})
_LANDMARK_ROLES = frozenset(
    {"navigation", "contentinfo", "search", "dialog", "alertdialog", "complementary", "banner"}
)

# Whole tokens of id and class that name what sites put around their text.
_AROUND_TEXT = re.compile(
    "|".join(
        (
            r"(?:cookies?|consent|gdpr)[-_]?(?:banner|bar|notice|consent|popup|modal|dialog|message|overlay|wall)",
            r"privacy[-_]?(?:banner|bar|popup|modal|dialog|overlay|wall)",
            r"onetrust-\S+|cookiebot\S*|usercentrics\S*",
            r"(?:left|right|site|page)?[-_]?side[-_]?bar|side[-_]?nav",
            r"(?:site|page|global|main|primary)?[-_]?(?:footer|nav|navigation|navbar)",
            r"ads?|ad[-_](?:slot|unit|banner|container|box|wrapper)|adsbygoogle|advert(?:s|isement)?|sponsored",
            r"related[-_](?:links|posts|articles|pages|stories|content)|breadcrumbs?",
        )
    ),
    re.IGNORECASE,
)
# These are around the text only while they stand outside of it; inside, the page is about them.
_AROUND_MAIN = re.compile(
    r"legal[-_](?:notice|text|line|footer)|copyright|disclaimer|privacy[-_]?(?:notice|message|consent)",
    re.IGNORECASE,
)
_CONTAINERS = frozenset({"div", "section", "ul", "ol", "p", "span", "ins", "aside", "table", "form"})
_HOLDS_THE_TEXT = lxml.etree.XPath("boolean(self::main|self::article|self::body|.//h1|.//main|.//article)")

# Callouts are written as <aside> by some documentation tools; the extractor drops every <aside>.
_CALLOUT = re.compile(
    r"\b(?:admonition|callout|starlight-aside|note|notice|tip|hint|important|caution|warning|danger)\b"
)

# What highlighters call the cell beside a listing.
_LINE_NUMBERS = re.compile(r"\b(?:linenos?|gutter)\b")

_PERMALINKS = frozenset(
    {"\u00b6", "#", "\u00a7", "\U0001f517", "\uf0c1"}
)  # pilcrow, hash, section, link, Font Awesome

_MAIN_AREA = lxml.etree.XPath("boolean(ancestor::main|ancestor::article|ancestor::*[@role='main'])")


def _keep_callouts(root: Element) -> None:
    """Turn callouts into plain blocks before anything is dropped for being an aside."""
    for aside in list(root.iter("aside")):
        named = f"{aside.get('class', '')} {aside.get('role', '')}".lower()
        if _CALLOUT.search(named) and _MAIN_AREA(aside):
            aside.tag = "div"
            for name in ("class", "id", "role"):
                aside.attrib.pop(name, None)


def _open_panels(root: Element) -> None:
    """Show what a visitor opens with a click: panels behind tabs, and what the browser unfolds to find it."""
    for panel in root.xpath("//*[@role='tabpanel' or @hidden='until-found']"):
        for name in ("hidden", "aria-hidden"):
            panel.attrib.pop(name, None)
        panel.set("style", _NOT_SHOWN.sub("", panel.get("style", "")))


def _unwrap_numbered_code(root: Element) -> None:
    """Put code in the place of the table that gives it line numbers; in a cell it would lose its lines."""
    for numbers in list(root.iter("td")):
        if not _LINE_NUMBERS.search(numbers.get("class", "")):
            continue
        row, beside, table = (
            numbers.getparent(),
            numbers.getnext(),
            next(numbers.iterancestors("table"), None),
        )
        code = None if beside is None else next(beside.iter("pre"), None)
        if code is None or table is None or table.getparent() is None:
            continue
        if row.getprevious() is not None or row.getnext() is not None:
            continue  # several listings, or one row for each line
        code.tail = table.tail
        table.getparent().replace(table, code)


def _flatten_lists_in_cells(root: Element) -> None:
    """Make lines of the lists in table cells: the extractor drops lists there."""
    for cell in root.iter("td"):
        if next(cell.iter("table"), None) is not None:
            continue  # a cell that lays out a part of the page
        for element in cell.iter("ul", "ol", "dl"):
            element.tag = "span"
            for entry in element.iterchildren("li", "dt", "dd"):
                entry.tag = "span"
                _break_line(entry, 0)
            _break_line(element, len(element))


def _break_line(element: Element, place: int) -> None:
    line_break = lxml.html.Element("br")
    if place == 0:
        line_break.tail, element.text = element.text, None
    element.insert(place, line_break)


def _drop_permalinks(root: Element) -> None:
    """Drop the sign that documentation tools put behind each heading to link to it."""
    _drop(link for link in root.iter("a") if link.text in _PERMALINKS and link.getparent().tag in HEADINGS)


def _unhide_sections(root: Element) -> None:
    """Remove ids that a documentation tool made from a heading.

    The extractor drops a section for a part of its id: ``old-branches-or-tags`` for "tags". An id that only
    repeats the section's heading says nothing about what the section is. A single word may well be a role
    (``related``, ``share``), so it has to stand inside the main text.
    """
    for element in root.iter("section", "div", "article", "span"):
        identity = element.get("id")
        if identity and _repeats_heading(element, identity):
            del element.attrib["id"]


def _repeats_heading(element: Element, identity: str) -> bool:
    heading = element.getparent() if element.tag == "span" else next(iter(element), None)
    if heading is None or heading.tag not in HEADINGS:
        return False
    slug = _slug(identity)
    if not slug or not _slug("".join(heading.itertext())).endswith(slug):
        return False
    return bool(re.search(r"\w[-_.]\w", identity)) or bool(_MAIN_AREA(element))


def _slug(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()


def _drop_unseen(root: Element) -> None:
    """Drop what no visitor sees."""
    _drop(root.iter(*_NEVER_SHOWN))
    _drop(
        element for element in root.iter() if element.attrib and is_hidden(element) and element.tag != "body"
    )


def _drop_surroundings(root: Element) -> None:
    """Drop what a site puts around its text: a page of few words would else be mostly that."""
    _drop(element for element in root.iter() if _is_around(element) and not _HOLDS_THE_TEXT(element))


def _is_around(element: Element) -> bool:
    if element.tag in _LANDMARKS:
        return True
    if element.tag == "header":
        return not _MAIN_AREA(element)  # inside the main text it introduces that text
    if not element.attrib:
        return False
    if element.get("role") in _LANDMARK_ROLES:
        return True
    if element.tag not in _CONTAINERS:
        return False
    names = f"{element.get('id', '')} {element.get('class', '')}".split()
    return any(map(_is_around_text, names)) or (any(map(_is_around_main, names)) and not _MAIN_AREA(element))


@functools.lru_cache(maxsize=8192)
def _is_around_text(name: str) -> bool:
    return _AROUND_TEXT.fullmatch(name) is not None


@functools.lru_cache(maxsize=8192)
def _is_around_main(name: str) -> bool:
    return _AROUND_MAIN.fullmatch(name) is not None


def _drop(elements: Iterator[Element]) -> None:
    for element in list(elements):
        if element.getparent() is not None:
            element.drop_tree()  # the text after the element stays


# The order matters: what would be lost is saved before anything is dropped.
PREPARATIONS: tuple[Callable[[Element], None], ...] = (
    _keep_callouts,
    _open_panels,
    _unwrap_numbered_code,
    _flatten_lists_in_cells,
    _drop_permalinks,
    _unhide_sections,
    _drop_unseen,
    _drop_surroundings,
)
