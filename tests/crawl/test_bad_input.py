"""Bad input never stops a crawl, loses the pages beside it, or lets a password through."""

from __future__ import annotations

import gzip
import importlib.resources
import json

import jsonschema
import pytest

from .server import Reply, mark, page, prose, redirect

pytestmark = pytest.mark.slow

PASSWORD = "s3cret-Passw0rd"
MEGABYTE = 1_000_000


def article(slug: str, inserted: str = "", charset: str = "utf-8", head: str = "") -> bytes:
    text = " ".join(prose(slug))
    return f"<html><head>{head}</head><body><article><p>{text} {inserted}</p></article></body></html>".encode(
        charset
    )


def html(body: bytes, content_type: str = "text/html", **headers: str) -> Reply:
    return Reply(
        body, 200, content_type, tuple((name.replace("_", "-"), value) for name, value in headers.items())
    )


XML_DECLARATION = b"<?xml version='1.0' encoding='iso-8859-1'?>"

PAGES: dict[str, Reply] = {
    "3 MB of nested tags": html(b"<html><body>" + b"<div>" * 600_000 + b"deep"),
    "10 MB text node": html(b"<html><body><p>" + b"word " * 2 * MEGABYTE + b"</p></body></html>"),
    "3 MB of attributes": html(b"<p " + b"a=b " * 750_000 + b">text</p>"),
    "a million entities": html(b"<p>" + b"&amp;" * 600_000 + b"</p>"),
    "Latin-1 declared UTF-8": html(article("latin as utf", "caf\xe9", "latin-1"), "text/html; charset=utf-8"),
    "UTF-8 declared Latin-1": html(
        article("utf as latin", "café — déjà vu"), "text/html; charset=iso-8859-1"
    ),
    "UTF-16 without a mark": html(article("utf16", charset="utf-16-le"), "text/html"),
    "an unknown charset": html(article("unknown charset"), "text/html; charset=x-no-such"),
    "a charset of nonsense": html(article("nonsense charset"), 'text/html; charset="\\";;'),
    "lone surrogates as entities": html(article("surrogates", "&#xD800; &#xDFFF; &#55296;")),
    "lone surrogates as UTF-8 bytes": html(article("surrogate bytes") + b"<p>\xed\xa0\x80</p>"),
    "NUL bytes": html(article("nul").replace(b"says", b"sa\x00ys") + b"\x00" * 1000),
    "control characters": html(article("controls", "\x01\x02\x0b\x0c\x1f\x7f\ufffe\uffff")),
    "only NUL bytes": html(b"\x00" * 100_000),
    "an XML declaration": html(XML_DECLARATION + article("declared"), "application/xhtml+xml"),
    "broken JSON-LD": html(
        article("json", head='<script type="application/ld+json">{"@type": [[[}</script><title>\x00</title>')
    ),
    "dates of nonsense": html(
        article("dates", head='<meta property="article:published_time" content="99999-99-99T99">'),
        Last_Modified="yesterday",
        ETag="not quoted \xe9",
    ),
    "binary as HTML": html(bytes(range(256)) * 400),
    "a PNG as HTML": html(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40),
    "a truncated tag": html(article("truncated")[:-40] + b"<a href='"),
    "no content type": Reply(article("untyped"), 200, None),
    "a content type of nonsense": html(article("typed oddly"), ";;;/ /;"),
    "nothing at all": html(b""),
    "204 without a body": Reply(b"", 204, None),
    "an image": Reply(b"\x89PNG\r\n\x1a\n", 200, "image/png"),
    "a PDF": Reply(b"%PDF-1.7\n%\xe2\xe3", 200, "application/pdf"),
    "gzip of 12 MB": html(gzip.compress(b"<p>" + b" " * 12 * MEGABYTE), Content_Encoding="gzip"),
    "gzip that is none": html(article("no gzip"), Content_Encoding="gzip"),
}
TOO_LARGE = {"gzip of 64 MB": html(gzip.compress(b"<p>" + b"a" * 64 * MEGABYTE), Content_Encoding="gzip")}
# What must be found again whatever stands beside it in the page.
READABLE = {
    "UTF-8 declared Latin-1": "utf as latin",
    "Latin-1 declared UTF-8": "latin as utf",
    "an unknown charset": "unknown charset",
    "a charset of nonsense": "nonsense charset",
    "an XML declaration": "declared",
    "broken JSON-LD": "json",
    "dates of nonsense": "dates",
}
TARGETS = {name: f"/page/{number}" for number, name in enumerate([*PAGES, *TOO_LARGE])}

LONG_URLS = {
    "5,000 characters of path": "/long/" + "a" * 5000,
    "5,000 characters of query": "/long?q=" + "b" * 5000,
    "10,000 parameters": "/many?" + "&".join(f"p{number}" for number in range(10_000)),
    "10,000 equal parameters": "/many?" + "&".join("p=" for _ in range(10_000)),
    "escapes of nonsense": "/odd/%zz%%%2?%=%&&&=&;;",
    "an escaped NUL": "/odd/%00?q=%00",
    "not ASCII": "/straße/\u65e5\u672c?\u00e9=\u00fc",
    "right-to-left override": "/odd/\u202egnp.exe",
}
LINKS = [
    "javascript:void(0)",
    "JavaScript:alert('x')",
    "data:text/html,<p>inline</p>",
    "mailto:someone@site.test",
    "tel:+1234",
    "ftp://127.0.0.1:1/file",
    "blob:http://site.test/1",
    "about:blank",
    "http://",
    "http:///path",
    "http://[::1",
    "http://exa mple.test:port/",
    "http://127.0.0.1:99999/",
    "http://%00.test/",
    "//",
    "?",
    "#",
    "",
    "http://xn--.test/",
    "&#xD800;",
]

