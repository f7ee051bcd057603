"""The language that a text is in, told from the text alone, and only where that is certain.

What a page declares about its language is a statement and belongs to the observation; templates declare
``en`` for texts in any language. A text gets a language when resiliparse's profiles of letter sequences put
one language clearly before every other. Near relatives are seldom that far apart; among those the words
decide that one of them uses all the time and the others don't have, once the family is clear.

Measured on 57,000 excerpts of 200 to 12,000 characters from manuals in 36 languages (GNOME Help, Debian's
installation guide): no wrong answer; an answer for 4 of 10 texts of 40 to 60 words and for 9 of 10 from 200
words on, but for no Croatian or Indonesian, and for close relatives (Danish, Galician, Portuguese, Slovenian,
Serbian) from a page of text on.

Rejected: the nearest profile alone (wrong for one in eight texts of 150 characters), and a limit for its
distance (right and wrong answers are equally far away).
"""

# ruff: noqa: RUF001 - letters that look alike in several scripts are what this is about

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

from resiliparse.parse.lang import detect_fast

MIN_WORDS = 40
"""In words, an unspaced character as half a word. Below that even a clear lead was wrong now and then."""

MIN_LEAD = 0.1
"""How much further away the next language has to be, as a share of the distance of the first."""

SAMPLE_CHARS = 10_000
"""More text changes no answer; with its words this much takes less than half a millisecond."""

MIN_MARKS = 5
"""Words that only one language of a family has, before they decide."""

MIN_MARKS_SHARE = 0.9
"""Their share among such words of all languages of the family."""

_CANDIDATES = 8
_ANY_DISTANCE = 1_000_000

# Never certain, since this is what something else looks like to the profiles: Bosnian, and Serbian in Latin
# letters; Malay; placeholder text (lorem ipsum); Serbian in Cyrillic letters.
_LOOKALIKES = frozenset({"hr", "id", "la", "mk"})

# Near relatives, and words of each that are frequent in it and foreign to the others.
_FAMILIES: tuple[dict[str, str], ...] = (
    {
        "es": "y los las más pero también hay sus",
        "pt": "não em são também você uma pelo pela às",
        "gl": "unha dun dunha coa co ás máis tamén nunha polo pola",
        "ca": "amb els és aquest aquesta més també són",
        "it": "di che gli della sono è nel più anche",
        "fr": "et du est pour dans vous des sur",
        "ro": "și în cu pe pentru care sau",
    },
    {
        "da": "af efter nogle mellem sig hvad dig mig uden bruge",
        "no": "etter noen mellom seg hva deg meg uten bruke",
        "sv": "och att är inte från",
    },
    {
        "sr": "је су ће који која које",
        "mk": "во со ќе кои ги",
        "bg": "във със към като които ще",
        "ru": "что это для если чтобы вы его",
        "uk": "що це є та щоб ви його якщо",
        "be": "гэта калі каб яго",
    },
    {
        "hi": "है हैं के में से को और का की नहीं",
        "mr": "आहे आणि आहेत नाही करा",
        "ne": "छ छन् गर्न पनि गर्नुहोस्",
        "sa": "च इति अस्ति",
    },
)
_PUNCTUATION = ".,;:!?()[]{}\"'*_#`|।–—«»“”„…"


def language_of(text: str, word_count: int) -> str | None:
    """Return the BCP 47 tag of the language of a text, or None where it is not certain.

    The tag names a language, never a script or region; Chinese of all kinds is ``zh``, Norwegian ``no``.

    Args:
        text: the text; Markdown is no hindrance.
        word_count: its size in words, an unspaced character as half a word.
    """
    if word_count < MIN_WORDS:
        return None
    sample = text[:SAMPLE_CHARS]
    ranked = cast("list[tuple[str, int]]", detect_fast(sample, _ANY_DISTANCE, _CANDIDATES))
    first, distance = ranked[0]
    if first in _LOOKALIKES:
        return None
    near = {language for language, its_distance in ranked if its_distance <= distance * (1 + MIN_LEAD)}
    if near == {first}:
        return first
    for family in _FAMILIES:
        if near <= family.keys():
            return _by_marks(sample, {mark: one for one in near for mark in family[one].split()})
    return None


def _by_marks(sample: str, marks: Mapping[str, str]) -> str | None:
    """Return the language whose own words a text is full of, if it is one alone.

    Args:
        sample: the text.
        marks: the language of each such word.
    """
    words = (word.strip(_PUNCTUATION) for word in sample.lower().split())
    counts = Counter(marks[word] for word in words if word in marks)
    for language, count in counts.most_common(1):
        if count >= max(MIN_MARKS, MIN_MARKS_SHARE * counts.total()):
            return language
    return None
