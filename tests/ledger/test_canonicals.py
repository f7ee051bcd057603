"""What a ledger says of declared canonicals: judged when both ends are known, and again with new evidence."""

from __future__ import annotations

import json

import pytest

from scrapy_dedup.content.canonical import MANY
from scrapy_dedup.ledger import Ledger, canonicals, record_decision
from scrapy_dedup.records import DecisionAction, Outcome, RelationKind, Validity

A, B, C, D = (f"http://site.example/{name}" for name in "abcd")
E = "http://site.example/e"


def claim(target: str, *, status: str = "unresolved", reason: str = "target_unknown", noindex: bool = False):
    """Return what the crawl states of a page that declares another one."""
    declared = [{"source": "link", "raw": target, "resolved": target, "in_head": True}]
    return {
        "declared": declared,
        "noindex": noindex,
        "status": status,
        "target": target,
        "reason": reason,
        "target_key": target,
    }


STUB = {"validity": Validity.REDIRECT_STUB, "validity_reason": "refresh"}
GONE = {"outcome": Outcome.GONE, "validity": Validity.HTTP_ERROR, "http_status": 404}
BLOCKED = {"validity": Validity.BLOCKED}
DOWN = {"outcome": Outcome.ERROR, "validity": None, "http_status": None}


def standing(ledger: Ledger, url: str) -> tuple[str | None, str | None]:
    """Return status and reason of the canonical of the latest observation of a URL that has one."""
    found = [one.canonical for one in ledger.observations() if one.url == url and one.canonical]
    return found[-1]["status"], found[-1]["reason"]


def rows_of(ledger: Ledger, url: str) -> list[tuple[str, str]]:
    found = ledger.relations(kind=RelationKind.CANONICAL)
    return [(one.state.value, one.reasons[0].code) for one in found if one.a == url]


SEQUENCES = [
    ("the page first", [(A, "T", claim(B)), (B, "T", None)], ("confirmed", "text_equal")),
    ("the target first", [(B, "T", None), (A, "T", claim(B))], ("confirmed", "text_equal")),
    ("nothing of the target", [(A, "T", claim(B))], ("unresolved", "target_unknown")),
    ("the target failed", [(A, "T", claim(B)), (B, None, None, DOWN)], ("unresolved", "target_unknown")),
    ("other text", [(A, "T", claim(B)), (B, "U", None)], ("refuted", "text_differs")),
    ("the target changes", [(A, "T", claim(B)), (B, "T", None), (B, "U", None)], ("refuted", "text_differs")),
    (
        "the page changes",
        [(B, "U", None), (A, "T", claim(B)), (A, "U", claim(B))],
        ("confirmed", "text_equal"),
    ),
    ("the target is gone", [(A, "T", claim(B)), (B, None, None, GONE)], ("refuted", "broken")),
    (
        "gone after it was there",
        [(B, "T", None), (A, "T", claim(B)), (B, None, None, GONE)],
        ("refuted", "broken"),
    ),
    (
        "down after it was there",
        [(B, "T", None), (A, "T", claim(B)), (B, None, None, DOWN)],
        ("confirmed", "text_equal"),
    ),
    (
        "blocked, then there",
        [(A, "T", claim(B)), (B, None, None, BLOCKED), (B, "T", None)],
        ("confirmed", "text_equal"),
    ),
    (
        "a stub to the target",
        [(A, "T", claim(B)), (B, None, claim(C, reason="redirect_stub"), STUB), (C, "T", None)],
        ("confirmed", "text_equal"),
    ),
    (
        "the stub last",
        [(A, "T", claim(B)), (C, "T", None), (B, None, claim(C, reason="redirect_stub"), STUB)],
        ("confirmed", "text_equal"),
    ),
    (
        "a stub to nowhere",
        [(A, "T", claim(B)), (B, None, claim(C, reason="redirect_stub"), STUB)],
        ("unresolved", "target_unknown"),
    ),
    (
        "a stub that leads back",
        [(A, "T", claim(B)), (B, None, claim(A, reason="redirect_stub"), STUB)],
        ("confirmed", "self"),
    ),
    (
        "a stub that changes its mind",
        [
            (A, "T", claim(B)),
            (B, None, claim(C, reason="redirect_stub"), STUB),
            (C, "T", None),
            (D, "U", None),
            (B, None, claim(D, reason="redirect_stub"), STUB),
        ],
        ("refuted", "text_differs"),
    ),
    (
        "the end of a chain changes",
        [
            (A, "T", claim(B)),
            (B, None, claim(C, reason="redirect_stub"), STUB),
            (C, "T", None),
            (C, "U", None),
        ],
        ("refuted", "text_differs"),
    ),
    (
        "a canonical that has another one",
        [(A, "T", claim(B)), (B, "T", claim(C)), (C, "T", None)],
        ("confirmed", "text_equal"),
    ),
    (
        "judged by the last of them",
        [(A, "T", claim(B)), (B, "T", claim(C)), (C, "U", None)],
        ("refuted", "text_differs"),
    ),
    (
        "a canonical that claims the homepage",
        [(A, "T", claim(B)), (B, "T", claim("http://site.example/", status="refuted", reason="homepage"))],
        ("confirmed", "text_equal"),
    ),
    (
        "a target that is its own behind a stub",
        [(A, "T", claim(B)), (B, None, claim(C, reason="redirect_stub"), STUB), (C, "T", claim(B))],
        ("confirmed", "text_equal"),
    ),
    ("two pages that declare each other", [(A, "T", claim(B)), (B, "T", claim(A))], ("refuted", "loop")),
    (
        "versions that declare each other",
        [(A, "For version 1.2 only", claim(B)), (B, "For version 1.3 only", claim(A))],
        ("unresolved", "other_version"),
    ),
    ("three in a ring", [(A, "T", claim(B)), (B, "T", claim(C)), (C, "T", claim(A))], ("refuted", "loop")),
    (
        "a ring behind the target",
        [(A, "T", claim(B)), (B, "T", claim(C)), (C, "T", claim(B))],
        ("refuted", "loop"),
    ),
    (
        "a long way",
        [
            (A, "T", claim(B)),
            (B, "T", claim(C)),
            (C, "T", claim(D)),
            (D, "T", claim(E)),
            (E, "T", claim(E + "2")),
            (E + "2", "T", None),
        ],
        ("refuted", "loop"),
    ),
    (
        "stubs in a ring",
        [
            (A, "T", claim(B)),
            (B, None, claim(C, reason="redirect_stub"), STUB),
            (C, None, claim(B, reason="redirect_stub"), STUB),
        ],
        ("refuted", "loop"),
    ),
    (
        "not for the index",
        [
            (A, "T", claim(B)),
            (B, "T", {"declared": [], "noindex": True, "status": None, "target": None, "reason": None}),
        ],
        ("refuted", "broken"),
    ),
]


