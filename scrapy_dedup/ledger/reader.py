"""Reading a ledger: iterators over its records, a lookup by URL, its check and its backup."""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import sqlalchemy as sa

from scrapy_dedup.errors import ConfigError, LedgerUnavailable, RecordError
from scrapy_dedup.ledger import (
    audit,
    canonicals,
    codec,
    decisions,
    derived,
    engine,
    near_audit,
    owners,
    plans,
    relations,
    review_queue,
    review_sides,
    rows,
    schema,
    stand_ins,
    standing,
    suppression,
    texts,
)
from scrapy_dedup.ledger.decisions import Overrides, ruled_relation
from scrapy_dedup.ledger.engine import Target, driver_message
from scrapy_dedup.ledger.history import History, Scope
from scrapy_dedup.ledger.overlay import (
    OBSERVATION_COLUMNS,
    OBSERVATION_JOIN,
    Overlay,
    stored_observation,
    text_digest_of,
)
from scrapy_dedup.ledger.standing import Revision
from scrapy_dedup.ledger.store import BODY_COLUMNS, BODY_JOIN
from scrapy_dedup.ledger.templates import host_of
from scrapy_dedup.records import (
    AliasRecord,
    BodyRecord,
    ChangeRecord,
    DecisionRecord,
    JobRecord,
    ObservationRecord,
    RelationKind,
    RelationRecord,
    RelationState,
)

if TYPE_CHECKING:
    from scrapy_dedup.urls import UrlDecision, UrlPolicy

STREAM_ROWS = 500
MAX_POLICIES = 20
"""Policies that `Ledger.lookup` tries: building one with hundreds of rules takes a tenth of a second."""

MAX_SAME_TEXT = 100

Record = TypeVar("Record")

