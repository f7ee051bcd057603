"""Pages become observations without code, and a spider can say more about its own pages."""

from __future__ import annotations

import pytest

from .server import Reply, mark, page

SPIDER = '''
import datetime as dt
import scrapy
from scrapy_dedup import PageItem

class After:
    """A pipeline of the user behind that of the suite."""

    def __init__(self):
        self.pages = []

    @classmethod
    def from_crawler(cls, crawler):
        pipeline = cls()
        crawler.after = pipeline
        return pipeline

    def process_item(self, item):
        self.pages.append({
            "url": getattr(item, "url", None), "class": type(item).__name__,
            "observation_id": item.observation.observation_id if item.observation else None,
            "text": item.body.text if item.body else None,
            "action": item.action, "is_new": item.body_is_new,
        })
        return item

class Pages(scrapy.Spider):
    name = "pages"
    handle_httpstatus_list = [404]

    def __init__(self, base, targets, **kwargs):
        super().__init__(**kwargs)
        self.base, self.targets, self.seen = base, targets, []

    async def start(self):
        for target in self.targets:
            yield scrapy.Request(self.base + target)

    def parse(self, response):
        self.seen.append({"url": response.url, "marks": []})
        name = response.url.rpartition("/")[2]
        if name == "item":
            yield PageItem.from_response(response, price=3, when=dt.date(2026, 1, 2), tags={"a"})
        elif name == "again":
            yield PageItem.from_response(response)
        elif name == "declared_invalid":
            yield PageItem.from_response(response, content_valid=False, validity_reason="parked domain")
        elif name == "text_met":
            yield PageItem.from_response(response, expect={"text": "The record"})
        elif name == "text_unmet":
            yield PageItem.from_response(response, expect={"text": "no such words"})
        elif name == "css_met":
            yield PageItem.from_response(response, expect={"css": "article h1"})
        elif name == "css_unmet":
            yield PageItem.from_response(response, expect={"css": "div.price"})
        elif name == "raises":
            raise ValueError("a bug of the spider")
        elif name == "raises_late":
            yield PageItem.from_response(response, price=4)
            raise ValueError("a bug of the spider")
        elif name == "raises_before":
            yield scrapy.Request(self.base + "/followed")
            raise ValueError("a bug of the spider")

    def closed(self, reason):
        self.failures = self.crawler.after.pages
'''
HTML = ("auto", "item", "again", "text_met", "css_met", "raises", "raises_late", "raises_before", "followed")
INVALID = ("declared_invalid", "text_unmet", "css_unmet")
TYPES = {
    "a.pdf": "application/pdf",
    "b.json": "application/json",
    "c.png": "image/png",
    "d.txt": "text/plain",
    "e.bin": "application/octet-stream",
    "f.xml": "application/xml",
}
EMPTY = {
    "empty_body": b"",
    "empty_html": b"<!doctype html><html><head><title>Shell</title></head><body><div id=root></div></body>",
}

ROUTES = {
    **{f"/{name}": page(name if name != "again" else "item") for name in (*HTML, *INVALID)},
    **{f"/{name}": Reply(b"%binary\x00\x01", 200, kind) for name, kind in TYPES.items()},
    **{f"/{name}": body for name, body in EMPTY.items()},
    "/shown_404": Reply(page("shown 404"), 404),
}


@pytest.fixture(scope="module")
def pages(serve, crawl):
    server = serve(ROUTES)
    targets = [target for target in ROUTES if target != "/followed"]
    settings = {"ITEM_PIPELINES": {"spider_of_the_test.After": 900}, "CONCURRENT_REQUESTS": 1}
    return crawl(SPIDER, base=server.base, targets=targets, settings=settings)


@pytest.mark.parametrize("name", [*HTML, *INVALID, *TYPES, *EMPTY, "shown_404"])
def test_each_response_of_a_callback_is_one_observation(pages, name):
    (row,) = pages.ledger.at(f"/{name}")

    assert row.url_key
    assert row.policy_id.startswith("standard")
    assert row.payload_bytes is not None


@pytest.mark.parametrize("name", [name for name in HTML if name != "again"])
def test_a_valid_page_has_a_body_and_is_kept(pages, name):
    (row,) = pages.ledger.at(f"/{name}")

    assert (row.outcome, row.validity, row.action, row.reason) == ("fetched", "valid", "keep", "new_text")
    assert len(pages.ledger.bodies_of(name)) == 1


def test_the_same_text_at_another_url_is_reused(pages):
    (first,), (second,) = pages.ledger.at("/item"), pages.ledger.at("/again")

    assert (second.action, second.reason, second.body_id) == ("reuse", "text_equal", first.body_id)


def test_the_fields_of_a_page_item_are_kept_as_json(pages):
    (row,) = pages.ledger.at("/item")

    assert row.extra == {"price": 3, "when": "2026-01-02", "tags": ["a"]}


