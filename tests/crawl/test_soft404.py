"""A page that says what its site says to a made-up URL is a soft 404, in any language."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from .server import NOT_FOUND, Reply, Visit, page, redirect

PROBE = "/no-such-page-"
# "Nothing is here, look on the front page for something else", in a language that no rule knows.
FINNISH = (
    "<html lang='fi'><head><title>Koivu</title></head><body><main><h1>Voi ei</h1>"
    "<p>Täällä ei ole mitään, katso etusivulta jotain muuta luettavaa ja tule sitten takaisin.</p></main>"
    "</body></html>"
).encode()
ROBOTS = b"User-agent: *\nDisallow: /d/no-such-page-\n"
START = page("the start", ["/lost"])
EN = page("the english start", ["/en/lost"])
DECLARED = page("declared", ["/lost"], head="<link rel='canonical' href='http://named.test/begin'>")
BEGIN = page("begin", ["/other"])
TWIN = page("twin")

PAGES: dict[str, dict[str, bytes | Reply]] = {
    # Unknown URLs are answered with a text of their own.
    "soft.test": {
        "/": page("soft", ["/docs/a", "/docs/lost", "/docs/b.html", "/about", "/gone"]),
        "/docs/a": page("soft a"),
        "/docs/b.html": page("soft b"),
        "/about": page("soft about"),
        "*": FINNISH,
    },
    # ... with the homepage, the start page of their folder, a redirect, a page that says where it is
    "home.test": {"*": START},
    "en.test": {"/en/": EN, "*": EN},
    "moved.test": {"/begin": BEGIN, "/other": BEGIN, "*": redirect("/begin")},
    "named.test": {"/begin": DECLARED, "*": DECLARED},
    # ... as they should be
    "hard.test": {"/": page("hard", ["/x/one", "/x/two"]), "/x/one": TWIN, "/x/two": TWIN, "*": NOT_FOUND},
    # ... but nobody may ask
    "robots.test": {
        "/robots.txt": Reply(ROBOTS, content_type="text/plain"),
        "/d/lost": FINNISH,
        "*": FINNISH,
    },
    "broken.test": {"/x": FINNISH, "*": Reply(drop=True)},
}
STARTS = [
    "http://soft.test/",
    "http://home.test/",
    "http://en.test/en/",
    "http://moved.test/begin",
    "http://named.test/begin",
    "http://hard.test/",
    "http://robots.test/d/lost",
    "http://broken.test/x",
]
SOFT = {
    "http://soft.test/docs/lost",
    "http://soft.test/gone",
    "http://home.test/lost",
    "http://en.test/en/lost",
    "http://moved.test/other",
    "http://named.test/lost",
}


def answer(visit: Visit) -> bytes | Reply:
    pages = PAGES[urlsplit(visit.url).netloc]
    if visit.path == "/robots.txt":
        return pages.get("/robots.txt", NOT_FOUND)
    return pages.get(visit.path, pages["*"])


@pytest.fixture(scope="module")
def proxy(serve):
    return serve({"*": answer})


@pytest.fixture(scope="module")
def probed(proxy, crawl):
    settings = {"DEDUP_SOFT404_PROBE": True, "ROBOTSTXT_OBEY": True, "RETRY_ENABLED": False}
    return crawl(settings=settings, proxy=proxy, start=STARTS), list(proxy.site.hits)


def test_pages_that_equal_the_probe_are_soft_404s_and_the_real_ones_are_not(probed):
    result, _ = probed
    rows = {row.url: row for row in result.ledger.observations if row.outcome == "fetched"}

    assert result.exit_code == 0
    soft = {url for url, row in rows.items() if row.validity == "soft_404"}
    assert soft == SOFT
    assert {rows[url].validity_reason for url in soft} == {"probe_equal"}
    assert {(rows[url].action, rows[url].reason, rows[url].body_id) for url in soft} == {
        ("review", "content_invalid", None)
    }
    assert {row.validity.value for url, row in rows.items() if url not in soft} == {"valid"}


def test_a_probe_is_neither_observed_nor_counted_as_a_page(probed):
    result, _ = probed

    assert not [row for row in result.ledger.observations if PROBE in row.url]
    assert not [call for call in result.callbacks if PROBE in call["url"]]
    assert not [alias for alias in result.ledger.aliases if PROBE in alias.raw_url]
    assert result.stats["dedup/pages/fetched"] == len(result.callbacks)


def test_each_host_and_first_folder_is_asked_once_and_robots_are_obeyed(probed):
    result, hits = probed
    probes = {visit.url for visit in hits if PROBE in visit.url}

    assert sorted(url[: url.index(PROBE)] for url in probes) == [
        "http://broken.test",
        "http://en.test/en",
        "http://hard.test",
        "http://hard.test/x",
        "http://home.test",
        "http://moved.test",
        "http://named.test",
        "http://soft.test",
        "http://soft.test/docs",
    ]
    assert result.stats["dedup/soft404/probes"] == len(probes) + 1  # robots.test refused


@pytest.mark.slow
def test_without_the_setting_nobody_is_asked(proxy, crawl):
    proxy.site.forget_hits()
    result = crawl(proxy=proxy, start=["http://soft.test/"])

    assert not [visit for visit in proxy.site.hits if PROBE in visit.url]
    assert {row.validity.value for row in result.ledger.observations} == {"valid"}
