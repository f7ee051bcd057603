"""Every reported fault in COMPLAINTS.md names tests that exist, or says what is not built yet."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in Path(__file__).with_name("COMPLAINTS.md").read_text("utf-8").splitlines()
    if re.match(r"\| \d", line)
]


@functools.cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the test functions in a file, given from the root of the project."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_fault_is_covered_by_tests_that_exist_or_by_nothing_built_yet(row):
    _, _, _, covered = row
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", covered)

    assert covered.count("`tests/") == len(named)
    assert [f"{file}::{test}" for file, test in named if test not in names_in(file)] == []
    assert named or "not built yet: " in covered


def test_each_fault_is_listed_once_and_in_order():
    numbers = [int(row[0]) for row in ROWS]
    assert numbers
    assert numbers == sorted(set(numbers))
