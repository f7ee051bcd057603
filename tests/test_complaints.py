"""The table of public complaints names tests that exist, and leaves no complaint without a word."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = Path(__file__).with_name("COMPLAINTS.md").read_text("utf-8").splitlines()
ROW = re.compile(r"\| (\d+) \| (.+?) \| (.+) \|")
ROWS = [match.groups() for match in map(ROW.fullmatch, LINES) if match]
TEST = re.compile(r"`(tests/[\w/]+\.py::\w+)`")
TESTS = sorted({name for _, _, said in ROWS for name in TEST.findall(said)})
UNBUILT = re.compile(r"not built yet: (?:trap budgets|learning of rules|import of jobs|chunks)\b")
REASON = re.compile(rf"{UNBUILT.pattern}|does not apply: \w+")


def test_no_row_is_missed_by_its_form():
    heads = ("|---", "| No.")
    assert len(ROWS) == sum(line.startswith("|") and not line.startswith(heads) for line in LINES)
    numbers = [int(number) for number, _, _ in ROWS]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("name", TESTS)
def test_a_named_test_exists(name):
    path, _, function = name.partition("::")
    assert re.search(rf"^(async )?def {function}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("number", "symptom", "said"), ROWS, ids=[number for number, _, _ in ROWS])
def test_a_complaint_has_a_test_or_a_reason(number, symptom, said):
    assert 5 <= len(symptom.split()) <= 10, number
    assert TEST.search(said) or REASON.search(said)
    assert said.count("::") == len(TEST.findall(said))
    assert said.count("not built yet") == len(UNBUILT.findall(said))


def test_every_collected_complaint_has_a_row():
    cases = os.environ.get("SCRAPY_DEDUP_CASES")
    if not cases:
        pytest.skip("SCRAPY_DEDUP_CASES is not set")
    collected = re.findall(r"^(\d+)\. ", Path(cases, "crawl-complaints.md").read_text("utf-8"), re.MULTILINE)
    assert [number for number, _, _ in ROWS] == collected
