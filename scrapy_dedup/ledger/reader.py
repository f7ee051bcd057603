"""Reading a ledger: iterators over its records, a lookup by URL, its check and its backup."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from scrapy_dedup.errors import LedgerUnavailable
from scrapy_dedup.ledger import audit, codec, engine, rows, schema
from scrapy_dedup.ledger.engine import Target
from scrapy_dedup.ledger.store import BODY_COLUMNS, BODY_JOIN
from scrapy_dedup.records import AliasRecord, BodyRecord, JobRecord, ObservationRecord

if TYPE_CHECKING:
    from scrapy_dedup.urls import UrlDecision

STREAM_ROWS = 500

_t = schema
_OBSERVATIONS = sa.select(*_t.observation.c, _t.job.c.job_id, _t.job.c.spider, _t.body.c.body_id).select_from(
    _t.observation.join(_t.job, _t.job.c.ordinal == _t.observation.c.job).outerjoin(
        _t.body, _t.body.c.ordinal == _t.observation.c.body
    )
)
_ALIASES = sa.select(*_t.alias.c, _t.job.c.job_id).select_from(
    _t.alias.join(_t.job, _t.job.c.ordinal == _t.alias.c.job)
)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the ledger knows about one URL.

    Attributes:
        decision: what the policy of the latest job says about the URL.
        observations: all observations of its key, and of the keys that the URL was merged into.
        bodies: the texts of those observations.
        aliases: the discovered URLs of those keys.
        same_text: all observations of those texts, under whatever URL.
    """

    decision: UrlDecision
    observations: tuple[ObservationRecord, ...]
    bodies: tuple[BodyRecord, ...]
    aliases: tuple[AliasRecord, ...]
    same_text: tuple[ObservationRecord, ...]


