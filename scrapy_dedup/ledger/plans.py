"""What indexes hold, by the plans that were applied to them, and the plans that wait to be.

A plan is stored before its file gets its name, and changes nothing of what the ledger says that the index
holds until its user confirms that it was applied. So a plan that was never applied, or half of it, is planned
again. There is at most one waiting plan for an index. It may have been applied all the same, so one that
replaces it has to name all entries that it names; see `scrapy_dedup.jobs.plan`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import NamedTuple

import sqlalchemy as sa

from scrapy_dedup.errors import DedupError
from scrapy_dedup.ledger import codec, schema
from scrapy_dedup.ledger.history import Stream
from scrapy_dedup.ledger.relations import open_to_write, writing
from scrapy_dedup.ledger.rows import Row
from scrapy_dedup.ledger.statement import Change

MAX_OWNERS = 20
"""URL keys that an entry is remembered with, to say later why it went."""

_ROWS_AT_ONCE = 1_000

_t = schema
_entry, _change = schema.index_entry, schema.index_change
_ADD_CHANGE = Change(
    sa.insert(_change).values({column.name: sa.bindparam(column.name) for column in _change.c})
)


class IndexEntry(NamedTuple):
    """What an index holds under one identity, or held once.

    Attributes:
        id: of the entry.
        embed_key: of its vector.
        payload: 64 hexadecimal digits of what stands beside the vector.
        is_held: whether the index holds it now.
        owners: URL keys of the first pages that showed it, at most `MAX_OWNERS`.
    """

    id: str
    embed_key: str
    payload: str
    is_held: bool
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """The plan that was applied to an index last: its identity, when it was confirmed, its options."""

    plan_id: str
    at: str
    options: dict[str, object]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The plan for an index that nobody has confirmed yet.

    Attributes:
        plan_id: its identity.
        is_whole: whether it says all that the index is to hold, whatever the ledger knows of it.
    """

    plan_id: str
    is_whole: bool


class Basis(NamedTuple):
    """What a plan for an index starts at: the plan that was applied last, and the one that waits."""

    applied: Applied | None = None
    waiting: Waiting | None = None

    @property
    def applied_id(self) -> str | None:
        """The identity of the plan that was applied last."""
        return self.applied.plan_id if self.applied else None

    @property
    def waiting_id(self) -> str | None:
        """The identity of the plan that waits."""
        return self.waiting.plan_id if self.waiting else None


class PlanChange(NamedTuple):
    """One line of a plan, as far as the ledger has to know it."""

    id: str
    is_delete: bool
    embed_key: str
    payload: str
    owners: Sequence[str]


def entries(stream: Stream, target: int) -> Iterator[IndexEntry]:
    """Yield all that an index holds or held, in the order of identities."""
    statement = sa.select(_entry).where(_entry.c.target == target).order_by(_entry.c.entry_id)
    for row in stream(statement):
        yield IndexEntry(
            "entry1-" + bytes(row["entry_id"]).hex(),
            codec.unpack_digest(row["embed_key"]),
            bytes(row["payload"]).hex(),
            bool(row["is_held"]),
            _owners(row),
        )


def waiting_changes(stream: Stream, target: int) -> Iterator[PlanChange]:
    """Yield the lines of the plan that waits, in the order of identities."""
    statement = sa.select(_change).where(_change.c.target == target).order_by(_change.c.entry_id)
    for row in stream(statement):
        yield PlanChange(
            "entry1-" + bytes(row["entry_id"]).hex(),
            bool(row["is_delete"]),
            codec.unpack_digest(row["embed_key"]),
            bytes(row["payload"]).hex(),
            _owners(row),
        )


def _owners(row: Row) -> tuple[str, ...]:
    return tuple(json.loads(zlib.decompress(row["owners"])))


def basis(connection: sa.Connection, target: int) -> Basis:
    """Return what a plan for an index starts at."""
    plan = connection.execute(sa.select(_t.index_plan).where(_t.index_plan.c.target == target)).one_or_none()
    waits = None if plan is None else Waiting("plan1-" + bytes(plan.plan_id).hex(), bool(plan.is_whole))
    return Basis(applied(connection, target), waits)


def applied(connection: sa.Connection, target: int) -> Applied | None:
    """Return the plan that was applied to an index last."""
    row = connection.execute(sa.select(_t.index_target).where(_t.index_target.c.ordinal == target)).one()
    if row.applied_plan is None:
        return None
    plan_id = "plan1-" + bytes(row.applied_plan).hex()
    return Applied(plan_id, codec.from_micros(row.applied_us), codec.unpack_json(row.applied_options))


def find_target(connection: sa.Connection, corpus: str, name: str) -> int | None:
    """Return the ordinal of an index, None where no plan was ever made for it."""
    target = _t.index_target.c
    statement = sa.select(target.ordinal).where(
        target.corpus == codec.escape(corpus), target.name == codec.escape(name)
    )
    found: int | None = connection.execute(statement).scalar()
    return found


def migrate(url: str) -> None:
    """Bring a ledger to the present schema, so that plans can be kept in it.

    Raises:
        LedgerError: there is none, or it cannot be written.
    """
    open_to_write(url).close()


