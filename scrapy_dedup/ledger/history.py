"""The jobs of a ledger compared: for every URL key that was ever valid, what became of it.

The rows of all keys stream by in the order of their keys, narrow ones, and of each key only which of them
matter is kept. Those are then read for a few hundred keys at a time, so memory depends neither on the number
of keys nor on that of their observations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from scrapy_dedup.errors import LedgerUnavailable
from scrapy_dedup.ledger import codec, rows, schema
from scrapy_dedup.ledger.changes import Case, Evidence, Redirect, Seen, SeenText, change_of, evidence_of
from scrapy_dedup.ledger.rows import Row
from scrapy_dedup.ledger.statement import SOUGHT, ListQuery
from scrapy_dedup.records import ChangeRecord, Outcome, Validity

KEYS_AT_ONCE = 500
MAX_KINDS = 20
"""Pairs of extractor and conditions, of each of which the last page of a key is remembered."""

Stream = Callable[["sa.Select[Any]"], Iterator[Row]]

_OUTCOMES = {outcome.value: outcome for outcome in Outcome}

_t = schema
_seen = schema.observation.c

_NARROW = sa.select(
    _seen.url_key_digest,
    _seen.ordinal,
    _seen.job,
    _seen.space,
    _seen.conditions,
    _seen.outcome,
    _seen.reason,
)
_OF_KEYS = ListQuery(_NARROW.where(_seen.url_key_digest.in_(SOUGHT)))
SEEN_COLUMNS = (
    _seen.ordinal,
    _seen.job,
    _seen.seq,
    _seen.url_key,
    _seen.url,
    _seen.fetched_us,
    _seen.conditions,
    _seen.http_status,
    _seen.outcome,
    _seen.validity,
    _seen.validity_reason,
    _seen.reason,
    _seen.payload_digest,
    _seen.residual_digest,
    _t.job.c.job_id,
    _t.body.c.ordinal.label("body"),
    _t.body.c.body_id,
    _t.body.c.normalized_digest,
    _t.space.c.representation,
    _t.space.c.extractor_id,
)
SEEN_JOIN = (
    _t.observation.join(_t.job, _t.job.c.ordinal == _seen.job)
    .outerjoin(_t.body, _t.body.c.ordinal == _seen.body)
    .outerjoin(_t.space, _t.space.c.ordinal == _t.body.c.space)
)
_WIDE = ListQuery(sa.select(*SEEN_COLUMNS).select_from(SEEN_JOIN).where(_seen.ordinal.in_(SOUGHT)))
REDIRECTS = ListQuery(
    sa.select(
        _t.alias.c.raw_url_digest,
        _t.alias.c.url_key_digest,
        _t.alias.c.url_key,
        _t.alias.c.job,
        _t.job.c.job_id,
    )
    .select_from(_t.alias.join(_t.job, _t.job.c.ordinal == _t.alias.c.job))
    .where(_t.alias.c.raw_url_digest.in_(SOUGHT), _t.alias.c.verdict == "redirected")
)
TEXTS = ListQuery(
    sa.select(_t.body.c.ordinal, _t.body.c.codec, _t.body.c.data).where(_t.body.c.ordinal.in_(SOUGHT))
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which jobs are compared: those of one spider in one corpus, up to ``since`` with those after it.

    Attributes:
        corpus: as it is stored.
        spider: as it is stored.
        since: the ordinal of the last job of the earlier ones; 0 when there is none.
        until: the ordinal of the last job of the later ones, ``job_id`` its identity.
        jobs: the ordinals of all of them.
    """

    corpus: str
    spider: str
    since: int
    until: int
    job_id: str
    jobs: frozenset[int]

    @classmethod
    def of(cls, jobs: Sequence[Row], since: str | None, job_id: str | None) -> Scope:
        """Return the scope that a caller asks for, from the rows of all jobs in their order.

        Raises:
            LedgerUnavailable: there is no such job, or nothing after it.
        """
        first = _named(jobs, since) if since is not None else None
        last = _named(jobs, job_id) if job_id is not None else None
        model = first or last or (jobs[-1] if jobs else None)
        if model is None:
            raise LedgerUnavailable("The ledger holds no job yet, so there are no changes.")
        of_spider = [row for row in jobs if _owner(row) == _owner(model)]
        last = last or of_spider[-1]
        earlier = [row["ordinal"] for row in of_spider if row["ordinal"] < last["ordinal"]]
        boundary = first["ordinal"] if first else max(earlier, default=0)
        if _owner(last) != _owner(model) or boundary >= last["ordinal"]:
            raise LedgerUnavailable(
                f"No job of spider {codec.unescape(model['spider'])!r} in corpus "
                f"{codec.unescape(model['corpus'])!r} came after {since!r}, so there is nothing to compare."
            )
        return cls(
            corpus=model["corpus"],
            spider=model["spider"],
            since=boundary,
            until=last["ordinal"],
            job_id=codec.unescape(last["job_id"]),
            jobs=frozenset(row["ordinal"] for row in of_spider if row["ordinal"] <= last["ordinal"]),
        )

    def is_now(self, job: int) -> bool:
        """Tell whether a job is one of the later ones."""
        return job > self.since and job in self.jobs


