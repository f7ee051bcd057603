"""What was acknowledged survives: kill at any moment, kill at each write, a damaged log, a full disk."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from scrapy_dedup.errors import LedgerWriteFailed
from scrapy_dedup.ledger import Ledger

CHILD = Path(__file__).parent / "child.py"


def command(url: str, job_id: str, pages: int, mode: str = "") -> list[str]:
    return [sys.executable, str(CHILD), url, job_id, str(pages), *([mode] if mode else [])]


def acknowledged(output: str) -> set[int]:
    """The whole lines with a number; the last one may be torn by the kill."""
    return {int(line) for line in output.splitlines(keepends=True) if re.fullmatch(r"\d+\n", line)}


def assert_sound(url: str, expected: dict[str, set[int]]) -> Ledger:
    """The ledger opens, holds a prefix of each job, loses nothing acknowledged, and fits together."""
    with Ledger.open(url) as ledger:
        assert ledger.check(deep=True) == []
        held: dict[str, list[int]] = {}
        body_ids = {body.body_id for body in ledger.bodies()}
        for observation in ledger.observations():
            held.setdefault(observation.job_id, []).append(observation.seq)
            assert observation.body_id in body_ids
        for job_id, seqs in expected.items():
            assert seqs <= set(held.get(job_id, []))
            assert held.get(job_id, []) == list(range(len(held.get(job_id, []))))
    return ledger


def assert_next_crawl_goes_on(url: str, records) -> None:
    with records.crawl(url, records.job("next")) as one:
        assert one.see("A text of the next crawl").observation.action.value in {"keep", "reuse"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kill_at_random_moments(sqlite_url, records):
    """Twenty crawls on one ledger, each killed somewhere between its start and its end."""
    rng = random.Random()
    expected: dict[str, set[int]] = {}
    for number in range(20):
        job_id = f"job-{number}"
        with subprocess.Popen(command(sqlite_url, job_id, 2000), stdout=subprocess.PIPE, text=True) as child:
            output = child.stdout.readline() if number % 4 else ""  # some die while they open the ledger
            time.sleep(rng.uniform(0.0, 1.0))
            child.send_signal(signal.SIGKILL)
            output += child.stdout.read()
        expected[job_id] = acknowledged(output)
        if Path(sqlite_url.removeprefix("sqlite:///")).exists():
            assert_sound(sqlite_url, expected)
    assert sum(map(len, expected.values())) > 20
    assert_next_crawl_goes_on(sqlite_url, records)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kill_of_a_crawl_on_a_server(postgres_url, postgres_server, records):
    expected: dict[str, set[int]] = {}
    for number in range(5):
        job_id = f"job-{number}"
        with subprocess.Popen(
            command(postgres_url, job_id, 2000), stdout=subprocess.PIPE, text=True
        ) as child:
            output = child.stdout.readline()
            time.sleep(random.uniform(0.1, 0.8))
            child.send_signal(signal.SIGKILL)
            output += child.stdout.read()
        expected[job_id] = acknowledged(output)
        assert_sound(postgres_url, expected)
    assert sum(map(len, expected.values())) > 5
    assert_next_crawl_goes_on(postgres_url, records)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed (Debian: apt-get install strace)"
)
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync", "ftruncate", "unlink", "write", "rename", "fsync"])
def test_kill_at_every_write_and_sync_call(tmp_path, records, call):
    """The child is killed at its n-th call on the ledger's files, for each n until it outlives its calls."""
    points = 0
    for when in itertools.count(1):
        folder = tmp_path / f"{when}"
        folder.mkdir()
        url = f"sqlite:///{folder}/dedup.db"
        output, killed = _run_killed(folder, command(url, "job", 8), call, when)
        if (folder / "dedup.db").exists():
            assert_sound(url, {"job": acknowledged(output)})
        else:
            assert acknowledged(output) == set()
        assert_next_crawl_goes_on(url, records)
        shutil.rmtree(folder)
        if not killed:
            break
        points += 1
    assert points > 0 or call in {"ftruncate", "write"}  # SQLite need not use these here


