"""The errors of the suite: one base class, a handful below it, each with its data as attributes."""

from __future__ import annotations

from collections.abc import Iterable


class DedupError(Exception):
    """The suite cannot go on as asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(DedupError):
    """Some settings or rules are wrong.

    Attributes:
        problems: one sentence for each fault found, in the order found.
    """

    def __init__(self, problems: Iterable[str], source: str = "settings") -> None:
        self.problems = tuple(problems)
        self.source = source
        listed = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"{len(self.problems)} problem(s) in {source}:\n{listed}")


class LedgerError(DedupError):
    """The ledger cannot be used."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be opened: it is missing, unreadable, locked, or not a ledger."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a newer version of scrapy_dedup; upgrade the package to open it."""


class LedgerWriteFailed(LedgerError):
    """The ledger could not commit; what was in flight is not counted as seen."""


class LedgerConflict(LedgerError):
    """The ledger already holds another record under this identity."""


class IndexDamaged(DedupError):
    """The index of fingerprints cannot be used; it is derived from the ledger and can be made anew."""


class RecordError(DedupError):
    """A record does not have the form that its schema asks for."""


class FileNotWritten(DedupError):
    """A file cannot be written; what stood in its place is as it was."""


class InputError(DedupError):
    """Some lines or files of an input cannot be taken.

    Attributes:
        problems: the first faults, each with its place.
        count: how many faults there are.
    """

    def __init__(self, problems: Iterable[str], count: int) -> None:
        self.problems = tuple(problems)
        self.count = count
        listed = "\n".join(f"  - {problem}" for problem in self.problems)
        more = f"\n  and {count - len(self.problems):,} more" if count > len(self.problems) else ""
        super().__init__(f"{count:,} problem(s) in the input; nothing was written:\n{listed}{more}")
