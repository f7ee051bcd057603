"""What a heading or the start of a paragraph says, when it says something in place of the content.

The phrases and their languages stand in ``phrases.toml``. They are compared as a whole or from the start,
never searched for in the middle of a text: a page may well be about captchas, and quote one.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from scrapy_dedup.near.shingles import is_unspaced
from scrapy_dedup.urls import toml

# Nothing longer is a phrase; a title can be as long as a page.
MAX_COMPARED_CHARS = 300

# The few words that a phrase may leave open.
MAX_GAP_CHARS = 80

# Sites put their name beside the title of a page, behind one of these.
_SEPARATOR = re.compile(r"\s+[-–—|·•»«/~]+\s+|[|»«·•]")  # noqa: RUF001  dashes of three lengths


def _words(spelled: str) -> frozenset[str]:
    return frozenset(spelled.split())


# Around a phrase these say no more than it does.
_ORNAMENTS = _words(
    "oops ooops ops oh no sorry whoops hoppla ups huch entschuldigung désolé désolée oups vaya"
    " lo siento desculpe spiacenti http status code error fehler erreur errore erro ошибка упс извините"
    " エラー 错误 錯誤"
)
_STATUS = re.compile(r"[45]\d\d")
_SOFT_404_STATUSES = frozenset({"404", "410"})
_ERROR_STATUSES = frozenset({"500", "502", "503", "504"})


class Opening(NamedTuple):
    """What a text of a kind begins with, and what has to follow a few words later; both in normal form."""

    start: str
    later: str
    kind: str

    def opens(self, said: str) -> bool:
        """Tell whether a text in normal form begins so."""
        if not _begins_with(said, self.start):
            return False
        return not self.later or self.later in said[len(self.start) :][:MAX_GAP_CHARS]


@dataclass(frozen=True, slots=True)
class Phrases:
    """All phrases, ready to be looked up.

    Attributes:
        whole: kinds by normal form.
        opens: by the first two characters of what a text begins with.
    """

    whole: Mapping[str, frozenset[str]]
    opens: Mapping[str, tuple[Opening, ...]]


def kinds_of_title(title: str) -> frozenset[str]:
    """Return the kinds that a title or heading names, as a whole or in one of its parts.

    >>> sorted(kinds_of_title("Oops! 404 - Page not found | Shop"))
    ['soft_404']
    >>> sorted(kinds_of_title("Why a page is not found"))
    []
    """
    return frozenset(
        kind for part in title_parts(title) for kind in (*kinds_of_whole(part), *kinds_of_start(part))
    )


def title_parts(title: str) -> list[str]:
    """Return a title and what stands between its separators.

    >>> title_parts("Prices | Shop")
    ['Prices | Shop', 'Prices', 'Shop']
    """
    return list(dict.fromkeys([title, *_SEPARATOR.split(title)]))


def kinds_of_whole(text: str) -> frozenset[str]:
    """Return the kinds of which a text says nothing but the phrase."""
    return _of_whole(normal(text))


def kinds_of_start(text: str) -> frozenset[str]:
    """Return the kinds of phrases that a text begins with.

    >>> sorted(kinds_of_start("Sorry, the page you asked for has moved."))
    ['soft_404']
    """
    said = normal(text)
    return frozenset(row.kind for row in phrases().opens.get(said[:2], ()) if row.opens(said))


def normal(text: str) -> str:
    """Return a text as phrases are compared: letters and digits only, case folded, single spaces.

    >>> normal("Désolé… la page  N:existe plus!")
    'désolé la page n existe plus'
    """
    folded = unicodedata.normalize("NFKC", text[:MAX_COMPARED_CHARS]).casefold()
    return " ".join("".join(char if char.isalnum() else " " for char in folded).split())


@functools.cache
def phrases() -> Phrases:
    """Return the phrases of ``phrases.toml``, read once."""
    source = importlib.resources.files(__package__).joinpath("phrases.toml").read_text("utf-8")
    whole: dict[str, set[str]] = defaultdict(set)
    opens: dict[str, set[Opening]] = defaultdict(set)
    for kind, table in toml.loads(source).items():
        for way, phrase in _rows(table):
            start, _, later = phrase.partition("…")
            if way == "whole":
                whole[normal(phrase)].add(kind)
            else:
                opens[normal(start)[:2]].add(Opening(normal(start), normal(later), kind))
    return Phrases(
        {said: frozenset(kinds) for said, kinds in whole.items()},
        {start: tuple(sorted(rows)) for start, rows in opens.items()},
    )


def _rows(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield way and phrase of a kind, whose table may be divided by language."""
    for key, value in table.items():
        if isinstance(value, list):
            yield from ((key, phrase) for phrase in value)
        else:
            yield from _rows(value)


def _of_whole(said: str) -> frozenset[str]:
    known = phrases().whole
    if said in known:
        return known[said]
    words = said.split()
    statuses = {word for word in words if _STATUS.fullmatch(word)}
    rest = [word for word in words if word not in statuses and word not in _ORNAMENTS]
    if rest:
        return known.get(" ".join(rest), frozenset())
    if statuses & _SOFT_404_STATUSES:
        return frozenset({"soft_404"})
    if statuses & _ERROR_STATUSES and len(words) > len(statuses):  # "500" alone is any number
        return frozenset({"error_template"})
    return frozenset()


def _begins_with(said: str, phrase: str) -> bool:
    """Tell whether a text begins with a phrase that ends where a word of it ends."""
    if not said.startswith(phrase):
        return False
    rest = said[len(phrase) :]
    return not rest or rest[0] == " " or is_unspaced(phrase[-1])
