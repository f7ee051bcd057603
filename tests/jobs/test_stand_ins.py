"""Texts that others stand for: they are not embedded, and their pages are cited as what they are."""

from __future__ import annotations

import pytest

from scrapy_dedup.ledger import Ledger, record_decision
from scrapy_dedup.ledger.derived import of_content
from scrapy_dedup.ledger.nearness import NearOptions
from scrapy_dedup.ledger.stand_ins import resolved
from scrapy_dedup.records import Action, DecisionAction, RelationKind
from scrapy_dedup.retrieval import dedupe_hits

from .conftest import GONE
from .test_live import paragraph

REVIEW, SUPPRESS = NearOptions("review"), NearOptions("suppress")
TEXT = paragraph(1)
EDITED = TEXT.replace(" ", " reworded ", 1)
LEADER, FOLLOWER = "https://leader.example/a/long/path", "https://follower.example/a"


def shown(site, **options):
    """Return the texts of all chunks, each with where it is seen and whether something similar is there."""
    return {
        one.text: [(source.url, source.similar) for source in one.sources]
        for one in site.chunks(**options).records
    }


def decide(site, action, *, by="human:ann"):
    with Ledger.open(site.url) as ledger:
        (relation,) = ledger.relations(kind=RelationKind.NEAR)
    record_decision(site.url, relation, action, by=by)


def test_a_suppressed_text_stays_so_and_its_page_is_cited_last(site):
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED}, near=SUPPRESS)
    told = {TEXT: [(LEADER, False), (FOLLOWER, True)]}
    assert shown(site) == told
    (planned,) = site.plan(apply=True).records
    assert planned.metadata["url"] == LEADER
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED}, near=SUPPRESS)  # the same texts again
    assert shown(site) == told
    assert [one.op.value for one in site.plan().records] == ["keep"]


def test_a_text_is_embedded_when_the_one_that_stands_for_it_is_gone(site):
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED}, near=SUPPRESS)
    site.plan(apply=True)
    site.crawl({LEADER: GONE, FOLLOWER: {**GONE, "reason": "timeout"}}, near=SUPPRESS)
    site.crawl({LEADER: GONE}, near=SUPPRESS)
    site.crawl({FOLLOWER: EDITED}, near=SUPPRESS)
    assert shown(site) == {EDITED: [(FOLLOWER, False)]}
    site.crawl({LEADER: TEXT}, near=SUPPRESS)  # it is back, but the other one is kept by now
    assert shown(site) == {TEXT: [(LEADER, False)], EDITED: [(FOLLOWER, False)]}


def test_what_somebody_decides_acts_on_chunks_and_can_be_undone(site):
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED}, near=REVIEW)
    both = {TEXT: [(LEADER, False)], EDITED: [(FOLLOWER, False)]}
    assert shown(site) == both
    decide(site, DecisionAction.SAME)
    assert shown(site) == {TEXT: [(LEADER, False), (FOLLOWER, True)]}
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED}, near=REVIEW)
    assert shown(site) == {TEXT: [(LEADER, False), (FOLLOWER, True)]}
    decide(site, DecisionAction.UNDO)
    assert shown(site) == both


def test_a_suppressed_text_is_embedded_once_somebody_finds_it_different(site):
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED}, near=SUPPRESS)
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED}, near=SUPPRESS)
    decide(site, DecisionAction.DIFFERENT)
    assert shown(site) == {TEXT: [(LEADER, False)], EDITED: [(FOLLOWER, False)]}


def test_a_template_that_names_the_page_renders_none_for_a_text_of_another(site):
    site.crawl({LEADER: TEXT, "/copy": TEXT, FOLLOWER: EDITED}, near=SUPPRESS)
    found = site.chunks(template="{url} {text}").records
    assert {one.embed_text.split()[0]: len(one.sources) for one in found} == {
        LEADER: 1,
        "https://site.example/copy": 2,
    }


def test_a_decision_about_a_spelling_acts_too(site):
    spelled = TEXT.replace(" ", "  ")
    site.crawl({LEADER: TEXT, FOLLOWER: (spelled, {})}, reuse_normalized=False)
    assert [len(pages) for pages in shown(site).values()] == [1, 1]
    with Ledger.open(site.url) as ledger:
        (relation,) = ledger.relations(kind=RelationKind.SAME_NORMALIZED)
    record_decision(site.url, relation, DecisionAction.SAME, by="human:ann")
    assert shown(site) == {TEXT: [(LEADER, False), (FOLLOWER, True)]}


def test_a_page_that_is_rejected_takes_no_text_of_other_pages_along(site):
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED, "/also": EDITED}, near=SUPPRESS)
    with Ledger.open(site.url) as ledger:
        (seen,) = [one for one in ledger.observations() if one.url == FOLLOWER]
        relation = of_content(seen, "default")
    record_decision(site.url, relation, DecisionAction.REJECT, by="human:ann")
    assert shown(site) == {TEXT: [(LEADER, False), ("https://site.example/also", True)]}


def test_a_reader_of_a_similar_page_alone_is_not_shown_the_text(site):
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED}, near=SUPPRESS)
    (chunk,) = site.chunks().records
    assert dedupe_hits([chunk])[0][0].also_seen_at == ()
    kept, dropped = dedupe_hits([chunk], visible=lambda url: url == FOLLOWER)
    assert (kept, [one.reason.value for one in dropped]) == ([], ["not_visible"])


# which text is resolved; which stands for which; which pages show as their own; what is found
RESOLVED = {
    "nothing stands for it": (1, {}, {1}, 1),
    "one stands for it": (1, {1: 2}, {2}, 2),
    "one over another": (1, {1: 2, 2: 3}, {3}, 3),
    "the first that is shown": (1, {1: 2, 2: 3}, {2, 3}, 2),
    "one that no page shows": (1, {1: 2}, set(), 1),
    "kept by itself": (1, {1: 2}, {1, 2}, 1),
    "each for the other": (1, {1: 2, 2: 1}, set(), 1),
}


@pytest.mark.parametrize("case", RESOLVED.values(), ids=RESOLVED)
def test_the_text_to_take_for_another(case):
    body, stands_for_it, own, expected = case
    assert resolved(body, stands_for_it, own) == expected


def test_stand_ins_are_known_by_the_texts_alone(site):
    site.crawl({LEADER: TEXT, FOLLOWER: EDITED, "/x": TEXT.replace(" ", "  ")}, near=SUPPRESS)
    with Ledger.open(site.url) as ledger:
        actions = [one.action for one in ledger.observations()]
        found = ledger.stand_ins("default")
        assert ledger.stand_ins("other") == {}
    assert actions == [Action.KEEP, Action.REUSE, Action.REUSE]
    assert found == {2: 1, 3: 1}
