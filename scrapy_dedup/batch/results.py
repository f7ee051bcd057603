"""What a batch found, as records and as files that are either whole or not there."""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scrapy_dedup.batch.places import COPIES, COPY, PLACE, PLACES, Identities
from scrapy_dedup.batch.sources import load_pyarrow
from scrapy_dedup.batch.verification import NOT_COMPARED, PAIR, PAIRS, VERDICTS
from scrapy_dedup.batch.work import WorkFolder
from scrapy_dedup.errors import DedupError
from scrapy_dedup.ledger.near_relations import EQUAL, JOINING
from scrapy_dedup.near.groups import leader_places
from scrapy_dedup.records import ChunkRecord, GroupMember, GroupRecord, PairRecord, PlanRecord, to_dict

FORMATS = ("jsonl", "parquet")

_UPPER = 32
_PARQUET_ROWS = 10_000

Decided = Mapping[tuple[str, str], bool]
Records = Iterable[PairRecord] | Iterable[GroupRecord] | Iterable[ChunkRecord] | Iterable[PlanRecord]


class Results:
    """The pairs and groups in the columns of a work folder.

    Args:
        work: with all columns filled.
        decided: pairs of identities, the smaller first, of which somebody decided whether they are one.
    """

    def __init__(self, work: WorkFolder, decided: Decided) -> None:
        self._identities = Identities(work)
        self._rows = work.column(PLACES, PLACE)["row"]
        self._pairs = work.column(PAIRS, PAIR)
        self._copies = work.column(COPIES, COPY)
        self._decided = decided

    def pair_rows(self) -> Iterator[tuple[int, int]]:
        """Yield the rows of the input that the two sides of each of `pairs` stand in, in the same order."""
        for start in range(0, len(self._pairs), _PARQUET_ROWS):
            part = self._pairs[start : start + _PARQUET_ROWS]
            yield from zip(self._rows[part["a"]].tolist(), self._rows[part["b"]].tolist(), strict=True)
        for place, row in self._copies.tolist():
            yield int(self._rows[place]), row

    def pairs(self) -> Iterator[PairRecord]:
        """Yield the similar pairs, by the priority of their texts, then copies with what they equal."""
        for pair in self._pairs:
            (a, b, jaccard, containment_a, containment_b, verdict, spans, claim_spans) = pair.item()
            read = verdict != NOT_COMPARED
            yield PairRecord(
                a=self._id(a),
                b=self._id(b),
                jaccard=round(jaccard, 6),
                containment_a=round(containment_a, 6),
                containment_b=round(containment_b, 6),
                verdict=_verdict(verdict),
                spans=spans if read else None,
                claim_spans=claim_spans if read else None,
            )
        for place, row in self._copies.tolist():
            yield PairRecord(self._id(place), self._identities.of(row), 1.0, 1.0, 1.0, EQUAL, 0, 0)

    def groups(self) -> Iterator[GroupRecord]:
        """Yield the groups of at least two texts, ordered by the priority of their leaders."""
        joining = self._pairs[self._joins()]
        packed = (joining["a"] << _UPPER) | joining["b"]
        involved = np.unique(np.concatenate([joining["a"], joining["b"], self._copies["place"]]))
        leaders = leader_places(
            len(involved),
            np.searchsorted(involved, joining["a"]),
            np.searchsorted(involved, joining["b"]),
            joining["jaccard"],
        )
        order = np.argsort(leaders, kind="stable")
        bounds = np.flatnonzero(np.diff(leaders[order], prepend=-1, append=-1))
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            leader, *others = involved[order[start:end]].tolist()
            found = np.searchsorted(packed, (np.int64(leader) << _UPPER) | np.array(others, np.int64))
            members = [*self._copies_of(leader, 1.0, EQUAL)]
            for place, pair in zip(others, joining[found], strict=True):
                jaccard, verdict = round(float(pair["jaccard"]), 6), _verdict(int(pair["verdict"]))
                members.append(GroupMember(self._id(place), jaccard, verdict, None))
                members += self._copies_of(place, jaccard, verdict)
            if members:
                yield GroupRecord(self._id(leader), 1 + len(members), tuple(members))

    def _joins(self) -> npt.NDArray[np.bool_]:
        numbers = [NOT_COMPARED, *map(VERDICTS.index, JOINING)]
        joins = np.isin(self._pairs["verdict"], numbers)
        if self._decided:
            for number, (a, b) in enumerate(zip(self._pairs["a"], self._pairs["b"], strict=True)):
                first, second = sorted((self._id(a), self._id(b)))
                joins[number] = self._decided.get((first, second), joins[number])
        return joins

    def _copies_of(self, place: int, jaccard: float, verdict: str | None) -> Iterator[GroupMember]:
        start, end = np.searchsorted(self._copies["place"], [place, place + 1])
        for row in self._copies["row"][start:end].tolist():
            yield GroupMember(self._identities.of(row), jaccard, verdict, self._id(place))

    def _id(self, place: int) -> str:
        return self._identities.of(int(self._rows[place]))


def _verdict(number: int) -> str | None:
    return None if number == NOT_COMPARED else VERDICTS[number]


def counted_verdicts(pairs: Iterable[PairRecord], counts: Counter[str]) -> Iterator[PairRecord]:
    """Let pairs pass, and count their verdicts; those that were not compared as ``similar``."""
    for pair in pairs:
        counts[pair.verdict or "similar"] += 1
        yield pair


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
        files: records by the name of their file, less its ending.
        before_naming: is called when all files are on the disk, but have not got their names.

    Raises:
        DedupError: the folder cannot be made, or a file cannot be written; then the folder is as it was.
    """
    make_folder(folder)
    targets = {name: folder / f"{name}.{file_format}" for name in files}
    for path in targets.values():
        if path.is_dir():
            raise DedupError(f"{path} is a folder; name another place with --out")
    write = _write_parquet if file_format == "parquet" else _write_lines
    with _drafts(targets.values()) as drafts:
        for name, path in targets.items():
            with told_as(path):
                write(drafts[path], name, files[name])
        if before_naming is not None:
            before_naming()
        for path, draft in drafts.items():
            draft.replace(path)
    _sync(folder)
    return list(targets.values())


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where needed.

    Raises:
        DedupError: one of them is no folder.
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
        DedupError: in the place of such an error.
    """
    try:
        yield
    except OSError as error:
        raise DedupError(
            f"{path} cannot be written ({error.strerror or error}), and what stood there is as it was; make "
            "room or name another --out"
        ) from error


@contextmanager
def _drafts(paths: Iterable[Path]) -> Iterator[dict[Path, Path]]:
    token = secrets.token_hex(8)
    drafts = {path: path.with_name(f".{path.name}.{token}.tmp") for path in paths}
    try:
        yield drafts
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
    pyarrow, parquet = load_pyarrow(path.name)
    schema = pyarrow.schema([pyarrow.field(*field) for field in _parquet_fields(pyarrow)[name]])
    with parquet.ParquetWriter(path, schema) as writer:
        waiting: Iterator[Any] = iter(records)
        while part := [to_dict(record) for record in islice(waiting, _PARQUET_ROWS)]:
            writer.write_batch(pyarrow.RecordBatch.from_pylist(part, schema))
    _sync(path)


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


def tallied_groups(
    groups: Iterable[GroupRecord], tally: Callable[[GroupRecord], None]
) -> Iterator[GroupRecord]:
    """Let groups pass, and tell each to ``tally``."""
    for group in groups:
        tally(group)
        yield group


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
