"""Killed at any of their writes, the commands leave an index that the next plan brings right."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from scrapy_dedup.ledger import Ledger

from .conftest import GONE, Site
from .test_live import paragraph
from .test_store import Store, live

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# The child says when it starts the command, so that no time is lost before it does anything.
CHILD = """
import argparse, sys
from scrapy.settings import Settings
from scrapy_dedup.crawl.cli.context import run_reported
from scrapy_dedup.crawl.cli.plan import run
from scrapy_dedup.crawl.commands import DedupCommand
command = DedupCommand()
command.settings = Settings()
parser = argparse.ArgumentParser()
command.add_options(parser)
options = parser.parse_args(sys.argv[1:])
options.set = []
print("started", flush=True)
sys.exit(run_reported(run, options, Settings()))
"""
LEDGER_FILES = ("", "-wal", "-shm", "-journal", ".lock")
ON_THE_LEDGER = ("pwrite64", "fdatasync")
ENDS = ("once it is applied", "nothing is to be done", "is confirmed")


@pytest.fixture
def store():
    return Store()


def prepared(site, store):
    """Make a site whose index is behind: one page is gone, one changed, and one is new."""
    site.crawl({f"/{number}": paragraph(number) for number in range(6)})
    store.apply(site.plan(apply=True))
    site.crawl({"/1": GONE, "/2": paragraph(22), "/new": paragraph(30)})


def command(site, out, *words):
    return [sys.executable, "-c", CHILD, "plan", "--ledger", site.url, "--out", str(out), *words]


def apply_file(store, path) -> str | None:
    """Apply a plan as a user does, as far as there is one, and return its identity."""
    found = None
    for line in map(json.loads, path.read_text("utf-8").split("\n")[:-1] if path.exists() else ()):
        found = line["plan_id"]
        if line["op"] == "upsert":
            urls = tuple(sorted({source["url"] for source in line["sources"]}))
            store.held[line["id"]] = (line["text"], line["embed_key"], urls)
        elif line["op"] == "delete":
            store.held.pop(line["id"], None)
    return found


def assert_next_plan_is_right(site, store):
    with Ledger.open(site.url) as ledger:
        assert ledger.check(deep=True) == []
    site.crawl({"/1": paragraph(1), "/2": paragraph(2), "/new": GONE})  # all is as it was
    store.apply(site.plan(apply=True))
    assert store.held == live(site)
    assert site.plan().counts.is_empty


def run_killed(folder, words, call, when) -> bool:
    """Run a command that is killed at its n-th call, of those on the ledger alone where there are others."""
    traced = ["strace", "-f", "-qq", "-o", os.devnull]
    if call in ON_THE_LEDGER:
        traced += [word for name in LEDGER_FILES for word in ("-P", f"{folder}/dedup.db{name}")]
    traced += ["-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={when}", *words]
    done = subprocess.run(traced, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
    return not any(end in done.stdout for end in ENDS)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    ("confirms", "call"),
    [(False, "pwrite64"), (False, "fdatasync"), (False, "fsync"), (False, "rename"), (True, "fdatasync")],
)
def test_killed_at_each_write_and_sync_call(tmp_path, store, confirms, call):
    origin = Site(tmp_path)
    prepared(origin, store)
    was_held = dict(store.held)
    points = 0
    for when in itertools.count(1):
        folder = tmp_path / f"{when}"
        folder.mkdir()
        for path in tmp_path.glob("dedup.db*"):
            shutil.copyfile(path, folder / path.name)
        site = Site(folder)
        site.jobs = origin.jobs
        store.held = dict(was_held)
        words = command(site, folder / "out")
        if confirms:
            subprocess.run(words, capture_output=True, check=True, cwd=folder)
            words = command(
                site, folder / "out", "--applied", apply_file(store, folder / "out" / "plan.jsonl")
            )
        is_killed = run_killed(folder, words, call, when)
        if not confirms:
            apply_file(store, folder / "out" / "plan.jsonl")
        assert_next_plan_is_right(site, store)
        shutil.rmtree(folder)
        if not is_killed:
            break
        points += 1
    assert points > 0


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_killed_at_random_moments(tmp_path, store, engine, request):
    site = Site(tmp_path)
    if engine == "postgresql":
        site.url = request.getfixturevalue("postgres_url")
    prepared(site, store)
    rng = random.Random()
    out = tmp_path / "out"
    for number in range(16):
        site.crawl({"/1": paragraph(100 + number), "/2": rng.choice([GONE, paragraph(2)])})
        waiting = apply_file(store, out / "plan.jsonl") if number % 2 else None
        words = command(site, out, *(["--applied", waiting] if waiting else []))
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "started\n"
            time.sleep(rng.uniform(0.0, 0.4))
            child.kill()
        if number % 4 == 0:
            apply_file(store, out / "plan.jsonl")
    assert_next_plan_is_right(site, store)