@pytest.mark.parametrize(
    ("seen", "expected"), [row[1:] for row in SEQUENCES], ids=[row[0] for row in SEQUENCES]
)
def test_a_claim_is_worth_what_was_last_seen(records, sqlite_url, seen, expected):
    with records.crawl(sqlite_url, records.job()) as one:
        for url, text, canonical, *more in seen:
            one.see(text, url, canonical=canonical, **(more[0] if more else {}))
    with Ledger.open(sqlite_url) as ledger:
        assert standing(ledger, A) == expected


def test_neither_the_engine_nor_the_cut_of_commits_makes_a_difference(crawl, read):
    """All sequences at once, each on a host of its own, in as few commits as come of it."""
    one = crawl()
    waiting = []
    for number, (_, seen, _) in enumerate(SEQUENCES):
        for url, text, canonical, *more in seen:
            moved = _moved(canonical, number)
            waiting.append(one.submit(text, _at(url, number), canonical=moved, **(more[0] if more else {})))
    for future in waiting:
        future.result(60)
    ledger = read()
    found = {name: standing(ledger, _at(A, number)) for number, (name, *_) in enumerate(SEQUENCES)}
    assert found == {name: expected for name, _, expected in SEQUENCES}


def _at(url: str, number: int) -> str:
    return url.replace("site.example", f"site{number}.example")


def _moved(canonical, number: int):
    return None if canonical is None else json.loads(_at(json.dumps(canonical), number))


def test_a_confirmed_target_is_the_url_to_cite(crawl, read):
    one = crawl()
    one.see("T", A, canonical=claim(B))
    one.see("T", B)
    one.see(None, C, validity=Validity.BLOCKED)
    one.see("U", D, canonical=claim(B))
    urls = {found.url: found.document_url for found in read().observations()}
    assert urls == {A: B, B: B, C: None, D: D}


