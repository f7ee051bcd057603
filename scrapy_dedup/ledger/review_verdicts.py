"""What a person says of two texts, as a decision: which verdicts make them one, and how it is noted. Pure.

A decision knows ``same`` and ``different``. What `same` does to an index is to leave one of the two texts out
of it, so only a verdict by which nothing would be missed there makes two texts one; all others keep both. The
verdict itself, and which of the two is preferred, stand at the beginning of the note of the decision:
``verdict=updated_version; prefer=b; what else there is to say``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from scrapy_dedup.records import DecisionAction, RelationKind


class ReviewVerdict(str, enum.Enum):
    """What two texts are to each other, in the words of a reviewer."""

    REPRODUCTION = "reproduction"  # the same text once more: a copy, a mirror, another layout
    UPDATED_VERSION = "updated_version"  # a later state of the same text, which says something else
    PARTIAL_QUOTATION = "partial_quotation"  # one holds passages of the other
    TRANSLATION = "translation"
    RELATED = "related"  # the same matter, in other words
    DIFFERENT = "different"


_SAME, _DIFFERENT = DecisionAction.SAME, DecisionAction.DIFFERENT

# What is left out of an index with each verdict, if the two were one: nothing with a reproduction; what the
# page says now with an updated version, since the text that came first stands for the later one; the rest of
# the longer text with a quotation; a language with a translation; a source with related texts.
_OF_TEXTS: Mapping[ReviewVerdict, DecisionAction] = {
    ReviewVerdict.REPRODUCTION: _SAME,
    ReviewVerdict.UPDATED_VERSION: _DIFFERENT,
    ReviewVerdict.PARTIAL_QUOTATION: _DIFFERENT,
    ReviewVerdict.TRANSLATION: _DIFFERENT,
    ReviewVerdict.RELATED: _DIFFERENT,
    ReviewVerdict.DIFFERENT: _DIFFERENT,
}

ACTIONS: Mapping[RelationKind, Mapping[ReviewVerdict, DecisionAction]] = {
    RelationKind.NEAR: _OF_TEXTS,
    RelationKind.RESIDUAL_DIFFERS: _OF_TEXTS,
    # A canonical says where a page belongs, and takes no text away: an older state of it belongs there too.
    RelationKind.CANONICAL: {**_OF_TEXTS, ReviewVerdict.UPDATED_VERSION: _SAME},
}
"""The kinds of relations that can be reviewed, and what each verdict decides about them."""

SIDES = ("a", "b")

_VERDICT, _PREFER, _SEPARATOR = "verdict=", "prefer=", "; "
_VERDICTS = {verdict.value: verdict for verdict in ReviewVerdict}


class Stated(NamedTuple):
    """What the note of a decision holds; ``prefer`` is a side of the relation, ``a`` or ``b``, or None."""

    verdict: ReviewVerdict
    prefer: str | None = None
    comment: str | None = None


def note_of(stated: Stated) -> str:
    """Return the note that says what a reviewer has stated.

    >>> note_of(Stated(ReviewVerdict.TRANSLATION, comment="from the French"))
    'verdict=translation; from the French'
    """
    parts = [_VERDICT + stated.verdict.value]
    parts += [_PREFER + stated.prefer] if stated.prefer else []
    parts += [stated.comment] if stated.comment else []
    return _SEPARATOR.join(parts)


def stated_in(note: str | None) -> Stated | None:
    """Return what the note of a decision states, None where it was not written by a reviewer.

    >>> stated_in("verdict=updated_version; prefer=b").prefer
    'b'
    """
    first, _, rest = (note or "").partition(_SEPARATOR)
    verdict = _VERDICTS.get(first.removeprefix(_VERDICT)) if first.startswith(_VERDICT) else None
    if verdict is None:
        return None
    second, _, behind = rest.partition(_SEPARATOR)
    prefer = second.removeprefix(_PREFER) if second.startswith(_PREFER) else None
    if prefer in SIDES:
        return Stated(verdict, prefer, behind or None)
    return Stated(verdict, None, rest or None)
