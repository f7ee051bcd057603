"""A text gets the language that it is in, and none where that is not certain.

The cases are in ``languages.json``, each with a description.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.content.blocks import comparable
from scrapy_dedup.content.extract import extract
from scrapy_dedup.content.extraction import ExtractOptions, Payload
from scrapy_dedup.content.language import MIN_WORDS, language_of
from scrapy_dedup.near.shingles import size_in_words
from scrapy_dedup.records import Sourced

CASES = json.loads(Path(__file__).with_name("languages.json").read_text("utf-8"))
TAG = re.compile("[a-z]{2,3}")
TEXTS = {case["description"]: case["text"] for case in CASES}


def words_of(text):
    return int(size_in_words(comparable(text)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["description"])
def test_the_language_of_a_text(case):
    assert language_of(case["text"], words_of(case["text"])) == case["language"]


def test_the_cases_are_long_enough_to_say_something():
    assert len({case["language"] for case in CASES} - {None}) >= 20
    short = [case["description"] for case in CASES if words_of(case["text"]) < MIN_WORDS]
    assert short == ["too short"]


def test_every_language_is_a_tag():
    for case in CASES:
        assert case["language"] is None or TAG.fullmatch(case["language"])


@given(st.text(max_size=300), st.integers(0, 1000))
def test_any_text_is_answered(text, word_count):
    found = language_of(text, word_count)
    assert found is None or TAG.fullmatch(found)


@pytest.mark.parametrize("text", ["", " ", "\n" * 5000, "\u0301" * 500, "1 2 3 " * 2000])
def test_what_holds_no_words_has_no_language(text):
    assert language_of(text, 10_000) is None


def test_only_the_beginning_of_a_long_text_is_read():
    long = TEXTS["Portuguese"] * 3000
    start = time.process_time()
    assert language_of(long, 300_000) == "pt"
    assert time.process_time() - start < 0.25


def test_a_body_has_the_language_of_its_text_whatever_the_page_declares():
    paragraphs = "".join(f"<p>{sentence}.</p>" for sentence in TEXTS["German"].split(". "))
    page = f"<html lang=en-US><head><title>Fähre</title></head><body><article>{paragraphs}</article></body>"
    found = extract(Payload(page.encode(), "utf-8", "http://a.test/"), ExtractOptions())
    assert found.text.language == "de"
    assert found.metadata.language_declared == Sourced("en-US", "html:lang")
