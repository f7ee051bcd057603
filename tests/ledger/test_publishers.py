"""A text that several publishers show is one body, and whether they are independent is unresolved."""

from __future__ import annotations

import pytest

from scrapy_dedup.ledger import publishers
from scrapy_dedup.records import Sourced

SITE, MIRROR = "http://daily.example/a", "http://mirror.example/a"


def by(domain):
    return Sourced(domain, "url:registrable_domain")


@pytest.fixture
def crawled(crawl):
    """Make two jobs: one text on two sites, one on two pages of a site, and one without a publisher."""
    one = crawl()
    first = one.see("Syndicated", SITE, publisher=by("daily.example"))
    one.see("Own", SITE + "/2", publisher=by("daily.example"))
    one.see("Own", SITE + "/3", publisher=by("daily.example"))
    one.see("Unknown", SITE + "/4", publisher=None)
    one.see("Unknown", SITE + "/5", publisher=by("daily.example"))
    copy = crawl("job-2").see("Syndicated", MIRROR, publisher=by("mirror.example"))
    return first, copy


def test_it_is_said_of_every_observation_of_the_text(crawled, read):
    seen = {row.url: row.independence for row in read().observations()}
    assert seen == {SITE: "unresolved", MIRROR: "unresolved"} | dict.fromkeys(
        (f"{SITE}/{number}" for number in (2, 3, 4, 5)), None
    )
    assert [row.independence for row in read().observations(job_id="job-1")][:2] == ["unresolved", None]
    assert len({row.body_id for row in read().observations() if row.independence}) == 1


def test_it_is_not_stored_nor_said_while_a_crawl_records(crawled, read):
    first, copy = crawled
    assert (first.observation.independence, copy.observation.independence) == (None, None)
    assert copy.observation.action.value == "reuse"
    assert not copy.body_is_new
    assert len(list(read().bodies())) == 3


def test_a_lookup_says_it_of_all_who_share_the_text(crawl, crawled, read):
    found = read().lookup(SITE)
    assert [row.independence for row in found.observations] == ["unresolved"]
    assert [(row.publisher.value, row.independence) for row in found.same_text] == [
        ("daily.example", "unresolved"),
        ("mirror.example", "unresolved"),
    ]


def test_many_texts_are_asked_about_in_parts_and_again_once_forgotten(crawled, read, monkeypatch):
    monkeypatch.setattr(publishers, "MAX_BODIES", 1)
    monkeypatch.setattr(publishers, "MAX_REMEMBERED", 1)
    ledger = read()
    for _ in range(3):
        found = [row.url for row in ledger.observations() if row.independence]
        assert found == [SITE, MIRROR]
