"""The tokens by which two texts are compared, and what each of them is to a claim.

The rule differs from that of shingles: ``3.5``, ``2026-11-30`` and ``don't`` are one token each, signs that
say something are tokens, and markup and typography are gone. The tables of words are in ``claims.toml``.
"""

from __future__ import annotations

import enum
import functools
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from scrapy_dedup.near.shingles import UNSPACED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_HELD_LINE = 1_000
"""Characters of a line that stays in memory: versions of a text have most of their lines in common."""

MAX_HELD_CHARS = 500_000
"""Of all lines that stay in memory, twice at most: where each character is a word they take 20 bytes each."""

_CHARS_OF_A_LINE = 32
"""What a line takes besides its characters, in characters."""

MAX_HELD_WORD = 64
"""Characters of a word whose token stays in memory."""


class Kind(str, enum.Enum):
    """What a token is to a claim."""

    NUMBER = "number"
    UNIT = "unit"
    DATE = "date"
    NEGATION = "negation"
    MODALITY = "modality"
    POLARITY = "polarity"
    OPERATOR = "operator"
    NAME = "name"
    INITIAL = "initial"  # a capital letter that begins a sentence or a heading: a name, or any other word


class Token(NamedTuple):
    """A token as it is compared, and what it is to a claim; None for an ordinary word."""

    text: str
    kind: Kind | None


class _Line(NamedTuple):
    """What is in a line, which does not depend on other lines as far as it is here.

    Attributes:
        tokens: a capital letter has not made a name of any of them yet.
        capitals: the places of those of which it can, each with the word as it is written.
        names: words with a capital letter within a sentence.
        initials: words with one where a sentence begins.
        small: words that begin with a small letter.
    """

    tokens: tuple[Token, ...]
    capitals: tuple[tuple[int, str], ...]
    names: tuple[str, ...]
    initials: tuple[str, ...]
    small: tuple[str, ...]


def claim_tokens(text: str) -> list[Token]:
    """Cut a text into the tokens that are compared, each with what it is to a claim.

    Punctuation, markup, case and typography do not count: curly quotes, dashes, ligatures of spaces, soft
    hyphens. Superscripts, fractions, signs before a number and comparison operators do.
    """
    return tokens_of_plain(plain(text))


def tokens_of_plain(text: str) -> list[Token]:
    """Return the tokens of what `plain` returns."""
    lines: list[_Line] = []
    is_after_number = False
    for written in _LINE.findall(text):
        line = _held_lines.line(written, is_after_number)
        if line.tokens:
            is_after_number = line.tokens[-1].kind is Kind.NUMBER
            lines.append(line)
    return _with_names(lines)


def _line(text: str, is_after_number: bool) -> _Line:
    """Read one line, given whether the last token before it is a number."""
    tokens: list[Token] = []
    capitals: list[tuple[int, str]] = []
    names: set[str] = set()
    initials: set[str] = set()
    small: set[str] = set()
    begins_sentence = True
    for match in _TOKEN.finditer(text):
        raw, group = match[0], match.lastgroup or ""
        if group == "end":
            begins_sentence = True
            continue
        token = _classified(raw, group)
        if token.kind is Kind.UNIT and len(token.text) <= 2 and not is_after_number:
            token = Token(token.text, None)  # "a", "m" and the like are units only behind a number
        if is_after_number and _CASED_UNIT.fullmatch(raw):
            token = Token(raw, Kind.UNIT)
        if group == "word":
            if raw[0].islower():
                small.add(token.text if token.text == raw else raw)  # one string of the two in memory
            elif raw[0].isupper():
                (initials if begins_sentence else names).add(raw)
                if token.kind is None:
                    capitals.append((len(tokens), raw))
        tokens.append(token)
        is_after_number = token.kind is Kind.NUMBER
        begins_sentence = False
    return _Line(tuple(tokens), tuple(capitals), tuple(names), tuple(initials), tuple(small))


