"""The table of phrases, and how a text is compared with it."""

# ruff: noqa: RUF001  phrases of any script

from __future__ import annotations

import importlib.resources
import itertools

import pytest

from scrapy_dedup.content.phrases import kinds_of_start, kinds_of_title, kinds_of_whole, normal, phrases
from scrapy_dedup.content.validity import PHRASE_ROWS
from scrapy_dedup.near.shingles import is_unspaced
from scrapy_dedup.urls import toml

TABLE = toml.loads(
    importlib.resources.files("scrapy_dedup.content").joinpath("phrases.toml").read_text("utf-8")
)
LANGUAGES = {"en", "de", "fr", "es", "pt", "it", "ja", "zh", "ru"}
WITHOUT_LANGUAGE = {"accept", "default_page", "server_page", "loading", "needs_scripts"}


@pytest.mark.parametrize("kind", sorted(set(TABLE) - WITHOUT_LANGUAGE))
def test_every_kind_is_known_in_every_language(kind):
    assert set(TABLE[kind]) == LANGUAGES
    assert all(any(ways.values()) for ways in TABLE[kind].values())


def test_every_kind_has_a_rule():
    ruled = {row.kind for row in PHRASE_ROWS}

    assert ruled <= set(TABLE)
    assert set(TABLE) - ruled == {
        "login_form",
        "cookie_wall",
        "accept",
        "loading",
        "needs_scripts",
        "server_page",
    }


def test_no_phrase_stands_twice_and_none_is_empty():
    for kind, table in TABLE.items():
        tables = [table] if kind in WITHOUT_LANGUAGE else table.values()
        for ways in tables:
            for phrases_of in ways.values():
                said = [normal(phrase) for phrase in phrases_of]
                assert all(said)
                assert len(set(said)) == len(said), (kind, [one for one in said if said.count(one) > 1])


def test_what_opens_a_text_is_longer_than_a_word_that_opens_many():
    short = [
        row
        for row in itertools.chain(*phrases().opens.values())
        if row.kind != "accept"
        and len(row.start + row.later) < (4 if any(map(is_unspaced, row.start)) else 10)
    ]

    assert short == []


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("404", {"soft_404"}),
        ("Error 404", {"soft_404"}),
        ("４０４　エラー", {"soft_404"}),
        ("Birch | Seite nicht gefunden", {"soft_404"}),
        ("PAGE   NOT FOUND!", {"soft_404"}),
        ("Error 500", {"error_template"}),
        ("500", set()),
        ("Error", set()),
        ("", set()),
        ("Incident: page not found", set()),
        ("How to fix a page not found", set()),
        ("Access denied for good reasons", set()),
    ],
)
def test_titles(title, expected):
    assert kinds_of_title(title) == expected


def test_a_phrase_ends_where_a_word_ends():
    assert kinds_of_start("You must be 18 to enter") == {"age_gate"}
    assert kinds_of_start("You must be 180 cm tall to enter") == set()
    assert kinds_of_start("You must be 18 to buy wine") == set()
    assert kinds_of_start("お探しのページはありません") == {"soft_404"}
    assert kinds_of_whole("Loading…") == {"loading"}
    assert kinds_of_whole("Loading dock") == set()
