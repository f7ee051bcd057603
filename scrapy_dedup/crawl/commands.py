"""``scrapy dedup``: the command line of the suite.

Scrapy loads this module for every command that it runs, so it imports nothing of the suite; a subcommand is
imported when it is asked for.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import io
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from scrapy.settings import Settings

_HOME = "scrapy_dedup.crawl.cli"

# Options of all commands of Scrapy; they stand before the subcommand or behind it, like its own.
_OF_SCRAPY: tuple[tuple[tuple[str, ...], str], ...] = (
    (("--logfile",), "store"),
    (("-L", "--loglevel"), "store"),
    (("--nolog",), "store_true"),
    (("--profile",), "store"),
    (("--pidfile",), "store"),
    (("--pdb",), "store_true"),
)
# A host, perhaps a port, and a path: what is typed for a URL in a browser.
_WITHOUT_SCHEME = re.compile(r"(//)?[\w-]+(\.[\w-]+)*\.?(:\d{1,5})?([/?#].*)?|[\w-]+(\.[\w-]+)+\*", re.DOTALL)

# What `decide` takes; the other actions have commands of their own.
DECIDABLE = ("same", "different", "accept", "reject")


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One row of the table of subcommands; its module in ``cli/`` has the same name and a function ``run``.

    Attributes:
        name: the word after ``scrapy dedup``.
        about: one line for the list and the help.
        add_arguments: adds its own arguments to its parser.
    """

    name: str
    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]


def _url(text: str) -> str:
    """Return a URL of the command line.

    Raises:
        argparse.ArgumentTypeError: it names no scheme; that of localhost:80 would be localhost.
    """
    if _WITHOUT_SCHEME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} names no scheme; write http:// or https:// before it")
    return text


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", type=_url, help="the URL, as it was linked")
    parser.add_argument(
        "--job", metavar="ID", help="judge by the URL policy of this job (default: by all, the latest first)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _stats_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--deep", action="store_true", help="also hash every body again; reads the whole ledger"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="make the index of similar texts anew where it does not fit the ledger; nothing else is changed",
    )


def _decide_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("relation", metavar="RELATION_ID", help="as explain shows it, or its beginning")
    parser.add_argument("action", choices=DECIDABLE, help="what is to hold from now on")
    _url_argument(parser)
    _signed_arguments(parser)


def _undo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "identity",
        metavar="RELATION_ID|DECISION_ID",
        help="a relation, whose latest decision or, without one, what the suite did is undone; or a decision",
    )
    _url_argument(parser)
    _signed_arguments(parser)


def _forget_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place", metavar="URL|PREFIX*", type=_url, help="a URL as it was linked; with * all that start so"
    )
    _signed_arguments(parser)


def _events_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help="JSON Lines, or CSV when its name ends in .csv",
    )
    _by_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _url_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        metavar="URL",
        type=_url,
        help="a URL whose explanation shows it: found at once in a large ledger too",
    )


def _signed_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--note", metavar="TEXT", help="why; kept with the decision")
    _by_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _by_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", metavar="NAME", help="who says so (default: human:<login name>)")


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        choices=("records", "changes", "chunks"),
        default="records",
        help="records: all that the ledger holds (default); changes: what became of each URL since a job; "
        "chunks: the distinct chunks of the live pages, with all their sources",
    )
    parser.add_argument(
        "--since",
        metavar="ID",
        help="with changes: the last job of the earlier ones (default: all but the latest)",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="the folder to write to (default: dedup-export, none with --backup)"
    )
    parser.add_argument(
        "--job",
        metavar="ID",
        help="only this job and the bodies that it brought; with changes: the last of the later jobs; with "
        "chunks: the last job that counts",
    )
    parser.add_argument(
        "--backup", metavar="FILE", help="copy the ledger to this new file, also during a crawl"
    )
    _chunk_arguments(parser, "with chunks: ")
    parser.add_argument(
        "--no-near",
        dest="near",
        action="store_false",
        help="with chunks: do not look for chunks that are similar",
    )


def _plan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", metavar="NAME", default="default", help="the index (default: default)")
    parser.add_argument(
        "--since",
        metavar="ID",
        help="the index holds what pages showed at the end of this job (default: what was confirmed)",
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="the index is empty, whatever was confirmed: plan all of it"
    )
    parser.add_argument(
        "--max-delete",
        metavar="SHARE",
        default="20%",
        help="refuse a plan that deletes more of the index (default: 20%%)",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="dedup-plan", help="the folder to write to (default: dedup-plan)"
    )
    parser.add_argument(
        "--applied", metavar="PLAN_ID", help="write nothing: this plan was applied to the index"
    )
    parser.add_argument(
        "--discard",
        metavar="PLAN_ID",
        help="write nothing: neither this plan nor an unconfirmed one before it was applied, in no part",
    )
    _chunk_arguments(parser)


