"""A short text that a host shows under unrelated URLs is quarantined, until somebody decides otherwise."""

from __future__ import annotations

import pytest

from scrapy_dedup.ledger import Ledger, record_decision
from scrapy_dedup.ledger.seen import PageQuestion
from scrapy_dedup.ledger.templates import MAX_TEMPLATE_WORDS, MIN_UNRELATED_PATHS, host_of, unrelated_paths
from scrapy_dedup.records import Action, Conditions, DecisionAction, RelationKind, RelationState, Validity

S = "http://site.example"
UNRELATED = [f"{S}/{folder}/{name}" for folder, name in ["ab", "cd", "ef", "gh", "ij"]]
SORRY = "Sorry, something went wrong."


PATHS = [
    ("no path", [], 0),
    ("one path", ["/a/b"], 1),
    ("folders and names of their own", ["/a/b", "/c/d", "/e/f"], 3),
    ("one page with other queries", ["/a?x=1", "/a?x=2", "/a?x=3"], 1),
    ("one page of many versions", ["/v1/install", "/v2/install", "/v3/install"], 1),
    ("many pages of two versions", ["/v1/a", "/v1/b", "/v2/a", "/v2/b"], 2),
    ("neighbours in one folder", ["/shirts/red", "/shirts/blue", "/shirts/green"], 1),
    ("pages at the top", ["/red", "/blue", "/green"], 1),
    ("an index file is its folder", ["/a/index.html", "/b/index.html", "/c/x/Default.aspx"], 2),
    ("a slash at the end does not matter", ["/a/x", "/a/x/", "/b/y/"], 2),
    ("the home page and one below", ["/", "/a/b"], 2),
    ("fragments that are routes", ["/#!/a", "/#!/b"], 1),
]


@pytest.mark.parametrize(("paths", "count"), [case[1:] for case in PATHS], ids=[case[0] for case in PATHS])
def test_paths_are_unrelated_that_share_neither_folder_nor_name(paths, count):
    assert unrelated_paths(S + path for path in paths) == count


def test_the_host_of_a_key_has_its_port_and_no_user():
    keys = ["https://Shop.example/a?b=http://x/", "http://u:p@h:81?x", "http://[::1]:8080/", "mailto:x"]
    assert [host_of(key) for key in keys] == ["shop.example", "h:81", "[::1]:8080", ""]


def quarantined(observations):
    return [one.action is Action.REVIEW and one.reason == "shared_template" for one in observations]


def test_all_observations_of_a_template_are_to_be_looked_at_until_it_is_lifted(crawl, read, ledger_url):
    one = crawl()
    seen = [one.see(SORRY, url).observation for url in UNRELATED]
    assert quarantined(seen) == [False] * 4 + [True]
    one.see(SORRY, "http://other.example/a")
    one.see("A document of its own", UNRELATED[0])
    read_back = list(read().observations())
    assert quarantined(read_back) == [True] * 5 + [False] * 2
    (found,) = read().relations(kind=RelationKind.SHARED_TEMPLATE)
    assert (found.a, found.b, found.state) == (seen[0].body_id, "site.example", RelationState.CONFIRMED)
    assert (found.measures, found.job_id) == ({"urls": 5, "words": 4}, "job-1")

    lifted = record_decision(ledger_url, found, DecisionAction.DIFFERENT, by="human:ann")
    ledger = read()
    assert [(got.action, got.reason, got.decision_id) for got in ledger.observations()][:2] == [
        (Action.KEEP, "new_text", lifted.decision_id),
        (Action.REUSE, "text_equal", lifted.decision_id),
    ]
    again = crawl("job-2")
    question = [PageQuestion(UNRELATED[1], Conditions())]
    assert [page.observation.url for page in again.writer.latest_pages(question).result(30)] == UNRELATED[1:2]
    recrawled = [again.see(SORRY, url).observation for url in [*UNRELATED, S + "/k/l"]]
    assert {(got.action, got.reason, got.decision_id) for got in recrawled} == {
        (Action.REUSE, "text_equal", lifted.decision_id)
    }
    assert list(read().observations(job_id="job-2")) == recrawled
    record_decision(ledger_url, found, DecisionAction.UNDO, by="human:ann")
    again.see("News", S + "/news")
    assert again.writer.latest_pages(question).result(30) == [None]  # it does not count as seen
    assert quarantined([again.see(SORRY, S + "/m/n").observation]) == [True]
    assert sum(quarantined(read().observations())) == 5 + 6 + 1
    assert len(list(read().relations(kind=RelationKind.SHARED_TEMPLATE))) == 1
    assert read().check(deep=True) == []