def test_later_pipelines_read_what_became_of_the_page(pages):
    seen = {record["url"].rpartition("/")[2]: record for record in pages.failures}

    assert seen["item"]["action"] == "keep"
    assert seen["item"]["is_new"] is True
    assert mark("item") in seen["item"]["text"]
    assert seen["item"]["observation_id"] == pages.ledger.at("/item")[0].observation_id
    assert (seen["again"]["action"], seen["again"]["is_new"]) == ("reuse", False)
    assert mark("item") in seen["again"]["text"]
    assert (seen["css_unmet"]["action"], seen["css_unmet"]["text"]) == ("review", None)


def test_automatic_pages_never_reach_the_pipelines_of_the_user(pages):
    assert {record["class"] for record in pages.failures} == {"PageItem"}
    yielded = {
        "item",
        "again",
        "declared_invalid",
        "text_met",
        "text_unmet",
        "css_met",
        "css_unmet",
        "raises_late",
    }
    assert {record["url"].rpartition("/")[2] for record in pages.failures} == yielded
    assert pages.dump["item_errors"] == []


@pytest.mark.parametrize("name", ["text_unmet", "css_unmet"])
def test_an_unmet_expectation_is_unexpected_content(pages, name):
    (row,) = pages.ledger.at(f"/{name}")

    assert (row.validity, row.action, row.reason) == ("unexpected_content", "review", "content_invalid")
    assert row.body_id is None
    assert row.validity_reason


def test_a_page_that_the_spider_declares_invalid_has_no_body(pages):
    (row,) = pages.ledger.at("/declared_invalid")

    assert row.validity == "unexpected_content"
    assert "parked domain" in row.validity_reason
    assert (row.action, row.reason, row.body_id) == ("review", "content_invalid", None)


@pytest.mark.parametrize("name", TYPES)
def test_what_is_no_html_is_an_unsupported_type(pages, name):
    (row,) = pages.ledger.at(f"/{name}")

    assert (row.outcome, row.validity, row.body_id) == ("fetched", "unsupported_type", None)
    assert (row.action, row.reason) == ("review", "content_invalid")
    assert row.content_type.startswith(TYPES[name])
    assert row.payload_bytes > 0


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_page_has_no_content_identity(pages, name):
    (row,) = pages.ledger.at(f"/{name}")

    assert (row.validity, row.body_id, row.action, row.reason) == ("empty", None, "review", "content_invalid")


def test_an_error_page_shown_to_the_spider_is_no_evidence(pages):
    (row,) = pages.ledger.at("/shown_404")

    assert (row.outcome, row.validity, row.http_status, row.body_id) == ("gone", "http_error", 404, None)
    assert pages.ledger.bodies_of("shown 404") == []


def test_a_callback_that_raises_is_still_reported(pages):
    assert sorted(pages.dump["spider_errors"]) == sorted(
        [call["url"], "ValueError"] for call in pages.callbacks if "/raises" in call["url"]
    )


def test_the_fields_of_a_page_whose_callback_raises_later_are_kept(pages):
    (row,) = pages.ledger.at("/raises_late")

    assert row.extra == {"price": 4}


def test_the_feeds_agree_with_the_ledger(pages):
    from scrapy_dedup.records import to_dict

    ledger = pages.ledger
    by_id = {record["observation_id"]: record for record in pages.feed("observation")}
    assert by_id == {row.observation_id: to_dict(row) for row in ledger.observations}
    bodies = {record["body_id"]: record for record in pages.feed("body")}
    assert bodies == {body.body_id: to_dict(body) for body in ledger.bodies}


def test_the_sequence_of_observations_has_no_gap(pages):
    numbers = [row.seq for row in pages.ledger.observations]

    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_the_job_names_its_spider_and_ends_with_the_reason_of_the_crawl(pages):
    (job,) = pages.ledger.jobs

    assert (job.spider, job.corpus, job.outcome) == ("pages", "default", "finished")
    assert job.started_at.endswith("Z")
    assert job.finished_at >= job.started_at


@pytest.mark.parametrize(
    ("stat", "number"),
    [
        ("dedup/pages/items", 8),
        ("dedup/pages/validity/empty", len(EMPTY)),
        ("dedup/pages/validity/unsupported_type", len(TYPES)),
        ("dedup/pages/validity/unexpected_content", len(INVALID)),
        ("dedup/pages/reason/text_equal", 1),
        ("dedup/bodies/new", len(HTML) - 1),
    ],
)
def test_the_stats_count_what_is_in_the_ledger(pages, stat, number):
    assert pages.stats[stat] == number


def test_extractions_are_counted_once_for_equal_payloads(pages):
    html_payloads = len(HTML) - 1 + len(INVALID)  # /again repeats the payload of /item
    others = len([*EMPTY, "shown_404"])  # of these, some need no extraction

    assert html_payloads <= pages.stats["dedup/extract/extractions"] <= html_payloads + others
    assert pages.stats["dedup/extract/cache_hits"] >= 1