class _HeldLines:
    """The lines that were read last, bounded by their characters and not by their number.

    There are two generations: what is found in the older one moves into the younger one, and once that is
    full it becomes the older one. Several threads may lose each other a line, which is then read again.
    """

    def __init__(self) -> None:
        self._young: dict[tuple[str, bool], _Line] = {}
        self._old: dict[tuple[str, bool], _Line] = {}
        self._young_chars = 0

    def line(self, text: str, is_after_number: bool) -> _Line:
        """Return what `_line` does."""
        if len(text) > MAX_HELD_LINE:
            return _line(text, is_after_number)
        key = text, is_after_number
        held = self._young.get(key)
        if held is None:
            held = self._young[key] = self._old.get(key) or _line(text, is_after_number)
            self._young_chars += len(text) + _CHARS_OF_A_LINE
            if self._young_chars > MAX_HELD_CHARS:
                self._old, self._young, self._young_chars = self._young, {}, 0
        return held


_held_lines = _HeldLines()


def _with_names(lines: Sequence[_Line]) -> list[Token]:
    """Return the tokens of all lines, with what a capital letter makes of them.

    Within a sentence the letter says enough. Where a sentence or a heading begins nobody can tell "Berlin"
    from "Rain", but many words are no names: those that the text has in small letters elsewhere, and those of
    the table of openings ("However").
    """
    names = frozenset(word for line in lines for word in line.names)
    small = _openings().union(*(line.small for line in lines))
    initials = frozenset(word for line in lines for word in line.initials) - names
    kinds = dict.fromkeys((word for word in initials if _folded(word) not in small), Kind.INITIAL)
    kinds.update(dict.fromkeys(names, Kind.NAME))
    found: list[Token] = []
    for line in lines:
        start = len(found)
        found += line.tokens
        for place, word in line.capitals:
            if word in kinds:
                found[start + place] = Token(found[start + place].text, kinds[word])
    return found


def _classified(raw: str, group: str) -> Token:
    """Return the token of what a group of `_TOKEN` has matched, as far as it does not depend on its place."""
    return (_held_word if len(raw) <= MAX_HELD_WORD else _word)(raw, group)


def _word(raw: str, group: str) -> Token:
    word = _folded(raw)
    kind = _KIND_OF_GROUP.get(group)
    if kind is Kind.NUMBER:
        word = word.lstrip("v+")
    elif kind is None:
        kind = _kinds().get(word)
        if kind is None and any(map(str.isdigit, word)):
            kind = Kind.NUMBER
    return Token(word, kind)


