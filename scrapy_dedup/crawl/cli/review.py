"""``scrapy dedup review``: what two similar texts are to each other, asked of people, pair after pair."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.crawl.cli.relations import short
from scrapy_dedup.crawl.cli.review_file import import_file, write_file
from scrapy_dedup.crawl.cli.review_keys import TerminalKeys
from scrapy_dedup.crawl.cli.review_session import Session, Tally
from scrapy_dedup.crawl.cli.signature import signature
from scrapy_dedup.crawl.cli.suppression import tell_suppression
from scrapy_dedup.errors import ConfigError, DedupError
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.review_queue import KINDS, MAX_QUEUE, Queue
from scrapy_dedup.records import RelationKind

MAX_DECISIONS_TOLD = 20


def run(context: Context) -> int:
    """Ask, or write and read the files by which others are asked."""
    options = context.options
    _check(context)
    url = context.ledger_url()
    if options.would_suppress:
        return tell_suppression(context, url, context.corpus())
    if options.import_from:
        return import_file(context, url, Path(options.import_from), by=signature(options.by))
    queue = _queue(context, url)
    if options.export:
        return write_file(context, url, Path(options.export), queue)
    return _ask(context, url, queue)


def _check(context: Context) -> None:
    """Refuse options that do not go together.

    Raises:
        ConfigError: with all that is wrong.
    """
    options = context.options
    modes = {
        "--would-suppress": options.would_suppress,
        "--export": options.export,
        "--import": options.import_from,
    }
    given = [name for name, value in modes.items() if value]
    problems = [f"{' and '.join(given)}: one of them at a time"] if len(given) > 1 else []
    if options.limit is not None and not 1 <= options.limit <= MAX_QUEUE:
        problems.append(f"--limit {options.limit}: from 1 to {MAX_QUEUE:,} pairs")
    if options.json and not options.would_suppress:
        problems.append("--json goes with --would-suppress")
    if problems:
        raise ConfigError(problems, "the options of the review")


def _queue(context: Context, url: str) -> Queue:
    options = context.options
    kinds = [RelationKind(options.kind)] if options.kind else KINDS
    with Ledger.open(url) as ledger:
        queue = ledger.for_review(context.corpus(), kinds)
    return Queue(queue.entries[: options.limit], queue.open, queue.decided)


def _ask(context: Context, url: str, queue: Queue) -> int:
    by = signature(context.options.by)
    if not queue.entries:
        context.write(
            f"Nothing to review in the corpus {printable(context.corpus())}: {queue.decided:,} pairs are "
            "decided, and none is open. 'scrapy dedup batch' finds pairs."
        )
        return 0
    console = Console(file=context.out, highlight=False)
    if not (sys.stdin.isatty() and console.is_terminal) or console.is_dumb_terminal:
        raise DedupError(
            f"{queue.open:,} pairs are open, but there is no terminal to show them on. Write them to a file "
            "with --export FILE, fill in the verdicts, and take them in with --import FILE."
        )
    with TerminalKeys(sys.stdin.fileno(), lambda: console.size) as keys:
        tally = Session(url, queue, by=by, console=console, keys=keys).run()
    context.write("\n".join(_told(context, queue, tally)))
    return 0


def _told(context: Context, queue: Queue, tally: Tally) -> Iterator[str]:
    counted = ", ".join(f"{count} {verdict.value}" for verdict, count in tally.counts.items())
    decided = len(tally.verdicts)
    yield (
        f"{decided:,} decided{f' ({counted})' if counted else ''}, {tally.skipped:,} skipped, "
        f"{tally.undone:,} taken back; {queue.open - decided:,} pairs are open"
    )
    yield from _undos(context, tally)


def _undos(context: Context, tally: Tally) -> Iterator[str]:
    """Yield how each verdict is undone later."""
    told = tally.verdicts[-MAX_DECISIONS_TOLD:]
    if len(tally.verdicts) > len(told):
        yield f"  and {len(tally.verdicts) - len(told):,} before these"
    for one in told:
        yield f"  {one.verdict.value}: {context.command('undo', short(one.decision.decision_id))}"
