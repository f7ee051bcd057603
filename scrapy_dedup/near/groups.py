"""Groups of similar texts around a leader; a text joins only by a direct pair with the leader.

Chains make wrong groups: of 21 versions of a page each is like the next one, and the first is nothing like
the last. So texts are taken in a fixed order of priority: one that has a verified pair with an earlier leader
joins the most similar of these, any other becomes a leader itself (leader clustering, Hartigan 1975). Every
member is as similar to its leader as a pair has to be, and since ``1 - Jaccard`` is a metric, two members of
a group at a threshold of ``t`` have at least ``2 * t - 1``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Text = TypeVar("Text", bound=Hashable)


def leaders(by_priority: Sequence[Text], pairs: Iterable[tuple[Text, Text, float]]) -> Mapping[Text, Text]:
    """Return the leader of each text, which is the text itself for a leader.

    Args:
        by_priority: all texts, those first that would rather be leaders; ties must not be left to chance.
        pairs: verified pairs with their similarity, each once, in any order.

    Raises:
        KeyError: a pair names a text that is not among them.
    """
    place = {text: number for number, text in enumerate(by_priority)}
    earlier: dict[Text, list[tuple[float, int]]] = {}
    for a, b, similarity in pairs:
        first, second = sorted((place[a], place[b]))
        earlier.setdefault(by_priority[second], []).append((-similarity, first))
    leader_of: dict[Text, Text] = {}
    for text in by_priority:
        near = sorted(earlier.get(text, ()))
        to_join = (by_priority[first] for _, first in near)
        leader_of[text] = next((other for other in to_join if leader_of[other] == other), text)
    return leader_of
