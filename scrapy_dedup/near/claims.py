"""Whether two similar texts say the same: the exact measures of a pair, and what its differences claim.

A near-duplicate index answers "these look alike". "The bridge is open" and "The bridge is not open" look
alike, so every candidate is read here before anything follows from it: the texts are cut into tokens by a
rule of their own (``3.5``, ``2026-11-30`` and ``don't`` are one token each), aligned, and the spans that
differ are searched for words that can turn a statement into another one. The tables of those words are in
``claims.toml``. The doubt always goes one way: what may be a changed claim is called one.
"""

from __future__ import annotations

import enum
import functools
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from scrapy_dedup.near.alignment import Place, differences
from scrapy_dedup.near.shingles import UNSPACED, Hashes, distinct, shingle_hashes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

POLICY = "claims-3"
"""Names tokens, tables and rules; stored with every relation that they settle."""

MIN_JACCARD = 0.8
MIN_CONTAINMENT = 0.9
PASSAGE_TOKENS = 8
"""So many tokens added or taken out in one place are a passage: more text, not another claim."""

MAX_SPANS = 20
MAX_SPAN_TOKENS = 40


class Verdict(str, enum.Enum):
    """How a pair of texts relates."""

    REFORMATTED = "reformatted"  # the same words; case, punctuation, spaces or markup differ
    EDITED = "edited"  # other words, and none of them changes a claim as far as the tables know
    CLAIM_CHANGED = "claim_changed"  # a number, unit, date, name, negation or its like differs
    CONTAINS = "contains"  # one holds nearly all of the other, and passages beside it
    DIFFERENT = "different"


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


