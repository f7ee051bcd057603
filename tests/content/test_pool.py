"""The pool: one extraction for equal payloads, and no page or worker that takes others with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import scrapy_dedup
import scrapy_dedup.content.pool as pool_module
from scrapy_dedup.content import ExtractionPool, ExtractOptions, Payload, sha256_id
from scrapy_dedup.content.extract import extract
from scrapy_dedup.content.pool import DIGEST_HERE_MAX_BYTES

SLOW = b"<table><tr><td>x" * 600  # takes many seconds


def page(text: str, url: str = "http://page.invalid/") -> Payload:
    return Payload(f"<html><body><h1>Page</h1><p>{text}</p></body></html>".encode(), "utf-8", url)


@pytest.fixture(scope="module")
def shared_nursery():
    """A nursery that outlives the pools: the extractors are loaded once for all tests that take it."""
    nursery = pool_module._Nursery()
    close = nursery.close
    nursery.close = lambda: None
    yield nursery
    close()


@pytest.fixture
def quick(monkeypatch, shared_nursery):
    monkeypatch.setattr(pool_module, "_Nursery", lambda: shared_nursery)


def run(test, **options):
    """Run an asynchronous test with a pool, which is closed whatever happens."""

    async def with_pool():
        extraction = ExtractOptions(**options.pop("extraction", {}))
        pool = ExtractionPool(extraction, **{"workers": 1, "time_limit_s": 60, **options})
        try:
            return await test(pool)
        finally:
            await pool.close()

    return asyncio.run(with_pool())


def processes() -> list[tuple[int, int, int]]:
    """Return process id, parent and session of every process."""
    rows = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # ended since it was listed
            _, parent, _, session, *_ = status.read_text().rpartition(")")[2].split()
            rows.append((int(status.parent.name), int(parent), int(session)))
    return rows


def children_of(pid: int) -> set[int]:
    return {child for child, parent, _ in processes() if parent == pid}


def nurseries() -> set[int]:
    """Return the ids of the children of this process that lead sessions of their own."""
    return {pid for pid, parent, session in processes() if parent == os.getpid() and pid == session}


def idle_pids(pool: ExtractionPool) -> list[int]:
    return [worker.pid for worker in pool._crew._idle]


@pytest.mark.usefixtures("quick")
def test_a_worker_gives_what_extract_gives():
    async def test(pool):
        return await pool.extract(page("The bridge is open."))

    assert run(test) == extract(page("The bridge is open."), ExtractOptions())


@pytest.mark.usefixtures("quick")
def test_equal_payloads_are_extracted_once():
    async def test(pool):
        together = await asyncio.gather(*(pool.extract(page("same")) for _ in range(5)))
        later = await pool.extract(page("same", "http://page.invalid/other"))
        assert len({id(extraction) for extraction in [*together, later]}) == 1
        await pool.extract(page("other"))
        return pool.counters

    counters = run(test)
    assert (counters.extractions, counters.cache_hits) == (2, 5)


@pytest.mark.usefixtures("quick")
def test_the_same_bytes_in_another_encoding_are_another_page():
    async def test(pool):
        body = "<p>Grüße</p>".encode("latin-1")
        texts = [
            (await pool.extract(Payload(body, encoding, ""))).text.text for encoding in ("cp1252", "cp1251")
        ]
        assert texts == ["Grüße", "GrьЯe"]

    run(test)


@pytest.mark.usefixtures("quick")
def test_urls_matter_where_links_are_written_out():
    async def test(pool):
        first = page("A word. " * 60 + "See <a href='/x'>this page</a> for more.", "http://one.invalid/")
        second = Payload(first.body, "utf-8", "http://two.invalid/")
        texts = [(await pool.extract(payload)).text.text for payload in (first, second)]
        assert "http://one.invalid/x" in texts[0]
        assert "http://two.invalid/x" in texts[1]

    run(test, extraction={"include_links": True})


@pytest.mark.usefixtures("quick")
def test_the_cache_is_bounded_in_entries_and_in_text():
    async def test(pool):
        for number in (1, 2, 3, 1):
            await pool.extract(page(f"text number {number}"))
        return pool.counters

    assert run(test, cache_entries=2).extractions == 4
    assert run(test, cache_text_bytes=10).extractions == 4
    assert run(test, cache_entries=3).extractions == 3


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_slow_page_costs_its_worker_and_nothing_else():
    async def test(pool):
        await pool.extract(page("warm"))
        start = time.monotonic()
        slow, other = await asyncio.gather(
            pool.extract(Payload(SLOW, "utf-8", "")), pool.extract(page("quick"))
        )
        assert slow.failure == "time_limit"
        assert slow.payload_digest == sha256_id(SLOW)
        assert other.text is not None
        assert time.monotonic() - start < 30
        return pool.counters

    counters = run(test, time_limit_s=3)
    assert (counters.timeouts, counters.restarts) == (1, 0)


@pytest.mark.usefixtures("quick")
def test_a_killed_worker_is_replaced_and_its_page_extracted():
    async def test(pool):
        await pool.extract(page("warm"))
        (pid,) = idle_pids(pool)
        os.kill(pid, signal.SIGKILL)
        found = await pool.extract(page("next"))
        assert found.text is not None
        assert idle_pids(pool) != [pid]
        return pool.counters

    assert run(test).restarts == 1


def test_a_killed_nursery_is_replaced():
    async def test(pool):
        await pool.extract(page("warm"))
        os.kill(pool._crew._nursery._process.pid, signal.SIGKILL)
        os.kill(idle_pids(pool)[0], signal.SIGKILL)
        assert (await pool.extract(page("next"))).text is not None

    run(test)


@pytest.mark.usefixtures("quick")
def test_a_page_that_kills_twice_is_a_failure(monkeypatch):
    async def test(pool):
        await pool.extract(page("warm"))

        async def kill_workers():
            for _ in range(400):
                for pid in seen - killed:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                await asyncio.sleep(0.02)

        seen, killed = set(), set()
        take = pool._crew._take

        def watched():
            worker = take()
            seen.add(worker.pid)
            return worker

        monkeypatch.setattr(pool._crew, "_take", watched)
        killer = asyncio.create_task(kill_workers())
        found = await pool.extract(Payload(SLOW, "utf-8", ""))
        killer.cancel()
        assert found.failure == "worker_died"
        assert len(killed) == 2

    run(test)


@pytest.mark.usefixtures("quick")
def test_failures_of_the_moment_are_not_remembered():
    async def test(pool):
        first = await pool.extract(Payload(SLOW, "utf-8", ""))
        second = await pool.extract(Payload(SLOW, "utf-8", ""))
        assert (first.failure, second.failure) == ("time_limit", "time_limit")
        return pool.counters

    assert run(test, time_limit_s=0.5).extractions == 2


@pytest.mark.usefixtures("quick")
def test_workers_are_replaced_after_their_pages():
    async def test(pool):
        for number in range(5):
            await pool.extract(page(f"text {number}"))
        return pool.counters

    counters = run(test, recycle_after=2)
    assert (counters.retired, counters.restarts) == (2, 0)


@pytest.mark.usefixtures("quick")
def test_a_cancelled_caller_does_not_cancel_the_extraction():
    async def test(pool):
        first = asyncio.create_task(pool.extract(page("shared")))
        second = asyncio.create_task(pool.extract(page("shared")))
        await asyncio.sleep(0.01)
        first.cancel()
        assert (await second).text is not None
        with pytest.raises(asyncio.CancelledError):
            await first
        return pool.counters

    assert run(test).extractions == 1


@pytest.mark.usefixtures("quick")
def test_large_bodies_are_digested_and_those_over_the_cap_not_extracted():
    async def test(pool):
        body = b"<p>word</p>" * (DIGEST_HERE_MAX_BYTES // 5)
        found = await pool.extract(Payload(body, "utf-8", ""))
        assert (found.failure, found.payload_digest) == ("input_over_cap", sha256_id(body))
        return pool.counters

    assert run(test, extraction={"max_input_bytes": DIGEST_HERE_MAX_BYTES}).extractions == 0


@pytest.mark.usefixtures("quick")
def test_warming_up_does_not_hold_up_the_loop():
    async def test(pool):
        start = time.thread_time()
        pool.warm_up()
        assert time.thread_time() - start < 0.05
        assert (await pool.extract(page("first"))).text is not None

    run(test, workers=2)


@pytest.mark.usefixtures("quick")
def test_there_are_never_more_processes_than_workers():
    async def test(pool):
        for number in range(20):
            pool.warm_up()
            await pool.extract(page(f"text {number}"))
        await asyncio.gather(*(pool.extract(page(f"more {number}")) for number in range(20)))
        nursery = pool._crew._nursery._process.pid
        await asyncio.sleep(0.5)  # retired workers end by themselves
        assert len(children_of(nursery)) <= 2

    run(test, workers=2, recycle_after=7)


def test_closing_ends_all_processes():
    before = nurseries()

    async def test(pool):
        await pool.extract(page("text"))
        assert len(nurseries() - before) == 1

    run(test)
    assert nurseries() == before


def test_closing_in_the_middle_of_a_page_does_not_wait_for_it():
    async def test(pool):
        await pool.extract(page("warm"))
        task = asyncio.create_task(pool.extract(Payload(SLOW, "utf-8", "")))
        await asyncio.sleep(0.3)
        start = time.monotonic()
        await pool.close()
        assert time.monotonic() - start < 5
        assert (await task).failure == "worker_died"

    run(test)


def test_closing_an_unused_pool_starts_nothing():
    async def test(pool):
        assert pool.counters.extractions == 0

    before = nurseries()
    run(test)
    assert nurseries() == before


SCRIPT = """
    import asyncio, sys
    from scrapy_dedup.content import ExtractionPool, ExtractOptions, Payload

    print("started")

    async def main():
        pool = ExtractionPool(ExtractOptions(), workers=1, time_limit_s=60)
        found = await pool.extract(Payload(b"<p>one text</p>", "utf-8", ""))
        print(found.text.text)
        if "leave" not in sys.argv:
            await pool.close()
        print("pid", pool._crew._nursery._process.pid if pool._crew._nursery._process else 0, flush=True)

    asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["close", "leave"])
def test_a_script_without_a_main_guard_runs_once_and_leaves_nothing(tmp_path, manner):
    script = tmp_path / "crawl.py"
    script.write_text(textwrap.dedent(SCRIPT))
    path = str(Path(scrapy_dedup.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), manner],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    started, text, pid = done.stdout.splitlines()
    assert (started, text, done.stderr) == ("started", "one text", "")
    if manner == "leave":
        _wait_until_gone(int(pid.removeprefix("pid ")))


def _wait_until_gone(pid: int) -> None:
    for _ in range(200):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} outlived the script")