def test_what_a_crawl_hears_is_what_is_read_later(crawl, read):
    one = crawl()
    one.see("T", B)
    recorded = one.see("T", A, canonical=claim(B))
    assert recorded.observation.canonical["status"] == "confirmed"
    assert recorded.observation.document_url == B
    assert list(read().observations())[-1] == recorded.observation
    assert (
        one.submit("T", A, seq=recorded.observation.seq, canonical=claim(B)).result(30).observation
        == recorded.observation
    )


def test_confirmation_keeps_every_observation_and_body(crawl, read):
    one = crawl()
    one.see("A  text", A, canonical=claim(B))
    one.see("a text", B)
    ledger = read()
    assert standing(ledger, A) == ("confirmed", "text_equal")
    assert len(list(ledger.observations())) == len(list(ledger.bodies())) == 2


def test_earlier_observations_keep_the_verdict_on_their_own_text(crawl, read):
    one = crawl()
    one.see("T", B)
    one.see("T", A, canonical=claim(B))
    one.see("U", A, canonical=claim(B))
    found = [(row.canonical["status"], row.document_url) for row in read().observations() if row.url == A]
    assert found == [("confirmed", B), ("refuted", A)]


def test_the_same_evidence_adds_no_row(crawl, read):
    for job in ("job-1", "job-2", "job-3"):
        one = crawl(job)
        one.see("T", A, canonical=claim(B))
        one.see("T", B)
        one.writer.finish("finished")
    assert rows_of(read(), A) == [("unresolved", "target_unknown"), ("confirmed", "text_equal")]


def test_a_homepage_that_changes_adds_no_row_to_each_page_that_claims_it(crawl, read):
    one = crawl()
    home = "http://site.example/"
    one.see("T", A, canonical=claim(home, status="refuted", reason="homepage"))
    for number in range(3):
        one.see(f"News {number}", home)
    assert rows_of(read(), A) == [("refuted", "homepage")]
    one.see("T", home)
    assert standing(read(), A) == ("confirmed", "text_equal")


def test_the_claims_of_another_corpus_are_not_touched(crawl, read):
    crawl(corpus="one").see("T", A, canonical=claim(B))
    crawl("job-2", corpus="two").see("T", B)
    assert standing(read(), A) == ("unresolved", "target_unknown")


def test_text_of_another_extractor_decides_nothing(crawl, read, records):
    one = crawl()
    one.see("T", A, canonical=claim(B))
    one.see(records.text("U", extractor_id="x-2"), B)
    assert standing(read(), A) == ("unresolved", "target_unknown")


@pytest.mark.parametrize("note_first", [True, False])
def test_a_redirect_of_the_target_is_followed(crawl, read, note_first):
    one = crawl()
    if note_first:
        one.note(B, C, "redirect", verdict="redirected")
        one.writer.variants(C).result(30)  # written by now
    one.see("T", A, canonical=claim(B))
    one.see("T", C)
    if not note_first:
        one.note(B, C, "redirect", verdict="redirected")
        one.writer.variants(C).result(30)
    ledger = read()
    assert standing(ledger, A) == ("confirmed", "text_equal")
    assert [one.document_url for one in ledger.observations() if one.url == A] == [C]


def test_a_target_that_redirects_now_is_judged_by_where_it_leads(crawl, read):
    first = crawl()
    first.see("T", A, canonical=claim(B))
    first.see("T", B)
    first.writer.finish("finished")
    second = crawl("job-2")
    second.note(B, C, "redirect", verdict="redirected")
    second.see("U", C)
    second.writer.finish("finished")
    assert standing(read(), A) == ("refuted", "text_differs")


def test_pages_with_other_texts_that_all_claim_one_target_are_refuted(crawl, read):
    one = crawl()
    pages = [f"http://site.example/p{number}" for number in range(MANY)]
    for number, page in enumerate(pages[:-1]):
        one.see(f"Text {number}", page, canonical=claim(B))
    assert standing(read(), pages[0]) == ("unresolved", "target_unknown")
    one.see("The last text", pages[-1], canonical=claim(B))
    one.writer.finish("finished")
    ledger = read()
    assert {standing(ledger, page) for page in pages} == {("refuted", "many_to_one")}


