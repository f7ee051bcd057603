"""Paragraphs of a text, with their places and with keys that tell when two say the same.

A paragraph is what blank lines set apart in Markdown or plain text; a heading and a fenced block of code are
paragraphs of their own. A text without any blank line has a paragraph on each line, which is how extractors
write plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scrapy_dedup.near.shingles import Hashes, mix, word_hashes

_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_STEP = np.uint64(0x9E6C63D0876A9A63)  # odd, as a multiplier modulo 2**64 has to be

WORDLESS = 0
"""The key of a paragraph that has no words, such as a rule or an image."""


class Paragraph(NamedTuple):
    """A paragraph of a text.

    Attributes:
        start: where it begins, in characters (code points).
        end: where it ends, without the line end.
        key: a hash of its words in order, 0 to 2**64 - 1; markup, case and white space do not count.
    """

    start: int
    end: int
    key: int


def paragraphs(text: str) -> list[Paragraph]:
    r"""Return the paragraphs of a text in order; all that stands between them is white space.

    >>> text = "# Title\n\nSome words.\nMore words."
    >>> [text[one.start : one.end] for one in paragraphs(text)]
    ['# Title', 'Some words.\nMore words.']
    """
    places = list(_places(text))
    keys = paragraph_keys([text[start:end] for start, end in places]).tolist()
    return [Paragraph(start, end, key) for (start, end), key in zip(places, keys, strict=True)]


def paragraph_keys(texts: Sequence[str]) -> Hashes:
    """Return the keys of some paragraphs: a polynomial hash of the hashes of their words.

    The keys are part of what a ledger stores, so they change with neither process, platform nor version.
    """
    words, offsets = word_hashes(texts)
    counts = np.diff(offsets)
    keys = np.full(len(counts), WORDLESS, np.uint64)
    spoken = np.flatnonzero(counts)
    if len(spoken) == 0:
        return keys
    powers = np.cumprod(np.full(int(counts.max()), _STEP))
    places = np.arange(len(words)) - np.repeat(offsets[:-1], counts)
    sums = np.add.reduceat(words * powers[places], offsets[:-1][spoken])
    keys[spoken] = mix(sums)
    return keys


def _places(text: str) -> Iterator[tuple[int, int]]:
    """Yield where paragraphs start and end."""
    by_line = _BLANK_LINE.search(text) is None
    open_since: int | None = None
    end = 0
    fence = ""  # what opened the block of code that is open
    for line_start, line in _lines(text):
        stripped = line.strip()
        opening = _FENCE.match(line)
        is_alone = by_line or not stripped or opening is not None or _HEADING.match(line) is not None
        if open_since is not None and is_alone and not fence:
            yield open_since, end
            open_since = None
        if not stripped:
            continue
        if open_since is None:
            open_since = line_start + line.index(stripped)
        end = line_start + len(line.rstrip())
        if fence:
            is_whole = len(stripped) >= len(fence) and not stripped.strip(fence[0])
            fence = "" if is_whole else fence
        else:
            fence = opening[1] if opening else ""
            is_whole = is_alone and not fence
        if is_whole:
            yield open_since, end
            open_since = None
    if open_since is not None:
        yield open_since, end


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its place; only a line feed ends one."""
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1
