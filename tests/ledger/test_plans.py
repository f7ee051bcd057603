"""What the ledger knows of indexes, on each engine: only what was confirmed."""

from __future__ import annotations

import pytest

from scrapy_dedup.errors import DedupError, LedgerUnavailable
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.plans import (
    MAX_OWNERS,
    Basis,
    PlanChange,
    confirm_plan,
    discard_plan,
    migrate,
    save_plan,
)

from .conftest import sha

ONE, TWO = (f"plan1-{number:032x}" for number in (1, 2))


def change(number: int, *, is_delete: bool = False, vector: str = "v", owners=("k",)) -> PlanChange:
    payload = sha(f"payload {number}")[7:]
    return PlanChange(f"entry1-{number:032x}", is_delete, sha(f"{vector} {number}"), payload, owners)


def save(url, plan_id, changes, *, is_whole=False, starts_at=None):
    made = {"plan_id": plan_id, "options": {"n": "ö\x00"}, "changes": changes, "is_whole": is_whole}
    save_plan(url, "default", "index", starts_at=starts_at or basis(url), **made)


def basis(url):
    try:
        with Ledger.open(url) as ledger:
            return ledger.index_basis("default", "index")
    except LedgerUnavailable:
        return Basis()


def held(url):
    with Ledger.open(url) as ledger:
        return {int(one.id[7:], 16): one.is_held for one in ledger.index_entries("default", "index")}


def test_a_plan_counts_once_it_is_confirmed(crawl, ledger_url):
    crawl().see("T")
    owners = [f"https://site.example/{number}\x00" for number in range(30)]
    save(ledger_url, ONE, [change(1, owners=owners), change(2)])
    assert held(ledger_url) == {}
    assert confirm_plan(ledger_url, "default", "index", ONE)
    assert held(ledger_url) == {1: True, 2: True}
    with Ledger.open(ledger_url) as ledger:
        first, _ = ledger.index_entries("default", "index")
        assert first.owners == tuple(owners[:MAX_OWNERS])
        assert (first.embed_key, first.payload) == (sha("v 1"), sha("payload 1")[7:])
        applied = ledger.applied_plan("default", "index")
        assert (applied.plan_id, applied.options) == (ONE, {"n": "ö\x00"})
        assert ledger.applied_plan("default", "another") is None

    save(ledger_url, TWO, [change(1, is_delete=True), change(2, vector="w"), change(3)])
    assert confirm_plan(ledger_url, "default", "index", TWO)
    assert held(ledger_url) == {1: False, 2: True, 3: True}
    assert not confirm_plan(ledger_url, "default", "index", TWO)
    with pytest.raises(DedupError, match="none waits"):
        confirm_plan(ledger_url, "default", "index", ONE)


def test_a_whole_plan_says_all_that_the_index_holds(crawl, ledger_url):
    crawl().see("T")
    save(ledger_url, ONE, [change(1), change(2)])
    confirm_plan(ledger_url, "default", "index", ONE)
    save(ledger_url, TWO, [change(2), change(3)], is_whole=True)
    confirm_plan(ledger_url, "default", "index", TWO)
    assert held(ledger_url) == {1: False, 2: True, 3: True}


def test_a_later_plan_takes_the_place_of_one_that_waits(crawl, ledger_url):
    crawl().see("T")
    save(ledger_url, ONE, [change(1)])
    save(ledger_url, TWO, [change(1), change(2)])
    with pytest.raises(DedupError, match=f"was replaced by {TWO}"):
        confirm_plan(ledger_url, "default", "index", ONE)
    assert held(ledger_url) == {}
    confirm_plan(ledger_url, "default", "index", TWO)
    assert held(ledger_url) == {1: True, 2: True}


def test_a_plan_that_knows_nothing_of_another_is_not_stored(crawl, ledger_url):
    crawl().see("T")
    nothing = basis(ledger_url)
    save(ledger_url, ONE, [change(1)])
    one_waits = basis(ledger_url)
    with pytest.raises(DedupError, match="at the same time, so this one was not written"):
        save(ledger_url, TWO, [change(2)], starts_at=nothing)
    save(ledger_url, ONE, [change(1)], starts_at=nothing)  # two processes made the same plan
    confirm_plan(ledger_url, "default", "index", ONE)
    with pytest.raises(DedupError, match="at the same time, so this one was not written"):
        save(ledger_url, TWO, [change(2)], starts_at=one_waits)
    assert held(ledger_url) == {1: True}


def test_a_plan_that_is_discarded_is_forgotten(crawl, ledger_url):
    crawl().see("T")
    with pytest.raises(DedupError, match="nothing to forget; none does"):
        discard_plan(ledger_url, "default", "index", ONE)
    save(ledger_url, ONE, [change(1)])
    with pytest.raises(DedupError, match=f"nothing to forget; {ONE} does"):
        discard_plan(ledger_url, "default", "index", TWO)
    discard_plan(ledger_url, "default", "index", ONE)
    with Ledger.open(ledger_url) as ledger:
        assert ledger.index_basis("default", "index") == Basis()
        assert [*ledger.waiting_changes("default", "index")] == []


def test_a_copy_of_the_ledger_holds_its_indexes(crawl, ledger_url, tmp_path):
    crawl().see("T")
    save(ledger_url, ONE, [change(1)])
    confirm_plan(ledger_url, "default", "index", ONE)
    save(ledger_url, TWO, [change(2)])
    with Ledger.open(ledger_url) as ledger:
        ledger.backup(tmp_path / "copy.db")
    copy = f"sqlite:///{tmp_path / 'copy.db'}"
    assert held(copy) == {1: True}
    assert confirm_plan(copy, "default", "index", TWO)


def test_a_plan_makes_no_ledger(ledger_url):
    with pytest.raises(LedgerUnavailable, match="no ledger"):
        migrate(ledger_url)
    with pytest.raises(LedgerUnavailable, match="no ledger"):
        save(ledger_url, ONE, [])
