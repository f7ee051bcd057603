"""The blocks of a text: its paragraphs with what they are, and the headings that they stand under."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scrapy_dedup.near.paragraphs import paragraphs

MARKDOWN = "markdown"

MAX_HEADING_CHARS = 300
"""Of one heading in a path; what is longer is a paragraph that somebody marked up as a heading."""


class Kind(str, enum.Enum):
    """What a block is."""

    HEADING = "heading"
    CODE = "code"
    TABLE = "table"
    LIST = "list"
    PARAGRAPH = "paragraph"


# The first that the beginning of a block matches; a block of indented code is a paragraph like any other.
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (Kind.HEADING, re.compile(r"#{1,6}(?:[ \t]|$)")),
    (Kind.CODE, re.compile(r"`{3}|~{3}")),
    (Kind.TABLE, re.compile(r"\|")),
    (Kind.LIST, re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]")),
)


class Block(NamedTuple):
    """A block of a text.

    Attributes:
        start: where it begins, in characters (code points).
        end: where it ends.
        key: a hash of its words, `scrapy_dedup.near.paragraphs.WORDLESS` where it has none.
        kind: what it is.
        level: of a heading 1 to 6, else 0.
    """

    start: int
    end: int
    key: int
    kind: Kind
    level: int


def blocks(text: str, representation: str = MARKDOWN) -> list[Block]:
    r"""Return the blocks of a text in order; all that stands between them is white space.

    Args:
        text: of a body.
        representation: of that body; only Markdown has headings, lists, tables and code.

    >>> [block.kind.value for block in blocks("# Title\n\n- one\n- two\n\nWords.")]
    ['heading', 'list', 'paragraph']
    """
    is_markdown = representation == MARKDOWN
    return [
        Block(start, end, key, kind, _level(text, start) if kind is Kind.HEADING else 0)
        for start, end, key in paragraphs(text)
        for kind in [_kind(text, start) if is_markdown else Kind.PARAGRAPH]
    ]


def _kind(text: str, start: int) -> Kind:
    return next((kind for kind, pattern in _KINDS if pattern.match(text, start)), Kind.PARAGRAPH)


def _level(text: str, start: int) -> int:
    level = 0
    while text.startswith("#", start + level):
        level += 1
    return level


class Headings:
    """The headings of a text, for the path of each place in it.

    Args:
        text: of the body.
        found: its blocks, or those of a part of it that stands alone.
    """

    def __init__(self, text: str, found: Sequence[Block]) -> None:
        self._paths = list(_paths(text, found))
        self._next = 0

    def above(self, place: int) -> tuple[str, ...]:
        """Return the headings that stand above a place, outermost first; places are asked for in order."""
        while self._next < len(self._paths) and self._paths[self._next][0] <= place:
            self._next += 1
        return self._paths[self._next - 1][1] if self._next else ()


def _paths(text: str, found: Sequence[Block]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield where the path changes: before a heading to those above it, after it to it as well."""
    above: list[tuple[int, str]] = []
    for block in found:
        if block.kind is not Kind.HEADING:
            continue
        title = heading_text(text[block.start : block.end])
        above = [one for one in above if one[0] < block.level]
        yield block.start, tuple(said for _, said in above)
        if title:
            above.append((block.level, title))
        yield block.end, tuple(said for _, said in above)


def heading_text(line: str) -> str:
    """Return what a heading says, on one line.

    >>> heading_text("## [1.0] - date ##")
    '[1.0] - date'
    """
    said = line.strip().lstrip("#")
    unclosed = said.rstrip("#")
    if not unclosed or unclosed[-1] in " \t":
        said = unclosed
    return " ".join(said.split())[:MAX_HEADING_CHARS].rstrip()
