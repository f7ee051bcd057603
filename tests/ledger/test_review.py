"""Pairs for review: their order, texts and places, verdicts as decisions, and what suppression would do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.errors import DedupError
from scrapy_dedup.ledger import Ledger, record_decision, relations, review_queue, review_sides
from scrapy_dedup.ledger.decisions import DecidedMeanwhile, NewDecision, record_decisions
from scrapy_dedup.ledger.engine import Target, reader_engine
from scrapy_dedup.ledger.near_relations import Measures, Side, near_relation
from scrapy_dedup.ledger.review_queue import Entry, Weight, impact_of, ordered, uncertainty_of
from scrapy_dedup.ledger.review_verdicts import ACTIONS, ReviewVerdict, Stated, note_of, stated_in
from scrapy_dedup.ledger.schema import meta
from scrapy_dedup.ledger.suppression import looked_name, mark_looked
from scrapy_dedup.records import DecisionAction, Outcome, Reason, RelationKind, RelationState, Validity

SAME, DIFFERENT, UNDO = DecisionAction.SAME, DecisionAction.DIFFERENT, DecisionAction.UNDO
BY = "human:ann"


def near(a="a", b="b", verdict="edited", jaccard=0.9, *, corpus="default", threshold=0.8, **options):
    """A relation of two texts, bodies or names."""
    sides = [
        Side(one.body_id, one.text_digest) if hasattr(one, "body_id") else Side(f"body1-{one}", one)
        for one in (a, b)
    ]
    return near_relation(
        corpus,
        *sides,
        Measures(jaccard, 0.95, 0.95, verdict, 1, int(verdict == "claim_changed")),
        policy="p",
        reasons=(Reason("jaccard", jaccard, threshold), Reason("verdict", verdict)),
        created_at="2026-01-02T03:04:05Z",
        **options,
    )


# -- the order


UNCERTAIN = [
    ("at the threshold", near(jaccard=0.8), 1.0, "near the threshold 0.8"),
    ("far above it", near(jaccard=0.97), 0.1, "the measures leave little doubt"),
    ("half a band off", near(jaccard=0.85), 0.5, "near the threshold 0.8"),
    ("another threshold", near(jaccard=0.72, threshold=0.7), 0.8, "near the threshold 0.7"),
    (
        "a claim in alike texts",
        near(verdict="claim_changed", jaccard=0.98),
        0.9,
        "alike, but for a changed claim",
    ),
    (
        "a claim in texts less alike",
        near(verdict="claim_changed", jaccard=0.9),
        0.5,
        "alike, but for a changed",
    ),
    ("unresolved", near(verdict="contains", jaccard=0.6), 0.75, "unresolved"),
    ("no measures", replace(near(), measures={}, reasons=()), 0.1, "the measures leave little doubt"),
]


@pytest.mark.parametrize(
    ("relation", "expected", "because"), [one[1:] for one in UNCERTAIN], ids=[one[0] for one in UNCERTAIN]
)
def test_uncertainty_is_the_largest_of_what_applies(relation, expected, because):
    value, why = uncertainty_of(relation)
    assert value == pytest.approx(expected)
    assert why.startswith(because)


@given(*[st.builds(Weight, *[st.integers(0, 10**6)] * 3)] * 2)
def test_impact_is_the_same_from_both_sides_and_grows_with_all_that_hangs_on_a_pair(a, b):
    assert impact_of(a, b) == impact_of(b, a) >= 0
    more = Weight(*(value + 1 for value in a))
    assert impact_of(more, b) > impact_of(a, b)


def test_probes_of_the_threshold_are_every_second_one_of_the_first_and_other_kinds_come_last():
    entries = [
        Entry(near(a=str(number)), impact=float(number), uncertainty=1.0, because="") for number in range(9)
    ]
    canonical = replace(near(a="c"), kind=RelationKind.CANONICAL, relation_id="rel1-c")
    entries.append(Entry(canonical, impact=99.0, uncertainty=1.0, because=""))

    found = ordered(entries, probes=entries[:2])

    assert [entry.impact for entry in found] == [8, 0, 7, 1, 6, 5, 4, 3, 2, 99]


# -- notes


@given(
    st.builds(
        Stated,
        st.sampled_from(ReviewVerdict),
        st.sampled_from(["a", "b", None]),
        st.none() | st.text(min_size=1).filter(lambda text: not text.startswith("prefer=")),
    )
)
def test_a_note_holds_what_was_stated(stated):
    assert stated_in(note_of(stated)) == stated


@pytest.mark.parametrize("note", [None, "", "same", "verdict=", "verdict=merged", "a verdict=related"])
def test_other_notes_state_nothing(note):
    assert stated_in(note) is None


def test_only_what_loses_nothing_makes_two_texts_one():
    assert [verdict for verdict, action in ACTIONS[RelationKind.NEAR].items() if action is SAME] == [
        ReviewVerdict.REPRODUCTION
    ]
    assert all(set(actions) == set(ReviewVerdict) for actions in ACTIONS.values())


# -- the queue of a ledger


def test_the_queue_leaves_out_what_was_decided_until_a_text_changes(crawl, ledger_url, read):
    job = crawl()
    a, b = job.see("One text.", "http://a.example/").body, job.see("One tale.", "http://b.example/").body
    job.see("Elsewhere.", "http://c.example/")
    relation = near(a, b)
    relations.record(ledger_url, [relation, near(a, b, corpus="other"), near(a, b)])

    (entry,) = read().for_review("default").entries
    assert entry.relation == relation
    assert entry.impact == round(impact_of(Weight(1, 1, 9), Weight(1, 1, 9)), 3)
    record_decision(ledger_url, relation, DIFFERENT, by=BY, note=note_of(Stated(ReviewVerdict.RELATED)))
    relations.record(ledger_url, [replace(relation, policy="another")])  # found once more
    decided = read().for_review("default")
    assert (decided.entries, decided.open, decided.decided) == ((), 0, 1)

    changed = job.see("One tale told.", "http://b.example/").body
    relations.record(ledger_url, [near(a, changed)])
    (again,) = read().for_review("default").entries
    assert {again.relation.a, again.relation.b} == {a.body_id, changed.body_id}
    read_again = read()
    assert read_again.are_current(again.relation) == (True, True)
    assert sorted(read_again.are_current(relation)) == [False, True]


def test_nobody_is_asked_about_a_text_that_no_page_shows_any_more(crawl, ledger_url, read):
    pages = {name: f"http://{name}.example/" for name in ("gone", "failed", "walled", "old", "kept", "back")}
    first = crawl()
    bodies = {name: first.see(f"The {name} text.", page).body for name, page in pages.items()}
    kept = bodies.pop("kept")
    relations.record(ledger_url, [near(kept, body) for body in bodies.values()])
    assert read().for_review("default").open == 5

    second = crawl("job-2")
    gone = {"outcome": Outcome.GONE, "validity": Validity.HTTP_ERROR, "http_status": 404}
    for name, changes in {
        "gone": gone,
        "back": gone,
        "failed": {"outcome": Outcome.ERROR, "validity": None, "http_status": None},
        "walled": {"validity": Validity.LOGIN},
    }.items():
        second.see(None, pages[name], **changes)
    second.see("The back text.", pages["back"])
    second.see("Another text.", pages["old"])

    queue = read().for_review("default")
    asked = {side for entry in queue.entries for side in (entry.relation.a, entry.relation.b)}
    assert asked == {kept.body_id, *(bodies[name].body_id for name in ("failed", "walled", "back"))}
    assert queue.open == len(queue.entries) == 3
    sides = read().sides(near(kept, bodies["gone"]))
    assert {side.body.body_id: side.is_current for side in sides} == {
        bodies["gone"].body_id: False,
        kept.body_id: True,
    }


def test_both_texts_come_with_all_their_pages(crawl, ledger_url, read, monkeypatch):
    monkeypatch.setattr(review_sides, "MAX_URLS", 2)
    job = crawl()
    a = job.see("One text.", "http://a.example/1").body
    for page in ("2", "3", "3"):
        job.see("One text.", f"http://a.example/{page}", fetched_at="2026-03-04T05:06:07Z")
    b = job.see("One tale.", "http://b.example/").body
    relation = near(a, b)

    sides = dict(zip((relation.a, relation.b), read().sides(relation), strict=True))

    many, one = sides[a.body_id], sides[b.body_id]
    assert (many.body.text, many.observations, many.more_pages, many.is_current) == ("One text.", 4, 1, True)
    assert [(page.url, page.times) for page in many.pages] == [
        ("http://a.example/1", 1),
        ("http://a.example/2", 1),
    ]
    assert (many.first_seen[:10], many.last_seen[:10]) == ("2026-01-02", "2026-03-04")
    assert [page.url for page in one.pages] == ["http://b.example/"]
    assert read().sides(near("1" * 32, "2" * 32)) is None


def test_pages_with_one_text_and_other_prose_beside_it_are_asked_about_too(crawl, records, ledger_url, read):
    job = crawl()
    job.see(records.text("One text.", residual="x"), "http://a.example/1", residual_digest=records.sha("x"))
    job.see(records.text("One text.", residual="y"), "http://a.example/2", residual_digest=records.sha("y"))

    (entry,) = read().for_review("default").entries

    assert entry.relation.kind is RelationKind.RESIDUAL_DIFFERS
    a, b = read().sides(entry.relation)
    assert [[page.url for page in side.pages] for side in (a, b)] == [
        ["http://a.example/2"],
        ["http://a.example/1"],
    ]
    identity = entry.relation.relation_id
    assert read().relations_named({identity}) == {identity: entry.relation}
    assert read().for_review("default", [RelationKind.NEAR]).entries == ()
    record_decision(ledger_url, entry.relation, DIFFERENT, by=BY)
    assert read().for_review("default").entries == ()


def test_unresolved_canonicals_whose_texts_are_known_are_asked_about(crawl, records, ledger_url, read):
    job = crawl()
    digests = {}
    for url, text in (("http://a.example/p?x=1", "One text."), ("http://a.example/p", "One tale.")):
        digests[url] = job.see(text, url).body.normalized_digest
    (a, a_digest), (b, b_digest) = digests.items()
    made = replace(
        near(), kind=RelationKind.CANONICAL, a=a, b=b, a_digest=a_digest, b_digest=b_digest,
        state=RelationState.UNRESOLVED, measures={}, reasons=(),
    )  # fmt: skip
    made = replace(made, relation_id=relations.identity(made))
    unread = replace(made, b_digest=None)
    unread = replace(unread, relation_id=relations.identity(unread))
    relations.record(ledger_url, [made, unread])

    (entry,) = read().for_review("default").entries

    assert entry.relation == made
    assert [side.body.text for side in read().sides(made)] == ["One text.", "One tale."]


def test_no_more_than_the_bound_are_queued_and_all_are_counted(crawl, ledger_url, read, monkeypatch):
    monkeypatch.setattr(review_queue, "MAX_QUEUE", 3)
    job = crawl()
    bodies = [job.see(f"Text {number}.", f"http://a.example/{number}").body for number in range(6)]
    relations.record(ledger_url, [near(bodies[0], body) for body in bodies[1:]])

    queue = read().for_review("default")

    assert (len(queue.entries), queue.open) == (3, 5)


# -- many decisions at once


def test_many_are_decided_at_once_or_none(crawl, ledger_url, read):
    job = crawl()
    a, b, c = (job.see(text, f"http://a.example/{text}").body for text in ("x", "y", "z"))
    first, second = near(a, b), near(a, c)
    relations.record(ledger_url, [first, second])
    held = record_decision(ledger_url, second, SAME, by="human:bob")

    news = [NewDecision(first, SAME), NewDecision(second, DIFFERENT)]
    with pytest.raises(DecidedMeanwhile) as raised:
        record_decisions(ledger_url, news, by=BY)
    assert raised.value.relation_ids == (second.relation_id,)
    with pytest.raises(DedupError, match="cannot be decided"):
        record_decisions(ledger_url, [news[0], NewDecision(second, DecisionAction.ACCEPT)], by=BY)
    assert [one.decision_id for one in read().decisions()] == [held.decision_id]

    news[1] = replace(news[1], expects=held.decision_id, note="after all")
    made = record_decisions(ledger_url, news, by=BY)
    assert [(one.action, one.supersedes, one.note) for one in made] == [
        (SAME, None, None),
        (DIFFERENT, held.decision_id, "after all"),
    ]
    assert read().history(second.relation_id) == (held, made[1])


# -- suppression


def test_what_suppression_would_leave_out_follows_the_order_of_the_texts(crawl, ledger_url, read):
    job = crawl()
    pages = [
        "http://a.example/1",
        "http://b.example/2",
        "http://b.example/3",
        "http://b.example/4",
        "http://a.example/1",
    ]
    bodies = [job.see(f"Text {number}.", page).body for number, page in enumerate(pages)]
    first, second, third, fourth, revision = bodies
    job.see("Text 0.", "http://c.example/0")  # or it would stand for nothing after its revision
    relations.record(
        ledger_url,
        [
            near(first, second, jaccard=0.95),
            near(second, third, jaccard=0.96),  # what was left out leads nothing
            near(first, fourth, verdict="claim_changed", jaccard=0.99),
            near(first, revision, jaccard=0.97),  # the page's own earlier text
            near(second, fourth, jaccard=0.7),
        ],
    )

    found = read().would_suppress("default", 0.8)

    assert (found.relations, found.texts, found.suppressed, found.chars) == (5, 5, 1, 7)
    (one,) = found.listed
    assert (one.url, one.leader_url, one.jaccard, one.verdict) == (pages[1], pages[0], 0.95, "edited")
    assert found.hosts == {"b.example": (1, 3)}
    record_decision(ledger_url, near(first, second, jaccard=0.95), DIFFERENT, by=BY)
    after = read().would_suppress("default", 0.8)
    assert [one.url for one in after.listed] == [pages[2]]
    assert read().would_suppress("default", 0.97).suppressed == 0
    assert read().would_suppress("other", 0.8).relations == 0


def test_that_somebody_has_looked_is_written_once_for_each_corpus(crawl, ledger_url):
    crawl().see("x")
    for corpus in ("default", "default", "other\x00"):
        mark_looked(ledger_url, corpus)

    engine = reader_engine(Target.parse(ledger_url))
    with engine.connect() as connection:
        names = (
            connection.execute(sa.select(meta.c.name).where(meta.c.name.like("near_looked:%")))
            .scalars()
            .all()
        )
    engine.dispose()

    assert sorted(names) == sorted([looked_name("default"), looked_name("other\x00")])
    assert Ledger.open(ledger_url).check() == []
