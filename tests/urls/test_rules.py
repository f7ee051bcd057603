"""Every kind of rule for hosts: what it does to the key, to what is sent, and to the verdict."""

from __future__ import annotations

import pytest

from scrapy_dedup.errors import ConfigError
from scrapy_dedup.urls import Change, UrlPolicy, Verdict

SHOP = "https://shop.example"


def policy(preset: str = "standard", pattern: str = "shop.example", **rules) -> UrlPolicy:
    return UrlPolicy.preset(preset, {pattern: rules})


def problems(hosts, preset="standard") -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        UrlPolicy.preset(preset, hosts)
    return caught.value.problems


# Each row: rules, what is linked, the key, what is sent (None: as linked), and the verdict or reason.
ROWS = [
    ({"allow": ["id"]}, "/p?color=red&id=7", "/p?id=7", "/p?id=7", "rewrite"),
    ({"allow": ["id"]}, "/p?page=2&id=7", "/p?id=7&page=2", "/p?page=2&id=7", "allow"),
    ({"allow": ["id"], "force": ["page"]}, "/p?page=2&id=7", "/p?id=7", "/p?id=7", "rewrite"),
    ({"allow": []}, "/p?color=red", "/p", "/p", "rewrite"),
    ({"allow": ["id"], "keep": ["lang"]}, "/p?lang=de&x=1", "/p?lang=de", "/p?lang=de", "rewrite"),
    ({"allow": ["f[0]"]}, "/p?f%5b0%5d=a", "/p?f%5B0%5D=a", "/p?f%5b0%5d=a", "allow"),
    ({"facets": ["color"]}, "/p?color=red&id=7", "/p?id=7", "/p?id=7", "rewrite"),
    (
        {"facets": ["color"], "on_disallowed": "reject"},
        "/p?id=7&color=red",
        "/p?color=red&id=7",
        None,
        "facet",
    ),
    ({"allow": ["id"], "on_disallowed": "reject"}, "/p?size=1&id=7", "/p?id=7&size=1", None, "facet"),
    ({"drop": ["ref"]}, "/p?ref=a&id=7", "/p?id=7", "/p?id=7", "rewrite"),
    ({"drop": ["page"], "force": ["page"]}, "/p?page=2", "/p", "/p", "rewrite"),
    ({"keep": ["utm_source"]}, "/p?utm_source=a", "/p?utm_source=a", "/p?utm_source=a", "allow"),
    ({"keep": ["sid"]}, f"/p?sid={'a1' * 16}", f"/p?sid={'a1' * 16}", f"/p?sid={'a1' * 16}", "allow"),
    ({"values": {"start": ["0"]}}, "/p?start=0", "/p", "/p", "rewrite"),
    ({"values": {"start": ["0"]}}, "/p?start=10", "/p?start=10", "/p?start=10", "allow"),
    ({"values": {"start": ["a=b"]}}, "/p?start=a=b", "/p", "/p", "rewrite"),
    ({"values": {"b": ["0"]}}, "/p?b=%30&b=1&a=%7e&b=0", "/p?a=~&b=1", "/p?b=1&a=%7e", "rewrite"),
    ({"deny": ["/cart/*"]}, "/cart/3?a=1", "/cart/3?a=1", None, "denied"),
    ({"deny": ["/cart/*"]}, "/cart/", "/cart", None, "denied"),
    ({"deny": ["*.pdf"]}, "/a/b.pdf", "/a/b.pdf", None, "denied"),
    ({"deny": ["/cart/*"]}, "/cartoon", "/cartoon", "/cartoon", "allow"),
    ({"path_case": "lower"}, "/Page.ASPX", "/page.aspx", "/Page.ASPX", "allow"),
    ({"path_case": "lower"}, "/%C3%89T%2F", "/%C3%89t%2F", "/%C3%89T%2F", "allow"),
    ({"trailing_slash": "keep"}, "/a/", "/a/", "/a/", "allow"),
    ({"fragment": "keep"}, "/a#top", "/a#top", "/a#top", "allow"),
    ({"fragment": "drop"}, "/a#!/x", "/a", "/a#!/x", "allow"),
    ({"separators": ["&", ";"]}, "/p?b=1;a=2", "/p?a=2&b=1", "/p?b=1;a=2", "allow"),
    (
        {"separators": ["&", ";"], "drop": ["b"]},
        "/p?a=1;b=2;c=3&d=4",
        "/p?a=1&c=3&d=4",
        "/p?a=1;c=3&d=4",
        "rewrite",
    ),
    ({"separators": ["&", ";"], "drop": ["a"]}, "/p?a=1;c=3", "/p?c=3", "/p?c=3", "rewrite"),
    ({"separators": [";"]}, "/p?b=1&x;a=2", "/p?a=2;b=1&x", "/p?b=1&x;a=2", "allow"),
    ({"index_files": ["index.html"]}, "/docs/index.html", "/docs", "/docs/index.html", "allow"),
    (
        {"index_files": ["index.html"], "trailing_slash": "keep"},
        "/docs/index.html",
        "/docs/",
        "/docs/index.html",
        "allow",
    ),
    (
        {"paths": [{"path": "/search/*", "allow": ["q"]}]},
        "/search/?q=a&x=1",
        "/search?q=a",
        "/search/?q=a",
        "rewrite",
    ),
    ({"paths": [{"path": "/search/*", "allow": ["q"]}]}, "/other?x=1", "/other?x=1", "/other?x=1", "allow"),
    (
        {"drop": ["x"], "paths": [{"path": "/a/b/*", "drop": []}, {"path": "/a/*", "drop": ["y"]}]},
        "/a/b/c?x=1&y=2",
        "/a/b/c?x=1&y=2",
        "/a/b/c?x=1&y=2",
        "allow",
    ),
    (
        {"path_case": "lower", "paths": [{"path": "/docs/*", "drop": ["v"]}]},
        "/DOCS/a?v=1",
        "/docs/a",
        "/DOCS/a",
        "rewrite",
    ),
]


