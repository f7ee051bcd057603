"""What is decided about relations is in force until it is undone or a text changes, on every engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.errors import DedupError, LedgerUnavailable, RecordError
from scrapy_dedup.ledger import Ledger, Overrides, record_decision
from scrapy_dedup.ledger.decisions import MEANING, in_force, opposite, ruled_relation, undone
from scrapy_dedup.ledger.derived import of_content
from scrapy_dedup.ledger.relations import identity
from scrapy_dedup.records import (
    Action,
    DecisionAction,
    DecisionRecord,
    Outcome,
    Reason,
    RelationKind,
    RelationRecord,
    RelationState,
    Validity,
)

A = "http://site.example/a"
B = "http://site.example/b"
SAME, DIFFERENT, UNDO = DecisionAction.SAME, DecisionAction.DIFFERENT, DecisionAction.UNDO
ACCEPT, REJECT, FORGET = DecisionAction.ACCEPT, DecisionAction.REJECT, DecisionAction.FORGET


def relation(kind=RelationKind.SAME_TEXT, a=A, b="obs1-" + "0" * 32, corpus="default", **changes):
    made = RelationRecord(
        relation_id="",
        kind=kind,
        corpus=corpus,
        a=a,
        b=b,
        a_digest=None,
        b_digest=None,
        state=RelationState.CONFIRMED,
        measures={},
        reasons=(),
        policy="p",
        job_id=None,
        created_at="2026-01-02T03:04:05Z",
    )
    made = replace(made, **changes)
    return replace(made, relation_id=identity(made))


@pytest.fixture
def decide(ledger_url):
    """Decide about a relation of the ledger of the test."""

    def decide_about(about, action, **options):
        return record_decision(ledger_url, about, action, by="human:ann", **options)

    return decide_about


def only(read, kind):
    (found,) = read().relations(kind=kind)
    return found


def stands(observation):
    return observation.action, observation.reason, observation.decision_id


# -- what is in force


def history(*steps: tuple[str, str | None]) -> list[DecisionRecord]:
    """Decisions named 0, 1, ... by their place: (action, the one that it supersedes)."""
    return [
        DecisionRecord(
            str(number), "rel", DecisionAction(action), superseded, "human:x", "t", None, (None, None)
        )
        for number, (action, superseded) in enumerate(steps)
    ]


HISTORIES = [
    ("nothing", [], None, set()),
    ("one", [("same", None)], "0", set()),
    ("the later of two", [("same", None), ("different", "0")], "1", set()),
    ("an undo leaves nothing", [("same", None), ("undo", "0")], None, {"0"}),
    ("an undo brings the one before back", [("same", None), ("different", "0"), ("undo", "1")], "0", {"1"}),
    ("an undo of an undo", [("same", None), ("undo", "0"), ("undo", "1")], "0", {"1"}),
    ("three undos", [("same", None), ("undo", "0"), ("undo", "1"), ("undo", "2")], None, {"0", "2"}),
    ("an undo of one that is outranked", [("same", None), ("different", "0"), ("undo", "0")], "1", {"0"}),
    ("all undone", [("same", None), ("different", "0"), ("undo", "0"), ("undo", "1")], None, {"0", "1"}),
    ("a decision after an undo", [("same", None), ("undo", "0"), ("same", None)], "2", {"0"}),
]


@pytest.mark.parametrize(
    ("steps", "held", "taken_back"), [case[1:] for case in HISTORIES], ids=[case[0] for case in HISTORIES]
)
def test_the_last_decision_that_is_not_undone_is_in_force(steps, held, taken_back):
    decided = history(*steps)
    found = in_force(decided)
    assert (found.decision_id if found else None) == held
    assert undone(decided) == taken_back


@given(st.data())
def test_a_decision_is_undone_just_when_an_undo_of_it_is_not(data):
    steps: list[tuple[str, str | None]] = []
    for number in range(data.draw(st.integers(0, 12))):
        undos = number > 0 and data.draw(st.booleans())
        steps.append(("undo", str(data.draw(st.integers(0, number - 1)))) if undos else ("same", None))
    decided = history(*steps)

    def holds(number: int) -> bool:
        undos = [place for place, step in enumerate(steps) if step == ("undo", str(number))]
        return not any(holds(place) for place in undos)

    held = [number for number, step in enumerate(steps) if step[0] != "undo" and holds(number)]
    found = in_force(decided)
    assert (None if found is None else int(found.decision_id)) == (held[-1] if held else None)


OPPOSITES = [
    (RelationKind.SAME_TEXT, "confirmed", DIFFERENT),
    (RelationKind.SAME_NORMALIZED, "confirmed", DIFFERENT),
    (RelationKind.SAME_NORMALIZED, "unresolved", SAME),
    (RelationKind.RESIDUAL_DIFFERS, "unresolved", SAME),
    (RelationKind.REVISION, "confirmed", SAME),
    (RelationKind.CANONICAL, "confirmed", DIFFERENT),
    (RelationKind.CANONICAL, "refuted", SAME),
    (RelationKind.CANONICAL, "unresolved", SAME),
    (RelationKind.SHARED_TEMPLATE, "confirmed", DIFFERENT),
    (RelationKind.EVENT, "confirmed", DIFFERENT),
    (RelationKind.NEAR, "confirmed", DIFFERENT),
    (RelationKind.NEAR, "refuted", SAME),
    (RelationKind.NEAR, "unresolved", SAME),
    (RelationKind.CONTENT_INVALID, "confirmed", ACCEPT),
    (RelationKind.CONTENT_INVALID, "refuted", REJECT),
    (RelationKind.URL_MERGED, "confirmed", DIFFERENT),
    (RelationKind.URL_DENIED, "confirmed", ACCEPT),
    (RelationKind.SKIPPED, "confirmed", FORGET),
    (RelationKind.FORGOTTEN, "confirmed", FORGET),
]


@pytest.mark.parametrize(("kind", "state", "expected"), OPPOSITES, ids=str)
def test_the_opposite_is_what_the_suite_did_not_do(kind, state, expected):
    assert opposite(relation(kind, state=RelationState(state))) is expected


def test_every_kind_says_what_can_be_decided_about_it():
    assert set(MEANING) == set(RelationKind)
    assert {action for possible in MEANING.values() for action in possible} == set(DecisionAction) - {UNDO}


# -- a ledger


def test_a_decision_holds_until_it_is_undone_and_an_undo_can_be_undone(crawl, read, decide):
    one = crawl()
    one.see("A text", A)
    one.see("A text", B)
    automatic = list(read().observations())
    same_text = only(read, RelationKind.SAME_TEXT)
    first = decide(same_text, DIFFERENT, note="Two papers")
    decided = [*read().observations()][1]
    assert stands(decided) == (Action.KEEP, "decided", first.decision_id)
    assert replace(decided, action=Action.REUSE, reason="text_equal", decision_id=None) == automatic[1]
    undo = decide(same_text, UNDO)
    assert undo.supersedes == first.decision_id
    assert list(read().observations()) == automatic
    again = decide(same_text, UNDO, supersedes=undo.decision_id)
    assert [*read().observations()] == [automatic[0], decided]
    ledger = read()
    assert list(ledger.decisions()) == [first, undo, again] == list(ledger.history(same_text.relation_id))
    assert (first.note, first.by, first.digests_seen) == (
        "Two papers",
        "human:ann",
        (same_text.a_digest, None),
    )
    assert ledger.relation(same_text.relation_id) == ruled_relation(same_text, first)
    assert ledger.check(deep=True) == []


def test_a_decision_holds_until_a_text_changes_and_is_found_again_when_it_comes_back(crawl, read, decide):
    one = crawl()
    one.see("A text", A)
    one.see("A text", B)
    decided = decide(only(read, RelationKind.SAME_TEXT), DIFFERENT)
    again = crawl("job-2")
    recrawled = [again.see(text, B) for text in ("A text", "Another text", "A text")]
    assert [stands(got.observation) for got in recrawled] == [
        (Action.KEEP, "decided", decided.decision_id),
        (Action.KEEP, "revision", None),
        (Action.KEEP, "decided", decided.decision_id),
    ]
    assert list(read().observations(job_id="job-2")) == [got.observation for got in recrawled]
    assert [got.body_is_new for got in recrawled] == [False, True, False]


TEXT_DECISIONS = [
    ("revision as the same", "Old", "New", RelationKind.REVISION, SAME, Action.REUSE),
    ("revision as another", "Old", "New", RelationKind.REVISION, DIFFERENT, Action.KEEP),
    ("normalized as another", "Old text", "old  text", RelationKind.SAME_NORMALIZED, DIFFERENT, Action.KEEP),
    ("normalized as the same", "Old text", "old  text", RelationKind.SAME_NORMALIZED, SAME, Action.REUSE),
]


@pytest.mark.parametrize("case", TEXT_DECISIONS, ids=lambda case: case[0])
def test_what_is_decided_about_texts_is_their_action(records, sqlite_url, case):
    _, before, after, kind, action, expected = case
    with records.crawl(sqlite_url, records.job()) as one:
        one.see(before)
        one.see(after)
    with Ledger.open(sqlite_url) as ledger:
        (about,) = ledger.relations(kind=kind)
    decided = record_decision(sqlite_url, about, action, by="policy:tests")
    with Ledger.open(sqlite_url) as ledger:
        first, second = ledger.observations()
    assert first.reason == "new_text"
    assert stands(second) == (expected, "decided", decided.decision_id)


def test_other_prose_beside_a_text_can_be_decided_about_until_it_changes(crawl, read, decide, records):
    one = crawl()
    one.see(records.text("T", residual="r"), A)
    one.see(records.text("T", residual="s"), B)
    decided = decide(only(read, RelationKind.RESIDUAL_DIFFERS), SAME)
    again = crawl("job-2")
    assert stands(again.see(records.text("T", residual="s"), B).observation) == (
        Action.REUSE,
        "decided",
        decided.decision_id,
    )
    assert again.see(records.text("T", residual="u"), B).observation.reason == "residual_differs"


def test_a_crawl_hears_of_a_decision_that_is_made_while_it_writes(crawl, read, decide):
    one = crawl()
    one.see("A text", A)
    assert one.see("A text", B).observation.action is Action.REUSE
    decided = decide(only(read, RelationKind.SAME_TEXT), DIFFERENT)
    assert stands(one.see("A text", B).observation) == (Action.KEEP, "decided", decided.decision_id)
    decide(only(read, RelationKind.SAME_TEXT), UNDO)
    assert one.see("A text", B).observation.reason == "text_equal"
    one.writer.finish("finished")
    assert read().check(deep=True) == []


def test_what_was_seen_of_a_page_that_is_rejected_is_to_be_looked_at(crawl, read, decide):
    one = crawl()
    one.see("A text", A)
    one.see("Another", B)
    content = of_content(next(read().observations()), "default")
    assert content.state is RelationState.REFUTED
    assert read().relation(content.relation_id) == content
    decided = decide(content, REJECT)
    assert [stands(got) for got in read().observations()] == [
        (Action.REVIEW, "decided", decided.decision_id),
        (Action.KEEP, "new_text", None),
    ]
    assert read().overrides("default").contents == {(A, content.a_digest): REJECT}


def test_a_page_that_was_refused_and_is_accepted_waits_for_the_next_crawl(crawl, read, decide):
    crawl().see(None, A, validity=Validity.SOFT_404, validity_reason="title")
    refused = only(read, RelationKind.CONTENT_INVALID)
    assert (refused.a, refused.b, refused.reasons) == (A, "soft_404:title", (Reason("soft_404", "title"),))
    decided = decide(refused, ACCEPT)
    (seen,) = read().observations()
    assert stands(seen) == (Action.REVIEW, "content_invalid", decided.decision_id)
    assert read().overrides("default").contents == {(A, refused.a_digest): ACCEPT}
    assert only(read, RelationKind.CONTENT_INVALID).state is RelationState.REFUTED


def test_what_a_crawl_has_to_know_at_its_start(crawl, read, decide):
    one = crawl()
    one.see("T", A)
    assert read().overrides("default") == Overrides()
    one.note("http://raw/merged", A)
    one.note("http://raw/denied", "http://raw/denied", "facet", verdict="denied")
    one.writer.finish("finished")
    decide(only(read, RelationKind.URL_MERGED), DIFFERENT)
    decide(only(read, RelationKind.URL_DENIED), ACCEPT)
    other = decide(relation(RelationKind.URL_MERGED, "http://other/", A), DIFFERENT)
    key = decide(relation(RelationKind.FORGOTTEN, A, ""), FORGET)
    prefix = decide(relation(RelationKind.FORGOTTEN, "http://site.example/docs*", ""), FORGET)
    decide(relation(RelationKind.FORGOTTEN, B, "", corpus="elsewhere"), FORGET)
    decide(relation(RelationKind.URL_MERGED, "http://elsewhere/", A, corpus="elsewhere"), DIFFERENT)
    overrides = read().overrides("default")
    assert overrides.urls == {
        "http://raw/merged": DIFFERENT,
        "http://raw/denied": ACCEPT,
        "http://other/": DIFFERENT,
    }
    assert overrides.forgotten_us(A) is not None
    assert overrides.forgotten_us("http://site.example/docs/x") > overrides.forgotten_us(A)
    assert overrides.forgotten_us(B) is None
    assert read().overrides("elsewhere").forgotten_us(B) is not None
    decide(relation(RelationKind.URL_MERGED, "http://other/", A), UNDO, supersedes=other.decision_id)
    decide(relation(RelationKind.FORGOTTEN, A, ""), UNDO, supersedes=key.decision_id)
    later = decide(relation(RelationKind.FORGOTTEN, "http://site.example/docs*", ""), FORGET)
    assert later.supersedes == prefix.decision_id
    overrides = read().overrides("default")
    assert "http://other/" not in overrides.urls
    assert overrides.forgotten_us(A) is None
    assert overrides.forgotten == {"http://site.example/docs*": pytest.approx(_us(later.at), abs=0)}


def _us(moment: str) -> int:
    from scrapy_dedup.ledger.codec import to_micros

    return to_micros(moment)


REFUSED = [
    ("another kind's action", {}, {"action": ACCEPT}, DedupError, "decide 'same' or 'different'"),
    ("undo of nothing", {}, {"action": UNDO}, DedupError, "none to undo"),
    ("an unknown decision", {}, {"supersedes": "dec1-" + "0" * 32}, DedupError, "no decision about"),
    (
        "an identity that is another's",
        {"relation_id": "rel1-" + "0" * 32},
        {},
        RecordError,
        "not the identity",
    ),
    ("nobody", {}, {"by": "human:"}, RecordError, "human:<name>"),
    ("an unknown sort of decider", {}, {"by": "ann"}, RecordError, "human:<name>"),
    ("a note without end", {}, {"note": "x" * 10_001}, RecordError, "longer than"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_a_decision_that_makes_no_sense_is_refused_and_leaves_nothing(records, sqlite_url, case):
    _, changes, options, error, message = case
    with records.crawl(sqlite_url, records.job()) as one:
        one.see("T")
    asked = {"action": SAME, "by": "human:ann", **options}
    about = replace(relation(), **changes)
    with pytest.raises(error, match=message):
        record_decision(sqlite_url, about, asked.pop("action"), **asked)
    with Ledger.open(sqlite_url) as ledger:
        assert list(ledger.decisions()) == list(ledger.relations()) == []


def test_a_conflict_of_claims_is_decided_about_at_one_of_them(records, sqlite_url):
    with records.crawl(sqlite_url, records.job()) as one:
        one.see("T")
    with pytest.raises(DedupError, match="one of the claims"):
        record_decision(sqlite_url, relation(RelationKind.EVENT_CONFLICT), DIFFERENT, by="human:ann")


def test_what_is_undone_cannot_be_undone_again(crawl, decide):
    crawl().see("T")
    first = decide(relation(), DIFFERENT)
    decide(relation(), UNDO)
    with pytest.raises(DedupError, match="undone already"):
        decide(relation(), UNDO, supersedes=first.decision_id)


def test_a_decision_makes_no_ledger(ledger_url, tmp_path):
    with pytest.raises(LedgerUnavailable, match="no ledger"):
        record_decision(ledger_url, relation(), SAME, by="human:ann")
    assert list(tmp_path.iterdir()) == []


def test_every_relation_is_told_once_in_its_latest_state(crawl, read, decide):
    for number in range(3):
        one = crawl(f"job-{number}")
        one.see("A text", A, payload_digest="sha256:" + f"{number}" * 64)
        one.see("A text", B)
        one.see("A revision", B)
        one.see(None, A, validity=Validity.LOGIN, validity_reason="form")
        one.note("http://raw/1", A)
        one.note("http://raw/1", A, "session")
        one.writer.finish("finished")
    ledger = read()
    found = list(ledger.relations())
    assert [one.kind.value for one in found] == [
        "same_text",  # A, since the second job
        "same_text",  # B, whose first text came back
        "same_text",  # B, its second text
        "revision",
        "content_invalid",
        "url_merged",
    ]
    assert len({one.relation_id for one in found}) == len(found)
    assert {one.job_id for one in found if one.kind is not RelationKind.REVISION} == {"job-2"}
    assert [ledger.relation(one.relation_id) for one in found] == found
    assert ledger.relation("rel1-" + "0" * 32) is None
    assert [one.kind.value for one in ledger.relations(job_id="job-0")] == [
        "same_text",
        "revision",
        "content_invalid",
        "url_merged",
    ]
    (merged,) = ledger.relations(kind=RelationKind.URL_MERGED)
    decide(merged, DIFFERENT)
    ledger = read()
    assert sum(one.kind is RelationKind.URL_MERGED for one in ledger.relations()) == 1
    (merged,) = ledger.relations(kind=RelationKind.URL_MERGED, job_id="job-2")
    assert (merged.state, merged.reasons[0]) == (RelationState.REFUTED, Reason("decided", "different"))
    with pytest.raises(RecordError):
        ledger.relation("rel1-")


def test_a_skip_is_a_relation_by_its_reason(crawl, read):
    one = crawl()
    one.see(None, A, outcome=Outcome.SKIPPED, validity=None, http_status=None, payload_digest=None)
    assert only(read, RelationKind.SKIPPED).a == A


def test_a_lookup_brings_all_relations_and_decisions_of_a_url(crawl, read, decide):
    from scrapy_dedup.urls import UrlPolicy

    one = crawl(spec=UrlPolicy.preset("standard").spec())
    one.see("A text", B)
    one.see("A text", A)
    one.see("Unrelated", "http://site.example/c")
    one.see("Unrelated", "http://site.example/d")
    one.note("http://raw/1", A)
    one.writer.finish("finished")
    (merged,) = read().relations(kind=RelationKind.URL_MERGED)
    first = decide(merged, DIFFERENT)
    undo = decide(merged, UNDO)
    forget = decide(relation(RelationKind.FORGOTTEN, "http://site.example/*", ""), FORGET)
    decide(relation(RelationKind.FORGOTTEN, "http://site.example/x*", ""), FORGET)
    found = read().lookup(A)
    assert {one.kind.value for one in found.relations} == {"same_text", "url_merged", "forgotten"}
    assert len(found.relations) == 3
    assert found.decisions == (first, undo, forget)


def test_a_backup_holds_relations_and_decisions(crawl, read, decide, tmp_path):
    one = crawl()
    one.see("T", A)
    one.see("T", B)
    decide(only(read, RelationKind.SAME_TEXT), DIFFERENT)
    ledger = read()
    ledger.backup(tmp_path / "copy.db")
    with Ledger.open(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert list(copy.relations()) == list(ledger.relations())
        assert list(copy.decisions()) == list(ledger.decisions())
        assert list(copy.observations()) == list(ledger.observations())
        assert copy.check(deep=True) == []


def test_many_decide_at_once_while_a_crawl_writes(crawl, read, ledger_url):
    one = crawl()
    one.see("T")
    sides = [f"http://site.example/{number}" for number in range(12)]

    def decide_about(part):
        for side in part:
            record_decision(ledger_url, relation(a=side), DIFFERENT, by="human:ann")

    threads = [threading.Thread(target=decide_about, args=(sides[start::3],)) for start in range(3)]
    for thread in threads:
        thread.start()
    for number in range(20):
        one.see(f"Text {number}")
    for thread in threads:
        thread.join(120)
    one.writer.finish("finished")
    ledger = read()
    assert sorted(ledger.overrides("default").urls) == []
    assert sorted(one.a for one in ledger.relations(kind=RelationKind.SAME_TEXT)) == sorted(sides)
    assert len({decision.decision_id for decision in ledger.decisions()}) == 12
    assert ledger.check(deep=True) == []


def test_a_decision_outlives_the_process_that_made_it(records, sqlite_url):
    """The process is killed the moment its decision is made; the next crawl acts on it."""
    with records.crawl(sqlite_url, records.job()) as one:
        one.see("A text", A)
        one.see("A text", B)
    code = (
        "import os, signal, sys\n"
        "from scrapy_dedup.ledger import Ledger, record_decision\n"
        "from scrapy_dedup.records import DecisionAction, RelationKind\n"
        "with Ledger.open(sys.argv[1]) as ledger:\n"
        "    (about,) = ledger.relations(kind=RelationKind.SAME_TEXT)\n"
        "made = record_decision(sys.argv[1], about, DecisionAction.DIFFERENT, by='human:x')\n"
        "print(made.decision_id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, sqlite_url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parent,
        env=os.environ,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with records.crawl(sqlite_url, records.job("job-2")) as one:
        assert one.see("A text", B).observation.decision_id == done.stdout.strip()


# -- what is said of events


def test_an_observation_reports_the_event_that_all_say_it_does(crawl, read, ledger_url, decide):
    from scrapy_dedup.ledger.relations import record

    one = crawl()
    seen = [one.see(f"Text {number}", f"{A}/{number}").observation for number in range(3)]
    claims = [
        relation(RelationKind.EVENT, seen[place].observation_id, event)
        for place, event in [(0, "fire"), (1, "fire"), (1, "flood"), (1, "flood")]
    ]
    record(ledger_url, claims)
    assert [got.event_id for got in read().observations()] == ["fire", None, None]
    decide(claims[1], DIFFERENT)
    assert [got.event_id for got in read().observations()] == ["fire", "flood", None]
    decide(claims[1], UNDO)
    assert [got.event_id for got in read().observations()] == ["fire", None, None]
    assert [got.b for got in read().relations(kind=RelationKind.EVENT)] == ["fire", "fire", "flood"]
