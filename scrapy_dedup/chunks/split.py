"""How a text is split: ``split(text) -> [(start, end)]``, in characters (code points), end-exclusive.

What a splitter gives is checked, and what it leaves out becomes a chunk: no text is lost by any of them.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from scrapy_dedup.chunks.blocks import MARKDOWN
from scrapy_dedup.errors import DedupError

Spans = Sequence[tuple[int, int]]
Split = Callable[[str], Spans]

MAX_AT_ONCE = 50_000
"""Characters that one call of the default splitter gets: it takes time quadratic in the length of a text
without any white space, or of one full of headings."""


def by_size(size: int, representation: str = MARKDOWN) -> Split:
    """Return the default: the largest units of meaning with at most ``size`` characters."""
    return _in_parts((MarkdownSplitter if representation == MARKDOWN else TextSplitter)(size), size)


def by_tokens(size: int, tokenizer: str, representation: str = MARKDOWN) -> Split:
    """Return the same in tokens of a Hugging Face tokenizer, given as the text of its ``tokenizer.json``.

    Raises:
        ValueError: it is no such file.
    """
    maker = MarkdownSplitter if representation == MARKDOWN else TextSplitter
    try:
        splitter = maker.from_huggingface_tokenizer_str(tokenizer, size)
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"no tokenizer can be made of it ({error!s:.200})") from error
    return _in_parts(splitter, size)


def _in_parts(splitter: Any, size: int) -> Split:
    most = max(MAX_AT_ONCE, 20 * size)

    def split(text: str) -> Spans:
        return [
            (part_start + start, part_start + start + len(chunk))
            for part_start, part_end in _parts(text, most)
            for start, chunk in splitter.chunk_indices(text[part_start:part_end])
        ]

    return split


def _parts(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yield parts of at most so many characters, cut where the text is most likely to allow it."""
    start = 0
    while len(text) - start > most:
        end = _cut_before(text, start + most // 2, start + most)
        yield start, end
        start = end
    yield start, len(text)


def _cut_before(text: str, low: int, high: int) -> int:
    """Return a place to cut at: before a heading, after a blank line, a line, a word, or where it must be."""
    for sign, past in (("\n#", 1), ("\n\n", 2), ("\n", 1), (". ", 2), (" ", 1)):
        found = text.rfind(sign, low, high)
        if found >= 0:
            return found + past
    return high


def of_framework(splitter: Any) -> Split:
    """Return the split of a LangChain text splitter, or of whatever has its ``split_text(text) -> [str]``.

    The frameworks give strings. Each is looked for after the one before it, less the overlap, so that its
    place is right where sentences are repeated too.
    """
    in_characters = getattr(splitter, "_length_function", len) is len
    overlap = int(getattr(splitter, "_chunk_overlap", 0)) if in_characters else None

    def split(text: str) -> Spans:
        found: list[tuple[int, int]] = []
        earliest = 0
        for chunk in splitter.split_text(text):
            said = str(getattr(chunk, "page_content", chunk))
            start = text.find(said, earliest)
            if not said or start < 0:
                raise DedupError(
                    f"the splitter {type(splitter).__name__} gave {said!r:.60}, which is no part of the "
                    "text; chunks have to be cut from it, not written anew"
                )
            found.append((start, start + len(said)))
            earliest = start + 1 if overlap is None else max(start + 1, start + len(said) - overlap)
        return found

    return split


def load(name: str) -> Split:
    """Return the split that ``package.module:name`` names: a function, or an object with ``split_text``.

    Raises:
        ValueError: there is none.
    """
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name!r} cannot be imported ({error})") from error
    if hasattr(found, "split_text") and not isinstance(found, type):
        return of_framework(found)
    if not callable(found) or isinstance(found, type):
        raise ValueError(f"{name!r} is neither a function split(text) nor an object with split_text(text)")
    splitter: Split = found
    return splitter


def checked(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans of a splitter in order, with what it left out as spans of their own.

    Raises:
        DedupError: a span does not lie in the text.
    """
    found = sorted({(int(start), int(end)) for start, end in spans})
    for start, end in found:
        if not 0 <= start < end <= len(text):
            raise DedupError(
                f"the splitter gave the span ({start}, {end}) of a text with {len(text):,} characters; "
                "spans need 0 <= start < end <= len(text)"
            )
    kept = [span for span in found if not text[span[0] : span[1]].isspace()]
    return sorted([*kept, *_left_out(text, kept)])


def _left_out(text: str, spans: Spans) -> Iterator[tuple[int, int]]:
    covered = 0
    for start, end in itertools.chain(spans, [(len(text), len(text))]):
        gap = text[covered:start]
        if gap and not gap.isspace():
            yield start - len(gap.lstrip()), start - len(gap) + len(gap.rstrip())
        covered = max(covered, end)