@pytest.mark.parametrize(
    ("rules", "linked", "key", "sent", "outcome"), ROWS, ids=lambda value: str(value)[:60]
)
def test_a_rule_shapes_key_fetch_url_and_verdict(rules, linked, key, sent, outcome):
    decision = policy(**rules).decide(SHOP + linked)
    assert decision.key == SHOP + key
    assert decision.fetch_url == SHOP + (linked if sent is None else sent)
    assert (decision.reason or decision.verdict.value) == outcome


@pytest.mark.parametrize("preset", ["standard", "conservative"])
@pytest.mark.parametrize(
    "rules",
    [{"allow": ["id"]}, {"drop": ["color"]}, {"facets": ["color"]}, {"values": {"color": ["red"]}}],
    ids=str,
)
def test_parameter_rules_hold_under_both_presets(preset, rules):
    decision = policy(preset, **rules).decide(f"{SHOP}/p?id=7&color=red")
    assert decision.key == decision.fetch_url == f"{SHOP}/p?id=7"


def test_a_host_rule_never_switches_universal_rules_off():
    decision = policy(allow=["id", "utm_source"]).decide(f"{SHOP}/p?id=7&utm_source=x&sid={'a1' * 16}")
    assert decision.key == f"{SHOP}/p?id=7"
    assert decision.changes == (Change("tracking", "utm_source"), Change("session", "sid"))


@pytest.mark.parametrize("name", ["page", "p", "start", "offset", "cursor", "Page"])
def test_an_allowlist_lets_pagination_pass(name):
    assert policy(allow=["id"]).decide(f"{SHOP}/p?{name}=2").verdict is Verdict.ALLOW


def test_a_refused_facet_keeps_its_parameters_in_the_key():
    refusing = policy(allow=["id"], on_disallowed="reject")
    assert refusing.decide(f"{SHOP}/p?color=red").key != refusing.decide(f"{SHOP}/p").key


def test_facets_are_told_apart_from_other_drops():
    shop = policy(allow=["id"])
    assert shop.drops_facets(f"{SHOP}/p?color=red")
    assert not shop.drops_facets(f"{SHOP}/p?id=1&page=2&utm_source=x")
    assert not shop.drops_facets("https://other.example/p?color=red")


