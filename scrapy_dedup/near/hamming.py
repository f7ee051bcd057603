"""An index of 64-bit fingerprints that finds all within a Hamming distance, exactly and without a scan.

A fingerprint is cut into four blocks of 16 bits. If two differ in at most 3 bits, one block is equal; if in
at most 7, one block differs in at most one bit (Manku, Jain, Das Sarma, WWW 2007; Norouzi, Punjani, Fleet,
CVPR 2012). So four copies of the fingerprints are kept, each ordered by another block, and a search looks at
the fingerprints of 4 blocks, or of 4 * 17, and counts differing bits.

New fingerprints go to a short tail that is scanned, then to a segment in memory, then to segments on disk:
files that never change, are mapped into memory, and are merged with others of about their size. ``MANIFEST``
names the segments that count; it is replaced in one step once they are on the disk, so a crash at any moment
leaves the index as it was before or after. The index is derived: whoever owns the truth adds again what comes
after `HammingIndex.last_id`, and makes the index anew when it is damaged.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scrapy_dedup.errors import IndexDamaged
from scrapy_dedup.near.shingles import distinct

Fingerprints = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

STRICT_RADIUS = 3
MAX_RADIUS = 7
MAX_ID = 2**32 - 1

TAIL_COUNT = 4_096
FLUSH_COUNT = 65_536
"""Fingerprints held in memory before they become a segment on disk."""

MERGED_UP_TO = 3
"""A segment is merged with the last one unless that is larger by more; searches pay for each segment."""

_BLOCKS = 4
_BUCKETS = 1 << 16
_SHIFTS = np.arange(0, 64, 16, dtype=np.uint64)
_BLOCK_MASK = np.uint64(_BUCKETS - 1)
_ITSELF = np.zeros(1, np.int64)
_ONE_BIT = np.array([0, *(1 << bit for bit in range(16))], np.int64)

_QUERY_SHIFT, _DISTANCE_SHIFT = np.uint64(40), np.uint64(32)
_ID_MASK, _DISTANCE_MASK = np.uint64(0xFFFF_FFFF), np.uint64(0xFF)

_MAGIC = b"scrapy-dedup hamming segment 1\n\0"  # 32 bytes
_MANIFEST = "MANIFEST"
_ATTEMPTS = 5
_SEGMENT_NAME = re.compile(r"segment-(\d{8})")


class Match(NamedTuple):
    """A fingerprint found: its id, and in how many bits it differs."""

    id: int
    distance: int


class Nearest(NamedTuple):
    """What is within the radius of a fingerprint: the nearest matches, and the ids of all, nearest first."""

    matches: list[Match]
    ids: Ids


class _Found(NamedTuple):
    """Matches of many queries: parallel arrays of the query's place, the id, and the distance."""

    queries: Places
    ids: Ids
    distances: npt.NDArray[np.uint8]

    def packed(self) -> Fingerprints:
        """Return each match as one number."""
        packed: Fingerprints = self.queries.astype(np.uint64) << _QUERY_SHIFT
        packed |= self.distances.astype(np.uint64) << _DISTANCE_SHIFT
        packed |= self.ids
        return packed


def _nearest(packed: Fingerprints, count: int | None) -> Nearest:
    ids = (packed & _ID_MASK).astype(np.uint32)
    distances = packed[:count] >> _DISTANCE_SHIFT & _DISTANCE_MASK
    return Nearest(list(map(Match, ids[:count].tolist(), distances.tolist())), ids)


_NO_IDS: Ids = np.zeros(0, np.uint32)
_NOTHING = _Found(np.zeros(0, np.int64), _NO_IDS, np.zeros(0, np.uint8))


