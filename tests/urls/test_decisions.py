"""What a decision says: verdict, reason, changes, what is sent, and the id of the policy."""

from __future__ import annotations

import json
import time

import pytest

from scrapy_dedup.errors import ConfigError
from scrapy_dedup.urls import Change, UrlDecision, UrlPolicy, Verdict, redact, site_of
from scrapy_dedup.urls.fast import Lane, Memory
from scrapy_dedup.urls.hosts import HostRules
from scrapy_dedup.urls.rules import Rules
from scrapy_dedup.urls.steps import PRESETS

STANDARD = UrlPolicy.preset("standard")
CONSERVATIVE = UrlPolicy.preset("conservative")


def test_an_ordinary_url_is_its_own_key_and_fetch_url():
    url = "https://shop.example/a?b=1"
    decision = STANDARD.decide(url)
    assert decision == UrlDecision(
        url, url, url, Verdict.ALLOW, None, (), STANDARD.decide("https://x.example/").policy_id
    )
    assert decision.key is url
    assert decision.fetch_url is url


SENT = [
    ("https://Shop.Example:443/A/?b=2&a=1#top", "https://Shop.Example:443/A/?b=2&a=1#top"),
    ("https://h.example/a?utm_source=x&b=2&a=1", "https://h.example/a?b=2&a=1"),
    ("https://h.example/a?b=%7e&utm_source=x&c=é#x y", "https://h.example/a?b=%7e&c=é#x y"),
    ("https://h.example/a/?utm_source=x", "https://h.example/a/"),
    ("https://h.example/a?utm_source=x#top", "https://h.example/a#top"),
    ("https://h.example/a?&b=1&&utm_source=x&", "https://h.example/a?&b=1&&"),
    (
        "https://h.example/img?w=1&h=2&s=0123456789abcdef0123456789abcdef",
        "https://h.example/img?w=1&h=2&s=0123456789abcdef0123456789abcdef",
    ),
    ("https://h.example/X;jsessionid=A.n1;v=1/%7e?a=1", "https://h.example/X;v=1/%7e?a=1"),
    ("https://h.example/../a b?gclid=1", "https://h.example/../a%20b".replace("%20", " ")),
    ("https://h.example/a ?gclid=1", "https://h.example/a%20"),
    (" https://h.example/a?gclid=1\n", "https://h.example/a"),
    ("http://h.example;jsessionid=A:8080/x", "http://h.example:8080/x"),
    ("http://h.example;jsessionid=E460.tpdila09v_2?p=v", "http://h.example?p=v"),
]


@pytest.mark.parametrize(("linked", "sent"), SENT)
def test_what_is_sent_is_the_url_as_linked_less_what_must_not_be_sent(linked, sent):
    decision = STANDARD.decide(linked)
    assert decision.fetch_url == sent
    assert decision.verdict is (Verdict.ALLOW if sent == linked else Verdict.REWRITE)


CHANGES = [
    ("HTTPS://h.example/a", ("scheme_case", "")),
    ("https://H.example/a", ("host_case", "")),
    ("https://bücher.example/a", ("host_form", "")),
    ("https://h.example:0443/a", ("default_port", ":0443")),
    ("https://h.example:08080/a", ("port_form", ":08080")),
    ("https://h.example", ("empty_path", "")),
    ("https://h.example/a/../b", ("dot_segments", "")),
    ("https://h.example/%7Ea", ("percent_encoding", "path")),
    ("https://h.example/?a=%7E", ("percent_encoding", "query")),
    ("https://h.example/#!%7E", ("percent_encoding", "fragment")),
    ("https://h.example/a/", ("trailing_slash", "")),
    ("https://h.example/?b=1&a=2", ("query_order", "")),
    ("https://h.example/?a=1&", ("empty_parameter", "")),
    ("https://h.example/?", ("empty_parameter", "")),
    ("https://h.example/?utm%5Fsource=1", ("tracking", "utm_source")),
    ("https://h.example/?PHPSESSID=1", ("session", "PHPSESSID")),
    ("https://h.example/a;jsessionid=1", ("session", "path")),
    ("http://h.example;jsessionid=1/", ("session", "jsessionid")),
    ("https://h.example/#top", ("fragment", "")),
    ("https://h.example/#/a:~:text=b", ("fragment_directive", "")),
    (" https://h.example/", ("whitespace", "")),
    ("https:\\\\h.example/", ("slashes", "")),
    ("https:h.example/", ("slashes", "")),
    ("https://ann@h.example/", ("credentials", "")),
    ("ftp://h.example/", ("unsupported_scheme", "ftp")),
]


