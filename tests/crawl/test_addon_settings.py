"""What the add-on sets up, and that it leaves what the user set."""

from __future__ import annotations

import gc
import weakref

import pytest
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from .conftest import ADDONS


class ByHeader:
    """A fingerprinter of the user."""

    def fingerprint(self, request):
        return request.url.encode() + b" " + request.headers.get("X-Account", b"")


@pytest.fixture
def crawler(tmp_path, monkeypatch):
    """Return a function that makes a crawler with the add-on, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda **settings: get_crawler(Spider, {"ADDONS": ADDONS, **settings})


def components(crawler, setting):
    from scrapy.utils.misc import load_object

    return [
        load_object(entry)
        for entry in crawler.settings.get_component_priority_dict_with_base(setting)
        if load_object(entry).__module__.startswith("scrapy_dedup")
    ]


@pytest.mark.parametrize(
    ("setting", "number"),
    [("SPIDER_MIDDLEWARES", 3), ("DOWNLOADER_MIDDLEWARES", 2), ("ITEM_PIPELINES", 1), ("EXTENSIONS", 1)],
)
def test_it_enables_its_components(crawler, setting, number):
    assert len(components(crawler(), setting)) == number
    assert components(crawler(DEDUP_ENABLED=False), setting) == []


def test_its_exporters_are_registered_even_when_it_is_off(crawler):
    for enabled in (True, False):
        exporters = crawler(DEDUP_ENABLED=enabled).settings["FEED_EXPORTERS"]
        assert {"observations", "bodies"} <= set(exporters)


def test_an_exporter_of_the_user_under_the_same_name_wins(crawler):
    mine = "scrapy.exporters.JsonLinesItemExporter"

    made = crawler(FEED_EXPORTERS={"bodies": mine})

    assert made.settings["FEED_EXPORTERS"]["bodies"] == mine
    assert "observations" in made.settings["FEED_EXPORTERS"]


def test_two_feeds_are_added_beside_those_of_the_user(crawler):
    made = crawler(FEEDS={"own.csv": {"format": "csv"}})

    feeds = made.settings.getdict("FEEDS")
    assert sorted(options["format"] for options in feeds.values()) == ["bodies", "csv", "observations"]
    assert all(uri == "own.csv" or uri.startswith("dedup/") for uri in feeds)


@pytest.mark.parametrize("held", ["observations", "bodies"])
def test_no_feed_is_added_when_the_user_asks_for_one_of_ours(crawler, held):
    feeds = crawler(FEEDS={"s3://bucket/x.jsonl": {"format": held}}).settings.getdict("FEEDS")

    assert list(feeds) == ["s3://bucket/x.jsonl"]


def test_the_dupefilter_and_the_scheduler_stay_those_of_the_user(crawler):
    plain = Settings()

    made = crawler().settings

    for name in ("DUPEFILTER_CLASS", "SCHEDULER", "DOWNLOADER", "HTTPCACHE_STORAGE", "ITEM_PROCESSOR"):
        assert made.get(name) == plain.get(name)


SAME = {
    "tracking": ("http://a.test/x?utm_source=y&b=1", "http://a.test/x?b=1"),
    "order of names": ("http://a.test/x?b=1&a=2", "http://a.test/x?a=2&b=1"),
    "host case": ("http://A.test/x", "http://a.test/x"),
    "default port": ("http://a.test:80/x", "http://a.test/x"),
    "slash": ("http://a.test/x/", "http://a.test/x"),
    "fragment": ("http://a.test/x#top", "http://a.test/x"),
    "tilde": ("http://a.test/%7Ex", "http://a.test/~x"),
}
DIFFERENT = {
    "order of equal names": ("http://a.test/x?a=1&a=2", "http://a.test/x?a=2&a=1"),
    "bare name": ("http://a.test/x?wsdl", "http://a.test/x?wsdl="),
    "path case": ("http://a.test/x", "http://a.test/X"),
    "host": ("http://a.test/x", "http://b.test/x"),
    "hash bang": ("http://a.test/#!/a", "http://a.test/#!/b"),
    "hash route": ("http://a.test/#/item/1", "http://a.test/#/item/2"),
    "scheme": ("http://a.test/x", "https://a.test/x"),
    "page": ("http://a.test/x?page=1", "http://a.test/x?page=2"),
}


def fingerprints(crawler, first, second, **kwargs):
    fingerprinter = crawler.request_fingerprinter
    return [fingerprinter.fingerprint(Request(url, **kwargs)) for url in (first, second)]


@pytest.mark.parametrize("name", SAME)
def test_requests_for_one_key_have_one_fingerprint(crawler, name):
    first, second = fingerprints(crawler(), *SAME[name])

    assert first == second
    assert isinstance(first, bytes)


@pytest.mark.parametrize("name", DIFFERENT)
def test_requests_for_different_keys_have_different_fingerprints(crawler, name):
    first, second = fingerprints(crawler(), *DIFFERENT[name])

    assert first != second


def test_method_and_body_are_part_of_the_fingerprint(crawler):
    fingerprinter = crawler().request_fingerprinter

    requests = [
        Request("http://a.test/foo"),
        Request("http://a.test/foo", method="POST"),
        Request("http://a.test/foo", method="POST", body=b"o"),
        Request("http://a.test/fo", method="POST", body=b"o"),
        Request("http://a.test/fo", method="POST", body=b"oo"),
    ]
    assert len({fingerprinter.fingerprint(request) for request in requests}) == len(requests)


def test_a_key_is_not_inherited_by_a_request_that_was_replaced(crawler):
    fingerprinter = crawler().request_fingerprinter
    request = Request("http://a.test/a")
    before = fingerprinter.fingerprint(request)

    replaced = request.replace(url="http://a.test/b")

    assert fingerprinter.fingerprint(replaced) != before
    assert fingerprinter.fingerprint(replaced) == fingerprinter.fingerprint(Request("http://a.test/b"))


def test_fingerprints_are_the_same_in_every_crawler(crawler):
    request = Request("http://a.test/x?b=1&a=2")

    assert crawler().request_fingerprinter.fingerprint(
        request
    ) == crawler().request_fingerprinter.fingerprint(Request("http://a.test/x?b=1&a=2"))


def test_the_fingerprinter_of_the_user_is_called_with_the_key(crawler):
    made = crawler(REQUEST_FINGERPRINTER_CLASS=ByHeader)

    first, second = fingerprints(made, "http://a.test/x?utm_source=y", "http://a.test/x")
    other = made.request_fingerprinter.fingerprint(Request("http://a.test/x", headers={"X-Account": "2"}))

    assert first == second
    assert other != first


def test_requests_with_the_suite_off_have_the_fingerprint_of_the_user(crawler):
    made = crawler(REQUEST_FINGERPRINTER_CLASS=ByHeader).request_fingerprinter
    url = "http://a.test/x?utm_source=y"

    for meta in ({"dedup": False}, {"verbatim_url": True}):
        assert made.fingerprint(Request(url, meta=meta)) == ByHeader().fingerprint(Request(url))


ODD = [
    "http://a.test/" + "a" * 5000,
    "ftp://a.test/x",
    "data:,x",
    "about:blank",
    "http://a.test/%zz",
    "http://:80/",
]


@pytest.mark.parametrize("url", ODD, ids=[url[:20] for url in ODD])
def test_every_url_has_a_fingerprint(crawler, url):
    assert crawler().request_fingerprinter.fingerprint(Request(url))


def test_making_a_crawler_creates_no_file(crawler, tmp_path):
    crawler()

    assert list(tmp_path.iterdir()) == []


def test_a_crawler_that_nobody_needs_any_more_is_freed(crawler):
    gone = weakref.ref(crawler())
    gc.collect()
    assert gone() is None