def _run_killed(folder: Path, child: list[str], call: str, when: int) -> tuple[str, bool]:
    draft = ".scrapy-dedup-draft"
    names = ["", "-wal", "-shm", "-journal", draft, draft + "-journal", draft + "-wal", ".lock"]
    paths = [word for name in names for word in ("-P", f"{folder}/dedup.db{name}")] + ["-P", str(folder)]
    inject = f"inject={call}:signal=SIGKILL:when={when}"
    traced = ["strace", "-f", "-qq", "-o", os.devnull, *paths, "-e", f"trace={call}", "-e", inject, *child]
    done = subprocess.run(traced, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout, "finished" not in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_damaged_log_leaves_a_committed_prefix(tmp_path, records):
    """The log of a killed crawl, cut, flipped or zeroed at many places: a prefix of the commits remains."""
    origin = tmp_path / "origin"
    origin.mkdir()
    _killed_with_log(origin)
    log = (origin / "dedup.db-wal").read_bytes()
    rng = random.Random(11)
    lengths = set()
    for number in range(80):
        place = rng.randrange(len(log))
        for damaged in (log[:place], _flipped(log, place), _zeroed(log, place)):
            folder = tmp_path / f"copy-{number}"
            folder.mkdir()
            shutil.copyfile(origin / "dedup.db", folder / "dedup.db")
            (folder / "dedup.db-wal").write_bytes(damaged)
            url = f"sqlite:///{folder}/dedup.db"
            assert_sound(url, {})
            with Ledger.open(url) as ledger:
                lengths.add(ledger.summary()["observations"])
            shutil.rmtree(folder)
    assert len(lengths) > 5


def _killed_with_log(folder: Path) -> None:
    url = f"sqlite:///{folder}/dedup.db"
    with subprocess.Popen(command(url, "job", 5000), stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            if line == "120\n":
                child.kill()
                break
        child.stdout.read()


def _flipped(log: bytes, place: int) -> bytes:
    return log[:place] + bytes([log[place] ^ 0x10]) + log[place + 1 :]


def _zeroed(log: bytes, place: int) -> bytes:
    return log[:place] + bytes(min(4096, len(log) - place)) + log[place + 4096 :]


@pytest.mark.slow
def test_two_crawls_on_one_ledger_lose_and_double_nothing(ledger_url):
    children = [
        subprocess.Popen(command(ledger_url, job_id, 150, "same"), stdout=subprocess.PIPE, text=True)
        for job_id in ("one", "two")
    ]
    outputs = [child.communicate(timeout=240)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert [acknowledged(output) for output in outputs] == [set(range(150))] * 2
    assert_sound(ledger_url, {"one": set(range(150)), "two": set(range(150))})
    with Ledger.open(ledger_url) as ledger:
        counts = ledger.summary()
        texts = [body.text for body in ledger.bodies()]
        kept = [one.body_id for one in ledger.observations() if one.action.value == "keep"]
    assert (counts["observations"], counts["bodies"], counts["jobs_unfinished"]) == (300, 50, 0)
    assert len(set(texts)) == 50
    assert len(kept) == len(set(kept)) == 50


def test_a_full_disk_ends_the_crawl_and_not_the_ledger(sqlite_url, records):
    """A limit on the size of files stands in for the disk; what was acknowledged before it stays."""
    child = command(sqlite_url, "job", 5000, "limit=400000")
    done = subprocess.run(child, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "LedgerWriteFailed" in done.stderr
    assert "could not commit" in done.stderr
    assert len(acknowledged(done.stdout)) > 10
    assert_sound(sqlite_url, {"job": acknowledged(done.stdout)})
    assert_next_crawl_goes_on(sqlite_url, records)


def test_after_a_failed_commit_all_who_wait_and_all_who_come_hear_of_it(sqlite_url, records):
    one = records.crawl(sqlite_url, records.job())
    first = one.see("T")
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON observation BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
    futures = [one.submit(f"Text {number}") for number in range(20)]
    for future in futures:
        with pytest.raises(LedgerWriteFailed, match="disk full") as caught:
            future.result(30)
        assert caught.value.__cause__ is not None
    assert isinstance(one.writer.failed, LedgerWriteFailed)
    with pytest.raises(LedgerWriteFailed):
        one.submit("later", seq=99).result(1)
    with pytest.raises(LedgerWriteFailed):
        one.writer.variants("key").result(1)
    one.note("http://raw", "key")
    one.writer.finish("dedup_ledger_failed")
    with Ledger.open(sqlite_url) as ledger:
        assert [got.observation_id for got in ledger.observations()] == [first.observation.observation_id]
        assert [body.text for body in ledger.bodies()] == ["T"]
        assert next(ledger.jobs()).finished_at is None


def test_a_server_that_crashes_loses_nothing_acknowledged(postgres_url, postgres_server, records):
    one = records.crawl(postgres_url, records.job())
    for number in range(5):
        one.see(f"Text {number}")
    postgres_server.restart_after_crash()
    with pytest.raises(LedgerWriteFailed):
        one.see("Text 5")
    one.writer.finish("dedup_ledger_failed")
    assert_sound(postgres_url, {"job-1": set(range(5))})
    again = records.crawl(postgres_url, records.job())
    assert again.see("Text 5").observation.seq == 5
    again.writer.finish("finished")


def test_a_reader_that_stays_does_not_stop_the_writer(sqlite_url, records, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.engine.CHECKPOINT_BYTES", 100_000)
    log = Path(sqlite_url.removeprefix("sqlite:///") + "-wal")
    with records.crawl(sqlite_url, records.job()) as one:
        one.see("First")
        with Ledger.open(sqlite_url) as ledger:
            observations = ledger.observations()
            next(observations)
            for number in range(60):
                one.see(f"Text {number} " * 500)
            assert log.stat().st_size > 200_000
        for number in range(60):
            one.see(f"More {number} " * 500)
        assert log.stat().st_size < 1_000_000
    assert not log.exists() or log.stat().st_size == 0
    assert_sound(sqlite_url, {"job-1": set(range(121))})
