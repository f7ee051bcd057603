"""What the ledger costs: pages for each second, how that holds as it grows, and how long it holds up a loop.

Run ``python tests/bench/bench_ledger.py [--pages N] [--url URL]``. Exit code 1 when a bound is missed.
With ``--pages 500000`` the rate at the end is compared with the rate at 5,000 pages. Time on the clock
depends on the disk and on who else uses it; CPU and written bytes tell what the ledger itself does.
``TMPDIR=/dev/shm`` takes the disk away.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from made_records import digest, made_job, made_observation, made_text

from scrapy_dedup.ledger import LedgerWriter, Sighting, observation_id
from scrapy_dedup.ledger.engine import Target, WriteSession
from scrapy_dedup.ledger.nearness import NearOptions
from scrapy_dedup.ledger.store import Store, prepare
from scrapy_dedup.records import Sourced, Text

BATCH = 100
NEW_TEXT_SHARE = 0.7
TEXT_WORDS = 900  # about 6 KB, as an average article
MIN_PAGES_PER_S = 1_000
MIN_KEPT_SHARE = 0.5
MAX_LAG_P99_MS = 15.0
LOOP_PAGES_PER_S = 300
TICK_S = 0.005

_LETTERS = random.Random(3)
WORDS = ["".join(_LETTERS.choices("eetaaoinshrdlu", k=2 + number % 8)) for number in range(3_000)]
POLICY_ID = "standard-1:0123456789abcdef"
JOB = made_job(POLICY_ID)


def make_text(rng: random.Random, words: int) -> Text:
    text = " ".join(WORDS[int(rng.paretovariate(0.6)) % len(WORDS)] for _ in range(words))
    own = digest(text)
    return made_text(text, visible_digest=own, residual_digest=own)


def make_sighting(seq: int, text: Text) -> Sighting:
    url = f"https://site.example/section/{seq % 97}/article-{seq}?id={seq}"
    observation = made_observation(
        seq,
        url,
        POLICY_ID,
        observation_id=observation_id(JOB.job_id, seq),
        referrer_url="https://site.example/section/1",
        depth=3,
        etag=f'"abc{seq}"',
        last_modified="Wed, 21 Oct 2026 07:28:00 GMT",
        title=Sourced(f"Title of article {seq}", "title"),
        date_published=Sourced("2026-01-01", "meta:article:published_time"),
    )
    return Sighting(observation, text)


def sightings(count: int, words: int) -> Iterator[Sighting]:
    """Yield pages of which some carry a text seen before."""
    rng = random.Random(7)
    recent: list[Text] = []
    for seq in range(count):
        if recent and rng.random() > NEW_TEXT_SHARE:
            text = rng.choice(recent)
        else:
            text = make_text(rng, words)
            recent = [*recent[-999:], text]
        yield make_sighting(seq, text)


def bench_rate(url: str, pages: int, words: int, near: str = "off") -> bool:
    """Write ``pages`` in batches; time only the ledger, not the making of the pages."""
    target = Target.parse(url)
    store = Store(JOB, {}, reuse_normalized=True, near=NearOptions(near), path=target.path)
    session = WriteSession(target)
    with session.transaction() as connection:
        store.open_job(connection)
    spent, cpu, written, window = 0.0, 0.0, 0, []
    since_cpu, since_bytes, since_pages = 0.0, _bytes_written(), 0
    first_rate = rate = 0.0
    batch: list[Sighting] = []
    for sighting in sightings(pages, words):
        batch.append(sighting)
        if len(batch) < BATCH:
            continue
        started, started_cpu = time.perf_counter(), time.process_time()
        prepared = [prepare(one, JOB) for one in batch]
        with session.transaction() as connection:
            store.write(connection, prepared)
        elapsed = time.perf_counter() - started
        cpu += time.process_time() - started_cpu
        spent += elapsed
        window = [*window[-49:], elapsed]
        written += len(batch)
        batch = []
        rate = BATCH * len(window) / sum(window)
        if written == 5_000:
            first_rate = rate
        if written == 5_000 or written % 50_000 == 0:
            pages_since, bytes_now = written - since_pages, _bytes_written()
            print(
                f"  {written:>7} pages: {rate:6.0f} pages/s in the last 5,000; since the last line ", end=""
            )
            print(f"{(cpu - since_cpu) / pages_since * 1e6:.0f} us of CPU and ", end="")
            print(f"{(bytes_now - since_bytes) / pages_since / 1e3:.1f} KB written a page", flush=True)
            since_cpu, since_bytes, since_pages = cpu, bytes_now, written
    store.close()
    session.close()
    rate_overall, cpu_us = written / spent, cpu / written * 1e6
    print(f"  {written} pages in {spent:.1f} s: {rate_overall:.0f} pages/s, {cpu_us:.0f} us of CPU a page")
    print(f"  at 5,000 pages {first_rate:.0f} pages/s, at the end {rate:.0f} ({rate / first_rate:.0%})")
    return rate_overall >= MIN_PAGES_PER_S and rate >= MIN_KEPT_SHARE * first_rate


def _bytes_written() -> int:
    """Return the bytes that this process has handed to write calls; 0 where the system does not tell."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        return 0
    return int(next(line for line in counters.read_text().splitlines() if line.startswith("wchar:"))[7:])


