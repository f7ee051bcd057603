"""A key that fails does not take its variants with it; a facet is never stored as the unfiltered page."""

from __future__ import annotations

import functools

import pytest

from .server import BROKEN, DROPPED, NOT_FOUND, Reply, page, redirect

# case (and slug of its page): (URL that fails, URL that works, what the failing one answers)
CASES = {
    "with_slash_is_404": ("/foo/", "/foo", NOT_FOUND),
    "without_slash_is_404": ("/bar", "/bar/", NOT_FOUND),
    "other_order_is_500": ("/s?b=2&a=1", "/s?a=1&b=2", BROKEN),
    "other_order_closes_the_connection": ("/t?b=2&a=1", "/t?a=1&b=2", DROPPED),
    "escaped_is_404": ("/%7Euser", "/~user", NOT_FOUND),
}
# case: URL as linked; the page exists only there, not at the URL less its tracking parameter
LINKED_ONLY = {
    "works_only_as_linked": "/u?utm_source=mail",
    "works_only_as_linked_with_more": "/v?id=1&utm_medium=x",
}
ORDERS = [f"/many?{'&'.join(order)}" for order in (
    ("a=1", "b=2", "c=3"), ("a=1", "c=3", "b=2"), ("b=2", "a=1", "c=3"),
    ("b=2", "c=3", "a=1"), ("c=3", "a=1", "b=2"), ("c=3", "b=2", "a=1"),
)]  # fmt: skip
# One URL for the server, which never sees a fragment.
FRAGMENTS = ("/frag#a", "/frag", "/frag#b")
DISCOVERIES = ("before_the_failure", "after_the_failure", "variant_first")


def routes(discovery: str) -> dict[str, object]:
    failing = [first for first, _, _ in CASES.values()]
    working = [second for _, second, _ in CASES.values()]
    late = page("late", working)
    made = {
        "before_the_failure": {
            "/": page("index", [*failing, *working, *LINKED_ONLY.values(), *ORDERS, *FRAGMENTS])
        },
        "variant_first": {
            "/": page("index", [*working, *failing, *LINKED_ONLY.values(), *ORDERS, *FRAGMENTS])
        },
        "after_the_failure": {
            "/": page("index", [*failing, *LINKED_ONLY.values(), *ORDERS, *FRAGMENTS, "/wait"]),
            "/wait": Reply(page("wait", ["/late"]), delay_s=1.5),
            "/late": late,
        },
    }[discovery]
    for case, (first, second, failure) in CASES.items():
        made |= {first: failure, second: page(case)}
    for case, url in LINKED_ONLY.items():
        made[url] = page(case)
    return made


@pytest.fixture(scope="module")
def varied(serve, crawl):
    """Return a function that crawls for an order of discovery, once each, and gives crawl and server."""

    @functools.cache
    def of(discovery, preset="standard"):
        server = serve(routes(discovery))
        result = crawl(start=[f"{server.base}/"], settings={"DEDUP_URL_POLICY": preset, "RETRY_TIMES": 1})
        return result, server

    return of


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("discovery", DISCOVERIES)
def test_a_page_that_works_under_another_spelling_is_not_lost(varied, discovery, case):
    result, _ = varied(discovery)

    assert len(result.ledger.bodies_of(case)) == 1
    assert result.reached_callback(case) == 1


@pytest.mark.parametrize("case", LINKED_ONLY)
@pytest.mark.parametrize("discovery", DISCOVERIES)
def test_a_page_that_works_only_as_linked_is_not_lost(varied, discovery, case):
    result, _ = varied(discovery)

    assert len(result.ledger.bodies_of(case)) == 1
    assert result.reached_callback(case) == 1


@pytest.mark.parametrize("discovery", DISCOVERIES)
def test_a_key_that_always_fails_costs_at_most_three_further_requests(varied, discovery):
    _, server = varied(discovery)

    asked = [target for target in server.site.targets() if target.startswith("/many?")]
    assert 2 <= len(asked) <= 4
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("discovery", DISCOVERIES)
def test_a_url_that_differs_by_its_fragment_is_no_other_attempt(varied, discovery):
    _, server = varied(discovery)

    assert server.site.targets().count("/frag") == 1


@pytest.mark.parametrize("discovery", DISCOVERIES)
def test_each_failed_attempt_is_an_observation_without_a_body(varied, discovery):
    result, server = varied(discovery)

    asked = {target for target in server.site.targets() if target.startswith("/many?")}
    rows = [row for row in result.ledger.observations if "/many?" in row.url]
    assert {row.url.removeprefix(server.base) for row in rows} == asked
    assert {(row.outcome, row.body_id) for row in rows} == {("gone", None)}


@pytest.mark.parametrize("case", CASES)
def test_the_first_url_of_a_key_that_works_leaves_its_variants_alone(varied, case):
    result, server = varied("variant_first")
    failing, _, _ = CASES[case]

    assert len(result.ledger.bodies_of(case)) == 1
    assert server.site.targets().count(failing) <= 1


@pytest.mark.slow
def test_variants_are_asked_for_under_the_conservative_preset_too(varied):
    result, _ = varied("before_the_failure", "conservative")

    missing = [case for case in (*CASES, *LINKED_ONLY) if not result.ledger.bodies_of(case)]
    assert missing == []