# Option, the option of DEDUP_CHUNKS that it stands for, its type, and its help.
_MODEL_OPTIONS: tuple[tuple[str, str, type, str], ...] = (
    ("--model", "model", str, "the embedding model"),
    ("--revision", "revision", str, "the revision of its weights"),
    ("--dimensions", "dimensions", int, "of its vectors"),
    ("--prefix", "prefix", str, "what is put before each string"),
    ("--max-tokens", "max_tokens", int, "after which a string is cut off"),
)


def _chunk_arguments(parser: argparse.ArgumentParser, scope: str = "") -> None:
    """Add what exports of chunks and plans have in common."""
    parser.add_argument("--corpus", metavar="NAME", help=f"{scope}of the ledger (default: DEDUP_CORPUS)")
    parser.add_argument("--format", choices=("jsonl", "parquet"), default="jsonl", help=f"{scope}of the file")
    for option, name, kind, about in _MODEL_OPTIONS:
        parser.add_argument(
            option,
            metavar=name.upper(),
            type=kind,
            help=f"{scope}{about} (default: {name} of DEDUP_CHUNKS)",
        )


def _batch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input",
        metavar="FILE",
        nargs="+",
        default=[],
        help="JSON Lines or Parquet with id, text and, if you like, rank (default: the texts of the ledger)",
    )
    parser.add_argument("--corpus", metavar="NAME", help="of the ledger (default: DEDUP_CORPUS)")
    parser.add_argument(
        "--extractor", metavar="ID", help="whose texts, where a corpus has several (default: the latest)"
    )
    parser.add_argument(
        "--jaccard", metavar="J", type=float, default=0.8, help="least similarity of a pair (default: 0.8)"
    )
    parser.add_argument("--bands", metavar="B", type=int, help="bands of a signature; with --rows")
    parser.add_argument("--rows", metavar="R", type=int, help="values in each band")
    parser.add_argument(
        "--memory", metavar="SIZE", default="4GB", help="what is held of the corpus at most (default: 4GB)"
    )
    parser.add_argument("--workers", metavar="N", type=int, help="processes (default: one for each core)")
    parser.add_argument(
        "--out", metavar="DIR", default="dedup-batch", help="the folder to write to (default: dedup-batch)"
    )
    parser.add_argument("--format", choices=("jsonl", "parquet"), default="jsonl", help="of the files")
    parser.add_argument(
        "--no-claims",
        dest="claims",
        action="store_false",
        help="do not read pairs side by side: no verdicts, and groups by similarity alone",
    )
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped")


def _review_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--corpus", metavar="NAME", help="of the ledger (default: DEDUP_CORPUS)")
    parser.add_argument(
        "--kind",
        choices=("near", "canonical", "residual_differs"),
        help="only these pairs (default: all, similar texts first)",
    )
    parser.add_argument("--limit", metavar="N", type=int, help="only the first N pairs of the queue")
    parser.add_argument("--export", metavar="FILE", help="write the pairs to a new file, to be filled in")
    parser.add_argument(
        "--import", dest="import_from", metavar="FILE", help="take the verdicts of such a file: all or none"
    )
    parser.add_argument(
        "--would-suppress",
        action="store_true",
        help='say which texts DEDUP_NEAR = "suppress" would leave out, and that somebody has looked',
    )
    _by_argument(parser)
    parser.add_argument("--json", action="store_true", help="with --would-suppress: print JSON")


def _tune_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pairs",
        metavar="PAIRS.jsonl",
        nargs="?",
        help="labelled pairs, one a line: a and b are texts, same is true or false, note is free",
    )
    parser.add_argument("--json", metavar="FILE", help="also write all measures and scores to this file")
    parser.add_argument("--plot", metavar="FILE", help="also draw them; its name ends in .svg or .png")
    parser.add_argument(
        "--sample", metavar="N", type=int, help="draw N pairs around the threshold from the ledger, to label"
    )
    parser.add_argument("--out", metavar="FILE", help="the new file for them (default: pairs.jsonl)")
    parser.add_argument("--corpus", metavar="NAME", help="of the ledger (default: DEDUP_CORPUS)")
    parser.add_argument(
        "--extractor", metavar="ID", help="whose texts, where a corpus has several (default: the latest)"
    )
    parser.add_argument(
        "--jaccard", metavar="J", type=float, help="the threshold (default: DEDUP_NEAR_JACCARD)"
    )
    parser.add_argument("--seed", metavar="S", type=int, help="another number, other pairs (default: 0)")


SUBCOMMANDS = (
    Subcommand(
        "explain", "Say what becomes of a URL, by which rules, and who holds its key", _explain_arguments
    ),
    Subcommand("stats", "Count what the ledger holds", _stats_arguments),
    Subcommand("check", "Check settings, rule files and ledger, and name all problems", _check_arguments),
    Subcommand(
        "export", "Write all records of the ledger as JSON Lines, or copy the ledger", _export_arguments
    ),
    Subcommand("decide", "Decide about a merge, a skip, a refusal or two similar texts", _decide_arguments),
    Subcommand("undo", "Undo a decision, or what the suite did by itself", _undo_arguments),
    Subcommand("forget", "Let the next crawl fetch URLs again; their history stays", _forget_arguments),
    Subcommand("events", "Take from a file which observations report which event", _events_arguments),
    Subcommand(
        "plan", "Say what an index has to upsert and to delete to hold the live pages", _plan_arguments
    ),
    Subcommand("batch", "Find all similar texts of a corpus, and groups of them", _batch_arguments),
    Subcommand("review", "Ask what two similar texts are to each other, pair after pair", _review_arguments),
    Subcommand(
        "tune", "Judge near-duplicate thresholds by labelled pairs, or draw pairs to label", _tune_arguments
    ),
)


class DedupCommand(ScrapyCommand):
    """The command ``scrapy dedup`` with its subcommands."""

    requires_project = False
    requires_crawler_process = False

    def syntax(self) -> str:
        """Return the syntax after the name of the command."""
        return "<subcommand> [options]"

    def short_desc(self) -> str:
        """Return one line for the list of all commands."""
        return "Look into the deduplication ledger and decide about what it holds"

    def long_desc(self) -> str:
        """Return what the help says."""
        return (
            "Look into the ledger of scrapy_dedup, and undo what crawls did. Settings come from the "
            "project; --ledger works without one. A relative DEDUP_LEDGER starts at the folder of "
            "scrapy.cfg, a relative --ledger at the current folder."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the subcommands and their options."""
        super().add_options(parser)
        subparsers = parser.add_subparsers(dest="subcommand", title="Subcommands", prog="scrapy dedup")
        for row in SUBCOMMANDS:
            subparser = subparsers.add_parser(row.name, help=row.about, description=row.about + ".")
            row.add_arguments(subparser)
            subparser.add_argument(
                "--ledger", metavar="URL", help="the ledger: sqlite:///FILE, postgresql://..., or just FILE"
            )
            subparser.add_argument(
                "--spider", metavar="NAME", help="apply the custom_settings of this spider"
            )
            subparser.add_argument(
                "-s",
                "--set",
                dest="more_settings",
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="set/override setting (may be repeated)",
            )
            for names, action in _OF_SCRAPY:
                subparser.add_argument(
                    *names, action=action, default=argparse.SUPPRESS, help=argparse.SUPPRESS
                )
        self._usages = {name: subparser.format_usage() for name, subparser in subparsers.choices.items()}

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Set settings from the command line, given before or after the subcommand."""
        if opts.subcommand is None:
            raise UsageError("a subcommand is needed: " + ", ".join(row.name for row in SUBCOMMANDS))
        if args:
            options = re.findall(r"--[a-z-]+", self._usages[opts.subcommand])
            meant = [near for one in args for near in difflib.get_close_matches(one, options, n=1)]
            hint = f"; did you mean {' '.join(meant)}?" if meant else ""
            raise UsageError(f"unrecognized arguments: {' '.join(args)}{hint}", print_help=False)
        opts.set = [*opts.set, *opts.more_settings]
        super().process_options(args, opts)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:  # noqa: ARG002 - Scrapy's signature
        """Run the subcommand; what is wrong becomes one message on stderr and exit code 1."""
        assert self.settings is not None  # noqa: S101 - set by scrapy.cmdline
        if sys.stdout is None:  # the caller closed it: nobody is to be told, the work is done all the same
            with contextlib.redirect_stdout(io.StringIO()):
                self.exitcode = _run(opts, self.settings)
            return
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A URL may hold what the terminal's encoding lacks.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            self.exitcode = _run(opts, self.settings)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as head, has seen enough; nothing is left to say to it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.exitcode = 1


def _run(opts: argparse.Namespace, settings: Settings) -> int:
    context = importlib.import_module(f"{_HOME}.context")
    command = importlib.import_module(f"{_HOME}.{opts.subcommand}")
    code: int = context.run_reported(command.run, opts, settings)
    return code