ROUTES = {
    **{TARGETS[name]: reply for name, reply in {**PAGES, **TOO_LARGE}.items()},
    "/private": page("private"),
    "/to_credentials": redirect("http://user:{password}@{host}/behind"),
    "/behind": page("behind"),
    "/last": page("last"),
    "*": page("any other"),
}


@pytest.fixture(scope="module")
def survived(serve, crawl):
    routes = dict(ROUTES)
    server = serve(routes)
    host = server.base.removeprefix("http://")
    routes["/to_credentials"] = redirect(f"http://user:{PASSWORD}@{host}/behind")
    credentials = [f"http://user:{PASSWORD}@{host}/private", f"http://{PASSWORD}@{host}/private"]
    links = [*TARGETS.values(), *LONG_URLS.values(), *LINKS, *credentials, "/to_credentials"]
    routes["/"] = page("index", [*links, "/last"])
    starts = [f"{server.base}/", credentials[0]]
    settings = {
        "URLLENGTH_LIMIT": 200_000,
        "DOWNLOAD_MAXSIZE": 32 * MEGABYTE,
        "DOWNLOAD_WARNSIZE": 0,
        "DEDUP_EXTRACT_TIMEOUT": 10,
        "DEDUP_WORKERS": 2,
    }
    return crawl(start=starts, settings=settings, timeout_s=200), server


def test_the_crawl_ends_by_itself(survived):
    result, _ = survived

    assert result.exit_code == 0
    assert result.dump["reason"] == "finished"
    assert result.dump["item_errors"] == []
    assert "scrapy_dedup/" not in result.log  # no traceback through our files
    assert "CRITICAL" not in result.log


def test_the_pages_beside_bad_input_are_all_there(survived):
    result, _ = survived

    for slug in ("index", "last"):
        assert len(result.ledger.bodies_of(slug)) == 1


@pytest.mark.parametrize("name", TARGETS)
def test_each_bad_page_is_one_observation_with_a_reason(survived, name):
    result, _ = survived

    (row,) = result.ledger.at(TARGETS[name])

    if row.body_id is None:
        assert row.validity is None or row.validity != "valid"
        assert row.validity_reason or row.outcome == "error"
    else:
        assert row.validity == "valid"


@pytest.mark.parametrize("name", READABLE)
def test_readable_text_is_kept_despite_a_wrong_declaration(survived, name):
    result, _ = survived

    assert len(result.ledger.bodies_of(READABLE[name])) == 1


def test_a_page_over_the_input_cap_says_so(survived):
    result, _ = survived

    (row,) = result.ledger.at(TARGETS["10 MB text node"])

    assert (row.validity, row.validity_reason) == ("extraction_failed", "input_over_cap")
    assert row.payload_bytes > 9 * MEGABYTE
    assert row.payload_digest.startswith("sha256:")


def test_a_download_over_the_limit_of_scrapy_is_a_failure(survived):
    result, _ = survived

    (row,) = result.ledger.at(TARGETS["gzip of 64 MB"])

    assert (row.outcome, row.body_id) == ("error", None)


@pytest.mark.parametrize("name", LONG_URLS)
def test_an_odd_url_is_fetched_and_recorded(survived, name):
    from w3lib.url import safe_url_string

    result, server = survived
    url = safe_url_string(server.base + LONG_URLS[name])

    rows = [row for row in result.ledger.observations if url in (row.request_url, row.fetch_url, row.url)]

    assert len(rows) == 1
    assert rows[0].outcome == "fetched"


def test_schemes_that_are_no_web_give_no_observation(survived):
    result, _ = survived

    assert {row.url.partition(":")[0] for row in result.ledger.observations} == {"http"}


def test_urls_with_credentials_are_denied(survived):
    result, server = survived

    assert "/private" not in server.site.targets()
    assert [row for row in result.ledger.observations if "/private" in row.url] == []
    denied = [alias for alias in result.ledger.aliases if alias.rule == "credentials"]
    assert [alias for alias in denied if "/private" in alias.raw_url]


def test_the_password_of_a_url_is_nowhere(survived):
    result, _ = survived

    leaks = [
        path.name
        for path in result.folder.rglob("*")
        if path.is_file()
        and path.name not in ("plan.json", "dump.json")
        and PASSWORD.encode() in path.read_bytes()
    ]
    assert leaks == []


def test_feeds_are_whole_lines_of_utf_8(survived):
    result, _ = survived

    for path in (result.folder / "dedup").rglob("*.jsonl"):
        text = path.read_bytes().decode("utf-8")  # lone surrogates would not decode
        assert text.endswith("\n")
        for line in text.splitlines():
            json.loads(line)


@pytest.mark.parametrize("kind", ["observation", "body"])
def test_each_line_of_a_feed_has_the_form_of_its_schema(survived, kind):
    result, _ = survived
    schemas = importlib.resources.files("scrapy_dedup") / "schemas"
    schema = json.loads((schemas / f"{kind}.json").read_text("utf-8"))
    records = result.feed(kind)

    assert records
    for record in records:
        jsonschema.validate(record, schema)


def test_the_marks_of_all_readable_pages_are_in_the_feed(survived):
    result, _ = survived

    texts = "\n".join(record["text"] for record in result.feed("body"))
    assert [slug for slug in READABLE.values() if mark(slug) not in texts] == []
