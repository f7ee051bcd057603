"""A small site in a ledger, whose pages come, change and go; and vectors that need no model."""

from __future__ import annotations

import hashlib
import math

import pytest

from ..jobs.conftest import Site


def section(heading: str, about: str) -> str:
    """Return a section that becomes a chunk of its own."""
    return f"# {heading}\n\n" + " ".join(
        f"{about} is told here, part {part} of five." for part in range(1, 6)
    )


class SmallChunks(Site):
    """The site, in chunks of a section each."""

    def chunks(self):
        return super().chunks(size=300).records

    def plan(self):
        """Return the lines of a plan, which is confirmed at once."""
        return super().plan(apply=True, size=300).records


@pytest.fixture
def site(tmp_path):
    return SmallChunks(tmp_path)


class Embedder:
    """Turns a string into a vector by the digests of its words, and counts the strings that it was given."""

    def __init__(self) -> None:
        self.seen = []

    def embed(self, text: str) -> list[float]:
        self.seen.append(text)
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[hashlib.sha256(word.encode()).digest()[0] % 64] += 1.0
        length = math.sqrt(sum(value * value for value in vector)) or 1.0
        return [value / length for value in vector]


@pytest.fixture
def embedder():
    return Embedder()
