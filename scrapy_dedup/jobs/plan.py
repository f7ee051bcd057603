"""What an index has to do so that it holds the chunks of the pages that are live now, and nothing else.

The plan starts at what the ledger knows the index to hold, by the plans whose application was confirmed.
An entry is deleted when no live page shows its text any more: every page that did is gone, was replaced, or
leads elsewhere. Nothing is deleted because a page failed or was not visited.

Making a plan changes nothing but the file of the plan. Once it was applied its user confirms it, and only
then does the ledger count it as done. Until then nobody knows whether it was: an entry that it names may be
in the index as it was before, as the plan has it, or as any unconfirmed plan before it had it. So each later
plan names it too, to write it or to take it out, and contains what the earlier ones did. Lines can be applied
more than once, since they name entries by their identity.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import NoReturn

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.chunks.keys import digest_of, entry_uuid
from scrapy_dedup.errors import DedupError
from scrapy_dedup.jobs.live import Entry, LiveChunks, live_chunks
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.plans import MAX_OWNERS, Basis, IndexEntry, PlanChange
from scrapy_dedup.ledger.templates import host_of
from scrapy_dedup.records import PlanOp, PlanRecord, Reason

DEFAULT_TARGET = "default"

ALWAYS_DELETED = 10
"""So many entries may go whatever their share, unless they are all or none may: small indexes change by large
shares."""

SHOWN_HOSTS = 3

NEW = "new"
RETURNED = "returned"
MODEL_CHANGED = "model_changed"
SOURCES_CHANGED = "sources_changed"
UNCHANGED = "unchanged"
REPLACED = "replaced"
OPTIONS_CHANGED = "options_changed"

_OPTIONS_OF_TEXT = ("chunk_policy", "template")
"""The options that make other entries of the same pages."""

_TABLES = """
create table held (
    id text primary key, embed_key text not null, payload text not null, is_held integer not null,
    owners text not null
) without rowid;
create table op (
    id text primary key, place integer, op text not null, code text not null, embed_key text not null,
    payload text not null, reuse integer not null
) without rowid;
create table doubtful (
    id text primary key, embed_key text not null, payload text not null, owners text not null
) without rowid;
"""
# The first that applies to an entry that live pages show.
_SHOWN = """
insert into op select entry.id, entry.place,
    case when held.is_held and held.embed_key = entry.embed_key and held.payload = entry.payload
        then 'keep' else 'upsert' end,
    case when held.id is null then 'new'
        when not held.is_held then 'returned'
        when held.embed_key != entry.embed_key then 'model_changed'
        when held.payload != entry.payload then 'sources_changed'
        else 'unchanged' end,
    entry.embed_key, entry.payload, coalesce(held.embed_key = entry.embed_key, 0)
