"""What the components of one crawl share: the configuration, the URL policy, the ledger and the pool.

The ledger and the pool come into being with the first page, so that a command which only looks at a site, or
a crawl that sees nothing, leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import logging
import secrets
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.extensions.feedexport import FeedExporter
from scrapy.utils.job import job_dir

from scrapy_dedup.config import Config
from scrapy_dedup.content.pool import ExtractionPool
from scrapy_dedup.crawl import stats as names
from scrapy_dedup.crawl.digest_table import DigestTable
from scrapy_dedup.crawl.jobdir import read_job_id, write_job_id
from scrapy_dedup.crawl.overrides import Urls
from scrapy_dedup.crawl.requests import referrer_of
from scrapy_dedup.errors import LedgerError
from scrapy_dedup.ledger import Ledger, LedgerWriter, Overrides, Recorded, Sighting
from scrapy_dedup.ledger.derived import NEAR_DUPLICATE
from scrapy_dedup.ledger.near_relations import NearFound
from scrapy_dedup.ledger.nearness import NearOptions
from scrapy_dedup.ledger.seen import PageQuestion, SeenPage
from scrapy_dedup.records import AliasRecord, JobRecord
from scrapy_dedup.urls import UrlDecision, redact

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

    from scrapy_dedup.crawl.canonicals import Canonicals
    from scrapy_dedup.crawl.conditional import ConditionalRequests
    from scrapy_dedup.crawl.freshness import Freshness
    from scrapy_dedup.crawl.links import OutLinks
    from scrapy_dedup.crawl.pages import Pages
    from scrapy_dedup.crawl.variants import Variants

logger = logging.getLogger(__name__)

LEDGER_FAILED = "dedup_ledger_failed"

# The attribute of a crawler that holds its suite: the two refer to each other and end together.
_OF_CRAWLER = "_scrapy_dedup_suite"


class Suite:
    """The shared state of one crawl.

    Attributes:
        config: the validated settings.
        policy: the URL policy.
        overrides: what was decided about URLs and pages before the crawl started.
        urls: the policy under those decisions.
        decide: its decision about a URL, which remembers the latest.
        key_of: the identity of a URL that was, or is going to be, requested as it stands.
        users_fingerprinter: the fingerprinter class that was configured before ours.
        start_fingerprints: of the start requests, which Scrapy does not remember.
        pages: records responses and failures.
        links: what the callbacks yield.
        freshness: skips what was fetched not long ago.
        conditional: asks servers whether pages have changed.
        canonicals: reads what pages declare to be their canonical, and requests it.
        variants: gives suppressed URLs their turn.
        is_crawl: whether this is a crawl, and not a command that looks at a page: shell, fetch, view, parse,
            check.
    """

    def __init__(self, crawler: Crawler, config: Config, overrides: Overrides) -> None:
        self.crawler = crawler
        self.config = config
        self.policy = config.policy
        self.overrides = overrides
        self.urls = Urls(config.policy, overrides)
        self.decide = self.urls.decide
        self.key_of = self.urls.key_of
        self.users_fingerprinter: Any = None
        self.start_fingerprints = DigestTable()
        self.pages: Pages
        self.links: OutLinks
        self.freshness: Freshness
        self.conditional: ConditionalRequests
        self.canonicals: Canonicals
        self.variants: Variants
        self.pool = ExtractionPool(
            config.extract, workers=config.workers, time_limit_s=config.extract_timeout_s
        )
        self.ledger_failure: LedgerError | None = None
        self.is_crawl = False
        self.is_closing = False
        self._writer: LedgerWriter | None = None
        self._opening: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing: asyncio.Task[Any] | None = None

    def attach(self) -> None:
        """Make this the shared state of its crawler."""
        vars(self.crawler)[_OF_CRAWLER] = self

    @classmethod
    def of(cls, crawler: Crawler) -> Suite:
        """Return the shared state of a crawler.

        Raises:
            RuntimeError: when the add-on did not run for it.
        """
        suite: Suite | None = vars(crawler).get(_OF_CRAWLER)
        if suite is None:
            raise RuntimeError('the suite is enabled by ADDONS = {"scrapy_dedup.Addon": 500} only')
        return suite

    @property
    def stats(self) -> StatsCollector:
        """The stats of the crawl."""
        return self.crawler.stats

    def spider_opened(self) -> None:
        """Find out whether this is a crawl; the crawler itself says no more once it was asked to stop.

        The shell drives the engine without the crawler; the other commands put a start of their own into the
        spider. What they fetch is for a person to see and leaves nothing behind.
        """
        start = self.crawler.spidercls.start
        home = getattr(start, "__module__", None) or ""
        self.is_crawl = self.crawler.crawling and not home.startswith("scrapy.commands.")

    @property
    def spider_name(self) -> str:
        """The name of the spider."""
        return self.crawler.spider.name if self.crawler.spider else self.crawler.spidercls.name

    # -- URLs

    def deny(self, request: Request, decision: UrlDecision, *, referrer: str | None = None) -> None:
        """Count and note a request that the policy denies."""
        reason = decision.reason or "denied"
        self.stats.inc_value(names.REQUESTS_DENIED)
        self.stats.inc_value(names.REQUESTS_DENIED_BY_REASON + reason)
        self.note(request, request.url, key=decision.key, verdict="denied", rule=reason, referrer=referrer)

    def note(
        self,
        request: Request,
        raw_url: str,
        *,
        key: str,
        verdict: str,
        rule: str | None = None,
        referrer: str | None = None,
    ) -> None:
        """Leave a row about a URL that was merged, rewritten, redirected or denied.

        Args:
            request: the request with that URL, or on whose way it lies.
            raw_url: the URL as it was linked.
            key: the key that it leads to.
            verdict: ``merged``, ``rewritten``, ``redirected`` or ``denied``.
            rule: what acted; by default the rules that the policy applied to the URL.
            referrer: the page that linked there; by default what the request says.
        """
        decision = self.decide(raw_url)
        rules = dict.fromkeys(change.rule for change in decision.changes)
        referrer = referrer_of(request) or referrer
        self.writer.note(
            AliasRecord(
                job_id=self.job.job_id,
                raw_url=redact(raw_url),
                fetch_url=redact(decision.fetch_url),
                url_key=redact(key),
                verdict=verdict,
                rule=rule or "+".join(rules) or "same_url",
                referrer_url=redact(referrer) if referrer else None,
                depth=request.meta.get("depth"),
                count=1,
            )
        )

    # -- the ledger

    @functools.cached_property
    def job(self) -> JobRecord:
        """The job of this crawl; with JOBDIR the one of the crawl that it resumes."""
        started_at = utc_now()
        return JobRecord(
            job_id=self.config.job_id or self._resumed_job_id or new_job_id(self.spider_name, started_at),
            spider=self.spider_name,
            corpus=self.config.corpus,
            settings_digest=self.config.settings_digest,
            policy=self.policy.policy_id,
            extractor=self.config.extract.extractor_id,
            source_digest=None,
            started_at=started_at,
        )

    @functools.cached_property
    def _job_folder(self) -> Path | None:
        folder = job_dir(self.crawler.settings)
        return Path(folder) if folder else None

    @functools.cached_property
    def _resumed_job_id(self) -> str | None:
        if self._job_folder is None:
            return None
        return read_job_id(self._job_folder, spider=self.spider_name, corpus=self.config.corpus)

    @functools.cached_property
    def has_changes_feed(self) -> bool:
        """Whether a feed wants to know what became of each page since it was last seen."""
        feeds = self.crawler.get_extension(FeedExporter)
        return feeds is not None and any(feed.get("format") == "changes" for feed in feeds.feeds.values())

    @property
    def writer(self) -> LedgerWriter:
        """The ledger's writer; it touches no file before its first record."""
        if self._writer is None:
            self._writer = LedgerWriter(
                self.config.ledger_url,
                self.job,
                self.policy.spec(),
                reuse_normalized=self.policy.name == "standard",
                with_changes=self.has_changes_feed,
                near=NearOptions(self.config.near, self.config.simhash_distance, self.config.near_jaccard),
            )
        return self._writer

    async def next_seq(self) -> int:
        """Return the number of the next observation of this job, opening the ledger if it is the first."""
        await self.open()
        return self.writer.next_seq()

    async def resume(self) -> None:
        """Take up the job of a paused crawl, so that its failures are known before the first link."""
        if self._resumed_job_id == self.job.job_id:
            await self.guard(self.open())

    async def open(self) -> None:
        """Open the ledger, once.

        Raises:
            LedgerError: when it cannot be opened.
        """
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        failed = await loop.run_in_executor(None, self._open_ledger)
        self.variants.remember(failed)

    def _open_ledger(self) -> list[tuple[str, str]]:
        """Open the ledger and return what failed before a resumed crawl was paused."""
        self.writer.open()
        if self._job_folder is None:
            return []
        job_id = self.job.job_id
        if self._resumed_job_id != job_id:
            write_job_id(self._job_folder, job_id, spider=self.job.spider, corpus=self.job.corpus)
            return []
        with Ledger.open(self.config.ledger_url) as ledger:
            return list(ledger.failed_urls(job_id))

    async def latest_pages(self, asked: Sequence[PageQuestion]) -> list[SeenPage | None]:
        """Return what was last seen of pages.

        Raises:
            LedgerError: when the ledger failed.
        """
        return await asyncio.wrap_future(self.writer.latest_pages(asked))

    async def record(self, sighting: Sighting) -> Recorded:
        """Commit an observation; return once it is durable.

        Raises:
            LedgerError: when the ledger failed; the crawl is then closing.
        """
        recorded = await asyncio.wrap_future(self.writer.record(sighting))
        self._count(recorded)
        return recorded

    def _count(self, recorded: Recorded) -> None:
        observation = recorded.observation
        self.stats.inc_value(names.PAGES_BY_ACTION + observation.action.value)
        if observation.reason:
            self.stats.inc_value(names.PAGES_BY_REASON + observation.reason)
        if observation.validity:
            self.stats.inc_value(names.PAGES_BY_VALIDITY + observation.validity.value)
        if recorded.body_is_new:
            self.stats.inc_value(names.BODIES_NEW)
        if recorded.near is not None:
            self._count_near(recorded, recorded.near)

    def _count_near(self, recorded: Recorded, found: NearFound) -> None:
        self.stats.inc_value(names.NEAR_LOOKED_UP)
        for pair in found.pairs:
            self.stats.inc_value(names.NEAR_PAIRS_BY_VERDICT + str(pair.relation.measures["verdict"]))
        for name, count in (
            (names.NEAR_PAIRS, len(found.pairs)),
            (names.NEAR_TEXTS, bool(found.pairs)),
            (names.NEAR_DIFFERENT, found.different),
            (names.NEAR_CANDIDATES_LEFT, found.left),
            (names.NEAR_SUPPRESSED, recorded.observation.reason == NEAR_DUPLICATE),
        ):
            if count:
                self.stats.inc_value(name, int(count))

    def fail(self, error: LedgerError) -> None:
        """Close the crawl because its ledger failed; nothing more can be counted as seen."""
        if self.ledger_failure is not None:
            return
        self.ledger_failure = error
        self.is_closing = True
        logger.critical(
            "The ledger failed, closing the spider: %s",
            error,
            extra={"spider": self.crawler.spider},
        )
        # Not by spawn(): the end of the crawl waits for the background work, and would wait for itself.
        self._closing = asyncio.ensure_future(self.crawler.engine.close_spider_async(reason=LEDGER_FAILED))

    # -- work beside the request that caused it

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run work in the background; the crawl does not end before it is done."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._wake_engine()
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, LedgerError):
            self.fail(error)
        elif error is not None:
            logger.error("Error in background work", exc_info=error, extra={"spider": self.crawler.spider})
            self.stats.inc_value(names.ERRORS)

    async def guard(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait for work that records; a ledger that fails closes the crawl."""
        try:
            await work
        except LedgerError as error:
            self.fail(error)

    def _wake_engine(self) -> None:
        """Let the engine look again whether the crawl is over; by itself it looks every five seconds."""
        slot = getattr(self.crawler.engine, "_slot", None)
        if slot is not None:
            slot.nextcall.schedule()

    @property
    def is_busy(self) -> bool:
        """Whether background work is under way."""
        return bool(self._tasks)

    async def settle(self) -> None:
        """Wait until the background work is done."""
        current = asyncio.current_task()
        while pending := [task for task in self._tasks if task is not current]:
            await asyncio.wait(pending)

    async def close(self, outcome: str) -> None:
        """End the pool, the job and its ledger, and complete the stats."""
        await self.pool.close()
        counters = self.pool.counters
        for name, count in (
            (names.EXTRACTIONS, counters.extractions),
            (names.EXTRACT_CACHE_HITS, counters.cache_hits),
            (names.EXTRACT_RESTARTS, counters.restarts),
            (names.EXTRACT_TIMEOUTS, counters.timeouts),
        ):
            self.stats.set_value(name, count)
        if self._writer is not None and self._writer.started:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._writer.finish, outcome)
            summary = await loop.run_in_executor(None, self._job_summary)
            self.stats.set_value(names.PAYLOADS_DISTINCT, summary["payloads"])
            self.stats.set_value(names.BODIES_DISTINCT, summary["bodies"])
            self.stats.set_value(names.ALIASES_KEPT, summary["aliases"])

    def _job_summary(self) -> dict[str, int]:
        with Ledger.open(self.config.ledger_url) as ledger:
            return ledger.job_summary(self.job.job_id)


def utc_now() -> str:
    """Return the time now as RFC 3339 in UTC, to the microsecond."""
    return dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def new_job_id(spider_name: str, started_at: str) -> str:
    """Return a new identity for a run: readable, and unique by its random end."""
    stamp = started_at.replace("-", "").replace(":", "").partition(".")[0]
    safe_name = "".join(char if char.isalnum() else "-" for char in spider_name)
    return f"{safe_name}-{stamp}Z-{secrets.token_hex(4)}"
