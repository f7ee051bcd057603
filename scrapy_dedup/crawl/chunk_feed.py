"""The feed format ``chunks``: the distinct chunks of all pages that are live at the end of the job.

Unlike the other formats it is no log of what the job saw but the state of its corpus, so it is written once,
when the job is over, and replaces what an earlier job left. The job does not end before it is written.
"""

from __future__ import annotations

from concurrent import futures
from typing import Any

from scrapy.extensions.feedexport import ItemFilter

from scrapy_dedup.crawl import stats
from scrapy_dedup.crawl.exporters import RecordExporter, record_line
from scrapy_dedup.crawl.items import PageRow
from scrapy_dedup.crawl.suite import Suite
from scrapy_dedup.errors import DedupError, LedgerWriteFailed
from scrapy_dedup.jobs.live import LiveChunks, live_chunks
from scrapy_dedup.jobs.plan import DEFAULT_TARGET
from scrapy_dedup.jobs.similar import relate_similar
from scrapy_dedup.ledger import Ledger

FORMAT = "chunks"
FLUSH_TIMEOUT_S = 60.0


class ChunksFilter(ItemFilter):
    """Lets nothing in, so that the file is not opened, and the old one not lost, before the job is over."""

    def accepts(self, item: object) -> bool:  # noqa: ARG002 - Scrapy's signature
        """Refuse the item."""
        return False


# What a feed of this format needs whatever its user sets: it is written once, as a whole, also without items.
FEED_OPTIONS: dict[str, Any] = {
    "item_filter": ChunksFilter,
    "overwrite": True,
    "store_empty": True,
    "batch_item_count": 0,
}


class ChunksExporter(RecordExporter):
    """The feed format ``chunks``: one line for each distinct chunk of the live pages."""

    recovery = "scrapy dedup export chunks"

    def records(self, row: PageRow) -> tuple[object, ...]:  # noqa: ARG002 - of the interface
        """Return nothing: what pages show is known when the job is over."""
        return ()

    def finish_exporting(self) -> None:
        """Write the chunks."""
        try:
            self._write()
        except (DedupError, OSError) as error:
            self._stop_writing(error)

    def _write(self) -> None:
        if self._crawler is None:
            raise DedupError("the format 'chunks' needs a crawl; 'scrapy dedup export chunks' does not")
        suite = Suite.of(self._crawler)
        config = suite.config
        _flush(suite)
        with (
            Ledger.open(config.ledger_url) as ledger,
            live_chunks(ledger, config.corpus, config.chunks) as live,
        ):
            relate_similar(live)
            for record in live.records():
                self.file.write(record_line(record, self.fields_to_export))
            self.file.flush()
            _count(suite, ledger, live)


def _flush(suite: Suite) -> None:
    """Wait until all that the crawl saw is in the ledger, the notes about URLs too."""
    if not suite.writer.started:
        return
    try:
        suite.writer.flush().result(FLUSH_TIMEOUT_S)
    except futures.TimeoutError as error:
        said = f"the ledger did not take within {FLUSH_TIMEOUT_S:g} s what the crawl saw"
        raise DedupError(said) from error
    except LedgerWriteFailed:  # the job has ended already, or the ledger failed, which the crawl tells
        suite.writer.finish("finished")


def _count(suite: Suite, ledger: Ledger, live: LiveChunks) -> None:
    counts = live.counts
    known = {one.embed_key for one in ledger.index_entries(live.corpus, DEFAULT_TARGET)}
    reused = sum(one.embed_key in known for one in live.sealed())
    suite.stats.set_value(stats.CHUNKS, counts.chunks)
    suite.stats.set_value(stats.CHUNKS_DISTINCT, counts.distinct)
    suite.stats.set_value(stats.EMBEDDINGS_REUSED, reused)
