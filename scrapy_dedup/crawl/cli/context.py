"""What every subcommand gets: its options, the settings, the ledger they name, and a place to write to."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from scrapy.exceptions import UsageError
from scrapy.settings import Settings
from scrapy.spiderloader import get_spider_loader

from scrapy_dedup.config import absolute_ledger_url
from scrapy_dedup.crawl.addon import read_config
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.errors import DedupError
from scrapy_dedup.urls import redact


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of one subcommand.

    Attributes:
        options: the options of the command line.
        settings: Scrapy's settings with the project's, the spider's and the command line's in them.
        out: where results go.
    """

    options: argparse.Namespace
    settings: Settings
    out: TextIO

    def write(self, text: str) -> None:
        """Write lines of results."""
        self.out.write(text + "\n")

    def command(self, *words: str) -> str:
        """Return a command of the suite for the same ledger, as it is typed; a password is left out."""
        options = self.options
        named = ["--ledger", redact(options.ledger)] if options.ledger else []
        named += ["--spider", options.spider] if options.spider else []
        for setting in options.set:
            named += ["-s", redact(setting)]
        return printable(shlex.join(["scrapy", "dedup", *words, *named]))

    def corpus(self) -> str:
        """Return the corpus that the command line or the settings name."""
        return str(self.options.corpus or self.settings.get("DEDUP_CORPUS") or "default")

    def ledger_url(self) -> str:
        """Return the ledger that the command line or the settings name, with an absolute path.

        Raises:
            ConfigError: when the settings are needed and wrong.
        """
        named: str | None = self.options.ledger
        return named_ledger_url(named) if named else read_config(self.settings).ledger_url


def named_ledger_url(named: str) -> str:
    """Return the URL of a ledger named on the command line, where a bare path means an SQLite file."""
    return absolute_ledger_url(named if "://" in named else f"sqlite:///{named}", Path.cwd())


def run_reported(run: Callable[[Context], int], options: argparse.Namespace, settings: Settings) -> int:
    """Run a subcommand and return its exit code; what the suite or the system refuses is told on stderr.

    Raises:
        UsageError: when the command line names a spider that is not there.
    """
    try:
        if options.spider:
            _apply_spider(options.spider, settings)
        return run(Context(options, settings, sys.stdout))
    except BrokenPipeError:
        raise
    except (DedupError, OSError) as error:
        message = "\n".join(map(printable, _told(error).splitlines()))
        sys.stderr.write(f"scrapy dedup {options.subcommand}: {message}\n")
        return 1


def _told(error: Exception) -> str:
    """Return what an error says, without the number that the system gives to its sort of error."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _apply_spider(name: str, settings: Settings) -> None:
    try:
        spider_class = get_spider_loader(settings).load(name)
    except KeyError:
        raise UsageError(f"there is no spider {name!r} here", print_help=False) from None
    spider_class.update_settings(settings)
