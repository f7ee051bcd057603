"""The normal form of a text: what may differ without the text being another one."""

from __future__ import annotations

import unicodedata


def normalized(text: str) -> str:
    r"""Return the form under which two texts count as the same.

    NFC, then every run of white space, U+00A0 included, to one space, stripped, lower case. Digits, signs,
    punctuation and zero-width characters stay: they can carry meaning.

    >>> normalized(" Hello \n\tWORLD  ")
    'hello world'
    """
    return " ".join(unicodedata.normalize("NFC", text).split()).lower()


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
