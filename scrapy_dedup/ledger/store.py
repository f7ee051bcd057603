"""One batch of sightings and aliases in one transaction: load what is known, decide, write.

`Store` holds no connection; it works on the one it is given, inside the caller's transaction, so that what
it read is still true when it writes. What it remembers from one transaction to the next holds only as long as
no other connection has written; see `Store.write`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from scrapy_dedup.errors import LedgerConflict, RecordError
from scrapy_dedup.ledger import (
    codec,
    decisions,
    engine,
    leaders,
    quarantine,
    relations,
    rows,
    schema,
    seen,
    templates,
)
from scrapy_dedup.ledger.aliases import HeldAliases, plan_aliases
from scrapy_dedup.ledger.canonicals import Canonicals
from scrapy_dedup.ledger.decide import (
    NEW_TEXT,
    Decision,
    Earlier,
    HeldBody,
    Known,
    Recorded,
    Sighting,
    TextKey,
    decide,
    normalized_key,
    suppressed,
    text_key,
    url_key_in_space,
)
from scrapy_dedup.ledger.decisions import Decisions
from scrapy_dedup.ledger.near_relations import NearFound
from scrapy_dedup.ledger.nearness import OFF, SUPPRESS, Nearness, NearOptions, Newcomer
from scrapy_dedup.ledger.overlay import OBSERVATION_COLUMNS, OBSERVATION_JOIN, Overlay
from scrapy_dedup.ledger.quarantine import Shown
from scrapy_dedup.ledger.statement import SOUGHT, Change, ListQuery
from scrapy_dedup.ledger.suppression import looked_name
from scrapy_dedup.records import Action, AliasRecord, JobRecord, Text

logger = logging.getLogger(__name__)

MAX_SCATTERED_SEQS = 1_000
_NO_BODY = {"body_id": None, "text_digest": None, "normalized_digest": None, "word_count": None}

Value = TypeVar("Value")

_t = schema
_job: sa.BindParameter[int] = sa.bindparam("job", required=False)
_space: sa.BindParameter[int] = sa.bindparam("space", required=False)

BODY_COLUMNS = (*_t.body.c, _t.space.c.corpus, _t.space.c.representation, _t.space.c.extractor_id)
BODY_JOIN = _t.body.join(_t.space, _t.space.c.ordinal == _t.body.c.space)

_HELD_OBSERVATIONS = (
    sa.select(*OBSERVATION_COLUMNS)
    .select_from(OBSERVATION_JOIN)
    .where(_t.observation.c.job == _job, _t.observation.c.seq.in_(SOUGHT))
)
_HELD_BODIES = ListQuery(sa.select(*BODY_COLUMNS).select_from(BODY_JOIN).where(_t.body.c.body_id.in_(SOUGHT)))
_KNOWN_BODIES = ListQuery(
    sa.select(
        _t.body.c.body_id,
        _t.body.c.ordinal,
        _t.body.c.text_digest,
        _t.body.c.normalized_digest,
        _t.body.c.word_count,
    ).where(_t.body.c.body_id.in_(SOUGHT))
)
_LAST_DECISION = sa.select(sa.func.max(_t.decision.c.ordinal))
_SAME_NORMALIZED = ListQuery(
    sa.select(_t.body.c.normalized_digest, _t.body.c.first_observation, _t.body.c.residual_digest)
    .where(_t.body.c.space == _space, _t.body.c.normalized_digest.in_(SOUGHT))
    .order_by(_t.body.c.ordinal.desc())
)
_LATEST_ORDINALS = (
    sa.select(sa.func.max(_t.observation.c.ordinal))
    .where(_t.observation.c.space == _space, _t.observation.c.url_key_digest.in_(SOUGHT))
    .group_by(_t.observation.c.url_key_digest)
)
_LATEST = ListQuery(
    sa.select(_t.observation.c.url_key_digest, _t.job.c.job_id, _t.observation.c.seq)
    .select_from(_t.observation.join(_t.job, _t.job.c.ordinal == _t.observation.c.job))
    .where(_t.observation.c.ordinal.in_(_LATEST_ORDINALS))
)
_HELD_ALIASES = ListQuery(
    sa.select(
        _t.alias.c.url_key_digest, _t.alias.c.raw_url_digest, _t.alias.c.rule, _t.alias.c.ordinal
    ).where(_t.alias.c.job == _job, _t.alias.c.url_key_digest.in_(SOUGHT))
)
_COUNT_ALIAS = Change(
    sa.update(_t.alias)
    .where(_t.alias.c.ordinal == sa.bindparam("held"))
    .values(count=_t.alias.c.count + sa.bindparam("more"))
)
_INSERT_BODY = Change(sa.insert(_t.body).inline())
_INSERT_OBSERVATION = Change(sa.insert(_t.observation).inline())
_INSERT_ALIAS = Change(sa.insert(_t.alias).inline())
_LAST_ORDINALS = {
    table.name: sa.select(sa.func.max(table.c.ordinal))
    for table in (_t.job, _t.space, _t.body, _t.observation, _t.alias)
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A sighting with its identity set, and the columns that do not depend on the decision."""

    sighting: Sighting
    columns: Mapping[str, Any]


