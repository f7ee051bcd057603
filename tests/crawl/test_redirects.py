"""A redirect never loses a page: each shape, each preset, by link, as start URL, inside a chain."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from .server import Reply, Visit, page, redirect

SITE = "http://site.test"
SESSION = "0123456789abcdef0123456789abcdef"
REDIRECT_MAX_TIMES = 12

HOSTS = {
    ".secure.test": {"scheme_alias": True},
    ".bare.test": {"www_alias": True},
    ".named.test": {"www_alias": True},
    ".chain.test": {"scheme_alias": True, "www_alias": True},
}

# name of the case (also the slug of its page): the URL as linked
LINKS = {
    "slash_added": f"{SITE}/slash",
    "slash_removed": f"{SITE}/slash2/",
    "parameters_reordered": f"{SITE}/q?b=1&a=2",
    "tracking_removed": f"{SITE}/p?utm_source=x",
    "session_added": f"{SITE}/c",
    "cookie_wall_at_the_same_url": f"{SITE}/wall",
    "unreserved_escape_decoded": f"{SITE}/%7Etilde",
    "default_port_added": f"{SITE}/port",
    "503_then_302": f"{SITE}/busy",
    "to_https": "http://secure.test/x",
    "www_removed": "http://www.bare.test/y",
    "www_added": "http://named.test/z",
    "chain_of_all": "http://www.chain.test/all/?utm_source=x&b=1&a=2",
    "first_link_to_a_shared_target": f"{SITE}/old1",
    "second_link_to_a_shared_target": f"{SITE}/old2",
    "source_and_target_both_linked": f"{SITE}/both",
}
ALSO_LINKED = (f"{SITE}/both/",)
SHARED = ("first_link_to_a_shared_target", "second_link_to_a_shared_target")
LOOPS = {
    "to_itself": (f"{SITE}/loop", ("/loop",)),
    "of_two": (f"{SITE}/ping", ("/ping", "/pong")),
    "of_equal_keys": (f"{SITE}/spin?a=1&b=2", ("/spin?a=1&b=2", "/spin?b=2&a=1")),
}

PRESETS = ("standard", "conservative")
ENTRIES = ("link", "start", "chain")


def slug_of(case: str) -> str:
    return "shared" if case in SHARED else case


def wall(slug: str, cookie: str) -> Callable[[Visit], bytes | Reply]:
    """Return a route that sends a visitor without the cookie to the very same URL, with the cookie."""

    def answer(visit: Visit) -> bytes | Reply:
        if f"{cookie}=1" in visit.headers.get("cookie", ""):
            return page(slug)
        return redirect(visit.target, cookie=f"{cookie}=1; Path=/")

    return answer


def busy_once(then: Reply) -> Callable[[Visit], Reply]:
    return lambda visit: Reply(b"busy", 503) if visit.count == 0 else then


def end_of_chain(visit: Visit) -> Reply:
    """Answer the https URL of the chain: first a cookie, then a 503, then a redirect with a session."""
    if "chained=1" not in visit.headers.get("cookie", ""):
        return redirect(visit.target, cookie="chained=1; Path=/")
    if visit.count <= 1:
        return Reply(b"busy", 503)
    return redirect(f"/all?a=2&b=1&sid={SESSION}")


def routes() -> dict[str, object]:
    links = [*LINKS.values(), *ALSO_LINKED, *(url for url, _ in LOOPS.values())]
    return {
        "/": page("index", [*links, "/#idx1", "/"]),
        "/chains": page("chains", [f"/enter/{number}" for number in range(len(links))]),
        **{f"/enter/{number}": redirect(link) for number, link in enumerate(links)},
        "/slash": redirect("/slash/", 301),
        "/slash/": page("slash_added"),
        "/slash2/": redirect("/slash2", 301),
        "/slash2": page("slash_removed"),
        "/q?b=1&a=2": redirect("/q?a=2&b=1"),
        "/q?a=2&b=1": page("parameters_reordered"),
        "/p?utm_source=x": redirect("/p"),
        "/p": page("tracking_removed"),
        "/c": redirect(f"/c?sid={SESSION}"),
        f"/c?sid={SESSION}": page("session_added"),
        "/wall": wall("cookie_wall_at_the_same_url", "wall"),
        "/%7Etilde": redirect("/~tilde", 301),
        "/~tilde": page("unreserved_escape_decoded"),
        "http://site.test/port": redirect("http://site.test:80/port"),
        "http://site.test:80/port": page("default_port_added"),
        "/busy": busy_once(redirect("/busy/")),
        "/busy/": page("503_then_302"),
        "/old1": redirect("/shared", 301),
        "/old2": redirect("/shared", 301),
        "/shared": page("shared"),
        "/both": redirect("/both/", 301),
        "/both/": page("source_and_target_both_linked"),
        "http://secure.test/x": redirect("https://secure.test/x", 301),
        "https://secure.test/x": page("to_https"),
        "http://www.bare.test/y": redirect("http://bare.test/y", 301),
        "http://bare.test/y": page("www_removed"),
        "http://named.test/z": redirect("http://www.named.test/z", 301),
        "http://www.named.test/z": page("www_added"),
        "http://www.chain.test/all/?utm_source=x&b=1&a=2": redirect("/all/?b=1&a=2"),
        "http://www.chain.test/all/?b=1&a=2": redirect("/all/?a=2&b=1"),
        "http://www.chain.test/all/?a=2&b=1": redirect("/all?a=2&b=1"),
        "http://www.chain.test/all?a=2&b=1": redirect("http://chain.test/all?a=2&b=1"),
        "http://chain.test/all?a=2&b=1": redirect("https://chain.test/all?a=2&b=1", 301),
        "https://chain.test/all?a=2&b=1": end_of_chain,
        f"https://chain.test/all?a=2&b=1&sid={SESSION}": page("chain_of_all"),
        "/loop": redirect("/loop"),
        "/ping": redirect("/pong"),
        "/pong": redirect("/ping"),
        "/spin?a=1&b=2": redirect("/spin?b=2&a=1"),
        "/spin?b=2&a=1": redirect("/spin?a=1&b=2"),
    }


@pytest.fixture(scope="module")
def redirected(serve, crawl):
    """Return a function that crawls for a preset and an entry, once each, and gives crawl and server."""

    @functools.cache
    def of(preset, entry):
        server = serve(routes())
        starts = {
            "link": [f"{SITE}/"],
            "chain": [f"{SITE}/chains"],
            "start": [*LINKS.values(), *ALSO_LINKED, *(url for url, _ in LOOPS.values())],
        }
        settings = {
            "DEDUP_URL_POLICY": preset,
            "DEDUP_HOSTS": HOSTS,
            "REDIRECT_MAX_TIMES": REDIRECT_MAX_TIMES,
        }
        return crawl(start=starts[entry], proxy=server, settings=settings), server

    return of


# Under the conservative preset hardly a redirect keeps its key, so its crawls can wait.
MARKS = {"standard": (), "conservative": pytest.mark.slow}
each_preset = pytest.mark.parametrize(
    "preset", [pytest.param(preset, marks=MARKS[preset]) for preset in PRESETS]
)
each_crawl = pytest.mark.parametrize(
    ("preset", "entry"),
    [pytest.param(preset, entry, marks=MARKS[preset]) for preset in PRESETS for entry in ENTRIES],
)
each_case = pytest.mark.parametrize("case", LINKS)


@each_case
@each_crawl
def test_the_page_behind_a_redirect_is_one_body_with_an_observation(redirected, preset, entry, case):
    seen = redirected(preset, entry)[0].ledger

    (body,) = seen.bodies_of(slug_of(case))
    observations = seen.observations_of(slug_of(case))

    assert observations
    assert all(observation.outcome == "fetched" for observation in observations)
    assert body.first_observation_id in {observation.observation_id for observation in observations}


@each_case
@each_crawl
def test_the_page_behind_a_redirect_reaches_the_callback_of_its_request(redirected, preset, entry, case):
    assert redirected(preset, entry)[0].reached_callback(slug_of(case)) >= 1


@each_crawl
def test_every_page_delivered_to_a_callback_is_an_observation(redirected, preset, entry):
    result, _ = redirected(preset, entry)

    delivered = sorted(call["url"] for call in result.callbacks)

    fetched = sorted(row.url for row in result.ledger.observations if row.outcome == "fetched")
    assert fetched == delivered


@each_crawl
def test_the_bodies_feed_holds_each_text_once(redirected, preset, entry):
    result, _ = redirected(preset, entry)

    texts = [record["text"] for record in result.feed("body")]

    assert sorted(texts) == sorted(body.text for body in result.ledger.bodies)
    assert len(texts) == len(set(texts))


@each_crawl
def test_redirect_hops_and_retried_attempts_are_no_observations(redirected, preset, entry):
    observations = redirected(preset, entry)[0].ledger.observations

    fetched = [row for row in observations if row.outcome == "fetched"]
    assert {row.http_status for row in fetched} == {200}
    assert not [row for row in observations if row.http_status == 503]


@each_crawl
def test_the_hops_of_a_chain_stay_in_the_observation(redirected, preset, entry):
    (observation,) = redirected(preset, entry)[0].ledger.observations_of("chain_of_all")

    hops = observation.redirect_urls
    assert "https://chain.test/all?a=2&b=1" in hops
    assert "http://chain.test/all?a=2&b=1" in hops
    assert observation.url == f"https://chain.test/all?a=2&b=1&sid={SESSION}"


@each_crawl
def test_both_links_to_one_target_stay_known(redirected, preset, entry):
    seen = redirected(preset, entry)[0].ledger

    known = {alias.raw_url for alias in seen.aliases}
    for observation in seen.observations_of("shared"):
        known |= {observation.request_url, *observation.redirect_urls}

    assert {f"{SITE}/old1", f"{SITE}/old2"} <= known


@each_preset
@pytest.mark.parametrize("entry", ["link", "chain"])
def test_a_target_of_several_links_is_fetched_once(redirected, preset, entry):
    _, server = redirected(preset, entry)

    assert server.site.targets().count("/shared") == 1


@pytest.mark.parametrize("loop", LOOPS)
@each_crawl
def test_a_redirect_loop_ends_by_the_limit_of_scrapy(redirected, preset, entry, loop):
    result, server = redirected(preset, entry)
    _, turns = LOOPS[loop]

    assert result.dump["reason"] == "finished"
    assert 1 <= sum(server.site.targets().count(turn) for turn in turns) <= REDIRECT_MAX_TIMES + 1


@pytest.mark.parametrize("loop", LOOPS)
@each_crawl
def test_a_redirect_loop_ends_as_one_failure_without_a_body(redirected, preset, entry, loop):
    result, _ = redirected(preset, entry)
    _, turns = LOOPS[loop]

    failed = [row for turn in turns for row in result.ledger.at(turn)]

    assert [(row.outcome, row.body_id) for row in failed] == [("error", None)]


@pytest.mark.parametrize("loop", LOOPS)
@each_crawl
def test_a_redirect_loop_calls_its_errback(redirected, preset, entry, loop):
    result, _ = redirected(preset, entry)
    _, turns = LOOPS[loop]

    assert [failure["type"] for failure in result.failures if failure["url"].endswith(turns)] == [
        "IgnoreRequest"
    ]


def test_a_link_back_to_a_start_url_is_not_fetched_again(redirected):
    _, server = redirected("standard", "link")

    assert server.site.urls().count(f"{SITE}/") == 1