_held_word = functools.lru_cache(maxsize=65_536)(_word)

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_IGNORED = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201b\u02bc\u00b4\uff07", "'"),
        **dict.fromkeys("\u2010\u2011\u2012\u2212", "-"),
        **dict.fromkeys("\u2013\u2014\u2015", " - "),
        **dict.fromkeys(
            "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u3000", " "
        ),
        "\u2026": "...",
        "\ufb00": "ff",
        "\ufb01": "fi",
        "\ufb02": "fl",
        "\ufb03": "ffi",
        "\ufb04": "ffl",
    }
)
# Markup that stands at the start of a line; a rule line; a table's second line. Apart from the
# tag of a line break no pattern may match a letter or a digit: what is taken out here is compared by nobody.
_MARKUP = re.compile(
    r"""
    ^[ \t]*(?:>[ \t]?)+
    |^[ \t]*(?:\#{1,6}|[-*+]|\|[-:|\ \t]+\|?$)(?=[ \t]|$)
    |^[ \t]*(?:[-=*_~`][ \t]*){3,}$
    |<br\s*/?>
    |(?:->|=>|\u2192)
    """,
    re.MULTILINE | re.VERBOSE,
)
_FENCE = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})(?P<language>(?:[^\W\d_][\w+#-]*)?)[ \t]*$", re.MULTILINE)
_RANGE = re.compile(r"(?<=\d) ?- ?(?=\d)")
_SHORT_NOT = re.compile(r"n't(?![^\W_])", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:[ ,']\d{3})+)(?![\d,']|\.\d{3})")
_UNSPACED_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in UNSPACED)
# Signs of mathematics, logic and APL, less those that are set as dots, bars, ellipses, slashes or tildes.
_SIGNS = (
    "\u2200-\u2211\u2213\u2214\u221a-\u2222\u2224-\u2235\u2237-\u223b\u223d-\u22c4"
    "\u22c6-\u22ed\u2308-\u230b\u2336-\u237a"
)
_TOKEN = re.compile(
    rf"""
    (?P<address>https?://[^\s<>()\[\]"'`*|\\]*[^\W_]
        |(?<![\w.+-])[\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,64}})+)
    |(?P<number>(?:(?<![^\W_]|[)\]])[-+\u00b1](?=\d))?(?:(?<![^\W_])[vV])?\d+(?:[.,:/-]\d+)*
        |[\u00b2\u00b3\u00b9\u2070-\u2089\u00bc-\u00be\u2150-\u215e])
    |(?P<unit>[%\u2030\u00b0$\u00a2-\u00a5\u20a0-\u20c0])
    |(?P<operator>[<>=!]=+|&&|[<>\u00b1\u00ac{_SIGNS}]|[\u00d7\u00f7\u2191\u2193](?=\ ?\d)|(?<=[ ])\+(?=[ ]))
    |(?P<negated>(?<![\w)\]!])!(?=[\w(]))
    |(?P<box>(?<!\S)\[[ xX]\](?=\s))
    |(?P<language>(?<![\w+])[cC](?:\+\+|\#)(?![\w+]))
    |(?P<symbol>[\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff])
    |(?P<word>[{_UNSPACED_CLASS}]|[^\W\d_{_UNSPACED_CLASS}](?:[^\W_{_UNSPACED_CLASS}]|'(?=\w)|-(?=\w))*|[^\W_])
    |(?P<end>[.!?:;\u3002\uff01\uff1f\u2022|\n])
    """,
    re.VERBOSE,
)
# Units of which the case says how much there is: milli and mega, bits and bytes.
_CASED_UNIT = re.compile(r"[mM](?:W|V|A|J|N|S|Hz|Pa|eV|Wh)|[kKMGT]i?[bB](?:ps)?")
_KIND_OF_GROUP = {
    "number": Kind.NUMBER,
    "unit": Kind.UNIT,
    "operator": Kind.OPERATOR,
    "symbol": Kind.POLARITY,  # a thumb up or down, a box that is ticked or not
    "box": Kind.POLARITY,
    "negated": Kind.NEGATION,  # in code
    "address": Kind.NAME,
    "language": Kind.NAME,
}


def plain(text: str) -> str:
    """Return a text without markup and typography, as its tokens are cut."""
    text = _IGNORED.sub("", unicodedata.normalize("NFC", text)).translate(_TYPOGRAPHY)
    text = _MARKUP.sub(" ", "".join(_without_languages_of_code(text)))
    text = _SHORT_NOT.sub(" not", _RANGE.sub("-", text))
    return _THOUSANDS.sub(lambda found: found[1] + re.sub("[ ,']", "", found[2]), text)


def _without_languages_of_code(text: str) -> Iterator[str]:
    """Yield the pieces of a text between the words that name the language of a block of code.

    Behind a fence that no other one closes stands no language but text.
    """
    kept_to = 0
    opening: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opening is None:
            opening = line
        elif not line["language"] and line["fence"].startswith(opening["fence"]):
            yield text[kept_to : opening.start("language")]
            kept_to = opening.end("language")
            opening = None
    yield text[kept_to:]


def _folded(word: str) -> str:
    return unicodedata.normalize("NFC", word.casefold())


@functools.cache
def _kinds() -> Mapping[str, Kind]:
    """Return what each word of the tables is; the first table that has it wins."""
    found: dict[str, Kind] = {}
    for name, by_language in _tables()["claims"].items():
        for words in by_language.values():
            for word in words:
                found.setdefault(_folded(word), Kind(name))
    return found


@functools.cache
def _openings() -> frozenset[str]:
    """Return words that begin sentences and are no names."""
    return frozenset(_folded(word) for words in _tables()["openings"].values() for word in words)


@functools.cache
def _tables() -> Mapping[str, Any]:
    source = resources.files(__package__ or "").joinpath("claims.toml").read_text("utf-8")
    tables: dict[str, Any] = tomllib.loads(source)
    return tables
