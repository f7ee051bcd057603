"""The spans of a difference turn one text into the other, are bounded, and never take long."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.content import spans
from scrapy_dedup.content.spans import CONTEXT_CHARS, MAX_SPAN_CHARS, MAX_SPANS, Difference, difference

CASES = [
    ("a word", "The bridge is open.", "The bridge is closed.", [("open", "closed")]),
    ("a word more", "The bridge is open.", "The bridge is not open.", [("", "not ")]),
    ("a word less", "It is not so.", "It is so.", [("not ", "")]),
    ("a number with a point", "It costs 5.30 EUR today.", "It costs 6.40 EUR today.", [("5.30", "6.40")]),
    ("two places", "one two three four", "one 2 three 4", [("two", "2"), ("four", "4")]),
    ("neighbours are one place", "an old stone bridge", "a new stone bridge", [("an old", "a new")]),
    ("a whole line", "first\nsecond\nthird\n", "first\nthird\n", [("second\n", "")]),
    ("a script without spaces", "橋は開いています", "橋は閉じています", [("開い", "閉じ")]),
    ("from nothing", "", "all new", [("", "all new")]),
    ("to nothing", "all gone", "", [("all gone", "")]),
    ("white space", "a b", "a  b", [("", " ")]),
    ("lines that change their order", "a\nb\nc\n", "b\nc\na\n", [("a\n", ""), ("", "\na")]),
]


@pytest.mark.parametrize(
    ("before", "after", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_the_differing_words_are_named(before, after, expected):
    found = difference(before, after)
    assert [(span.before, span.after) for span in found.spans] == expected
    assert not found.is_cut


def test_equal_texts_have_no_spans():
    assert difference("same", "same") == Difference((), is_cut=False)


def applied(before: str, found: Difference) -> str:
    parts, place = [], 0
    for span in found.spans:
        parts += [before[place : span.before_start], span.after]
        place = span.before_end
    return "".join([*parts, before[place:]])


FEW_WORDS = st.lists(
    st.sampled_from(["a", "b", "cc", "橋", " ", " ", "\n", ".", "5", "\u2028", "É"]), max_size=60
)
TEXTS = FEW_WORDS.map("".join) | st.text(max_size=200)


@given(TEXTS, TEXTS)
def test_the_spans_turn_the_old_text_into_the_new_one(before, after):
    found = difference(before, after)
    if not found.is_cut:
        assert applied(before, found) == after
    assert difference(before, after) == found


@given(TEXTS, TEXTS)
def test_spans_are_in_order_apart_and_say_where_they_stand(before, after):
    end = new_end = 0
    for span in difference(before, after).spans:
        assert end <= span.before_start <= span.before_end
        assert new_end <= span.after_start <= span.after_end
        assert before[span.before_start : span.before_end][:MAX_SPAN_CHARS] == span.before
        assert after[span.after_start : span.after_end][:MAX_SPAN_CHARS] == span.after
        assert span.before != span.after
        for text, start, stop in (
            (before, span.before_start, span.before_end),
            (after, span.after_start, span.after_end),
        ):
            assert text[:start].endswith(span.lead)
            assert text[stop:].startswith(span.tail)
        end, new_end = span.before_end, span.after_end


def test_the_context_ends_at_the_next_span():
    words = [f"w{number}" for number in range(40)]
    changed = ["x" if number in {20, 22} else word for number, word in enumerate(words)]
    first, second = difference(" ".join(words), " ".join(changed)).spans
    assert len(first.lead) == len(second.tail) == CONTEXT_CHARS
    assert first.tail == second.lead == " w21 "


def test_more_spans_than_the_bound_are_left_out_and_it_is_said():
    before = " ".join(f"w{number}" for number in range(200))
    after = " ".join("x" if number % 2 else f"w{number}" for number in range(200))
    found = difference(before, after)
    assert len(found.spans) == MAX_SPANS
    assert found.is_cut


def test_a_long_span_is_shortened_and_says_how_long_it_was():
    long = "y " * 1_000
    (span,) = difference("start end", f"start {long}end").spans
    assert span.after == long[:MAX_SPAN_CHARS]
    assert span.after_end - span.after_start == len(long)
    assert difference("start end", f"start {long}end").is_cut


MEGABYTE = 1_000_000
_RANDOM = random.Random(5)
_WORDS = [f"w{number}" for number in range(3_000)]


def words(count: int) -> list[str]:
    return _RANDOM.choices(_WORDS, k=count)


def other_lines(chars: int, order: int) -> str:
    return "".join(f"anchor{n}\n" + "a b c d e f g h "[::order] * 5 + "\n" for n in range(chars // 90))


PAIRS = {
    "other words in one line": lambda: (" ".join(words(200_000)), " ".join(words(200_000))),
    "one word of a long line": lambda: (("the same " * 110_000) + "x", ("the same " * 110_000) + "y"),
    "first and last word": lambda: (f"a {'the same ' * 110_000}b", f"c {'the same ' * 110_000}d"),
    "two words in turn": lambda: ("a b " * (MEGABYTE // 4), "b a " * (MEGABYTE // 4)),
    "empty lines": lambda: ("\n" * MEGABYTE, "x" + "\n" * MEGABYTE + "x"),
    "lines of one character": lambda: ("a\nb\n" * (MEGABYTE // 4), "b\na\n" * (MEGABYTE // 4)),
    "no words at all": lambda: ("." * MEGABYTE, "!." * (MEGABYTE // 2)),
    "unkind lines between anchors": lambda: (other_lines(MEGABYTE, 1), other_lines(MEGABYTE, -1)),
    "just below the bound, shuffled": lambda: (
        " ".join(f"u{n}" for n in range(14_000)),
        " ".join(f"u{n}" for n in _RANDOM.sample(range(14_000), 14_000)),
    ),
    "just below the bound, unkind": lambda: (other_lines(99_000, 1), other_lines(99_000, -1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_no_pair_of_large_texts_takes_a_second(name, monkeypatch):
    monkeypatch.setattr(spans, "MAX_SPANS", 1 << 60)
    monkeypatch.setattr(spans, "MAX_SPAN_CHARS", 1 << 60)
    before, after = PAIRS[name]()
    started = time.process_time()
    found = difference(before, after)
    assert time.process_time() - started < 1.0
    assert applied(before, found) == after


def test_a_change_in_a_large_page_is_found_to_the_word():
    lines = [f"{' '.join(words(12))} line {number}\n" for number in range(15_000)]
    changed = list(lines)
    changed[7_000] = changed[7_000].replace("line 7000", "row 7000")
    before, after = "".join(lines), "".join(changed)
    assert len(before) > 1_000_000
    (span,) = difference(before, after).spans
    assert (span.before, span.after) == ("line", "row")