_t = schema
_OBSERVATIONS = sa.select(*OBSERVATION_COLUMNS).select_from(OBSERVATION_JOIN)
_ALIASES = sa.select(*_t.alias.c, _t.job.c.job_id).select_from(
    _t.alias.join(_t.job, _t.job.c.ordinal == _t.alias.c.job)
)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the ledger knows about one URL.

    Attributes:
        decision: what the latest policy says about the URL.
        observations: all observations of its keys, and of the keys that the URL was merged into.
        bodies: the texts of those observations.
        aliases: the discovered URLs of those keys.
        same_text: the first observations of those texts, under whatever URL, at most `MAX_SAME_TEXT` of each.
        same_text_counts: how many there are, by the identity of the body.
        relations: what relates the URL, its keys, their observations and texts to others, each in the state
            that decisions give it.
        decisions: all decisions about those relations, the oldest first, those undone too.
        similar_urls: where each of the similar texts in those relations was first seen, by its body.
    """

    decision: UrlDecision
    observations: tuple[ObservationRecord, ...]
    bodies: tuple[BodyRecord, ...]
    aliases: tuple[AliasRecord, ...]
    same_text: tuple[ObservationRecord, ...]
    same_text_counts: Mapping[str, int]
    relations: tuple[RelationRecord, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()
    similar_urls: Mapping[str, str] = field(default_factory=dict)


class Place(NamedTuple):
    """Where an observation stands; ``has_text`` when it has a body."""

    observation_id: str
    corpus: str
    url_key: str
    has_text: bool


class Ledger:
    """A ledger opened for reading; a context manager.

    It can be read while crawls write to it. All that one instance reads is one state of the ledger, that of
    its first read; open it again to see what was written since.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._engine = engine.reader_engine(target)
        self._connection = self._engine.connect()
        self._overlay = Overlay(self._connection)

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
        return cls._opened(target)

    @classmethod
    def _opened(cls, target: Target) -> Ledger:
        try:
            return cls(target)
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise LedgerUnavailable(f"The ledger {target.name} cannot be read ({error}).") from error

    @classmethod
    def overrides_at(cls, url: str, corpus: str) -> Overrides:
        """Return what a crawl has to know of the decisions; none where there is no ledger yet.

        A ledger that the crawl is going to migrate is read as it is.

        Raises:
            LedgerError: what is there cannot be read as a ledger.
        """
        target = Target.parse(url)
        version = engine.probe(target)
        if version is None or version < schema.DECISIONS_SINCE:
            return Overrides()
        with cls._opened(target) as ledger:
            return ledger.overrides(corpus)

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
        return self._records(sa.select(_t.job).order_by(_t.job.c.ordinal), rows.job_record)

    def observations(self, *, job_id: str | None = None) -> Iterator[ObservationRecord]:
        """Iterate over the observations, ordered by job and place in it."""
        statement = _OBSERVATIONS.order_by(_t.observation.c.job, _t.observation.c.seq)
        with self._reading():
            for part in self._stream_parts(_of_job(statement, _t.observation, job_id)):
                yield from self._overlay.observations(part)

    def bodies(self, *, job_id: str | None = None) -> Iterator[BodyRecord]:
        """Iterate over the bodies in the order of commits; ``job_id``: those which that job brought."""
        statement = sa.select(*BODY_COLUMNS).select_from(BODY_JOIN).order_by(_t.body.c.ordinal)
        return self._records(_of_job(statement, _t.body, job_id), rows.body_record)

    def aliases(self, *, job_id: str | None = None, url_key: str | None = None) -> Iterator[AliasRecord]:
        """Iterate over the aliases in first-seen order; an overflow row has an empty raw URL."""
        statement = _of_job(_ALIASES.order_by(_t.alias.c.ordinal), _t.alias, job_id)
        if url_key is not None:
            statement = statement.where(_t.alias.c.url_key_digest == codec.url_digest(url_key))
        return self._records(statement, _alias)

    def relations(
        self, *, kind: RelationKind | None = None, job_id: str | None = None
    ) -> Iterator[RelationRecord]:
        """Iterate over the relations, each once, in its latest state and as decisions have it.

        First come those that are stored, in the order of commits, then those that follow from observations
        and aliases.

        Args:
            kind: those of this kind only.
            job_id: those that this job found, and those that its observations and aliases state.
        """
        held: set[str] = set()
        for relation in self._records(relations.stored(kind, job_id), relations.of_row):
            if relation.kind in derived.KINDS:  # it is stored for a decision about it
                held.add(relation.relation_id)
            yield self._ruled(relation)
        for one in [kind] if kind else derived.KINDS:
            for relation in self._stated_relations(one, job_id):
                if relation.relation_id not in held:
                    yield self._ruled(relation)

    def relation(self, relation_id: str) -> RelationRecord | None:
        """Return one relation, as decisions have it, or None where the ledger knows of none.

        A relation that is not stored is looked for among all that observations and aliases state, which takes
        as long as reading them. Of a page that was taken, its content can be asked for as well, by the
        identity that `derived.of_content` gives it.

        Raises:
            RecordError: it is no identity of a relation.
        """
        packed = codec.pack_id(relation_id)
        with self._reading():
            stored = relations.with_identity(self._connection, [packed]).get(relation_id)
        if stored is not None:
            return self._ruled(stored)
        stated = (one for kind in derived.KINDS for one in self._stated_relations(kind, None))
        taken = self._records(_OBSERVATIONS.where(_t.observation.c.validity == "valid"), _content)
        return next((one for one in chain(stated, taken) if one.relation_id == relation_id), None)

    def spaces(self, corpus: str) -> list[texts.Space]:
        """Return the spaces of a corpus that hold texts, the one with the newest text first."""
        with self._reading():
            return texts.spaces(self._connection, corpus)

    def texts(self, space: texts.Space) -> Iterator[texts.BodyText]:
        """Iterate over the texts of a space in the order of commits, each with its rank among others."""
        confirmed = {
            relation.b
            for relation in self.relations(kind=RelationKind.CANONICAL)
            if (relation.corpus, relation.state) == (space.corpus, RelationState.CONFIRMED)
        }
        with self._reading():
            ranks = texts.ranks(self._stream(texts.places_of(space)), confirmed)
            held = self._overlay.decisions
            preferred = texts.preferences(
                (relation, decision)
                for relation in held.relations()
                if (decision := held.in_force(relation.relation_id)) is not None
            )
        return self._records(texts.bodies_of(space), lambda row: texts.of_row(row, ranks, preferred))

    def owners(self, corpus: str, *, until: str | None = None) -> Iterator[owners.Owner]:
        """Iterate over the URL keys of a corpus that were ever valid, and what each of them shows.

        Args:
            corpus: its name.
            until: the last job that counts; by default all do.

        Raises:
            LedgerUnavailable: the ledger holds no such job of the corpus.
        """
        last = None if until is None else self._job_ordinal(until, corpus)
        live = owners.LivePages(self._connection, self._stream, self._read_with_rows, corpus, last)
        with self._reading():
            yield from live.owners()

    def stand_ins(self, corpus: str) -> dict[int, int]:
        """Return by the ordinals of texts the ordinal of the one that stands for each; see `stand_ins`."""
        with self._reading():
            held = self._overlay.decisions
            kinds = derived.TEXT_RELATIONS.values()
            return stand_ins.stand_ins(
                self._connection,
                self._stream,
                self._read_with_rows,
                corpus,
                decided_texts=held.texts(),
                decided_keys={one.a for one in held.relations() if one.kind in kinds},
            )

    def bodies_at(self, ordinals: Sequence[int]) -> dict[int, BodyRecord]:
        """Return bodies by their ordinals, which `owners` gives."""
        with self._reading():
            return self._bodies_at(ordinals)

    def index_entries(self, corpus: str, target: str) -> Iterator[plans.IndexEntry]:
        """Iterate over what an index holds or held, by the plans that were confirmed; see `plans`."""
        with self._reading():
            ordinal = plans.find_target(self._connection, corpus, target)
            if ordinal is not None:
                yield from plans.entries(self._stream, ordinal)

    def applied_plan(self, corpus: str, target: str) -> plans.Applied | None:
        """Return the plan that was confirmed last for an index."""
        with self._reading():
            ordinal = plans.find_target(self._connection, corpus, target)
            return None if ordinal is None else plans.applied(self._connection, ordinal)

    def index_basis(self, corpus: str, target: str) -> plans.Basis:
        """Return what a plan for an index starts at."""
        with self._reading():
            ordinal = plans.find_target(self._connection, corpus, target)
            return plans.Basis() if ordinal is None else plans.basis(self._connection, ordinal)

    def waiting_changes(self, corpus: str, target: str) -> Iterator[plans.PlanChange]:
        """Iterate over the lines of the plan for an index that nobody has confirmed yet."""
        with self._reading():
            ordinal = plans.find_target(self._connection, corpus, target)
            if ordinal is not None:
                yield from plans.waiting_changes(self._stream, ordinal)

    def _job_ordinal(self, job_id: str, corpus: str) -> int:
        statement = sa.select(_t.job.c.ordinal).where(
            _t.job.c.job_id == codec.escape(job_id), _t.job.c.corpus == codec.escape(corpus)
        )
        with self._reading():
            ordinal: int | None = self._connection.execute(statement).scalar()
        if ordinal is None:
            raise LedgerUnavailable(f"The ledger holds no job {job_id!r} in corpus {corpus!r}.")
        return ordinal

    def _read_with_rows(self, ordinals: Sequence[int]) -> list[tuple[rows.Row, ObservationRecord]]:
        found = self._observation_rows(_t.observation.c.ordinal, ordinals)
        return list(zip(found, self._overlay.observations(found), strict=True))

    def decisions(self) -> Iterator[DecisionRecord]:
        """Iterate over the decisions in the order in which they were made."""
        with self._reading():
            yield from self._overlay.decisions

    def history(self, relation_id: str) -> tuple[DecisionRecord, ...]:
        """Return the decisions about a relation, the oldest first, those undone too."""
        with self._reading():
            return decisions.about(self._connection, relation_id)

    def for_review(
        self, corpus: str, kinds: Collection[RelationKind] = review_queue.KINDS
    ) -> review_queue.Queue:
        """Return the pairs of a corpus that somebody should look at, in order; see `review_queue`."""
        builder = review_queue.QueueBuilder(self._connection)
        for kind in kinds:
            found = self.relations(kind=kind)
            with self._reading():
                builder.take(one for one in found if one.corpus == corpus and review_queue.is_for_review(one))
        return builder.queue()

    def sides(self, relation: RelationRecord) -> tuple[review_sides.Side, review_sides.Side] | None:
        """Return the two texts of a relation of one of `review_queue.KINDS`, with where they were seen.

        None where the ledger does not hold both.
        """
        with self._reading():
            places = review_sides.places_of(self._connection, [relation]).get(relation.relation_id)
            return None if places is None else (self._side(places[0]), self._side(places[1]))

    def _side(self, place: review_sides.Place) -> review_sides.Side:
        (body,) = self._bodies_at([place.body]).values()
        pages, more_pages, observations = review_sides.pages_of(self._connection, place)
        current = bool(review_sides.shown(self._connection, [place]))
        return review_sides.Side(body, pages, more_pages, observations, current)

    def are_current(self, relation: RelationRecord) -> tuple[bool, bool]:
        """Tell of both texts of such a relation whether some page showed it when it was last seen."""
        with self._reading():
            places = review_sides.places_of(self._connection, [relation]).get(relation.relation_id)
            if places is None:
                return False, False
            shown = review_sides.shown(self._connection, places)
            return places[0] in shown, places[1] in shown

    def relations_named(self, identities: Collection[str]) -> dict[str, RelationRecord]:
        """Return the relations of `review_queue.KINDS` with these identities, as decisions have them.

        Raises:
            RecordError: one is no identity.
        """
        packed = [codec.pack_id(one) for one in identities]
        with self._reading():
            stored = relations.with_identity(self._connection, packed)
        found = {identity: self._ruled(relation) for identity, relation in stored.items()}
        if len(found) < len(packed):  # what nobody has decided about yet is not stored
            for relation in self.relations(kind=RelationKind.RESIDUAL_DIFFERS):
                if relation.relation_id in identities:
                    found[relation.relation_id] = relation
        return found

    def would_suppress(self, corpus: str, min_jaccard: float) -> suppression.Suppression:
        """Return what the suppression of near-duplicates would do to a corpus; see `suppression`."""
        found = (one for one in self.relations(kind=RelationKind.NEAR) if one.corpus == corpus)
        with self._reading():
            return suppression.suppression(self._connection, corpus, found, min_jaccard, self._overlay)

    def overrides(self, corpus: str) -> Overrides:
        """Return what a crawl of a corpus has to know of the decisions when it starts."""
        with self._reading():
            return self._overlay.decisions.overrides(corpus)

    def changes(self, *, since: str | None = None, job_id: str | None = None) -> Iterator[ChangeRecord]:
        """Iterate over what became of every URL key that was ever valid; see `ChangeRecord` for the kinds.

        Compared are the jobs of one spider in one corpus: the state after a job with that of all later ones
        taken together. Of several later observations of a key the last that proves something counts. A job
        that has not finished counts as far as it went; what it did not visit is unknown.

        Args:
            since: the last of the earlier jobs; by default the one before the job that is compared.
            job_id: the last of the later jobs; by default the latest of the ledger, or of the spider of
                ``since``.

        Raises:
            LedgerUnavailable: the ledger holds no such job, or none after ``since``.
        """
        statement = sa.select(_t.job.c.ordinal, _t.job.c.job_id, _t.job.c.corpus, _t.job.c.spider)
        with self._reading():
            scope = Scope.of(list(self._stream(statement.order_by(_t.job.c.ordinal))), since, job_id)
        return self._changes(History(self._connection, self._stream, scope))

    def _changes(self, history: History) -> Iterator[ChangeRecord]:
        with self._reading():
            yield from history.changes()

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
        with self._reading():
            stored = self._connection.execute(statement).scalar()
            return None if stored is None else dict(codec.unpack_json(stored))

    def failed_urls(self, job_id: str) -> Iterator[tuple[str, str]]:
        """Yield (URL key, URL as requested) of each failure of a job whose key brought no valid page."""
        seen = _t.observation.c
        job = sa.select(_t.job.c.ordinal).where(_t.job.c.job_id == codec.escape(job_id)).scalar_subquery()
        brought = sa.select(seen.url_key_digest).where(seen.job == job, seen.validity == "valid")
        failures = sa.select(seen.url_key, seen.fetch_url).where(
            seen.job == job, seen.outcome.in_(("error", "gone")), seen.url_key_digest.not_in(brought)
        )
        return self._records(
            failures, lambda row: (codec.unescape(row["url_key"]), codec.unescape(row["fetch_url"]))
        )

    def lookup(self, url: str, *, job_id: str | None = None) -> Lookup:
        """Return all that is known about a URL, seen or not, from the ledger alone.

        Each job stored its pages under the keys of its own policy, so the URL is judged by each policy of the
        ledger, at most by the `MAX_POLICIES` latest.

        Args:
            url: as it was linked; credentials in it were never stored and don't matter.
            job_id: judge by the policy of this job alone.

        Raises:
            LedgerUnavailable: the ledger holds no such job, so no policy to judge the URL by.
        """
        from scrapy_dedup.urls import redact  # noqa: PLC0415 - most readers never judge a URL

        policies = self._policies(job_id)
        judged = self._keys_of(url, policies)
        with self._reading():
            as_linked = self._aliases_where(
                _t.alias.c.raw_url_digest, {codec.url_digest(linked) for linked in (url, redact(url))}
            )
            keys = judged | {alias.url_key for alias in as_linked}
            places = {codec.url_digest(key) for key in keys}
            found = self._observation_rows(_t.observation.c.url_key_digest, places)
            bodies = {row["body"] for row in found if row["body"] is not None}
            aliases = self._aliases_where(_t.alias.c.url_key_digest, places)
            related = self._relations_of(found, [*as_linked, *aliases], keys)
            identities = {relation.relation_id for relation in related}
            near = [relation for relation in related if relation.kind is RelationKind.NEAR]
            similar = {side for relation in near for side in (relation.a, relation.b)}
            return Lookup(
                decision=policies[0].decide(url),
                observations=tuple(self._overlay.observations(found)),
                bodies=tuple(self._bodies_at(bodies).values()),
                aliases=tuple(aliases),
                same_text=tuple(self._overlay.observations(self._first_of_bodies(bodies))),
                same_text_counts=self._counts_of_bodies(bodies),
                relations=related,
                decisions=tuple(one for one in self._overlay.decisions if one.relation_id in identities),
                similar_urls=suppression.first_urls(self._connection, similar),
            )

    def revisions(self, url: str, *, job_id: str | None = None) -> tuple[Revision, ...]:
        """Return the observations of a URL over time, each with its text and what became of the key by it.

        Args:
            url: as it was linked.
            job_id: judge the URL by the policy of this job alone; see `lookup`.

        Raises:
            LedgerUnavailable: the ledger holds no such job, so no policy to judge the URL by.
        """
        found = self.lookup(url, job_id=job_id)
        corpora = {job.job_id: job.corpus for job in self.jobs()}
        return tuple(standing.revisions(found.observations, found.bodies, corpora))

    def keys_of(self, url: str) -> frozenset[str]:
        """Return the keys under which the jobs of the ledger may have stored a URL; see `lookup`."""
        return frozenset(self._keys_of(url, self._all_policies))

    def places(self) -> Iterator[Place]:
        """Iterate over the places of all observations, cheaper than over the observations themselves."""
        seen = _t.observation.c
        columns = (_t.job.c.job_id, _t.job.c.corpus, seen.seq, seen.url_key, seen.body)
        statement = sa.select(*columns).select_from(_t.observation.join(_t.job, _t.job.c.ordinal == seen.job))
        return self._records(statement, _place)

    def job_summary(self, job_id: str) -> dict[str, int]:
        """Return counts of one job: ``observations``, distinct ``payloads`` and ``bodies``, ``aliases``."""
        seen = _t.observation.c
        job = sa.select(_t.job.c.ordinal).where(_t.job.c.job_id == codec.escape(job_id)).scalar_subquery()
        counted: dict[str, sa.Select[Any]] = {
            "observations": _count(_t.observation, seen.job == job),
            "payloads": sa.select(sa.func.count(seen.payload_digest.distinct())).where(
                seen.job == job, seen.validity == "valid"
            ),
            "bodies": sa.select(sa.func.count(seen.body.distinct())).where(
                seen.job == job, seen.outcome != "skipped"
            ),
            "aliases": _count(_t.alias, _t.alias.c.job == job, _t.alias.c.raw_url_digest != b""),
        }
        return self._counted(counted)

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
        counts = self._counted(counted)
        by_action = sa.select(seen.action, sa.func.count()).group_by(seen.action).order_by(seen.action)
        with self._reading():
            found = self._connection.execute(by_action)
            return counts | {f"action_{name}": int(count) for name, count in found}

    def check(self, deep: bool = False) -> list[str]:
        """Return what is wrong with the ledger, one sentence each; ``deep`` also hashes every text again."""
        with self._reading():
            found = audit.problems(self._connection, deep=deep)
            return found + list(near_audit.problems(self._connection, self._target.path))

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

    def _ruled(self, relation: RelationRecord) -> RelationRecord:
        with self._reading():
            return ruled_relation(relation, self._overlay.decisions.in_force(relation.relation_id))

    def _stated_relations(self, kind: RelationKind, job_id: str | None) -> Iterator[RelationRecord]:
        """Yield the relations of a kind that observations or aliases state, each once."""
        statement = relations.stating(kind, job_id)
        if statement is None:
            return
        table, latest = statement
        of_table = _OBSERVATIONS if table is _t.observation else _ALIASES
        made = self._records(
            of_table.where(table.c.ordinal.in_(latest)).order_by(table.c.ordinal),
            _stated_by_observation if table is _t.observation else self._stated_by_alias,
        )
        yield from (relation for relation in made if relation is not None)

    def _stated_by_alias(self, row: rows.Row) -> RelationRecord | None:
        return derived.of_alias(_alias(row), self._jobs_by_id[codec.unescape(row["job_id"])])

    @functools.cached_property
    def _jobs_by_id(self) -> dict[str, JobRecord]:
        return {job.job_id: job for job in self.jobs()}

    def _relations_of(
        self, found: Sequence[rows.Row], aliases: Iterable[AliasRecord], keys: Collection[str]
    ) -> tuple[RelationRecord, ...]:
        """Return what relates these observations, aliases and keys to others, the stored relations first."""
        records = [stored_observation(row) for row in found]
        bodies = {record.body_id for record in records if record.body_id}
        sides = {
            RelationKind.NEAR: bodies,
            RelationKind.EVENT: [record.observation_id for record in records],
            RelationKind.EVENT_CONFLICT: [record.observation_id for record in records],
            RelationKind.SHARED_TEMPLATE: bodies,
        }
        hosts = {host_of(record.url_key) for record in records}
        aliases = list(aliases)
        urls = {*keys, *(alias.raw_url for alias in aliases)}
        related = [
            *(
                relation
                for kind, side in sides.items()
                for relation in relations.with_side(self._connection, kind, a=side)
                if kind is not RelationKind.SHARED_TEMPLATE or relation.b in hosts
            ),
            *canonicals.latest(relations.with_side(self._connection, RelationKind.CANONICAL, a=keys, b=keys)),
            *relations.with_side(self._connection, RelationKind.NEAR, b=bodies),
            *(relation for relation in self._overlay.decisions.relations() if _concerns(relation, urls)),
            *filter(None, map(_stated_by_observation, found)),
            *filter(None, (derived.of_alias(alias, self._jobs_by_id[alias.job_id]) for alias in aliases)),
        ]
        return tuple(map(self._ruled, {relation.relation_id: relation for relation in related}.values()))

    def _keys_of(self, url: str, policies: Sequence[UrlPolicy]) -> set[str]:
        from scrapy_dedup.urls import redact  # noqa: PLC0415 - most readers never judge a URL

        keys = {key for policy in policies for key in _keys_under(policy, url)}
        with self._reading():
            if self._overlay.decisions.touch(redact(url)):  # it may have been fetched under a key of its own
                keys |= {redact(policy.own_key(url)) for policy in policies}
        return keys

    @functools.cached_property
    def _all_policies(self) -> list[UrlPolicy]:
        return self._policies(None)

    def _policies(self, job_id: str | None) -> list[UrlPolicy]:
        """Return the distinct policies of the ledger, the latest first; those not understood are left out."""
        from scrapy_dedup.urls import UrlPolicy  # noqa: PLC0415 - most readers never judge a URL

        latest = sa.func.max(_t.job.c.ordinal)
        statement = (
            sa.select(_t.policy.c.spec)
            .select_from(_t.policy.join(_t.job, _t.job.c.policy_spec == _t.policy.c.digest))
            .group_by(_t.policy.c.digest, _t.policy.c.spec)
            .order_by(latest.desc())
            .limit(MAX_POLICIES)
        )
        if job_id is not None:
            statement = statement.where(_t.job.c.job_id == codec.escape(job_id))
        with self._reading():
            specs = [codec.unpack_json(stored) for stored in self._connection.execute(statement).scalars()]
        if not specs:
            wanted = "job yet" if job_id is None else f"job {job_id!r}"
            raise LedgerUnavailable(f"The ledger {self._target.name} holds no {wanted}, so no URL policy.")
        policies: list[UrlPolicy] = []
        for spec in specs:
            try:
                policies.append(UrlPolicy.from_spec(spec))
            except ConfigError as error:  # written by a version with other rules
                refused = error
        if not policies:
            raise LedgerUnavailable(
                f"The ledger {self._target.name} holds no URL policy that this scrapy_dedup understands."
            ) from refused
        return policies

    def _first_of_bodies(self, bodies: Iterable[int]) -> list[rows.Row]:
        seen = _t.observation.c
        places = sa.func.row_number().over(partition_by=seen.body, order_by=seen.ordinal).label("place")
        first: list[int] = []
        for part in _parts(bodies):
            ranked = sa.select(seen.ordinal, places).where(seen.body.in_(part)).subquery()
            chosen = sa.select(ranked.c.ordinal).where(ranked.c.place <= MAX_SAME_TEXT)
            first += self._connection.execute(chosen).scalars()
        return self._observation_rows(seen.ordinal, first)

    def _counts_of_bodies(self, bodies: Iterable[int]) -> dict[str, int]:
        statement = sa.select(_t.body.c.body_id, sa.func.count()).select_from(
            _t.observation.join(_t.body, _t.body.c.ordinal == _t.observation.c.body)
        )
        counts: dict[str, int] = {}
        for part in _parts(bodies):
            of_part = statement.where(_t.observation.c.body.in_(part)).group_by(_t.body.c.body_id)
            counts.update(
                (codec.unpack_body_id(body_id), int(count))
                for body_id, count in self._connection.execute(of_part)
            )
        return counts

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Let what the database or a damaged row raises leave as one error that names the ledger."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
            said = driver_message(error)
            raise LedgerUnavailable(f"The ledger {self._target.name} cannot be read ({said}).") from error
        except (RecordError, ValueError, KeyError, TypeError) as error:
            raise LedgerUnavailable(
                f"The ledger {self._target.name} holds a damaged row ({error}). "
                "`scrapy dedup check --deep` names what is damaged."
            ) from error

    def _counted(self, counted: Mapping[str, sa.Select[Any]]) -> dict[str, int]:
        with self._reading():
            return {
                name: int(self._connection.execute(query).scalar_one()) for name, query in counted.items()
            }

    def _records(self, statement: sa.Select[Any], make: Callable[[rows.Row], Record]) -> Iterator[Record]:
        with self._reading():
            for row in self._stream(statement):
                yield make(row)

    def _observation_rows(self, column: sa.Column[Any], values: Iterable[Any]) -> list[rows.Row]:
        statement = _OBSERVATIONS.order_by(_t.observation.c.job, _t.observation.c.seq)
        found = [row for part in _parts(values) for row in self._stream(statement.where(column.in_(part)))]
        return sorted(found, key=lambda row: (row["job"], row["seq"]))

    def _bodies_at(self, ordinals: Iterable[int]) -> dict[int, BodyRecord]:
        """Return bodies by their ordinals, in the order of these."""
        statement = sa.select(*BODY_COLUMNS).select_from(BODY_JOIN).order_by(_t.body.c.ordinal)
        return {
            row["ordinal"]: rows.body_record(row)
            for part in _parts(sorted(ordinals))
            for row in self._stream(statement.where(_t.body.c.ordinal.in_(part)))
        }

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


