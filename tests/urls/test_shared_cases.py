"""Pairs, vectors and conformance data that stand outside the project; skipped where they are not at hand."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest

from scrapy_dedup.urls import UrlPolicy

POLICIES = {name: UrlPolicy.preset(name) for name in ("standard", "conservative")}

# What a rule of ours can merge where a preset must not: the policy rows of the pairs, by their category.
RULES = {
    "tracking": {"example.com": {"drop": ["utm_source", "utm_medium", "pk_campaign", "pk_kwd"]}},
    "tracking-pct": {"example.com": {"drop": ["utm_source"]}},
    "tracking-order": {"example.com": {"drop": ["utm_source"], "fragment": "drop"}},
    "frag": {"example.com": {"fragment": "drop"}},
    "frag-route": {"example.com": {"fragment": "drop"}},
    "sess-query": {"example.com": {"drop": ["PHPSESSID", "sid"]}},
    "https": {"example.com": {"scheme_alias": True}},
    "allow": {"shop.example.com": {"allow": ["id"]}},
}


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def same_key(policy: UrlPolicy, row: dict) -> bool:
    return policy.decide(row["a"]).key == policy.decide(row["b"]).key


def test_every_pair_is_judged_right_under_both_presets(cases_folder):
    judged = [
        (mode, row)
        for row in rows(cases_folder / "url-pairs.jsonl")
        for mode in (POLICIES if row["mode"] == "both" else [row["mode"]])
    ]
    assert judged
    assert not [(mode, row) for mode, row in judged if same_key(POLICIES[mode], row) != (row["same"] is True)]


def test_a_rule_merges_the_policy_pairs_that_a_rule_kind_is_for(cases_folder):
    merged = set()
    for row in rows(cases_folder / "url-pairs.jsonl"):
        if row["same"] != "policy" or row["cat"] not in RULES:
            continue
        for mode in POLICIES if row["mode"] == "both" else [row["mode"]]:
            assert same_key(UrlPolicy.preset(mode, RULES[row["cat"]]), row), (mode, row)
            merged.add(row["cat"])
    assert merged == set(RULES)


def test_reference_vectors_fall_into_the_same_classes(cases_folder):
    vectors = json.loads((cases_folder / "reference-vectors.json").read_text())
    ours, theirs = defaultdict(set), defaultdict(set)
    for url, output in vectors["normalize_url_output"].items():
        ours[POLICIES["standard"].decide(url).key].add(url)
        theirs[output].add(url)
    assert sorted(map(sorted, ours.values())) == sorted(map(sorted, theirs.values()))


def test_faults_of_the_reference_are_not_copied(cases_folder):
    vectors = json.loads((cases_folder / "reference-vectors.json").read_text())
    for url, fault in vectors["normalize_url_deviations (do not copy)"].items():
        assert POLICIES["standard"].decide(url).key != POLICIES["standard"].decide(fault).key, url


def web_platform_inputs(folder) -> tuple[dict[str, str], list[str]]:
    """Return the absolute http(s) inputs: valid ones with their serialisation, and those that fail."""
    valid, invalid = {}, []
    for row in json.loads((folder / "urls" / "urltestdata.json").read_text("utf-8")):
        if isinstance(row, str) or not re.match(
            r"[\0- ]*h\s*t\s*t\s*p\s*s?\s*:\s*[/\\]\s*[/\\]", row["input"], re.IGNORECASE
        ):
            continue
        if row.get("failure"):
            invalid.append(row["input"])
        else:
            valid[row["input"]] = row["href"]
    return valid, invalid


@pytest.mark.parametrize("name", POLICIES)
def test_web_platform_inputs_have_the_key_of_their_whatwg_form(name, corpus_folder):
    valid, _ = web_platform_inputs(corpus_folder)
    different = {
        text: href
        for text, href in valid.items()
        if POLICIES[name].decide(text).key != POLICIES[name].decide(href).key
    }
    assert len(valid) > 160
    assert not different


@pytest.mark.parametrize("name", POLICIES)
def test_invalid_web_platform_inputs_are_returned_as_they_are(name, corpus_folder):
    for text in web_platform_inputs(corpus_folder)[1]:
        decision = POLICIES[name].decide(text)
        assert decision.fetch_url == text


def test_inputs_of_other_suites_keep_the_key_of_their_key(corpus_folder):
    texts = [row["input"] for row in rows(corpus_folder / "urls" / "w3lib_pairs.jsonl")]
    texts += json.loads((corpus_folder / "urls" / "urlcanon" / "supplemental_whatwg.json").read_text("utf-8"))
    for text in texts:
        for policy in POLICIES.values():
            key = policy.decide(text).key
            assert policy.decide(key).key == key


def test_dot_segments_are_resolved_as_in_urlcanon(corpus_folder):
    cases = json.loads((corpus_folder / "urls" / "urlcanon" / "path_dots.json").read_text("utf-8"))["special"]
    conservative = POLICIES["conservative"]
    for path, expected in cases.items():
        assert conservative.decide(f"http://h{path}").key == conservative.decide(f"http://h{expected}").key, (
            path
        )
