"""Whether what finds similar texts agrees with the ledger, and making it anew where it does not.

All of it is derived from the bodies, so nothing is lost by that. An index that lacks the latest bodies is not
at fault: a crawl that was killed leaves it so, and the next one adds them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from scrapy_dedup.errors import IndexDamaged, LedgerUnavailable
from scrapy_dedup.ledger import codec, near_index, relations, schema
from scrapy_dedup.ledger.engine import Target
from scrapy_dedup.near.hamming import MAX_ID, HammingIndex
from scrapy_dedup.near.host_blocks import BlockCounts
from scrapy_dedup.near.simhash import SCHEME

_t = schema
_FOLDER_NAME = re.compile(r"(\d{1,18})-(simhash64-[\w.-]+)")
_ADVICE = "`scrapy dedup check --repair` makes it anew"


def problems(connection: sa.Connection, ledger: Path | None) -> Iterator[str]:
    """Yield what is wrong with the indexes beside a ledger and with the counts in it.

    Args:
        connection: it is read in the transaction that is open on it.
        ledger: the file of a SQLite ledger; others have no index beside them.
    """
    for folder in _folders(ledger):
        fault = _index_fault(connection, folder)
        if fault is not None:
            yield f"The index of similar texts {folder} cannot be trusted: {fault}; {_ADVICE}"
    for _, host, fault in _damaged_counts(connection):
        yield f"The paragraphs of {host} are not counted rightly: {fault}; {_ADVICE}"


def repair(url: str) -> list[str]:
    """Make anew what `problems` finds; return what was done, one sentence each.

    Raises:
        LedgerUnavailable: there is no ledger, it cannot be written, or a crawl is writing an index of it.
    """
    done: list[str] = []
    with relations.writing(url) as connection:
        for folder in _folders(Target.parse(url).path):
            fault = _index_fault(connection, folder)
            if fault is not None:
                done.append(_remade(connection, folder, fault))
        damaged = list(_damaged_counts(connection))
        for space in sorted({space for space, _, _ in damaged}):
            # All counts of a space include the same bodies, so they begin anew together.
            connection.execute(sa.delete(_t.host_blocks).where(_t.host_blocks.c.space == space))
            connection.execute(sa.delete(_t.near_space).where(_t.near_space.c.space == space))
        done += [
            f"The paragraphs of {host} are counted anew by the next crawl: {fault}"
            for _, host, fault in damaged
        ]
    return done


def _folders(ledger: Path | None) -> list[Path]:
    """Return the folders of indexes beside a ledger; what else lies there is none of ours."""
    parent = None if ledger is None else near_index.parent_of(ledger)
    if parent is None or not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and _FOLDER_NAME.fullmatch(path.name))


def _index_fault(connection: sa.Connection, folder: Path) -> str | None:
    space, scheme = _named(folder)
    if scheme != SCHEME:
        return f"it holds fingerprints of {scheme}, which this version does not make"
    if connection.execute(sa.select(_t.space.c.ordinal).where(_t.space.c.ordinal == space)).first() is None:
        return "the ledger has no such texts"
    with _lock(folder) as is_ours:
        if not is_ours:
            return None  # a crawl is writing it, which has checked it
        try:
            index = HammingIndex(folder, SCHEME, writes=False)
        except IndexDamaged as error:
            return str(error).rstrip(".")
        return differences(connection, index, space)


def differences(connection: sa.Connection, index: HammingIndex, space: int) -> str | None:
    """Return how an index differs from the bodies up to its last id; None where it holds just these."""
    if not index.is_consistent():
        return "its orders do not hold the same fingerprints"
    ids, fingerprints = index.everything()
    wanted_ids, wanted = near_index.rows_of(connection, space, index.last_id)
    if len(ids) != len(wanted_ids):
        return f"it holds {len(ids):,} fingerprints where the ledger has {len(wanted_ids):,}"
    same = np.array_equal(ids, np.array(wanted_ids, np.uint32)) and np.array_equal(
        fingerprints, np.array(wanted, np.uint64)
    )
    return None if same else "it holds other fingerprints than the ledger"


def _remade(connection: sa.Connection, folder: Path, fault: str) -> str:
    space, scheme = _named(folder)
    with _lock(folder) as is_ours:
        if not is_ours:
            raise LedgerUnavailable(
                f"A crawl is writing the index {folder}. Repair it when the crawl has ended."
            )
        ids, fingerprints = near_index.rows_of(connection, space, MAX_ID)
        if scheme != SCHEME or not ids:
            shutil.rmtree(folder)
            return f"The index of similar texts {folder} was removed: {fault}"
        near_index.clear(folder)
        index = HammingIndex(folder, SCHEME)
        index.add(ids, fingerprints)
        index.flush()
    return f"The index of similar texts {folder} was made anew with {len(ids):,} fingerprints: {fault}"


def _damaged_counts(connection: sa.Connection) -> Iterator[tuple[int, str, str]]:
    """Yield the space, the host and the fault of counts that cannot be read."""
    # Half a megabyte for a large host, so only some of them at a time.
    statement = sa.select(_t.host_blocks).execution_options(yield_per=20)
    with connection.execute(statement) as result:
        for row in result.mappings():
            host = codec.unescape(row["host"])
            try:
                counts = BlockCounts.from_bytes(bytes(row["data"]))
            except ValueError as error:
                yield row["space"], host, str(error)
            else:
                if counts.pages != row["pages"]:
                    yield row["space"], host, f"{counts.pages:,} pages where {row['pages']:,} are stated"


def _named(folder: Path) -> tuple[int, str]:
    found = _FOLDER_NAME.fullmatch(folder.name)
    if found is None:
        raise LookupError(f"{folder} is not named as an index is")
    return int(found[1]), found[2]


@contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Hold the lock on an index; False while another process holds it."""
    try:
        descriptor = near_index.try_lock(folder)
    except PermissionError:  # who may not write cannot lock, and is only reading
        yield True
        return
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)