from entry left join held on held.id = entry.id
"""
_GONE = """
insert into op select held.id, null, 'delete', '', held.embed_key, held.payload, 0
from held left join entry on entry.id = held.id where held.is_held and entry.id is null
"""
# What a plan that waits for its confirmation may have written or taken out.
_REWRITE = """
update op set op = 'upsert', code = 'unconfirmed' where op = 'keep' and id in (select id from doubtful)
"""
_TAKE_OUT = """
insert into op select id, null, 'delete', '', embed_key, payload, 0
from doubtful where id not in (select id from op)
"""
_OWNERS = """
select op.*, coalesce(held.owners, doubtful.owners) as owners
from op left join held on held.id = op.id left join doubtful on doubtful.id = op.id
where op = 'delete' order by op.id
"""


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """How many entries there are of each kind.

    Attributes:
        held: what the index holds before.
        doubtful: what it may hold besides, by plans that were never confirmed.
        upserts: what is to be written, of which ``reused`` have a vector that was made before.
        keeps: what stays as it is.
        deletes: what is to go, of which ``held_deletes`` is held for certain.
        because: upserts by their reason.
    """

    held: int
    doubtful: int
    upserts: int
    reused: int
    keeps: int
    deletes: int
    held_deletes: int
    because: Counter[str]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not (self.upserts or self.deletes)


class IndexPlan:
    """A plan for one index, in the work file of the live chunks; made by `plan_index`."""

    def __init__(self, live: LiveChunks, target: str, starts_at: Basis, *, is_whole: bool) -> None:
        self.live = live
        self.target = target
        self.starts_at = starts_at
        self.is_whole = is_whole
        self._file = live.file
        self.plan_id = _identity(live, target)

    @property
    def options(self) -> dict[str, object]:
        """What the entries are made with."""
        stated = self.live.options
        return {
            "chunk_policy": stated.policy_id,
            "template": stated.template,
            "model": asdict(stated.embedding),
        }

    @property
    def counts(self) -> PlanCounts:
        """How many entries there are of each kind."""
        (held,) = self._file.execute("select count(*) from held where is_held").fetchone()
        (doubtful,) = self._file.execute(
            "select count(*) from doubtful where id not in (select id from held where is_held)"
        ).fetchone()
        (held_deletes,) = self._file.execute(
            "select count(*) from op join held on held.id = op.id where op = 'delete' and is_held"
        ).fetchone()
        ops = Counter(dict(self._file.execute("select op, count(*) from op group by op").fetchall()))
        because = dict(
            self._file.execute("select code, count(*) from op where op = 'upsert' group by code").fetchall()
        )
        (reused,) = self._file.execute("select count(*) from op where op = 'upsert' and reuse").fetchone()
        return PlanCounts(
            held=held,
            doubtful=doubtful,
            upserts=ops["upsert"],
            reused=reused,
            keeps=ops["keep"],
            deletes=ops["delete"],
            held_deletes=held_deletes,
            because=Counter(because),
        )

    def refuse_mass_delete(self, max_delete: float) -> None:
        """Refuse a plan that deletes a larger share of what the index holds.

        Raises:
            DedupError: it does; says what would go, and why.
        """
        counts = self.counts
        of_held = counts.held_deletes, counts.held
        of_all = counts.deletes, counts.held + counts.doubtful
        for deletes, held in (of_held, of_all):
            if _is_mass_delete(deletes, held, max_delete):
                self._refuse(deletes, held, max_delete, counts)

    def _refuse(self, deletes: int, held: int, max_delete: float, counts: PlanCounts) -> NoReturn:
        reasons: Counter[str] = Counter()
        hosts: Counter[str] = Counter()
        for record in self._deletes():
            reasons[record.because[0].code] += 1
            hosts[host_of(str(record.because[0].value))] += 1
        share = 100 * deletes / held
        enough = min(100, int(share) + 1)
        doubt = ""
        if held > counts.held and self.starts_at.waiting_id:
            target = "" if self.target == DEFAULT_TARGET else f" --target {self.target}"
            doubt = (
                f"\n  {counts.doubtful:,} of them are there only if {self.starts_at.waiting_id} or a plan "
                "before it was applied, which nobody confirmed. If nothing of them was, 'scrapy dedup plan"
                f"{target} --discard {self.starts_at.waiting_id}' forgets them"
            )
        raise DedupError(
            f"the plan would delete {deletes:,} of the {held:,} entries of the index "
            f"({share:.0f} %; --max-delete is {100 * max_delete:g}%), so nothing was written.\n"
            f"  why: {_listed(reasons.most_common())}\n"
            f"  hosts: {_listed(hosts.most_common(SHOWN_HOSTS))}\n"
            "  'scrapy dedup export changes' lists what became of each page. If the pages are really gone, "
            f"or the options were changed on purpose, plan again with --max-delete {enough}%{doubt}"
        )

    def records(self) -> Iterator[PlanRecord]:
        """Yield what is to be done: first what is shown, in the order of pages, then what goes."""
        ops = self._file.execute("select * from op where place is not null order by place")
        for entry, op in zip(self.live.entries(), ops, strict=True):
            yield self._shown(entry, op)
        yield from self._deletes()

    def changes(self) -> Iterator[PlanChange]:
        """Yield what the ledger has to know of the plan."""
        ops = self._file.execute("select * from op where place is not null order by place")
        for entry, op in zip(self.live.entries(), ops, strict=True):
            if op["op"] == PlanOp.UPSERT.value or self.is_whole:
                yield PlanChange(op["id"], False, op["embed_key"], op["payload"], _owners(entry))
        for op in self._file.execute(_OWNERS):
            yield PlanChange(op["id"], True, op["embed_key"], op["payload"], json.loads(op["owners"]))

    def _shown(self, entry: Entry, op: sqlite3.Row) -> PlanRecord:
        is_upsert = op["op"] == PlanOp.UPSERT.value
        return PlanRecord(
            plan_id=self.plan_id,
            op=PlanOp(op["op"]),
            id=op["id"],
            uuid=entry_uuid(op["id"]),
            embed_key=op["embed_key"],
            reuse_embedding=bool(op["reuse"]) and is_upsert,
            text=entry.row["text"] if is_upsert else None,
            embed_text=entry.row["embed_text"] if is_upsert else None,
            metadata=entry.metadata(self.live.corpus) if is_upsert else None,
            sources=entry.sources,
            because=(Reason(op["code"]),),
        )

    def _deletes(self) -> Iterator[PlanRecord]:
        for row in self._file.execute(_OWNERS):
            yield PlanRecord(
                plan_id=self.plan_id,
                op=PlanOp.DELETE,
                id=row["id"],
                uuid=entry_uuid(row["id"]),
                embed_key=row["embed_key"],
                reuse_embedding=False,
                text=None,
                embed_text=None,
                metadata=None,
                sources=(),
                because=tuple(self._why_gone(json.loads(row["owners"]))),
            )

    def _why_gone(self, owners: Iterable[str]) -> Iterator[Reason]:
        """Yield what became of each page that showed an entry."""
        options = self.options
        last = self.starts_at.applied
        is_cut_anew = last is not None and any(
            last.options.get(name) != options[name] for name in _OPTIONS_OF_TEXT
        )
        for url_key in owners:
            why = self.live.standing(url_key)
            yield Reason(why or (OPTIONS_CHANGED if is_cut_anew else REPLACED), url_key)


def _owners(entry: Entry) -> list[str]:
    return list(islice(dict.fromkeys(source.url_key for source in entry.sources), MAX_OWNERS))


def _identity(live: LiveChunks, target: str) -> str:
    digest = hashlib.sha256(digest_of(["plan", 1, live.corpus, target]).encode())
    for row in live.file.execute("select id, op, code, embed_key, payload from op order by id"):
        digest.update("\0".join(row).encode() + b"\n")
    return f"plan1-{digest.hexdigest()[:32]}"


def _is_mass_delete(deletes: int, held: int, max_delete: float) -> bool:
    few = max_delete > 0 and deletes <= ALWAYS_DELETED and deletes < held
    return bool(deletes) and not few and deletes > max_delete * held


def _listed(counted: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counted)


@contextmanager
def plan_index(
    ledger: Ledger,
    corpus: str,
    options: ChunkOptions,
    *,
    target: str = DEFAULT_TARGET,
    since: str | None = None,
    is_empty: bool = False,
) -> Iterator[IndexPlan]:
    """Make the plan for an index; nothing is written.

    Args:
        ledger: the ledger.
        corpus: its name.
        options: how texts are cut and embedded.
        target: the name of the index.
        since: the index holds what the pages showed at the end of this job, whatever was confirmed.
        is_empty: the index holds nothing, whatever was confirmed.

    Raises:
        ConfigError: the splitter or the tokenizer of the options cannot be used.
        LedgerUnavailable: the ledger holds no such job of the corpus.
        DedupError: the splitter gave what is no part of a text.
    """
    with live_chunks(ledger, corpus, options) as live:
        live.file.executescript(_TABLES)
        live.file.execute("begin")
        starts_at = ledger.index_basis(corpus, target)
        known = ledger.index_entries(corpus, target)
        if since is None and not is_empty:
            _hold(live.file, known)
        else:
            _hold(live.file, (one._replace(is_held=False) for one in known))
        if since is not None:
            with live_chunks(ledger, corpus, options, until=since) as before:
                _hold(live.file, _entries_of(before))
        live.file.execute(_SHOWN)
        live.file.execute(_GONE)
        live.file.execute("commit")
        is_whole = since is not None or is_empty  # then the user has said what the index holds
        waiting = starts_at.waiting
        if waiting is not None and not is_whole and waiting.plan_id != _identity(live, target):
            _doubt(live.file, ledger.waiting_changes(corpus, target), whole=waiting.is_whole)
        yield IndexPlan(live, target, starts_at, is_whole=is_whole)


def _entries_of(before: LiveChunks) -> Iterator[IndexEntry]:
    for entry, sealed in zip(before.entries(), before.sealed(), strict=True):
        yield IndexEntry(sealed.id, sealed.embed_key, sealed.payload, True, tuple(_owners(entry)))


def _doubt(file: sqlite3.Connection, changes: Iterable[PlanChange], *, whole: bool) -> None:
    """Plan anew what a plan that waits may have done; after a whole one nothing is certain."""
    file.execute("begin")
    file.executemany(
        "insert into doubtful values (?, ?, ?, ?)",
        ((one.id, one.embed_key, one.payload, json.dumps(one.owners)) for one in changes),
    )
    if whole:
        file.execute(
            "insert or ignore into doubtful select id, embed_key, payload, owners from held where is_held"
        )
    file.execute(_REWRITE)
    file.execute(_TAKE_OUT)
    file.execute("commit")


def _hold(file: sqlite3.Connection, entries: Iterable[IndexEntry]) -> None:
    file.executemany(
        "insert or replace into held values (?, ?, ?, ?, ?)",
        ((one.id, one.embed_key, one.payload, one.is_held, json.dumps(one.owners)) for one in entries),
    )
