"""What can be wrong inside a ledger that opens: each test says so in a sentence.

SQLite's own integrity check does not see a flipped bit in a stored text, so the deep audit hashes every text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import sqlalchemy as sa

from scrapy_dedup.errors import RecordError
from scrapy_dedup.ledger import codec, relations, rows, schema
from scrapy_dedup.ledger.store import BODY_COLUMNS, BODY_JOIN
from scrapy_dedup.records import DecisionAction

MAX_NAMED = 10
"""Of one kind of fault so many are named; the rest are counted."""

_t = schema


def problems(connection: sa.Connection, *, deep: bool) -> list[str]:
    """Return what is wrong, an empty list for a sound ledger."""
    audits: list[Callable[[sa.Connection], Iterator[str]]] = [
        _damaged_pages,
        _bodies_without_observation,
        _observations_without_body,
        _observations_without_links,
        _decisions_without_relation,
        _decisions_without_superseded,
    ]
    if deep:
        audits += [_bodies_that_differ, _links_that_differ, _relations_that_differ]
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


def _observations_without_links(connection: sa.Connection) -> Iterator[str]:
    held = sa.exists().where(_t.link_set.c.digest == _t.observation.c.links)
    missing = (
        sa.select(_t.job.c.job_id, _t.observation.c.seq)
        .select_from(_t.observation.join(_t.job, _t.job.c.ordinal == _t.observation.c.job))
        .where(_t.observation.c.links.is_not(None), ~held)
    )
    for job_id, seq in connection.execute(missing).fetchall():
        identity = codec.observation_id(codec.unescape(job_id), seq)
        yield f"The links of the observation {identity} are missing"


def _decisions_without_relation(connection: sa.Connection) -> Iterator[str]:
    held = sa.exists().where(_t.relation.c.relation_id == _t.decision.c.relation_id)
    missing = sa.select(_t.decision.c.decision_id, _t.decision.c.relation_id).where(~held)
    for decision_id, relation_id in connection.execute(missing).fetchall():
        name, about = codec.unpack_decision_id(decision_id), codec.unpack_relation_id(relation_id)
        yield f"The decision {name} is about the relation {about}, which is missing"


def _decisions_without_superseded(connection: sa.Connection) -> Iterator[str]:
    """A decision supersedes an earlier one about the same relation; an undo always does."""
    earlier = _t.decision.alias()
    held = sa.exists().where(
        earlier.c.decision_id == _t.decision.c.supersedes,
        earlier.c.relation_id == _t.decision.c.relation_id,
        earlier.c.ordinal < _t.decision.c.ordinal,
    )
    must = sa.or_(_t.decision.c.supersedes.is_not(None), _t.decision.c.action == DecisionAction.UNDO.value)
    for (decision_id,) in connection.execute(
        sa.select(_t.decision.c.decision_id).where(must, ~held)
    ).fetchall():
        name = codec.unpack_decision_id(decision_id)
        yield f"The decision {name} takes the place of one that is no earlier decision about its relation"


def _links_that_differ(connection: sa.Connection) -> Iterator[str]:
    statement = sa.select(*_t.link_set.c)
    with connection.execution_options(yield_per=100).execute(statement) as result:
        for row in result.mappings():
            yield from _link_problems(row)


def _link_problems(row: rows.Row) -> Iterator[str]:
    name = f"The list of links {bytes(row['digest']).hex()}"
    try:
        links = codec.unpack_text(row["codec"], row["data"])
    except RecordError as error:
        yield f"{name} cannot be read: {error}"
        return
    if codec.url_digest(links) != bytes(row["digest"]):
        yield f"{name} holds other links than its digest says"


def _relations_that_differ(connection: sa.Connection) -> Iterator[str]:
    with connection.execution_options(yield_per=500).execute(relations.ALL) as result:
        for row in result.mappings():
            yield from _relation_problems(row)


def _relation_problems(row: rows.Row) -> Iterator[str]:
    name = f"The relation {codec.unpack_relation_id(row['relation_id'])}"
    try:
        record = relations.of_row(row)
    except (RecordError, ValueError, TypeError) as error:
        yield f"{name} cannot be read: {error}"
        return
    if relations.identity(record) != record.relation_id:
        yield f"{name} does not have the identity of its kind, its sides and their content"
    if (bytes(row["a_place"]), bytes(row["b_place"])) != (
        codec.url_digest(record.a),
        codec.url_digest(record.b),
    ):
        yield f"{name} cannot be found by its sides"


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
