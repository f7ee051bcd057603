"""Each final failure is one observation without a body; what is no page of the crawl is none."""

from __future__ import annotations

import pytest

from .server import BROKEN, DROPPED, NOT_FOUND, Reply, free_port, page, redirect

# target: (outcome, status)
FAILURES = {
    "/404": ("gone", 404),
    "/410": ("gone", 410),
    "/403": ("error", 403),
    "/500": ("error", 500),
    "/503": ("error", 503),
    "/dropped": ("error", None),
    "/slow": ("error", None),
    "/moved_to_404": ("gone", 404),
}
HANDLED = {"/handled_404": ("gone", 404), "/handled_500": ("error", 500)}

ROUTES = {
    "/": page("index", ["/good", *FAILURES, "/secret/page"]),
    "/good": page("good"),
    "/404": NOT_FOUND,
    "/410": Reply(NOT_FOUND.body, 410),
    "/403": Reply(page("forbidden"), 403),
    "/500": BROKEN,
    "/503": Reply(b"busy", 503),
    "/dropped": DROPPED,
    "/slow": Reply(page("slow"), delay_s=3),
    "/moved_to_404": redirect("/nowhere"),
    "/handled_404": Reply(page("handled 404"), 404),
    "/handled_500": Reply(page("handled 500"), 500),
    "/secret/page": page("secret"),
    "/robots.txt": Reply(b"User-agent: *\nDisallow: /secret/\n", 200, "text/plain"),
}


@pytest.fixture(scope="module")
def failed(serve, crawl):
    server = serve(ROUTES)
    refused = f"http://127.0.0.1:{free_port()}/refused"
    starts = [
        f"{server.base}/",
        refused,
        [f"{server.base}/handled_404", {"handle_httpstatus_list": [404]}],
        [f"{server.base}/handled_500", {"handle_httpstatus_list": [500], "dont_retry": True}],
    ]
    settings = {"ROBOTSTXT_OBEY": True, "DOWNLOAD_TIMEOUT": 1, "RETRY_TIMES": 2}
    return crawl(start=starts, settings=settings), server, refused


@pytest.mark.parametrize("target", FAILURES)
def test_a_final_failure_is_one_observation_without_a_body(failed, target):
    result, server, _ = failed

    (row,) = [row for row in result.ledger.observations if row.request_url == server.base + target]

    assert (row.outcome, row.http_status) == FAILURES[target]
    assert (row.body_id, row.action, row.reason) == (None, "none", None)
    assert row.validity in (None, "http_error")
    assert row.referrer_url == f"{server.base}/"


def test_a_refused_connection_is_one_observation(failed):
    result, _, refused = failed

    (row,) = [row for row in result.ledger.observations if row.request_url == refused]

    assert (row.outcome, row.http_status, row.body_id, row.action) == ("error", None, None, "none")


@pytest.mark.parametrize("target", HANDLED)
def test_an_error_page_that_the_spider_handles_counts_once(failed, target):
    result, server, _ = failed

    (row,) = [row for row in result.ledger.observations if row.request_url == server.base + target]

    assert (row.outcome, row.http_status) == HANDLED[target]
    assert row.body_id is None
    assert [call["status"] for call in result.callbacks if call["url"].endswith(target)] == [row.http_status]


def test_the_errback_of_each_failure_is_called_once(failed):
    result, server, refused = failed

    called = sorted(failure["url"].removeprefix(server.base) for failure in result.failures)

    expected = {*FAILURES, "/nowhere", "/secret/page", refused} - {"/moved_to_404"}
    assert called == sorted(expected)


def test_robots_txt_and_what_it_forbids_are_no_pages(failed):
    result, _, _ = failed

    assert result.ledger.at("/robots.txt") == []
    assert result.ledger.bodies_of("secret") == []


def test_the_failures_are_in_the_feed_of_observations(failed):
    result, server, refused = failed

    urls = {record["request_url"] for record in result.feed("observation") if record["outcome"] != "fetched"}

    assert {server.base + target for target in (*FAILURES, *HANDLED)} | {refused} <= urls


def test_the_pages_beside_the_failures_are_all_there(failed):
    result, _, _ = failed

    assert len(result.ledger.bodies_of("good")) == 1
    assert result.dump["reason"] == "finished"


def test_failures_are_counted(failed):
    result, _, _ = failed

    assert result.stats["dedup/failures"] >= len(FAILURES) + 1


# What a failure of one run means for the next.


@pytest.mark.slow
def test_a_page_that_failed_is_fetched_in_the_next_run(serve, crawl):
    server = serve(
        {
            "/": page("index", ["/later"]),
            "/later": lambda visit: BROKEN if visit.count == 0 else page("later"),
        }
    )
    settings = {"RETRY_TIMES": 0}

    first = crawl(start=[f"{server.base}/"], settings=settings)
    assert first.ledger.bodies_of("later") == []
    second = crawl(start=[f"{server.base}/"], settings=settings, folder=first.folder)

    assert len(second.ledger.bodies_of("later")) == 1
    assert second.stats["dedup/bodies/new"] == 1


# Files of a media pipeline are no pages.

MEDIA = """
import scrapy

class Media(scrapy.Spider):
    name = "media"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.base, self.seen = base, []

    async def start(self):
        yield scrapy.Request(self.base + "/")

    def parse(self, response):
        yield {"file_urls": [self.base + "/file?utm_source=a", self.base + "/file", self.base + "/moved"]}
"""


@pytest.mark.slow
def test_files_of_a_media_pipeline_are_fetched_as_asked_and_are_no_pages(serve, crawl, tmp_path):
    server = serve(
        {
            "/": page("index"),
            "/file?utm_source=a": Reply(b"one", 200, "text/plain"),
            "/file": Reply(b"two", 200, "text/plain"),
            "/moved": redirect("/file.bin"),
            "/file.bin": Reply(b"three", 200, "application/octet-stream"),
        }
    )
    settings = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(tmp_path / "files"),
        "MEDIA_ALLOW_REDIRECTS": True,
    }

    result = crawl(MEDIA, base=server.base, settings=settings)

    (item,) = result.items
    assert [file["status"] for file in item["files"]] == ["downloaded"] * 3
    stored = sorted(path.read_bytes() for path in (tmp_path / "files").rglob("*") if path.is_file())
    assert stored == [b"one", b"three", b"two"]
    assert [row.url for row in result.ledger.observations] == [f"{server.base}/"]
