"""Files of records, as JSON Lines or Parquet, that are either whole or not there."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from scrapy_dedup.batch.sources import load_pyarrow
from scrapy_dedup.errors import DedupError, FileNotWritten
from scrapy_dedup.records import ChunkRecord, GroupRecord, PairRecord, PlanRecord, to_dict

FORMATS = ("jsonl", "parquet")

_PARQUET_ROWS = 10_000

Records = Iterable[PairRecord] | Iterable[GroupRecord] | Iterable[ChunkRecord] | Iterable[PlanRecord]


def write_files(
    folder: Path,
    file_format: str,
    files: Mapping[str, Records],
    *,
    before_naming: Callable[[], None] | None = None,
) -> list[Path]:
    """Write files of records into a folder, all or none; return their paths.

    Args:
        folder: made where needed; files of the same names are replaced.
        file_format: one of `FORMATS`.
        files: records by the name of their file, less its ending, which is also that of their columns:
            ``pairs``, ``groups``, ``chunks`` or ``plan``.
        before_naming: is called when all files are on the disk, but have not got their names.

    Raises:
        DedupError: the folder cannot be made, a file cannot be written, or pyarrow is missing; then all is
            as it was.
    """
    make_folder(folder)
    targets = {name: folder / f"{name}.{file_format}" for name in files}
    for path in targets.values():
        if path.is_dir():
            raise DedupError(f"{path} is a folder; name another place with --out")
    write = _write_parquet if file_format == "parquet" else _write_lines
    with drafts_of(targets.values()) as drafts:
        for name, path in targets.items():
            with told_as(path):
                write(drafts[path], name, files[name])
        if before_naming is not None:
            before_naming()
        for path, draft in drafts.items():
            draft.replace(path)
    sync(folder)
    return list(targets.values())


def make_folder(folder: Path) -> None:
    """Make a folder to write to, unless it is there.

    Raises:
        DedupError: its path, or that of a folder above it, is taken by something else.
        OSError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        taken = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), folder)
        raise DedupError(
            f"{taken} is no folder, so nothing can be written there; name another --out"
        ) from error


@contextmanager
def told_as(path: Path) -> Iterator[None]:
    """Say of an error of the system which file cannot be written, and not which draft of it or none at all.

    Raises:
        FileNotWritten: in the place of such an error.
    """
    try:
        yield
    except OSError as error:
        raise FileNotWritten(
            f"{path} cannot be written ({error.strerror or error}), and what stood there is as it was; make "
            "room or name another --out"
        ) from error


@contextmanager
def drafts_of(paths: Iterable[Path]) -> Iterator[dict[Path, Path]]:
    """Give a place beside each file to write it first; what is left there in the end is removed.

    Raises:
        OSError: as it comes from within, named after the file and not after its draft.
    """
    token = secrets.token_hex(8)
    drafts = {path: path.with_name(f".{token}-{number}.tmp") for number, path in enumerate(paths)}
    try:
        yield drafts
    except OSError as error:
        targets = {str(draft): path for path, draft in drafts.items()}
        place = targets.get(str(error.filename), error.filename or next(iter(drafts)).parent)
        raise OSError(error.errno, error.strerror, str(place)) from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def _write_lines(path: Path, _: str, records: Records) -> None:
    with path.open("x", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(json.dumps(to_dict(record), ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _write_parquet(path: Path, name: str, records: Records) -> None:
    pyarrow, parquet = load_pyarrow(f"{name}.parquet")
    schema = pyarrow.schema([pyarrow.field(*field) for field in _parquet_fields(pyarrow)[name]])
    with parquet.ParquetWriter(path, schema) as writer:
        waiting: Iterator[Any] = iter(records)
        while part := [to_dict(record) for record in islice(waiting, _PARQUET_ROWS)]:
            writer.write_batch(pyarrow.RecordBatch.from_pylist(part, schema))
    sync(path)


def _parquet_fields(pyarrow: Any) -> Mapping[str, Sequence[tuple[str, Any]]]:
    text, number, count, flag = pyarrow.string(), pyarrow.float64(), pyarrow.int64(), pyarrow.bool_()
    near = [("id", text), ("verdict", text), ("jaccard", number), ("containment", number)]
    source = [
        ("url", text),
        ("url_key", text),
        ("observation_id", text),
        ("body_id", text),
        ("chunk_id", text),
        ("start_char", count),
        ("end_char", count),
        ("title", text),
        ("similar", flag),
    ]
    metadata = [
        ("url", text),
        ("title", text),
        ("headings", text),
        ("language", text),
        ("corpus", text),
        ("shared", flag),
        ("source_count", count),
    ]
    reason = [("code", text), ("value", text), ("threshold", text)]
    member = [("id", text), ("jaccard", number), ("verdict", text), ("copy_of", text)]
    return {
        "pairs": [
            ("schema", text),
            ("a", text),
            ("b", text),
            ("jaccard", number),
            ("containment_a", number),
            ("containment_b", number),
            ("verdict", text),
            ("spans", count),
            ("claim_spans", count),
        ],
        "groups": [
            ("schema", text),
            ("leader", text),
            ("size", count),
            ("members", pyarrow.list_(pyarrow.struct(member))),
        ],
        "chunks": [
            ("schema", text),
            ("id", text),
            ("uuid", text),
            ("chunk_id", text),
            ("corpus", text),
            ("body_id", text),
            ("ordinal", count),
            ("start_char", count),
            ("end_char", count),
            ("headings", pyarrow.list_(text)),
            ("text", text),
            ("embed_text", text),
            ("text_digest", text),
            ("normalized_digest", text),
            ("simhash", text),
            ("simhash_scheme", text),
            ("language", text),
            ("chunk_policy", text),
            ("embed_key", text),
            ("shared", flag),
            ("group", text),
            ("near", pyarrow.list_(pyarrow.struct(near))),
            ("sources", pyarrow.list_(pyarrow.struct(source))),
        ],
        "plan": [
            ("schema", text),
            ("plan_id", text),
            ("op", text),
            ("id", text),
            ("uuid", text),
            ("embed_key", text),
            ("reuse_embedding", flag),
            ("text", text),
            ("embed_text", text),
            ("metadata", pyarrow.struct(metadata)),
            ("sources", pyarrow.list_(pyarrow.struct(source))),
            ("because", pyarrow.list_(pyarrow.struct(reason))),
        ],
    }


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
