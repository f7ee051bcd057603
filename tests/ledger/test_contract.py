"""What holds for a ledger on every engine: what is seen is kept, once, in order, and comes back as it was."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scrapy_dedup.errors import LedgerConflict, LedgerUnavailable, LedgerWriteFailed, RecordError
from scrapy_dedup.ledger import Ledger, Sighting, body_id, observation_id
from scrapy_dedup.ledger.store import prepare
from scrapy_dedup.records import Action, Conditions, Outcome, Recovery, Sourced, Text, Validity

A = "http://site.example/a"
B = "http://site.example/b"

HOSTILE = (
    "nul \x00, escape \x10, \x100041, lone \ud800 and \udfff, both \ud83d\ude00, emoji \U0001f600, \u202e"
)


def test_new_text_is_kept_and_known_text_is_reused(crawl, read):
    first = crawl().see("A text", A)
    second = crawl("job-2").see("A text", B)
    assert (first.observation.action, first.observation.reason, first.body_is_new) == (
        Action.KEEP,
        "new_text",
        True,
    )
    assert (second.observation.action, second.observation.reason, second.body_is_new) == (
        Action.REUSE,
        "text_equal",
        False,
    )
    assert second.body == first.body
    assert second.observation.related_observation_id == first.observation.observation_id
    assert list(read().bodies()) == [first.body]
    assert list(read().observations()) == [first.observation, second.observation]


def test_what_record_returns_is_what_the_ledger_reads_back(crawl, read):
    one = crawl()
    recorded = one.see(
        replace(one_text := _text(), text=one_text.text),
        A,
        conditions=Conditions("GET", "partition", "de", "chromium"),
        from_cache=True,
        gateway_status=203,
        access="public",
        redirect_urls=(A + "?1", A + "?2"),
        document_url=A + "#doc",
        referrer_url=B,
        depth=7,
        etag='"abc"',
        last_modified="Wed, 21 Oct 2026 07:28:00 GMT",
        validity_reason="why",
        recovery=Recovery.RENDER,
        canonical={"declared": ["x"], "status": "declared"},
        byline=Sourced("By Line", "meta:author"),
        publisher=Sourced("P", "json-ld"),
        site_name=Sourced("S", "og:site_name"),
        language_declared=Sourced("en", "html:lang"),
        license=Sourced("CC", "link"),
        license_spdx="CC-BY-4.0",
        date_published=Sourced("2026-01-01", "meta"),
        date_modified=Sourced("2026-01-02", "meta"),
        independence="i",
        event_id="e",
        extra={"price": 1.5, "tags": ["a", "b"], "nested": {"deep": None}},
    )
    assert list(read().observations()) == [recorded.observation]
    assert recorded.observation.observation_id == observation_id("job-1", 0)
    assert recorded.observation.redirect_urls == (A + "?1", A + "?2")
    assert recorded.observation.extra["tags"] == ["a", "b"]
    assert recorded.body.body_id == body_id("default", recorded.body.text_digest, "markdown", "x-1")


def _text(words="Some words of text.") -> Text:
    import hashlib

    digest = "sha256:" + hashlib.sha256(words.encode()).hexdigest()
    return Text(
        words,
        "markdown",
        "x-1",
        digest,
        digest,
        None,
        None,
        None,
        len(words),
        4,
        "8000000000000001",
        "simhash64-w3-1",
    )


@pytest.mark.parametrize(
    "simhash", ["0000000000000000", "7fffffffffffffff", "8000000000000000", "ffffffffffffffff"]
)
def test_fingerprints_of_all_64_bits_survive(crawl, read, simhash):
    crawl().see(replace(_text(), simhash=simhash))
    assert [body.simhash for body in read().bodies()] == [simhash]


def test_strings_that_databases_refuse_survive(crawl, read):
    one = crawl(HOSTILE + "job", corpus="default")
    url = "http://site.example/" + HOSTILE
    recorded = one.see(
        "Text with NUL \x00 and \x10 inside",
        url,
        content_type=HOSTILE,
        etag=HOSTILE,
        title=Sourced(HOSTILE, HOSTILE),
        redirect_urls=(HOSTILE,),
        extra={HOSTILE: [HOSTILE]},
    )
    one.note(HOSTILE, url, HOSTILE)
    (alias,) = one.writer.variants(url).result(30)
    one.writer.finish(HOSTILE)
    ledger = read()
    (observation,) = ledger.observations(job_id=HOSTILE + "job")
    assert observation == recorded.observation
    assert (observation.url, observation.etag, observation.title) == (url, HOSTILE, Sourced(HOSTILE, HOSTILE))
    assert observation.extra == {HOSTILE: [HOSTILE]}
    assert [body.text for body in ledger.bodies()] == ["Text with NUL \x00 and \x10 inside"]
    assert list(ledger.aliases(url_key=url)) == [alias]
    assert (alias.raw_url, alias.rule) == (HOSTILE, HOSTILE)
    assert [job.outcome for job in ledger.jobs()] == [HOSTILE]


def test_a_lone_surrogate_in_a_text_is_refused_and_stops_nothing_else(crawl, read):
    one = crawl()
    with pytest.raises(RecordError, match="surrogate"):
        one.see("bad \ud800")
    one.see("good")
    assert [body.text for body in read().bodies()] == ["good"]


def test_extra_values_that_json_cannot_say_are_written_as_strings(crawl, read):
    recorded = crawl().see(
        "T", extra={"path": Path("/x"), "nan": float("nan"), "pair": (1, 2), 3: {"set": {1}}}
    )
    assert recorded.observation.extra == {"path": "/x", "nan": "nan", "pair": [1, 2], "3": {"set": "{1}"}}
    assert list(read().observations()) == [recorded.observation]


def test_extra_fields_beyond_the_bound_are_named_and_dropped(crawl):
    recorded = crawl().see("T", extra={"small": 1, "large": "x" * 300_000})
    assert recorded.observation.extra == {"small": 1, "dropped_fields": ["large"]}


def test_a_changed_page_is_a_revision_of_its_latest_observation(crawl):
    one = crawl()
    one.see("Version 1", A)
    latest = one.see("Version 1", A)
    changed = crawl("job-2").see("Version 2", A)
    assert (changed.observation.action, changed.observation.reason) == (Action.KEEP, "revision")
    assert changed.observation.related_observation_id == latest.observation.observation_id


def test_no_text_is_shared_between_corpora(crawl, read):
    crawl("job-1", corpus="one").see("The same", A)
    other = crawl("job-2", corpus="two").see("The same", A)
    assert (other.observation.reason, other.body_is_new) == ("new_text", True)
    assert [body.corpus for body in read().bodies()] == ["one", "two"]


def test_later_sightings_of_a_batch_see_earlier_ones(crawl, read):
    one = crawl()
    one.writer.open()
    futures = [one.submit(f"Text {number % 5}", f"{A}/{number}") for number in range(50)]
    reasons = [future.result(30).observation.reason for future in futures]
    assert reasons == ["new_text"] * 5 + ["text_equal"] * 45
    assert len(list(read().bodies())) == 5


def test_digest_collisions_become_variants(crawl, read, records):
    digest = records.sha("the digest of both")
    texts = [records.text(words, text_digest=digest) for words in ("One", "Two", "Two", "Three")]
    one = crawl()
    seen = [one.see(text, f"{A}/{number}") for number, text in enumerate(texts)]
    again = crawl("job-2").see(texts[1], B)
    assert [(got.observation.action, got.observation.reason) for got in seen] == [
        (Action.KEEP, "new_text"),
        (Action.KEEP, "digest_collision"),
        (Action.REUSE, "text_equal"),
        (Action.KEEP, "digest_collision"),
    ]
    assert again.body == seen[1].body
    assert [body.text for body in read().bodies()] == ["One", "Two", "Three"]
    assert len({body.body_id for body in read().bodies()}) == 3


def test_failures_and_invalid_pages_are_observations_without_a_body(crawl, read):
    one = crawl()
    invalid = one.see(None, A, validity=Validity.EMPTY, validity_reason="no_text")
    failed = one.see(
        None, A, outcome=Outcome.ERROR, validity=Validity.HTTP_ERROR, http_status=None, payload_digest=None
    )
    gone = one.see(None, A, outcome=Outcome.GONE, validity=Validity.HTTP_ERROR, http_status=404)
    secret = one.see("T", "ftp://site.example/", url_valid=False)
    assert [(got.observation.action, got.observation.reason) for got in (invalid, failed, gone, secret)] == [
        (Action.REVIEW, "content_invalid"),
        (Action.NONE, None),
        (Action.NONE, None),
        (Action.REVIEW, "url_invalid"),
    ]
    assert list(read().bodies()) == []
    assert read().summary()["observations"] == 4


def test_a_text_over_the_cap_keeps_its_digest_and_length(crawl, read, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.decide.MAX_BODY_BYTES", 1000)
    large = crawl().see("é" * 501)
    observation = large.observation
    assert (observation.action, observation.reason, observation.body_id) == (
        Action.REVIEW,
        "body_over_cap",
        None,
    )
    assert "1002 bytes" in observation.validity_reason
    assert "sha256:" in observation.validity_reason
    assert list(read().observations()) == [observation]


def test_a_replay_is_recognised(crawl, read):
    one = crawl()
    first = one.see("T", seq=5)
    replayed = one.see("T", seq=5)
    assert replayed == replace(first, body_is_new=False)
    assert len(list(read().observations())) == 1


@pytest.mark.parametrize(("text", "changes"), [("T", {"http_status": 500}), ("Other", {}), (None, {})])
def test_another_observation_under_one_identity_is_a_conflict(crawl, read, text, changes):
    one = crawl()
    first = one.see("T", seq=5)
    futures = [one.submit("New", B, seq=6), one.submit(text, seq=5, **changes)]
    assert futures[0].result(30).body_is_new
    with pytest.raises(LedgerConflict, match="seq 5"):
        futures[1].result(30)
    assert [got.seq for got in read().observations()] == [5, 6]
    assert next(read().observations()) == first.observation


def test_a_job_goes_on_under_its_id(crawl, read):
    one = crawl()
    one.see("T")
    one.see("T")
    one.writer.finish("shutdown")
    again = crawl()
    assert again.writer.next_seq() == 2
    assert next(read().jobs()).outcome is None
    again.writer.finish("finished")
    (job,) = read().jobs()
    assert (job.outcome, job.started_at) == ("finished", "2026-01-02T03:04:05Z")


def test_a_job_of_another_corpus_does_not_go_on_under_the_id(crawl):
    crawl().see("T")
    with pytest.raises(LedgerConflict, match="DEDUP_JOB_ID"):
        crawl(corpus="other").see("T")


def test_a_job_without_a_finish_is_one_that_died(crawl, read):
    one = crawl()
    one.see("T")
    assert read().summary()["jobs_unfinished"] == 1
    one.writer.finish("finished")
    (job,) = read().jobs()
    assert job.finished_at.endswith("Z")
    assert read().summary()["jobs_unfinished"] == 0


def test_nothing_is_made_before_the_first_sighting(crawl, ledger_url, tmp_path):
    one = crawl()
    one.note("http://raw", "key")
    one.writer.check(ledger_url)
    one.writer.finish("finished")
    assert not one.writer.started
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LedgerUnavailable, match="no ledger"):
        Ledger.open(ledger_url)


def test_aliases_are_counted_by_key_raw_url_and_rule(crawl, read):
    one = crawl()
    one.see("T")
    for _ in range(3):
        one.note("http://raw/1", "key")
    one.note("http://raw/1", "key", "session")
    assert [alias.count for alias in one.writer.variants("key").result(30)] == [3, 1]
    one.note("http://raw/1", "key")
    one.note("http://raw/2", "key", referrer_url=A, depth=3, verdict="rewritten")
    one.writer.finish("finished")
    aliases = list(read().aliases(url_key="key"))
    assert [(got.raw_url, got.rule, got.count) for got in aliases] == [
        ("http://raw/1", "tracking", 4),
        ("http://raw/1", "session", 1),
        ("http://raw/2", "tracking", 1),
    ]
    assert (aliases[2].referrer_url, aliases[2].depth, aliases[2].verdict) == (A, 3, "rewritten")
    assert list(read().aliases(job_id="other")) == []


def test_a_flush_is_answered_once_all_is_there_in_however_many_commits(crawl, read, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.writer.MAX_BATCH_CHARS", 1)  # a text each
    monkeypatch.setattr("scrapy_dedup.ledger.writer.MAX_NOTES", 2)
    one = crawl()
    for number in range(5):
        one.submit(f"Text {number}", f"{A}/{number}")
        one.note(f"http://raw/{number}", f"key {number}")
    assert one.writer.flush().result(30) is None
    assert [len([*found]) for found in (read().observations(), read().aliases())] == [5, 5]
    one.writer.finish("finished")
    with pytest.raises(LedgerWriteFailed, match="has finished"):
        one.writer.flush().result(30)


def test_aliases_of_a_key_are_bounded_and_the_rest_is_counted(crawl, read):
    one = crawl()
    one.see("T")
    for half in range(2):
        for number in range(150):
            one.note(f"http://raw/{half}/{number}", "key")
        assert len(one.writer.variants("key").result(30)) == 100
    one.note("http://raw/0/7", "key")
    one.note("http://raw", "other key")
    one.writer.finish("finished")
    aliases = {got.raw_url: got for got in read().aliases(url_key="key")}
    assert len(aliases) == 101
    assert (aliases[""].rule, aliases[""].count) == ("overflow", 200)
    assert aliases["http://raw/0/7"].count == 2
    assert read().summary()["aliases"] == 101
    assert read().summary()["aliases_counted"] == 302


def test_notes_reach_the_ledger_without_a_page_after_them(crawl, read):
    one = crawl()
    one.see("T")
    one.note("http://raw", "key")
    deadline = time.monotonic() + 5
    while not list(read().aliases()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [got.raw_url for got in read().aliases()] == ["http://raw"]


def test_far_too_many_notes_are_counted_and_wait_for_nobody(crawl, read, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.writer.MAX_PENDING_NOTES", 50)
    monkeypatch.setattr("scrapy_dedup.ledger.writer.MAX_NOTES", 20)
    one = crawl()
    may_go_on = threading.Event()
    write = one.writer._store.write
    monkeypatch.setattr(
        one.writer._store, "write", lambda *arguments: may_go_on.wait(60) and write(*arguments)
    )
    started = time.monotonic()
    for number in range(500):  # the first page comes after them: they start the ledger themselves
        one.note(f"http://raw/{number}", f"key {number % 30}")
    assert time.monotonic() - started < 0.9
    may_go_on.set()
    one.see("T")
    one.writer.finish("finished")
    assert read().summary()["aliases_counted"] == 500
    assert read().summary()["aliases"] >= 50


def test_many_notes_of_many_keys_all_stay_while_there_is_room(crawl, read):
    one = crawl()
    for number in range(700):
        one.note(f"http://raw/{number}", f"key {number % 30}")
    one.see("T")
    one.writer.finish("finished")
    assert read().summary()["aliases_counted"] == read().summary()["aliases"] == 700


def test_a_note_with_a_depth_beyond_all_bounds_stops_nothing(crawl, read):
    one = crawl()
    one.note("http://raw", "key", depth=1 << 70)
    assert [got.depth for got in one.writer.variants("key").result(30)] == [None]
    one.see("T")


def test_what_another_writer_brings_between_two_commits_is_seen(crawl, read):
    one, two = crawl("job-1"), crawl("job-2")
    for number in range(6):
        writer = (one, two)[number % 2]
        writer.see(f"Text {number}", f"{A}/{number}")
        writer.see(f"Text {number - 1}", f"{B}/{number}")
    assert [body.text for body in read().bodies()] == ["Text 0", "Text -1"] + [
        f"Text {number}" for number in range(1, 6)
    ]
    assert read().check() == []


def test_seqs_may_come_in_any_order_and_replays_are_known(crawl, read):
    one = crawl()
    order = [3, 0, 7, 1, 2, 5, 4, 9]
    for seq in order:
        one.see(f"Text {seq}", f"{A}/{seq}", seq=seq)
    for seq in order:
        assert not one.see(f"Text {seq}", f"{A}/{seq}", seq=seq).body_is_new
    assert [got.seq for got in read().observations()] == sorted(order)


def test_bodies_of_a_job_are_those_that_it_brought(crawl, read):
    one, two = crawl("job-1"), crawl("job-2")
    one.see("First")
    two.see("Second")
    two.see("First")
    one.see("Third")
    assert [body.text for body in read().bodies(job_id="job-1")] == ["First", "Third"]
    assert [body.text for body in read().bodies(job_id="job-2")] == ["Second"]
    assert [got.seq for got in read().observations(job_id="job-2")] == [0, 1]
    assert list(read().observations(job_id="none")) == []


def test_observations_are_ordered_by_job_and_seq_whatever_the_clock_says(crawl, read):
    one, two = crawl("z-first"), crawl("a-second")
    one.see("1", fetched_at="2030-01-01T00:00:00Z")
    two.see("2", fetched_at="2020-01-01T00:00:00Z")
    one.see("3", fetched_at="2010-01-01T00:00:00Z")
    assert [(got.job_id, got.seq) for got in read().observations()] == [
        ("z-first", 0),
        ("z-first", 1),
        ("a-second", 0),
    ]


def test_the_policy_of_each_job_is_kept(crawl, read):
    crawl("job-1", spec={"preset": "standard"}).see("T")
    crawl("job-2", spec={"preset": "conservative", "hosts": {"a": ["é", None]}}).see("T")
    assert read().policy_spec() == {"preset": "conservative", "hosts": {"a": ["é", None]}}
    assert read().policy_spec("job-1") == {"preset": "standard"}
    assert read().policy_spec("none") is None


def test_a_record_of_another_job_is_refused(crawl):
    with pytest.raises(RecordError, match="job-9"):
        crawl().see("T", job_id="job-9", seq=0)


@pytest.mark.parametrize(
    "changes",
    [{"fetched_at": "yesterday"}, {"fetched_at": "2026-01-01T00:00:00"}, {"payload_digest": "md5:00"}],
    ids=str,
)
def test_a_value_without_its_form_is_refused(crawl, changes):
    with pytest.raises(RecordError):
        crawl().see("T", **changes)


def test_a_number_beyond_its_column_is_refused_and_its_batch_is_stored(crawl, read):
    one = crawl()
    one.writer.open()
    futures = [
        one.submit("Before"),
        one.submit("T", gateway_status=1 << 31),
        one.submit("After", payload_bytes=(1 << 63) - 1, depth=(1 << 31) - 1),
    ]
    futures[0].result(30)
    futures[2].result(30)
    with pytest.raises(RecordError, match="number"):
        futures[1].result(30)
    assert [body.text for body in read().bodies()] == ["Before", "After"]


@pytest.mark.parametrize(
    "changes",
    [
        {"gateway_status": 1 << 31},
        {"depth": -(1 << 40)},
        {"http_status": 10**30},
        {"payload_bytes": 1 << 63},
        {"depth": "deep"},
        {"payload_bytes": 1.5},
        {"seq": 1 << 64},
    ],
    ids=str,
)
def test_a_number_beyond_its_column_has_not_its_form(records, changes):
    with pytest.raises(RecordError, match="number"):
        prepare(Sighting(replace(records.observation(0), **changes), None), records.job())


def test_a_count_of_a_text_beyond_its_column_is_refused(crawl, records):
    one = crawl()
    with pytest.raises(RecordError, match="bits"):
        one.see(records.text("T", word_count=1 << 63))
    one.see("T")


def test_nothing_is_accepted_after_the_finish(crawl):
    one = crawl()
    one.see("T")
    one.writer.finish("finished")
    with pytest.raises(LedgerWriteFailed, match="finished"):
        one.see("T", seq=9)


def test_many_records_are_streamed(crawl, read, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.reader.STREAM_ROWS", 50)
    one = crawl()
    one.writer.open()
    futures = [one.submit(f"Text {number}", f"{A}/{number}") for number in range(170)]
    for future in futures:
        future.result(60)
    observations = read().observations()
    next(observations)
    assert len(list(observations)) == 169
    assert len(list(read().bodies())) == 170


def test_a_backup_holds_everything(crawl, read, tmp_path):
    one = crawl()
    for number in range(5):
        one.see(f"Text {number % 3} \x00", f"{A}/{number}\ud800")
    one.note("http://raw", "key")
    one.writer.variants("key").result(30)
    copy = tmp_path / "copy.db"
    read().backup(copy)
    with Ledger.open(f"sqlite:///{copy}") as ledger:
        assert list(ledger.observations()) == list(read().observations())
        assert list(ledger.bodies()) == list(read().bodies())
        assert list(ledger.aliases()) == list(read().aliases())
        assert list(ledger.jobs()) == list(read().jobs())
        assert ledger.policy_spec() == read().policy_spec()
        assert ledger.check(deep=True) == []
    with pytest.raises(LedgerUnavailable, match="exists already"):
        read().backup(copy)


def test_a_sound_ledger_has_no_problems(crawl, read):
    one = crawl()
    one.see("T")
    one.see(None, validity=Validity.EMPTY)
    assert read().check() == []
    assert read().check(deep=True) == []