def test_revisions_and_variants_of_one_page_are_not_many(crawl, read):
    one = crawl()
    for number in range(MANY + 2):
        one.see(f"Text {number}", A, canonical=claim(B))
        one.see("One text", f"http://site.example/v{number}", canonical=claim(C))
    one.writer.finish("finished")
    ledger = read()
    assert standing(ledger, A) == ("unresolved", "target_unknown")
    assert standing(ledger, "http://site.example/v3") == ("unresolved", "target_unknown")


def test_what_rests_on_one_target_is_judged_in_parts_and_none_is_lost(crawl, read, monkeypatch, ledger_url):
    monkeypatch.setattr(canonicals, "MAX_JUDGED", 3)
    monkeypatch.setattr(canonicals, "_DUE", canonicals._DUE.limit(3))
    one = crawl()
    pages = [f"http://site.example/p{number}" for number in range(20)]
    for page in pages:
        one.see("T", page, canonical=claim(B))
    one.see("T", B)
    ledger = read()
    assert sum(standing(ledger, page)[0] == "confirmed" for page in pages) == 3
    one.see("Another page", C)
    ledger = read()
    assert sum(standing(ledger, page)[0] == "confirmed" for page in pages) == 6
    one.writer.finish("finished")
    ledger = read()
    assert {standing(ledger, page) for page in pages} == {("confirmed", "text_equal")}


def test_the_next_job_takes_up_what_a_killed_one_left(crawl, read, monkeypatch):
    monkeypatch.setattr(canonicals, "MAX_JUDGED", 3)
    monkeypatch.setattr(canonicals, "_DUE", canonicals._DUE.limit(3))
    monkeypatch.setattr("scrapy_dedup.ledger.writer.DUE_S", 0)
    one = crawl()
    pages = [f"http://site.example/p{number}" for number in range(10)]
    for page in pages:
        one.see("T", page, canonical=claim(B))
    one.see("T", B)
    one.writer.finish("killed")
    assert sum(standing(read(), page)[0] == "confirmed" for page in pages) == 3
    monkeypatch.setattr("scrapy_dedup.ledger.writer.DUE_S", 30)
    other = crawl("job-2")
    other.see("Something", C)
    other.writer.finish("finished")
    ledger = read()
    assert {standing(ledger, page) for page in pages} == {("confirmed", "text_equal")}


def test_a_decision_outranks_the_evidence_until_a_text_changes(crawl, read, ledger_url):
    one = crawl()
    one.see("T", A, canonical=claim(B))
    one.see("U", B)
    one.writer.finish("finished")
    (relation,) = [found for found in read().relations(kind=RelationKind.CANONICAL) if found.b_digest]
    decision = record_decision(ledger_url, relation, DecisionAction.SAME, by="human:me")
    ledger = read()
    (page,) = [found for found in ledger.observations() if found.url == A]
    assert (page.canonical["status"], page.canonical["reason"]) == ("confirmed", "decided")
    assert (page.document_url, page.decision_id) == (B, decision.decision_id)
    crawl("job-2").see("V", B)
    assert standing(read(), A) == ("refuted", "text_differs")


def test_looking_a_page_up_shows_what_its_claim_is_worth_now(crawl, read):
    one = crawl()
    one.see("T", A, canonical=claim(B))
    one.see("T", B)
    for url in (A, B):
        found = [one for one in read().lookup(url).relations if one.kind is RelationKind.CANONICAL]
        assert [(one.a, one.b, one.state.value) for one in found] == [(A, B, "confirmed")]


def test_a_claim_of_a_page_that_is_no_evidence_makes_no_relation(crawl, read):
    one = crawl()
    one.see(None, A, canonical=claim(B), validity=Validity.BLOCKED)
    one.see("T", B)
    assert rows_of(read(), A) == []


def test_a_page_without_a_claim_costs_one_query(crawl, monkeypatch):
    asked: list[str] = []
    run = canonicals.ListQuery.rows

    def counted(query, connection, sought, **fixed):
        listed = list(sought)
        asked.extend([str(query.clause)] if listed else [])
        return run(query, connection, listed, **fixed)

    one = crawl()
    one.see("T", A)
    own = {
        str(getattr(canonicals, name).clause)
        for name in ("_LATEST", "_REDIRECTS", "_TEXTS", "_CLAIMED", "_WATCHERS")
    }
    monkeypatch.setattr(canonicals.ListQuery, "rows", counted)
    one.see("U", B)
    assert [query for query in asked if query in own] == [str(canonicals._WATCHERS.clause)]