PATTERNS = [
    ("shop.example", "shop.example", True),
    ("shop.example", "www.shop.example", False),
    ("*.shop.example", "www.shop.example", True),
    ("*.shop.example", "a.b.shop.example", True),
    ("*.shop.example", "shop.example", False),
    (".shop.example", "shop.example", True),
    (".shop.example", "www.shop.example", True),
    (".shop.example", "myshop.example", False),
    ("shop.example:8080", "shop.example:8080", True),
    ("shop.example:8080", "shop.example", False),
    ("shop.example", "shop.example:8080", True),
    ("Shop.Example", "shop.example", True),
    ("shop.example", "shop.example.", True),
    ("bücher.example", "xn--bcher-kva.example", True),
    ("192.0.2.1", "192.0.2.1", True),
    ("[2001:db8::1]:8080", "[2001:DB8:0::1]:8080", True),
]


@pytest.mark.parametrize(("pattern", "host", "covered"), PATTERNS)
def test_a_pattern_covers_a_host_or_does_not(pattern, host, covered):
    decision = policy(pattern=pattern, drop=["x"]).decide(f"http://{host}/?x=1")
    assert (decision.verdict is Verdict.REWRITE) == covered


def test_the_most_specific_pattern_wins_key_by_key():
    shop = UrlPolicy.preset(
        "standard",
        {
            "www.shop.example": {"drop": ["c"]},
            "*.shop.example": {"drop": ["b"], "trailing_slash": "keep"},
            ".example.org": {"drop": ["z"]},
            ".shop.example": {"drop": ["a"], "fragment": "keep"},
        },
    )
    assert (
        shop.decide("https://www.shop.example/p/?a=1&b=2&c=3#f").key
        == "https://www.shop.example/p/?a=1&b=2#f"
    )
    assert shop.decide("https://m.shop.example/p/?a=1&b=2&c=3#f").key == "https://m.shop.example/p/?a=1&c=3#f"


# -- aliases ---------------------------------------------------------------------------------------------


def test_a_scheme_alias_makes_https_the_key_and_sends_what_was_linked():
    decision = policy(scheme_alias=True).decide("http://shop.example:80/a")
    assert decision.key == "https://shop.example/a"
    assert decision.fetch_url == "http://shop.example:80/a"
    assert Change("scheme_alias", "http") in decision.changes


def test_a_scheme_alias_leaves_other_ports_alone():
    assert policy(scheme_alias=True).decide("http://shop.example:8080/a").key == "http://shop.example:8080/a"


@pytest.mark.parametrize("pattern", ["shop.example", ".shop.example", "www.shop.example"])
def test_a_www_alias_joins_both_hosts_and_their_rules(pattern):
    shop = policy(pattern=pattern, www_alias=True, drop=["x"])
    for host in ("shop.example", "www.shop.example"):
        assert shop.decide(f"https://{host}/a?x=1").key == "https://shop.example/a"
        assert shop.decide(f"https://{host}/a?x=1").fetch_url == f"https://{host}/a"


@pytest.mark.parametrize("host", ["www.com", "www.co.uk", "www.github.io", "www.example"])
def test_www_is_kept_where_only_a_suffix_would_remain(host):
    assert policy(pattern=host, www_alias=True).decide(f"https://{host}/").key == f"https://{host}/"


# -- problems --------------------------------------------------------------------------------------------


def test_all_problems_are_reported_at_once():
    found = problems(
        {
            "shop.example": {
                "alow": ["id"],
                "trailing_slash": "strip",
                "keep": "lang",
                "www_alias": "yes",
                "values": {"a": 1},
                "deny": ["cart/*"],
                "separators": ["|"],
                "paths": [{"drop": [7]}, "x"],
            },
            "*.co.uk": {},
            "https://x.example/": {},
            "a.*.example": {},
        },
        preset="standrad",
    )
    text = "\n".join(found)
    assert len(found) == 14
    assert "did you mean 'standard'" in text
    assert "did you mean 'allow'" in text
    assert "'co.uk'" in text
    assert "paths[0] needs a path pattern" in text


