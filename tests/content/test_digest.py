"""Digests and the normal form."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.content import is_well_formed, normalized, normalized_digest, sha256_id, text_digest

WELL_FORMED = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture
def reference():
    cases = os.environ.get("SCRAPY_DEDUP_CASES")
    if not cases:
        pytest.skip("SCRAPY_DEDUP_CASES is not set")
    return json.loads(Path(cases, "reference-vectors.json").read_text("utf-8"))


def test_normalized_digest_is_the_reference_content_hash(reference):
    for text, expected in reference["content_hash"].items():
        assert normalized_digest(text) == f"sha256:{expected}", text


def test_text_digest_is_the_reference_exact_digest(reference):
    for text, expected in reference["exact_sha256"].items():
        assert text_digest(text) == f"sha256:{expected}", text


def test_the_digest_of_the_example_page(reference):
    probe = reference["s4_live_probe"]
    assert text_digest(probe["markdown"]) == f"sha256:{probe['sha256']}"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("a b", "A\u00a0\n\tb ", True, id="case and white space"),
        pytest.param("caf\u00e9", "cafe\u0301", True, id="composition"),
        pytest.param("version 1.2", "version 1.3", False, id="a digit"),
        pytest.param("-5 degrees", "5 degrees", False, id="a sign"),
        pytest.param("10\u00b2", "102", False, id="a superscript"),
        pytest.param("open", "not open", False, id="a negation"),
        pytest.param("Stra\u00dfe", "STRASSE", False, id="sharp s is not folded"),
        pytest.param("a\u200bb", "ab", False, id="a zero-width space"),
    ],
)
def test_what_the_normal_form_unites(one, other, same):
    assert (normalized_digest(one) == normalized_digest(other)) is same


@given(WELL_FORMED)
def test_the_normal_form_has_single_spaces_and_no_ends(text):
    form = normalized(text)
    assert form == form.strip()
    assert "  " not in form
    assert "\u00a0" not in form


@given(WELL_FORMED)
def test_text_digest_hashes_the_string_untouched(text):
    assert (
        text_digest(text) == "sha256:" + hashlib.sha256(text.encode()).hexdigest() == sha256_id(text.encode())
    )


@given(st.text(), st.characters(categories=["Cs"]))
def test_a_lone_surrogate_is_not_well_formed(text, surrogate):
    assert not is_well_formed(text + surrogate)
    with pytest.raises(UnicodeEncodeError):
        text_digest(text + surrogate)


@pytest.mark.slow
def test_every_white_space_character_is_one_space():
    united = {chr(point) for point in range(0x3100) if normalized(f"a{chr(point) * 2}b") == "a b"}

    assert united == {chr(point) for point in range(0x110000) if re.fullmatch(r"\s", chr(point))}
