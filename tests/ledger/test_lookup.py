"""What the ledger can say about a URL, seen or not, without settings."""

from __future__ import annotations

import pytest

from scrapy_dedup.errors import LedgerUnavailable
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.urls import UrlPolicy, redact

POLICY = UrlPolicy.preset("standard")
A = "https://site.example/article"
B = "https://mirror.example/article"


def see(one, text, url, **changes):
    return one.see(text, url, url_key=POLICY.decide(url).key, **changes)


@pytest.fixture
def crawled(crawl):
    one = crawl(spec=POLICY.spec())
    see(one, "The article", A)
    see(one, "The article", B)
    see(one, "Another", A + "/2")
    key = POLICY.decide(A).key
    one.note(A + "?utm_source=x", key)
    one.note("https://short.example/x", key, "redirect", verdict="redirected")
    see(crawl("job-2", spec=POLICY.spec()), "The article, corrected", A)
    one.writer.finish("finished")
    return one


def test_a_seen_url_has_its_observations_texts_and_aliases(crawled, read):
    found = read().lookup(A + "?utm_source=new")
    assert found.decision.key == POLICY.decide(A).key
    assert [(got.job_id, got.reason) for got in found.observations] == [
        ("job-1", "new_text"),
        ("job-2", "revision"),
    ]
    assert [body.text for body in found.bodies] == ["The article", "The article, corrected"]
    assert [alias.raw_url for alias in found.aliases] == [A + "?utm_source=x", "https://short.example/x"]
    assert [got.url for got in found.same_text] == [A, B, A]


def test_a_url_that_was_redirected_leads_to_its_target(crawled, read):
    found = read().lookup("https://short.example/x")
    assert found.decision.key != POLICY.decide(A).key
    assert [got.url for got in found.observations] == [A, A]
    assert [body.text for body in found.bodies] == ["The article", "The article, corrected"]


def test_a_url_that_was_never_seen_has_a_decision_and_nothing_else(crawled, read):
    found = read().lookup("https://other.example/?utm_source=x&a=1")
    assert found.decision.fetch_url == "https://other.example/?a=1"
    assert (found.observations, found.bodies, found.aliases, found.same_text) == ((), (), (), ())


def test_a_ledger_without_a_job_says_so(sqlite_url):
    from scrapy_dedup.ledger.engine import Target, WriteSession

    WriteSession(Target.parse(sqlite_url)).close()
    with Ledger.open(sqlite_url) as ledger, pytest.raises(LedgerUnavailable, match="no job yet"):
        ledger.lookup(A)


def test_the_engine_is_named(crawled, read, ledger_url):
    assert read().engine_version.startswith("SQLite 3." if ledger_url.startswith("sqlite") else "PostgreSQL ")


def test_a_facet_stored_apart_by_a_redirect_is_found(crawl, read):
    policy = UrlPolicy.preset("standard", hosts={"site.example": {"allow": ["page"]}})
    facet = A + "?color=red"
    one = crawl(spec=policy.spec())
    one.see("Red ones", facet, url_key=policy.conservative_key(facet), key_reason="facet_by_redirect")
    one.see("All", A, url_key=policy.decide(A).key)
    one.see("Blue ones", A + "?color=blue", url_key=policy.conservative_key(A + "?color=blue"))
    found = read().lookup(facet)
    assert found.decision.key == policy.decide(A).key
    assert [got.url for got in found.observations] == [facet, A]
    assert [body.text for body in read().lookup(A).bodies] == ["All"]


def test_a_url_with_credentials_finds_what_was_stored_without_them(crawl, read):
    secret = "https://ann:secret@site.example/private"
    decision = POLICY.decide(secret)
    one = crawl(spec=POLICY.spec())
    one.see("T", A)
    one.note(redact(secret), redact(decision.key), "credentials", verdict="denied")
    one.note(redact(secret), "https://elsewhere.example/", "redirect")
    see(one, "Elsewhere", "https://elsewhere.example/")
    one.writer.finish("finished")
    found = read().lookup(secret)
    assert [alias.rule for alias in found.aliases] == ["credentials", "redirect"]
    assert [got.url for got in found.observations] == ["https://elsewhere.example/"]


def test_a_url_is_judged_by_each_policy_of_the_ledger(crawl, read):
    keeps, drops = UrlPolicy.preset("conservative"), UrlPolicy.preset("standard")
    url = A + "?utm_source=x"
    for job_id, policy in [("keeps", keeps), ("drops", drops), ("drops again", drops)]:
        crawl(job_id, spec=policy.spec()).see(f"Text of {job_id}", url, url_key=policy.decide(url).key)
    ledger = read()
    found = ledger.lookup(url)
    assert found.decision.key == A
    assert [got.job_id for got in found.observations] == ["keeps", "drops", "drops again"]
    assert [got.job_id for got in ledger.lookup(url, job_id="keeps").observations] == ["keeps"]
    assert ledger.lookup(url, job_id="keeps").decision.key == url
    assert len(ledger.lookup(url, job_id="drops").observations) == 2
    with pytest.raises(LedgerUnavailable, match="no job 'none'"):
        ledger.lookup(url, job_id="none")


def test_a_policy_of_another_version_is_left_out(crawl, read):
    see(crawl("one", spec=POLICY.spec()), "T", A)
    crawl("two", spec={"preset": "of the future"}).see("T", B)
    assert len(read().lookup(A).observations) == 1
    with pytest.raises(LedgerUnavailable, match="understands"):
        read().lookup(A, job_id="two")


def test_of_a_text_seen_everywhere_the_first_places_are_given_and_all_counted(crawl, read, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.reader.MAX_SAME_TEXT", 3)
    one = crawl(spec=POLICY.spec())
    everywhere = [see(one, "Everywhere", f"{A}/{number}") for number in range(5)]
    other = see(one, "Other", f"{A}/0")
    found = read().lookup(f"{A}/0")
    assert [got.seq for got in found.same_text] == [0, 1, 2, 5]
    assert found.same_text_counts == {everywhere[0].body.body_id: 5, other.body.body_id: 1}
