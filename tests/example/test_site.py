"""The demo site behaves as nastily as it claims."""

from __future__ import annotations

import re
from collections import deque
from html import unescape
from urllib.parse import urljoin, urlsplit

import pytest
from example.site.html import Visit
from example.site.site import Request, Site

SITE = Site()
HOME = "http://localhost:8765/"
HEX = "0123456789abcdef" * 2


def _get(target, *, host="localhost", cookies=None, count=0):
    return SITE.respond(Request(target, host, cookies), Visit(8765, count, f"12:00:{count:02}"))


def _location(response):
    return dict(response.headers).get("Location")


def _signed_links():
    return sorted(
        {
            unescape(link)
            for link in re.findall(rb'href="(/files/[^"]+)"', _get("/").body)
            for link in [link.decode()]
        }
    )


@pytest.mark.slow
def test_more_than_20000_urls_are_reachable():
    """Walked as a crawler without a policy does, fragments cut; session ids stay the same throughout."""
    seen, waiting = {HOME}, deque([HOME])
    while waiting and len(seen) <= 20_000:
        url = waiting.popleft()
        parts = urlsplit(url)
        response = _get(parts.path + (f"?{parts.query}" if parts.query else ""), host=parts.hostname)
        links = re.findall(r'href="([^"]*)"', response.body.decode())
        links += [_location(response)] if _location(response) else []
        for link in links:
            target = urljoin(url, unescape(link)).partition("#")[0]
            if urlsplit(target).scheme == "http" and target not in seen:
                seen.add(target)
                waiting.append(target)
    assert len(seen) > 20_000


@pytest.mark.parametrize(
    ("target", "status", "location"),
    [
        pytest.param("/guides", 301, "/guides/", id="a slash is added"),
        pytest.param("/faq/", 301, "/faq", id="a slash is removed"),
        pytest.param("/foo/", 404, None, id="the slash variant is missing"),
        pytest.param("/foo", 200, None, id="its plain form is there"),
        pytest.param("/bar", 404, None, id="the plain form is missing"),
        pytest.param("/bar/", 200, None, id="its slash variant is there"),
        pytest.param("/compare?b=2&a=1", 404, None, id="the wrong order of parameters fails"),
        pytest.param("/compare?a=1&b=2", 200, None, id="the right order works"),
        pytest.param("/p?utm_source=x", 302, "/p", id="tracking is redirected away"),
        pytest.param("/p", 200, None, id="the page behind it is there"),
        pytest.param(f"/c?sid={HEX}", 200, None, id="a session is let in"),
        pytest.param(
            "/c?sid=abc", 302, "/c?sid=0cc6cbe8ff8b1c4ac8f7a5ed28e1a3a1", id="a bad session gets another"
        ),
        pytest.param("/shop/sale", 302, "/shop/garden?color=red&sort=price", id="a redirect into a facet"),
        pytest.param("/manual/install", 404, None, id="a link resolved without <base>"),
        pytest.param("/manual/v2/install", 200, None, id="a link resolved with <base>"),
        pytest.param(f"/shop/tools;jsessionid={HEX}", 200, None, id="a session id in the path"),
        pytest.param("/docs/../shop/./tools", 200, None, id="dot segments"),
        pytest.param("/shop/%74ools", 200, None, id="an escaped letter"),
        pytest.param("/docs/api/client", 200, None, id="lower case"),
        pytest.param("/docs/api/CLIENT", 404, None, id="other case is another page"),
        pytest.param("/gallery", 404, None, id="the query is the content"),
        pytest.param("/missing", 404, None, id="a missing page"),
        pytest.param("/error", 500, None, id="a broken page"),
    ],
)
def test_answers(target, status, location):
    response = _get(target)
    assert response.status == status
    if location is not None and "sid=" in location:
        assert re.fullmatch(r"/c\?sid=[0-9a-f]{32}", _location(response))
    else:
        assert _location(response) == location


def test_every_page_of_the_manifest_answers_or_redirects_to_itself():
    for page in SITE.pages:
        response = _get(page.key, host="127.0.0.1" if page.host == "alias" else "localhost")
        if page.kind in ("session_redirect", "cookie_redirect"):
            assert response.status == 302
        elif page.kind == "signed":
            assert response.status == 403
        else:
            assert response.status == 200, page.key


def test_the_wall_opens_with_its_cookie():
    first = _get("/wall")
    assert (first.status, _location(first)) == (302, "/wall")
    assert dict(first.headers)["Set-Cookie"].startswith("age_checked=yes")
    assert _get("/wall", cookies={"age_checked": "yes"}).status == 200


def test_a_signed_url_works_only_as_it_was_linked():
    for link in _signed_links():
        path, _, query = link.partition("?")
        assert _get(link).status == 200
        assert _get(f"{path}?{'&'.join(sorted(query.split('&')))}").status == 403
        assert _get(link.lower()).status == 403
        assert _get(link.replace("Anna", "Anne")).status == 403
    assert len(_signed_links()) == 3


def test_the_live_page_shows_another_time_token_advertisement_and_related_links_at_each_fetch():
    first, second = (_get("/live", count=count).body.decode() for count in (1, 2))
    for part in (
        r"<time>.*?</time>",
        r'name="csrf".*?>',
        r'class="ad-slot">.*?</div>',
        r'class="related">.*?</nav>',
    ):
        assert re.findall(part, first) != re.findall(part, second)
    assert re.findall(r"<p>.*?</p>", first) == re.findall(r"<p>.*?</p>", second)


def test_a_mirror_serves_the_bytes_of_its_original():
    copies = [page for page in SITE.pages if page.kind == "mirror"]
    assert len(copies) == 11
    assert all(_get(page.key).body == _get(page.duplicates_of).body for page in copies)


def test_the_alias_host_serves_its_own_pages_and_sends_the_rest_home():
    (alias, *_) = [page for page in SITE.pages if page.host == "alias"]
    assert _get(alias.key, host="127.0.0.1").status == 200
    assert (
        _location(_get("/shop/tools?page=2", host="127.0.0.1")) == "http://localhost:8765/shop/tools?page=2"
    )


def test_facets_choose_goods_and_the_page_does_not():
    listed = re.findall(rb'<ul class="goods">.*?</ul>', _get("/shop/tools").body, re.DOTALL)
    red = re.findall(
        rb'<ul class="goods">.*?</ul>', _get("/shop/tools?color=red&utm_source=x").body, re.DOTALL
    )
    assert listed != red
    assert _get("/shop/tools?page=1").body.count(b"<p>") == _get("/shop/tools").body.count(b"<p>")


def test_equal_requests_get_equal_answers():
    assert _get("/live", count=5) == Site().respond(Request("/live"), Visit(8765, 5, "12:00:05"))
