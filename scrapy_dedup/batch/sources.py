"""The texts of a corpus: JSON Lines that are read once in order, and again by place for the pairs.

Parquet files and ledgers are first copied to JSON Lines, since neither gives back one text out of millions
in no time. Every fault of every line is found before anything is made of the input.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from scrapy_dedup.content.normalise import is_well_formed
from scrapy_dedup.errors import DedupError, InputError

MAX_PROBLEMS = 20
MAX_ID_CHARS = 1_000
MAX_LINE_BYTES = 64 * 2**20
MAX_RANK = 2**62

_STREAM_ROWS = 1_000


class Entry(NamedTuple):
    """One text of a source.

    Attributes:
        id: names it in the results.
        text: what is compared.
        rank: the smaller, the rather it leads its group.
        line: its number in the file, from 1.
        offset: where its line begins, in bytes.
        end: where the next line begins.
    """

    id: str
    text: str
    rank: int
    line: int
    offset: int
    end: int


@dataclass(slots=True)
class Problems:
    """Faults of an input: the first of them in words, and how many there are."""

    listed: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, place: str, fault: str) -> None:
        """Note one fault."""
        self.count += 1
        if len(self.listed) < MAX_PROBLEMS:
            self.listed.append(f"{place}: {fault}")

    def raise_any(self) -> None:
        """Raise what was noted.

        Raises:
            InputError: there are problems.
        """
        if self.count:
            raise InputError(self.listed, self.count)


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A file of JSON objects, one a line, with ``id``, ``text`` and, if stated, ``rank``.

    Attributes:
        path: of the file, which must not change while it is used.
        name: what messages call it.
        unit: what messages call a line of it.
        size: in bytes.
        modified_ns: when it was last changed.
    """

    path: Path
    name: str
    unit: str
    size: int
    modified_ns: int

    @classmethod
    def at(cls, path: Path, *, name: str | None = None, unit: str = "line") -> JsonLines:
        """Return the source of a file.

        Raises:
            OSError: it is not there.
        """
        status = path.stat()
        return cls(path, name or str(path), unit, status.st_size, status.st_mtime_ns)

    def place(self, line: int) -> str:
        """Return how messages name a line."""
        return f"{self.name}, {self.unit} {line:,}"

    def entries(self, problems: Problems, *, offset: int = 0, line: int = 0) -> Iterator[Entry]:
        """Yield the entries after ``line`` lines, which end at ``offset``; faults are noted, not yielded."""
        with self.path.open("rb") as file:
            file.seek(offset)
            for raw, size in bounded_lines(file, MAX_LINE_BYTES):
                line += 1
                start, offset = offset, offset + size
                if raw is None:
                    problems.add(self.place(line), f"longer than {MAX_LINE_BYTES // 2**20} MiB")
                    continue
                if not raw.strip() or raw == b"\xef\xbb\xbf":
                    continue
                entry, fault = _parsed(raw)
                if fault is not None:
                    problems.add(self.place(line), fault)
                elif entry is not None:
                    yield Entry(*entry, line, start, offset)

    def read(self, offsets: Sequence[int]) -> list[Mapping[str, Any]]:
        """Return the objects whose lines begin at these places.

        Raises:
            DedupError: the file has changed.
        """
        found: list[Mapping[str, Any]] = []
        with self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            if (status.st_size, status.st_mtime_ns) != (self.size, self.modified_ns):
                raise DedupError(f"{self.name} has changed while it was in use; start the batch again.")
            for offset in offsets:
                file.seek(offset)
                found.append(json.loads(file.readline().removeprefix(b"\xef\xbb\xbf")))
        return found


def bounded_lines(file: IO[bytes], max_bytes: int) -> Iterator[tuple[bytes | None, int]]:
    """Yield each line of a file with its size in bytes; None for a line of more than ``max_bytes``."""
    while raw := file.readline(max_bytes + 1):
        size = len(raw)
        is_whole = size <= max_bytes
        line = raw if is_whole else None
        while not is_whole and not raw.endswith(b"\n") and (raw := file.readline(max_bytes)):
            size += len(raw)
        yield line, size


def write_lines(path: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Write objects to a file that is whole or not there."""
    draft = path.with_name(path.name + ".draft")
    with draft.open("w", encoding="utf-8", newline="\n") as file:
        for entry in entries:
            file.write(json.dumps(entry, ensure_ascii=True, default=_strange) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a Parquet file, those columns that matter.

    Raises:
        InputError: a part of the file cannot be read.
    """
    pyarrow, parquet = load_pyarrow(str(path))
    try:
        with parquet.ParquetFile(path) as file:
            columns = [name for name in _FIELDS if name in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=_STREAM_ROWS, columns=columns):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError([f"{path}: cannot be read as Parquet ({_first_line(error)})"], 1) from error


def parquet_fault(path: Path) -> str | None:
    """Return why a file cannot be a source as its footer tells, else None.

    Raises:
        DedupError: pyarrow is missing.
    """
    pyarrow, parquet = load_pyarrow(str(path))
    try:
        with parquet.ParquetFile(path) as file:
            missing = [name for name in ("id", "text") if name not in file.schema_arrow.names]
    except (pyarrow.ArrowException, OSError) as error:
        return f"cannot be read as Parquet ({_first_line(error)})"
    return f"has no column {' and no column '.join(map(repr, missing))}" if missing else None


def load_pyarrow(wanted_for: str) -> tuple[Any, Any]:
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``.

    Raises:
        DedupError: they are not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra that most users never need
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise DedupError(
            f"{wanted_for} needs pyarrow, which is not installed: pip install pyarrow"
        ) from error
    return pa, parquet


def _strange(value: object) -> dict[str, str]:
    """Return what stands for a value that JSON lacks, in the place of an id or text, where it is refused."""
    return {"type": type(value).__name__}


def _parsed(raw: bytes) -> tuple[tuple[str, str, int] | None, str | None]:
    """Return identity, text and rank of a line, or what is wrong with it."""
    try:
        stated = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return None, f"no UTF-8 at byte {error.start}"
    except (ValueError, RecursionError) as error:
        return None, f"no JSON ({_first_line(error)})"
    if not isinstance(stated, dict):
        return None, f"a JSON {type(stated).__name__}; an object with 'id' and 'text' is needed"
    for name, check in _FIELDS.items():
        if (fault := check(stated.get(name))) is not None:
            return None, fault
    return (str(stated["id"]), stated["text"], stated.get("rank") or 0), None


def _id_fault(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID_CHARS:
        return f"'id' has to be a text of 1 to {MAX_ID_CHARS:,} characters, or a whole number"
    return None if is_well_formed(value) else "'id' holds a lone surrogate"


def _text_fault(value: object) -> str | None:
    if not isinstance(value, str):
        return "'text' has to be a text"
    return None if is_well_formed(value) else "'text' holds a lone surrogate"


def _rank_fault(value: object) -> str | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_RANK):
        return None
    return "'rank' has to be a whole number"


_FIELDS: Mapping[str, Callable[[object], str | None]] = {
    "id": _id_fault,
    "text": _text_fault,
    "rank": _rank_fault,
}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
