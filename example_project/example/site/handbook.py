"""The handbook: chapters in three versions that differ in a few words, and the preamble of every guide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

VERSIONS = (1, 2, 3)

# {6|6|8} is 6 in the versions 1 and 2, and 8 in version 3.
_WORDING = re.compile(r"\{([^}]+)\}")

_HANDBOOK = json.loads((Path(__file__).parent / "handbook.json").read_text(encoding="utf-8"))
PREAMBLE: tuple[tuple[str, ...], ...] = tuple(map(tuple, _HANDBOOK["preamble"]))


class Chapter(NamedTuple):
    """A chapter in one version; there is a heading for each paragraph."""

    name: str
    version: int
    title: str
    headings: tuple[str, ...]
    paragraphs: tuple[tuple[str, ...], ...]


def chapters() -> Iterator[Chapter]:
    """Yield every chapter in every version; no two of them are equal."""
    for name, chapter in _HANDBOOK["chapters"].items():
        for version in VERSIONS:
            headings, paragraphs = zip(
                *((heading, _worded(text, version)) for heading, *text in chapter["sections"]), strict=True
            )
            yield Chapter(name, version, chapter["title"], headings, paragraphs)


def _worded(sentences: Sequence[str], version: int) -> tuple[str, ...]:
    return tuple(
        _WORDING.sub(lambda found: found[1].split("|")[version - 1], sentence) for sentence in sentences
    )
