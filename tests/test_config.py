"""Settings as the command line and settings.py give them."""

from __future__ import annotations

import pytest

from scrapy_dedup.config import Config
from scrapy_dedup.content import ExtractOptions
from scrapy_dedup.errors import ConfigError


def test_options_of_the_extraction_can_be_given_on_the_command_line(tmp_path):
    options = '{"focus": "precision", "include_comments": true}'
    config = Config.from_settings({"DEDUP_EXTRACT": options}, base_dir=tmp_path)
    assert config.extract == ExtractOptions(focus="precision", include_comments=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEDUP_EXTRACT", "[1]"),
        ("DEDUP_EXTRACT", "{"),
        ("DEDUP_EXTRACT", "[" * 100_000),
        ("DEDUP_HOSTS", "[" * 100_000),
        ("DEDUP_EXTRACT_TIMEOUT", 10**400),
    ],
)
def test_a_wrong_value_is_a_problem_and_no_crash(tmp_path, name, value):
    with pytest.raises(ConfigError, match=name):
        Config.from_settings({name: value}, base_dir=tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:se@cret/secret@host/name",
        "mysql://me@host/name?password=secret&sslmode=require",
    ],
)
def test_a_password_in_a_wrong_ledger_url_is_not_repeated(tmp_path, url):
    with pytest.raises(ConfigError) as caught:
        Config.from_settings({"DEDUP_LEDGER": url}, base_dir=tmp_path)
    assert "cret" not in str(caught.value)
    assert "mysql://me" in str(caught.value)


def test_a_misspelt_preset_names_its_setting_and_the_preset(tmp_path):
    with pytest.raises(ConfigError, match=r"DEDUP_URL_POLICY = 'standrad'.*did you mean 'standard'"):
        Config.from_settings({"DEDUP_URL_POLICY": "standrad"}, base_dir=tmp_path)


def test_wrong_rules_of_hosts_name_their_setting(tmp_path):
    with pytest.raises(ConfigError, match=r"DEDUP_HOSTS: "):
        Config.from_settings({"DEDUP_HOSTS": {"shop.example": {"alow": ["id"]}}}, base_dir=tmp_path)


@pytest.mark.parametrize(("value", "crawl_delay"), [("0", False), ("off", False), ("True", True)])
def test_keeping_crawl_delays_is_a_switch_that_shapes_no_result(tmp_path, value, crawl_delay):
    default = Config.from_settings({}, base_dir=tmp_path)
    config = Config.from_settings({"DEDUP_CRAWL_DELAY": value}, base_dir=tmp_path)
    assert (default.crawl_delay, config.crawl_delay) == (True, crawl_delay)
    assert config.settings_digest == default.settings_digest


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("off", None),
        ("7d", 604_800),
        ("12h", 43_200),
        ("30m", 1_800),
        ("1.5 h", 5_400),
        ("90s", 90),
        ("90", 90),
        (90, 90),
        (0.5, 0.5),
    ],
    ids=repr,
)
def test_freshness_is_a_length_of_time(tmp_path, value, seconds):
    config = Config.from_settings({"DEDUP_FRESHNESS": value}, base_dir=tmp_path)
    assert config.freshness_s == seconds
    default = Config.from_settings({}, base_dir=tmp_path)
    assert (config.settings_digest == default.settings_digest) == (seconds is None)


@pytest.mark.parametrize(
    "value",
    ["", "7 days", "d", "-1", "0", 0, True, "7w", "1e3", float("nan"), float("inf"), "9999d", [7]],
)
def test_a_wrong_freshness_says_how_to_write_it(tmp_path, value):
    with pytest.raises(ConfigError, match=r"DEDUP_FRESHNESS is .*'7d', '12h', '30m'"):
        Config.from_settings({"DEDUP_FRESHNESS": value}, base_dir=tmp_path)


@pytest.mark.parametrize("value", ["", "Fetch", None, True, ["fetch"]])
def test_a_wrong_use_of_canonicals_names_the_right_ones(tmp_path, value):
    with pytest.raises(ConfigError, match=r"DEDUP_CANONICAL is .*use 'record', 'fetch' or 'skip'"):
        Config.from_settings({"DEDUP_CANONICAL": value}, base_dir=tmp_path)


def test_skipping_by_canonicals_needs_a_freshness(tmp_path):
    with pytest.raises(ConfigError, match="DEDUP_FRESHNESS is off"):
        Config.from_settings({"DEDUP_CANONICAL": "skip"}, base_dir=tmp_path)
    skipping = {"DEDUP_CANONICAL": "skip", "DEDUP_FRESHNESS": "7d"}
    assert Config.from_settings(skipping, base_dir=tmp_path).canonical == "skip"


def test_what_is_fetched_for_canonicals_is_part_of_the_identity_of_the_settings(tmp_path):
    digests = {
        Config.from_settings({"DEDUP_CANONICAL": value}, base_dir=tmp_path).settings_digest
        for value in ("record", "fetch")
    }
    assert len(digests) == 2


NEAR_PROBLEMS = [
    ("DEDUP_NEAR", "on", "use 'off', 'review' or 'suppress'"),
    ("DEDUP_NEAR", True, "use 'off', 'review' or 'suppress'"),
    ("DEDUP_SIMHASH_DISTANCE", 8, "use a whole number from 0 to 7"),
    ("DEDUP_SIMHASH_DISTANCE", "few", "use a whole number from 0 to 7"),
    ("DEDUP_NEAR_JACCARD", 80, "use a number from 0.5 to 1"),
    ("DEDUP_NEAR_JACCARD", 0.49, "use a number from 0.5 to 1"),
    ("DEDUP_NEAR_JACCARD", True, "use a number from 0.5 to 1"),
    ("DEDUP_NEAR_JACCARD", float("nan"), "use a number from 0.5 to 1"),
    ("DEDUP_NEAR_JACCARD", "all", "use a number from 0.5 to 1"),
]


@pytest.mark.parametrize(("name", "value", "advice"), NEAR_PROBLEMS, ids=repr)
def test_a_wrong_setting_for_similar_texts_names_the_right_ones(tmp_path, name, value, advice):
    with pytest.raises(ConfigError, match=f"{name} is .*{advice}"):
        Config.from_settings({name: value}, base_dir=tmp_path)


def test_what_is_done_about_similar_texts_is_part_of_the_identity_of_the_settings(tmp_path):
    default = Config.from_settings({}, base_dir=tmp_path)
    assert (default.near, default.simhash_distance, default.near_jaccard) == ("review", 7, 0.8)
    others = [{"DEDUP_NEAR": "off"}, {"DEDUP_SIMHASH_DISTANCE": "3"}, {"DEDUP_NEAR_JACCARD": "0.9"}]
    digests = {Config.from_settings(one, base_dir=tmp_path).settings_digest for one in others}
    assert len({*digests, default.settings_digest}) == 4
