"""What the commands about chunks have in common: their options, and how they tell what they found."""

from __future__ import annotations

from scrapy_dedup.batch.sources import load_pyarrow
from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.crawl.addon import read_config
from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import columns
from scrapy_dedup.errors import ConfigError, DedupError
from scrapy_dedup.jobs.live import Counts
from scrapy_dedup.ledger import Ledger

MODEL_OPTIONS = ("model", "revision", "dimensions", "prefix", "max_tokens")


def chunk_options_of(context: Context) -> tuple[str, ChunkOptions]:
    """Return the corpus that the command line or the settings name, and the options of its chunks.

    Raises:
        ConfigError: the settings or the options are wrong.
        DedupError: what the format of the file needs is not installed.
    """
    config = read_config(context.settings)
    options = context.options
    if options.format == "parquet":
        load_pyarrow("--format parquet")
    stated = {name: getattr(options, name) for name in MODEL_OPTIONS if getattr(options, name) is not None}
    try:
        chosen = ChunkOptions.of({**config.chunks.spec(), **stated})
    except ConfigError as error:
        raise ConfigError(error.problems, "options") from None
    return options.corpus or config.corpus, chosen


def open_ledger(url: str, corpus: str) -> Ledger:
    """Open a ledger that holds jobs of a corpus; of one whose name is a slip the chunks would be none.

    Raises:
        DedupError: there is no job of the corpus.
        LedgerError: the ledger cannot be read.
    """
    ledger = Ledger.open(url)
    known = {job.corpus for job in ledger.jobs()}
    if corpus in known:
        return ledger
    ledger.close()
    listed = ", ".join(sorted(known)) or "none"
    raise DedupError(f"the ledger holds no job of the corpus {corpus!r}; its corpora: {listed}")


def told_chunks(counts: Counts) -> str:
    """Return the counts of chunks as a table."""
    return columns(
        [
            ("pages", f"{counts.pages:>12,}"),
            ("chunks", f"{counts.chunks:>12,}"),
            ("distinct chunks", f"{counts.distinct:>12,}"),
            ("  shared", f"{counts.shared:>12,}"),
        ]
    )
