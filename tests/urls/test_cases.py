"""The table of URL pairs in ``cases.json``: it is the specification of both presets, row by row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrapy_dedup.urls import UrlPolicy

CASES = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['preset']}: {case['description']}")
def test_two_urls_share_a_key_or_do_not(case):
    for preset in ("standard", "conservative") if case["preset"] == "both" else (case["preset"],):
        policy = UrlPolicy.preset(preset, case.get("hosts"))
        first, second = policy.decide(case["a"]), policy.decide(case["b"])
        assert (first.key == second.key) == case["same"], (preset, first.key, second.key)


def test_descriptions_are_distinct():
    assert len({(case["preset"], case["description"]) for case in CASES}) == len(CASES)
