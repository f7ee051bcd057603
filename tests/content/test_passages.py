"""Two texts side by side: what differs is marked, what is left out is counted, and nothing is lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.content.passages import MAX_PIECE_CHARS, MAX_PLACES, Mark, side_by_side

EQUAL, DIFFERS, CLAIM, LEFT_OUT = Mark


def marked(pieces):
    return [(piece.text, piece.mark) for piece in pieces if piece.mark in (DIFFERS, CLAIM)]


CASES = [
    ("a word", "Boats wait here.", "Boats rest here.", [("wait", DIFFERS)], [("rest", DIFFERS)]),
    ("a number", "It leaves at 9 today.", "It leaves at 10 today.", [("9", CLAIM)], [("10", CLAIM)]),
    ("a part of a number", "It costs 3.50 EUR.", "It costs 3.60 EUR.", [("50", CLAIM)], [("60", CLAIM)]),
    ("a negation", "The bridge is open.", "The bridge is not open.", [], [("not ", CLAIM)]),
    ("a number in words", "at nine in the hall", "at ten in the hall", [("nine", CLAIM)], [("ten", CLAIM)]),
    ("a date in Chinese", "渡轮在3月离开港口", "渡轮在4月离开港口", [("3", CLAIM)], [("4", CLAIM)]),
    ("two kinds", "Boats wait at 9.", "Boats rest at 8.", [("wait", DIFFERS), ("9", CLAIM)], None),
    ("a line more", "first\nlast\n", "first\nmiddle line\nlast\n", [], [("middle line\n", DIFFERS)]),
    ("nothing", "the same", "the same", [], []),
    ("from nothing", "", "quite new", [], [("quite new", DIFFERS)]),
]


@pytest.mark.parametrize(
    ("a", "b", "left", "right"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_what_differs_is_marked_and_what_can_change_a_claim_otherwise(a, b, left, right):
    found = side_by_side(a, b)

    assert [one for passage in found.passages for one in marked(passage.a)] == left
    if right is not None:
        assert [one for passage in found.passages for one in marked(passage.b)] == right
    assert found.is_whole
    marks = [mark for _, mark in left] + [mark for _, mark in right or ()]
    assert bool(found.claim_places) == (CLAIM in marks)
    assert bool(found.places) == bool(marks)


def test_passages_far_apart_are_shown_with_whole_words_around_them_and_the_rest_is_counted():
    before = "The harbour master writes down every ship. " * 400
    a = before + "The ferry waits here. " + before + "It leaves at 9. " + before
    b = before + "The ferry rests here. " + before + "It leaves at 10. " + before

    found = side_by_side(a, b, context_chars=100)

    first, second = found.passages
    assert (found.places, found.claim_places, found.more_places, found.is_whole) == (2, 1, 0, False)
    assert [piece.mark for piece in first.a] == [LEFT_OUT, EQUAL, DIFFERS, EQUAL]
    assert [piece.mark for piece in second.b] == [LEFT_OUT, EQUAL, CLAIM, EQUAL]
    for passage in found.passages:
        for piece in passage.a:
            assert len(piece.text) <= 100
        assert passage.a[1].text.split()[0] in before.split()
    assert found.rest_a == found.rest_b > len(before) - 100


def test_no_more_places_than_the_bound_are_shown_and_the_others_are_counted():
    a = "".join(f"line {number} of the list\nkept {number}\n" for number in range(MAX_PLACES + 50))
    b = a.replace("list", "roll")

    found = side_by_side(a, b)

    assert (found.places, found.more_places) == (MAX_PLACES + 50, 50)
    assert not found.is_whole


def test_both_ends_of_a_long_passage_are_shown():
    inserted = "".join(f"word{number} " for number in range(1_000))

    (passage,) = side_by_side("The beginning. The end.", f"The beginning. {inserted}The end.").passages

    first, cut, last = passage.b[1:4]
    assert [first.mark, cut.mark, last.mark] == [DIFFERS, LEFT_OUT, DIFFERS]
    assert first.chars + cut.chars + last.chars == len(inserted)
    assert len(first.text) + len(last.text) == MAX_PIECE_CHARS


@pytest.mark.parametrize("line_end", ["\n", " "], ids=["lines", "one line"])
def test_two_changes_in_five_megabytes_take_less_than_seconds(line_end):
    a = line_end.join(
        f"row {row} of the register holds value {row * row} and no more" for row in range(90_000)
    )
    b = a.replace("row 40000 of", "row 40000 not of").replace("row 80000 of the", "row 80000 in the")
    assert len(a) > 5_000_000

    started = time.process_time()
    found = side_by_side(a, b)

    assert time.process_time() - started < 3
    assert found.places >= 1
    assert sum(len(piece.text) for passage in found.passages for piece in passage.a) < 10_000
    if line_end == "\n":
        assert (found.places, found.claim_places) == (2, 1)


WORDS = st.lists(
    st.sampled_from(["a", "b", "cc", "橋", " ", " ", "\n", ".", "5", "not", "\u2028", "\r\n"]), max_size=80
)
TEXTS = WORDS.map("".join) | st.text(max_size=120)


@given(TEXTS, TEXTS, st.integers(0, 20), st.sampled_from([0, 50, 4_000]), st.integers(1, 4))
def test_pieces_make_up_both_texts_and_equal_ones_are_equal(a, b, context, whole, places):
    found = side_by_side(a, b, context_chars=context, whole_chars=whole, max_places=places)

    for text, side, rest in ((a, "a", found.rest_a), (b, "b", found.rest_b)):
        at = 0
        for passage in found.passages:
            for piece in getattr(passage, side):
                assert piece.mark is LEFT_OUT or text[at : at + piece.chars] == piece.text != ""
                at += piece.chars
        assert at + rest == len(text)
    for passage in found.passages:
        equal = [[one.text for one in side if one.mark is EQUAL] for side in (passage.a, passage.b)]
        assert equal[0] == equal[1]
    assert found.is_whole or whole == 0 or max(len(a), len(b)) > whole or found.more_places
    assert (a == b) == (found.places == 0)
