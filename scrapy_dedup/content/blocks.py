"""The visible text of a page block by block, and the prose among it that the main text lacks.

The extractor can lose a section. Then two pages have the same main text and still are not the same page. What
tells them apart is the *residual prose*: blocks of at least `PROSE_WORDS` words outside landmarks and links
that are absent from the main text. What changes at every visit (`_VOLATILE`) does not count as a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import lxml.etree

from scrapy_dedup.content.digest import sha256_id
from scrapy_dedup.content.page import HEADINGS, Element, is_hidden
from scrapy_dedup.near.shingles import size_in_words, tokens

# Labels, buttons and bylines are shorter; a sentence that says something is rarely so.
PROSE_WORDS = 8

# What is remembered of the main text to look for prose in it: some 100 MB at the most.
MAX_RUN_TOKENS = 5_000_000


def _names(spelled: str) -> frozenset[str]:
    return frozenset(spelled.split())


_INLINE = _names(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i ins kbd label mark q rp rt ruby s"
    " samp small span strike strong sub sup time tt u var wbr"
)
_OUTSIDE = _names(
    "nav header footer aside script style template noscript noframes head title svg math select option"
    " datalist button textarea input iframe object embed video audio canvas dialog"
)
_OUTSIDE_ROLES = _names(
    "navigation banner contentinfo complementary search dialog alertdialog menu menubar toolbar"
)


@dataclass(frozen=True, slots=True)
class Block:
    """A run of text without a block element in between.

    Attributes:
        tag: the element that holds it.
        text: all of it, white space as single spaces.
        unlinked: the part of it outside links.
    """

    tag: str
    text: str
    unlinked: str


def blocks(root: Element) -> Iterator[Block]:
    """Yield the blocks of a tree in order, leaving out landmarks, controls and what is hidden."""
    collected = _Collected()
    walk = lxml.etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            if element.tag not in _INLINE:
                yield from collected.flush(element.getparent())
            collected.links -= element.tag == "a"
            collected.add(element.tail)
            continue
        if element.tag not in _INLINE:
            yield from collected.flush(element)
        collected.links += element.tag == "a"
        if _is_outside(element):
            walk.skip_subtree()  # its end, and with it the text after it, still comes
        else:
            collected.add(element.text)
    yield from collected.flush(None)


def residual_digest(found: Iterable[Block], main: str, heading: str | None = None) -> str | None:
    """Return the digest of the prose that the main text lacks; None says that it lacks none.

    The heading of the page counts where the main text has none at all: two models of one product may share
    every other word. Where it has one, a first heading outside it is the name of the site.
    """
    words = spoken(main)
    lacking = _lacking([block.text for block in found if is_prose(block)], words)
    if heading and not _MARKDOWN_HEADING.search(main) and not _stands_in(comparable(heading), words):
        lacking.insert(0, heading)
    if not lacking:
        return None
    steady = "\n".join(" ".join(comparable(_without_volatile(text))) for text in lacking)
    return sha256_id(steady.encode("utf-8"))


def is_prose(block: Block) -> bool:
    """Tell whether a block has at least `PROSE_WORDS` words outside links; numbers and dates are none."""
    return size_in_words(word for word in comparable(block.unlinked) if _is_word(word)) >= PROSE_WORDS


def as_markdown(found: Iterable[Block]) -> str:
    """Return blocks as Markdown paragraphs, headings and list items."""
    return "\n\n".join(_MARKS.get(block.tag, "") + block.text for block in found)


def first_heading(root: Element) -> str | None:
    """Return the first visible first-level heading of a page, also one in its header."""
    for heading in _HEADINGS(root):
        text = " ".join("".join(heading.itertext()).split())
        if text and not is_hidden(heading):
            return text
    return None


def spoken(main: str) -> list[str]:
    """Return the tokens of a Markdown text that a reader sees; the targets of its links are none."""
    return comparable(_LINK_TARGET.sub("]", main))


def comparable(text: str) -> list[str]:
    """Return the tokens of a text without the invisible characters that the extractor removes."""
    return tokens(_INVISIBLE.sub("", text))


_MARKS = {**{tag: "#" * level + " " for level, tag in enumerate(HEADINGS, 1)}, "li": "- "}

_HEADINGS = lxml.etree.XPath(
    "//h1[not(ancestor::*[self::nav or self::footer or self::aside or self::dialog or @hidden])]"
)
_MARKDOWN_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_LINK_TARGET = re.compile(r"\]\([^()\s]*\)")

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")

_CALENDAR = _names(
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun"
    " january february march april may june july august september october november december"
    " jan feb mar apr jun jul aug sep sept oct nov dec am pm utc gmt"
)

_NAMED = "|".join(sorted(_CALENDAR))
_DATE = (
    rf"(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|\d{{1,2}}\.? (?:{_NAMED})\.? \d{{4}}|(?:{_NAMED})\.? \d{{1,2}},? \d{{4}})"
)
# What differs between two visits to one page, and by what it is known. A date alone is a statement ("closed
# on 3 June"), and so is an hour ("opens at 9:00"): a time stamp is a date with an hour, or a time to the
# second. Seconds that something took to make are no statement either, seconds to wait are one.
_VOLATILE = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:\b(?:{_NAMED})\b,? )?\b{_DATE}(?:,? at |,? |t)\d{{1,2}}:\d{{2}}(?::\d{{2}})?[\d.]*",
        rf"\b(?:(?:{_NAMED})\b[,.]? ){{0,4}}\d{{1,2}}:\d{{2}}:\d{{2}}[\d.]*",
        r"\b(?:in|took|time:?) \d+(?:\.\d+)? ?(?:ms|milliseconds?|s|secs?|seconds?)\b",
        r"\b\d+(?:\.\d+)? ?(?:seconds?|minutes?|hours?|days?) ago\b",
        r"\b(?=\w*\d)(?=\w*[a-z])[\w-]{16,}",  # tokens, request ids, UUIDs
    )
)


def _without_volatile(text: str) -> str:
    for pattern in _VOLATILE:
        text = pattern.sub(" ", text)
    return text


def _is_word(token: str) -> bool:
    return token not in _CALENDAR and not any(map(str.isdigit, token))


def _stands_in(words: Sequence[str], text: Sequence[str]) -> bool:
    return f" {' '.join(words)} " in f" {' '.join(text)} "


def _lacking(texts: Sequence[str], said: Sequence[str]) -> list[str]:
    """Return the pieces of prose whose words do not stand in a row among the words of the main text.

    Where each can begin is found in one pass over the main text; to search it for each piece would take a
    minute on a page of three megabytes. Only pieces that could begin nearly everywhere are searched for.
    """
    sought = [comparable(text) for text in texts]
    places = _places_of({tuple(words[:PROSE_WORDS]) for words in sought}, said)
    runs: dict[tuple[tuple[str, ...], int], set[tuple[str, ...]]] = {}
    room = MAX_RUN_TOKENS
    lacking = []
    for text, words in zip(texts, sought, strict=True):
        head, size = tuple(words[:PROSE_WORDS]), len(words)
        if (head, size) not in runs:  # once for all pieces that begin alike, as the entries of a list do
            begins = places.get(head, ())
            room -= len(begins) * size
            if room < 0:
                room += len(begins) * size
                if not _stands_in(words, said):
                    lacking.append(text)
                continue
            runs[head, size] = {tuple(said[place : place + size]) for place in begins}
        if tuple(words) not in runs[head, size]:
            lacking.append(text)
    return lacking


def _places_of(heads: set[tuple[str, ...]], said: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    places: dict[tuple[str, ...], list[int]] = {}
    for place in range(len(said) - PROSE_WORDS + 1):
        head = tuple(said[place : place + PROSE_WORDS])
        if head in heads:
            places.setdefault(head, []).append(place)
    return places


def _is_outside(element: Element) -> bool:
    if element.tag in _OUTSIDE:
        return True
    return bool(element.attrib) and (element.get("role") in _OUTSIDE_ROLES or is_hidden(element))


class _Collected:
    """The block that is being put together."""

    def __init__(self) -> None:
        self.tag = "p"
        self.links = 0
        self._parts: list[str] = []
        self._unlinked: list[str] = []

    def add(self, text: str | None) -> None:
        if text:
            self._parts.append(text)
            if not self.links:
                self._unlinked.append(text)

    def flush(self, next_holder: Element | None) -> Iterator[Block]:
        text = " ".join("".join(self._parts).split())
        if text:
            yield Block(self.tag, text, " ".join("".join(self._unlinked).split()))
        self._parts.clear()
        self._unlinked.clear()
        self.tag = "p" if next_holder is None else next_holder.tag
