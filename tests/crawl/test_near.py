"""Similar pages of a crawl: related in every crawl, suppressed only when that is asked for."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from scrapy_dedup import Ledger
from scrapy_dedup.records import Action, RelationKind

SITE, OTHER = "http://site.test", "http://copies.test"
WORDS = [
    "river",
    "bridge",
    "meadow",
    "harbour",
    "lantern",
    "quarry",
    "orchard",
    "pebble",
    "thicket",
    "willow",
    "saddle",
    "copper",
    "linen",
    "amber",
    "furnace",
    "gravel",
    "hollow",
    "island",
    "juniper",
    "kettle",
    "ladder",
    "marble",
    "needle",
    "oyster",
    "parcel",
    "quiver",
    "ribbon",
    "timber",
]


def sentences(seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    return [f"The {' '.join(source.choices(WORDS, k=11))} was seen by all." for _ in range(count)]


def html(*paragraphs: str) -> bytes:
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<html lang='en'><body><main><article>{text}</article></main></body>".encode()


ARTICLE = sentences(1, 20)
EDITED = [*ARTICLE[:7], ARTICLE[7].replace("was seen", "was watched"), *ARTICLE[8:]]
CHANGED = [*ARTICLE[:7], ARTICLE[7].replace("was seen", "was not seen"), *ARTICLE[8:]]
COPIES = {"/edited": EDITED, "/changed": CHANGED}


@pytest.fixture(scope="module")
def crawls(serve, crawl):
    """Crawl three pages of two hosts under each mode, under review twice."""
    server = serve({"/article": html(*ARTICLE), **{link: html(*text) for link, text in COPIES.items()}})
    start = [f"{SITE}/article", *(f"{OTHER}{link}" for link in COPIES)]

    def run(mode: str, folder=None):
        settings = {"DEDUP_NEAR": mode, "CONCURRENT_REQUESTS": 1}
        return crawl(start=start, proxy=server, settings=settings, folder=folder)

    done = {mode: run(mode) for mode in ("off", "review", "suppress")}
    return {**done, "again": run("review", done["review"].folder)}


def relations_of(done) -> list:
    with Ledger.open(f"sqlite:///{done.ledger_path}") as ledger:
        assert ledger.check(deep=True) == []
        return list(ledger.relations(kind=RelationKind.NEAR))


def test_each_mode_does_what_it_says_and_nothing_is_lost(crawls):
    assert {done.exit_code for done in crawls.values()} == {0}
    for mode, done in crawls.items():
        rows = [row for row in done.ledger.observations if row.body_id]
        assert len(done.ledger.bodies) == 3
        assert len(rows) == (6 if mode in ("review", "again") else 3)  # one ledger of two crawls
        suppressed = [row for row in rows if row.reason == "near_duplicate"]
        assert [row.action for row in suppressed] == ([Action.REUSE] if mode == "suppress" else [])
        assert all(row.url != f"{OTHER}/changed" for row in suppressed)
    for mode in ("review", "suppress"):
        verdicts = Counter(one.measures["verdict"] for one in relations_of(crawls[mode]))
        assert set(verdicts) == {"claim_changed", "edited"}
        assert verdicts["edited"] == 1
    assert relations_of(crawls["off"]) == []


def test_a_crawl_counts_what_it_looked_for(crawls):
    stats = crawls["suppress"].stats
    assert (stats["dedup/near/looked_up"], stats["dedup/near/texts"]) == (3, 2)
    assert stats["dedup/near/pairs"] == stats["dedup/near/pairs/claim_changed"] + 1
    assert (stats["dedup/near/pairs/edited"], stats["dedup/near/suppressed"]) == (1, 1)
    assert not [name for name in crawls["off"].stats if name.startswith("dedup/near/")]
    assert not [name for name in crawls["again"].stats if name.startswith("dedup/near/")]


def test_only_suppression_that_nobody_looked_at_is_warned_of(crawls):
    warned = {mode: "dedup review --would-suppress" in done.log for mode, done in crawls.items()}
    assert warned == {"off": False, "review": False, "suppress": True, "again": False}
