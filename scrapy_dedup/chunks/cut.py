"""Cutting a body: what the host repeats becomes chunks of its own, and what is the page's own the others.

No chunk reaches over the edge of what is repeated, so that the repeated text is cut alike on every page. All
chunks together have every character of the body that is not white space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scrapy_dedup.chunks.blocks import MARKDOWN, Block, Headings, Kind, blocks
from scrapy_dedup.chunks.repeated import Repeated
from scrapy_dedup.chunks.split import Split, checked
from scrapy_dedup.near.paragraphs import WORDLESS


class Piece(NamedTuple):
    """A chunk of one body.

    Attributes:
        start: where it begins, in characters (code points).
        end: where it ends.
        headings: that it stands under, outermost first; those that it holds itself are not among them.
        is_shared: whether it is text that the host repeats.
    """

    start: int
    end: int
    headings: tuple[str, ...]
    is_shared: bool


class Section(NamedTuple):
    """Neighbouring blocks that are cut together: of the page's own, or repeated ones that are joined."""

    blocks: Sequence[Block]
    is_shared: bool


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts bodies.

    Attributes:
        markdown: splits Markdown.
        plain: splits plain text.
        kept: repeated blocks that match one of these stay with the page's own text.
        least_shared: characters of a run of repeated blocks; a shorter one stays with the page's own text, as
            a label that a manual repeats ("For example:") says nothing by itself.
    """

    markdown: Split
    plain: Split
    kept: tuple[re.Pattern[str], ...] = ()
    least_shared: int = 0

    def cut(self, text: str, representation: str, repeated: Repeated) -> list[Piece]:
        """Return the chunks of a body in the order in which they stand.

        Raises:
            DedupError: the splitter gave what is no part of the text.
        """
        split = self.markdown if representation == MARKDOWN else self.plain
        found = blocks(text, representation)
        own_headings = Headings(text, found)
        pieces: list[Piece] = []
        for section in self.sections(text, found, repeated):
            # What stands above repeated text differs from page to page.
            headings = Headings(text, section.blocks) if section.is_shared else own_headings
            first, last = section.blocks[0].start, section.blocks[-1].end
            inside = text[first:last]
            pieces += [
                Piece(first + start, first + end, headings.above(first + start), section.is_shared)
                for start, end in checked(inside, split(inside))
            ]
        return pieces

    def sections(self, text: str, found: Sequence[Block], repeated: Repeated) -> Iterator[Section]:
        """Yield the sections of a body; together they have all its blocks."""
        runs = self._runs(text, found, repeated)
        start = 0
        for place in range(1, len(found) + 1):
            if place == len(found) or runs[place] != runs[start]:
                yield Section(found[start:place], runs[start] is not None)
                start = place

    def _runs(self, text: str, found: Sequence[Block], repeated: Repeated) -> list[int | None]:
        """Return for each block the place of the first of its run of repeated blocks; None for own ones.

        Blocks without words, such as a rule, belong to a run when they stand inside it.
        """
        runs: list[int | None] = [None] * len(found)
        last: int | None = None  # the last block with words, where it is repeated
        for place in _repeated_places(text, found, repeated, self.kept):
            is_joined = last is not None and (found[last].key, found[place].key) in repeated.joined
            if last is not None and is_joined and _is_wordless(found[last + 1 : place]):
                runs[last + 1 : place + 1] = [runs[last]] * (place - last)
            else:
                runs[place] = place
            last = place
        return self._long_runs(found, runs)

    def _long_runs(self, found: Sequence[Block], runs: list[int | None]) -> list[int | None]:
        ends = {run: block.end for block, run in zip(found, runs, strict=True) if run is not None}
        short = {run for run, end in ends.items() if end - found[run].start < self.least_shared}
        return [None if run in short else run for run in runs]


def _repeated_places(
    text: str, found: Sequence[Block], repeated: Repeated, kept: Sequence[re.Pattern[str]]
) -> list[int]:
    """Return the places of the repeated blocks; a heading is one only before text that goes with it."""
    if not repeated.keys:
        return []
    places: list[int] = []
    following: Block | None = None  # the next block with words
    for place in range(len(found) - 1, -1, -1):
        block = found[place]
        if block.key == WORDLESS:
            continue
        if block.key in repeated.keys and not any(one.search(text, block.start, block.end) for one in kept):
            has_its_text = (
                following is not None
                and bool(places)
                and found[places[-1]] is following
                and (block.key, following.key) in repeated.joined
            )
            if block.kind is not Kind.HEADING or has_its_text:
                places.append(place)
        following = block
    return places[::-1]


def _is_wordless(found: Sequence[Block]) -> bool:
    return all(block.key == WORDLESS for block in found)
