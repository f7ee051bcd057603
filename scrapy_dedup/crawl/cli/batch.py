"""``scrapy dedup batch``: all similar pairs of a corpus, what they are to each other, and groups of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from scrapy_dedup.batch import Plan, Progress, Summary, parse_bytes, run_batch
from scrapy_dedup.batch.corpus import (
    from_files,
    from_ledger,
    input_problems,
    stated_by_files,
    stated_by_ledger,
)
from scrapy_dedup.batch.local import RESULTS, stated_by
from scrapy_dedup.batch.plan import plan_problems
from scrapy_dedup.batch.related import decided_pairs, relate
from scrapy_dedup.batch.sources import load_pyarrow
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.batch.workers import ProcessDied
from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import columns, printable
from scrapy_dedup.errors import ConfigError, DedupError, InputError
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.near_relations import EQUAL
from scrapy_dedup.ledger.texts import Space
from scrapy_dedup.near.bands import Banding
from scrapy_dedup.near.claims import Verdict
from scrapy_dedup.near.minhash import PERMUTATIONS

WORK_FOLDER = ".work"
CURVE_AT = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)

_UNITS = {"reading": ("B", 1_024), "pairing": ("band", 1_000), "comparing": ("pair", 1_000)}
_SIMILAR = "similar"
_VERDICTS = (EQUAL, *(verdict.value for verdict in Verdict), _SIMILAR)


def run(context: Context) -> int:
    """Find pairs and groups, write them, and say how many there are."""
    plan = _plan(context)
    context.write(_banding(plan))
    if context.options.input:
        _run_on_files(context, plan)
    else:
        _run_on_ledger(context, plan)
    return 0


def _plan(context: Context) -> Plan:
    """Return the options of the batch.

    Raises:
        ConfigError: some are wrong, each with what to do.
    """
    options = context.options
    workers = cores() if options.workers is None else options.workers
    problems = [
        *plan_problems(options.jaccard, options.bands, options.rows, workers),
        *input_problems(
            [Path(name) for name in options.input],
            [Path(options.out) / f"{name}.{options.format}" for name in RESULTS],
        ),
    ]
    if options.input and options.ledger:
        problems.append("--input and --ledger: the texts come from files or from a ledger, not from both")
    problems += [
        f"--{name} chooses texts of a ledger; it does not go with --input"
        for name in ("corpus", "extractor")
        if options.input and getattr(options, name)
    ]
    memory_bytes = 0
    try:
        memory_bytes = parse_bytes(options.memory)
    except ValueError as error:
        problems.append(f"--memory: {error}")
    if options.format == "parquet":
        try:
            load_pyarrow("--format parquet")
        except DedupError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(problems, "the options of the batch")
    banding = (
        Banding(options.bands, options.rows) if options.bands else Banding.for_threshold(options.jaccard)
    )
    return Plan(options.jaccard, banding, options.claims, memory_bytes, workers)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_on_files(context: Context, plan: Plan) -> None:
    options = context.options
    paths = [Path(name) for name in options.input]
    out = Path(options.out).absolute()
    with _work(context, stated_by(plan, stated_by_files(paths))) as work, bars() as progress:
        sources = from_files(work, paths)
        summary, _ = run_batch(sources, plan, work, out, file_format=options.format, progress=progress)
        work.discard()
    context.write(_told(summary))


def _run_on_ledger(context: Context, plan: Plan) -> None:
    options = context.options
    url = context.ledger_url()
    out = Path(options.out).absolute()
    with Ledger.open(url) as ledger:
        space = chosen_space(context, ledger)
        stated = stated_by(plan, stated_by_ledger(url, space))
        with _work(context, stated) as work, bars() as progress:
            sources = from_ledger(work, ledger, space)
            decided = decided_pairs(ledger, space.corpus)
            summary, results = run_batch(
                sources, plan, work, out, file_format=options.format, decided=decided, progress=progress
            )
            written = relate(url, space.corpus, plan, results=results, work=work, sources=sources)
            work.discard()
    context.write(_told(summary))
    context.write(f"{written:,} relations of the ledger are new or have changed")


def chosen_space(context: Context, ledger: Ledger) -> Space:
    """Return the texts of the ledger that are compared, and say so where there are others.

    Raises:
        DedupError: there are none.
    """
    options = context.options
    corpus = context.corpus()
    spaces = ledger.spaces(corpus)
    fitting = [one for one in spaces if options.extractor in (None, one.extractor_id)]
    if not fitting:
        others = f" of extractor {options.extractor!r}" if options.extractor and spaces else ""
        raise DedupError(f"the ledger holds no texts{others} in the corpus {corpus!r}")
    chosen = fitting[0]
    context.write(printable(f"texts of corpus {corpus}, {chosen.representation} by {chosen.extractor_id}"))
    for other in spaces:
        if other is not chosen:
            context.write(
                printable(f"left out: {other.bodies:,} texts by {other.extractor_id} (--extractor)")
            )
    return chosen


@contextmanager
def _work(context: Context, stated: Mapping[str, object]) -> Iterator[WorkFolder]:
    options = context.options
    with WorkFolder(Path(options.out).absolute() / WORK_FOLDER, stated, resume=options.resume) as work:
        if options.resume:
            context.write(
                "going on with the run that was stopped" if work.resumed else "nothing to go on with"
            )
        elif work.discarded:
            context.write("an earlier run was not complete; it is begun anew (--resume would go on with it)")
        try:
            yield work
        except InputError:
            work.discard()
            raise
        except OSError as error:
            if error.filename is None:  # such as a full disk
                raise OSError(error.errno, error.strerror, str(work.path)) from error
            raise
        except ProcessDied as error:
            raise DedupError(
                f"{error} Go on with --resume and a smaller --memory or fewer --workers."
            ) from error


@contextmanager
def bars() -> Iterator[Progress]:
    """Give a function that shows progress, one bar for each step, where stderr is a terminal."""
    tqdm.monitor_interval = 0  # no thread of its own
    bars: dict[str, tqdm[None]] = {}

    def show(step: str, done: int, total: int) -> None:
        if step not in bars:
            for bar in bars.values():
                bar.close()
            unit, divisor = _UNITS[step]
            bars[step] = tqdm(
                total=total,
                desc=step,
                unit=unit,
                unit_scale=True,
                unit_divisor=divisor,
                disable=not sys.stderr.isatty(),
            )
        bars[step].update(done - bars[step].n)

    try:
        yield show
    finally:
        for bar in bars.values():
            bar.close()


def _banding(plan: Plan) -> str:
    banding = plan.banding
    used = f"{banding.bands * banding.rows} of {PERMUTATIONS} values"
    steepest = f"(1/{banding.bands})^(1/{banding.rows}) = {banding.threshold:.3f}"
    similarities = "".join(f"{similarity:>7g}" for similarity in CURVE_AT)
    probabilities = "".join(f"{banding.probability(similarity):>7.3f}" for similarity in CURVE_AT)
    return (
        f"{banding.bands} bands of {banding.rows} rows ({used}); steepest at {steepest}\n"
        f"similarity  {similarities}\n"
        f"found with  {probabilities}"
    )


def _told(summary: Summary) -> str:
    counts = summary.counts
    table = [
        ("texts", f"{counts.texts:>12,}"),
        ("  copies of others", f"{counts.copies:>12,}"),
        ("  too short, not compared", f"{counts.short:>12,}"),
        ("candidate pairs", f"{summary.candidates:>12,}"),
        ("pairs", f"{summary.verdicts.total():>12,}"),
        *(
            (f"  {verdict}", f"{summary.verdicts[verdict]:>12,}")
            for verdict in _VERDICTS
            if summary.verdicts[verdict]
        ),
        ("groups", f"{summary.groups:>12,}"),
        ("  texts in them", f"{summary.grouped:>12,}"),
    ]
    lines = [columns(table)]
    if summary.largest:
        lines.append("largest groups:")
        lines += [f"  {size:>9,}  {printable(leader)}" for leader, size in summary.largest]
    lines += [f"wrote {printable(str(path))}" for path in summary.files]
    return "\n".join(lines)