@pytest.fixture(scope="module")
def cached(serve, crawl):
    """Crawl twice with HTTPCACHE, the second time from the cache alone."""
    server = serve(routes("before_the_failure"))
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": "httpcache", "RETRY_TIMES": 0}
    first = crawl(start=[f"{server.base}/"], settings=settings)
    asked_first = server.site.targets()
    server.site.forget_hits()
    first_ledger = first.ledger
    second = crawl(start=[f"{server.base}/"], settings=settings, folder=first.folder)
    return first, first_ledger, asked_first, second, server


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_cached_failure_of_a_key_is_not_returned_for_its_variant(cached, case):
    first, first_ledger, *_ = cached

    assert len(first_ledger.bodies_of(case)) == 1
    assert first.reached_callback(case) == 1


@pytest.mark.slow
def test_a_crawl_from_the_http_cache_sees_every_page_again(cached):
    _, first_ledger, _, second, _ = cached

    assert {body.body_id for body in second.ledger.bodies} == {body.body_id for body in first_ledger.bodies}
    for case in (*CASES, *LINKED_ONLY):
        assert second.reached_callback(case) == 1
    jobs = [job.job_id for job in second.ledger.jobs]
    rows = [row for row in second.ledger.observations if row.job_id == jobs[-1] and row.outcome == "fetched"]
    assert all(row.from_cache for row in rows)


@pytest.mark.slow
def test_a_crawl_from_the_http_cache_asks_the_server_only_for_what_failed_to_download(cached):
    _, _, _, _, server = cached

    assert {target.partition("?")[0] for target in server.site.targets()} <= {"/t"}


def test_a_redirect_that_was_dropped_gets_its_turn_when_its_target_fails(serve, crawl):
    server = serve(
        {
            "/": page("index", ["/target/", "/way"]),
            "/target/": Reply(NOT_FOUND.body, 404, delay_s=1.0),  # under way when the redirect arrives
            "/way": redirect("/target"),
            "/target": page("behind_the_redirect"),
        }
    )

    result = crawl(start=[f"{server.base}/"])

    assert len(result.ledger.bodies_of("behind_the_redirect")) == 1
    assert server.site.targets().count("/target/") == 1


# Redirects into a facet.

FACET_ROUTES = {
    "/": page("index", ["/go", "/list", "/late", "/default"]),
    "/go": redirect("/list?color=red"),
    "/list": page("list_unfiltered"),
    "/list?color=red": page("list_red"),
    "/late": redirect("/shoes?color=blue"),
    "/shoes?color=blue": page("shoes_blue", ["/shoes"]),
    "/shoes": page("shoes_unfiltered"),
    "/default": redirect("/default?color=all"),
    "/default?color=all": page("default_all"),
}
FACETS = {
    "list_red": "/list?color=red",
    "shoes_blue": "/shoes?color=blue",
    "default_all": "/default?color=all",
}
UNFILTERED = {"list_unfiltered": "/list", "shoes_unfiltered": "/shoes"}


@pytest.fixture(scope="module")
def facet_site(serve):
    return serve(FACET_ROUTES)


@pytest.fixture(scope="module")
def faceted(facet_site, crawl):
    hosts = {"127.0.0.1": {"allow": ["page"]}}
    result = crawl(start=[f"{facet_site.base}/"], settings={"DEDUP_HOSTS": hosts})
    return result, facet_site, hosts


@pytest.mark.parametrize("slug", FACETS)
def test_a_redirect_into_a_facet_is_stored_under_its_conservative_key(faceted, slug):
    from scrapy_dedup import UrlPolicy

    result, server, hosts = faceted
    policy = UrlPolicy.preset("standard", hosts=hosts)
    url = server.base + FACETS[slug]

    (observation,) = result.ledger.observations_of(slug)

    assert observation.url == url
    assert observation.url_key == policy.conservative_key(url)
    assert "color=" in observation.url_key
    assert observation.url_key != policy.decide(url).key
    assert (observation.action, observation.reason) == ("keep", "facet_by_redirect")


@pytest.mark.parametrize("slug", UNFILTERED)
def test_the_unfiltered_page_is_fetched_beside_the_facet(faceted, slug):
    from scrapy_dedup import UrlPolicy

    result, server, hosts = faceted
    url = server.base + UNFILTERED[slug]

    (observation,) = result.ledger.observations_of(slug)

    assert observation.url == url
    assert observation.url_key == UrlPolicy.preset("standard", hosts=hosts).decide(url).key
    assert (observation.action, observation.reason) == ("keep", "new_text")


def test_a_redirect_into_a_facet_that_the_host_rejects_is_denied_and_kept_as_alias(facet_site, crawl):
    hosts = {"127.0.0.1": {"allow": ["page"], "on_disallowed": "reject"}}

    result = crawl(start=[f"{facet_site.base}/"], settings={"DEDUP_HOSTS": hosts})

    assert [slug for slug in FACETS if result.ledger.bodies_of(slug)] == []
    assert len(result.ledger.bodies_of("list_unfiltered")) == 1
    denied = {alias.raw_url for alias in result.ledger.aliases if alias.verdict == "denied"}
    assert denied == {facet_site.base + target for target in FACETS.values()}
