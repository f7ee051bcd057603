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

import numpy as np
import numpy.typing as npt

Text = TypeVar("Text", bound=Hashable)
Places = npt.NDArray[np.int64]


def leaders(by_priority: Sequence[Text], pairs: Iterable[tuple[Text, Text, float]]) -> Mapping[Text, Text]:
    """Return the leader of each text, which is the text itself for a leader.

    Args:
        by_priority: all texts, those first that would rather be leaders; ties must not be left to chance.
        pairs: verified pairs with their similarity, each once, in any order.

    Raises:
        KeyError: a pair names a text that is not among them.
    """
    place = {text: number for number, text in enumerate(by_priority)}
    measured = [(*sorted((place[a], place[b])), similarity) for a, b, similarity in pairs]
    first, second, similarity = zip(*measured, strict=True) if measured else ((), (), ())
    found = leader_places(
        len(by_priority), np.array(first, np.int64), np.array(second, np.int64), np.array(similarity, float)
    )
    return {text: by_priority[leader] for text, leader in zip(by_priority, found.tolist(), strict=True)}


def leader_places(count: int, first: Places, second: Places, similarity: npt.NDArray[np.float64]) -> Places:
    """Return the leader of each text where texts are places in the order of priority.

    Args:
        count: the number of texts.
        first: the earlier place of each verified pair.
        second: the later one.
        similarity: of the pairs.
    """
    leader_of = np.arange(count, dtype=np.int64)
    order = np.lexsort((first, -similarity, second))
    is_leader = np.ones(count, np.bool_)
    for leader, text in zip(first[order].tolist(), second[order].tolist(), strict=True):
        # All pairs of a text with earlier ones stand together, and nothing changes about those any more.
        if is_leader[leader] and is_leader[text]:
            is_leader[text] = False
            leader_of[text] = leader
    return leader_of