ONE_PROBLEM = [
    ({"drop": ["page"]}, "force = ['page']"),
    ({"facets": ["Offset"]}, "force = ['Offset']"),
    ({"keep": ["a"], "drop": ["a"]}, "both in keep and in drop"),
    ({"allow": ["f[0]"], "facets": ["f%5b0%5d"]}, "both in allow and in facets"),
    ({"path": "/x"}, "unknown key 'path'"),
    ({"paths": [{"path": "/x", "www_alias": True}]}, "unknown key 'www_alias'"),
    ({"paths": {"path": "/x"}}, "must be a list of at most 200 tables"),
    ({"index_files": ["a/index.html"]}, "without /"),
    ({"deny": ["/search?q=*"]}, "without ? and #"),
    ({"on_disallowed": "deny"}, "drop, reject"),
    ({"allow": [""]}, "a list of parameter names"),
    ({7: True}, "unknown key 7"),
]


@pytest.mark.parametrize(("rules", "part"), ONE_PROBLEM, ids=str)
def test_a_faulty_rule_is_one_problem(rules, part):
    (problem,) = problems({"shop.example": rules})
    assert part in problem
    assert "shop.example" in problem


@pytest.mark.parametrize(
    "pattern", ["", ".", "*", "*.", "*.com", ".com", "*.co.uk", ".github.io", "*.*.example", "a b", 7]
)
def test_a_pattern_that_covers_too_much_or_nothing_is_a_problem(pattern):
    assert len(problems({pattern: {}})) == 1


def test_no_more_problems_are_listed_than_anybody_reads():
    found = problems({f"shop{number}.example": {"alow": []} for number in range(5_000)})
    assert len(found) == 1_001
    assert found[-1] == "there may be more: only the first 1,000 are listed"


def test_two_spellings_of_one_pattern_are_a_problem():
    assert "same pattern" in problems({"shop.example": {}, "SHOP.example": {}})[0]


def test_an_alias_needs_a_pattern_without_a_port():
    assert "port" in problems({"shop.example:80": {"scheme_alias": True}})[0]


@pytest.mark.parametrize("hosts", [[], "x", 7], ids=str)
def test_hosts_must_be_a_table(hosts):
    assert "must be a table" in problems(hosts)[0]


def test_rules_of_a_host_must_be_a_table():
    assert "must be a table" in problems({"shop.example": ["drop"]})[0]


# -- files -----------------------------------------------------------------------------------------------

RULE_FILE = """
preset = "conservative"

[hosts."shop.example"]
allow = ["id"]

[[hosts."shop.example".paths]]
path = "/search/*"
allow = ["q"]
"""


def test_a_rule_file_is_read(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text(RULE_FILE)
    shop = UrlPolicy.from_file(file)
    assert shop.name == "conservative"
    assert shop.decide(f"{SHOP}/search/?q=a&id=1").key == f"{SHOP}/search/?q=a"


def test_settings_override_a_rule_file_key_by_key(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text(RULE_FILE)
    shop = UrlPolicy.from_file(
        file, hosts={"shop.example": {"allow": ["x"]}, "other.example": {"drop": ["y"]}}
    )
    assert shop.decide(f"{SHOP}/?id=1&x=2").key == f"{SHOP}/?x=2"
    assert shop.decide(f"{SHOP}/search/?q=a&x=1").key == f"{SHOP}/search/?q=a"
    assert shop.decide("https://other.example/?y=1").key == "https://other.example/"


FAULTY_FILES = [
    (b"preset = ", "no TOML"),
    (b"\xff", "no TOML"),
    (b"a = " + b"[" * 200_000, "no TOML"),
    (b"#" * 1_000_001, "larger than"),
    (b"presets = 'standard'", "did you mean 'preset'"),
    (b"hosts = 3", "must be a table"),
    (b"preset = 7", "preset must be one of"),
]


@pytest.mark.parametrize(("data", "part"), FAULTY_FILES, ids=lambda value: str(value)[:20])
def test_a_faulty_rule_file_is_a_config_error(tmp_path, data, part):
    file = tmp_path / "rules.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        UrlPolicy.from_file(file)
    assert part in caught.value.problems[0]
    assert caught.value.source == str(file)


@pytest.mark.parametrize("name", ["missing.toml", "", "x\0y"])
def test_a_rule_file_that_is_none_is_a_config_error(tmp_path, name):
    with pytest.raises(ConfigError):
        UrlPolicy.from_file(tmp_path / name if name else tmp_path)
