r"""Words and shingles of texts as 64-bit hashes, for many texts at once and without a Python object each.

A token is a run of word characters (``\w``: letters, digits, underscore) of the lower-cased NFC text.
Scripts that are written without spaces have no such runs, so each of their characters is a token of its own
(`UNSPACED`), and a shingle of three tokens is there a shingle of three characters. Their vowel and tone
marks count as characters.

A word's hash is ``mix(sum(value(c_i) * BASE**i))`` and a shingle's ``mix(sum(K_i * word_i))``, all modulo
2**64. Every constant is a literal: the values are part of a stored format, and library random streams are
not for ever.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]

SHINGLE_TOKENS = 3

# First and last code point of the scripts that are written without spaces between words.
UNSPACED: tuple[tuple[int, int, str], ...] = (
    (0x0E00, 0x0E7F, "Thai"),
    (0x0E80, 0x0EFF, "Lao"),
    (0x1000, 0x109F, "Myanmar"),
    (0x1780, 0x17FF, "Khmer"),
    (0x3005, 0x3007, "ideographic iteration mark, closing mark, zero"),
    (0x3040, 0x30FF, "Hiragana and Katakana"),
    (0x31F0, 0x31FF, "Katakana phonetic extensions"),
    (0x3400, 0x4DBF, "Han, extension A"),
    (0x4E00, 0x9FFF, "Han"),
    (0xF900, 0xFAFF, "Han, compatibility"),
    (0xFF66, 0xFF9F, "Katakana, half width"),
    (0x20000, 0x323AF, "Han, extensions B to H"),
)

_SEPARATOR, _WORD, _ALONE = 0, 1, 2

_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication by it is a bijection modulo 2**64
_VALUE_STEP = np.uint64(0xD6E8FEB86659FD93)
_VALUE_START = np.uint64(0xA0761D6478BD642F)
_POSITION_KEYS = np.array([0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], np.uint64)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_33 = np.uint64(33)


def tokens(text: str) -> list[str]:
    """Return the tokens of a text as strings, by the same rule as the hashes."""
    found: list[str] = _token_pattern().findall(prepare(text))
    return found


def is_unspaced(token: str) -> bool:
    """Tell whether a token is a character of a script without spaces."""
    return len(token) == 1 and any(first <= ord(token) <= last for first, last, _ in UNSPACED)


def prepare(text: str) -> str:
    """Return the form of a text in which tokens are looked for."""
    return unicodedata.normalize("NFC", text).lower()


def word_hashes(texts: Sequence[str]) -> tuple[Hashes, Offsets]:
    """Hash every token of every text.

    Returns:
        The hashes of all tokens in order, and offsets: text ``i`` owns ``hashes[offsets[i]:offsets[i + 1]]``.
    """
    prepared = [prepare(text) for text in texts]
    codes = np.frombuffer("\0".join([*prepared, ""]).encode("utf-32-le", "surrogatepass"), np.uint32)
    starts, ends = _token_spans(_classes()[codes])
    text_ends = np.cumsum([len(text) + 1 for text in prepared], dtype=np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.searchsorted(starts, text_ends)])
    return _hash_spans(codes, starts, ends), offsets


def shingle_hashes(texts: Sequence[str]) -> tuple[Hashes, Offsets]:
    """Hash every shingle of `SHINGLE_TOKENS` tokens of every text, repeats included.

    A text with fewer tokens has one shingle of all of them; a text without tokens has none.

    Returns:
        Hashes and offsets as `word_hashes` returns them.
    """
    words, bounds = word_hashes(texts)
    parts = [_shingles(words[start:end]) for start, end in pairwise(bounds)]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return np.concatenate([np.zeros(0, np.uint64), *parts]), offsets


def mix(values: Hashes) -> Hashes:
    """Spread every input bit over all output bits (the 64-bit finaliser of MurmurHash3), in place."""
    values ^= values >> _33
    values *= _MIX_1
    values ^= values >> _33
    values *= _MIX_2
    values ^= values >> _33
    return values


def _shingles(words: Hashes) -> Hashes:
    size = min(SHINGLE_TOKENS, len(words))
    if size == 0:
        return words
    count = len(words) - size + 1
    total = words[:count] * _POSITION_KEYS[0]
    for position in range(1, size):
        total += words[position : position + count] * _POSITION_KEYS[position]
    return mix(total)


def _token_spans(classes: npt.NDArray[np.uint8]) -> tuple[Offsets, Offsets]:
    """Return where tokens start and end: at changes of class, and around characters that stand alone."""
    previous = np.concatenate([np.zeros(1, np.uint8), classes[:-1]])
    changed = classes != previous
    alone = classes == _ALONE
    starts = np.flatnonzero((changed & (classes == _WORD)) | alone)
    # The last code is always a separator, so every token has an end.
    ends = np.flatnonzero((changed & (previous == _WORD)) | (previous == _ALONE))
    return starts.astype(np.int64), ends.astype(np.int64)


def _hash_spans(codes: npt.NDArray[np.uint32], starts: Offsets, ends: Offsets) -> Hashes:
    if len(starts) == 0:
        return np.zeros(0, np.uint64)
    lengths = ends - starts
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)[:-1]])
    positions = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(firsts, lengths)
    letters = codes[positions + np.repeat(starts, lengths)].astype(np.uint64)
    letters *= _VALUE_STEP
    letters += _VALUE_START
    values = mix(letters)
    values *= _powers(int(lengths.max()))[positions]
    return mix(np.add.reduceat(values, firsts))


def _powers(count: int) -> Hashes:
    powers = np.full(count, _BASE, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


@functools.lru_cache(maxsize=1)
def _classes() -> npt.NDArray[np.uint8]:
    """Return the class of every code point: separator, word character, or a token alone."""
    points = np.arange(0x110000, dtype=np.uint32)
    classes = np.char.isalnum(points.view("<U1")).astype(np.uint8)
    classes[ord("_")] = _WORD
    for first, last, _ in UNSPACED:
        for point in range(first, last + 1):
            classes[point] = _ALONE if _is_letter(chr(point)) else _SEPARATOR
    return classes


@functools.lru_cache(maxsize=1)
def _token_pattern() -> re.Pattern[str]:
    alone = np.flatnonzero(_classes() == _ALONE)
    runs = np.split(alone, np.flatnonzero(np.diff(alone) > 1) + 1)
    letters = "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)
    unspaced = "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in UNSPACED)
    return re.compile(rf"[{letters}]|[^\W{unspaced}]+")


def _is_letter(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] == "M"
