"""How notes are counted while they wait: nothing is lost from the total, and memory is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scrapy_dedup.ledger.aliases import MAX_RAW_URLS, OVERFLOW_RULE, AliasCounter, storable
from scrapy_dedup.records import AliasRecord

NOTE = AliasRecord("job", "http://raw/0", "http://raw/0", "key 0", "merged", "tracking", None, 1, 1)


def note(raw: int, key: int = 0, rule: str = "tracking") -> AliasRecord:
    return replace(NOTE, raw_url=f"http://raw/{raw}", url_key=f"key {key}", rule=rule)


def test_equal_notes_are_one_row_in_first_seen_order():
    counter = AliasCounter(100)
    for one in [note(1), note(2, 1), note(1), note(1, rule="session"), note(1)]:
        counter.add(one)
    assert [(row.url_key, row.rule, row.count) for row in counter.take(None)] == [
        ("key 0", "tracking", 3),
        ("key 1", "tracking", 1),
        ("key 0", "session", 1),
    ]
    assert len(counter) == 0


def test_too_many_rows_are_counted_in_the_overflow_rows_of_their_keys():
    counter = AliasCounter(10)
    for number in range(30):
        counter.add(note(number, number % 3))
    rows = counter.take(None)
    assert len(rows) == 13
    assert sum(row.count for row in rows) == 30
    assert {(row.url_key, row.count) for row in rows if row.rule == OVERFLOW_RULE} == {
        ("key 0", 6),
        ("key 1", 7),
        ("key 2", 7),
    }


def test_rows_are_bounded_also_where_each_note_has_a_key_of_its_own():
    counter = AliasCounter(10)
    for number in range(1_000):
        counter.add(note(number, number))
    assert len(counter) == 21
    rows = counter.take(None)
    assert sum(row.count for row in rows) == 1_000
    assert (rows[-1].url_key, rows[-1].raw_url, rows[-1].rule) == ("", "", OVERFLOW_RULE)


def test_what_is_remembered_of_a_key_goes_with_its_last_row():
    counter = AliasCounter(100_000)
    for number in range(20_000):
        counter.add(note(number % 150, number))
        if number % 10 == 9:
            counter.take(9)
    assert len(counter) == 2_000
    assert len(counter._keys) == 2_000
    counter.take(None)
    assert counter._keys == {}


def test_raw_urls_of_one_key_are_bounded_while_any_of_them_waits():
    counter = AliasCounter(100_000)
    for number in range(1_000):
        counter.add(note(number))
        counter.add(note(number + 5_000, 1))
        counter.take(1)
    assert max(len(waiting.raw_urls) for waiting in counter._keys.values()) <= MAX_RAW_URLS


def test_the_rows_of_a_key_can_be_taken_alone():
    counter = AliasCounter(100)
    for number in range(6):
        counter.add(note(number, number % 3))
    assert [row.raw_url for row in counter.take_of(["key 1", "key 1", "key 9"])] == [
        "http://raw/1",
        "http://raw/4",
    ]
    assert len(counter) == 4


@pytest.mark.parametrize(("depth", "kept"), [(None, None), (3, 3), (1 << 31, None), ("3", None), (2.0, None)])
def test_a_depth_that_no_engine_holds_is_left_out(depth, kept):
    assert storable(replace(NOTE, depth=depth)).depth == kept
