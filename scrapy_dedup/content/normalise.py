"""The normal form of a text: what may differ without the text being another one."""

from __future__ import annotations

import re
import unicodedata

_SPACE = re.compile(r"\s+")


def normalized(text: str) -> str:
    r"""Return the form under which two texts count as the same.

    NFC, then U+00A0 and every run of white space to one space, stripped, lower case. Digits, signs,
    punctuation and zero-width characters stay: they can carry meaning.

    >>> normalized(" Hello \n\tWORLD  ")
    'hello world'
    """
    composed = unicodedata.normalize("NFC", text).replace("\u00a0", " ")
    return _SPACE.sub(" ", composed).strip().lower()


def is_well_formed(text: str) -> bool:
    r"""Tell whether ``text`` has no lone surrogates, that is, whether UTF-8 can hold it.

    >>> is_well_formed("caf\u00e9"), is_well_formed("caf\ud800")
    (True, False)
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