def test_a_decision_about_one_page_outranks_the_quarantine(crawl, read, ledger_url):
    one = crawl()
    for url in UNRELATED:
        one.see(SORRY, url)
    same = next(got for got in read().relations(kind=RelationKind.SAME_TEXT) if got.a == UNRELATED[1])
    record_decision(ledger_url, same, DecisionAction.DIFFERENT, by="human:ann")
    assert [got.reason for got in read().observations()] == [
        "shared_template",
        "decided",
        *["shared_template"] * 3,
    ]


LEFT_ALONE = [
    ("too few paths", SORRY, UNRELATED[: MIN_UNRELATED_PATHS - 1], {}),
    ("one page of many versions", SORRY, [f"{S}/v{number}/install" for number in range(9)], {}),
    ("neighbours", SORRY, [f"{S}/shirts/{number}" for number in range(9)], {}),
    ("a text of some length", "word " * (MAX_TEMPLATE_WORDS + 1), UNRELATED, {}),
    ("other hosts", SORRY, [f"http://h{number}.example/{number}/x{number}" for number in range(9)], {}),
    ("no evidence at all", SORRY, UNRELATED, {"validity": Validity.SOFT_404}),
]


@pytest.mark.parametrize("case", LEFT_ALONE, ids=lambda case: case[0])
def test_other_texts_are_left_alone(records, sqlite_url, case):
    _, text, urls, changes = case
    with records.crawl(sqlite_url, records.job()) as one:
        seen = [one.see(text, url, **changes).observation for url in urls]
    assert quarantined(seen) == [False] * len(urls)
    with Ledger.open(sqlite_url) as ledger:
        assert list(ledger.relations(kind=RelationKind.SHARED_TEMPLATE)) == []


def test_a_template_is_found_within_one_commit_and_over_jobs(crawl, read):
    one = crawl()
    one.writer.open()
    futures = [one.submit(SORRY, url) for url in UNRELATED]
    for future in futures:
        future.result(30)
    two = crawl("job-2")
    other = "Please switch on scripts."
    for number, url in enumerate(UNRELATED):
        (one if number % 2 else two).see(other, url)
    assert len(list(read().relations(kind=RelationKind.SHARED_TEMPLATE))) == 2
    assert quarantined(read().observations()) == [True] * 10


def test_texts_of_corpora_are_counted_apart(crawl, read):
    one, two = crawl("job-1", corpus="one"), crawl("job-2", corpus="two")
    for url in UNRELATED[:3]:
        one.see(SORRY, url)
    for url in UNRELATED[3:]:
        two.see(SORRY, url)
    assert list(read().relations(kind=RelationKind.SHARED_TEMPLATE)) == []


def test_new_texts_and_long_ones_cost_no_query(crawl, monkeypatch):
    asked: list[object] = []
    monkeypatch.setattr(
        "scrapy_dedup.ledger.quarantine.new_templates",
        lambda connection, shown, *, job_id: asked.extend(shown) or [],
    )
    one = crawl()
    one.see("Short and new", UNRELATED[0])
    one.see("long " * 100, UNRELATED[1])
    one.see("long " * 100, UNRELATED[2])
    assert asked == []
    one.see("Short and new", UNRELATED[1])
    assert len(asked) == 1
