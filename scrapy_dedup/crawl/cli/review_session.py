"""A review in a terminal: pair after pair, each verdict written at once, each undone as easily.

Between two keys nothing of the ledger is held open, so that a crawl can go on writing to it however long
somebody thinks; a pair that somebody else decides meanwhile is not asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rich.console import Console

from scrapy_dedup.crawl.cli import review_keys
from scrapy_dedup.crawl.cli.relations import signed
from scrapy_dedup.crawl.cli.review_keys import Keys
from scrapy_dedup.crawl.cli.review_screen import (
    VERDICT_KEYS,
    Frame,
    Lines,
    Shown,
    body_of,
    draw,
    full_screen,
    next_claim,
    preferred,
    room_of,
)
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.decisions import DecidedMeanwhile, NewDecision, in_force, record_decisions
from scrapy_dedup.ledger.review_queue import Entry, Queue
from scrapy_dedup.ledger.review_verdicts import ACTIONS, SIDES, ReviewVerdict, Stated, note_of
from scrapy_dedup.records import DecisionAction, DecisionRecord

SKIP_KEYS, UNDO_KEY, CLAIM_KEY = ("s", " "), "u", "n"

_CONSEQUENCES = {
    DecisionAction.SAME: "they count as one",
    DecisionAction.DIFFERENT: "both stay",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided in a session, about which entry of the queue."""

    number: int
    verdict: ReviewVerdict
    decision: DecisionRecord


@dataclass(slots=True)
class Tally:
    """What a session has done, in order; what was undone in it is gone from ``verdicts``."""

    verdicts: list[Verdict] = field(default_factory=list)
    skipped: int = 0
    undone: int = 0

    @property
    def counts(self) -> Counter[ReviewVerdict]:
        """How often each verdict was given."""
        return Counter(one.verdict for one in self.verdicts)


class Session:
    """Walks through a queue.

    Args:
        url: the ledger.
        queue: what to look at.
        by: who decides.
        console: where pairs are drawn.
        keys: where verdicts come from.
    """

    def __init__(self, url: str, queue: Queue, *, by: str, console: Console, keys: Keys) -> None:
        self._url = url
        self._queue = queue
        self._by = by
        self._console = console
        self._keys = keys
        self._number = 0
        self._passed: list[Verdict | int] = []  # what was decided, or the numbers of what was skipped
        self._message = ""
        self._prefer: str | None = None
        self._scroll = 0
        self._shown: Shown | None = None
        self._body: Lines = []
        self.tally = Tally()

    def run(self) -> Tally:
        """Show pairs until the end of the queue or of patience; return what was done."""
        with full_screen(self._console):
            self._turn_to(0)
            while True:
                self._draw()
                try:
                    key = self._keys.read()
                except KeyboardInterrupt:
                    key = review_keys.QUIT
                if key == review_keys.QUIT:
                    return self.tally
                self._act(key)

    # -- keys ----------------------------------------------------------------------------------------------

    def _act(self, key: str) -> None:
        if key == review_keys.RESIZED:
            self._lay_out()
        elif key == UNDO_KEY:
            self._undo()
        elif self._shown is None:  # the end of the queue
            self._message = "no pair is left: u takes the last verdict back, q ends the review"
        elif key in VERDICT_KEYS:
            self._decide(self._shown.entry, VERDICT_KEYS[key])
        elif key in SKIP_KEYS:
            self._passed.append(self._number)
            self.tally.skipped += 1
            self._turn_to(self._number + 1, "skipped")
        elif key in SIDES:
            self._prefer = None if self._prefer == key else key
            self._message = preferred(self._prefer)
        elif key == CLAIM_KEY:
            place = next_claim(self._body, self._scroll)
            self._scroll = self._scroll if place is None else place
            self._message = "nothing marked changes a claim" if place is None else self._message
        else:
            self._move(key)

    def _move(self, key: str) -> None:
        page = room_of(self._console) - 1
        steps: Mapping[str, Callable[[int], int]] = {
            "j": lambda at: at + 1,
            "k": lambda at: at - 1,
            review_keys.DOWN: lambda at: at + 1,
            review_keys.UP: lambda at: at - 1,
            review_keys.PAGE_DOWN: lambda at: at + page,
            review_keys.PAGE_UP: lambda at: at - page,
            review_keys.HOME: lambda _: 0,
            review_keys.END: lambda _: len(self._body),
        }
        if key in steps:
            self._scroll = steps[key](self._scroll)
        else:
            self._message = "this key means nothing here; those that do stand below"

    def _decide(self, entry: Entry, verdict: ReviewVerdict) -> None:
        relation = entry.relation
        action = ACTIONS[relation.kind][verdict]
        note = note_of(Stated(verdict, self._prefer))
        try:
            (decision,) = record_decisions(self._url, [NewDecision(relation, action, note)], by=self._by)
        except DecidedMeanwhile:
            self._turn_to(self._number + 1, "not written: somebody decided about that pair meanwhile")
            return
        one = Verdict(self._number, verdict, decision)
        self._passed.append(one)
        self.tally.verdicts.append(one)
        self._turn_to(self._number + 1, f"{_words(verdict)}: {_CONSEQUENCES[action]} (u takes it back)")

    def _undo(self) -> None:
        """Take back the last verdict, or go back to what was skipped last."""
        if not self._passed:
            self._message = "there is nothing to take back in this session"
            return
        last = self._passed.pop()
        if isinstance(last, int):
            self.tally.skipped -= 1
            self._turn_to(last, "back to what was skipped")
            return
        self.tally.verdicts.remove(last)
        relation = self._queue.entries[last.number].relation
        undo = NewDecision(relation, DecisionAction.UNDO, expects=last.decision.decision_id)
        try:
            record_decisions(self._url, [undo], by=self._by)
        except DecidedMeanwhile:
            self._message = "somebody has decided otherwise about that pair since; nothing was taken back"
            return
        self.tally.undone += 1
        self._turn_to(last.number, f"{_words(last.verdict)} was taken back")

    # -- what is shown -------------------------------------------------------------------------------------

    def _turn_to(self, number: int, message: str = "") -> None:
        """Show an entry, or the next one behind it that can still be asked about."""
        self._message = message
        self._prefer, self._scroll = None, 0
        self._shown = None
        self._number = number
        while self._number < len(self._queue.entries) and self._shown is None:
            self._shown = self._look_up(self._queue.entries[self._number])
            self._number += self._shown is None
        self._lay_out()
        self._keys.forget()

    def _look_up(self, entry: Entry) -> Shown | None:
        with Ledger.open(self._url) as ledger:
            held = in_force(ledger.history(entry.relation.relation_id))
            sides = None if held else ledger.sides(entry.relation)
        if held is not None:
            self._message = f"passed over, decided meanwhile: {signed(held)}"
        elif sides is None:
            self._message = "passed over: the ledger does not hold both texts of a pair"
        return Shown.of(entry, *sides) if sides else None

    def _lay_out(self) -> None:
        self._body = body_of(self._console, self._shown) if self._shown else []

    def _draw(self) -> None:
        entries = self._queue.entries
        decided = f"{len(self.tally.verdicts):,} decided"
        if self._shown is None:
            heading = f"no pair is left of {len(entries):,}   {decided}"
        else:
            more = f" (of {self._queue.open:,})" if self._queue.open > len(entries) else ""
            heading = f"pair {self._number + 1:,} of {len(entries):,}{more}   {decided}   {self._by}"
        self._scroll = draw(self._console, Frame(heading, self._message), self._body, self._scroll)


def _words(verdict: ReviewVerdict) -> str:
    return verdict.value.replace("_", " ")
