"""The feed format ``chunks``: the distinct chunks of all pages that are live at the end of the job.

Unlike the other formats it is no log of what the job saw but the state of its corpus, so it is written once,
when the job is over, and replaces what an earlier job left. The job does not end before it is written. Where
texts cannot be cut, a local file keeps what the earlier job wrote.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from concurrent import futures
from typing import IO, Any
from urllib.parse import urlsplit

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

logger = logging.getLogger(__name__)

FORMAT = "chunks"
FLUSH_TIMEOUT_S = 60.0


class ChunksFilter(ItemFilter):
    """Lets nothing in, so that the file is not opened, and the old one not lost, before the job is over."""

    def accepts(self, item: object) -> bool:  # noqa: ARG002 - Scrapy's signature
        """Refuse the item."""
        return False


def feed_options(uri: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a feed of this format needs whatever its user sets.

    It is written once, as a whole, also without items. A plain local file is opened to append to it, so that
    it is there until the exporter empties it.
    """
    is_emptied = urlsplit(uri).scheme in ("", "file") and not options.get("postprocessing")
    return {
        **options,
        "item_filter": ChunksFilter,
        "overwrite": not is_emptied,
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
            _empty(self.file)
            for record in live.records():
                self.file.write(record_line(record, self.fields_to_export))
            self.file.flush()
            _count(suite, ledger, live)
            # Scrapy's own line counts items, and there are none.
            logger.info("%d distinct chunks of %d live pages", live.counts.distinct, live.counts.pages)


def _empty(file: IO[bytes]) -> None:
    """Take out what an earlier job left in a file that is open to append to it."""
    if getattr(file, "mode", None) == "ab" and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.truncate(0)


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