@dataclass(frozen=True, slots=True)
class Segment:
    """Fingerprints that never change, in four orders.

    Attributes:
        starts: for each order, where the fingerprints of each block begin; shape (4, 65537).
        fingerprints: shape (4, count).
        ids: of the fingerprints, shape (4, count).
    """

    starts: npt.NDArray[np.uint32]
    fingerprints: Fingerprints
    ids: Ids

    @property
    def count(self) -> int:
        """The number of fingerprints."""
        return len(self.fingerprints[0])

    @classmethod
    def build(cls, fingerprints: Fingerprints, ids: Ids) -> Segment:
        """Order fingerprints by each of their blocks."""
        count = len(fingerprints)
        starts = np.zeros((_BLOCKS, _BUCKETS + 1), np.uint32)
        by_block = np.empty((_BLOCKS, count), np.uint64)
        ids_by_block = np.empty((_BLOCKS, count), np.uint32)
        for place, shift in enumerate(_SHIFTS):
            blocks = (fingerprints >> shift).astype(np.uint16)
            order = np.argsort(blocks, kind="stable")
            by_block[place] = fingerprints[order]
            ids_by_block[place] = ids[order]
            np.cumsum(np.bincount(blocks, minlength=_BUCKETS), out=starts[place, 1:])
        return cls(starts, by_block, ids_by_block)

    def search(self, queries: Fingerprints, radius: int) -> _Found:
        """Return all matches; one that several blocks lead to comes several times."""
        near = _ITSELF if radius <= STRICT_RADIUS else _ONE_BIT
        blocks = ((queries[:, None] >> _SHIFTS) & _BLOCK_MASK).astype(np.int64)
        probed = (blocks[:, :, None] ^ near) + np.arange(_BLOCKS)[:, None] * (_BUCKETS + 1)
        flat_starts = self.starts.reshape(-1)
        first = flat_starts[probed].ravel().astype(np.int64)
        lengths = flat_starts[probed + 1].ravel() - first
        hit = np.flatnonzero(lengths)
        lengths = lengths[hit]
        probes_of_query = _BLOCKS * len(near)
        first = first[hit] + (hit % probes_of_query) // len(near) * self.count
        ends = np.cumsum(lengths)
        if len(ends) == 0:
            return _NOTHING
        places = np.arange(ends[-1]) + np.repeat(first - ends + lengths, lengths)
        owners = np.repeat(hit // probes_of_query, lengths)
        distances = np.bitwise_count(self.fingerprints.reshape(-1)[places] ^ queries[owners])
        close = np.flatnonzero(distances <= radius)
        return _Found(owners[close], self.ids.reshape(-1)[places[close]], distances[close])

    def search_one(self, query: int, radius: int) -> _Found:
        """Return the matches of one query within `STRICT_RADIUS`; for one, loops cost less than arrays."""
        ids, distances = [], []
        wanted = np.uint64(query)
        for place in range(_BLOCKS):
            starts = self.starts[place]
            block = query >> 16 * place & _BUCKETS - 1
            bucket = slice(starts[block], starts[block + 1])
            differing = np.bitwise_count(self.fingerprints[place, bucket] ^ wanted)
            close = (differing <= radius).nonzero()[0]
            if len(close):
                ids.append(self.ids[place, bucket][close])
                distances.append(differing[close])
        if not ids:
            return _NOTHING
        found = np.concatenate(ids)
        return _Found(np.zeros(len(found), np.int64), found, np.concatenate(distances))

    def is_consistent(self) -> bool:
        """Tell whether all orders hold the same fingerprints under the same ids, each in its place."""
        by_id = np.argsort(self.ids[0], kind="stable")
        ids, fingerprints = self.ids[0][by_id], self.fingerprints[0][by_id]
        for place, shift in enumerate(_SHIFTS):
            order = np.argsort(self.ids[place], kind="stable")
            blocks = ((self.fingerprints[place] >> shift) & _BLOCK_MASK).astype(np.int64)
            counts = np.bincount(blocks, minlength=_BUCKETS)
            if not (
                np.array_equal(self.ids[place][order], ids)
                and np.array_equal(self.fingerprints[place][order], fingerprints)
                and (np.diff(blocks) >= 0).all()
                and np.array_equal(self.starts[place], np.concatenate([[0], np.cumsum(counts)]))
            ):
                return False
        return True

    def write(self, path: Path) -> None:
        """Write the segment to a new file, down to the disk."""
        header = _MAGIC + np.array([self.count], "<u8").tobytes()
        with path.open("xb") as file:
            file.write(header)
            for part in (self.fingerprints, self.starts, self.ids):
                file.write(np.ascontiguousarray(part).data)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def open(cls, path: Path) -> Segment:
        """Map a file into memory.

        Raises:
            IndexDamaged: it is not there, or is no whole segment.
        """
        try:
            with path.open("rb") as file:
                header = file.read(len(_MAGIC) + 8)
                size = os.fstat(file.fileno()).st_size
                whole = np.memmap(file, np.uint8, "r") if size else np.zeros(0, np.uint8)
        except OSError as error:
            raise IndexDamaged(f"The segment {path} of the index cannot be read ({error}).") from error
        count = int.from_bytes(header[len(_MAGIC) :], "little")
        sizes = [8 * _BLOCKS * count, 4 * _BLOCKS * (_BUCKETS + 1), 4 * _BLOCKS * count]
        if header[: len(_MAGIC)] != _MAGIC or size != len(header) + sum(sizes):
            raise IndexDamaged(f"The segment {path} of the index is damaged.")
        data = np.asarray(whole)[len(header) :]  # a plain view of the map: slices of a memmap are slow
        fingerprints, starts, ids = np.split(data, np.cumsum(sizes)[:-1])
        return cls(
            starts.view(np.uint32).reshape(_BLOCKS, _BUCKETS + 1),
            fingerprints.view(np.uint64).reshape(_BLOCKS, count),
            ids.view(np.uint32).reshape(_BLOCKS, count),
        )


class HammingIndex:
    """Fingerprints of one scheme, by id; for one writer and any number of readers.

    Ids are added in ascending order. Nothing is ever taken out: a hit has to be held against the truth that
    the index is derived from.

    Args:
        folder: where the segments lie; None keeps all in memory.
        scheme: names how the fingerprints were made; an index holds those of one scheme only.
        writes: whether this is the one writer of the folder, who also clears away what a crash left there.

    Raises:
        IndexDamaged: the folder holds no whole index of that scheme.
    """

    def __init__(self, folder: Path | None, scheme: str, *, writes: bool = True) -> None:
        self._folder = folder
        self._scheme = scheme
        self._writes = writes
        self._names: list[str] = []
        self._segments: list[Segment] = []
        self._recent = Segment.build(np.zeros(0, np.uint64), np.zeros(0, np.uint32))
        self._tail_fingerprints = np.zeros(TAIL_COUNT, np.uint64)
        self._tail_ids = np.zeros(TAIL_COUNT, np.uint32)
        self._tail_count = 0
        self._next_number = 0
        self.last_id = 0
        if folder is not None:
            self._open_segments(folder)
            if writes:
                self._clear_away(folder)

    def __len__(self) -> int:
        """Return the number of fingerprints."""
        return sum(segment.count for segment in self._segments) + self._recent.count + self._tail_count

    @property
    def segment_counts(self) -> tuple[int, ...]:
        """The number of fingerprints in each segment on disk, the oldest first."""
        return tuple(segment.count for segment in self._segments)

    def add(self, ids: Sequence[int] | Ids, fingerprints: Sequence[int] | Fingerprints) -> None:
        """Add fingerprints; ids ascend, and are above all that were added before.

        Raises:
            ValueError: an id does not fit, or is not above the one before it.
            OSError: a segment cannot be written; those up to `last_id` are in the index.
        """
        new_ids = np.asarray(ids, np.int64)
        new = np.asarray(fingerprints, np.uint64)
        if len(new_ids) == 0:
            return
        if new_ids[0] <= self.last_id or new_ids[-1] > MAX_ID or (np.diff(new_ids) <= 0).any():
            raise ValueError(f"ids have to ascend from {self.last_id + 1} to at most {MAX_ID}")
        start = 0
        while start < len(new):
            room = min(TAIL_COUNT - self._tail_count, len(new) - start)
            tail = slice(self._tail_count, self._tail_count + room)
            self._tail_fingerprints[tail] = new[start : start + room]
            self._tail_ids[tail] = new_ids[start : start + room]
            self._tail_count += room
            start += room
            self.last_id = int(new_ids[start - 1])
            if self._tail_count == TAIL_COUNT:
                self._settle_tail()
                if self._recent.count >= FLUSH_COUNT:
                    self.flush()

    def search(self, fingerprints: Sequence[int] | Fingerprints, radius: int) -> list[list[Match]]:
        """Return for each fingerprint all in the index that differ in at most ``radius`` bits.

        Returns:
            For each fingerprint its matches, the nearest first, then by id.

        Raises:
            ValueError: the radius is not 0 to `MAX_RADIUS`.
        """
        return [found.matches for found in self.nearest(fingerprints, radius, None)]

    def nearest(
        self, fingerprints: Sequence[int] | Fingerprints, radius: int, count: int | None
    ) -> list[Nearest]:
        """Return for each fingerprint the ``count`` nearest in the index, and the ids of all in the radius.

        A page in ten thousand versions is within the radius of all of them: those that nobody asks for stay
        in an array.

        Raises:
            ValueError: the radius is not 0 to `MAX_RADIUS`.
        """
        if not 0 <= radius <= MAX_RADIUS:
            raise ValueError(f"the radius is {radius}; it can be 0 to {MAX_RADIUS}")
        queries = np.asarray(fingerprints, np.uint64)
        segments = (*self._segments, self._recent)
        if len(queries) == 1 and radius <= STRICT_RADIUS:
            parts = [segment.search_one(int(queries[0]), radius) for segment in segments]
        else:
            parts = [segment.search(queries, radius) for segment in segments]
        parts.append(self._search_tail(queries, radius))
        # Each match as one number, by which they sort: the query's place, the distance, and the id.
        found = [part.packed() for part in parts if len(part.ids)]
        if not found:
            return [Nearest([], _NO_IDS) for _ in queries]
        packed = distinct(np.concatenate(found))
        bounds = np.searchsorted(packed, np.arange(len(queries) + 1, dtype=np.uint64) << _QUERY_SHIFT)
        return [
            _nearest(packed[start:end], count) if start < end else Nearest([], _NO_IDS)
            for start, end in itertools.pairwise(bounds.tolist())
        ]

    def flush(self) -> None:
        """Bring everything into segments on disk; without a folder, or for a reader, into one in memory.

        Raises:
            OSError: it cannot be written; the index is as it was.
        """
        self._settle_tail()
        if self._folder is None or not self._writes or self._recent.count == 0:
            return
        kept, count = len(self._segments), self._recent.count
        while kept and self._segments[kept - 1].count <= MERGED_UP_TO * count:
            kept -= 1
            count += self._segments[kept].count
        name = f"segment-{self._next_number:08d}"
        self._next_number += 1
        _merged([*self._segments[kept:], self._recent]).write(self._folder / name)
        merged = Segment.open(self._folder / name)
        names = [*self._names[:kept], name]
        self._write_manifest(self._folder, names)
        replaced, self._names = self._names[kept:], names
        self._segments = [*self._segments[:kept], merged]
        self._recent = Segment.build(np.zeros(0, np.uint64), np.zeros(0, np.uint32))
        for old in replaced:
            (self._folder / old).unlink(missing_ok=True)

    def everything(self) -> tuple[Ids, Fingerprints]:
        """Return all ids in ascending order with their fingerprints, to be held against the truth."""
        parts = [*self._segments, self._recent]
        ids = np.concatenate([*(part.ids[0] for part in parts), self._tail_ids[: self._tail_count]])
        fingerprints = np.concatenate(
            [*(part.fingerprints[0] for part in parts), self._tail_fingerprints[: self._tail_count]]
        )
        order = np.argsort(ids, kind="stable")
        return ids[order], fingerprints[order]

    def is_consistent(self) -> bool:
        """Tell whether every segment holds the same fingerprints in all its orders; reads all of it."""
        return all(segment.is_consistent() for segment in self._segments)

    def _settle_tail(self) -> None:
        if self._tail_count == 0:
            return
        tail = Segment.build(self._tail_fingerprints[: self._tail_count], self._tail_ids[: self._tail_count])
        self._recent = _merged([self._recent, tail])
        self._tail_count = 0

    def _search_tail(self, queries: Fingerprints, radius: int) -> _Found:
        if self._tail_count == 0:
            return _NOTHING
        tail = self._tail_fingerprints[: self._tail_count]
        distances = np.bitwise_count(queries[:, None] ^ tail)
        close, places = np.nonzero(distances <= radius)
        return _Found(close, self._tail_ids[places], distances[close, places])

    def _open_segments(self, folder: Path) -> None:
        for attempt in range(_ATTEMPTS):
            names, self.last_id = _manifest(folder, self._scheme)
            try:
                self._segments = [Segment.open(folder / name) for name in names]
            except IndexDamaged:
                # The writer may have merged these segments since the manifest was read.
                if attempt == _ATTEMPTS - 1 or _manifest(folder, self._scheme)[0] == names:
                    raise
            else:
                self._names = names
                self._next_number = 1 + max((int(name[-8:]) for name in names), default=-1)
                return

    def _write_manifest(self, folder: Path, names: Sequence[str]) -> None:
        draft = folder / f"{_MANIFEST}.draft"
        stated = {"scheme": self._scheme, "segments": names, "last_id": self.last_id}
        with draft.open("w", encoding="utf-8") as file:
            json.dump(stated, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(folder / _MANIFEST)
        _sync_folder(folder)

    def _clear_away(self, folder: Path) -> None:
        """Remove segments that a crash left without a place in the manifest."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if _is_segment_name(path.name) and path.name not in self._names:
                path.unlink(missing_ok=True)


def _manifest(folder: Path, scheme: str) -> tuple[list[str], int]:
    """Return the names of the segments that count, and the last id in them."""
    try:
        stated = json.loads((folder / _MANIFEST).read_text("utf-8"))
        names, last_id, of_scheme = stated["segments"], int(stated["last_id"]), stated["scheme"]
    except FileNotFoundError:
        return [], 0
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise IndexDamaged(f"The manifest of the index {folder} cannot be read ({error}).") from error
    if of_scheme != scheme:
        raise IndexDamaged(f"The index {folder} holds fingerprints of {of_scheme!r}, not of {scheme!r}.")
    if not isinstance(names, list) or not all(map(_is_segment_name, names)):
        raise IndexDamaged(f"The manifest of the index {folder} names no segments.")
    return names, last_id


def _merged(parts: Sequence[Segment]) -> Segment:
    return Segment.build(
        np.concatenate([part.fingerprints[0] for part in parts]),
        np.concatenate([part.ids[0] for part in parts]),
    )


def _is_segment_name(name: object) -> bool:
    return isinstance(name, str) and _SEGMENT_NAME.fullmatch(name) is not None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