def prepare(sighting: Sighting, job: JobRecord) -> Prepared:
    """Return ``sighting`` ready to be stored; everything that can be wrong with it is found here.

    Raises:
        RecordError: it belongs to another job or spider, or a value has not its form.
    """
    observation, text = sighting.observation, sighting.text
    if (observation.job_id, observation.spider) != (job.job_id, job.spider):
        raise RecordError(
            f"An observation of job {observation.job_id!r} ({observation.spider}) was given to the ledger of "
            f"job {job.job_id!r} ({job.spider})"
        )
    if text is not None:
        _check_text(text)
    identity = codec.observation_id(job.job_id, observation.seq)
    if observation.observation_id != identity:
        sighting = replace(sighting, observation=replace(observation, observation_id=identity))
    return Prepared(sighting, rows.sighting_columns(observation))


def _check_text(text: Text) -> None:
    for digest in (text.text_digest, text.normalized_digest, text.visible_digest, text.residual_digest):
        if digest is not None:
            codec.pack_digest(digest)
    codec.pack_simhash(text.simhash)
    for count in (text.char_count, text.word_count):
        codec.pack_int(count, codec.MAX_INT64)
    try:
        text.text.encode()
    except UnicodeEncodeError as error:
        raise RecordError("the text of a body holds a lone surrogate") from error


