"""Two crawls that write to one ledger at once both finish; nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import subprocess

import pytest

from .conftest import Crawl, environment, read_ledger
from .server import Reply, page

pytestmark = pytest.mark.slow  # two crawls at once need the machine for themselves

SHARED = [f"/shared/{number}" for number in range(30)]
OWN = {name: [f"/{name}/{number}" for number in range(10)] for name in ("left", "right")}


@pytest.fixture(scope="module")
def crawled_at_once(serve, prepare_crawl, tmp_path_factory):
    server = serve(
        {
            **{f"/{name}": page(name, [*SHARED, *targets]) for name, targets in OWN.items()},
            **{target: Reply(page(target), delay_s=0.02) for target in SHARED},
            **{target: page(target) for targets in OWN.values() for target in targets},
        }
    )
    ledger = tmp_path_factory.mktemp("ledger") / "dedup.db"
    started = {}
    for name in OWN:
        folder = tmp_path_factory.mktemp(name)
        command = prepare_crawl(
            folder,
            settings={"DEDUP_LEDGER": f"sqlite:///{ledger}"},
            arguments={"start": [f"{server.base}/{name}"]},
        )
        with (folder / "crawl.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment())
        started[name] = (folder, process)
    crawls = {}
    for name, (folder, process) in started.items():
        code = process.wait(timeout=120)
        log = (folder / "crawl.log").read_text()
        crawls[name] = Crawl(folder, code, log, json.loads((folder / "dump.json").read_text()))
    return crawls, read_ledger(ledger), ledger


@pytest.mark.parametrize("name", OWN)
def test_both_crawls_finish(crawled_at_once, name):
    crawls, _, _ = crawled_at_once

    assert crawls[name].exit_code == 0
    assert crawls[name].dump["reason"] == "finished"
    assert "CRITICAL" not in crawls[name].log


def test_each_crawl_has_an_observation_for_each_of_its_pages(crawled_at_once):
    crawls, seen, _ = crawled_at_once

    jobs = {job.job_id: job for job in seen.jobs}
    assert len(jobs) == 2
    assert {job.outcome for job in jobs.values()} == {"finished"}
    by_job = {job: sorted(row.url for row in seen.observations if row.job_id == job) for job in jobs}
    delivered = [sorted(call["url"] for call in crawl.callbacks) for crawl in crawls.values()]
    assert sorted(by_job.values()) == sorted(delivered)
    assert all(len(urls) == 41 for urls in delivered)


@pytest.mark.parametrize("target", [*SHARED[:3], "/left/1", "/right/1"])
def test_each_text_is_one_body(crawled_at_once, target):
    _, seen, _ = crawled_at_once

    assert len(seen.bodies_of(target)) == 1
    rows = seen.observations_of(target)
    assert sorted(row.action for row in rows) == (["keep", "reuse"] if target in SHARED else ["keep"])


def test_all_texts_are_there_and_none_is_doubled(crawled_at_once):
    crawls, seen, _ = crawled_at_once

    assert len(seen.bodies) == len({body.text for body in seen.bodies}) == 30 + 2 * 10 + 2
    new = [crawl.stats["dedup/bodies/new"] for crawl in crawls.values()]
    assert sum(new) == len(seen.bodies)


def test_the_feeds_of_both_together_hold_each_body_once(crawled_at_once):
    crawls, seen, _ = crawled_at_once

    written = [record["body_id"] for crawl in crawls.values() for record in crawl.feed("body")]
    assert sorted(written) == sorted(body.body_id for body in seen.bodies)


def test_the_ledger_is_sound(crawled_at_once):
    from scrapy_dedup import Ledger

    with Ledger.open(f"sqlite:///{crawled_at_once[2]}") as ledger:
        assert ledger.check(deep=True) == []
