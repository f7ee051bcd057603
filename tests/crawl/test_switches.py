"""The suite is switched and set up for a project or for a spider, and stays out of the way."""

from __future__ import annotations

import json

import pytest

from .server import page

SPIDER = """
import scrapy

class Own(scrapy.Spider):
    name = "own"
    {body}

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/"]

    def parse(self, response):
        yield {{"url": response.url, "price": 1}}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
"""

ROUTES = {
    "/": page("index", ["/a?utm_source=x", "/a", "/b?color=red", "/b"]),
    "/a": page("a"),
    "/b": page("b"),
    "/b?color=red": page("b red"),
}


@pytest.fixture(scope="module")
def site(serve):
    return serve(ROUTES)


@pytest.fixture
def own(site, crawl, tmp_path):
    """Return a function that crawls with a class body and settings of one's own."""

    def run(body="", **options):
        site.site.forget_hits()
        return crawl(SPIDER.format(body=body), base=site.base, folder=tmp_path, **options)

    return run


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_switched_off_it_does_nothing_and_its_formats_do_not_break_feeds(own, site):
    feeds = {
        "own.jsonl": {"format": "jsonlines"},
        "rows.jsonl": {"format": "observations"},
        "texts.jsonl": {"format": "bodies"},
    }

    result = own(settings={"DEDUP_ENABLED": False, "FEEDS": feeds})

    assert result.exit_code == 0
    assert len(lines(result.folder / "own.jsonl")) == len(result.items) == 5
    assert not result.ledger_path.exists()
    assert not (result.folder / "dedup").exists()
    assert {name for name in result.stats if name.startswith("dedup/")} <= {"dedup/feed/foreign_items"}
    assert sorted(site.site.targets()) == ["/", "/a", "/a?utm_source=x", "/b", "/b?color=red"]


def test_one_line_gives_two_feeds_and_a_ledger(own, site):
    result = own()

    assert result.exit_code == 0
    feeds = sorted(path.name for path in (result.folder / "dedup").iterdir())
    assert feeds == ["bodies.jsonl", "observations.jsonl"]
    assert len(result.feed("observation")) == len(result.ledger.observations) == 4
    assert len(result.feed("body")) == len(result.ledger.bodies) == 4


@pytest.mark.slow
def test_a_feed_in_one_of_our_formats_replaces_the_two(own):
    result = own(settings={"FEEDS": {"out/pages.jsonl": {"format": "bodies"}}})

    assert not (result.folder / "dedup").exists()
    assert len(lines(result.folder / "out" / "pages.jsonl")) == 4


def test_feeds_of_the_user_hold_the_items_of_the_user(own):
    result = own(settings={"FEEDS": {"own.jsonl": {"format": "jsonlines"}, "own.csv": {"format": "csv"}}})

    assert sorted(record["price"] for record in lines(result.folder / "own.jsonl")) == [1, 1, 1, 1]
    assert len((result.folder / "own.csv").read_text().splitlines()) == 5
    assert len(result.feed("observation")) == 4


def test_settings_of_a_spider_configure_it(own, site):
    result = own(
        """custom_settings = {
        "DEDUP_LEDGER": "sqlite:///mine.db",
        "DEDUP_CORPUS": "mine",
        "DEDUP_HOSTS": {"127.0.0.1": {"allow": ["page"]}},
    }"""
    )

    assert not result.ledger_path.exists()
    assert (result.folder / "mine.db").exists()
    assert sorted(site.site.targets()) == ["/", "/a", "/b"]


@pytest.mark.slow
def test_the_addon_can_stand_in_the_settings_of_one_spider(own):
    result = own('custom_settings = {"ADDONS": {"scrapy_dedup.Addon": 500}}', addon=False)

    assert len(result.ledger.observations) == 4
    assert len(result.feed("body")) == 4


