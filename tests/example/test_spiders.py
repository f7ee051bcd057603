"""The spiders read their arguments and complain about all wrong ones at once."""

from __future__ import annotations

import pytest
from example.spiders.site import SiteSpider
from scrapy.crawler import Crawler


def test_site_stays_on_the_hosts_of_its_start_urls():
    spider = SiteSpider(start="https://b.example/x, http://a.example:8080/")
    assert spider.starts == ["https://b.example/x", "http://a.example:8080/"]
    assert spider.allowed_domains == ["a.example", "b.example"]


def test_site_takes_allowed_domains():
    assert SiteSpider(start="https://a.example/", allowed="a.example,b.example").allowed_domains == [
        "a.example",
        "b.example",
    ]


def test_site_hands_its_limits_to_scrapy():
    crawler = Crawler(SiteSpider, {})
    SiteSpider.from_crawler(crawler, start="https://a.example/", depth="2", pages="30")
    assert crawler.settings.getint("DEPTH_LIMIT") == 2
    assert crawler.settings.getint("CLOSESPIDER_PAGECOUNT") == 30


def test_site_names_every_wrong_argument():
    with pytest.raises(ValueError) as failure:
        SiteSpider(start="a.example", depth="deep", pages="-1")
    for name in ("start", "depth", "pages"):
        assert name in str(failure.value)


def test_site_needs_a_start():
    with pytest.raises(ValueError, match="start is missing"):
        SiteSpider()