@pytest.mark.parametrize(("url", "change"), CHANGES)
def test_each_rule_that_acted_is_named(url, change):
    assert Change(*change) in STANDARD.decide(url).changes


DENIED = [
    ("http://ann:secret@h.example/", "credentials"),
    ("http://ann@h.example/", "credentials"),
    ("mailto:ann@h.example", "unsupported_scheme"),
    ("javascript:void(0)", "unsupported_scheme"),
    ("java\nscript:void(0)", "unsupported_scheme"),
    ("data:text/html,<p>", "unsupported_scheme"),
    ("ftp://h.example/", "unsupported_scheme"),
    ("file:///etc/passwd", "unsupported_scheme"),
]


@pytest.mark.parametrize(("url", "reason"), DENIED)
@pytest.mark.parametrize("policy", [STANDARD, CONSERVATIVE], ids=["standard", "conservative"])
def test_what_is_not_to_be_requested_is_denied_with_its_reason(policy, url, reason):
    decision = policy.decide(url)
    assert (decision.verdict, decision.reason, decision.fetch_url) == (Verdict.DENY, reason, url)


UNPARSEABLE = [
    "",
    " ",
    "/relative",
    "//h.example/a",
    "h.example",
    "?",
    "http://",
    "http:///",
    "https://[::1",
    "http://[::1]x/",
    "http://h:99999/",
    "http://h:x/",
    "http://a b/",
    "http://a%00b/",
    "http://1.2.3.256/",
    "http://256.1/",
    "http://0x/9.09",
    "http://[::1%25eth0]/",
    "http://h.example:80:80/",
    "http://%zz/",
    "http://%ff/",
    "http://\ud800.example/",
    "http://a|b/",
    "http://@/",
    "http://:80/",
]


@pytest.mark.parametrize("url", UNPARSEABLE)
def test_what_cannot_be_understood_is_allowed_as_it_stands(url):
    for policy in (STANDARD, CONSERVATIVE):
        decision = policy.decide(url)
        if decision.reason == "unparseable":
            assert (decision.key, decision.fetch_url, decision.verdict) == (url, url, Verdict.ALLOW)
        else:
            assert url == "http://0x/9.09"


HOSTILE = {
    "lone surrogates": "http://h.example/\ud800?\udfff=\ud800#\udc00",
    "NUL": "http://h.example/a\0b?c=\0",
    "a long path": "http://h.example/" + "a/" * 50_000,
    "a long host": "http://" + "a." * 50_000 + "example/",
    "a long number as host": "http://" + "9" * 100_000 + "/",
    "a long port": "http://h.example:" + "0" * 100_000 + "/",
    "percent signs": "http://h.example/" + "%" * 100_000,
    "dot segments": "http://h.example/" + "../" * 30_000,
    "slashes": "http://h.example" + "/" * 100_000,
    "at signs": "http://" + "@" * 100_000 + "h.example/",
    "colons": "http://" + ":" * 100_000,
    "parentheses": "http://h.example/(" + "A(1)" * 25_000 + "/x",
    "semicolons": "http://h.example/a" + ";jsessionid=1" * 8_000,
    "parameters": "http://h.example/?" + "&".join(f"p{number}=1" for number in range(10_000)),
    "session parameters": "http://h.example/?" + "&".join("cfid=1" for _ in range(10_000)),
    "tracking parameters": "http://h.example/?" + "&".join(f"utm_{number}=1" for number in range(10_000)),
    "ampersands": "http://h.example/?" + "&" * 100_000,
    "white space": " " * 100_000 + "http://h.example/" + "\t" * 100_000,
    "a scheme": "a" * 100_000 + ":",
    "an IDN": "http://" + "é" * 10_000 + ".example/",
}
PATHOLOGICAL = UrlPolicy.preset(
    "standard", {"h.example": {"deny": ["*a*b*c*d*e*f"], "paths": [{"path": "*a*a*a*a*z", "drop": ["x"]}]}}
)


@pytest.mark.parametrize("url", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "policy", [STANDARD, CONSERVATIVE, PATHOLOGICAL], ids=["standard", "conservative", "rules"]
)
def test_hostile_urls_are_decided_in_linear_time(policy, url):
    began = time.thread_time()
    decision = policy.decide(url)
    assert time.thread_time() - began < 2
    assert policy.decide(decision.key).key == decision.key


def test_what_is_remembered_is_bounded():
    preset = PRESETS["standard"]
    memory = Memory(preset, HostRules(preset.preset_id, preset.defaults, {}))
    for number in range(20_000):
        memory.site(f"http://h{number}.example")
    assert len(memory.sites) <= 16_384
    lane = Lane(Rules(), preset)
    for number in range(10_000):
        assert lane.fate[f"p{number}"] is None
    assert len(lane.fate) <= 4_096


