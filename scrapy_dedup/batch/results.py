"""What a batch found, as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from scrapy_dedup.batch.places import COPIES, COPY, PLACE, PLACES, Identities
from scrapy_dedup.batch.verification import NOT_COMPARED, PAIR, PAIRS, VERDICTS
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.ledger.near_relations import EQUAL
from scrapy_dedup.near.claims import JOINING
from scrapy_dedup.near.groups import leader_places
from scrapy_dedup.records import GroupMember, GroupRecord, PairRecord

_UPPER = 32
_PART = 10_000

Decided = Mapping[tuple[str, str], bool]


class Results:
    """The pairs and groups in the columns of a work folder.

    Args:
        work: with all columns filled.
        decided: pairs of identities, the smaller first, of which somebody decided whether they are one.
    """

    def __init__(self, work: WorkFolder, decided: Decided) -> None:
        self._identities = Identities(work)
        self._rows = work.column(PLACES, PLACE)["row"]
        self._pairs = work.column(PAIRS, PAIR)
        self._copies = work.column(COPIES, COPY)
        self._decided = decided

    def pair_rows(self) -> Iterator[tuple[int, int]]:
        """Yield the rows of the input that the two sides of each of `pairs` stand in, in the same order."""
        for start in range(0, len(self._pairs), _PART):
            part = self._pairs[start : start + _PART]
            yield from zip(self._rows[part["a"]].tolist(), self._rows[part["b"]].tolist(), strict=True)
        for place, row in self._copies.tolist():
            yield int(self._rows[place]), row

    def pairs(self) -> Iterator[PairRecord]:
        """Yield the similar pairs, by the priority of their texts, then copies with what they equal."""
        for pair in self._pairs:
            (a, b, jaccard, containment_a, containment_b, verdict, spans, claim_spans) = pair.item()
            read = verdict != NOT_COMPARED
            yield PairRecord(
                a=self._id(a),
                b=self._id(b),
                jaccard=round(jaccard, 6),
                containment_a=round(containment_a, 6),
                containment_b=round(containment_b, 6),
                verdict=_verdict(verdict),
                spans=spans if read else None,
                claim_spans=claim_spans if read else None,
            )
        for place, row in self._copies.tolist():
            yield PairRecord(self._id(place), self._identities.of(row), 1.0, 1.0, 1.0, EQUAL, 0, 0)

    def groups(self) -> Iterator[GroupRecord]:
        """Yield the groups of at least two texts, ordered by the priority of their leaders."""
        joining = self._pairs[self._joins()]
        packed = (joining["a"] << _UPPER) | joining["b"]
        involved = np.unique(np.concatenate([joining["a"], joining["b"], self._copies["place"]]))
        leaders = leader_places(
            len(involved),
            np.searchsorted(involved, joining["a"]),
            np.searchsorted(involved, joining["b"]),
            joining["jaccard"],
        )
        order = np.argsort(leaders, kind="stable")
        bounds = np.flatnonzero(np.diff(leaders[order], prepend=-1, append=-1))
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            leader, *others = involved[order[start:end]].tolist()
            found = np.searchsorted(packed, (np.int64(leader) << _UPPER) | np.array(others, np.int64))
            members = [*self._copies_of(leader, 1.0, EQUAL)]
            for place, pair in zip(others, joining[found], strict=True):
                jaccard, verdict = round(float(pair["jaccard"]), 6), _verdict(int(pair["verdict"]))
                members.append(GroupMember(self._id(place), jaccard, verdict, None))
                members += self._copies_of(place, jaccard, verdict)
            if members:
                yield GroupRecord(self._id(leader), 1 + len(members), tuple(members))

    def _joins(self) -> npt.NDArray[np.bool_]:
        numbers = [NOT_COMPARED, *map(VERDICTS.index, JOINING)]
        joins = np.isin(self._pairs["verdict"], numbers)
        if self._decided:
            for number, (a, b) in enumerate(zip(self._pairs["a"], self._pairs["b"], strict=True)):
                first, second = sorted((self._id(a), self._id(b)))
                joins[number] = self._decided.get((first, second), joins[number])
        return joins

    def _copies_of(self, place: int, jaccard: float, verdict: str | None) -> Iterator[GroupMember]:
        start, end = np.searchsorted(self._copies["place"], [place, place + 1])
        for row in self._copies["row"][start:end].tolist():
            yield GroupMember(self._identities.of(row), jaccard, verdict, self._id(place))

    def _id(self, place: int) -> str:
        return self._identities.of(int(self._rows[place]))


def _verdict(number: int) -> str | None:
    return None if number == NOT_COMPARED else VERDICTS[number]


def counted_verdicts(pairs: Iterable[PairRecord], counts: Counter[str]) -> Iterator[PairRecord]:
    """Let pairs pass, and count their verdicts; those that were not compared as ``similar``."""
    for pair in pairs:
        counts[pair.verdict or "similar"] += 1
        yield pair


def tallied_groups(
    groups: Iterable[GroupRecord], tally: Callable[[GroupRecord], None]
) -> Iterator[GroupRecord]:
    """Let groups pass, and tell each to ``tally``."""
    for group in groups:
        tally(group)
        yield group
