"""``scrapy dedup export``: the records of the ledger as files that are either whole or not there."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from scrapy_dedup.batch.record_files import drafts_of, make_folder, sync, told_as, write_files
from scrapy_dedup.crawl.cli.chunks import MODEL_OPTIONS, chunk_options_of, open_ledger, told_chunks
from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import columns, printable
from scrapy_dedup.crawl.exporters import record_line
from scrapy_dedup.errors import ConfigError, DedupError
from scrapy_dedup.jobs.live import live_chunks
from scrapy_dedup.jobs.similar import relate_similar
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.records import ChangeKind, ChangeRecord

DEFAULT_FOLDER = "dedup-export"

# File, and the records in it. An open ledger shows one state, so the files fit together during a crawl too.
_Source = Callable[[Ledger, "str | None"], Iterable[object]]
CHANGES_FILE = "changes.jsonl"
CHUNKS_FILE = "chunks"
FILES: dict[str, _Source] = {
    "jobs.jsonl": lambda ledger, job_id: (row for row in ledger.jobs() if job_id in (None, row.job_id)),
    "observations.jsonl": lambda ledger, job_id: ledger.observations(job_id=job_id),
    "bodies.jsonl": lambda ledger, job_id: ledger.bodies(job_id=job_id),
    "aliases.jsonl": lambda ledger, job_id: ledger.aliases(job_id=job_id),
    "relations.jsonl": lambda ledger, job_id: ledger.relations(job_id=job_id),
    "decisions.jsonl": lambda ledger, job_id: ledger.decisions(),  # noqa: ARG005 - they belong to no job
}


# An option of the command line, its name, its value where it is not given, and the export that it is for.
_OPTIONS: tuple[tuple[str, str, object, str], ...] = (
    ("--since", "since", None, "changes"),
    ("--backup", "backup", None, "records"),
    ("--corpus", "corpus", None, "chunks"),
    ("--format", "format", "jsonl", "chunks"),
    ("--no-near", "near", True, "chunks"),
    *((f"--{name.replace('_', '-')}", name, None, "chunks") for name in MODEL_OPTIONS),
)


def run(context: Context) -> int:
    """Write the files, copy the ledger, or both."""
    options = context.options
    _refuse_options_of_others(options)
    if options.what == "changes":
        return _run_changes(context)
    if options.what == "chunks":
        return _run_chunks(context)
    with Ledger.open(context.ledger_url()) as ledger:
        if options.backup:
            target = Path(options.backup).absolute()
            if target.exists():
                raise DedupError(f"{target} exists; name a new file for the copy of the ledger")
            ledger.backup(target)
            context.write(f"{printable(str(target))}: copy of the ledger")
        if options.out or not options.backup:
            folder = Path(options.out or DEFAULT_FOLDER).resolve()
            for path, count in export(ledger, folder, job_id=options.job):
                context.write(f"{printable(str(path))}: {count:,} {'line' if count == 1 else 'lines'}")
    return 0


def _refuse_options_of_others(options: argparse.Namespace) -> None:
    """Refuse options that would have no effect.

    Raises:
        ConfigError: with all of them.
    """
    problems = [
        f"{option} goes with {what}, not with {options.what}"
        for option, name, unset, what in _OPTIONS
        if getattr(options, name) != unset and what != options.what
    ]
    if problems:
        raise ConfigError(problems, "options")


def _run_changes(context: Context) -> int:
    """Write what became of each URL, and print how many there are of each kind."""
    options = context.options
    folder = Path(options.out or DEFAULT_FOLDER).resolve()
    with Ledger.open(context.ledger_url()) as ledger:
        counts = export_changes(ledger, folder, since=options.since, job_id=options.job)
    total = sum(counts.values())
    context.write(f"{printable(str(folder / CHANGES_FILE))}: {total:,} {'line' if total == 1 else 'lines'}")
    context.write(columns((kind.value, f"{counts[kind]:>9,}") for kind in ChangeKind))
    return 0


def _run_chunks(context: Context) -> int:
    """Write the distinct chunks of the live pages, and print how many there are."""
    options = context.options
    folder = Path(options.out or DEFAULT_FOLDER).absolute()
    corpus, chunk_options = chunk_options_of(context)
    with (
        open_ledger(context.ledger_url(), corpus) as ledger,
        live_chunks(ledger, corpus, chunk_options, until=options.job) as live,
    ):
        if options.near:
            relate_similar(live)
        (path,) = write_files(folder, options.format, {CHUNKS_FILE: live.records()})
        counts = live.counts
    context.write(
        f"{printable(str(path))}: {counts.distinct:,} {'line' if counts.distinct == 1 else 'lines'}"
    )
    context.write(told_chunks(counts))
    return 0


def export_changes(
    ledger: Ledger, folder: Path, *, since: str | None = None, job_id: str | None = None
) -> Counter[ChangeKind]:
    """Write ``changes.jsonl`` into a folder, replacing an earlier one once the new one is complete.

    Args:
        ledger: the ledger.
        folder: where to write; made where needed.
        since: the last of the earlier jobs, as `Ledger.changes` takes it.
        job_id: the last of the later jobs.

    Returns:
        How many changes there are of each kind.

    Raises:
        DedupError: when the ledger holds no such job, or the file cannot be written.
    """
    counts: Counter[ChangeKind] = Counter()

    def counted(changes: Iterable[ChangeRecord]) -> Iterator[ChangeRecord]:
        for change in changes:
            counts[change.kind] += 1
            yield change

    _write_all(folder, {CHANGES_FILE: counted(ledger.changes(since=since, job_id=job_id))})
    return counts


def export(ledger: Ledger, folder: Path, *, job_id: str | None = None) -> list[tuple[Path, int]]:
    """Write all records into a folder, replacing what an earlier export left there.

    Every file is complete and on the disk before the first one is renamed into its place; after an error the
    folder is as it was. A link in the place of a file is replaced, never followed.

    Returns:
        Path and number of lines of each file.

    Raises:
        DedupError: when the ledger holds no such job, or a file cannot be written.
    """
    if job_id is not None and all(row.job_id != job_id for row in ledger.jobs()):
        raise DedupError(f"the ledger holds no job {job_id!r}; 'scrapy dedup export' without --job takes all")
    counts = _write_all(folder, {name: source(ledger, job_id) for name, source in FILES.items()})
    return [(folder / name, count) for name, count in counts.items()]


def _write_all(folder: Path, files: Mapping[str, Iterable[object]]) -> dict[str, int]:
    """Write files of records, all or none of them; return the number of lines of each."""
    make_folder(folder)
    for name in files:
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            raise DedupError(f"{folder / name} is a folder; name another place for the export")
    with drafts_of([folder / name for name in files]) as drafts:
        counts: dict[str, int] = {}
        for name, records in files.items():
            with told_as(folder / name):
                counts[name] = _write(drafts[folder / name], records)
        for path, draft in drafts.items():
            draft.replace(path)
    sync(folder)
    return counts


def _write(path: Path, records: Iterable[object]) -> int:
    count = 0
    with path.open("xb") as file:
        for record in records:
            file.write(record_line(record))
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return count