def _keys_under(policy: UrlPolicy, url: str) -> Iterator[str]:
    """Yield the keys under which a job with this policy may have stored a URL, as they were stored."""
    from scrapy_dedup.urls import redact  # noqa: PLC0415 - most readers never judge a URL

    yield redact(policy.decide(url).key)
    if policy.drops_facets(url):  # a redirect to it was stored apart from the unfiltered page
        yield redact(policy.conservative_key(url))


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


def _stated_by_observation(row: rows.Row) -> RelationRecord | None:
    return derived.of_observation(stored_observation(row), text_digest_of(row), codec.unescape(row["corpus"]))


def _content(row: rows.Row) -> RelationRecord:
    return derived.of_content(stored_observation(row), codec.unescape(row["corpus"]))


def _concerns(relation: RelationRecord, urls: Collection[str]) -> bool:
    """Tell whether a relation that was decided about has one of these URLs or keys as a side."""
    if relation.kind is RelationKind.FORGOTTEN and relation.a.endswith("*"):
        return any(url.startswith(relation.a[:-1]) for url in urls)
    return relation.a in urls


def _place(row: rows.Row) -> Place:
    return Place(
        codec.observation_id(codec.unescape(row["job_id"]), row["seq"]),
        codec.unescape(row["corpus"]),
        codec.unescape(row["url_key"]),
        row["body"] is not None,
    )


def _alias(row: rows.Row) -> AliasRecord:
    return rows.alias_record(row, codec.unescape(row["job_id"]))