def save_plan(
    url: str,
    corpus: str,
    name: str,
    *,
    plan_id: str,
    options: dict[str, object],
    changes: Iterable[PlanChange],
    is_whole: bool,
    starts_at: Basis,
) -> None:
    """Store a plan that waits to be applied, in the place of an earlier one that waits; all or nothing.

    Args:
        url: the ledger.
        corpus: of the pages.
        name: of the index.
        plan_id: its identity.
        options: what its entries were made with.
        changes: its lines; those that keep an entry may be left out unless ``is_whole``.
        is_whole: the plan says all that the index is to hold, whatever the ledger knows of it.
        starts_at: what the plan was made from.

    Raises:
        DedupError: another plan was made or confirmed meanwhile, of which this one knows nothing.
        LedgerError: the ledger cannot be written.
    """
    with writing(url) as connection:
        target = find_target(connection, corpus, name) or _new_target(connection, corpus, name)
        there = basis(connection, target)
        is_known = there.waiting_id in (starts_at.waiting_id, plan_id)
        if there.applied_id != starts_at.applied_id or not is_known:
            raise DedupError(
                f"another plan for the index {name!r} was made, confirmed or discarded at the same time, so "
                "this one was not written; plan again"
            )
        _drop_plan(connection, target)
        connection.execute(
            sa.insert(_t.index_plan).values(
                target=target,
                plan_id=codec.pack_id(plan_id),
                created_us=_now_us(),
                options=codec.pack_json(options),
                is_whole=is_whole,
            )
        )
        waiting = iter(changes)
        while part := list(islice(waiting, _ROWS_AT_ONCE)):
            _ADD_CHANGE.run(connection, (_change_row(target, one) for one in part))


def confirm_plan(url: str, corpus: str, name: str, plan_id: str) -> bool:
    """Let the ledger know that a plan was applied to its index.

    Returns:
        Whether this is news; a plan that was confirmed last can be confirmed again.

    Raises:
        DedupError: it is not the plan that waits.
        LedgerError: the ledger cannot be written.
    """
    packed = codec.pack_id(plan_id)
    with writing(url) as connection:
        target = find_target(connection, corpus, name)
        if target is None:
            raise DedupError(f"no plan was made for the index {name!r} of corpus {corpus!r}")
        plan = connection.execute(
            sa.select(_t.index_plan).where(_t.index_plan.c.target == target)
        ).one_or_none()
        last = applied(connection, target)
        if plan is None or bytes(plan.plan_id) != packed:
            if last is not None and last.plan_id == plan_id:
                return False
            raise DedupError(_not_waiting(plan_id, None if plan is None else bytes(plan.plan_id)))
        _apply(connection, target, is_whole=plan.is_whole)
        connection.execute(
            sa.update(_t.index_target)
            .where(_t.index_target.c.ordinal == target)
            .values(applied_plan=packed, applied_us=_now_us(), applied_options=plan.options)
        )
        _drop_plan(connection, target)
    return True


def discard_plan(url: str, corpus: str, name: str, plan_id: str) -> None:
    """Forget the plan that waits, since neither it nor an unconfirmed one before it was applied in any part.

    Raises:
        DedupError: it is not the plan that waits.
        LedgerError: the ledger cannot be written.
    """
    with writing(url) as connection:
        target = find_target(connection, corpus, name)
        waits = None if target is None else basis(connection, target).waiting_id
        if target is None or waits != plan_id:
            raise DedupError(
                f"the plan {plan_id} does not wait to be confirmed for the index {name!r} of corpus "
                f"{corpus!r}, so there is nothing to forget; {waits or 'none'} does"
            )
        _drop_plan(connection, target)


def _apply(connection: sa.Connection, target: int, *, is_whole: bool) -> None:
    of_plan = _change.c.target == target
    of_index = _entry.c.target == target
    if is_whole:
        connection.execute(sa.update(_entry).where(of_index).values(is_held=False))
    there = sa.select(_change.c.entry_id).where(of_plan, ~_change.c.is_delete)
    gone = sa.select(_change.c.entry_id).where(of_plan, _change.c.is_delete)
    connection.execute(sa.delete(_entry).where(of_index, _entry.c.entry_id.in_(there)))
    columns = ["target", "entry_id", "embed_key", "payload", "owners", "is_held"]
    rows = sa.select(*(_change.c[name] for name in columns[:-1]), sa.true()).where(
        of_plan, ~_change.c.is_delete
    )
    connection.execute(sa.insert(_entry).from_select(columns, rows))
    connection.execute(sa.update(_entry).where(of_index, _entry.c.entry_id.in_(gone)).values(is_held=False))


def _not_waiting(plan_id: str, waiting: bytes | None) -> str:
    if waiting is None:
        return f"the plan {plan_id} is not known here, and none waits to be confirmed; make one and apply it"
    return (
        f"the plan {plan_id} is unknown or was replaced by plan1-{waiting.hex()}, which contains what is "
        "still to be done; make the plan again, apply that one and confirm it"
    )


def _new_target(connection: sa.Connection, corpus: str, name: str) -> int:
    last = connection.execute(sa.select(sa.func.max(_t.index_target.c.ordinal))).scalar() or 0
    values = {"ordinal": last + 1, "corpus": codec.escape(corpus), "name": codec.escape(name)}
    connection.execute(sa.insert(_t.index_target).values(values))
    return int(last) + 1


def _drop_plan(connection: sa.Connection, target: int) -> None:
    connection.execute(sa.delete(_change).where(_change.c.target == target))
    connection.execute(sa.delete(_t.index_plan).where(_t.index_plan.c.target == target))


def _change_row(target: int, change: PlanChange) -> dict[str, object]:
    owners = json.dumps(list(change.owners[:MAX_OWNERS]), ensure_ascii=True).encode()
    return {
        "target": target,
        "entry_id": codec.pack_id(change.id),
        "is_delete": change.is_delete,
        "embed_key": codec.pack_digest(change.embed_key),
        "payload": bytes.fromhex(change.payload),
        "owners": zlib.compress(owners, 1),
    }


def _now_us() -> int:
    return codec.to_micros(datetime.now(timezone.utc).isoformat())
