"""Prose from a seeded grammar: it reads like a shop, a handbook or a news page, and no sentence repeats."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path

_SLOT = re.compile(r"\{(\w+)\}")

# Sentence patterns of each genre, and words for their slots; a page gives {name}, {noun} and {topic}.
_WORDS = json.loads((Path(__file__).parent / "grammar.json").read_text(encoding="utf-8"))
GRAMMAR: Mapping[str, tuple[str, ...]] = {
    **{slot: tuple(choices) for slot, choices in _WORDS.items()},
    "number": tuple(str(number) for number in range(11, 97)),
}


class Writer:
    """Writes paragraphs; no sentence leaves it twice.

    Args:
        seed: equal seeds write equal texts, in the order asked for.
        after: a writer whose sentences shall not come again either.
    """

    def __init__(self, seed: str, after: Writer | None = None) -> None:
        self._random = random.Random(seed)
        self._written: set[str] = set(after._written) if after else set()

    def paragraphs(
        self, genre: str, given: Mapping[str, str], *, count: int = 3
    ) -> tuple[tuple[str, ...], ...]:
        """Return ``count`` paragraphs of three new sentences, cycling through the patterns of a genre."""
        patterns = list(GRAMMAR[genre])
        self._random.shuffle(patterns)
        sentences = [self._new_sentence(patterns[i % len(patterns)], given) for i in range(3 * count)]
        return tuple(tuple(sentences[i : i + 3]) for i in range(0, len(sentences), 3))

    def _new_sentence(self, pattern: str, given: Mapping[str, str]) -> str:
        while True:
            text = self._expand(pattern, given)
            if text not in self._written:
                self._written.add(text)
                return text[0].upper() + text[1:]

    def _expand(self, pattern: str, given: Mapping[str, str]) -> str:
        def fill(slot: re.Match[str]) -> str:
            name = slot[1]
            return given[name] if name in given else self._expand(self._random.choice(GRAMMAR[name]), given)

        return _SLOT.sub(fill, pattern)
