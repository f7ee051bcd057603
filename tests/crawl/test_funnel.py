"""The funnel and the table of stats."""

from __future__ import annotations

from scrapy_dedup.crawl import stats
from scrapy_dedup.crawl.funnel import funnel

CRAWL = {
    "dedup/requests/seen": 20_000,
    "dedup/requests/merged": 18_000,
    "dedup/requests/denied": 1_500,
    "dedup/requests/fresh": 100,
    "dedup/pages/fetched": 400,
    "dedup/pages/validity/valid": 380,
    "dedup/payloads/distinct": 342,
    "dedup/bodies/distinct": 300,
    "dedup/bodies/new": 60,
    "dedup/near/texts": 12,
    "dedup/near/suppressed": 3,
    "dedup/aliases/kept": 19_000,
}


def test_each_layer_is_a_line_with_its_saving():
    assert funnel(CRAWL).splitlines() == [
        "requests seen        20,000",
        "  merged by key      18,000   90.0 % of requests seen",
        "  denied              1,500    7.5 % of requests seen",
        "  fresh                 100    0.5 % of requests seen",
        "pages fetched           400   98.0 % less than requests seen",
        "  not modified            0    0.0 % of requests seen",
        "valid pages             380    5.0 % less than pages fetched",
        "distinct payloads       342   10.0 % less than valid pages",
        "distinct bodies         300   12.3 % less than distinct payloads",
        "  new bodies             60   20.0 % of distinct bodies",
        "  near texts             12   20.0 % of new bodies",
        "  suppressed              3    5.0 % of new bodies",
        "aliases kept         19,000",
    ]


def test_a_crawl_that_saw_nothing_has_no_percentages():
    assert "%" not in funnel({})
    assert len(funnel({}).splitlines()) == 13


def test_pages_that_are_not_modified_are_valid_without_being_fetched():
    crawl = {"dedup/requests/seen": 9, "dedup/pages/not_modified": 3, "dedup/pages/validity/valid": 4}

    none_fetched, two_fetched = funnel(crawl), funnel({**crawl, "dedup/pages/fetched": 2})

    assert "not modified            3   33.3 % of requests seen" in none_fetched
    assert "33.3 % more than not modified" in none_fetched
    assert "20.0 % less than pages fetched and not modified" in two_fetched


def test_redirects_may_fetch_more_than_was_requested():
    assert "100.0 % more than requests seen" in funnel({"dedup/requests/seen": 1, "dedup/pages/fetched": 2})


def test_every_stat_of_the_module_has_a_meaning():
    names = {value for name, value in vars(stats).items() if name.isupper() and name != "STATS"}
    assert names == set(stats.STATS)
    assert all(name.startswith("dedup/") for name in names)
    assert all(meaning.endswith(".") for meaning in stats.STATS.values())
