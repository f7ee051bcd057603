"""What can be wrong inside a ledger that opens: each test says so in a sentence.

SQLite's own integrity check does not see a flipped bit in a stored text, so the deep audit hashes every text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import sqlalchemy as sa

from scrapy_dedup.errors import RecordError
from scrapy_dedup.ledger import codec, rows, schema
from scrapy_dedup.ledger.store import BODY_COLUMNS, BODY_JOIN

MAX_NAMED = 10
"""Of one kind of fault so many are named; the rest are counted."""

_t = schema


def problems(connection: sa.Connection, *, deep: bool) -> list[str]:
    """Return what is wrong, an empty list for a sound ledger."""
    audits: list[Callable[[sa.Connection], Iterator[str]]] = [
        _damaged_pages,
        _bodies_without_observation,
        _observations_without_body,
    ]
    if deep:
        audits.append(_bodies_that_differ)
    return [problem for audit in audits for problem in _named(audit, connection)]


def _named(audit: Callable[[sa.Connection], Iterator[str]], connection: sa.Connection) -> list[str]:
    try:
        found = list(audit(connection))
    except sa.exc.DBAPIError as error:
        return [f"A part of the database cannot be read: {error.orig}"]
    rest = len(found) - MAX_NAMED
    return found[:MAX_NAMED] + ([f"... and {rest} more of this kind"] if rest > 0 else [])


def _damaged_pages(connection: sa.Connection) -> Iterator[str]:
    if connection.dialect.name != "sqlite":
        return
    for (message,) in connection.exec_driver_sql("PRAGMA integrity_check(20)").fetchall():
        if message != "ok":
            yield f"SQLite finds the file damaged: {message}"
    for row in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall():
        yield f"A row of {row[0]} points to a row of {row[2]} that does not exist"


def _bodies_without_observation(connection: sa.Connection) -> Iterator[str]:
    seen = sa.exists().where(_t.observation.c.body == _t.body.c.ordinal)
    for (body_id,) in connection.execute(sa.select(_t.body.c.body_id).where(~seen)).fetchall():
        yield f"The body {codec.unpack_body_id(body_id)} has no observation"


def _observations_without_body(connection: sa.Connection) -> Iterator[str]:
    """Content that is kept, reused or a revision must have its text."""
    missing = (
        sa.select(_t.job.c.job_id, _t.observation.c.seq, _t.observation.c.action)
        .select_from(_t.observation.join(_t.job, _t.job.c.ordinal == _t.observation.c.job))
        .where(_t.observation.c.action.in_(["keep", "reuse"]), _t.observation.c.body.is_(None))
    )
    for job_id, seq, action in connection.execute(missing).fetchall():
        identity = codec.observation_id(codec.unescape(job_id), seq)
        yield f"The observation {identity} has the action {action} but no body"


def _bodies_that_differ(connection: sa.Connection) -> Iterator[str]:
    statement = sa.select(*BODY_COLUMNS).select_from(BODY_JOIN).order_by(_t.body.c.ordinal)
    with connection.execution_options(yield_per=100).execute(statement) as result:
        for row in result.mappings():
            yield from _body_problems(row)


def _body_problems(row: rows.Row) -> Iterator[str]:
    name = f"The body {codec.unpack_body_id(row['body_id'])}"
    try:
        record = rows.body_record(row)
    except (RecordError, ValueError) as error:
        yield f"{name} cannot be read: {error}"
        return
    if hashlib.sha256(record.text.encode()).digest() != bytes(row["text_digest"]):
        yield f"{name} holds a text that does not have its digest"
    if record.char_count != len(record.text):
        yield f"{name} holds {len(record.text)} characters and states {record.char_count}"
    identity = codec.body_id(
        record.corpus, record.text_digest, record.representation, record.extractor_id, row["variant"]
    )
    if identity != record.body_id:
        yield f"{name} does not have the identity of its content"
