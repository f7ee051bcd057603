"""The fingerprints of a space, found by Hamming distance: an index in files that follows the ledger's rows.

The rows are the truth: a body without a leader and with enough words stands in the index, and only once its
transaction is committed. Files beside a SQLite ledger save a later crawl from reading all rows; they are
checked against these when they are opened, and made anew where the two differ. One process writes the files
of a space, which a lock says; others read them and keep what came later in memory, as all do with a
PostgreSQL ledger, whose crawls may run on several machines.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from scrapy_dedup.errors import IndexDamaged
from scrapy_dedup.ledger import schema
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.near.hamming import HammingIndex, Nearest
from scrapy_dedup.near.simhash import MIN_WORDS, SCHEME

logger = logging.getLogger(__name__)

FOLDER_ENDING = ".near"
_LOCK = "LOCK"
_READ_ROWS = 100_000
_LOW_BITS = 0xFFFF_FFFF

_body = schema.body.c
_last: sa.BindParameter[int] = sa.bindparam("last", required=False)
_NEWS = ListQuery(
    sa.select(_body.ordinal, _body.simhash)
    .where(
        _body.space.in_(SOUGHT),
        _body.leader.is_(None),
        _body.ordinal > _last,
        _body.word_count >= sa.literal_column(str(MIN_WORDS)),
    )
    .order_by(_body.ordinal)
    .limit(_READ_ROWS)
)


def parent_of(ledger: Path) -> Path:
    """Return the folder beside a SQLite ledger that holds its indexes."""
    return ledger.with_name(ledger.name + FOLDER_ENDING)


def folder_of(ledger: Path, space: int) -> Path:
    """Return where the index of a space of a SQLite ledger lies."""
    return parent_of(ledger) / f"{space}-{SCHEME}"


class NearIndex:
    """The index of one space, for one store.

    Args:
        folder: where its files lie or are made; None keeps it in memory.
        space: the ordinal of the space.
    """

    def __init__(self, folder: Path | None, space: int) -> None:
        self._space = space
        self._lock: int | None = None
        self._index: HammingIndex | None = None
        self._folder = folder

    def follow(self, connection: sa.Connection) -> None:
        """Take in what was committed since, by whomever; opens the index first."""
        if self._index is None:
            self._index = self._open(connection)
        try:
            _follow(connection, self._index, self._space)
        except OSError as error:
            # The index is derived, so a full disk must not end a crawl.
            logger.warning(
                "The index of similar texts in %s cannot be written (%s); this run keeps it in memory.",
                self._folder,
                error,
            )
            self._index = HammingIndex(None, SCHEME)
            _follow(connection, self._index, self._space)

    def nearest(self, fingerprints: Sequence[int], radius: int, count: int) -> list[Nearest]:
        """Return the ``count`` nearest bodies within ``radius`` differing bits of each fingerprint."""
        if self._index is None:
            raise LookupError("the index has followed no rows yet")
        return self._index.nearest(fingerprints, radius, count)

    def close(self) -> None:
        """Bring the index to the disk where this process writes it, and leave it to others."""
        try:
            if self._index is not None:
                self._index.flush()
        except OSError as error:
            logger.warning("The index of similar texts in %s was not written: %s", self._folder, error)
        finally:
            self._index = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _open(self, connection: sa.Connection) -> HammingIndex:
        if self._folder is None:
            return HammingIndex(None, SCHEME)
        try:
            self._lock = try_lock(self._folder)
            return self._opened(connection, self._folder, writes=self._lock is not None)
        except OSError as error:
            logger.warning(
                "The index of similar texts in %s cannot be used (%s); this run keeps it in memory.",
                self._folder,
                error,
            )
            return HammingIndex(None, SCHEME)

    def _opened(self, connection: sa.Connection, folder: Path, *, writes: bool) -> HammingIndex:
        try:
            index = HammingIndex(folder, SCHEME, writes=writes)
        except IndexDamaged as error:
            fault: str | None = str(error).rstrip(".")
        else:
            fault = quick_differences(connection, index, self._space)
            if fault is None:
                return index
        logger.warning(
            "The index of similar texts in %s does not fit the ledger: %s. It is made anew from the ledger.",
            folder,
            fault,
        )
        if not writes:  # the process that holds the lock has another view of it
            return HammingIndex(None, SCHEME)
        clear(folder)
        return HammingIndex(folder, SCHEME)


def quick_differences(connection: sa.Connection, index: HammingIndex, space: int) -> str | None:
    """Return how an index differs from the rows up to its last id, None where count and sum agree."""
    ids, fingerprints = index.everything()
    statement = sa.select(
        sa.func.count(), sa.func.sum(_body.simhash.bitwise_and(sa.literal_column(str(_LOW_BITS))))
    ).where(
        _body.space == space,
        _body.leader.is_(None),
        _body.ordinal <= index.last_id,
        _body.word_count >= sa.literal_column(str(MIN_WORDS)),
    )
    count, total = connection.execute(statement).one()
    if count != len(ids):
        return f"it holds {len(ids):,} fingerprints where the ledger has {count:,}"
    held = int((fingerprints & np.uint64(_LOW_BITS)).sum())
    return None if held == int(total or 0) else "it holds other fingerprints than the ledger"


def rows_of(connection: sa.Connection, space: int, last_id: int) -> tuple[list[int], list[int]]:
    """Return ids and fingerprints of the bodies of a space up to an id that should stand in its index."""
    ids: list[int] = []
    fingerprints: list[int] = []
    last = 0
    while found := _NEWS.rows(connection, [space], last=last):
        ids += [row["ordinal"] for row in found if row["ordinal"] <= last_id]
        fingerprints += _unsigned(row["simhash"] for row in found if row["ordinal"] <= last_id)
        last = found[-1]["ordinal"]
        if last >= last_id:
            break
    return ids, fingerprints


def clear(folder: Path) -> None:
    """Remove the files of an index; its lock stays where it is."""
    for path in folder.iterdir():
        if path.name == _LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def try_lock(folder: Path) -> int | None:
    """Return the descriptor of the lock on an index, made where needed; None while another holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _follow(connection: sa.Connection, index: HammingIndex, space: int) -> None:
    while found := _NEWS.rows(connection, [space], last=index.last_id):
        index.add([row["ordinal"] for row in found], _unsigned(row["simhash"] for row in found))
        if len(found) < _READ_ROWS:
            return


def _unsigned(values: Iterable[int]) -> list[int]:
    return [value & 0xFFFF_FFFF_FFFF_FFFF for value in values]