class Ledger:
    """A ledger opened for reading; a context manager.

    It can be read while crawls write to it. All that one instance reads is one state of the ledger, that of
    its first read; open it again to see what was written since.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._engine = engine.reader_engine(target)
        self._connection = self._engine.connect()

    @classmethod
    def open(cls, url: str) -> Ledger:
        """Open the ledger at a database URL; creates and changes nothing.

        Raises:
            LedgerUnavailable: there is none, or what is there cannot be read as a ledger.
            LedgerTooNew: the ledger has a newer schema than this package.
        """
        target = Target.parse(url)
        version = engine.probe(target)
        if version is None:
            raise LedgerUnavailable(
                f"There is no ledger at {target.name}. Run a crawl first, or name another ledger."
            )
        if version < schema.SCHEMA_VERSION:
            raise LedgerUnavailable(
                f"The ledger {target.name} has the older schema version {version}. "
                "The next crawl that writes to it migrates it."
            )
        try:
            return cls(target)
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise LedgerUnavailable(f"The ledger {target.name} cannot be read ({error}).") from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._engine.dispose()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def engine_version(self) -> str:
        """The database engine with its version, for example ``SQLite 3.40.1``."""
        version = ".".join(map(str, self._connection.dialect.server_version_info or ()))
        return f"{'SQLite' if self._target.path else 'PostgreSQL'} {version}"

    def jobs(self) -> Iterator[JobRecord]:
        """Iterate over the jobs in the order in which they started."""
        for row in self._stream(sa.select(_t.job).order_by(_t.job.c.ordinal)):
            yield rows.job_record(row)

    def observations(self, *, job_id: str | None = None) -> Iterator[ObservationRecord]:
        """Iterate over the observations, ordered by job and place in it."""
        statement = _OBSERVATIONS.order_by(_t.observation.c.job, _t.observation.c.seq)
        for row in self._stream(_of_job(statement, _t.observation, job_id)):
            yield _observation(row)

    def bodies(self, *, job_id: str | None = None) -> Iterator[BodyRecord]:
        """Iterate over the bodies in the order of commits; ``job_id``: those which that job brought."""
        statement = sa.select(*BODY_COLUMNS).select_from(BODY_JOIN).order_by(_t.body.c.ordinal)
        for row in self._stream(_of_job(statement, _t.body, job_id)):
            yield rows.body_record(row)

    def aliases(self, *, job_id: str | None = None, url_key: str | None = None) -> Iterator[AliasRecord]:
        """Iterate over the aliases in first-seen order; an overflow row has an empty raw URL."""
        statement = _of_job(_ALIASES.order_by(_t.alias.c.ordinal), _t.alias, job_id)
        if url_key is not None:
            statement = statement.where(_t.alias.c.url_key_digest == codec.url_digest(url_key))
        for row in self._stream(statement):
            yield _alias(row)

    def policy_spec(self, job_id: str | None = None) -> dict[str, Any] | None:
        """Return the URL policy of a job as it was stored; by default that of the latest job."""
        statement = (
            sa.select(_t.policy.c.spec)
            .select_from(_t.policy.join(_t.job, _t.job.c.policy_spec == _t.policy.c.digest))
            .order_by(_t.job.c.ordinal.desc())
            .limit(1)
        )
        if job_id is not None:
            statement = statement.where(_t.job.c.job_id == codec.escape(job_id))
        stored = self._connection.execute(statement).scalar()
        return None if stored is None else dict(codec.unpack_json(stored))

    def lookup(self, url: str) -> Lookup:
        """Return all that is known about a URL, seen or not, from the ledger alone.

        Raises:
            LedgerUnavailable: the ledger holds no job, so no policy to judge the URL by.
        """
        decision = self._decide(url)
        as_linked = self._aliases_where(_t.alias.c.raw_url_digest, {codec.url_digest(url)})
        keys = {codec.url_digest(key) for key in (decision.key, *(alias.url_key for alias in as_linked))}
        found = self._observation_rows(_t.observation.c.url_key_digest, keys)
        bodies = {row["body"] for row in found if row["body"] is not None}
        return Lookup(
            decision=decision,
            observations=tuple(map(_observation, found)),
            bodies=tuple(self._bodies_at(bodies)),
            aliases=tuple(self._aliases_where(_t.alias.c.url_key_digest, keys)),
            same_text=tuple(map(_observation, self._observation_rows(_t.observation.c.body, bodies))),
        )

    def failed_urls(self, job_id: str) -> Iterator[tuple[str, str]]:
        """Yield (URL key, URL as requested) of each failure of a job whose key brought no valid page."""
        seen = _t.observation.c
        job = sa.select(_t.job.c.ordinal).where(_t.job.c.job_id == codec.escape(job_id)).scalar_subquery()
        brought = sa.select(seen.url_key_digest).where(seen.job == job, seen.validity == "valid")
        failures = sa.select(seen.url_key, seen.fetch_url).where(
            seen.job == job, seen.outcome.in_(("error", "gone")), seen.url_key_digest.not_in(brought)
        )
        for row in self._stream(failures):
            yield codec.unescape(row["url_key"]), codec.unescape(row["fetch_url"])

    def job_summary(self, job_id: str) -> dict[str, int]:
        """Return counts of one job: ``observations``, distinct ``payloads`` of valid pages, ``aliases``."""
        seen = _t.observation.c
        job = sa.select(_t.job.c.ordinal).where(_t.job.c.job_id == codec.escape(job_id)).scalar_subquery()
        counted: dict[str, sa.Select[Any]] = {
            "observations": _count(_t.observation, seen.job == job),
            "payloads": sa.select(sa.func.count(seen.payload_digest.distinct())).where(
                seen.job == job, seen.validity == "valid"
            ),
            "aliases": _count(_t.alias, _t.alias.c.job == job, _t.alias.c.raw_url_digest != b""),
        }
        return {name: int(self._connection.execute(query).scalar_one()) for name, query in counted.items()}

    def summary(self) -> dict[str, int]:
        """Return the counts that describe the ledger, each under its name."""
        seen = _t.observation.c
        counted: dict[str, sa.Select[Any]] = {
            "jobs": sa.select(sa.func.count()).select_from(_t.job),
            "jobs_unfinished": _count(_t.job, _t.job.c.finished_us.is_(None)),
            "observations": sa.select(sa.func.count()).select_from(_t.observation),
            "urls": sa.select(sa.func.count(seen.url_key_digest.distinct())),
            "valid": _count(_t.observation, seen.validity == "valid"),
            "invalid": _count(_t.observation, seen.outcome == "fetched", seen.validity != "valid"),
            "failed": _count(_t.observation, seen.outcome != "fetched"),
            "payloads": sa.select(sa.func.count(seen.payload_digest.distinct())),
            "bodies": sa.select(sa.func.count()).select_from(_t.body),
            "aliases": _count(_t.alias, _t.alias.c.raw_url_digest != b""),
            "aliases_counted": sa.select(sa.func.coalesce(sa.func.sum(_t.alias.c.count), 0)),
        }
        counts = {name: int(self._connection.execute(query).scalar_one()) for name, query in counted.items()}
        by_action = sa.select(seen.action, sa.func.count()).group_by(seen.action).order_by(seen.action)
        counts.update({f"action_{name}": int(count) for name, count in self._connection.execute(by_action)})
        return counts

    def check(self, deep: bool = False) -> list[str]:
        """Return what is wrong with the ledger, one sentence each; ``deep`` also hashes every text again."""
        return audit.problems(self._connection, deep=deep)

    def backup(self, target: Path) -> None:
        """Copy the ledger, whatever its engine, into a new SQLite ledger at ``target``.

        The copy is one consistent state, also of a ledger that is being written; it appears under its name
        once it is complete.

        Raises:
            LedgerUnavailable: something stands at ``target``, or it cannot be written.
        """
        if target.exists():
            raise LedgerUnavailable(f"{target} exists already. Name a new file for the backup.")
        draft = target.with_name(f"{target.name}.{os.getpid()}{engine.DRAFT_ENDING}")
        try:
            self._copy(draft)
            engine.publish(draft, target)
        except (OSError, sqlite3.Error, sa.exc.SQLAlchemyError) as error:
            draft.unlink(missing_ok=True)
            raise LedgerUnavailable(f"The backup {target} cannot be written ({error}).") from error

    def _copy(self, draft: Path) -> None:
        if self._target.path is None:
            engine.make_draft(draft, self._copy_rows)
            return
        driver = self._connection.connection.driver_connection
        with closing(sqlite3.connect(draft)) as copy:
            driver.backup(copy)  # type: ignore[union-attr]

    def _copy_rows(self, copy: sa.Connection) -> None:
        for table in schema.metadata.sorted_tables:
            if table is schema.meta:
                continue
            for part in self._stream_parts(sa.select(table)):
                copy.execute(sa.insert(table), [dict(row) for row in part])

    def _decide(self, url: str) -> UrlDecision:
        from scrapy_dedup.urls import UrlPolicy  # noqa: PLC0415 - most readers never judge a URL

        spec = self.policy_spec()
        if spec is None:
            raise LedgerUnavailable(f"The ledger {self._target.name} holds no job yet, so no URL policy.")
        return UrlPolicy.from_spec(spec).decide(url)

    def _observation_rows(self, column: sa.Column[Any], values: Iterable[Any]) -> list[rows.Row]:
        statement = _OBSERVATIONS.order_by(_t.observation.c.job, _t.observation.c.seq)
        found = [row for part in _parts(values) for row in self._stream(statement.where(column.in_(part)))]
        return sorted(found, key=lambda row: (row["job"], row["seq"]))

    def _bodies_at(self, ordinals: Iterable[int]) -> Iterator[BodyRecord]:
        statement = sa.select(*BODY_COLUMNS).select_from(BODY_JOIN).order_by(_t.body.c.ordinal)
        for part in _parts(sorted(ordinals)):
            for row in self._stream(statement.where(_t.body.c.ordinal.in_(part))):
                yield rows.body_record(row)

    def _aliases_where(self, column: sa.Column[Any], values: Iterable[bytes]) -> list[AliasRecord]:
        statement = _ALIASES.order_by(_t.alias.c.ordinal)
        return [
            _alias(row) for part in _parts(values) for row in self._stream(statement.where(column.in_(part)))
        ]

    def _stream(self, statement: sa.Select[Any]) -> Iterator[rows.Row]:
        for part in self._stream_parts(statement):
            yield from part

    def _stream_parts(self, statement: sa.Select[Any]) -> Iterator[list[rows.Row]]:
        with self._connection.execution_options(yield_per=STREAM_ROWS).execute(statement) as result:
            for part in result.mappings().partitions():
                yield list(part)


def _of_job(statement: sa.Select[Any], table: sa.Table, job_id: str | None) -> sa.Select[Any]:
    if job_id is None:
        return statement
    wanted = sa.select(_t.job.c.ordinal).where(_t.job.c.job_id == codec.escape(job_id)).scalar_subquery()
    return statement.where(table.c.job == wanted)


def _count(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(sa.func.count()).select_from(table).where(*conditions)


def _parts(values: Iterable[Any]) -> Iterator[list[Any]]:
    listed = list(values)
    for start in range(0, len(listed), STREAM_ROWS):
        yield listed[start : start + STREAM_ROWS]


def _observation(row: rows.Row) -> ObservationRecord:
    body_id = None if row["body_id"] is None else codec.unpack_body_id(row["body_id"])
    return rows.observation_record(row, codec.unescape(row["job_id"]), codec.unescape(row["spider"]), body_id)


def _alias(row: rows.Row) -> AliasRecord:
    return rows.alias_record(row, codec.unescape(row["job_id"]))
