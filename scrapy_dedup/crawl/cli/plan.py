"""``scrapy dedup plan``: what an index has to upsert and to delete, as a file, and that it was done."""

from __future__ import annotations

import re
from pathlib import Path

from scrapy_dedup.batch.record_files import write_files
from scrapy_dedup.crawl.cli.chunks import chunk_options_of, open_ledger, told_chunks
from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import columns, printable
from scrapy_dedup.errors import ConfigError, DedupError
from scrapy_dedup.jobs.plan import DEFAULT_TARGET, PlanCounts, plan_index
from scrapy_dedup.ledger.plans import confirm_plan, discard_plan, migrate, save_plan

PLAN_FILE = "plan"

_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*(%?)")
_TARGET = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PLAN_ID = re.compile(r"plan1-[0-9a-f]{32}")


def run(context: Context) -> int:
    """Write the plan, or confirm one."""
    max_delete = _checked(context)
    if context.options.applied is not None:
        return _confirm(context)
    if context.options.discard is not None:
        return _discard(context)
    options = context.options
    path = Path(options.out).absolute() / f"{PLAN_FILE}.{options.format}"
    try:
        return _make(context, max_delete)
    except DedupError as error:
        if path.is_file():
            raise DedupError(f"{error}\n  {path} is an earlier plan") from error
        raise


def _make(context: Context, max_delete: float) -> int:
    options = context.options
    corpus, chunk_options = chunk_options_of(context)
    url = context.ledger_url()
    migrate(url)
    with (
        open_ledger(url, corpus) as ledger,
        plan_index(
            ledger,
            corpus,
            chunk_options,
            target=options.target,
            since=options.since,
            is_empty=options.rebuild,
        ) as plan,
    ):
        plan.refuse_mass_delete(max_delete)
        counts = plan.counts
        # A plan that can be applied is known to the ledger first, since the later ones have to build on it.
        (path,) = write_files(
            Path(options.out).absolute(),
            options.format,
            {PLAN_FILE: plan.records()},
            before_naming=lambda: save_plan(
                url,
                corpus,
                options.target,
                plan_id=plan.plan_id,
                options=plan.options,
                changes=plan.changes(),
                is_whole=plan.is_whole,
                starts_at=plan.starts_at,
            ),
        )
        context.write(told_chunks(plan.live.counts))
    context.write(_told(counts))
    context.write(f"wrote {printable(str(path))}: {plan.plan_id}")
    if counts.is_empty and not plan.is_whole:
        context.write("the index holds what the live pages show; nothing is to be done")
    else:
        words = ["plan", "--applied", plan.plan_id]
        words += ["--corpus", options.corpus] if options.corpus else []
        words += ["--target", options.target] if options.target != DEFAULT_TARGET else []
        context.write(f"once it is applied: {context.command(*words)}")
    return 0


def _confirm(context: Context) -> int:
    options = context.options
    is_news = confirm_plan(context.ledger_url(), context.corpus(), options.target, options.applied)
    said = "is confirmed: the index holds what it says" if is_news else "was confirmed before"
    context.write(f"{options.applied} {said}")
    return 0


def _discard(context: Context) -> int:
    options = context.options
    discard_plan(context.ledger_url(), context.corpus(), options.target, options.discard)
    context.write(f"{options.discard} is forgotten: the index holds what was confirmed before it")
    return 0


def _checked(context: Context) -> float:
    """Return the share of the index that a plan may delete.

    Raises:
        ConfigError: options are wrong or do not go together.
    """
    options = context.options
    problems: list[str] = []
    found = _SHARE.fullmatch(options.max_delete.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= share <= 1 or options.max_delete.strip() == "1":  # which may be meant for 1%
        problems.append(f"--max-delete is {options.max_delete!r}; use a share such as 20%, 0.2 or 100%")
    if not _TARGET.fullmatch(options.target):
        problems.append(f"--target is {options.target!r}; use up to 100 letters, digits or . _ -")
    if options.since and options.rebuild:
        problems.append("--since and --rebuild both say what the index holds; use one of them")
    for name, plan_id in (("--applied", options.applied), ("--discard", options.discard)):
        if plan_id is not None and not _PLAN_ID.fullmatch(plan_id):
            problems.append(f"{name} is {plan_id!r}; use the plan_id that each line of the plan has")
        if plan_id is not None and (options.since or options.rebuild):
            problems.append(
                f"{name} is about a plan that was made; it goes with neither --since nor --rebuild"
            )
    if None not in (options.applied, options.discard):
        problems.append("--applied and --discard say that a plan was applied, and that it was not; use one")
    if problems:
        raise ConfigError(problems, "options")
    return share


def _told(counts: PlanCounts) -> str:
    return columns(
        [
            ("upsert", f"{counts.upserts:>12,}"),
            *((f"  {code}", f"{count:>12,}") for code, count in sorted(counts.because.items())),
            ("embeddings reused", f"{counts.reused + counts.keeps:>12,}"),
            ("embeddings to make", f"{counts.upserts - counts.reused:>12,}"),
            ("keep", f"{counts.keeps:>12,}"),
            ("delete", f"{counts.deletes:>12,}"),
        ]
    )
