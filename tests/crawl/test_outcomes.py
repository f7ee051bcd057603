"""Answers that are neither page nor failure, pages that nobody records, wrong settings of two kinds."""

from __future__ import annotations

import pytest
from scrapy import Spider
from scrapy.utils.test import get_crawler

from scrapy_dedup.errors import ConfigError
from scrapy_dedup.records import Action, Outcome

from .conftest import ADDONS
from .server import NOT_FOUND, Reply, page


@pytest.fixture(scope="module")
def unchanged(serve, crawl):
    server = serve({"/": Reply(b"", 304)})
    return crawl(start=[f"{server.base}/"])


def test_an_unchanged_page_is_no_error(unchanged):
    (observation,) = unchanged.ledger.at("/")

    assert observation.outcome is Outcome.NOT_MODIFIED
    assert (observation.validity, observation.action, observation.body_id) == (None, Action.NONE, None)


@pytest.fixture(scope="module")
def unrecorded(serve, crawl):
    server = serve(
        {"/": page("index", ["/foo/", "/foo", "/on"]), "/foo/": NOT_FOUND, "/foo": page("foo", ["/on"])}
        | {"/on": page("on", ["/foo", "/foo/", "/foo?"])}
    )
    return crawl(start=[f"{server.base}/"], settings={"DEDUP_AUTO_PAGES": False})


def test_variants_get_their_turn_once_where_pages_are_not_recorded(unrecorded):
    assert unrecorded.stats["dedup/variants/requested"] == 1
    assert unrecorded.dump["reason"] == "finished"


def test_settings_and_ledger_are_told_in_one_message(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = {"DEDUP_WORKERS": -1, "DEDUP_LEDGER": f"sqlite:///{tmp_path}"}

    with pytest.raises(ConfigError, match=r"(?s)DEDUP_WORKERS.*" + tmp_path.name):
        get_crawler(Spider, {"ADDONS": ADDONS, **wrong})
