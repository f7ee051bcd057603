"""What the ledger can say about a URL, seen or not, without settings."""

from __future__ import annotations

import pytest

from scrapy_dedup.errors import LedgerUnavailable
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.urls import UrlPolicy

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
