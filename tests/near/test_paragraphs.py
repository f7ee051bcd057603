"""Paragraphs of texts: where they stand, and when two of them say the same."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.near.paragraphs import WORDLESS, paragraph_keys, paragraphs

CASES = {
    "nothing": ("", []),
    "white space": (" \n\t\n\u00a0\n", []),
    "blank lines set paragraphs apart": ("One.\nTwo.\n\nThree.", ["One.\nTwo.", "Three."]),
    "blank lines may hold spaces": ("One.\n \t\nTwo.", ["One.", "Two."]),
    "a heading ends at its line": ("# Title\nText.\n\nMore.", ["# Title", "Text.", "More."]),
    "a heading ends what is before it": ("A.\n## Next\nMore.\n\nLast.", ["A.", "## Next", "More.", "Last."]),
    "a hash before a word is no heading": ("#tag one\ntwo\n\nthree", ["#tag one\ntwo", "three"]),
    "seven hashes are no heading": ("####### a\nb\n\nc", ["####### a\nb", "c"]),
    "code keeps its blank lines": ("A.\n\n```py\nx\n\n# y\n```\nB.", ["A.", "```py\nx\n\n# y\n```", "B."]),
    "a longer fence holds a shorter one": ("````\n```\n\n```\n````\nb", ["````\n```\n\n```\n````", "b"]),
    "tildes do not close backticks": ("```\n~~~\n\n```\n\nb", ["```\n~~~\n\n```", "b"]),
    "code without an end goes to the end": ("a\n\n```\nx\n\ny\n\n", ["a", "```\nx\n\ny"]),
    "a fence beside its text": ("Text:\n```\nx\n```\n\nb", ["Text:", "```\nx\n```", "b"]),
    "a list is one paragraph": ("- one\n- two\n\n- three", ["- one\n- two", "- three"]),
    "without blank lines each line is one": ("One.\nTwo.\n# Three\n4.", ["One.", "Two.", "# Three", "4."]),
    "one line": ("  One.  ", ["One."]),
    "no other line ends": ("a\x0bb\u2028c\x85d\n\ne", ["a\x0bb\u2028c\x85d", "e"]),
    "carriage returns": ("One.\r\nTwo.\r\n\r\nThree.\r\n", ["One.\r\nTwo.", "Three."]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_paragraphs_stand_where_they_are(text, expected):
    assert [text[one.start : one.end] for one in paragraphs(text)] == expected


@given(st.text(st.sampled_from("ab \n\t#`~-|.\r\u00a0\u4e2d")))
def test_nothing_but_white_space_is_left_out(text):
    found = paragraphs(text)
    places = [place for one in found for place in (one.start, one.end)]

    assert places == sorted(places)
    assert _unspaced("".join(text[one.start : one.end] for one in found)) == _unspaced(text)
    assert all(text[one.start : one.end].strip() == text[one.start : one.end] != "" for one in found)


def _unspaced(text):
    return re.sub(r"\s", "", text)


SAME = {
    "markup": ("Some **words** and `code`.", "Some words and code"),
    "case and white space": ("SOME\n  words\n\nx", "some words"),
    "composed and decomposed": ("caf\u00e9", "cafe\u0301"),
    "a heading and a sentence": ("## See also", "See also:"),
}
OTHER = {
    "order": ("one two", "two one"),
    "a word more": ("one two", "one two two"),
    "a number": ("version 1.2", "version 1.3"),
    "where words are cut": ("ab c", "a bc"),
    "a character of a script without spaces": ("\u4e2d\u6587", "\u6587\u4e2d"),
}


@pytest.mark.parametrize(("a", "b"), SAME.values(), ids=SAME)
def test_equal_words_have_equal_keys(a, b):
    assert paragraphs(a)[0].key == paragraphs(b)[0].key


@pytest.mark.parametrize(("a", "b"), OTHER.values(), ids=OTHER)
def test_other_words_have_other_keys(a, b):
    assert paragraphs(a)[0].key != paragraphs(b)[0].key


def test_a_key_does_not_depend_on_what_stands_beside():
    texts = ["one", "", "two three four", "---", "one"]
    alone = [int(paragraph_keys([text])[0]) for text in texts]

    assert paragraph_keys(texts).tolist() == alone
    assert alone[1] == alone[3] == WORDLESS


def test_keys_are_the_same_in_every_process():
    code = (
        "from scrapy_dedup.near.paragraphs import paragraphs;"
        "print([one.key for one in paragraphs('# Title\\n\\nSome caf\\u00e9 at 10:30.\\n\\n\\u4e2d\\u6587')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert found.strip() == "[7017332487819053641, 6538700751556991577, 4023050549987473565]"


@pytest.mark.slow
def test_millions_of_characters_take_one_pass():
    text = "\n\n".join(f"```\nline {number}" for number in range(100_000))  # each fence closes the one before

    assert sum(one.end - one.start for one in paragraphs(text)) > len(text) * 0.9
