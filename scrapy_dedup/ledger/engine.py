"""Where a ledger is, whether it is one, and connections to it: the only file that knows both engines' ways.

Four things differ between the engines: the insert of the dialect, the PRAGMAs, ``BEGIN IMMEDIATE``, and how
writers take turns (a lock file for SQLite, an advisory lock for PostgreSQL).

Nothing here deletes, repairs or recreates a database that cannot be opened. A SQLite ledger is made under a
draft name and renamed once it is complete, so that a file under the ledger's name is always a whole ledger.
A SQLite file is only ever opened by SQLite: closing any other descriptor of it would drop the locks that
another connection of this process holds on it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from scrapy_dedup.errors import LedgerTooNew, LedgerUnavailable
from scrapy_dedup.ledger import schema
from scrapy_dedup.ledger.lock import TurnLock, network_filesystem

BUSY_TIMEOUT_MS = 30_000
CHECKPOINT_BYTES = 128_000_000
"""Index pages change in many commits; a longer log moves each of them into the file once."""

CONNECT_TIMEOUT_S = 10
ADVISORY_LOCK = 0x5EDD_1ED6E4  # any constant will do; it names "the writers of this ledger"
DRAFT_ENDING = ".scrapy-dedup-draft"

IsolationLevel = Literal["READ COMMITTED", "REPEATABLE READ"]

_ADVICE = "Set DEDUP_LEDGER to a new path, or to a ledger made by scrapy_dedup; the file was left as it is."


@dataclass(frozen=True, slots=True)
class Target:
    """The place of one ledger: ``path`` for SQLite, None for PostgreSQL. ``name`` hides the password."""

    url: sa.URL
    path: Path | None

    @property
    def name(self) -> str:
        """How messages call this ledger."""
        if self.path:
            return str(self.path)
        shown = self.url.update_query_dict({"password": "***"}) if "password" in self.url.query else self.url
        return shown.render_as_string(hide_password=True)

    @classmethod
    def parse(cls, url: str) -> Target:
        """Return the target of a database URL.

        Raises:
            LedgerUnavailable: the URL is no URL of an engine that can hold a ledger.
        """
        engine, _, file = url.partition(":///")
        if engine in {"sqlite", "sqlite+pysqlite"}:  # a path may hold what means something in other URLs
            path = _sqlite_path(file)
            return cls(sa.URL.create("sqlite", database=str(path)), path)
        try:
            parsed = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError) as error:
            raise LedgerUnavailable(
                "DEDUP_LEDGER is not a database URL; write sqlite:///dedup.db or postgresql://user@host/name."
            ) from error
        if parsed.drivername in {"postgresql", "postgres", "postgresql+psycopg"}:
            return cls(parsed.set(drivername="postgresql+psycopg"), None)
        raise LedgerUnavailable(
            f"A ledger cannot be kept in {parsed.drivername!r}; use sqlite:///path or postgresql://user@host/name."
        )


def _sqlite_path(file: str) -> Path:
    path = Path(file).absolute()
    if not file or path.name == ":memory:" or file.startswith("file:"):
        raise LedgerUnavailable("A SQLite ledger needs a file; write sqlite:///dedup.db.")
    return path


def probe(target: Target) -> int | None:
    """Return the schema version of the ledger, or None where nothing is yet.

    Creates and changes nothing.

    Raises:
        LedgerUnavailable: something is there, but it is not a ledger or cannot be read.
        LedgerTooNew: the ledger has a newer schema than this package.
    """
    version = _probe_sqlite(target.path) if target.path else _probe_postgresql(target)
    if version is not None and version > schema.SCHEMA_VERSION:
        raise LedgerTooNew(
            f"The ledger {target.name} has schema version {version}, this scrapy_dedup knows "
            f"{schema.SCHEMA_VERSION}. Upgrade scrapy_dedup, or set DEDUP_LEDGER to another ledger."
        )
    return version


def check_writable(target: Target) -> None:
    """Raise unless a crawl could write to the ledger, or make it; creates and changes nothing.

    Raises:
        LedgerUnavailable: with the reason and what to do.
        LedgerTooNew: the ledger has a newer schema than this package.
    """
    if target.path:
        _check_place(target.path)
    probe(target)


def _check_place(path: Path) -> None:
    kind = network_filesystem(path)
    if kind:
        raise LedgerUnavailable(
            f"{path} is on a network file system ({kind}), where SQLite's write-ahead log is not safe. "
            "Set DEDUP_LEDGER to a path on a local disk, or use postgresql://."
        )
    directory = next(parent for parent in path.parents if parent.exists())
    if not directory.is_dir():
        raise LedgerUnavailable(f"{path} cannot be made: {directory} is a file. {_ADVICE}")
    for place in (directory, path, path.with_name(path.name + ".lock")):
        if place.exists() and not _may(place, os.W_OK):
            raise LedgerUnavailable(
                f"The ledger {path} cannot be written: {place} is read-only for this user. "
                "Change its permissions, or set DEDUP_LEDGER to another path."
            )


def _may(path: Path, access: int) -> bool:
    return os.access(path, access, effective_ids=os.access in os.supports_effective_ids)


def _probe_sqlite(path: Path) -> int | None:
    if path.is_dir():
        raise LedgerUnavailable(f"The ledger {path} is a directory. Set DEDUP_LEDGER to a file in it.")
    if not path.exists():
        return None
    if not _may(path, os.R_OK):
        raise LedgerUnavailable(f"The ledger {path} cannot be read by this user. Change its permissions.")
    if path.stat().st_size == 0:
        raise LedgerUnavailable(f"{path} is an empty file, not a ledger. Remove it, or choose another path.")
    try:
        # Without a log nobody is writing, and an immutable connection makes no files beside the ledger.
        with closing(_connect_readonly(path, immutable=not _log_of(path).exists())) as connection:
            return _read_version(connection, path)
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"{path} cannot be opened as a ledger ({error}). {_ADVICE}") from error


def _read_version(connection: sqlite3.Connection, path: Path) -> int:
    (held,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    if not _log_of(path).exists() and held * page_bytes > path.stat().st_size:
        raise sqlite3.DatabaseError("the file is shorter than it says")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "meta" not in tables:
        raise LedgerUnavailable(f"{path} is a SQLite database, but not a ledger. {_ADVICE}")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(meta)")]
    stated = dict(connection.execute("SELECT name, value FROM meta")) if columns == ["name", "value"] else {}
    return _stated_version(stated, str(path))


def _stated_version(stated: dict[str, str], name: str) -> int:
    version = stated.get("schema_version", "")
    if stated.get("format") != schema.FORMAT or not version.isdecimal():
        raise LedgerUnavailable(f"{name} is a database, but not a ledger. {_ADVICE}")
    return int(version)


def _probe_postgresql(target: Target) -> int | None:
    engine = _postgresql_engine(target, "READ COMMITTED", readonly=True)
    try:
        with engine.connect() as connection:
            return _postgresql_version(connection, target)
    except sa.exc.DBAPIError as error:
        raise LedgerUnavailable(
            f"The ledger {target.name} cannot be reached: {driver_message(error)}. "
            "Check that the server runs and that DEDUP_LEDGER names host, database and user."
        ) from error
    finally:
        engine.dispose()


def _postgresql_version(connection: sa.Connection, target: Target) -> int | None:
    tables = set(sa.inspect(connection).get_table_names())
    if not tables:
        return None
    if "meta" not in tables or not set(schema.metadata.tables) >= tables:
        foreign = ", ".join(sorted(tables - set(schema.metadata.tables))[:5]) or "no meta table"
        raise LedgerUnavailable(
            f"The database {target.name} holds other tables ({foreign}). "
            "Give the ledger a database of its own."
        )
    columns = {column["name"] for column in sa.inspect(connection).get_columns("meta")}
    if columns != {"name", "value"}:
        return _stated_version({}, target.name)
    stated = {row.name: row.value for row in connection.execute(sa.select(schema.meta))}
    return _stated_version(stated, target.name)


def driver_message(error: BaseException) -> str:
    """Return on one line what the database says, without the statement and values that SQLAlchemy adds."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _connect_readonly(path: Path, *, immutable: bool = False) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?mode=ro" + ("&immutable=1" if immutable else "")
    return sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)


