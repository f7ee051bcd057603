"""What pages must hold by setting, and what becomes of pages that do not count."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest

from scrapy_dedup.config import Config
from scrapy_dedup.content.expectations import Expectations
from scrapy_dedup.errors import ConfigError

from .server import page

EXPECT = {
    "shop.example/p/*": {"css": "h1.product"},
    ".shop.example": {"text": "Shop"},
    "*.shop.example/p/old/*": {"css": "h2"},
    "shop.example:8080": {"text": "Staging"},
    "docs.example/caf%c3%a9": {"text": "Menu"},
}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://shop.example/", {"text": "Shop"}),
        ("https://Shop.example/p/1?x=2", {"text": "Shop", "css": "h1.product"}),
        ("https://shop.example/p", {"text": "Shop", "css": "h1.product"}),
        ("https://www.shop.example/p/1", {"text": "Shop"}),
        ("https://www.shop.example/p/old/1", {"text": "Shop", "css": "h2"}),
        ("http://shop.example:8080/p/1", {"text": "Staging", "css": "h1.product"}),
        ("http://docs.example/caf%C3%A9/", {"text": "Menu"}),
        ("http://docs.example/", {}),
        ("http://other.example/", {}),
        ("http://myshop.example/", {}),
        ("mailto:shop.example", {}),
        ("http://[", {}),
    ],
)
def test_rows_that_cover_a_url_add_up_and_the_narrowest_has_the_last_word(url, expected):
    assert dict(Expectations(EXPECT).of(url)) == expected


def test_every_problem_of_the_setting_is_told_at_once(tmp_path):
    wrong = {
        "*": {"text": "x"},
        "a.example/": {},
        "b.example": {"css": "h1["},
        "c.example": {"txt": "a"},
        "d.example": {"text": " "},
        "B.example": {"text": "y"},
        "e.example/x y": "no",
        "https://f.example/": {"text": "z"},
    }

    with pytest.raises(ConfigError) as caught:
        Config.from_settings({"DEDUP_EXPECT": wrong, "DEDUP_WORKERS": -1}, base_dir=tmp_path)

    problems = caught.value.problems
    assert [problem for problem in problems if problem.startswith("DEDUP_WORKERS")]
    assert len([problem for problem in problems if problem.startswith("DEDUP_EXPECT")]) == 8
    for said in (
        "no host pattern",
        "leave the scheme out",
        "not a CSS selector",
        "the keys are 'text' and 'css'",
        "same place as 'b.example'",
    ):
        assert said in str(caught.value)


def test_the_setting_can_be_given_on_the_command_line_and_shapes_the_results(tmp_path):
    def config(**settings: object) -> Config:
        return Config.from_settings(settings, base_dir=tmp_path)

    assert config(DEDUP_EXPECT='{"a.example": {"text": "x"}}').expectations.of("http://a.example/") == {
        "text": "x"
    }
    digests = {
        config(**settings).settings_digest
        for settings in ({}, {"DEDUP_EXPECT": EXPECT}, {"DEDUP_SOFT404_PROBE": True})
    }
    assert len(digests) == 3
    for value in ("[1]", "{", "3"):
        with pytest.raises(ConfigError, match="DEDUP_EXPECT"):
            config(DEDUP_EXPECT=value)


SPIDER = """
import scrapy
from scrapy_dedup import PageItem

class Shop(scrapy.Spider):
    name = "shop"

    def __init__(self, base, targets, **kwargs):
        super().__init__(**kwargs)
        self.base, self.targets = base, targets

    async def start(self):
        for target in self.targets:
            yield scrapy.Request(self.base + target)

    def parse(self, response):
        if response.url.endswith("item"):
            yield PageItem.from_response(response, expect={"css": "h3"})
        elif response.url.endswith("vouched"):
            yield PageItem.from_response(response, content_valid=True, validity_reason="a poem")
        yield from response.follow_all(css="a")
