"""Every fault of an input is named with its place; nothing is made of an input with faults."""

from __future__ import annotations

import io
import json

import pytest

from scrapy_dedup.batch import sources
from scrapy_dedup.batch.plan import parse_bytes
from scrapy_dedup.batch.sources import JsonLines, Problems, bounded_lines
from scrapy_dedup.errors import DedupError, InputError

GOOD = b'{"id": "a", "text": "one two three"}\n'
FAULTS = {
    "no JSON": (b"{id: 1}\n", "no JSON"),
    "cut off": (b'{"id": "x", "te', "no JSON"),
    "a list": (b'["a", "b"]\n', "a JSON list; an object"),
    "no UTF-8": (b'{"id": "x", "text": "caf\xe9"}\n', "no UTF-8 at byte 24"),
    "no id": (b'{"text": "x"}\n', "'id' has to be"),
    "empty id": (b'{"id": "", "text": "x"}\n', "'id' has to be"),
    "id of a truth": (b'{"id": true, "text": "x"}\n', "'id' has to be"),
    "long id": (json.dumps({"id": "x" * 1_001, "text": ""}).encode(), "'id' has to be"),
    "id with half a character": (b'{"id": "\\ud800", "text": ""}\n', "'id' holds a lone surrogate"),
    "no text": (b'{"id": "x"}\n', "'text' has to be a text"),
    "null text": (b'{"id": "x", "text": null}\n', "'text' has to be a text"),
    "text with half a character": (b'{"id": "x", "text": "\\udfff"}\n', "'text' holds a lone surrogate"),
    "rank of words": (b'{"id": "x", "text": "", "rank": "first"}\n', "'rank' has to be a whole number"),
    "rank beyond numbers": (b'{"id": "x", "text": "", "rank": 1e300}\n', "'rank' has to be a whole number"),
    "depths": (b"[" * 200_000, "no JSON"),
}


def read(path):
    problems = Problems()
    return list(JsonLines.at(path).entries(problems)), problems


@pytest.mark.parametrize(("raw", "said"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_line_is_named_and_the_next_one_read(tmp_path, raw, said):
    path = tmp_path / "in.jsonl"
    path.write_bytes(GOOD + raw.removesuffix(b"\n") + b"\n" + GOOD)

    entries, problems = read(path)

    assert [(entry.id, entry.line) for entry in entries] == [("a", 1), ("a", 3)]
    assert problems.count == 1
    assert problems.listed[0].startswith(f"{path}, line 2: {said}")


def test_a_line_without_end_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 100)
    path = tmp_path / "in.jsonl"
    path.write_bytes(GOOD + b"x" * 1_000 + b"\n" + GOOD)

    entries, problems = read(path)

    assert [entry.line for entry in entries] == [1, 3]
    assert entries[1].offset == len(GOOD) + 1_001
    assert "longer than" in problems.listed[0]


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["no line end", "a line end"])
def test_lines_are_whole_up_to_a_bound_and_none_beyond_it(end):
    parts = [b"12345\n", b"123456\n", b"x" * 50 + b"\n", b"\n", b"1234" + end]
    found = list(bounded_lines(io.BytesIO(b"".join(parts)), 6))

    assert found == [(b"12345\n", 6), (None, 7), (None, 51), (b"\n", 1), (parts[-1], len(parts[-1]))]


def test_byte_order_mark_blank_lines_and_the_missing_last_line_end_are_no_faults(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD + b"\n  \r\n" + GOOD.strip())

    entries, problems = read(path)

    assert problems.count == 0
    source = JsonLines.at(path)
    assert [one["id"] for one in source.read([entry.offset for entry in entries])] == ["a", "a"]


def test_reading_goes_on_where_it_was_left(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(GOOD * 5)
    entries, _ = read(path)

    left = entries[2]
    rest = list(JsonLines.at(path).entries(Problems(), offset=left.end, line=left.line))

    assert rest == entries[3:]


def test_a_number_is_an_id_in_its_decimal_form(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": 7, "text": "x", "rank": null}\n', encoding="utf-8")

    assert [(entry.id, entry.rank) for entry in read(path)[0]] == [("7", 0)]


def test_a_file_that_changes_while_it_is_in_use_is_not_read(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(GOOD)
    source = JsonLines.at(path)
    path.write_bytes(GOOD * 2)

    with pytest.raises(DedupError, match="has changed while it was in use"):
        source.read([0])


def test_faults_of_all_lines_and_ids_that_come_twice_are_told_in_one_message(batch, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(b"nothing\n" for _ in range(30)) + GOOD + GOOD)
    with pytest.raises(InputError) as raised:
        batch(path)
    assert raised.value.count == 31
    assert len(raised.value.problems) == sources.MAX_PROBLEMS
    assert "and 11 more" in str(raised.value)

    ids = [b"a", b"b", b"c", b"d", b"d", b"c", b"b", b"a"]
    good = b"".join(GOOD.replace(b'"a"', b'"%s"' % one) for one in ids)
    again = [
        f"{path}, line {9 - first}: its id stands in {path}, line {first} already" for first in (4, 3, 2, 1)
    ]
    for lines, problems in (
        (good, again),
        (
            good + b"nothing\n",
            [f"{path}, line 9: no JSON (Expecting value: line 1 column 1 (char 0))", *again],
        ),
    ):
        path.write_bytes(lines)
        with pytest.raises(InputError) as raised:
            batch(path)
        assert list(raised.value.problems) == problems


SIZES = {
    "4GB": 4_000_000_000,
    "1.5 gb": 1_500_000_000,
    "64MiB": 2**26,
    "99000KB": 99_000_000,
    "50000000": 50_000_000,
}


@pytest.mark.parametrize(("text", "size"), SIZES.items(), ids=SIZES)
def test_sizes_of_memory(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "4XB", "-1GB", "lots", "1e9"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is no size"):
        parse_bytes(text)


def test_too_little_memory_is_refused():
    with pytest.raises(ValueError, match="at least 32 MB"):
        parse_bytes("31MB")
