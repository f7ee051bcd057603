"""A small site in a ledger, whose pages come, change and go; and vectors that need no model."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import pytest

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.jobs.live import live_chunks
from scrapy_dedup.jobs.plan import plan_index
from scrapy_dedup.ledger import Ledger, LedgerWriter, Sighting
from scrapy_dedup.ledger.plans import confirm_plan, migrate, save_plan
from scrapy_dedup.records import Outcome, Validity

from ..crawl import by_hand

GONE, TIMED_OUT = "gone", "timed out"
OPTIONS = ChunkOptions(size=300)


def section(heading: str, about: str) -> str:
    """Return a section that becomes a chunk of its own."""
    return f"# {heading}\n\n" + " ".join(
        f"{about} is told here, part {part} of five." for part in range(1, 6)
    )


class Site:
    """Pages as crawls find them, and the plans that follow."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._jobs = 0

    def crawl(self, pages):
        """Record a crawl: for each path its text, or `GONE`, or `TIMED_OUT`."""
        self._jobs += 1
        job_id = f"job-{self._jobs}"
        writer = LedgerWriter(self.url, by_hand.job(job_id), by_hand.POLICY.spec(), reuse_normalized=True)
        writer.open()
        for path, text in pages.items():
            status = {GONE: 410, TIMED_OUT: 503}.get(text, 200)
            seen = by_hand.observation(writer, job_id, f"https://docs.example{path}", status=status)
            seen = replace(seen, fetched_at=f"2026-01-02T03:04:0{self._jobs}.000000Z", title=None)
            if text == GONE:
                seen = replace(seen, outcome=Outcome.GONE, validity=Validity.HTTP_ERROR)
            found = None if status != 200 else by_hand.text_of(text)
            writer.record(Sighting(seen, found)).result(timeout=20)
        writer.finish("finished")

    def chunks(self):
        """Return the chunk records of what is live."""
        with Ledger.open(self.url) as ledger, live_chunks(ledger, "default", OPTIONS) as live:
            return list(live.records())

    def plan(self):
        """Return a plan, which is confirmed at once."""
        migrate(self.url)
        with Ledger.open(self.url) as ledger, plan_index(ledger, "default", OPTIONS) as plan:
            records = list(plan.records())
            save_plan(
                self.url,
                "default",
                "default",
                plan_id=plan.plan_id,
                options=plan.options,
                changes=plan.changes(),
                is_whole=plan.is_whole,
                starts_at=plan.starts_at,
            )
        confirm_plan(self.url, "default", "default", plan.plan_id)
        return records


@pytest.fixture
def site(tmp_path):
    return Site(f"sqlite:///{tmp_path / 'dedup.db'}")


class Embedder:
    """Turns a string into a vector by the digests of its words, and counts the strings that it was given."""

    def __init__(self) -> None:
        self.seen = []

    def embed(self, text: str) -> list[float]:
        self.seen.append(text)
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[hashlib.sha256(word.encode()).digest()[0] % 64] += 1.0
        length = math.sqrt(sum(value * value for value in vector)) or 1.0
        return [value / length for value in vector]


@pytest.fixture
def embedder():
    return Embedder()
