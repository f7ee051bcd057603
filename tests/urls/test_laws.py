"""Laws that hold for every text, with ada (the WHATWG parser of Node.js) as judge."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.urls import UrlPolicy, Verdict, redact
from scrapy_dedup.urls.steps import PRESETS, decide_by_steps

RULES = {
    "shop.example": {
        "allow": ["a", "color", "f[0]"],
        "keep": ["sid"],
        "values": {"start": ["0", "a=b"]},
        "deny": ["/cart/*"],
        "path_case": "lower",
        "index_files": ["index.html"],
        "paths": [
            {"path": "/docs/*", "trailing_slash": "keep", "fragment": "keep"},
            {"path": "/search", "on_disallowed": "reject"},
        ],
    },
    ".shop.example": {"scheme_alias": True, "www_alias": True, "separators": ["&", ";"]},
    "*.shop.example:8080": {"drop": ["b"], "fragment": "drop"},
    "h": {"facets": ["color", "sort"], "force": ["page"], "drop": ["page"], "separators": [";"]},
}
POLICIES = {
    "standard": UrlPolicy.preset("standard"),
    "conservative": UrlPolicy.preset("conservative"),
    "standard with rules": UrlPolicy.preset("standard", RULES),
    "conservative with rules": UrlPolicy.preset("conservative", RULES),
}

pieces = st.sampled_from(
    [
        "http://",
        "shop.example",
        "/",
        "//",
        "..",
        ".",
        "%",
        "%4",
        "31",
        "%2e",
        "?",
        "&",
        "=",
        ";",
        "#",
        ":~:",
        "!",
        "'",
        "[",
        "]",
        "a",
        "B",
        "utm_source",
        "sid",
        "0123456789abcdef01234567",
        ";jsessionid=",
        "é",
        " ",
        "\\",
        "\t",
        "\ud800",
        "\x00",
        "@",
    ]
)
urls = st.one_of(
    st.text(),
    st.lists(pieces, max_size=12).map("".join),
    st.lists(pieces, max_size=12).map(lambda parts: "https://shop.example/" + "".join(parts)),
)


def assert_laws(url: str, name: str) -> None:
    policy = POLICIES[name]
    decision = policy.decide(url)
    context = (name, url, decision)
    assert decision.url == url, context
    assert policy.decide(decision.key).key == decision.key, context
    again = policy.decide(decision.fetch_url)
    assert again.fetch_url == decision.fetch_url, context
    assert again.key == decision.key, context
    assert (decision.verdict is Verdict.REWRITE) == (decision.fetch_url != url), context
    assert (decision.verdict is Verdict.DENY) == (decision.reason not in (None, "unparseable")), context
    assert decision.changes or (decision.key == url == decision.fetch_url), context
    if "\\" not in url and decision.fetch_url[-3:-2] != "%":
        assert is_subsequence(decision.fetch_url, url), context
    assert POLICIES["standard"].conservative_key(url) == POLICIES["conservative"].decide(url).key, url
    assert_standard_refines_conservative(url)


def assert_standard_refines_conservative(url: str) -> None:
    standard, conservative = POLICIES["standard"], POLICIES["conservative"]
    assert standard.decide(conservative.decide(url).key).key == standard.decide(url).key, url


def is_subsequence(part: str, whole: str) -> bool:
    characters = iter(whole)
    return all(character in characters for character in part)


def assert_steps_agree(url: str, name: str) -> None:
    policy = POLICIES[name]
    expected = decide_by_steps(url, PRESETS[policy.name], policy._hosts)
    assert policy.decide(url) == expected, (name, url)
    assert policy.decide(url) == expected, (name, url, "a second time")


@pytest.mark.parametrize("name", POLICIES)
@given(url=urls)
def test_laws_hold_for_any_text(name, url):
    assert_laws(url, name)


@pytest.mark.parametrize("name", POLICIES)
@given(url=urls)
def test_fast_path_and_steps_agree_on_any_text(name, url):
    assert_steps_agree(url, name)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("https://ww;jsessionid=A\xad%3Bj{e=A?", id="an escaped semicolon after the raw session"),
        pytest.param("https://ww.1;jsessionid=a%3Bb/", id="without the raw session it would be a number"),
        pytest.param("https://a%3Bjsessionid=1;jsessionid=2;b/", id="an escaped session beside a raw one"),
    ],
)
@pytest.mark.parametrize("name", POLICIES)
def test_laws_hold_where_the_raw_host_ends_elsewhere_than_the_host(name, url):
    assert_laws(url, name)
    assert_steps_agree(url, name)


@given(urls)
def test_redaction_never_raises_and_is_stable(url):
    assert redact(redact(url)) == redact(url)


# -- ada -------------------------------------------------------------------------------------------------

UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
LEGAL = UNRESERVED | frozenset(":/?#[]@!$&'()*+,;=%")


def percent_normalised(text: str) -> str:
    """Read a text character by character: the rule of the project, written another way."""
    done, at, bare = "", 0, -9
    while at < len(text):
        if text[at] == "%" and re.match("[0-9A-Fa-f]{2}", text[at + 1 : at + 3]):
            octet = chr(int(text[at + 1 : at + 3], 16))
            builds_escape = bare == at - 1 or (bare == at - 2 and text[at - 1] in "0123456789ABCDEFabcdef")
            done += octet if octet in UNRESERVED and not builds_escape else text[at : at + 3].upper()
            at += 3
            continue
        if text[at] == "%":
            bare = at
        done += text[at] if text[at] in LEGAL else "".join(f"%{octet:02X}" for octet in text[at].encode())
        at += 1
    return done


def expected_key(href: str) -> str:
    origin_length = href.index("/", len("https://"))
    before, hash_mark, fragment = percent_normalised(href[origin_length:]).partition("#")
    fragment = fragment.partition(":~:")[0].replace("#", "%23")
    return href[:origin_length] + before + (hash_mark + fragment if fragment else "")


def has_user(href: str) -> bool:
    return "@" in href.partition("://")[2].partition("/")[0]


def assert_like_ada(url: str, parse) -> bool:
    try:
        href = parse(url).href
    except (ValueError, UnicodeError):
        return False
    if not href.startswith("http") or has_user(href):
        return False
    decision = POLICIES["conservative"].decide(url)
    assert decision.key == expected_key(href), (url, href)
    assert POLICIES["standard"].decide(href).key == POLICIES["standard"].decide(url).key, (url, href)
    return True


def fuzz(made, parse) -> None:
    """Hold each URL to the laws of one policy in turn, and to ada."""
    judged = 0
    for url, name in zip(made, itertools.cycle(POLICIES)):
        assert_laws(url, name)
        assert_steps_agree(url, name)
        judged += assert_like_ada(url, parse)
    assert judged


def test_2_000_fuzzed_urls_keep_the_laws_and_agree_with_ada(fuzzed_urls):
    ada_url = pytest.importorskip("ada_url")
    fuzz(fuzzed_urls(2_000), ada_url.URL)


@pytest.mark.slow
def test_100_000_fuzzed_urls_keep_the_laws_and_agree_with_ada(fuzzed_urls):
    ada_url = pytest.importorskip("ada_url")
    fuzz(fuzzed_urls(100_000), ada_url.URL)
