"""The ways to make a fingerprint of a text, so that they can be held against each other.

A scheme is a tokeniser and a number of tokens in a shingle. The product signs with ``simhash64-w3-1``; the
others are for tuning alone, nothing is stored under their names. Two tokenisers:

- ``w``: words, each character of a script without spaces being one (`scrapy_dedup.near.shingles`);
- ``c``: characters, of the same words with one space between two of them. Spelling that differs within a word
  leaves most of its shingles alone, and a compound is near to its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scrapy_dedup.near.shingles import (
    MAX_SHINGLE_TOKENS,
    Hashes,
    Offsets,
    is_unspaced,
    mix,
    shingles_of_words,
    tokens,
    word_hashes,
)
from scrapy_dedup.near.simhash import SCHEME

_CHARACTER_STEP = np.uint64(0xBF58476D1CE4E5B9)
_CHARACTER_START = np.uint64(0x2545F4914F6CDD1D)


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to make shingles and a fingerprint of them.

    Attributes:
        tokeniser: ``w`` or ``c``, see the module.
        length: tokens of a shingle, 1 to `MAX_SHINGLE_TOKENS`.
    """

    tokeniser: str
    length: int

    @property
    def name(self) -> str:
        """The name as it would stand beside a fingerprint.

        >>> Scheme("w", 3).name
        'simhash64-w3-1'
        """
        return f"simhash64-{self.tokeniser}{self.length}-1"

    def shingles(self, texts: Sequence[str]) -> tuple[Hashes, Offsets]:
        """Hash every shingle of every text, repeats included, as `shingle_hashes` does."""
        return shingles_of_words(*TOKENISERS[self.tokeniser](texts), self.length)


def character_hashes(texts: Sequence[str]) -> tuple[Hashes, Offsets]:
    """Hash every character of every text, with one space for all that stands between two words.

    Returns:
        Hashes and offsets as `word_hashes` returns them.
    """
    spaced = [_spaced(tokens(text)) for text in texts]
    codes = np.frombuffer("".join(spaced).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(list(map(len, spaced)), dtype=np.int64)])
    return mix(codes * _CHARACTER_STEP + _CHARACTER_START), offsets


def _spaced(words: Sequence[str]) -> str:
    """Join words by spaces, but not the characters of a script that has none."""
    parts: list[str] = []
    after_letter = True
    for word in words:
        alone = is_unspaced(word)
        if not (alone or after_letter):
            parts.append(" ")
        parts.append(word)
        after_letter = alone
    return "".join(parts)


TOKENISERS: Mapping[str, Callable[[Sequence[str]], tuple[Hashes, Offsets]]] = {
    "w": word_hashes,
    "c": character_hashes,
}

SCHEMES = tuple(
    Scheme(tokeniser, length) for tokeniser in TOKENISERS for length in range(1, MAX_SHINGLE_TOKENS + 1)
)

(PRODUCT,) = (scheme for scheme in SCHEMES if scheme.name == SCHEME)
"""The scheme that every stored fingerprint has, and whose shingles Jaccard is counted over."""
