"""Files of pairs of texts that somebody has labelled, or is to label; JSON Lines, one pair a line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scrapy_dedup.batch.sources import Problems, bounded_lines
from scrapy_dedup.content.normalise import is_well_formed, normalized
from scrapy_dedup.near.tuning import LabelledPair

# Only bounds against files that are no such files: nobody labels so much by hand.
MAX_LINE_BYTES = 16 * 2**20
MAX_TEXT_CHARS = 1_000_000
MAX_NOTE_CHARS = 2_000
MAX_PAIRS = 50_000

_PART_PAIRS = 500
_PART_CHARS = 1_000_000


@dataclass(slots=True)
class PairFile:
    """A file of pairs that is read once, in parts.

    Attributes:
        path: of the file.
        problems: the faults found so far.
        unlabelled: lines without a label so far.
        equal: labelled pairs so far whose texts differ in white space, case and composition at most.
        bytes_read: how far it was read.
    """

    path: Path
    problems: Problems = field(default_factory=Problems)
    unlabelled: int = 0
    equal: int = 0
    bytes_read: int = 0

    def parts(self) -> Iterator[list[LabelledPair]]:
        """Yield the labelled pairs, some at a time; after the first fault only further faults are sought.

        Raises:
            OSError: the file cannot be read.
        """
        part: list[LabelledPair] = []
        chars = 0
        for pair in self._pairs():
            part.append(pair)
            chars += len(pair.a) + len(pair.b)
            if len(part) == _PART_PAIRS or chars >= _PART_CHARS:
                if not self.problems.count:
                    yield part
                part, chars = [], 0
        if part and not self.problems.count:
            yield part

    def _pairs(self) -> Iterator[LabelledPair]:
        count = 0
        with self.path.open("rb") as file:
            for number, (raw, size) in enumerate(bounded_lines(file, MAX_LINE_BYTES), 1):
                self.bytes_read += size
                if raw is not None and not raw.strip():
                    continue
                place = f"{self.path}, line {number:,}"
                row = f"longer than {MAX_LINE_BYTES // 2**20} MiB" if raw is None else _row(raw)
                faults = [row] if isinstance(row, str) else list(_faults(row))
                if isinstance(row, str) or faults:
                    self.problems.add(place, "; ".join(faults))
                elif row.get("same") is None:
                    self.unlabelled += 1
                elif count == MAX_PAIRS:
                    self.problems.add(place, f"more than {MAX_PAIRS:,} labelled pairs; split the file")
                    return
                else:
                    count += 1
                    self.equal += normalized(row["a"]) == normalized(row["b"])
                    yield LabelledPair(number, row["a"], row["b"], row["same"], row.get("note") or "")


def _row(raw: bytes) -> Mapping[str, Any] | str:
    """Return the object of a line, or why there is none."""
    try:
        row = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=with_each_name_once)
    except UnicodeDecodeError as error:
        return f"no UTF-8 at byte {error.start}"
    except NameTwice as error:
        return str(error)
    except (ValueError, RecursionError) as error:
        return f"no JSON ({str(error).splitlines()[0][:200]})"
    return row if isinstance(row, dict) else f"a JSON {type(row).__name__}; an object is needed"


class NameTwice(ValueError):
    """An object states something twice, of which JSON would keep the last without a word."""


def with_each_name_once(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object that somebody may have written by hand.

    Raises:
        NameTwice: a name stands in it twice.
    """
    row = dict(members)
    if len(row) < len(members):
        twice = next(name for name, count in Counter(name for name, _ in members).items() if count > 1)
        raise NameTwice(f"{twice!r:.60} stands in it twice")
    return row


def _faults(row: Mapping[str, Any]) -> Iterator[str]:
    for name, check in _CHECKS.items():
        if (fault := check(row.get(name))) is not None:
            yield f"'{name}' {fault}"


def _text_fault(value: object) -> str | None:
    if not isinstance(value, str):
        return "has to be a text"
    if len(value) > MAX_TEXT_CHARS:
        return f"is longer than {MAX_TEXT_CHARS:,} characters"
    return None if is_well_formed(value) else "holds a lone surrogate"


def _label_fault(value: object) -> str | None:
    return None if value is None or isinstance(value, bool) else "has to be true, false or null"


def _note_fault(value: object) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= MAX_NOTE_CHARS):
        return None
    return f"has to be a text of at most {MAX_NOTE_CHARS:,} characters"


_CHECKS: Mapping[str, Callable[[object], str | None]] = {
    "a": _text_fault,
    "b": _text_fault,
    "same": _label_fault,
    "note": _note_fault,
}
