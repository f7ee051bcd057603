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
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]

SHINGLE_TOKENS = 3
MAX_SHINGLE_TOKENS = 5

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
_POSITION_KEYS = np.array(
    [0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63, 0x94D049BB133111EB],
    np.uint64,
)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_33 = np.uint64(33)

_BLOCK_CHARS = 32_768

# Capital sigma becomes one of two letters, by its place in a word; dotted capital I becomes two characters.
_LOWERED_IN_CONTEXT = "\u03a3\u0130"
_END_OF_CASED = 0x20000


def tokens(text: str) -> list[str]:
    """Return the tokens of a text as strings, by the same rule as the hashes."""
    found: list[str] = _token_pattern().findall(prepare(text))
    return found


def is_unspaced(token: str) -> bool:
    """Tell whether a token is a character of a script without spaces."""
    return len(token) == 1 and any(first <= ord(token) <= last for first, last, _ in UNSPACED)


def size_in_words(words: Iterable[str]) -> float:
    """Count words; a character of a script without spaces is half a word."""
    return sum(0.5 if is_unspaced(word) else 1.0 for word in words)


def prepare(text: str) -> str:
    """Return the form of a text in which tokens are looked for."""
    return unicodedata.normalize("NFC", text).lower()


def word_hashes(texts: Sequence[str]) -> tuple[Hashes, Offsets]:
    """Hash every token of every text.

    Returns:
        The hashes of all tokens in order, and offsets: text ``i`` owns ``hashes[offsets[i]:offsets[i + 1]]``.
    """
    hashes, counts = [np.zeros(0, np.uint64)], [np.zeros(1, np.int64)]
    for block in _blocks(texts):
        in_block, of_each = _hash_words(block)
        hashes.append(in_block)
        counts.append(of_each)
    return np.concatenate(hashes), np.cumsum(np.concatenate(counts))


def shingle_hashes(texts: Sequence[str]) -> tuple[Hashes, Offsets]:
    """Hash every shingle of `SHINGLE_TOKENS` tokens of every text, repeats included.

    A text with fewer tokens has one shingle of all of them; a text without tokens has none.

    Returns:
        Hashes and offsets as `word_hashes` returns them.
    """
    return shingles_of_words(*word_hashes(texts))


def shingles_of_words(
    words: Hashes, offsets: Offsets, length: int = SHINGLE_TOKENS
) -> tuple[Hashes, Offsets]:
    """Hash every shingle, given the hashes of the tokens as `word_hashes` returns them.

    Args:
        words: hashes of tokens.
        offsets: text ``i`` owns ``words[offsets[i]:offsets[i + 1]]``.
        length: tokens of a shingle, 1 to `MAX_SHINGLE_TOKENS`; every stored value is of `SHINGLE_TOKENS`.
    """
    counts = np.diff(offsets)
    # What comes after the end of a text is no part of its last shingles: some of them begin there in vain.
    left_out = np.clip(counts - 1, 0, length - 1)
    begins = np.ones(len(words), np.bool_)
    total = words * _POSITION_KEYS[0]
    ends = offsets[1:]
    for position in range(1, length):
        begins[ends[left_out >= position] - position] = False
        following = words[position:] * _POSITION_KEYS[position]
        for before_end in range(1, position + 1):
            within = ends[counts >= before_end] - before_end
            following[within[within < len(following)]] = 0
        total[: len(following)] += following
    return mix(total[begins]), np.concatenate([np.zeros(1, np.int64), np.cumsum(counts - left_out)])


def distinct(values: Hashes) -> Hashes:
    """Return the distinct values in ascending order; `numpy.unique` takes several times as long."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def mix(values: Hashes) -> Hashes:
    """Spread every input bit over all output bits (the 64-bit finaliser of MurmurHash3), in place."""
    values ^= values >> _33
    values *= _MIX_1
    values ^= values >> _33
    values *= _MIX_2
    values ^= values >> _33
    return values


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut a batch into runs of texts that fit the processor's cache together."""
    start, chars = 0, 0
    for place, text in enumerate(texts):
        if chars and chars + len(text) > _BLOCK_CHARS:
            yield texts[start:place]
            start, chars = place, 0
        chars += len(text) + 1
    if start < len(texts):
        yield texts[start:]


def _hash_words(texts: Sequence[str]) -> tuple[Hashes, Offsets]:
    """Return the hashes of all tokens of some texts, and how many tokens each text has."""
    prepared = texts if all(map(str.isascii, texts)) else [_composed(text) for text in texts]
    joined = "\0".join([*prepared, ""])
    codes = _codes(joined)
    values = _values().take(codes)
    starts = _token_starts(values != 0, codes)
    if len(starts) == 0:
        return np.zeros(0, np.uint64), np.zeros(len(texts), np.int64)
    # Every character stands for its value times BASE to the power of its place in the whole block. Separators
    # are worth nothing, so a token's sum ends where the next token starts; divided by the power of its start
    # it is the same wherever the token stands.
    powers, inverses = _powers(len(codes))
    values *= powers[: len(codes)]
    before = np.cumsum(values)[np.append(starts[1:], len(codes)) - 1]
    sums = np.diff(before, prepend=np.uint64(0))
    sums *= inverses.take(starts)
    text_ends = np.cumsum(np.fromiter(map(len, prepared), np.int64, len(prepared)) + 1)
    counts = np.diff(np.searchsorted(starts, text_ends), prepend=0)
    return mix(sums), counts.astype(np.int64)


def _composed(text: str) -> str:
    """Return a text in NFC, and in lower case where that does not go character by character."""
    composed = unicodedata.normalize("NFC", text)
    return composed.lower() if any(letter in composed for letter in _LOWERED_IN_CONTEXT) else composed


def _codes(text: str) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint32]:
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _token_starts(
    in_token: npt.NDArray[np.bool_], codes: npt.NDArray[np.uint8] | npt.NDArray[np.uint32]
) -> Offsets:
    """Return where tokens start: at the first character of a word, and at each that stands alone."""
    starts = in_token.copy()
    starts[1:] &= ~in_token[:-1]
    if codes.itemsize > 1 and codes.max() >= UNSPACED[0][0]:
        alone = _classes().take(codes) == _ALONE
        starts |= alone
        starts[1:] |= in_token[1:] & alone[:-1]
    return np.flatnonzero(starts)


def _powers(count: int) -> tuple[Hashes, Hashes]:
    """Return the first powers of BASE and of its inverse, at least ``count`` of each."""
    return _first_powers(_BLOCK_CHARS) if count <= _BLOCK_CHARS else _first_powers.__wrapped__(count)


@functools.lru_cache(maxsize=1)
def _first_powers(count: int) -> tuple[Hashes, Hashes]:
    both = []
    for factor in (_BASE, np.uint64(pow(int(_BASE), -1, 1 << 64))):
        powers = np.full(count, factor, np.uint64)
        powers[0] = 1
        both.append(np.multiply.accumulate(powers))
    return both[0], both[1]


@functools.lru_cache(maxsize=1)
def _values() -> Hashes:
    """Return what the lower case of every code point is worth in the hash of a token; separators nothing."""
    points = np.arange(0x110000, dtype=np.uint32)
    for point in range(_END_OF_CASED):
        lower = chr(point).lower()
        if len(lower) == 1:
            points[point] = ord(lower)
    values = points.astype(np.uint64)
    values *= _VALUE_STEP
    values += _VALUE_START
    values = mix(values)
    values[_classes()[points] == _SEPARATOR] = 0
    return values


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