async def bench_lag(url: str, seconds: float, words: int) -> bool:
    """Tick every 5 ms beside a steady stream of pages through the writer."""
    made = list(sightings(int(LOOP_PAGES_PER_S * seconds), words))
    quiet = await _lags(seconds / 2, [])
    writer = LedgerWriter(url, JOB, {}, reuse_normalized=True)
    writer.open()
    waiting: list[asyncio.Future[object]] = []
    lags = await _lags(seconds, made, writer, waiting)
    await asyncio.gather(*waiting)
    writer.finish("finished")
    p99 = _percentile(lags, 0.99)
    print(f"  loop lag at {LOOP_PAGES_PER_S} pages/s: p99 {p99:.1f} ms, max {max(lags):.1f} ms")
    print(
        f"  (the same loop without a ledger: p99 {_percentile(quiet, 0.99):.1f} ms, max {max(quiet):.1f} ms)"
    )
    return p99 <= MAX_LAG_P99_MS


async def _lags(
    seconds: float,
    pages: list[Sighting],
    writer: LedgerWriter | None = None,
    waiting: list[asyncio.Future[object]] | None = None,
) -> list[float]:
    lags: list[float] = []
    started = expected = time.perf_counter()
    sent = 0
    while time.perf_counter() - started < seconds:
        expected = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        lags.append((time.perf_counter() - expected) * 1000)
        due = min(len(pages), int((time.perf_counter() - started) * LOOP_PAGES_PER_S))
        while writer is not None and waiting is not None and sent < due:
            waiting.append(asyncio.wrap_future(writer.record(pages[sent])))
            sent += 1
    return lags


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=TEXT_WORDS, help="words of a text")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of the lag measurement")
    parser.add_argument("--url", help="another ledger than a SQLite file, e.g. postgresql://...")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"rate, in batches of {BATCH}, {options.words} words a text")
        fast = bench_rate(
            options.url or f"sqlite:///{Path(folder) / 'rate.db'}", options.pages, options.words
        )
        if options.url is None:
            print("rate, with similar texts looked for (to be held against the line before)")
            near_url = f"sqlite:///{Path(folder) / 'near.db'}"
            bench_rate(near_url, options.pages, options.words, "review")
        print("lag")
        smooth = asyncio.run(
            bench_lag(f"sqlite:///{Path(folder) / 'lag.db'}", options.seconds, options.words)
        )
    print("ok" if fast and smooth else "a bound was missed")
    return 0 if fast and smooth else 1


if __name__ == "__main__":
    sys.exit(main())
