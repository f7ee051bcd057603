"""Where the texts of a batch come from: files, or one space of a ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scrapy_dedup.batch.sources import JsonLines, parquet_fault, parquet_rows, write_lines
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.errors import DedupError
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.engine import Target
from scrapy_dedup.ledger.texts import Space

PARQUET = ".parquet"


def input_problems(paths: Sequence[Path], results: Collection[Path]) -> Iterator[str]:
    """Yield what is wrong with files before they are read.

    Args:
        paths: of the files.
        results: the files that will be replaced in the end.
    """
    for number, path in enumerate(paths):
        if path.is_dir():
            yield f"--input {path} is a folder; name its files"
        elif not path.exists():
            yield f"--input {path} does not exist"
        elif not path.is_file():
            yield f"--input {path} is no file; its texts are read more than once, so write them to one"
        elif any(path.samefile(other) for other in paths[:number] if other.exists()):
            yield f"--input {path} is named twice"
        elif any(path.samefile(result) for result in results if result.exists()):
            yield f"--input {path} is where the results go; name another place with --out"
        elif path.suffix == PARQUET and (fault := _parquet_fault(path)) is not None:
            yield f"--input {path} {fault}"


def _parquet_fault(path: Path) -> str | None:
    try:
        return parquet_fault(path)
    except DedupError as error:
        return f"cannot be read: {error}"


def stated_by_files(paths: Sequence[Path]) -> Mapping[str, Any]:
    """Return what tells these files from others, and from themselves after a change."""
    found = [(path.absolute(), path.stat()) for path in paths]
    return {"--input": [[str(path), status.st_size, status.st_mtime_ns] for path, status in found]}


def stated_by_ledger(url: str, space: Space) -> Mapping[str, Any]:
    """Return what tells the texts of a ledger from others; what it has got since waits for the next batch."""
    return {"--ledger": Target.parse(url).name, "--corpus": space.corpus, "--extractor": [*space[2:4]]}


def from_files(work: WorkFolder, paths: Sequence[Path]) -> list[JsonLines]:
    """Return the sources of files; those of Parquet are copied into the work folder.

    Raises:
        InputError: a Parquet file cannot be read.
    """
    sources: list[JsonLines] = []
    for number, path in enumerate(paths):
        if path.suffix != PARQUET:
            sources.append(JsonLines.at(path.absolute(), name=str(path)))
            continue
        copy = work.path / f"input-{number:04d}.jsonl"
        if not copy.exists():
            write_lines(copy, parquet_rows(path))
        sources.append(JsonLines.at(copy, name=str(path), unit="row"))
    return sources


def from_ledger(work: WorkFolder, ledger: Ledger, space: Space) -> list[JsonLines]:
    """Return the source of a space; its texts are copied into the work folder, as they are at one moment."""
    copy = work.path / "ledger.jsonl"
    if not copy.exists():
        write_lines(
            copy,
            (
                {"id": body.body_id, "text": body.text, "rank": body.rank, "digest": body.text_digest}
                for body in ledger.texts(space)
            ),
        )
    return [JsonLines.at(copy, name="the ledger", unit="body")]
