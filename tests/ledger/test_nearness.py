"""What a new text is similar to is found as it comes in, with reasons; nothing follows from it alone."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from scrapy_dedup.ledger import (
    Ledger,
    LedgerWriter,
    near_audit,
    near_bands,
    near_index,
    record_decision,
    schema,
)
from scrapy_dedup.ledger.engine import Target, WriteSession
from scrapy_dedup.ledger.host_blocks import HostBlocks
from scrapy_dedup.ledger.near_relations import FEW_PAGES, is_suppressible, leader_of
from scrapy_dedup.ledger.nearness import POLICY, NearOptions, _Candidates
from scrapy_dedup.ledger.store import Store, prepare
from scrapy_dedup.ledger.suppression import mark_looked
from scrapy_dedup.near import hamming
from scrapy_dedup.near.hamming import Match, Nearest
from scrapy_dedup.near.host_blocks import MIN_PAGES
from scrapy_dedup.near.simhash import simhash
from scrapy_dedup.records import (
    Action,
    DecisionAction,
    Outcome,
    RelationKind,
    RelationState,
    Validity,
)

S, T = "http://site.example", "http://other.example"
REVIEW, SUPPRESS, OFF = NearOptions("review"), NearOptions("suppress"), NearOptions("off")

_source = random.Random(5)
WORDS = ["".join(_source.choices("abcdefghijklmnop", k=_source.randint(3, 9))) for _ in range(3_000)]


def prose(seed: int | str, words: int) -> str:
    """Return words in paragraphs of forty."""
    drawn = random.Random(seed).choices(WORDS, k=words)
    return "\n\n".join(" ".join(drawn[start : start + 40]) for start in range(0, words, 40))


def edited(text: str, seed: int | str, words: int = 1) -> str:
    """Return a text with some words replaced by others, none of which changes a claim."""
    source = random.Random(seed)
    found = text.split(" ")
    for place in source.sample(range(len(found)), words):
        found[place] = source.choice(WORDS) + ("\n\n" if "\n\n" in found[place] else "")
    return " ".join(found)


@pytest.fixture
def near(crawl, records):
    """Start a crawl that looks for similar texts; its texts have their own fingerprints."""

    def start(job_id: str = "job-1", options: NearOptions = REVIEW, **more):
        one = crawl(job_id, near=options, **more)

        def see(text: str, url: str = S + "/a", **changes):
            return one.see(records.text(text, simhash=simhash(text)), url, **changes)

        one.show = see
        one.show_nothing = lambda url, **changes: one.see(None, url, **changes)
        return one

    return start


def relations_of(ledger: Ledger) -> list:
    return list(ledger.relations(kind=RelationKind.NEAR))


LONG = prose("long", 300)
SHORT = "The short notice speaks of the bridge over the river near the old mill and of nothing else today"

# what comes second, where the first stands at S/a; the verdict, what suppression does
PAIRS = [
    ("a word replaced", edited(LONG, 1), T + "/a", "edited", "near_duplicate"),
    (
        "another markup",
        "# " + LONG.replace(" ", "  ", 3).replace("\n\n", "\n\n* ", 2),
        T + "/a",
        "reformatted",
        "near_duplicate",
    ),
    ("a number more", LONG + " 17", T + "/a", "claim_changed", "new_text"),
    ("a passage more", LONG + " " + prose("more", 30), T + "/a", "contains", "new_text"),
    ("a revision of the page", edited(LONG, 2), S + "/a", "edited", "revision"),
    ("a page beside it on a host of which little is known", edited(LONG, 3), S + "/b", "edited", "new_text"),
    ("something else", prose("else", 300), T + "/a", None, "new_text"),
]


@pytest.mark.parametrize("mode", [OFF, REVIEW, SUPPRESS], ids=lambda options: options.mode)
@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case[0])
def test_a_text_is_related_to_those_before_it_and_only_suppression_acts(sqlite_url, records, case, mode):
    _, text, url, verdict, reason = case
    with records.crawl(sqlite_url, records.job(), near=mode) as one:
        first = one.see(records.text(LONG, simhash=simhash(LONG)), S + "/a")
        second = one.see(records.text(text, simhash=simhash(text)), url)
    with Ledger.open(sqlite_url) as ledger:
        found = relations_of(ledger)
        told = ledger.would_suppress("default", 0.8)
        assert len(list(ledger.bodies())) == len(list(ledger.observations())) == 2
        assert ledger.check(deep=True) == []
    expected = reason if mode is SUPPRESS or reason != "near_duplicate" else "new_text"
    assert second.observation.reason == expected
    assert second.observation.action is (Action.REUSE if expected == "near_duplicate" else Action.KEEP)
    assert second.body_is_new
    assert [one.measures["verdict"] for one in found] == ([] if mode is OFF or verdict is None else [verdict])
    for relation in found:
        assert leader_of(relation) == first.observation.body_id
        assert relation.policy == POLICY
        assert relation.measures["distance"] <= 7
        assert {"jaccard", "containment_a", "containment_b", "spans", "claim_spans"} <= set(relation.measures)
        assert [reason.code for reason in relation.reasons][:2] == ["verdict", "jaccard"]
        assert is_suppressible(relation, 0.8) == (reason == "near_duplicate")
    if expected == "near_duplicate":
        assert second.observation.related_observation_id == first.observation.observation_id
    if mode is not OFF:  # in review what suppression would do, in suppress what it has done
        assert told.suppressed == (reason == "near_duplicate")


def test_a_host_of_few_pages_is_named_as_a_reason(near, read):
    one = near()
    one.show(LONG)
    one.show(edited(LONG, 1), S + "/b")
    (found,) = relations_of(read())
    few = [reason for reason in found.reasons if reason.code == FEW_PAGES]
    assert [(reason.value, reason.threshold) for reason in few] == [(1, MIN_PAGES)]


SHORT_TEXTS = [
    ("a word more", SHORT, SHORT + " indeed", 1),
    ("a number more", SHORT, SHORT + " 7", 1),
    (
        "on both sides of the length for fingerprints",
        prose("edge", 95),
        prose("edge", 95) + " " + prose("e", 7),
        1,
    ),
    (
        "nothing shared",
        SHORT,
        "Quite another notice of a road that is closed for the whole winter because of snow",
        0,
    ),
    ("one word each", "word", "Word!", 0),
    ("two words each", "two words", "two words.", 0),
    ("signs alone", "---", "***", 0),
    (
        "ideograms",
        "\u6c34" * 3 + "\u5c71\u5ddd\u65e5\u6708\u661f" * 6,
        "\u6c34" * 3 + "\u5c71\u5ddd\u65e5\u6708\u661f" * 6 + "\u96e8",
        1,
    ),
]


@pytest.mark.parametrize("together", [False, True], ids=["one_by_one", "in_one_commit"])
@pytest.mark.parametrize("case", SHORT_TEXTS, ids=lambda case: case[0])
def test_short_texts_are_found_by_what_they_share(sqlite_url, records, case, together):
    _, first, second, count = case
    with records.crawl(sqlite_url, records.job(), near=REVIEW) as one:
        one.writer.open()
        texts = [records.text(text, simhash=simhash(text)) for text in (first, second)]
        futures = [one.submit(text, url) for text, url in zip(texts, (S + "/a", T + "/b"), strict=True)]
        for future in futures if together else ():
            future.result(30)
    with Ledger.open(sqlite_url) as ledger:
        assert len(relations_of(ledger)) == count


@pytest.mark.parametrize(
    ("ids", "sharing", "listed", "total"),
    [
        ([], {}, [], 0),
        ([4, 7, 9], {}, [(4, 1, 0), (7, 1, 0)], 3),
        ([4, 7, 9], {9: 3, 5: 2}, [(4, 1, 0), (7, 1, 0), (5, None, 2)], 4),
    ],
    ids=["nothing", "the nearest and how many more", "found both ways counts once"],
)
def test_of_many_versions_only_the_nearest_are_listed(ids, sharing, listed, total):
    hit = Nearest([Match(identity, 1) for identity in ids[:2]], np.array(ids, np.uint32))

    found = _Candidates.of(hit, sharing)

    assert (found.listed, found.total) == (listed, total)


@pytest.mark.parametrize(("word", "left"), [("ab", 0), ("\u6c34\u6c34", 1)], ids=["few_bytes", "many_bytes"])
def test_texts_that_would_take_too_long_to_read_are_counted(near, word, left, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.nearness.MAX_COMPARED_BYTES", 10_000)
    text = prose("own", 200) + f" {word}" * 1_000
    one = near()
    one.show(text, S + "/a")
    got = one.show(edited(text, 1), T + "/b").near
    assert (len(got.pairs), got.left) == (1 - left, left)


def test_long_texts_are_looked_up_in_several_commits(near, monkeypatch):
    sizes = []
    commit = LedgerWriter._commit

    def counted(writer, entries, *others):
        sizes.append(sum(len(entry.sighting.text.text) for entry in entries))
        commit(writer, entries, *others)

    monkeypatch.setattr(LedgerWriter, "_commit", counted)
    monkeypatch.setattr("scrapy_dedup.ledger.writer.MAX_NEAR_CHARS", 1_000)
    one = near("job-2")
    waiting = [one.submit(prose(number, 200), f"{S}/{number}") for number in range(12)]
    assert {future.result(30).observation.action for future in waiting} == {Action.KEEP}
    assert max(sizes) < 4_000
    assert sum(sizes) > 12_000


def test_a_second_crawl_of_an_unchanged_site_finds_nothing_new(near, read):
    texts = [edited(LONG, seed) for seed in range(4)] + [SHORT, SHORT + " indeed"]
    for job_id in ("job-1", "job-2"):
        one = near(job_id)
        for number, text in enumerate(texts):
            one.show(text, f"{S}/{number}")
        one.writer.finish("finished")
    found = relations_of(read())
    assert len({(relation.a, relation.b) for relation in found}) == len(found) > 3
    assert {relation.job_id for relation in found} == {"job-1"}


def test_no_text_of_a_long_chain_has_a_leader_that_is_unlike_it(near, ledger_url):
    one = near()
    for number in range(MIN_PAGES):  # so that the host is known
        one.show(prose(f"page {number}", 120), f"{S}/page/{number}")
    text, texts = LONG, [LONG]
    for number in range(20):
        text = edited(text, number, words=4)
        texts.append(text)
    for number, version in enumerate(texts):
        one.show(version, f"{T}{number}/x")
    one.writer.finish("finished")
    session = WriteSession(Target.parse(ledger_url))
    with session.transaction() as connection:
        body = schema.body.c
        leaders = connection.execute(sa.select(body.ordinal, body.leader).order_by(body.ordinal)).all()
    session.close()
    led = [(leader, ordinal) for ordinal, leader in leaders if leader is not None]
    assert len(led) > 10
    similarity = [
        jaccard(texts[leader - MIN_PAGES - 1], texts[ordinal - MIN_PAGES - 1]) for leader, ordinal in led
    ]
    assert min(similarity) >= 0.8
    assert jaccard(texts[0], texts[-1]) < 0.4
    assert {leader for leader, _ in led}.isdisjoint(ordinal for _, ordinal in led)


def jaccard(a: str, b: str) -> float:
    first, second = ({*zip(words, words[1:], words[2:], strict=False)} for words in (a.split(), b.split()))
    return len(first & second) / len(first | second)


def thin_pages(count: int):
    """Yield pages of some 240 characters of their own, with a template of a thousand."""
    template = "\n\n".join(prose(f"template {part}", 40) for part in range(4))
    for number in range(count):
        yield f"# {prose(number, 3)}\n\n{prose(f'own {number}', 36)}\n\n{template}", f"{S}/page/{number}"


@pytest.mark.parametrize("count", [40, pytest.param(569, marks=pytest.mark.slow)])
def test_a_template_makes_no_two_pages_similar(sqlite_url, records, count):
    with records.crawl(sqlite_url, records.job(), near=SUPPRESS) as one:
        seen = [one.see(records.text(text, simhash=simhash(text)), url) for text, url in thin_pages(count)]
    assert {got.observation.reason for got in seen} == {"new_text"}
    assert sum(len(got.near.pairs) for got in seen) == 0
    assert sum(got.near.different for got in seen) > count  # they did look alike


def test_a_page_that_is_mostly_template_is_never_suppressed_before_its_host_is_known(sqlite_url, records):
    template = "\n\n".join(prose(f"template {part}", 40) for part in range(4))
    with records.crawl(sqlite_url, records.job(), near=SUPPRESS) as one:
        texts = [f"{prose(f'own {number}', 8)}\n\n{template}" for number in range(30)]
        seen = [
            one.see(records.text(text, simhash=simhash(text)), f"{S}/page/{number}")
            for number, text in enumerate(texts)
        ]
    assert {got.observation.reason for got in seen} == {"new_text"}
    paired = [number for number, got in enumerate(seen) if got.near.pairs]
    assert paired == list(range(1, MIN_PAGES))


@pytest.mark.slow
def test_the_versions_of_a_page_stay_similar_though_all_their_paragraphs_recur(sqlite_url, records):
    pages = [prose(f"page {number}", 300) for number in range(12)]
    later = []
    with records.crawl(sqlite_url, records.job(), near=REVIEW) as one:
        for version in range(10):
            for number, page in enumerate(pages):
                text = edited(page, f"{version} {number}") if version else page
                got = one.see(records.text(text, simhash=simhash(text)), f"{S}/v{version}/page-{number}")
                later += [got] if version and got.body_is_new else []
    assert sum(got.near.different for got in later) == 0  # none is taken apart as a template
    assert sum(bool(got.near.pairs) for got in later) >= 0.95 * len(later)


NOTICE = "This is the manual of release {} and its parts, which are kept here for those who run it"


@pytest.mark.parametrize(
    ("notices", "host", "verdict"),
    [
        pytest.param((NOTICE.format(1.2), NOTICE.format(1.3)), S, "claim_changed", id="of two versions"),
        pytest.param(
            (NOTICE.format(1.2), NOTICE.format(1.3)), T, "claim_changed", id="of two versions on two hosts"
        ),
        pytest.param((NOTICE.format(1.2), prose("7 imprint", 20) + " 2024"), T, "edited", id="of two hosts"),
    ],
)
def test_a_notice_on_every_page_is_set_aside_but_not_another_version_in_it(
    sqlite_url, records, notices, host, verdict
):
    pages = [prose(f"page {number}", 300) for number in range(12)]
    seen = []
    with records.crawl(sqlite_url, records.job(), near=SUPPRESS) as one:
        for folder, notice in zip((f"{S}/v1", f"{host}/v2"), notices, strict=True):
            for number, page in enumerate(pages):
                text = f"{notice}\n\n{edited(page, f'{folder} {number}')}"
                url = f"{folder}/page-{number}"
                seen.append(one.see(records.text(text, simhash=simhash(text)), url))
    paired = [got for got in seen[18:] if got.near.pairs]  # from here on both hosts are known
    assert len(paired) >= 2
    assert {pair.relation.measures["verdict"] for got in paired for pair in got.near.pairs} == {verdict}
    expected = "near_duplicate" if verdict == "edited" else "new_text"
    assert {got.observation.reason for got in paired} == {expected}


def test_an_article_under_several_names_of_a_small_host_is_still_found(sqlite_url, records):
    article = prose("article", 320)
    with records.crawl(sqlite_url, records.job(), near=SUPPRESS) as one:
        for number in range(20):
            one.see(records.text(page := prose(number, 200), simhash=simhash(page)), f"{S}/page/{number}")
        found = []
        for number in range(8):
            text = edited(article, number) if number else article
            found.append(one.see(records.text(text, simhash=simhash(text)), f"{S}/copy-{number}"))
    assert [bool(got.near.pairs) for got in found] == [False, *[True] * 7]


# -- texts that cannot stand for others


def be_gone(one) -> None:
    one.show_nothing(S + "/a", outcome=Outcome.GONE, http_status=404, validity=Validity.HTTP_ERROR)


def be_revised(one) -> None:
    one.show(prose("a revision", 300), S + "/a")


def be_a_login(one) -> None:
    one.show_nothing(S + "/a", validity=Validity.LOGIN)


def be_shown_everywhere(one) -> None:
    for number in range(6):
        one.show(SHORT, f"{S}/{number}/n{number}")


# what becomes of the earlier text; the texts that come first and later
ENDED = [(be_gone, LONG), (be_revised, LONG), (be_a_login, LONG), (be_shown_everywhere, SHORT)]


@pytest.mark.parametrize("case", ENDED, ids=lambda case: case[0].__name__)
def test_a_text_that_cannot_stand_for_others_takes_none_with_it(near, read, case):
    end, text = case
    one = near(options=SUPPRESS)
    later = text + " indeed"
    one.show(text, S + "/a")
    before = one.show(later, T + "/b").observation
    assert (before.action, before.reason) == (Action.REUSE, "near_duplicate")
    again = one.show(later, T + "/b").observation
    assert (again.action, again.reason) == (Action.REUSE, "text_equal")
    end(one)
    assert one.show("Indeed " + text, "http://third.example/c").observation.action is Action.KEEP
    again = one.show(later, T + "/b").observation
    assert (again.action, again.reason, again.body_id) == (Action.KEEP, "new_text", before.body_id)
    again = one.show(later, T + "/b").observation
    assert (again.action, again.reason) == (Action.REUSE, "text_equal")
    told = read().would_suppress("default", 0.8)
    assert T + "/b" not in {found.url for found in told.listed}


def test_a_text_that_waits_for_a_review_stands_for_none(near, records):
    one = near(options=SUPPRESS)
    texts = [
        records.text(text, residual=f"prose {number}", simhash=simhash(text))
        for number, text in enumerate([LONG, LONG.upper(), edited(LONG.upper(), 1)])
    ]
    seen = [one.see(text, f"http://h{number}.example/").observation for number, text in enumerate(texts)]
    assert [record.action for record in seen[:2]] == [Action.KEEP, Action.REVIEW]
    assert seen[2].related_observation_id in (None, seen[0].observation_id)


# -- decisions


def test_what_is_decided_about_a_pair_outranks_what_was_found(near, read, ledger_url):
    mark_looked_at = near("job-0")
    mark_looked_at.show("something to begin with", T + "/0")
    one = near("job-1", SUPPRESS)
    first = one.show(LONG, S + "/a").observation
    later = one.show(edited(LONG, 1), T + "/b").observation
    changed = one.show(LONG + " 17", T + "/c").observation
    assert (later.action, changed.action) == (Action.REUSE, Action.KEEP)
    by_other = {relation.measures["verdict"]: relation for relation in relations_of(read())}

    different = record_decision(ledger_url, by_other["edited"], DecisionAction.DIFFERENT, by="human:ann")
    same = record_decision(ledger_url, by_other["claim_changed"], DecisionAction.SAME, by="human:ann")
    stood = {record.observation_id: record for record in read().observations()}
    kept, reused = stood[later.observation_id], stood[changed.observation_id]
    assert (kept.action, kept.reason, kept.decision_id) == (Action.KEEP, "decided", different.decision_id)
    assert (reused.action, reused.reason, reused.decision_id) == (Action.REUSE, "decided", same.decision_id)
    assert (kept.related_observation_id, reused.related_observation_id) == (None, first.observation_id)
    assert stood[first.observation_id] == first
    states = {relation.measures["verdict"]: relation.state for relation in relations_of(read())}
    assert states == {"edited": RelationState.REFUTED, "claim_changed": RelationState.CONFIRMED}
    again = near("job-2").show(edited(LONG, 1), T + "/d").observation
    assert (again.action, again.reason) == (Action.REUSE, "text_equal")  # of the later text itself

    for relation in by_other.values():
        record_decision(ledger_url, relation, DecisionAction.UNDO, by="human:ann")
    stood = {record.observation_id: record for record in read().observations()}
    assert (stood[later.observation_id], stood[changed.observation_id]) == (later, changed)


def test_suppression_that_nobody_looked_at_is_warned_of(near, ledger_url, caplog):
    near("job-1", SUPPRESS).show(LONG)
    assert "scrapy dedup review --would-suppress" in caplog.text
    caplog.clear()
    mark_looked(ledger_url, "default")
    near("job-2", SUPPRESS).show(SHORT)
    near("job-3", REVIEW).show(SHORT)
    assert caplog.text == ""


# -- the index


def test_two_crawls_at_a_time_find_each_others_texts(near, read):
    one, two = near("job-1"), near("job-2")
    for number in range(6):
        writer = (one, two)[number % 2]
        writer.show(edited(LONG, number), f"http://h{number}.example/")
        writer.show(SHORT + " indeed" * number, f"http://s{number}.example/")
    found = relations_of(read())
    assert sum("distance" in relation.measures for relation in found) >= 5
    assert any("distance" not in relation.measures for relation in found)
    one.writer.finish("finished")
    two.writer.finish("finished")
    assert read().check(deep=True) == []


def test_a_crawl_finds_texts_that_came_while_nobody_looked(near, read):
    off = near("job-1", OFF)
    off.show(LONG, S + "/a")
    off.show(SHORT, S + "/b")
    assert relations_of(read()) == []
    later = near("job-2")
    assert later.show(edited(LONG, 1), T + "/a").near.pairs
    assert later.show(SHORT + " indeed", T + "/b").near.pairs


def test_what_is_rolled_back_leaves_nothing_in_the_index(sqlite_url, records):
    job, path = records.job(), Path(sqlite_url.removeprefix("sqlite:///"))
    session = WriteSession(Target.parse(sqlite_url))
    store = Store(job, records.spec, reuse_normalized=True, near=REVIEW, path=path)
    with session.transaction() as connection:
        store.open_job(connection)

    def write(seq: int, text: str):
        from scrapy_dedup.ledger import Sighting

        observation = records.observation(seq, f"http://h{seq}.example/", job)
        made = prepare(Sighting(observation, records.text(text, simhash=simhash(text))), job)
        (recorded,) = store.write(connection, [made])
        return recorded

    with session.transaction() as connection:
        write(0, prose("kept", 200))

    def fail_after(text: str) -> None:
        nonlocal connection
        with session.transaction() as connection:
            write(1, text)
            raise RuntimeError

    for text in (LONG, SHORT):
        with pytest.raises(RuntimeError):
            fail_after(text)
    store._last_ordinals.clear()  # a store ends with a failed commit; what it derives must not need that
    with session.transaction() as connection:
        assert write(1, edited(LONG, 1)).near.pairs == ()
        assert write(2, SHORT + " indeed").near.pairs == ()
        assert write(3, edited(prose("kept", 200), 1)).near.pairs
    with session.transaction() as connection:
        store.finish_job(connection, "finished", job.started_at)
    store.close()
    session.close()
    with Ledger.open(sqlite_url) as ledger:
        assert ledger.check(deep=True) == []
        assert len(list(ledger.bodies())) == 4


def make_index(records, sqlite_url: str, count: int = 30) -> Path:
    with records.crawl(sqlite_url, records.job(), near=REVIEW) as one:
        for number in range(count):
            text = prose(number, 120)
            one.see(records.text(text, simhash=simhash(text)), f"http://h{number}.example/")
    return near_index.folder_of(Path(sqlite_url.removeprefix("sqlite:///")), 1)


def cut(folder: Path, ledger: Path) -> None:
    (path,) = folder.glob("segment-*")
    path.write_bytes(path.read_bytes()[:-100])


def garble_manifest(folder: Path, ledger: Path) -> None:
    (folder / "MANIFEST").write_text("{", encoding="utf-8")


def nest_manifest(folder: Path, ledger: Path) -> None:
    (folder / "MANIFEST").write_text("[" * 100_000, encoding="utf-8")


def flip_order(folder: Path, ledger: Path) -> None:
    (path,) = folder.glob("segment-*")
    content = bytearray(path.read_bytes())
    content[40 + 8 * 30 + 3] ^= 4  # a fingerprint in the second order
    path.write_bytes(content)


def of_another_ledger(folder: Path, ledger: Path) -> None:
    index = hamming.HammingIndex(None, near_index.SCHEME)
    shutil.rmtree(folder)
    index = hamming.HammingIndex(folder, near_index.SCHEME)
    index.add(range(1, 31), [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(1, 31)])
    index.flush()


def too_short(folder: Path, ledger: Path) -> None:
    index = hamming.HammingIndex(folder, near_index.SCHEME)
    ids, fingerprints = index.everything()
    shutil.rmtree(folder)
    index = hamming.HammingIndex(folder, near_index.SCHEME)
    index.add(ids[5:], fingerprints[5:])
    index.flush()


def of_a_longer_ledger(folder: Path, ledger: Path) -> None:
    index = hamming.HammingIndex(folder, near_index.SCHEME)
    index.add([77], [77])
    index.flush()


DAMAGE = [cut, garble_manifest, nest_manifest, flip_order, of_another_ledger, too_short, of_a_longer_ledger]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_an_index_that_does_not_fit_is_found_and_made_anew(records, sqlite_url, damage, caplog):
    folder = make_index(records, sqlite_url)
    ledger_path = Path(sqlite_url.removeprefix("sqlite:///"))
    with Ledger.open(sqlite_url) as ledger:
        assert ledger.check() == []
    damage(folder, ledger_path)
    saved = folder.with_name("saved")
    shutil.copytree(folder, saved)
    with Ledger.open(sqlite_url) as ledger:
        (problem,) = ledger.check()
    assert str(folder) in problem
    assert "check --repair" in problem
    (done,) = near_audit.repair(sqlite_url)
    assert "made anew with 30 fingerprints" in done
    assert near_audit.repair(sqlite_url) == []
    with Ledger.open(sqlite_url) as ledger:
        assert ledger.check(deep=True) == []

    if damage is flip_order:  # a crawl looks at counts and sums, which takes a thousandth of the time
        return
    shutil.rmtree(folder)
    saved.rename(folder)
    caplog.clear()
    with records.crawl(sqlite_url, records.job("job-2"), near=REVIEW) as one:
        text = edited(prose(3, 120), 1)
        assert one.see(records.text(text, simhash=simhash(text)), "http://new.example/").near.pairs
    assert "is made anew from the ledger" in caplog.text
    with Ledger.open(sqlite_url) as ledger:
        assert ledger.check(deep=True) == []


def test_an_index_without_its_ledger_is_no_danger_to_a_new_one(records, sqlite_url):
    make_index(records, sqlite_url)
    for path in Path(sqlite_url.removeprefix("sqlite:///")).parent.glob("dedup.db*"):
        if path.is_file():
            path.unlink()
    folder = make_index(records, sqlite_url, count=3)
    index = hamming.HammingIndex(folder, near_index.SCHEME, writes=False)
    assert len(index) == 3


def test_counts_of_paragraphs_that_are_damaged_are_found_and_counted_anew(records, sqlite_url):
    pages = list(thin_pages(12))
    with records.crawl(sqlite_url, records.job(), near=REVIEW) as one:
        for text, url in pages:
            one.see(records.text(text, simhash=simhash(text)), url)
    session = WriteSession(Target.parse(sqlite_url))
    with session.transaction() as connection:
        connection.execute(sa.update(schema.host_blocks).values(data=b"nothing"))
    session.close()
    with Ledger.open(sqlite_url) as ledger:
        (problem,) = ledger.check()
    assert "The paragraphs of site.example" in problem
    assert len(near_audit.repair(sqlite_url)) == 1
    with records.crawl(sqlite_url, records.job("job-2"), near=REVIEW) as one:
        one.see(records.text(text := prose("new", 200), simhash=simhash(text)), S + "/new")
    assert counts(sqlite_url).pages == 13
    with Ledger.open(sqlite_url) as ledger:
        assert ledger.check() == []


def counts(url: str, host: str = "site.example"):
    session = WriteSession(Target.parse(url))
    with session.transaction() as connection:
        blocks = HostBlocks(1)
        blocks.follow(connection, {})
        found = blocks._of(connection, host)
    session.close()
    return found


@pytest.mark.parametrize("save_every", [1, 3, 500])
def test_paragraphs_are_counted_once_by_however_many_crawls(near, ledger_url, monkeypatch, save_every):
    monkeypatch.setattr("scrapy_dedup.ledger.host_blocks.SAVE_EVERY", save_every)
    one, two = near("job-1"), near("job-2")
    off = near("job-3", OFF)
    for number, (text, url) in enumerate(thin_pages(18)):
        (one, two, off)[number % 3].show(text, url)
    for writer in (two, off, one):
        writer.writer.finish("finished")
    found = counts(ledger_url)
    assert found.pages == 18
    assert sorted((found.count(key) for key in found.shared()), reverse=True)[:4] == [18] * 4


CHILD = """
import random, sys
sys.path.insert(0, sys.argv[1])
import conftest, test_nearness
from scrapy_dedup.near import hamming
from scrapy_dedup.near.hamming import Match, Nearest
from scrapy_dedup.near.simhash import simhash
hamming.TAIL_COUNT, hamming.FLUSH_COUNT = 8, 16
job = conftest.make_job(sys.argv[3])
one = conftest.Crawl(sys.argv[2], job, near=test_nearness.REVIEW)
number = int(sys.argv[4])
while True:
    text = test_nearness.prose(number, 120)
    one.see(conftest.make_text(text, simhash=simhash(text)), f"http://h{number}.example/")
    number += 1
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_crawl_that_is_killed_leaves_an_index_that_the_next_one_goes_on_with(records, sqlite_url):
    count = 0
    for kill in range(6):
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                CHILD,
                str(Path(__file__).parent),
                sqlite_url,
                f"killed-{kill}",
                str(count),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        target = count + 12 + 7 * kill
        while count < target:
            count = int(child.stdout.readline())
        time.sleep(0.013 * kill)
        child.send_signal(signal.SIGKILL)
        rest = child.communicate()[0].split()
        count = int(rest[-1]) if rest else count
        with Ledger.open(sqlite_url) as ledger:
            assert ledger.check() == []
            count = len(list(ledger.bodies()))
    with records.crawl(sqlite_url, records.job("last"), near=REVIEW) as one:
        for number in range(0, count, 3):
            text = edited(prose(number, 120), number)
            found = one.see(records.text(text, simhash=simhash(text)), f"http://again{number}.example/")
            assert [pair.ordinal for pair in found.near.pairs] == [number + 1]
    with Ledger.open(sqlite_url) as ledger:
        assert ledger.check(deep=True) == []


def test_bands_are_kept_for_short_texts_without_a_leader_only(near, ledger_url):
    one = near()
    for number, url in enumerate([S, T, "http://third.example"]):
        one.show(SHORT + " indeed" * number, url)
    one.show(LONG, S + "/long")
    one.writer.finish("finished")
    session = WriteSession(Target.parse(ledger_url))
    with session.transaction() as connection:
        band = schema.near_band.c
        bodies = set(connection.execute(sa.select(band.body)).scalars())
        rows = connection.execute(sa.select(sa.func.count()).select_from(schema.near_band)).scalar()
    session.close()
    assert bodies == {1}
    assert rows <= near_bands.BANDING.bands