def _named(jobs: Sequence[Row], job_id: str) -> Row:
    found = next((row for row in jobs if row["job_id"] == codec.escape(job_id)), None)
    if found is None:
        raise LedgerUnavailable(f"The ledger holds no job {job_id!r}.")
    return found


def _owner(row: Row) -> tuple[str, str]:
    return row["corpus"], row["spider"]


class _Strength(NamedTuple):
    """What decides which of a key's observations counts: the later job, there the better evidence."""

    job: int
    evidence: Evidence
    ordinal: int


_Kind = tuple[int, str]
"""Space and conditions: pages of one kind can be compared."""


@dataclass(slots=True)
class _Key:
    """Which observations of a URL key matter, found as they stream by in the order of commits.

    Attributes:
        pages: ordinal and job of the last page before of each kind, the latest last.
        was_gone: after those a 404 or 410 was seen.
        now: the strongest evidence of the later jobs, and the kind of page that it is.
        tried: the last observation of the later jobs that proves nothing.
        was_valid: there is a page among all these.
    """

    digest: bytes
    pages: dict[_Kind, tuple[int, int]] = field(default_factory=dict)
    was_gone: bool = False
    now: _Strength | None = None
    now_kind: _Kind | None = None
    tried: int | None = None
    was_valid: bool = False

    def take(self, row: Row, scope: Scope) -> None:
        """Take the next observation into account."""
        has_text = row["space"] is not None  # what was not fetched has a body, but no space
        evidence = evidence_of(_OUTCOMES[row["outcome"]], has_text=has_text, reason=row["reason"])
        kind = (row["space"], row["conditions"]) if has_text else None
        self.was_valid = self.was_valid or has_text
        if scope.is_now(row["job"]):
            strength = _Strength(row["job"], evidence, row["ordinal"])
            if evidence is Evidence.NONE:
                self.tried = row["ordinal"]
            elif self.now is None or strength > self.now:
                self.now, self.now_kind = strength, kind
            return
        if evidence is not Evidence.NONE:
            self.was_gone = evidence is Evidence.GONE
        if kind is not None:
            self.pages.pop(kind, None)
            self.pages[kind] = row["ordinal"], row["job"]
            if len(self.pages) > MAX_KINDS:
                del self.pages[next(iter(self.pages))]

    @property
    def last_page(self) -> tuple[int, int]:
        """Ordinal and job of the last page before, of whatever kind; zeros where there is none."""
        return next(reversed(self.pages.values()), (0, 0))

    @property
    def before(self) -> int | None:
        """The page before to compare with: of the same kind if there is one."""
        if not self.pages:
            return None
        return self.pages.get(self.now_kind, self.last_page)[0] if self.now_kind else self.last_page[0]

    @property
    def seen(self) -> int | None:
        """The observation of the later jobs that counts."""
        return self.now.ordinal if self.now else self.tried

    def may_have_moved(self, scope: Scope) -> bool:
        """Tell whether a redirect could outrank what was seen, or lie between two pages."""
        is_last_word = self.now and self.now.evidence is Evidence.PAGE and self.now.job == scope.until
        return not is_last_word or 0 < self.last_page[1] < scope.since


class _Moved(NamedTuple):
    """Where a URL was redirected to in a job."""

    job: int
    job_id: str
    to_key: str
    to_digest: bytes