@pytest.mark.slow
def test_a_spider_can_update_its_settings_itself(own, site):
    result = own(
        """@classmethod
    def update_settings(cls, settings):
        super().update_settings(settings)
        settings.set("DEDUP_URL_POLICY", "conservative", priority="spider")
        settings.set("DEDUP_JOB_ID", "night-1", priority="spider")
"""
    )

    assert sorted(site.site.targets()) == ["/", "/a", "/a?utm_source=x", "/b", "/b?color=red"]
    assert [job.job_id for job in result.ledger.jobs] == ["night-1"]
    assert {row.policy_id.partition("-")[0] for row in result.ledger.observations} == {"conservative"}


def test_a_spider_can_switch_it_off_for_itself(own):
    result = own('custom_settings = {"DEDUP_ENABLED": False}')

    assert result.exit_code == 0
    assert not result.ledger_path.exists()


def test_without_automatic_pages_only_page_items_become_bodies(own):
    result = own(settings={"DEDUP_AUTO_PAGES": False})

    assert result.exit_code == 0
    assert len(result.items) == 4
    assert not result.ledger_path.exists() or result.ledger.bodies == ()


def test_rules_can_come_from_a_file_beside_scrapy_cfg(own, site, tmp_path):
    (tmp_path / "rules.toml").write_text(
        'preset = "standard"\n\n[hosts."127.0.0.1"]\nallow = ["page"]\non_disallowed = "reject"\n'
    )

    result = own(settings={"DEDUP_URL_POLICY": "rules.toml"})

    assert sorted(site.site.targets()) == ["/", "/a", "/b"]
    denied = [alias for alias in result.ledger.aliases if alias.verdict == "denied"]
    assert [alias.raw_url for alias in denied] == [f"{site.base}/b?color=red"]


def test_a_second_run_adds_observations_and_no_bodies(own, site):
    first = own()
    bodies, observations = first.ledger.bodies, first.ledger.observations

    second = own()

    assert second.ledger.bodies == bodies
    assert second.ledger.observations[: len(observations)] == observations
    new = second.ledger.observations[len(observations) :]
    assert {(row.action, row.reason) for row in new} == {("reuse", "text_equal")}
    assert len(second.ledger.jobs) == 2
    assert second.stats.get("dedup/bodies/new", 0) == 0
    assert len(second.feed("observation")) == 2 * len(observations)
    assert len(second.feed("body")) == len(bodies)  # appended to; no text is written twice


@pytest.mark.slow
def test_another_corpus_shares_no_text(own):
    own()

    second = own(settings={"DEDUP_CORPUS": "other"})

    assert len(second.ledger.bodies) == 8
    assert {body.corpus for body in second.ledger.bodies} == {"default", "other"}
    texts = [body.text_digest for body in second.ledger.bodies]
    assert len(set(texts)) == 4


@pytest.mark.slow
def test_a_changed_page_is_a_new_body_and_a_revision(own, site):
    first = own()
    site.site.routes = {**ROUTES, "/a": page("a, changed")}
    try:
        second = own()
    finally:
        site.site.routes = ROUTES

    (before,) = first.ledger.bodies_of("a")
    (after,) = second.ledger.bodies_of("a, changed")
    (row,) = second.ledger.observations_of("a, changed")
    assert before.body_id != after.body_id
    assert (row.action, row.reason) == ("keep", "revision")
    (earlier,) = second.ledger.observations_of("a")
    assert row.related_observation_id == earlier.observation_id


def test_the_funnel_is_in_the_log(own):
    result = own()

    (start,) = [
        number for number, line in enumerate(result.log.splitlines()) if "requests seen" in line.lower()
    ][:1]
    funnel = "\n".join(result.log.splitlines()[start : start + 20]).lower()
    for word in ("merged", "denied", "fetched", "valid", "payloads", "bodies", "aliases"):
        assert word in funnel


def test_a_crawl_without_pages_creates_nothing(own):
    result = own(
        """async def start(self):
        return
        yield
"""
    )

    assert result.exit_code == 0
    assert not result.ledger_path.exists()
    assert not (result.folder / "dedup").exists()