@dataclass(frozen=True, slots=True)
class ChangedSpan:
    """A place where two texts differ: the tokens of both sides, and which of them can change a claim."""

    a: str
    b: str
    critical_a: tuple[str, ...]
    critical_b: tuple[str, ...]
    changes_claim: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """What reading a pair has shown.

    Attributes:
        verdict: see `Verdict`.
        jaccard: of the sets of word 3-grams, 0.0 to 1.0.
        containment_a: the share of the first text's 3-grams that the second one has.
        containment_b: the share of the second text's 3-grams that the first one has.
        passage_tokens_a: tokens in passages that only the first text has.
        passage_tokens_b: tokens in passages that only the second text has.
        spans: where they differ, those that change a claim first, at most `MAX_SPANS`.
    """

    verdict: Verdict
    jaccard: float
    containment_a: float
    containment_b: float
    passage_tokens_a: int = 0
    passage_tokens_b: int = 0
    spans: tuple[ChangedSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it is compared: its tokens, their words, and the set of its shingles, ascending."""

    text: str
    tokens: list[Token]
    words: list[str]
    shingles: Hashes

    @classmethod
    def of(cls, text: str) -> Reading:
        """Read a text."""
        plain = _plain(text)
        tokens = list(_tokens(plain))
        return cls(text, tokens, [token.text for token in tokens], distinct(shingle_hashes([plain])[0]))


def compare(
    a: str, b: str, *, min_jaccard: float = MIN_JACCARD, min_containment: float = MIN_CONTAINMENT
) -> Comparison:
    """Read two texts side by side.

    Args:
        a: one text, plain or Markdown.
        b: the other one.
        min_jaccard: less similar texts are different, unless one contains the other.
        min_containment: so much of one text has to stand in the other one to be contained in it.

    >>> compare("The bridge is open.", "The bridge is not open.", min_jaccard=0.2).verdict.value
    'claim_changed'
    """
    return compare_read(
        Reading.of(a), Reading.of(b), min_jaccard=min_jaccard, min_containment=min_containment
    )


def compare_read(
    a: Reading, b: Reading, *, min_jaccard: float = MIN_JACCARD, min_containment: float = MIN_CONTAINMENT
) -> Comparison:
    """Compare two texts that were read, as `compare` does; for texts that stand in several pairs."""
    tokens_a, tokens_b = a.tokens, b.tokens
    words_a, words_b = a.words, b.words
    measures = _measures(a.shingles, b.shingles)
    if words_a == words_b:
        # Texts of nothing but signs have no words to say the same with.
        same = bool(words_a) or a.text.strip() == b.text.strip() != ""
        return Comparison(Verdict.REFORMATTED if same else Verdict.DIFFERENT, *measures)
    jaccard, containment_a, containment_b = measures
    if jaccard < min_jaccard and max(containment_a, containment_b) < min_containment:
        return Comparison(Verdict.DIFFERENT, *measures)
    places = list(differences(words_a, words_b))
    spans = [_span(tokens_a, tokens_b, place) for place in places]
    passage_a = sum(
        end - start for start, end, other, other_end in places if _is_passage(start, end, other, other_end)
    )
    passage_b = sum(
        end - start for other, other_end, start, end in places if _is_passage(start, end, other, other_end)
    )
    changed = any(span.changes_claim for span in spans) or _numbers_replaced(tokens_a, tokens_b)
    if passage_a and passage_b:  # neither contains the other, so what only one of them says can be missed
        changed = changed or _claims_of_passages(tokens_a, tokens_b, places)
    if changed:
        verdict = Verdict.CLAIM_CHANGED
    elif jaccard < min_jaccard or bool(passage_a) != bool(passage_b):
        verdict = Verdict.CONTAINS
    else:
        verdict = Verdict.EDITED
    shown = sorted(spans, key=lambda span: not span.changes_claim)[:MAX_SPANS]
    return Comparison(verdict, *measures, passage_a, passage_b, tuple(shown))


def claim_tokens(text: str) -> list[Token]:
    """Cut a text into the tokens that are compared, each with what it is to a claim.

    Punctuation, markup, case and typography do not count: curly quotes, dashes, ligatures of spaces, soft
    hyphens. Superscripts, fractions, signs before a number and comparison operators do.
    """
    return list(_tokens(_plain(text)))


def _tokens(text: str) -> Iterator[Token]:
    found = list(_TOKEN.finditer(text))
    names, initials = _names(found)
    previous: Kind | None = None
    for match in found:
        if match["end"]:
            continue
        token = _classified(match[0], match.lastgroup or "")
        if token.kind is Kind.UNIT and len(token.text) <= 2 and previous is not Kind.NUMBER:
            token = Token(token.text, None)  # "a", "m" and the like are units only behind a number
        if previous is Kind.NUMBER and _CASED_UNIT.fullmatch(match[0]):
            token = Token(match[0], Kind.UNIT)
        if token.kind is None and match[0] in names:
            token = Token(token.text, Kind.NAME)
        elif token.kind is None and match[0] in initials:
            token = Token(token.text, Kind.INITIAL)
        yield token
        previous = token.kind


@functools.lru_cache(maxsize=65_536)
def _classified(raw: str, group: str) -> Token:
    """Return the token of what a group of `_TOKEN` has matched, as far as it does not depend on its place."""
    word = _folded(raw)
    kind = _KIND_OF_GROUP.get(group)
    if kind is Kind.NUMBER:
        word = word.lstrip("v+")
    elif kind is None:
        kind = _kinds().get(word)
        if kind is None and any(map(str.isdigit, word)):
            kind = Kind.NUMBER
    return Token(word, kind)


def _names(found: Sequence[re.Match[str]]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words with a capital letter within a sentence, and those with one only where one begins.

    Within a sentence the letter says enough. Where a sentence or a heading begins nobody can tell "Berlin"
    from "Rain", but many words are no names: those that the text has in small letters elsewhere, and those of
    the table of openings ("However").
    """
    names: set[str] = set()
    initials: set[str] = set()
    small: set[str] = set()
    sentence_starts = True
    for match in found:
        if match["word"]:
            if not match[0][0].isupper():
                small.add(match[0])
            else:
                (initials if sentence_starts else names).add(match[0])
        sentence_starts = bool(match["end"])
    ordinary = small | _openings()
    return frozenset(names), frozenset(word for word in initials if _folded(word) not in ordinary)


def _measures(set_a: Hashes, set_b: Hashes) -> tuple[float, float, float]:
    if not len(set_a) or not len(set_b):
        return (0.0, 0.0, 0.0)
    shared = len(np.intersect1d(set_a, set_b, assume_unique=True))
    return (
        shared / (len(set_a) + len(set_b) - shared),
        shared / len(set_a),
        shared / len(set_b),
    )


def _span(tokens_a: Sequence[Token], tokens_b: Sequence[Token], place: Place) -> ChangedSpan:
    start, end, new_start, new_end = place
    left, right = tokens_a[start:end], tokens_b[new_start:new_end]
    critical_a, critical_b = _critical(left, right)
    if left and right:
        changes = critical_a != critical_b
    else:
        changes = (
            bool(critical_a or critical_b)
            and not _is_passage(start, end, new_start, new_end)
            and (not _is_passage(new_start, new_end, start, end))
        )
    return ChangedSpan(_shown(left), _shown(right), critical_a, critical_b, changes)


def _critical(left: Sequence[Token], right: Sequence[Token]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens of both sides that can change a claim; what may be a name counts in place of one."""
    named = any(token.kind in (Kind.NAME, Kind.INITIAL) for token in (*left, *right))
    if named and len(left) == len(right) <= PASSAGE_TOKENS:
        # One word for another where one of the two is a name: compare them all.
        return tuple(token.text for token in left), tuple(token.text for token in right)
    return tuple(_claims(left)), tuple(_claims(right))


def _claims(tokens: Iterable[Token]) -> Iterator[str]:
    """Yield the tokens that can change a claim wherever they stand."""
    return (token.text for token in tokens if token.kind not in (None, Kind.INITIAL))


def _is_passage(start: int, end: int, other_start: int, other_end: int) -> bool:
    """Tell whether a side of a place is a passage beside which the other side has nothing."""
    return end - start >= PASSAGE_TOKENS and other_start == other_end


def _claims_of_passages(
    tokens_a: Sequence[Token], tokens_b: Sequence[Token], places: Sequence[Place]
) -> bool:
    """Tell whether the passages of both sides claim different things; one that has moved does not."""
    claims_a: Counter[str] = Counter()
    claims_b: Counter[str] = Counter()
    for start, end, new_start, new_end in places:
        if _is_passage(start, end, new_start, new_end) or _is_passage(new_start, new_end, start, end):
            claims_a.update(_claims(tokens_a[start:end]))
            claims_b.update(_claims(tokens_b[new_start:new_end]))
    return claims_a != claims_b


def _numbers_replaced(tokens_a: Sequence[Token], tokens_b: Sequence[Token]) -> bool:
    """Tell whether each text has a number that the other one lacks, wherever the two stand."""
    numbers_a = Counter(token.text for token in tokens_a if token.kind is Kind.NUMBER)
    numbers_b = Counter(token.text for token in tokens_b if token.kind is Kind.NUMBER)
    return bool(numbers_a - numbers_b) and bool(numbers_b - numbers_a)


def _shown(tokens: Sequence[Token]) -> str:
    words = [token.text for token in tokens[:MAX_SPAN_TOKENS]]
    return " ".join([*words, *(["..."] if len(tokens) > MAX_SPAN_TOKENS else [])])


# -- the text of claims ------------------------------------------------------------------------------------

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


def _plain(text: str) -> str:
    """Return a text without markup and typography."""
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