# -- the id of the policy --------------------------------------------------------------------------------


def test_a_rule_for_another_host_does_not_change_the_id_of_a_host():
    rules = {"shop.example": {"allow": ["id"]}}
    before = UrlPolicy.preset("standard", rules)
    after = UrlPolicy.preset("standard", {**rules, "other.example": {"drop": ["x"]}})
    assert before.decide("https://shop.example/").policy_id == after.decide("https://shop.example/").policy_id
    assert before.decide("https://x.example/").policy_id == STANDARD.decide("https://y.example/").policy_id
    assert before.policy_id != after.policy_id


def test_the_id_of_a_host_changes_with_its_rules_and_with_the_preset():
    url = "https://shop.example/"
    ids = {
        UrlPolicy.preset(preset, {"shop.example": rules}).decide(url).policy_id
        for preset in ("standard", "conservative")
        for rules in ({}, {"allow": ["id"]}, {"allow": ["x"]}, {"paths": [{"path": "/x", "allow": ["id"]}]})
    }
    assert len(ids) == 8


def test_stored_policy_ids_do_not_change_unnoticed():
    assert STANDARD.decide("https://h.example/").policy_id == "standard-1:ae65b6942cbf01ef"
    assert CONSERVATIVE.decide("https://h.example/").policy_id == "conservative-1:8950eac529a2c59a"


def test_the_order_of_keys_does_not_change_an_id():
    first = UrlPolicy.preset("standard", {"a.example": {"drop": ["x"], "keep": ["y"]}, "b.example": {}})
    second = UrlPolicy.preset("standard", {"b.example": {}, "a.example": {"keep": ["y"], "drop": ["x"]}})
    assert first.policy_id == second.policy_id


def test_a_policy_survives_its_specification_as_json():
    rules = {
        ".shop.example": {
            "allow": ("id",),
            "values": {"start": ["0"]},
            "paths": [{"path": "/s/*", "drop": {"x"}}],
        }
    }
    policy = UrlPolicy.preset("standard", rules)
    again = UrlPolicy.from_spec(json.loads(json.dumps(policy.spec())))
    assert again.spec() == policy.spec()
    assert again.policy_id == policy.policy_id
    url = "https://www.shop.example/s/?id=1&x=2&start=0&c=3"
    assert again.decide(url) == policy.decide(url)


def test_an_unknown_key_of_a_specification_is_a_problem():
    with pytest.raises(ConfigError, match="did you mean 'hosts'"):
        UrlPolicy.from_spec({"preset": "standard", "host": {}})


def test_the_conservative_key_knows_no_host_rules():
    policy = UrlPolicy.preset("standard", {"shop.example": {"allow": []}})
    assert policy.conservative_key("https://Shop.example/p?b=1&a=2#x") == "https://shop.example/p?b=1&a=2#x"


# -- redaction and sites ---------------------------------------------------------------------------------

REDACTED = [
    ("https://ann:secret@shop.example/a@b?c@d", "https://***@shop.example/a@b?c@d"),
    ("https://ann@shop.example", "https://***@shop.example"),
    ("https://a@b:secret@shop.example/", "https://***@shop.example/"),
    ("http:ann:secret@shop.example/", "http:***@shop.example/"),
    ("http:\\\\ann:secret@shop.example\\x", "http:\\\\***@shop.example\\x"),
    ("ftp://ann:secret@shop.example/", "ftp://***@shop.example/"),
    ("//ann:secret@shop.example/", "//***@shop.example/"),
    (" http://ann:secret@[::1", " http://***@[::1"),
    ("https://shop.example/?mail=ann@x.example", "https://shop.example/?mail=ann@x.example"),
    ("mailto:ann@shop.example", "mailto:ann@shop.example"),
    ("", ""),
]


@pytest.mark.parametrize(("url", "redacted"), REDACTED)
def test_user_info_is_redacted(url, redacted):
    assert redact(url) == redacted


SITES = [
    ("shop.example", "shop.example"),
    ("a.b.shop.example", "shop.example"),
    ("www.bbc.co.uk", "bbc.co.uk"),
    ("alice.github.io", "alice.github.io"),
    ("x.alice.github.io", "alice.github.io"),
    ("WWW.Example.COM.", "example.com"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("github.io", None),
    ("co.uk", None),
    ("com", None),
    ("localhost", None),
    ("192.0.2.1", None),
    ("[2001:db8::1]", None),
    ("", None),
    ("..", None),
]


@pytest.mark.parametrize(("host", "site"), SITES)
def test_the_site_of_a_host_is_its_registrable_domain(host, site):
    assert site_of(host) == site
