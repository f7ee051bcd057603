"""Claims of events stand in every engine as they were made, once, whatever their characters."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.errors import LedgerUnavailable
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.events import Claim, claims_in_conflict, plan, record_claims
from scrapy_dedup.ledger.suppression import mark_looked
from scrapy_dedup.records import RelationKind

NOW, LATER = "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"


def claim(observation_id, event_id="flood-7", reason="it says so", at=None):
    return Claim(observation_id, "default", event_id, reason, None, "human:ann", at)


@pytest.mark.parametrize("event_id", ["flood-7", "Überschwemmung \x00 \ud800 'q'"], ids=["plain", "odd"])
def test_a_claim_is_written_once_and_read_as_the_event_of_its_observation(event_id, ledger_url, crawl, read):
    seen = crawl().see("The bridge is closed.").observation
    for at, new in [(NOW, 1), (LATER, 0)]:
        assert record_claims(ledger_url, [claim(seen.observation_id, event_id)], at=at).new == new
    ledger = read()
    assert [row.event_id for row in ledger.observations()] == [event_id]
    (relation,) = ledger.relations(kind=RelationKind.EVENT)
    assert (relation.a, relation.b, relation.created_at) == (seen.observation_id, event_id, NOW)
    (place,) = ledger.places()
    assert place == (seen.observation_id, "default", seen.url_key, True)


def test_a_second_event_stands_beside_the_first_and_names_the_conflict(ledger_url, crawl, read):
    seen = crawl().see("The bridge is closed.").observation.observation_id
    record_claims(ledger_url, [claim(seen, "b")], at=NOW)
    claimed = record_claims(ledger_url, [claim(seen, "a"), claim(seen, "c")], at=NOW)
    assert [row.b for row in claimed.conflicts] == ['["a", "b"]', '["a", "c"]', '["b", "c"]']
    ledger = read()
    by_event = {row.b: row.relation_id for row in ledger.relations(kind=RelationKind.EVENT)}
    assert claims_in_conflict(claimed.conflicts[0]) == (by_event["a"], by_event["b"])
    assert [row.event_id for row in ledger.observations()] == [None]


@given(
    st.lists(
        st.builds(
            claim,
            st.sampled_from(["obs1-1", "obs1-2"]),
            st.sampled_from("abc"),
            st.sampled_from(["r", "s"]),
            st.sampled_from([None, NOW, LATER]),
        ),
        max_size=12,
    )
)
def test_what_was_planned_once_plans_nothing_again(claims):
    new, conflicts = plan(claims, [], at=NOW)
    assert plan(claims, [*new, *conflicts], at=LATER) == ([], [])
    assert {(row.a, row.b) for row in new} == {(one.observation_id, one.event_id) for one in claims}
    assert len({row.relation_id for row in conflicts}) == len(conflicts)


def test_what_the_ledger_cannot_take_is_told_in_one_line_and_is_not_there(sqlite_url, records):
    with records.crawl(sqlite_url, records.job()) as crawl:
        seen = crawl.see("The bridge is closed.").observation.observation_id
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as file:
        for change in ("insert on relation", "insert on meta"):
            file.execute(
                f"create trigger full_{change[10:]} before {change} begin "
                "select raise(abort, 'disk is full'); end"
            )
    for write in (
        lambda: record_claims(sqlite_url, [claim(seen)], at=NOW),
        lambda: mark_looked(sqlite_url, "default"),
    ):
        with pytest.raises(
            LedgerUnavailable, match=r"dedup\.db cannot be written \(disk is full\), so nothing was\.$"
        ):
            write()
    with Ledger.open(sqlite_url) as ledger:
        assert list(ledger.relations(kind=RelationKind.EVENT)) == []
