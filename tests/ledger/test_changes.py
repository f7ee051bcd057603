"""What became of a URL key: the table of kinds, the comparison of jobs, and the one made while recording."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.errors import LedgerUnavailable
from scrapy_dedup.ledger.changes import Case, Evidence, Redirect, Seen, SeenText, change_kind, change_of
from scrapy_dedup.records import ChangeKind, Conditions, Outcome, Validity, to_dict
from scrapy_dedup.urls import UrlPolicy

from .test_schemas import schema_of, validate

A = "http://site.example/a"
B = "http://site.example/b"
OLD = SeenText("body1-" + "1" * 32, "markdown", "x-1", b"old")
PAGE = Seen(
    observation_id="obs1-" + "0" * 32,
    job_id="job-1",
    url_key=A,
    url=A,
    at="2026-01-02T03:04:05Z",
    conditions=Conditions(),
    http_status=200,
    outcome=Outcome.FETCHED,
    validity=Validity.VALID,
    validity_reason=None,
    reason="new_text",
    payload_digest=b"payload",
    residual_digest=b"residual",
    text=OLD,
)
OTHER_TEXT = SeenText("body1-" + "2" * 32, "markdown", "x-1", b"new")
CHANGED = replace(PAGE, text=OTHER_TEXT, payload_digest=b"other")
RESPACED = replace(PAGE, text=replace(OTHER_TEXT, normalized_digest=b"old"))
OTHER_EXTRACTOR = replace(CHANGED, text=replace(OTHER_TEXT, extractor_id="x-2"))
GERMAN = replace(CHANGED, conditions=Conditions(language="de"))
UNSEEN = {"text": None, "validity": None, "payload_digest": None}
NOT_MODIFIED = replace(PAGE, **UNSEEN, outcome=Outcome.NOT_MODIFIED, http_status=304, reason=None)
FRESH = replace(PAGE, **UNSEEN, outcome=Outcome.SKIPPED, http_status=None, reason="fresh")
SKIPPED = replace(FRESH, reason="canonical")
GONE = replace(PAGE, **UNSEEN, outcome=Outcome.GONE, http_status=410, reason=None)
TIMEOUT = replace(
    PAGE, **UNSEEN, outcome=Outcome.ERROR, http_status=None, reason=None, validity_reason="timeout"
)
BROKEN = replace(PAGE, **UNSEEN, outcome=Outcome.ERROR, http_status=503, reason=None)
LOGIN = replace(PAGE, text=None, validity=Validity.LOGIN, validity_reason="a form", reason="content_invalid")
OVER_CAP = replace(PAGE, text=None, reason="body_over_cap")

OTHER_PROSE = replace(PAGE, residual_digest=b"x")
SAME_IN_GERMAN = replace(PAGE, conditions=Conditions(language="de"))


def led_to(end):
    return Case(None, PAGE, redirect=Redirect(B, "job-2", end))


KINDS = [
    ("never seen before", Case(PAGE, None), "new", None),
    ("seen before, but gone since", Case(PAGE, PAGE, was_gone=True), "new", "returned"),
    ("a 304 of what was gone", Case(NOT_MODIFIED, PAGE, was_gone=True), "new", "returned"),
    ("another text", Case(CHANGED, PAGE), "changed", None),
    ("another text of the same words", Case(RESPACED, PAGE), "reformatted", None),
    ("the same text", Case(PAGE, PAGE), "unchanged", None),
    ("the same text, other prose", Case(OTHER_PROSE, PAGE), "unchanged", "residual_differs"),
    ("a 304", Case(NOT_MODIFIED, PAGE), "unchanged", "not_modified"),
    ("a skip of a fresh page", Case(FRESH, PAGE), "unchanged", "fresh"),
    ("another extractor, the same bytes",
     Case(replace(OTHER_EXTRACTOR, payload_digest=b"payload"), PAGE), "unchanged", "same_payload"),
    ("another extractor", Case(OTHER_EXTRACTOR, PAGE), "unknown", "other_extractor"),
    ("another language asked for", Case(GERMAN, PAGE), "unknown", "other_conditions"),
    ("another language asked for, the same text", Case(SAME_IN_GERMAN, PAGE), "unchanged", None),
    ("a 304 of a page never seen", Case(NOT_MODIFIED, None), "unknown", "not_modified"),
    ("404 or 410", Case(GONE, PAGE), "gone", None),
    ("404 of a page never seen", Case(GONE, None), "gone", None),
    ("a timeout", Case(TIMEOUT, PAGE), "unknown", "timeout"),
    ("a server error", Case(BROKEN, PAGE), "unknown", "http_503"),
    ("a login wall", Case(LOGIN, PAGE), "unknown", "login"),
    ("a text over the cap", Case(OVER_CAP, PAGE), "unknown", "body_over_cap"),
    ("a skip for another reason", Case(SKIPPED, PAGE), "unknown", "canonical"),
    ("not visited", Case(None, PAGE), "unknown", "not_visited"),
    ("a redirect to a page", led_to(CHANGED), "moved", None),
    ("a redirect to a page that stands", led_to(FRESH), "moved", None),
    ("a redirect that was not followed", led_to(None), "moved", None),
    ("a redirect to a 404", led_to(GONE), "gone", None),
    ("a redirect to a login wall", led_to(LOGIN), "unknown", "login"),
    ("a redirect to a timeout", led_to(TIMEOUT), "unknown", "timeout"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "kind", "reason"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS]
)
def test_the_kind_of_a_change_and_its_reason(case, kind, reason):
    assert change_kind(case) == (ChangeKind(kind), reason)
    record = change_of(case, job_id="job-2", texts=lambda: ("an old text", "a new text"))
    validate(record)
    assert bool(record.spans) is (kind == "changed")


SEENS = st.sampled_from(
    [
        PAGE,
        CHANGED,
        RESPACED,
        OTHER_EXTRACTOR,
        GERMAN,
        NOT_MODIFIED,
        FRESH,
        SKIPPED,
        GONE,
        TIMEOUT,
        BROKEN,
        LOGIN,
    ]
)
REDIRECTS = st.builds(Redirect, st.just(B), st.just("job-2"), st.none() | SEENS)


@given(
    st.none() | SEENS, st.none() | SEENS.filter(lambda seen: seen.text), st.booleans(), st.none() | REDIRECTS
)
def test_only_a_404_or_410_is_gone_and_only_what_proves_nothing_is_unknown(now, before, was_gone, redirect):
    case = Case(None if redirect else now, before, was_gone and before is not None, redirect)
    kind, reason = change_kind(case)
    decides = redirect.end if redirect else now
    assert (kind is ChangeKind.GONE) == (decides is not None and decides.outcome is Outcome.GONE)
    if case.evidence is Evidence.NONE:
        assert kind is ChangeKind.UNKNOWN
    if kind is ChangeKind.UNKNOWN:
        assert reason


def test_the_schema_knows_every_kind():
    assert schema_of("change")["properties"]["kind"]["enum"] == [kind.value for kind in ChangeKind]


# -- jobs compared


def told(ledger, **of):
    """Return kind and reason of the changes by key, each checked against its schema."""
    validator = jsonschema.Draft202012Validator(schema_of("change"))
    found = {}
    for record in ledger.changes(**of):
        validator.validate(json.loads(json.dumps(to_dict(record))))
        assert record.url_key not in found
        found[record.url_key.rpartition("/")[2]] = record
    return found


def kinds(ledger, **of):
    return {name: (record.kind.value, record.reason) for name, record in told(ledger, **of).items()}


def url(name):
    return f"http://site.example/{name}"


ERROR = {"outcome": Outcome.ERROR, "validity": None, "payload_digest": None, "payload_bytes": None}
TIMED_OUT = {**ERROR, "http_status": None, "validity_reason": "timeout"}
NOT_FOUND = {**ERROR, "outcome": Outcome.GONE, "http_status": 404}
STAYS = ("same", "edited", "spaced", "removed", "slow", "left", "walled", "moved", "away")


def test_two_jobs_compared(crawl, read):
    first = crawl()
    for name in STAYS:
        first.see(f"The text of {name} is here.", url(name))
    first.see(None, url("never"), **TIMED_OUT)
    second = crawl("job-2")
    second.see("The text of same is here.", url("same"))
    second.see("The text of edited was here.", url("edited"))
    second.see("The  TEXT of spaced is here.", url("spaced"))
    second.see(None, url("removed"), **NOT_FOUND)
    second.see(None, url("slow"), **TIMED_OUT)
    second.see(None, url("walled"), validity=Validity.LOGIN)
    second.see("A new place", url("place"))
    second.note(url("moved"), url("place"), rule="redirect", verdict="redirected")
    second.note(url("away"), url("walled"), rule="redirect", verdict="redirected")
    second.writer.finish("finished")

    found = told(read())
    assert {name: (record.kind.value, record.reason) for name, record in found.items()} == {
        "same": ("unchanged", None),
        "edited": ("changed", None),
        "spaced": ("reformatted", None),
        "removed": ("gone", None),
        "slow": ("unknown", "timeout"),
        "left": ("unknown", "not_visited"),
        "walled": ("unknown", "login"),
        "moved": ("moved", None),
        "away": ("unknown", "login"),
        "place": ("new", None),
    }
    (span,) = found["edited"].spans
    assert (span.before, span.after) == ("is", "was")
    assert found["edited"].previous_body_id != found["edited"].body_id
    assert found["same"].previous_body_id == found["same"].body_id
    assert found["moved"].moved_to == url("place")
    assert found["moved"].url == url("moved")
    assert found["left"].observation_id is None
    assert found["left"].job_id == "job-2"
    assert found["removed"].http_status == 404
    assert found["place"].previous_observation_id is None


def test_without_an_earlier_job_all_is_new_and_what_was_never_valid_is_left_out(crawl, read):
    one = crawl()
    one.see("T", A)
    one.see(None, B, **TIMED_OUT)
    assert kinds(read()) == {"a": ("new", None)}


def test_several_later_jobs_are_taken_together_and_the_last_that_proves_something_counts(crawl, read):
    names = ("then_slow", "then_gone", "back", "thrice", "never_again", "gone_then_slow")
    first = crawl()
    for name in names:
        first.see(f"one {name}", url(name))
    second = crawl("job-2")
    second.see("two then_slow", url("then_slow"))
    second.see("two then_gone", url("then_gone"))
    second.see(None, url("back"), **NOT_FOUND)
    second.see("two thrice", url("thrice"))
    second.see(None, url("gone_then_slow"), **NOT_FOUND)
    third = crawl("job-3")
    third.see(None, url("then_slow"), **TIMED_OUT)
    third.see(None, url("then_gone"), **NOT_FOUND)
    third.see("one back", url("back"))
    third.see("one thrice", url("thrice"))
    third.see(None, url("gone_then_slow"), **TIMED_OUT)
    ledger = read()
    assert kinds(ledger, since="job-1") == {
        "then_slow": ("changed", None),
        "then_gone": ("gone", None),
        "back": ("unchanged", None),  # to one who looked after job-1 and looks now
        "thrice": ("unchanged", None),
        "never_again": ("unknown", "not_visited"),
        "gone_then_slow": ("gone", None),
    }
    assert kinds(ledger)["back"] == ("new", "returned")
    assert kinds(ledger, since="job-2")["thrice"] == ("changed", None)
    assert kinds(ledger, job_id="job-2")["back"] == ("gone", None)
    assert kinds(ledger, since="job-1", job_id="job-2")["thrice"] == ("changed", None)


def test_within_a_job_a_page_outranks_a_redirect_and_both_a_404(crawl, read):
    crawl().see("one a", A)
    two = crawl("job-2")
    two.see("one a", A)
    two.see(None, A, **NOT_FOUND)
    two.note(A, B, verdict="redirected")
    two.see("b", B)
    three = crawl("job-3")
    three.note(A, B, verdict="redirected")
    three.see(None, A, **NOT_FOUND)
    three.see("b", B)
    for one in (two, three):
        one.writer.finish("finished")
    ledger = read()
    assert kinds(ledger, job_id="job-2")["a"] == ("unchanged", None)
    assert kinds(ledger)["a"] == ("moved", None)


def test_a_page_that_had_moved_away_and_is_back_is_new(crawl, read):
    crawl().see("a", A)
    two = crawl("job-2")
    two.note(A, B, verdict="redirected")
    two.see("b", B)
    two.writer.finish("finished")
    crawl("job-3").see("a", A)
    assert kinds(read())["a"] == ("new", "returned")


def test_a_redirect_to_the_same_key_is_no_move(crawl, read):
    crawl().see("a", A)
    two = crawl("job-2")
    two.note(A + "/", A, verdict="redirected")
    two.note(A, A, verdict="redirected")
    two.see("a", A)
    two.writer.finish("finished")
    assert kinds(read()) == {"a": ("unchanged", None)}


def test_texts_are_compared_with_the_last_one_read_alike(crawl, records, read):
    german = {"conditions": Conditions(language="de")}
    one = crawl()
    one.see(records.text("english", extractor_id="x-1"), A)
    one.see(records.text("deutsch", extractor_id="x-1"), A, **german)
    one.see(records.text("from another reader", extractor_id="x-2"), A)
    one.see("b", B)
    two = crawl("job-2")
    two.see(records.text("english", extractor_id="x-1"), A)
    two.see("B auf Deutsch", B, **german, payload_digest=records.sha("other"))
    assert kinds(read()) == {"a": ("unchanged", None), "b": ("unknown", "other_conditions")}


def test_another_spider_and_another_corpus_are_not_compared(crawl, read, ledger_url, records):
    crawl().see("a", A)
    other = records.crawl(ledger_url, replace(records.job("job-2"), spider="other"))
    with other:
        other.see("else", url("else"))
    crawl("job-3", corpus="second").see("a", A)
    crawl("job-4").see("a", A)
    ledger = read()
    assert kinds(ledger) == {"a": ("unchanged", None)}
    assert kinds(ledger, job_id="job-2") == {"else": ("new", None)}
    assert kinds(ledger, job_id="job-3") == {"a": ("new", None)}


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({"since": "no-such"}, "holds no job 'no-such'"),
        ({"job_id": "no-such"}, "holds no job 'no-such'"),
        ({"since": "job-2"}, "came after 'job-2'"),
        ({"since": "job-2", "job_id": "job-1"}, "came after 'job-2'"),
    ],
    ids=["no such job since", "no such job", "nothing later", "the wrong order"],
)
def test_what_cannot_be_compared_is_said_before_anything_is_read(crawl, read, of, said):
    crawl().see("a", A)
    crawl("job-2").see("a", A)
    with pytest.raises(LedgerUnavailable, match=said):
        read().changes(**of)


@pytest.mark.slow
def test_many_keys_come_each_once(crawl, read):
    texts = [f"text {number}" for number in range(1_200)]
    for job in ("job-1", "job-2"):
        one = crawl(job)
        edits = dict.fromkeys(range(0, 1200, 100), " x") if job == "job-2" else {}
        waiting = [one.submit(text + edits.get(n, ""), url(f"p{n}")) for n, text in enumerate(texts)]
        [future.result(60) for future in waiting]
    found = kinds(read())
    assert len(found) == 1_200
    assert {name for name, (kind, _) in found.items() if kind == "changed"} == {
        f"p{n}" for n in range(0, 1_200, 100)
    }


def test_the_revisions_of_a_url_over_time(crawl, read):
    one = crawl(spec=UrlPolicy.preset("standard").spec())
    one.see("The text is one.", A)
    two = crawl("job-2", spec=UrlPolicy.preset("standard").spec())
    two.see("The text is two.", A)
    two.see(None, A, **TIMED_OUT)
    two.see(None, A, **NOT_FOUND)
    two.see("The text is one.", A)
    other = crawl("job-3", corpus="second", spec=UrlPolicy.preset("standard").spec())
    other.see("the text is ONE.", A)
    found = read().revisions(A + "?utm_source=mail")
    assert [(row.observation.job_id, row.change.kind.value, row.change.reason) for row in found] == [
        ("job-1", "new", None),
        ("job-2", "changed", None),
        ("job-2", "unknown", "timeout"),
        ("job-2", "gone", None),
        ("job-2", "new", "returned"),
        ("job-3", "new", None),
    ]
    assert [row.body.text if row.body else None for row in found[:3]] == [
        "The text is one.",
        "The text is two.",
        None,
    ]
    assert [(span.before, span.after) for span in found[1].change.spans] == [("one", "two")]


# -- compared while they are recorded


def recorded_kinds(recorded):
    return [(record.kind.value, record.reason) for record in recorded.changes]


def test_each_recorded_page_says_what_became_of_its_key(crawl, records):
    first = crawl(with_changes=True)
    assert recorded_kinds(first.see("The text is one.", A)) == [("new", None)]
    assert recorded_kinds(first.see("The text is one.", A)) == [("unchanged", None)]
    second = crawl("job-2", with_changes=True)
    changed = second.see("The text is two.", A)
    assert recorded_kinds(changed) == [("changed", None)]
    assert [(span.before, span.after) for span in changed.changes[0].spans] == [("one", "two")]
    assert recorded_kinds(second.see("the text  is two.", A)) == [("reformatted", None)]
    assert recorded_kinds(second.see(None, A, **TIMED_OUT)) == [("unknown", "timeout")]
    read_anew = second.see(records.text("read anew", extractor_id="x-2"), A, payload_digest=records.sha("p"))
    assert recorded_kinds(read_anew) == [("unknown", "other_extractor")]
    assert recorded_kinds(second.see(None, A, **NOT_FOUND)) == [("gone", None)]
    assert recorded_kinds(second.see("the text  is two.", A)) == [("new", "returned")]
    third = crawl("job-3", with_changes=True)
    assert recorded_kinds(third.see("the text  is two.", A)) == [("unchanged", None)]
    assert recorded_kinds(third.see(None, B, **NOT_FOUND)) == [("gone", None)]
    for record in (*changed.changes, *third.see("b", B).changes):
        validate(record)


def test_pages_of_one_commit_see_each_other(crawl):
    one = crawl(with_changes=True)
    one.see("start", B)
    waiting = [one.submit(f"text {number // 2}", A) for number in range(6)]
    assert [recorded_kinds(future.result(30))[0][0] for future in waiting] == [
        "new", "unchanged", "changed", "unchanged", "changed", "unchanged",
    ]  # fmt: skip


def test_a_page_at_the_end_of_a_redirect_says_what_moved_to_it(crawl):
    crawl().see("a", A)
    second = crawl("job-2", with_changes=True)
    recorded = second.see("b", B, moved_keys=(A, url("never-seen")))
    assert [(record.url_key, record.kind.value, record.moved_to) for record in recorded.changes] == [
        (B, "new", None),
        (A, "moved", B),
    ]
    second.note(A, B, verdict="redirected")
    second.writer.finish("finished")
    third = crawl("job-3", with_changes=True)
    assert recorded_kinds(third.see("a", A)) == [("new", "returned")]
    assert recorded_kinds(third.see("b", B, moved_keys=(A,))) == [("unchanged", None)]  # it was just seen


def test_without_being_asked_nothing_is_compared(crawl):
    one = crawl()
    one.see("a", A)
    assert one.see("b", A).changes == ()