"""

PRODUCT = "<h1 class='product'>A cup</h1><p>It holds a quarter of a litre and is white.</p>"


def html(body: str, title: str = "Cups", head: str = "") -> bytes:
    return f"<html><head><title>{title}</title>{head}</head><body><main>{body}</main></body></html>".encode()


@pytest.fixture(scope="module")
def shop(serve, crawl):
    server = serve(
        {
            "/p/good": html(PRODUCT),
            "/p/bad": html("<p>Choose a cup from the list on the left, there are many of them.</p>"),
            "/p/item": html(PRODUCT),
            "/other": html("<p>We have been making cups for a hundred years, and plates for ten.</p>"),
            "/lost": html("<h1>Page not found</h1><p><a href='/found'>Elsewhere</a></p>"),
            "/vouched": html("<h1>Page not found</h1>"),
            "/found": page("found"),
            "/stub": html("<a href='/stub/'>on</a>", head="<script>location.replace('/stub/')</script>"),
            "/stub/": page("behind the stub"),
            "/wall": html("<h1>Sign in</h1><input type='password'>"),
            "/wall?PHPSESSID=0123456789abcdef0123456789abcdef": page("behind the wall"),
            "/hub": page("hub", ["/wall", "/wall?PHPSESSID=0123456789abcdef0123456789abcdef"]),
        }
    )
    host = server.base.removeprefix("http://")
    settings = {"DEDUP_EXPECT": {f"{host}/p/*": {"css": "h1.product"}, "elsewhere.example": {"text": "x"}}}
    targets = ["/p/good", "/p/bad", "/p/item", "/other", "/lost", "/vouched", "/stub", "/hub"]
    return crawl(SPIDER, settings=settings, base=server.base, targets=targets), server


def states(result) -> dict[str, tuple[str, str | None]]:
    return {
        "/" + row.url.split("/", 3)[3]: (row.validity.value, row.validity_reason)
        for row in result.ledger.observations
    }


def test_a_page_without_what_is_expected_is_unexpected_content(shop):
    found = states(shop[0])

    assert found["/p/good"] == ("valid", None)
    assert found["/p/bad"] == ("unexpected_content", "no element 'h1.product'")
    assert found["/p/item"] == ("unexpected_content", "no element 'h3'"), "the item's own comes on top"
    assert found["/other"] == ("valid", None)


def test_a_page_that_does_not_count_has_no_text_asks_for_review_and_its_links_are_followed(shop):
    result, _ = shop
    found = states(result)

    assert found["/lost"] == ("soft_404", "title_phrase")
    assert found["/found"] == ("valid", None)
    assert found["/vouched"] == ("valid", "a poem")
    for row in result.ledger.observations:
        if row.validity != "valid":
            assert (row.body_id, row.action, row.reason) == (None, "review", "content_invalid")
    texts = [body.text for body in result.ledger.bodies]
    assert sum("Page not found" in text for text in texts) == 1  # that of the poem


def test_the_target_of_a_stub_is_told_and_a_url_of_the_same_key_gets_its_turn(shop):
    result, server = shop

    assert states(result)["/stub"] == ("redirect_stub", f"script_redirect: {server.base}/stub/")
    assert len(result.ledger.bodies_of("behind the stub")) == 1
    assert states(result)["/wall"] == ("login", "login_wall")
    assert len(result.ledger.bodies_of("behind the wall")) == 1


COMPLETE = html("<h1>Tides</h1><p>High water at noon today.</p>", "Tides")
CUT = COMPLETE[:85]
OPEN = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n"
RAW = {
    b"/complete": OPEN + COMPLETE,
    b"/cut": OPEN + CUT,
    b"/lost": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 900\r\n\r\n" + COMPLETE,
}


class Raw(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        target = self.rfile.readline().split()[1]
        while self.rfile.readline().strip():
            continue
        self.wfile.write(
            RAW.get(target, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        )


@pytest.fixture
def raw_base() -> Iterator[str]:
    """Serve bytes as they are; each connection ends after its answer."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Raw) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(timeout=5)


def test_bodies_that_were_cut_are_truncated_and_those_that_merely_end_are_not(raw_base, crawl):
    result = crawl(
        SPIDER,
        settings={"DOWNLOAD_FAIL_ON_DATALOSS": False},
        base=raw_base,
        targets=[target.decode() for target in RAW],
    )

    assert states(result) == {
        "/complete": ("valid", None),
        "/cut": ("truncated", "partial"),
        "/lost": ("truncated", "dataloss"),
    }
    assert [body.text for body in result.ledger.bodies] == ["# Tides\n\nHigh water at noon today."]
