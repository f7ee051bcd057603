"""Laws of cutting: nothing is lost, offsets are exact, the order is that of the text, on any text."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_dedup.chunks import NOTHING_REPEATED, ChunkOptions, HostPages
from scrapy_dedup.chunks.blocks import Kind, blocks, heading_text
from scrapy_dedup.chunks.split import checked, load, of_framework
from scrapy_dedup.errors import ConfigError, DedupError

WELL_FORMED = st.characters(exclude_categories=["Cs"])
LINES = st.sampled_from(
    [
        *(
            "# Title",
            "## Sub ##",
            "- item",
            "1. one",
            "| a | b |",
            "|---|---|",
            "```",
            "~~~~",
            "---",
            "![](x)",
        ),
        *("", "The same sentence again.", "The same sentence again.", "漢字かな交じり文。", "שלום עולם"),
        *("👩\u200d👩\u200d👧 🇩🇪 é", "\u200b", "\x1c"),
    ]
)
TEXTS = st.lists(LINES | st.text(WELL_FORMED, max_size=40), max_size=25).map("\n".join)
SIZES = st.sampled_from([1, 2, 7, 40, 1_000])


def repeated_of(texts: list[str]):
    pages = HostPages()
    for number, text in enumerate(texts):
        pages.add(f"page{number}", [one.key for one in blocks(text)])
    return pages.repeated(0.05)


def uncovered(text: str, pieces) -> str:
    left = list(text)
    for piece in pieces:
        left[piece.start : piece.end] = " " * (piece.end - piece.start)
    return "".join(left).strip()


@settings(max_examples=100, deadline=None)
@given(TEXTS, SIZES, st.sampled_from(["markdown", "text"]))
def test_chunks_cover_the_text_in_order_and_within_it(text, size, representation):
    pieces = ChunkOptions(size=size).cutter.cut(text, representation, NOTHING_REPEATED)
    assert uncovered(text, pieces) == ""
    assert all(0 <= piece.start < piece.end <= len(text) for piece in pieces)
    assert all(before.end <= after.start for before, after in pairwise(pieces))
    assert all(text[piece.start : piece.end].strip() for piece in pieces)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS, SIZES)
def test_with_repeated_blocks_nothing_is_lost_either(texts, shared, size):
    pages = [f"{text}\n\n{shared}" for text in texts] + [f"Own {number}.\n\n{shared}" for number in range(6)]
    repeated = repeated_of(pages)
    for text in pages:
        pieces = ChunkOptions(size=size).cutter.cut(text, "markdown", repeated)
        assert uncovered(text, pieces) == ""
        assert all(before.end <= after.start for before, after in pairwise(pieces))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("The same sentence. " * 500, id="repeated_sentences"),
        pytest.param("| a | b |\n|---|---|\n" + "| cell | cell |\n" * 400, id="table_longer_than_a_chunk"),
        pytest.param("```\n" + "# no heading = 1;\n" * 400 + "```\n\nAfter.", id="code_longer_than_a_chunk"),
        pytest.param("漢字仮名交じり文。" * 600, id="cjk"),
        pytest.param("שלום עולם, זה טקסט ארוך. " * 200, id="right_to_left"),
        pytest.param("👩‍👩‍👧‍👦🇩🇪é " * 500, id="emoji"),
        pytest.param("x" * 5_000, id="one_word"),
    ],
)
@pytest.mark.parametrize("size", [1, 100, 1_000])
def test_hard_texts_are_cut_to_size_and_lose_nothing(text, size):
    pieces = ChunkOptions(size=size).cutter.cut(text, "markdown", NOTHING_REPEATED)
    assert uncovered(text, pieces) == ""
    longest = max(piece.end - piece.start for piece in pieces)
    assert longest <= max(size, 30)  # a family of emoji is not taken apart


@pytest.mark.slow
@pytest.mark.timeout(300)  # a splitter that takes the square of the length takes hours
@pytest.mark.parametrize(
    "unit", ["Some words of a text. ", "x", "# A\n\nx\n\n", "| a | b |\n", "漢字。", "\n\n", "#"]
)
def test_a_page_of_5_mb_is_cut_in_linear_time(unit):
    text = (unit * (5_000_000 // len(unit) + 1))[:5_000_000]
    pieces = ChunkOptions().cutter.cut(text, "markdown", NOTHING_REPEATED)
    assert uncovered(text, pieces) == ""


def test_headings_are_those_above_and_code_has_none():
    text = "# Guide\n\nIntro.\n\n## Install ##\n\n```\n# no heading\n```\n\nLast words.\n\n# Other\n\nEnd."
    pieces = ChunkOptions(size=22).cutter.cut(text, "markdown", NOTHING_REPEATED)
    paths = {text[piece.start : piece.end]: piece.headings for piece in pieces}
    assert paths["Last words."] == ("Guide", "Install")
    assert paths["# Other\n\nEnd."] == ()
    plain = ChunkOptions(size=22).cutter.cut(text, "text", NOTHING_REPEATED)
    assert {piece.headings for piece in plain} == {()}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("## [1.0] - date ##", "[1.0] - date"),
        ("# C#", "C#"),
        ("#", ""),
        ("### a   b\t", "a b"),
        ("# " + "long " * 100, ("long " * 60).strip()),
    ],
)
def test_a_heading_says_what_its_marks_leave(line, said):
    assert heading_text(line) == said


def test_blocks_know_their_kinds():
    text = "# T\n\n| a |\n\n- x\n- y\n\n12) z\n\n```\ncode\n\ncode\n```\n\nWords\n\n#hashtag"
    assert [block.kind for block in blocks(text)] == [
        Kind.HEADING,
        Kind.TABLE,
        Kind.LIST,
        Kind.LIST,
        Kind.CODE,
        Kind.PARAGRAPH,
        Kind.PARAGRAPH,
    ]


@pytest.mark.slow
def test_chunks_are_the_same_in_every_process():
    text = "# Title\n\n" + "\n\n".join(f"Paragraph {number} of the text. " * 9 for number in range(40))
    code = (
        "import json, sys; from scrapy_dedup.chunks import *; from scrapy_dedup.chunks.blocks import blocks\n"
        "text = sys.stdin.read(); pages = HostPages()\n"
        "[pages.add(str(n), [b.key for b in blocks(text)][n:]) for n in range(9)]\n"
        "pieces = ChunkOptions().cutter.cut(text, 'markdown', pages.repeated(0.05))\n"
        "print(json.dumps([ChunkOptions().policy_id, pieces]))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=text,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    (only,) = said
    assert any(piece[3] for piece in json.loads(only)[1])


class Words:
    """A splitter as a framework has it: gives strings."""

    _chunk_overlap = 0

    def split_text(self, text):
        return text.split()


words = Words()


def sentences(text):
    return [(start, start + 5) for start in range(0, len(text) - 5, 10)]


def upper(text):
    return [(0, len(text) + 1)]


HERE = "tests_chunks_here"


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])
    return HERE


def test_a_splitter_of_a_framework_finds_repeated_chunks_in_their_places(here):
    pieces = ChunkOptions(splitter=f"{here}:words").cutter.cut(
        "chunk chunk  chunk", "markdown", NOTHING_REPEATED
    )
    assert [(piece.start, piece.end) for piece in pieces] == [(0, 5), (6, 11), (13, 18)]


def test_what_a_function_leaves_out_becomes_chunks(here):
    text = "0123456789" * 3
    pieces = ChunkOptions(splitter=f"{here}:sentences").cutter.cut(text, "markdown", NOTHING_REPEATED)
    assert uncovered(text, pieces) == ""
    assert [(piece.start, piece.end) for piece in pieces][:3] == [(0, 5), (5, 10), (10, 15)]


def test_spans_outside_the_text_and_texts_written_anew_are_refused(here):
    cutter = ChunkOptions(splitter=f"{here}:upper").cutter
    with pytest.raises(DedupError, match=r"gave the span \(0, 5\) of a text with 4 characters"):
        cutter.cut("Text", "markdown", NOTHING_REPEATED)

    class Rewriting:
        def split_text(self, text):
            return [text.upper()]

    with pytest.raises(DedupError, match="'TEXT', which is no part of the text"):
        of_framework(Rewriting())("text")


@pytest.mark.parametrize("name", ["no_such_module:x", "json:nothing", "json:JSONEncoder", "sys:path"])
def test_a_splitter_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match=name):
        load(name)
    with pytest.raises(ConfigError, match="DEDUP_CHUNKS: splitter"):
        _ = ChunkOptions(splitter=name).cutter


@given(
    st.text(WELL_FORMED, max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=9)
)
def test_checked_spans_cover_the_text_whatever_was_given(text, given_spans):
    spans = [(start, min(start + length, len(text))) for start, length in given_spans if start < len(text)]
    found = checked(text, spans)
    left = list(text)
    for start, end in found:
        assert 0 <= start < end <= len(text)
        left[start:end] = " " * (end - start)
    assert "".join(left).strip() == ""
    assert found == sorted(found)


def test_the_cut_of_a_known_text_has_not_changed():
    text = "# Title\n\n" + "\n\n".join(f"Paragraph {number} of the known text. " * 12 for number in range(9))
    pieces = ChunkOptions(size=400).cutter.cut(text, "markdown", NOTHING_REPEATED)
    digest = hashlib.sha256(json.dumps(pieces).encode()).hexdigest()
    assert (len(pieces), digest[:16]) == (9, "15cc75c5928c893f")