def _postgresql_engine(target: Target, isolation: IsolationLevel, *, readonly: bool = False) -> sa.Engine:
    try:
        return sa.create_engine(
            target.url,
            poolclass=NullPool,
            connect_args={"connect_timeout": CONNECT_TIMEOUT_S},
            execution_options={"isolation_level": isolation, "postgresql_readonly": readonly},
        )
    except ImportError as error:
        raise LedgerUnavailable(
            f"The ledger {target.name} needs psycopg, which is not installed: pip install 'psycopg[binary]'"
        ) from error


def _sqlite_engine(creator: Callable[[], sqlite3.Connection]) -> sa.Engine:
    return sa.create_engine("sqlite://", creator=creator, poolclass=NullPool)


def reader_engine(target: Target) -> sa.Engine:
    """Return an engine that can only read; the caller disposes of it."""
    path = target.path
    if path is None:
        return _postgresql_engine(target, "REPEATABLE READ", readonly=True)
    # In a directory that cannot be written SQLite cannot make the log's index; nobody can write there either.
    frozen = not _may(path.parent, os.W_OK) and not _log_of(path).exists()
    engine = _sqlite_engine(lambda: _connect_readonly(path, immutable=frozen))
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def state_seen(connection: sa.Connection) -> int | None:
    """Return a number that stays the same until another connection has written; None where nobody can tell.

    Only numbers of one connection can be compared, each taken inside a transaction.
    """
    driver = connection.connection.driver_connection
    if driver is None or connection.dialect.name != "sqlite":
        return None
    (version,) = driver.execute("PRAGMA data_version").fetchone()
    return int(version)