class History:
    """Compares the jobs of one scope.

    Args:
        connection: a connection that reads one state of the ledger.
        stream: iterates over the rows of a statement without holding all of them.
        scope: which jobs.
    """

    def __init__(self, connection: sa.Connection, stream: Stream, scope: Scope) -> None:
        self._connection = connection
        self._stream = stream
        self._scope = scope

    def changes(self) -> Iterator[ChangeRecord]:
        """Yield what became of each key that was ever valid, in the order of the digests of the keys."""
        keys = (key for key in self._keys() if key.was_valid)
        while part := list(islice(keys, KEYS_AT_ONCE)):
            yield from self._changes_of(part)

    def _keys(self) -> Iterator[_Key]:
        scope = self._scope
        jobs = sa.select(_t.job.c.ordinal).where(
            _t.job.c.corpus == scope.corpus, _t.job.c.spider == scope.spider, _t.job.c.ordinal <= scope.until
        )
        statement = _NARROW.where(_seen.job.in_(jobs)).order_by(_seen.url_key_digest, _seen.ordinal)
        for digest, observations in groupby(self._stream(statement), itemgetter("url_key_digest")):
            key = _Key(bytes(digest))
            for row in observations:
                key.take(row, scope)
            yield key

    def _changes_of(self, keys: Sequence[_Key]) -> Iterator[ChangeRecord]:
        ordinals = {ordinal for key in keys for ordinal in (key.before, key.seen) if ordinal is not None}
        wide = self._wide(ordinals)
        moved = self._moved(keys, wide)
        ends = self._ends({one.to_digest for one in moved.values()})
        for key in keys:
            before, now = wide.get(key.before or 0), wide.get(key.seen or 0)
            one = moved.get(key.digest)
            case = Case(
                now=seen_of_row(now) if now and not one else None,
                before=seen_of_row(before) if before else None,
                was_gone=key.was_gone,
                redirect=Redirect(one.to_key, one.job_id, ends.get(one.to_digest)) if one else None,
            )
            yield change_of(case, job_id=self._scope.job_id, texts=partial(self._texts, before, now))

    def _wide(self, ordinals: Iterable[int]) -> dict[int, Row]:
        return {row["ordinal"]: row for row in _WIDE.rows(self._connection, ordinals)}

    def _texts(self, *of: Row | None) -> tuple[str, str]:
        """Read the texts of two observations, which nobody keeps."""
        bodies = [row["body"] for row in of if row]
        found = {
            row["ordinal"]: codec.unpack_text(row["codec"], row["data"])
            for row in TEXTS.rows(self._connection, bodies)
        }
        before, now = (found[body] for body in bodies)
        return before, now

    def _moved(self, keys: Iterable[_Key], wide: Mapping[int, Row]) -> dict[bytes, _Moved]:
        """Return where keys lead now, by key; note which ones led elsewhere between two pages."""
        scope = self._scope
        names = {
            name: key
            for key in keys
            if key.may_have_moved(scope)
            for name in (key.digest, *self._url_digests(key, wide))
        }
        moved: dict[bytes, _Moved] = {}
        for row in REDIRECTS.rows(self._connection, names):
            key, to_digest = names[bytes(row["raw_url_digest"])], bytes(row["url_key_digest"])
            job = row["job"]
            if to_digest == key.digest or job not in scope.jobs:
                continue
            if not scope.is_now(job):
                key.was_gone = key.was_gone or job > key.last_page[1] > 0
            elif _is_outranked(key, job) and (key.digest not in moved or moved[key.digest].job <= job):
                to_key = codec.unescape(row["url_key"])
                moved[key.digest] = _Moved(job, codec.unescape(row["job_id"]), to_key, to_digest)
        return moved

    def _url_digests(self, key: _Key, wide: Mapping[int, Row]) -> Iterator[bytes]:
        for ordinal in (key.before, key.seen):
            if ordinal is not None:
                yield codec.url_digest(codec.unescape(wide[ordinal]["url"]))

    def _ends(self, digests: Iterable[bytes]) -> dict[bytes, Seen]:
        """Return what the later jobs saw at the keys to which others lead."""
        ends = {digest: _Key(digest) for digest in digests}
        for row in sorted(_OF_KEYS.rows(self._connection, ends), key=itemgetter("ordinal")):
            if self._scope.is_now(row["job"]):
                ends[bytes(row["url_key_digest"])].take(row, self._scope)
        wide = self._wide({end.seen for end in ends.values() if end.seen is not None})
        return {digest: seen_of_row(wide[end.seen]) for digest, end in ends.items() if end.seen is not None}


def _is_outranked(key: _Key, job: int) -> bool:
    return key.now is None or (job, Evidence.REDIRECT) > key.now[:2]


def seen_of_row(row: Row) -> Seen:
    """Return what an observation says, from its `SEEN_COLUMNS`."""
    job_id = codec.unescape(row["job_id"])
    return Seen(
        observation_id=codec.observation_id(job_id, row["seq"]),
        job_id=job_id,
        url_key=codec.unescape(row["url_key"]),
        url=codec.unescape(row["url"]),
        at=codec.from_micros(row["fetched_us"]),
        conditions=rows.unpacked_conditions(row["conditions"]),
        http_status=row["http_status"],
        outcome=_OUTCOMES[row["outcome"]],
        validity=None if row["validity"] is None else Validity(row["validity"]),
        validity_reason=codec.unescape_optional(row["validity_reason"]),
        reason=row["reason"],
        payload_digest=row["payload_digest"],
        residual_digest=row["residual_digest"],
        text=_text_of_row(row),
    )


def _text_of_row(row: Row) -> SeenText | None:
    if row["body_id"] is None:
        return None
    return SeenText(
        body_id=codec.unpack_body_id(row["body_id"]),
        representation=codec.unescape(row["representation"]),
        extractor_id=codec.unescape(row["extractor_id"]),
        normalized_digest=row["normalized_digest"],
    )
