"""Whatever becomes of pages, decisions and plans, a store ends up with what live pages show, and no more."""

from __future__ import annotations

import random

import pytest

from scrapy_dedup.ledger import Ledger, Sighting, record_decision
from scrapy_dedup.ledger.decide import KnownPage
from scrapy_dedup.ledger.derived import of_content
from scrapy_dedup.ledger.plans import confirm_plan, discard_plan
from scrapy_dedup.records import DecisionAction, Outcome, RelationKind, Validity

from ..ledger.conftest import Crawl, make_job, make_observation, sha
from .conftest import GONE, SITE, TIMEOUT
from .test_live import paragraph
from .test_store import Store, live

PARTS = [paragraph(number) for number in range(9)]
SIZE = {"size": 900}
LOGIN = {"validity": Validity.LOGIN}
UNSEEN = {"validity": None, "http_status": None, "payload_digest": None}
EVENTS = ("text", "text", "text", "gone", "timeout", "login", "not_modified", "fresh", "moved")
PATHS = [f"/{folder}/{number}" for folder in "ab" for number in range(4)]


class History:
    """A site that is crawled, decided about and planned for at random, and what it has to come to."""

    def __init__(self, site, seed: int) -> None:
        self.site = site
        self.rng = random.Random(seed)
        self.store = Store()
        self.shown: dict[str, str] = {}  # the last valid text of each page
        self.seen: dict[str, object] = {}  # its observation
        self.is_live: dict[str, bool] = {}
        self.is_rejected: dict[tuple[str, str], bool] = {}

    def crawl(self) -> None:
        """See some pages in some state."""
        self.site.jobs += 1
        with Crawl(self.site.url, make_job(f"job-{self.site.jobs}")) as one:
            one.writer.open()
            for path in self.rng.sample(PATHS, self.rng.randint(1, len(PATHS))):
                self.see(one, path, self.rng.choice(EVENTS))

    def see(self, one: Crawl, path: str, event: str) -> None:
        """See a page; what nobody saw yet, or what is gone and cannot be fresh, shows a text."""
        url = SITE + path
        if path not in self.shown or (event == "fresh" and not self.is_live[path]):
            event = "text"
        if event == "text":
            text = "\n\n".join(self.rng.sample(PARTS, self.rng.randint(1, 3)))
            self.seen[path] = one.see(text, url, payload_digest=sha(text)).observation
            self.shown[path] = text
        elif event in ("gone", "timeout", "login"):
            one.see(None, url, **{"gone": GONE, "timeout": TIMEOUT, "login": LOGIN}[event])
        elif event in ("not_modified", "fresh"):
            outcome = Outcome.NOT_MODIFIED if event == "not_modified" else Outcome.SKIPPED
            made = make_observation(one.writer.next_seq(), url, one.job, outcome=outcome, **UNSEEN)
            known = KnownPage(event, self.seen[path].observation_id, self.seen[path].body_id)
            one.writer.record(Sighting(made, None, known=known)).result(30)
        else:
            one.note(url, f"{SITE}/end", "redirect", verdict="redirected")
        if event in ("text", "gone", "moved", "not_modified"):
            self.is_live[path] = event in ("text", "not_modified")

    def decide(self) -> None:
        """Reject or take a page that was seen, or tell two texts apart."""
        with Ledger.open(self.site.url) as ledger:
            pages = [one for one in ledger.observations() if one.body_id and one.outcome is Outcome.FETCHED]
            texts = {body.body_id: body.text for body in ledger.bodies()}
            equal = [*ledger.relations(kind=RelationKind.SAME_TEXT)]
        action = self.rng.choice([DecisionAction.REJECT, DecisionAction.ACCEPT, DecisionAction.DIFFERENT])
        if action is not DecisionAction.DIFFERENT:
            page = self.rng.choice(pages)
            record_decision(self.site.url, of_content(page, "default"), action, by="human:ann")
            key = page.url.removeprefix(SITE), texts[page.body_id]
            self.is_rejected[key] = action is DecisionAction.REJECT
        elif equal:
            record_decision(self.site.url, self.rng.choice(equal), action, by="human:ann")

    def plan(self) -> None:
        """Plan, apply all, half or none of it, and confirm it or not."""
        plan = self.site.plan(**SIZE)
        done = self.rng.choice(["confirmed", "confirmed", "twice", "applied", "half", "looked at"])
        lines = {"half": self.rng.randint(0, len(plan.records)), "looked at": 0}.get(done)
        for _ in range(2 if done == "twice" else 1):
            self.store.apply(plan, lines=lines)
        if done in ("confirmed", "twice"):
            confirm_plan(self.site.url, "default", "default", plan.id)
            self.check()

    def check(self) -> None:
        """Hold the store against the chunks, and these against the pages; nothing is left to be planned."""
        assert self.store.held == live(self.site, **SIZE)
        held = {(url, text) for text, _, urls in self.store.held.values() for url in urls}
        assert held == {
            (SITE + path, part)
            for path, text in self.shown.items()
            if self.is_live[path] and not self.is_rejected.get((path, text))
            for part in text.split("\n\n")
        }
        nothing = self.site.plan(**SIZE)
        assert nothing.counts.is_empty
        if self.rng.random() < 0.5:
            discard_plan(self.site.url, "default", "default", nothing.id)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))])
def test_a_store_holds_what_the_live_pages_show_whatever_happened(site, seed):
    history = History(site, seed)
    for _ in range(history.rng.randint(3, 9)):
        history.crawl()
        if history.seen and history.rng.random() < 0.4:
            history.decide()
        if history.rng.random() < 0.8:
            history.plan()
    history.store.apply(site.plan(apply=True, **SIZE))
    history.check()
