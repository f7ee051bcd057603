"""``scrapy dedup check``: everything that is wrong with settings, rule files and ledger, at once."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import scrapy
import sqlalchemy

import scrapy_dedup
from scrapy_dedup.crawl.addon import ledger_url, read_config
from scrapy_dedup.crawl.cli.context import Context, named_ledger_url
from scrapy_dedup.crawl.cli.output import columns, printable, shown_url
from scrapy_dedup.errors import ConfigError, LedgerError
from scrapy_dedup.ledger import Ledger, LedgerWriter, near_audit

_SQLITE = "sqlite:///"
# Before it, two connections that write or checkpoint at one moment can corrupt a WAL file.
_SAFE_WAL = (3, 51, 3)


@dataclass(slots=True)
class Findings:
    """What a check has found so far."""

    facts: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def run(context: Context) -> int:
    """Print all facts, warnings and problems; return 1 when there is a problem."""
    findings = Findings(facts=list(_versions()))
    _check_settings(context, findings)
    _check_ledger(context, findings)
    context.write(columns(findings.facts))
    for warning in findings.warnings:
        context.write(f"Warning: {warning}")
    if not findings.problems:
        context.write("OK")
        return 0
    context.write(f"{len(findings.problems)} problem(s):")
    for problem in findings.problems:
        context.write(f"  - {printable(problem)}")
    return 1


def _versions() -> Iterator[tuple[str, str]]:
    yield "scrapy_dedup", scrapy_dedup.__version__
    yield "Scrapy", scrapy.__version__
    yield "Python", platform.python_version()
    yield "SQLAlchemy", sqlalchemy.__version__
    yield "SQLite", sqlite3.sqlite_version


def _check_settings(context: Context, findings: Findings) -> None:
    try:
        config = read_config(context.settings)
    except ConfigError as error:
        findings.problems += error.problems
        return
    findings.facts.append(("policy", config.policy.policy_id))
    findings.facts.append(("extractor", config.extract.extractor_id))
    if not config.enabled:
        findings.warnings.append("DEDUP_ENABLED is off: crawls record nothing")


def _check_ledger(context: Context, findings: Findings) -> None:
    url = _ledger_url(context)
    if url is None:  # named among the problems of the settings
        return
    findings.facts.append(("ledger", shown_url(url)))
    if url.startswith(_SQLITE) and sqlite3.sqlite_version_info < _SAFE_WAL:
        findings.warnings.append(
            f"SQLite {sqlite3.sqlite_version} is older than {'.'.join(map(str, _SAFE_WAL))} and can damage a "
            "ledger that two programs write at the same time. Crawls of scrapy_dedup take turns and are "
            "safe; write to the ledger with nothing else"
        )
    try:
        LedgerWriter.check(url)
        if context.options.ledger is None and _is_missing(url):
            findings.facts.append(("", "does not exist yet; the first page of a crawl makes it"))
            return
        if context.options.repair:
            findings.facts += [("repaired", printable(done)) for done in near_audit.repair(url)]
        with Ledger.open(url) as ledger:
            findings.problems += ledger.check(deep=context.options.deep)
    except LedgerError as error:
        findings.problems.append(str(error))


def _ledger_url(context: Context) -> str | None:
    """Return the ledger even when other settings are wrong, so that its problems are told with theirs."""
    if context.options.ledger:
        return named_ledger_url(context.options.ledger)
    return ledger_url(context.settings)


def _is_missing(url: str) -> bool:
    return url.startswith(_SQLITE) and not Path(url.removeprefix(_SQLITE)).exists()