class WriteSession:
    """One connection that writes, in turns with the writers of other processes; used by one thread."""

    def __init__(self, target: Target) -> None:
        """Open the ledger, making or migrating it where needed.

        Raises:
            LedgerUnavailable: the ledger cannot be opened or made.
            LedgerTooNew: the ledger has a newer schema than this package.
        """
        check_writable(target)
        self._path = target.path
        self._lock = _turn_lock(target.path)
        self._checkpoint_at = CHECKPOINT_BYTES
        self._engine = _writer_engine(target)
        self._connection: sa.Connection | None = None
        try:
            self._open(target)
        except (sa.exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
            self.close()
            raise LedgerUnavailable(f"The ledger {target.name} cannot be opened ({error}).") from error
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Hold the writers' turn and one transaction; commits at the end, rolls back on an exception.

        Raises:
            LedgerUnavailable: the session is closed, or the turn did not come in time.
        """
        connection = self._connection
        if connection is None:
            raise LedgerUnavailable("The ledger is closed.")
        with self._turn():
            with connection.begin():
                if self._path is None:
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))
                yield connection
            if self._path is not None:
                self._checkpoint_if_grown(connection, self._path)

    def close(self) -> None:
        """Close the connection; for SQLite this moves the log into the file, in our turn."""
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                with self._turn():
                    connection.close()
        finally:
            if self._lock:
                self._lock.close()

    def _open(self, target: Target) -> None:
        with self._turn():
            if self._path:
                _make_sqlite(self._path)
            self._connection = self._engine.connect()
        with self.transaction() as connection:
            _bring_up_to_date(connection, target)

    def _turn(self) -> AbstractContextManager[None]:
        return self._lock.turn() if self._lock else nullcontext()

    def _checkpoint_if_grown(self, connection: sa.Connection, path: Path) -> None:
        """Move the log into the file when it has grown; a reader may hold parts of it back."""
        driver = connection.connection.driver_connection
        if driver is None or _log_bytes(path) < self._checkpoint_at:
            return
        driver.execute("PRAGMA busy_timeout=0")  # never wait for readers: what they hold back is moved later
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        driver.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        self._checkpoint_at = _log_bytes(path) + CHECKPOINT_BYTES


def _log_bytes(path: Path) -> int:
    try:
        return _log_of(path).stat().st_size
    except FileNotFoundError:
        return 0


def _turn_lock(path: Path | None) -> TurnLock | None:
    if path is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    return TurnLock(path.with_name(path.name + ".lock"))


def _writer_engine(target: Target) -> sa.Engine:
    path = target.path
    if path is None:
        return _postgresql_engine(target, "READ COMMITTED")
    engine = _sqlite_engine(lambda: _connect_writer(path))
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _connect_writer(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None
    )
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "wal_autocheckpoint=0",  # checkpoints are ours, in our turn
        "mmap_size=0",
        "cache_size=-65536",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _make_sqlite(path: Path) -> None:
    """Make a whole ledger under a draft name, then give it its name; the caller has the writers' turn."""
    if path.exists():
        return
    draft = path.with_name(path.name + DRAFT_ENDING)
    make_draft(draft)
    publish(draft, path)


def make_draft(draft: Path, fill: Callable[[sa.Connection], None] | None = None) -> None:
    """Make a new SQLite ledger at ``draft`` and let ``fill`` write into it, all in one transaction.

    It turns to the write-ahead log here: a process that is killed while a file turns leaves a rollback
    journal, which readers cannot resolve.
    """
    for ending in ("", "-journal", "-wal", "-shm"):
        leftover = draft.with_name(draft.name + ending)
        leftover.unlink(missing_ok=True)  # of a process that was killed here; it never was a ledger
    engine = _sqlite_engine(lambda: sqlite3.connect(draft, isolation_level=None))
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.begin() as connection:
            schema.create(connection)
            if fill is not None:
                fill(connection)
    finally:
        engine.dispose()
    with closing(sqlite3.connect(draft)) as driver:
        driver.execute("PRAGMA journal_mode=WAL").fetchall()


def publish(draft: Path, path: Path) -> None:
    """Give a complete file its name, durably."""
    draft.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _bring_up_to_date(connection: sa.Connection, target: Target) -> None:
    """Migrate inside the transaction; another writer may have been faster, so the version is read again."""
    version = _postgresql_version(connection, target) if target.path is None else _held_version(connection)
    if version is not None and version > schema.SCHEMA_VERSION:
        raise LedgerTooNew(f"The ledger {target.name} has just been migrated by a newer scrapy_dedup.")
    if version is None:
        schema.create(connection)
    elif version < schema.SCHEMA_VERSION:
        _upgrade(connection, version)


def _held_version(connection: sa.Connection) -> int:
    (version,) = connection.execute(
        sa.select(schema.meta.c.value).where(schema.meta.c.name == "schema_version")
    ).scalars()
    return int(version)


def _upgrade(connection: sa.Connection, version: int) -> None:
    # Alembic takes a tenth of a second to import, and only outdated ledgers need it.
    from scrapy_dedup.ledger.migrations import upgrade  # noqa: PLC0415

    upgrade(connection, version)
