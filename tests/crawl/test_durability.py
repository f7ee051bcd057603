"""A crawl that is killed, or whose disk is full, loses nothing that it had acknowledged."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

from .conftest import ADDONS, BASE_SETTINGS, environment, read_ledger
from .server import Reply, mark, page, prose

pytestmark = pytest.mark.slow

RUNS = 20
TARGETS = [f"/page/{number}" for number in range(60)]

# Yields a page item for each page; a pipeline behind ours writes down which came back from the ledger.
SPIDER = """
import scrapy
from scrapy_dedup import PageItem

class Acknowledge:
    def __init__(self):
        self.file = open("acknowledged.txt", "a", buffering=1)

    def process_item(self, item):
        self.file.write(item.observation.observation_id + "\\n")
        return item

class Killed(scrapy.Spider):
    name = "killed"

    def __init__(self, base, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/"]

    def parse(self, response):
        yield PageItem.from_response(response)
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
"""
SETTINGS = {"ITEM_PIPELINES": {"spider_of_the_test.Acknowledge": 900}}


@pytest.fixture(scope="module")
def site(serve):
    return serve(
        {"/": page("index", TARGETS), **{target: Reply(page(target), delay_s=0.02) for target in TARGETS}}
    )


def acknowledged(folder):
    path = folder / "acknowledged.txt"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def kill_at_a_random_moment(command, folder, chooser):
    """Start a crawl, kill it with SIGKILL after a random number of pages, and tell whether it was killed."""
    before = len(acknowledged(folder))
    wanted = chooser.randint(0, len(TARGETS))
    with (folder / "crawl.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=environment(), start_new_session=True
        )
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until and len(acknowledged(folder)) - before < wanted:
        time.sleep(0.002)
    time.sleep(chooser.random() * (1.5 if wanted == 0 else 0.05))
    if chooser.random() < 0.5:
        process.kill()  # its extraction processes are left alone and have to end by themselves
        process.wait()
        wait_for_the_end_of_group(process.pid)
    else:
        kill_group(process.pid)
        process.wait()
    return process.returncode == -signal.SIGKILL


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_for_the_end_of_group(group, seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    kill_group(group)
    pytest.fail(f"processes of the crawl still run {seconds} s after it was killed")


@pytest.mark.timeout(900)
def test_a_crawl_killed_at_random_moments_loses_nothing(site, prepare_crawl, crawl, tmp_path):
    from scrapy_dedup import Ledger

    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chooser = random.Random(seed)
    command = prepare_crawl(tmp_path, SPIDER, settings=SETTINGS, arguments={"base": site.base})
    killed = 0
    for _ in range(RUNS):
        killed += kill_at_a_random_moment(command, tmp_path, chooser)
        if not (tmp_path / "dedup.db").exists():
            assert acknowledged(tmp_path) == []
            continue
        with Ledger.open(f"sqlite:///{tmp_path}/dedup.db") as ledger:
            assert ledger.check(deep=True) == []
        seen = read_ledger(tmp_path / "dedup.db")
        bodies = {body.body_id for body in seen.bodies}
        observed = {row.observation_id for row in seen.observations}
        assert set(acknowledged(tmp_path)) <= observed
        assert {row.body_id for row in seen.observations} <= bodies
        assert {body.first_observation_id for body in seen.bodies} <= observed
        assert_whole_lines(tmp_path)
    assert killed >= RUNS // 2

    last = crawl(SPIDER, folder=tmp_path, settings=SETTINGS, base=site.base)

    assert last.exit_code == 0
    assert last.dump["reason"] == "finished"
    seen = last.ledger
    assert len(seen.bodies) == len(TARGETS) + 1
    assert [target for target in TARGETS if len(seen.bodies_of(target)) != 1] == []
    assert sum(row.job_id == seen.jobs[-1].job_id for row in seen.observations) == len(TARGETS) + 1
    assert_whole_lines(tmp_path)
    assert_export_is_complete(tmp_path, seen)


def assert_whole_lines(folder):
    for path in (folder / "dedup").rglob("*.jsonl"):
        content = path.read_bytes()
        assert content == b"" or content.endswith(b"\n"), path.name
        for line in content.splitlines():
            json.loads(line)


def assert_export_is_complete(folder, seen):
    command = [sys.executable, "-m", "scrapy", "dedup", "export", "--ledger", "dedup.db", "--out", "exported"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    exported = [
        json.loads(line)
        for path in (folder / "exported").rglob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    ids = {record["body_id"] for record in exported if record["schema"] == "scrapy-dedup/body/1"}
    assert ids == {body.body_id for body in seen.bodies}


# A disk that is full in mid-crawl: a limit on the size of files does the same to SQLite, without root.

LIMIT_BYTES = 500_000


def long_page(slug, links=()):
    text = "".join(f"<p>{sentence}</p>" for sentence in prose(slug, 300))
    anchors = "".join(f'<a href="{link}">item</a>' for link in links)
    return f"<html><body><nav>{anchors}</nav><article>{text}</article></body></html>".encode()


@pytest.fixture(scope="module")
def full_disk(serve, prepare_crawl, crawl, tmp_path_factory):
    """Crawl under a limit on the size of files, and again without it."""
    server = serve({"/": long_page("index", TARGETS), **{target: long_page(target) for target in TARGETS}})
    folder = tmp_path_factory.mktemp("full")
    options = {
        "settings": {"FEEDS": {"rows.jsonl": {"format": "observations"}}},
        "arguments": {"start": [f"{server.base}/"]},
    }
    command = prepare_crawl(folder, **options)
    with (folder / "crawl.log").open("wb") as log:
        done = subprocess.run(
            command,
            cwd=folder,
            stdout=log,
            stderr=log,
            env=environment(),
            timeout=120,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES)),
        )
    log = (folder / "crawl.log").read_text()
    dump = json.loads((folder / "dump.json").read_text())
    after = read_ledger(folder / "dedup.db")
    return done.returncode, log, dump, after, folder, server


def test_a_full_disk_closes_the_crawl_with_a_reason(full_disk):
    _, log, dump, _, _, _ = full_disk

    assert dump["reason"] == "dedup_ledger_failed"
    assert len(re.findall(r"^.* CRITICAL: .*$", log, re.MULTILINE)) == 1
    assert "Spider closed (dedup_ledger_failed)" in log


def test_a_full_disk_leaves_the_ledger_intact(full_disk):
    from scrapy_dedup import Ledger

    _, _, _, seen, folder, _ = full_disk

    with Ledger.open(f"sqlite:///{folder}/dedup.db") as ledger:
        assert ledger.check(deep=True) == []
    assert 0 < len(seen.bodies) < len(TARGETS)
    assert {row.body_id for row in seen.observations if row.body_id} == {body.body_id for body in seen.bodies}


def test_the_run_after_a_full_disk_ends_with_the_full_set(full_disk, crawl):
    *_, folder, server = full_disk

    last = crawl(start=[f"{server.base}/"], folder=folder)

    assert last.dump["reason"] == "finished"
    texts = "\n".join(body.text for body in last.ledger.bodies)
    assert [target for target in TARGETS if mark(target) not in texts] == []
    assert len(last.ledger.bodies) == len(TARGETS) + 1


# The user stops a crawl.


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_a_crawl_stopped_by_the_user_keeps_what_it_has(serve, tmp_path, times):
    from scrapy_dedup import Ledger

    server = serve(
        {"/": page("index", TARGETS), **{target: Reply(page(target), delay_s=0.2) for target in TARGETS}}
    )
    settings = {**BASE_SETTINGS, "ADDONS": ADDONS, "ITEM_PIPELINES": {"stopped.Acknowledge": 900}}
    (tmp_path / "stopped.py").write_text(f"{SPIDER}\nKilled.custom_settings = {settings!r}\n")
    command = [sys.executable, "-m", "scrapy", "runspider", "stopped.py", "-a", f"base={server.base}"]
    with (tmp_path / "crawl.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=log, stderr=log, env=environment(), start_new_session=True
        )
    until = time.monotonic() + 60
    while len(acknowledged(tmp_path)) < 5 and time.monotonic() < until:
        time.sleep(0.01)

    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    process.wait(timeout=60)

    wait_for_the_end_of_group(process.pid)
    with Ledger.open(f"sqlite:///{tmp_path}/dedup.db") as ledger:
        assert ledger.check(deep=True) == []
    seen = read_ledger(tmp_path / "dedup.db")
    assert set(acknowledged(tmp_path)) <= {row.observation_id for row in seen.observations}
    if times == 1:
        assert [job.outcome for job in seen.jobs] == ["shutdown"]
    assert_whole_lines(tmp_path)