class SeqsHeld:
    """Which seqs of a job the ledger may hold, in bounded memory: a false "may" costs one query.

    All below ``floor`` may be held, and those scattered above it. A floor of None: any may be.
    """

    def __init__(self, floor: int | None = 0) -> None:
        self._any = floor is None
        self.floor = floor or 0
        self._above: set[int] = set()

    def may_hold(self, seq: int) -> bool:
        """Tell whether a seq may be held."""
        return self._any or seq < self.floor or seq in self._above

    def add(self, seqs: Iterable[int]) -> None:
        """Count seqs as held."""
        self._above.update(seqs)
        while self.floor in self._above:
            self._above.remove(self.floor)
            self.floor += 1
        if len(self._above) > MAX_SCATTERED_SEQS:  # some seqs below never came
            kept = sorted(self._above)[MAX_SCATTERED_SEQS // 2 :]
            self.floor = kept[0]
            self._above = set(kept)


class Store:
    """The writes of one job."""

    def __init__(
        self,
        job: JobRecord,
        spec: Mapping[str, Any],
        *,
        reuse_normalized: bool,
        near: NearOptions | None = None,
        path: Path | None = None,
    ) -> None:
        """Prepare to write.

        Args:
            job: the job.
            spec: of its policy.
            reuse_normalized: see `decide`.
            near: how to deal with similar texts; by default they are not looked for.
            path: the file of a SQLite ledger, beside which the index of its texts lies.
        """
        self._job = job
        self._near = near or NearOptions()
        self._path = path
        self._nearness: dict[int, Nearness] = {}
        self._job_columns = {
            name: codec.escape(getattr(job, name)) for name in ("job_id", "spider", "corpus")
        }
        self._spec = codec.pack_json(codec.jsonable(spec))
        self._reuse_normalized = reuse_normalized
        self._job_ordinal = 0
        self._spaces: dict[tuple[str, str], int] = {}
        self._state: int | None = None
        self._last_ordinals: dict[str, int] = {}
        self._seqs = SeqsHeld()
        self._decisions = Decisions()
        self._last_decision = 0
        self._canonicals = Canonicals(job.corpus, job.job_id)

    def open_job(self, connection: sa.Connection) -> int:
        """Insert the job, or take up a job of the same id again, and return its next free seq.

        Raises:
            LedgerConflict: the id belongs to a job of another spider or corpus.
        """
        self._forget_what_may_be_old(connection)
        self._keep_policy(connection)
        if self._near.mode == SUPPRESS:
            self._warn_unless_looked(connection)
        held = connection.execute(
            sa.select(_t.job).where(_t.job.c.job_id == codec.escape(self._job.job_id))
        ).one_or_none()
        if held is None:
            self._job_ordinal = self._take_ordinals(connection, _t.job, 1)
            columns = rows.job_row(self._job) | self._policy_column() | {"ordinal": self._job_ordinal}
            connection.execute(sa.insert(_t.job), columns)
            self._seqs = SeqsHeld(0)
            self._canonicals.open(connection, self._job_ordinal)
            return 0
        self._job_ordinal = held.ordinal
        self._resume(connection, rows.job_record(held._mapping))
        last = connection.execute(
            sa.select(sa.func.max(_t.observation.c.seq)).where(_t.observation.c.job == self._job_ordinal)
        ).scalar()
        self._seqs = SeqsHeld(0 if last is None else int(last) + 1)
        self._canonicals.open(connection, self._job_ordinal)
        return self._seqs.floor

    def close(self) -> None:
        """Bring to the disk what is kept beside the ledger; nothing can be written after that."""
        for nearness in self._nearness.values():
            nearness.close()
        self._nearness.clear()

    def finish_job(self, connection: sa.Connection, outcome: str, finished_at: str) -> None:
        """Write how and when the job ended."""
        for nearness in self._nearness.values():
            nearness.save(connection)
        connection.execute(
            sa.update(_t.job)
            .where(_t.job.c.ordinal == self._job_ordinal)
            .values(finished_us=codec.to_micros(finished_at), outcome=codec.escape(outcome))
        )

    def write(
        self, connection: sa.Connection, batch: Sequence[Prepared], notes: Sequence[AliasRecord] = ()
    ) -> list[Recorded | LedgerConflict]:
        """Write a batch in the caller's transaction.

        The last ordinals and the seqs of the job are remembered from batch to batch, which spares half of the
        statements of a small one. Where another connection has written meanwhile, or the engine cannot tell,
        they are read again.

        Args:
            connection: inside a transaction that holds the writers' turn.
            batch: sightings with distinct seqs, in order.
            notes: aliases to count.

        Returns:
            For each sighting what the ledger now holds, or the conflict that kept it out.
        """
        self._forget_what_may_be_old(connection)
        may_be_held = [one for one in batch if self._seqs.may_hold(one.sighting.observation.seq)]
        results: dict[int, Recorded | LedgerConflict] = dict(self._replays(connection, may_be_held))
        fresh = [one for one in batch if one.sighting.observation.seq not in results]
        if notes:
            self._write_aliases(connection, notes)
        if fresh:
            results.update(self._write_fresh(connection, fresh, notes))
        elif notes:
            self._canonicals.learn(connection, (), notes)
        return [results[one.sighting.observation.seq] for one in batch]

    def canonicals_seen(self, connection: sa.Connection, url_keys: Sequence[str]) -> dict[str, int]:
        """Return when the confirmed canonicals of pages were last seen; see `Canonicals.confirmed`."""
        return self._canonicals.confirmed(connection, url_keys)

    @property
    def has_due(self) -> bool:
        """Whether canonical claims are to be judged whose turn has not come yet."""
        return self._canonicals.any_due

    def judge_due(self, connection: sa.Connection) -> None:
        """Judge some of the claims that are due."""
        self._canonicals.judge_due(connection)

    def add_links(self, connection: sa.Connection, links: Mapping[int, str]) -> None:
        """Add the links of observations that this job has recorded, by seq."""
        seen.set_links(connection, self._job_ordinal, links)

    def latest_pages(
        self, connection: sa.Connection, asked: Sequence[seen.PageQuestion]
    ) -> list[seen.SeenPage | None]:
        """Return what was last seen of pages in the job's corpus; see `seen.latest_pages`.

        A page under quarantine counts as not seen, so that it is fetched again.
        """
        pages = seen.latest_pages(connection, asked, corpus=self._job.corpus, job=self._job_ordinal)
        overlay = Overlay(connection, self._decisions)
        held = overlay.templates({page.observation.body_id for page in pages if page})
        return [
            page if page and not overlay.is_quarantined(page.observation, held) else None for page in pages
        ]

    def aliases_of(self, connection: sa.Connection, url_key: str) -> list[AliasRecord]:
        """Return the aliases of a key in this job in first-seen order, without the overflow row."""
        found = connection.execute(
            sa.select(_t.alias)
            .where(
                _t.alias.c.job == self._job_ordinal,
                _t.alias.c.url_key_digest == codec.url_digest(url_key),
                _t.alias.c.raw_url_digest != b"",
            )
            .order_by(_t.alias.c.ordinal)
        ).mappings()
        return [rows.alias_record(row, self._job.job_id) for row in found]

    def _warn_unless_looked(self, connection: sa.Connection) -> None:
        name = looked_name(self._job.corpus)
        if connection.execute(sa.select(_t.meta.c.value).where(_t.meta.c.name == name)).first() is None:
            logger.warning(
                "DEDUP_NEAR is 'suppress', but nobody has looked at what that does to the corpus %r. See it "
                "with `scrapy dedup review --would-suppress`; until then 'review' is the safer setting.",
                self._job.corpus,
            )

    def _keep_policy(self, connection: sa.Connection) -> None:
        digest = codec.spec_digest(self._spec)
        held = connection.execute(sa.select(_t.policy.c.digest).where(_t.policy.c.digest == digest)).first()
        if held is None:
            connection.execute(sa.insert(_t.policy), {"digest": digest, "spec": self._spec})

    def _policy_column(self) -> dict[str, bytes]:
        return {"policy_spec": codec.spec_digest(self._spec)}

    def _resume(self, connection: sa.Connection, held: JobRecord) -> None:
        if (held.spider, held.corpus) != (self._job.spider, self._job.corpus):
            raise LedgerConflict(
                f"The ledger holds job {held.job_id!r} of spider {held.spider!r} in corpus {held.corpus!r}; "
                f"it cannot go on as spider {self._job.spider!r} in corpus {self._job.corpus!r}. "
                "Choose another DEDUP_JOB_ID."
            )
        changes = rows.job_row(replace(self._job, started_at=held.started_at, finished_at=None, outcome=None))
        connection.execute(
            sa.update(_t.job)
            .where(_t.job.c.ordinal == self._job_ordinal)
            .values(**changes, **self._policy_column())
        )

    def _forget_what_may_be_old(self, connection: sa.Connection) -> None:
        state = engine.state_seen(connection)
        if state is None or state != self._state:
            self._last_ordinals.clear()
            self._seqs = SeqsHeld(None)
            self._load_decisions(connection)
        self._state = state

    def _load_decisions(self, connection: sa.Connection) -> None:
        """Read the decisions again if there are new ones; they are only ever appended."""
        last = int(connection.execute(_LAST_DECISION).scalar() or 0)
        if last != self._last_decision:
            self._decisions, self._last_decision = decisions.load(connection), last

    def _take_ordinals(self, connection: sa.Connection, table: sa.Table, count: int) -> int:
        """Return the first of ``count`` free ordinals of a table, and count them as used."""
        last = self._last_ordinals.get(table.name)
        if last is None:
            last = connection.execute(_LAST_ORDINALS[table.name]).scalar() or 0
        self._last_ordinals[table.name] = last + count
        return last + 1

    def _replays(
        self, connection: sa.Connection, batch: Sequence[Prepared]
    ) -> Iterator[tuple[int, Recorded | LedgerConflict]]:
        offered = {one.sighting.observation.seq: one for one in batch}
        if not offered:
            return
        held = connection.execute(
            _HELD_OBSERVATIONS, {"sought": list(offered), "job": self._job_ordinal}
        ).mappings()
        for row in held.all():
            yield row["seq"], self._replayed(connection, offered[row["seq"]], row)

    def _replayed(
        self, connection: sa.Connection, offered: Prepared, held: rows.Row
    ) -> Recorded | LedgerConflict:
        if not _same_sighting(offered, held):
            identity = offered.sighting.observation.observation_id
            return LedgerConflict(
                f"The ledger holds another observation as {identity} (job {self._job.job_id!r}, "
                f"seq {held['seq']}); the first one stays. Two crawls must not share a DEDUP_JOB_ID."
            )
        body = None
        if held["body_id"] is not None:
            (row,) = _HELD_BODIES.rows(connection, [held["body_id"]])
            body = rows.body_record(row)
        (observation,) = Overlay(connection, self._decisions).observations([held])
        return Recorded(observation, body, body_is_new=False)

    def _write_fresh(
        self, connection: sa.Connection, fresh: Sequence[Prepared], notes: Sequence[AliasRecord]
    ) -> dict[int, Recorded]:
        known, ordinals, untransferred = self._load_known(connection, fresh)
        links = seen.keep_links(connection, [one.sighting.links for one in fresh if one.sighting.links])
        next_observation = self._take_ordinals(connection, _t.observation, len(fresh))
        bodies: list[dict[str, Any]] = []
        made: list[Decision] = []
        for one in fresh:
            decision = decide(one.sighting, known, reuse_normalized=self._reuse_normalized)
            known.learn(one.sighting, decision)
            if decision.body and decision.body_is_new:
                ordinal = self._take_ordinals(connection, _t.body, 1)
                ordinals[decision.body.record.body_id] = ordinal
                bodies.append(self._body_row(connection, decision.body, ordinal))
            made.append(decision)
        near = self._look_back(connection, fresh, made, bodies)
        if self._near.mode != OFF:
            made = self._with_restored(connection, made, ordinals)
        if self._near.mode == SUPPRESS:
            made = self._with_suppressed(connection, made, near, ordinals)
        observations: list[dict[str, Any]] = []
        for one, decision in zip(fresh, made, strict=True):
            row = self._observation_row(connection, one, decision, ordinals)
            row["links"] = links.get(one.sighting.links or "")
            row["ordinal"] = next_observation + len(observations)
            observations.append(row)
        if bodies:
            _INSERT_BODY.run(connection, bodies)
        _INSERT_OBSERVATION.run(connection, observations)
        self._quarantine(connection, observations, made, ordinals)
        pairs = [pair.relation for found in near.values() for pair in found.pairs]
        relations.insert(connection, pairs, job=self._job_ordinal)
        self._canonicals.learn(connection, observations, notes)
        self._seqs.add(row["seq"] for row in observations)
        joined = [self._joined(row, one, untransferred) for row, one in zip(observations, made, strict=True)]
        seen_before = {one.body.record.body_id for one in made if one.body and not one.body_is_new}
        records = Overlay(connection, self._decisions).new_observations(
            joined, seen_before | untransferred.keys()
        )
        return {
            record.seq: Recorded(
                record, one.body.record if one.body else None, one.body_is_new, near=near.get(place)
            )
            for place, (record, one) in enumerate(zip(records, made, strict=True))
        }

    def _look_back(
        self,
        connection: sa.Connection,
        fresh: Sequence[Prepared],
        made: Sequence[Decision],
        bodies: Sequence[dict[str, Any]],
    ) -> dict[int, NearFound]:
        """Find what the new bodies of a batch are similar to, by their places in it; name their leaders."""
        if self._near.mode == OFF or not bodies:
            return {}
        places = [place for place, one in enumerate(made) if one.body and one.body_is_new]
        found: dict[int, NearFound] = {}
        together = list(zip(places, bodies, strict=True))
        for space, group in _grouped(together, lambda one: int(one[1]["space"])).items():
            new = [
                Newcomer(row["ordinal"], body.record, sighting.url_key, sighting.fetched_at)
                for place, row in group
                if (body := made[place].body) and (sighting := fresh[place].sighting.observation)
            ]
            in_space = self._nearness_of(space).look_back(connection, new)
            for place, row in group:
                found[place] = in_space[row["ordinal"]]
                leading = found[place].leading(self._near.min_jaccard)
                row["leader"] = leading.ordinal if leading else None
        return found

    def _with_restored(
        self, connection: sa.Connection, made: Sequence[Decision], ordinals: Mapping[str, int]
    ) -> list[Decision]:
        """Keep what comes again and was suppressed for a text that cannot stand for it any more."""
        again = {
            place: ordinals[one.body.record.body_id]
            for place, one in enumerate(made)
            if one.body and not one.body_is_new and one.action is Action.REUSE
        }
        if not again:
            return list(made)
        overlay = Overlay(connection, self._decisions)
        left_alone = leaders.left_alone(connection, overlay, {*again.values()})
        return [
            replace(one, action=Action.KEEP, reason=NEW_TEXT, related_observation_id=None)
            if again.get(place) in left_alone
            else one
            for place, one in enumerate(made)
        ]

    def _with_suppressed(
        self,
        connection: sa.Connection,
        made: Sequence[Decision],
        near: Mapping[int, NearFound],
        ordinals: Mapping[str, int],
    ) -> list[Decision]:
        """Let new texts give way to those that are kept, and that some page still shows."""
        found = {place: one.suppressing(self._near.min_jaccard) for place, one in near.items()}
        pairs = {place: pair for place, pair in found.items() if pair is not None}
        if not pairs:
            return list(made)
        kept_here = {
            ordinals[one.body.record.body_id]
            for one in made
            if one.body and one.body_is_new and one.action is Action.KEEP
        }
        earlier = {pair.ordinal for pair in pairs.values()} - kept_here
        overlay = Overlay(connection, self._decisions)
        standing = kept_here | leaders.standing(connection, overlay, earlier)
        return [
            suppressed(one, pairs[place]) if place in pairs and pairs[place].ordinal in standing else one
            for place, one in enumerate(made)
        ]

    def _nearness_of(self, space: int) -> Nearness:
        if space not in self._nearness:
            self._nearness[space] = Nearness(
                self._near, self._path, space, corpus=self._job.corpus, job_id=self._job.job_id
            )
        return self._nearness[space]

    def _joined(
        self, row: rows.Row, decision: Decision, untransferred: Mapping[str, rows.Row]
    ) -> dict[str, Any]:
        """Return a row as it would come joined with its job and body."""
        joined = {**row, **self._job_columns, **_NO_BODY}
        if decision.known_body_id is not None:
            joined |= untransferred[decision.known_body_id]
        elif decision.body is not None:
            record = decision.body.record
            joined["body_id"] = codec.pack_id(record.body_id)
            joined["text_digest"] = codec.pack_digest(record.text_digest)
            joined["normalized_digest"] = codec.pack_digest(record.normalized_digest)
            joined["word_count"] = record.word_count
        return joined

    def _quarantine(
        self,
        connection: sa.Connection,
        observations: Sequence[rows.Row],
        made: Sequence[Decision],
        ordinals: Mapping[str, int],
    ) -> None:
        """Store which of the texts that were seen again their host shows everywhere."""
        shown = [
            Shown(
                body=one.body.record,
                ordinal=ordinals[one.body.record.body_id],
                host=templates.host_of(codec.unescape(row["url_key"])),
                at=codec.from_micros(row["fetched_us"]),
            )
            for row, one in zip(observations, made, strict=True)
            if one.body is not None and not one.body_is_new and templates.is_short(one.body.record)
        ]
        if shown:
            found = quarantine.new_templates(connection, shown, job_id=self._job.job_id)
            relations.insert(connection, found, job=self._job_ordinal)

    def _body_row(self, connection: sa.Connection, held: HeldBody, ordinal: int) -> dict[str, Any]:
        row = rows.body_row(held.record, held.residual_digest)
        row["ordinal"] = ordinal
        row["job"] = self._job_ordinal
        row["space"] = self._space(connection, held.record.representation, held.record.extractor_id)
        row["variant"] = held.variant
        row["leader"] = None
        return row

    def _observation_row(
        self, connection: sa.Connection, one: Prepared, decision: Decision, ordinals: Mapping[str, int]
    ) -> dict[str, Any]:
        row = {**one.columns, **rows.decision_columns(decision, one.sighting.text)}
        row["job"] = self._job_ordinal
        row["body"] = row["space"] = None
        if decision.known_body_id is not None:
            # Without a space: a revision of the text is one of the observation that brought it.
            row["body"] = ordinals[decision.known_body_id]
        elif decision.body is not None:
            record = decision.body.record
            row["body"] = ordinals[record.body_id]
            row["space"] = self._space(connection, record.representation, record.extractor_id)
        return row

    def _load_known(
        self, connection: sa.Connection, fresh: Sequence[Prepared]
    ) -> tuple[Known, dict[str, int], dict[str, rows.Row]]:
        """Return what is known, the ordinals of bodies, and the bodies of pages that were not transferred."""
        known = Known(self._job.corpus)
        ordinals: dict[str, int] = {}
        sightings = [one.sighting for one in fresh if one.sighting.text is not None]
        self._load_bodies(connection, known, ordinals, [text for one in sightings if (text := one.text)])
        pages = [page for one in fresh if (page := one.sighting.known) and page.body_id]
        untransferred = self._known_bodies(connection, [page.body_id for page in pages if page.body_id])
        ordinals |= {body_id: row["ordinal"] for body_id, row in untransferred.items()}
        unknown = [one for one in sightings if one.text and text_key(one.text) not in known.bodies]
        for (representation, extractor_id), group in _grouped(unknown, _space_of).items():
            space = self._space(connection, representation, extractor_id)
            self._load_normalized(connection, known, space, group)
            self._load_latest(connection, known, space, group)
        return known, ordinals, untransferred

    def _known_bodies(self, connection: sa.Connection, body_ids: Iterable[str]) -> dict[str, rows.Row]:
        sought = {codec.pack_id(body_id) for body_id in body_ids}
        found = _KNOWN_BODIES.rows(connection, sought)
        return {codec.unpack_body_id(row["body_id"]): row for row in found}

    def _load_bodies(
        self, connection: sa.Connection, known: Known, ordinals: dict[str, int], texts: Iterable[Text]
    ) -> None:
        """Load the bodies with the digests of ``texts``, and further variants where the text differs."""
        wanted = _grouped(texts, text_key)
        variant = 0
        while wanted:
            sought = {self._packed_body_id(key, variant): key for key in wanted}
            differing: dict[TextKey, list[Text]] = {}
            for row in _HELD_BODIES.rows(connection, sought):
                key, record = sought[bytes(row["body_id"])], rows.body_record(row)
                residual = row["residual_digest"]
                held = HeldBody(record, variant, None if residual is None else codec.unpack_digest(residual))
                known.bodies.setdefault(key, []).append(held)
                ordinals[record.body_id] = row["ordinal"]
                if others := [text for text in wanted[key] if text.text != record.text]:
                    differing[key] = others
            wanted, variant = differing, variant + 1

    def _packed_body_id(self, key: TextKey, variant: int) -> bytes:
        representation, extractor_id, digest = key
        return codec.pack_id(codec.body_id(self._job.corpus, digest, representation, extractor_id, variant))

    def _load_normalized(
        self, connection: sa.Connection, known: Known, space: int, group: Sequence[Sighting]
    ) -> None:
        sought = {
            codec.pack_digest(one.text.normalized_digest): normalized_key(one.text)
            for one in group
            if one.text
        }
        # The latest comes first, so that the first one stays.
        for row in _SAME_NORMALIZED.rows(connection, sought, space=space):
            residual = row["residual_digest"]
            known.normalized[sought[bytes(row["normalized_digest"])]] = Earlier(
                codec.unpack_observation_id(row["first_observation"]),
                None if residual is None else codec.unpack_digest(residual),
            )

    def _load_latest(
        self, connection: sa.Connection, known: Known, space: int, group: Sequence[Sighting]
    ) -> None:
        sought = {
            codec.url_digest(one.observation.url_key): url_key_in_space(one.text, one.observation.url_key)
            for one in group
            if one.text
        }
        for row in _LATEST.rows(connection, sought, space=space):
            identity = codec.observation_id(codec.unescape(row["job_id"]), row["seq"])
            known.latest[sought[bytes(row["url_key_digest"])]] = identity

    def _space(self, connection: sa.Connection, representation: str, extractor_id: str) -> int:
        """Return the ordinal of a space of this corpus, making it where needed.

        The answer is remembered: a space, once committed, stays. One made in a transaction that rolls back
        ends this store, as every failed commit does.
        """
        key = (representation, extractor_id)
        if key not in self._spaces:
            identity = {
                "corpus": codec.escape(self._job.corpus),
                "representation": codec.escape(representation),
                "extractor_id": codec.escape(extractor_id),
            }
            same = [_t.space.c[name] == value for name, value in identity.items()]
            ordinal = connection.execute(sa.select(_t.space.c.ordinal).where(*same)).scalar()
            if ordinal is None:
                ordinal = self._take_ordinals(connection, _t.space, 1)
                connection.execute(sa.insert(_t.space), identity | {"ordinal": ordinal})
            self._spaces[key] = ordinal
        return self._spaces[key]

    def _write_aliases(self, connection: sa.Connection, notes: Sequence[AliasRecord]) -> None:
        digested = [(codec.url_digest(note.url_key), codec.url_digest(note.raw_url), note) for note in notes]
        held = HeldAliases()
        keys = {key for key, _, _ in digested}
        for row in _HELD_ALIASES.rows(connection, keys, job=self._job_ordinal):
            key, raw = bytes(row["url_key_digest"]), bytes(row["raw_url_digest"])
            held.ordinals[key, raw, codec.unescape(row["rule"])] = row["ordinal"]
            if raw:
                held.raw_urls.setdefault(key, set()).add(raw)
        plan = plan_aliases(held, digested)
        if plan.additions:
            additions = [{"held": ordinal, "more": more} for ordinal, more in plan.additions.items()]
            _COUNT_ALIAS.run(connection, additions)
        if plan.inserts:
            first = self._take_ordinals(connection, _t.alias, len(plan.inserts))
            _INSERT_ALIAS.run(
                connection, [self._alias_row(note, first + place) for place, note in enumerate(plan.inserts)]
            )

    def _alias_row(self, note: AliasRecord, ordinal: int) -> dict[str, Any]:
        raw = codec.url_digest(note.raw_url) if note.raw_url else b""
        row = rows.alias_row(note, codec.url_digest(note.url_key), raw)
        row["ordinal"] = ordinal
        row["job"] = self._job_ordinal
        return row


def _same_sighting(offered: Prepared, held: rows.Row) -> bool:
    """Tell whether what was observed is the same; what the ledger decided about it does not count."""
    decided = {"validity_reason"} if held["reason"] == "body_over_cap" else set()
    if any(held[name] != value for name, value in offered.columns.items() if name not in decided):
        return False
    text, known = offered.sighting.text, offered.sighting.known
    if known is not None:
        return bool(held["reason"] == known.reason)
    if text is None or held["text_digest"] is None:
        return held["text_digest"] is None
    return bool(codec.unpack_digest(held["text_digest"]) == text.text_digest)


def _space_of(sighting: Sighting) -> tuple[str, str]:
    text = sighting.text
    return (text.representation, text.extractor_id) if text else ("", "")


Key = TypeVar("Key")


def _grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups
