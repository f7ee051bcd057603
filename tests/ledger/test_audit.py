"""What is wrong with relations, decisions and links inside a ledger that opens is told in a sentence."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from scrapy_dedup.ledger import Ledger, record_decision
from scrapy_dedup.ledger.decide import Sighting
from scrapy_dedup.records import DecisionAction

A, B = "http://site.example/a", "http://site.example/b"


@pytest.fixture
def decided(records, sqlite_url):
    """A sound ledger with a relation, two decisions about it, and the links of a page."""
    with records.crawl(sqlite_url, records.job()) as one:
        one.see("T", A)
        one.see("T", B)
        page = records.observation(one.writer.next_seq(), A)
        one.writer.record(Sighting(page, records.text("T"), links='["/x"]')).result(30)
    with Ledger.open(sqlite_url) as ledger:
        about = next(ledger.relations())
        assert ledger.check(deep=True) == []
    record_decision(sqlite_url, about, DecisionAction.DIFFERENT, by="human:ann")
    record_decision(sqlite_url, about, DecisionAction.UNDO, by="human:ann")
    return sqlite_url


DAMAGES = [
    ("UPDATE relation SET b = 'other'", True, ["does not have the identity", "cannot be found"]),
    ("UPDATE relation SET a_digest = NULL", True, ["does not have the identity"]),
    ("UPDATE relation SET a_place = x'00'", True, ["cannot be found by its sides"]),
    ("UPDATE relation SET kind = 'none'", True, ["cannot be read"]),
    ("DELETE FROM relation", False, ["which is missing", "which is missing"]),
    ("DELETE FROM decision WHERE ordinal = 1", False, ["takes the place of one that is no earlier decision"]),
    ("UPDATE decision SET supersedes = NULL", False, ["takes the place of one that is no earlier decision"]),
    ("DELETE FROM link_set", False, ["The links of the observation obs1-"]),
    ("UPDATE link_set SET data = x'00'", True, ["cannot be read"]),
    ("UPDATE link_set SET digest = x'00'; UPDATE observation SET links = x'00'", True, ["holds other links"]),
]


@pytest.mark.parametrize(("damage", "deep", "said"), DAMAGES, ids=[case[0] for case in DAMAGES])
def test_each_damage_is_named(decided, damage, deep, said):
    with closing(sqlite3.connect(decided.removeprefix("sqlite:///"))) as connection:
        connection.executescript(damage)
    with Ledger.open(decided) as ledger:
        problems = ledger.check(deep=deep)
        assert len(ledger.check(deep=True)) >= len(problems)
    assert len([problem for problem in problems if any(part in problem for part in said)]) == len(said)
