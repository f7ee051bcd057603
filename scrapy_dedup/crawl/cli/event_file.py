"""Files that say which observations report which event, checked as a whole before anything is written."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrapy_dedup.crawl.cli.signature import signature_problem, signed
from scrapy_dedup.errors import DedupError, RecordError
from scrapy_dedup.ledger.codec import to_micros

MAX_FILE_BYTES = 64 * 1024 * 1024  # some 300,000 lines, read into memory at once
MAX_PROBLEMS_TOLD = 50

# Column, most characters. Only bounds against files that are no such files.
COLUMNS = {
    "observation_id": 100,
    "url": 10_000,
    "event_id": 500,
    "reason": 2_000,
    "evidence": 10_000,
    "by": 200,
    "at": 100,
}
REQUIRED = ("event_id", "reason")


@dataclass(frozen=True, slots=True)
class EventLine:
    """One line of a file: an observation, or all with a text of a URL, and the event that they report.

    Attributes:
        number: the line of the file, from 1.
        observation_id: the observation; None where a URL is named.
        url: the URL as it was linked; None where an observation is named.
        event_id: the event, under whatever name the user gives it.
        reason: why, in the user's words.
        evidence: where that can be seen.
        by: who says so, as ``human:<name>`` or ``policy:<name>``; None where the file does not tell.
        at: when, as an RFC 3339 time; None where the file does not tell.
    """

    number: int
    observation_id: str | None
    url: str | None
    event_id: str
    reason: str
    evidence: str | None
    by: str | None
    at: str | None


class EventFileError(DedupError):
    """A file of events is not what it has to be.

    Attributes:
        problems: one sentence for each fault, with its line.
    """

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.problems = tuple(problems)
        told = problems[:MAX_PROBLEMS_TOLD]
        if len(problems) > len(told):
            told = [*told, f"and {len(problems) - len(told):,} more"]
        listed = "\n".join(f"  - {problem}" for problem in told)
        super().__init__(f"{len(problems):,} problem(s) in {path}, nothing was written:\n{listed}")


def read_event_file(path: Path) -> list[EventLine]:
    """Read a file of events: CSV if its name ends in ``.csv``, else JSON Lines.

    Raises:
        EventFileError: with every problem of the file.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise EventFileError(path, [f"it is larger than {MAX_FILE_BYTES:,} bytes; split it"])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise EventFileError(path, [f"line {line}: it is not UTF-8"]) from None
    rows = _csv_rows(text) if path.suffix.lower() == ".csv" else _json_rows(text)
    lines, problems = [], []
    for number, row in rows:
        found = [row] if isinstance(row, str) else list(_problems(row))
        problems += [f"line {number}: {problem}" for problem in found]
        if not found and not isinstance(row, str):
            lines.append(_line(number, row))
    if problems:
        raise EventFileError(path, problems)
    return lines


# A row is what stands in it, or a sentence about why it cannot be read.
_Row = tuple[int, "Mapping[str, Any] | str"]


def _json_rows(text: str) -> Iterator[_Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, f"it is no JSON ({error})"
            continue
        yield number, row if isinstance(row, dict) else "it is no JSON object"


def _csv_rows(text: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: list[str] | None = None
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield number, f"it is no CSV ({error})"
            return
        if cells is None:
            return
        if not any(cells):
            continue
        if names is None:
            names = [cell.strip() for cell in cells]
            if len(set(names)) < len(names):
                yield number, "a column stands twice in the first line"
                return
            if problem := _header_problem(names):
                yield number, problem
                return
        elif len(cells) != len(names):
            yield number, f"it has {len(cells)} cells, the first line {len(names)}"
        else:
            yield number, {name: cell or None for name, cell in zip(names, cells, strict=True)}


def _header_problem(names: Sequence[str]) -> str | None:
    """Return what the first line of a CSV file lacks; a file with other separators lacks everything."""
    missing = [name for name in REQUIRED if name not in names]
    if not missing:
        return None
    return f"the first line names no column {' and '.join(missing)}; the columns are {', '.join(COLUMNS)}"


def _problems(row: Mapping[str, Any]) -> Iterator[str]:
    unknown = [name for name in row if name not in COLUMNS]
    if unknown:
        yield f"unknown column {unknown[0]!r:.100}; the columns are {', '.join(COLUMNS)}"
    for name, max_chars in COLUMNS.items():
        value = row.get(name)
        if value is not None and not isinstance(value, str):
            yield f"{name} is {type(value).__name__}, not text"
            return
        if value is not None and len(value) > max_chars:
            yield f"{name} is longer than {max_chars:,} characters"
        if name in REQUIRED and not (value or "").strip():
            yield f"{name} is missing"
    if bool(row.get("observation_id")) == bool(row.get("url")):
        yield "it has to name either observation_id or url"
    if row.get("by") and (problem := signature_problem(row["by"])):
        yield f"by: {problem}"
    if row.get("at"):
        try:
            to_micros(row["at"])
        except RecordError as error:
            yield f"at: {error}"


def _line(number: int, row: Mapping[str, Any]) -> EventLine:
    return EventLine(
        number=number,
        observation_id=row.get("observation_id") or None,
        url=row.get("url") or None,
        event_id=row["event_id"].strip(),
        reason=row["reason"].strip(),
        evidence=row.get("evidence") or None,
        by=signed(row["by"]) if row.get("by") else None,
        at=row.get("at") or None,
    )
