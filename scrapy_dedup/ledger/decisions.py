"""What somebody decided about relations: written once, never changed, and in force until it is undone.

A decision is about the identity of a relation, which holds the digests of the content of its sides: it ends
by itself when the content changes. The stored observations stay as the suite made them. What is in force is
laid over them when they are read, and over new ones before the crawl hears of them, so that an undo leaves no
trace but itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import sqlalchemy as sa

from scrapy_dedup.errors import DedupError, RecordError
from scrapy_dedup.ledger import codec, relations, rows, schema
from scrapy_dedup.ledger.derived import DECIDED, NEAR_DUPLICATE, of_observation
from scrapy_dedup.ledger.near_relations import leader_of, other_of
from scrapy_dedup.records import (
    Action,
    DecisionAction,
    DecisionRecord,
    ObservationRecord,
    Reason,
    RelationKind,
    RelationRecord,
    RelationState,
)

MAX_NOTE_CHARS = 10_000

_t = schema
_BY = re.compile(r"(?:human|policy):\S(?:.{0,198}\S)?", re.DOTALL)
_CONFIRMED, _REFUTED = RelationState.CONFIRMED, RelationState.REFUTED

_ONE_OR_TWO = {DecisionAction.SAME: _CONFIRMED, DecisionAction.DIFFERENT: _REFUTED}
_TWO_OR_ONE = {DecisionAction.SAME: _REFUTED, DecisionAction.DIFFERENT: _CONFIRMED}
_REFUSED = {DecisionAction.ACCEPT: _REFUTED, DecisionAction.REJECT: _CONFIRMED}
_FETCHED_AGAIN = {DecisionAction.FORGET: _CONFIRMED}

MEANING: Mapping[RelationKind, Mapping[DecisionAction, RelationState]] = {
    RelationKind.SAME_TEXT: _ONE_OR_TWO,
    RelationKind.SAME_NORMALIZED: _ONE_OR_TWO,
    RelationKind.CANONICAL: _ONE_OR_TWO,
    RelationKind.SHARED_TEMPLATE: _ONE_OR_TWO,
    RelationKind.EVENT: _ONE_OR_TWO,
    RelationKind.NEAR: _ONE_OR_TWO,
    RelationKind.URL_MERGED: _ONE_OR_TWO,
    RelationKind.RESIDUAL_DIFFERS: _TWO_OR_ONE,
    RelationKind.REVISION: _TWO_OR_ONE,
    RelationKind.EVENT_CONFLICT: {},  # it ends when one of the claims is refused
    RelationKind.CONTENT_INVALID: _REFUSED,
    RelationKind.URL_DENIED: _REFUSED,
    RelationKind.SKIPPED: _FETCHED_AGAIN,
    RelationKind.FORGOTTEN: _FETCHED_AGAIN,
}
"""What can be decided about a relation, and what that makes of its state."""

_TEXT_ACTIONS = {DecisionAction.SAME: Action.REUSE, DecisionAction.DIFFERENT: Action.KEEP}
_TEXT_KINDS = frozenset(
    {
        RelationKind.SAME_TEXT,
        RelationKind.SAME_NORMALIZED,
        RelationKind.RESIDUAL_DIFFERS,
        RelationKind.REVISION,
    }
)


def opposite(relation: RelationRecord) -> DecisionAction:
    """Return the decision against what the suite made of a relation by itself.

    What it left unresolved it treats as two things. What was to be fetched again can only be said again.
    """
    meaning = MEANING[relation.kind]
    made = relation.state
    if made is RelationState.UNRESOLVED:
        made = meaning.get(DecisionAction.DIFFERENT, made)
    against = [action for action, state in meaning.items() if state is not made]
    return next(iter(against or meaning), DecisionAction.DIFFERENT)


class Decisions:
    """What was decided, in the order in which it was; a snapshot.

    Args:
        decided: each decision with the relation that it is about.
    """

    def __init__(self, decided: Iterable[tuple[RelationRecord, DecisionRecord]] = ()) -> None:
        self._all: list[DecisionRecord] = []
        self._histories: dict[str, list[DecisionRecord]] = {}
        self._relations: dict[str, RelationRecord] = {}
        for relation, decision in decided:
            self._all.append(decision)
            self._histories.setdefault(decision.relation_id, []).append(decision)
            self._relations[decision.relation_id] = relation
        found = {identity: in_force(history) for identity, history in self._histories.items()}
        self._in_force = {identity: decision for identity, decision in found.items() if decision}
        self._contents: dict[tuple[str, str, str | None], DecisionRecord] = {
            (relation.corpus, relation.a, relation.a_digest): decision
            for relation, decision in self._by_time(RelationKind.CONTENT_INVALID)
            if relation.a_digest is not None
        }
        self._sides = {relation.a for relation in self._relations.values()}
        self._near: dict[str, list[tuple[RelationRecord, DecisionRecord]]] = {}
        for relation, decision in self._by_time(RelationKind.NEAR):
            self._near.setdefault(other_of(relation), []).append((relation, decision))

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[DecisionRecord]:
        return iter(self._all)

    def in_force(self, relation_id: str) -> DecisionRecord | None:
        """Return the decision that holds for a relation: the last one that is not undone."""
        return self._in_force.get(relation_id)

    def history(self, relation_id: str) -> tuple[DecisionRecord, ...]:
        """Return all decisions about a relation, the oldest first, those undone too."""
        return tuple(self._histories.get(relation_id, ()))

    def relation(self, relation_id: str) -> RelationRecord | None:
        """Return a relation that was decided about, as it was stored."""
        return self._relations.get(relation_id)

    def relations(self) -> Iterator[RelationRecord]:
        """Iterate over the relations that were decided about."""
        return iter(self._relations.values())

    def touch(self, side: str) -> bool:
        """Tell whether something was decided about a relation with this first side."""
        return side in self._sides

    def about_content(self, corpus: str, url_key: str, payload_digest: str | None) -> DecisionRecord | None:
        """Return the decision that holds on whether a payload under a key is evidence."""
        return self._contents.get((corpus, url_key, payload_digest))

    def about_text(self, body_id: str | None) -> Sequence[tuple[RelationRecord, DecisionRecord]]:
        """Return the decisions that hold on whether similar texts can stand for a text, in their order."""
        return self._near.get(body_id or "", ())

    def texts(self) -> Collection[str]:
        """Return the bodies about which `about_text` knows something."""
        return self._near.keys()

    def overrides(self, corpus: str) -> Overrides:
        """Return what a crawl of a corpus has to know of them."""
        urls = {
            relation.a: decision.action
            for relation, decision in self._by_time(RelationKind.URL_MERGED, RelationKind.URL_DENIED)
            if relation.corpus == corpus and decision.action in _ACTS_ON_URLS
        }
        contents = {
            (relation.a, relation.a_digest): decision.action
            for relation, decision in self._by_time(RelationKind.CONTENT_INVALID)
            if relation.corpus == corpus and relation.a_digest is not None
        }
        forgotten = {
            relation.a: codec.to_micros(decision.at)
            for relation, decision in self._by_time(RelationKind.SKIPPED, RelationKind.FORGOTTEN)
            if relation.corpus == corpus
        }
        return Overrides(urls, contents, forgotten)

    def _by_time(self, *kinds: RelationKind) -> Iterator[tuple[RelationRecord, DecisionRecord]]:
        """Yield what is in force about relations of some kinds, in the order in which it was decided."""
        for decision in self._all:
            relation = self._relations[decision.relation_id]
            if relation.kind in kinds and self._in_force.get(decision.relation_id) is decision:
                yield relation, decision


_ACTS_ON_URLS = frozenset({DecisionAction.DIFFERENT, DecisionAction.ACCEPT})


@dataclass(frozen=True, slots=True)
class Overrides:
    """The decisions that a crawl has to know when it starts; empty for a new ledger.

    Attributes:
        urls: by URL as linked: DIFFERENT, it is a key of its own, or ACCEPT, it is fetched though denied.
        contents: by URL key and payload digest: ACCEPT, the page is valid, or REJECT, it is not.
        forgotten: by URL key, or by what keys begin with and ``*``: the moment, in microseconds since 1970,
            before which what was seen does not count.
    """

    urls: Mapping[str, DecisionAction] = field(default_factory=dict)
    contents: Mapping[tuple[str, str], DecisionAction] = field(default_factory=dict)
    forgotten: Mapping[str, int] = field(default_factory=dict)

    def forgotten_us(self, url_key: str) -> int | None:
        """Return the moment before which observations of a key don't count as seen, None for none."""
        moments = [
            moment
            for side, moment in self.forgotten.items()
            if side == url_key or (side.endswith("*") and url_key.startswith(side[:-1]))
        ]
        return max(moments, default=None)


def in_force(history: Sequence[DecisionRecord]) -> DecisionRecord | None:
    """Return the last decision of a history that is not undone; an undo can be undone as well.

    A decision is undone only by a later one, so the latest of all holds and the others follow from it.
    """
    undone: set[str | None] = set()
    for decision in reversed(history):
        if decision.decision_id in undone:
            continue
        if decision.action is not DecisionAction.UNDO:
            return decision
        undone.add(decision.supersedes)
    return None


def undone(history: Sequence[DecisionRecord]) -> set[str]:
    """Return the identities of the decisions of a history that are undone at its end."""
    found: set[str] = set()
    for decision in reversed(history):
        if decision.action is DecisionAction.UNDO and decision.decision_id not in found:
            found.add(str(decision.supersedes))
    return found


def ruled_relation(relation: RelationRecord, decision: DecisionRecord | None) -> RelationRecord:
    """Return a relation in the state that a decision gives it."""
    if decision is None:
        return relation
    state = MEANING[relation.kind].get(decision.action, relation.state)
    reasons = (Reason(DECIDED, decision.action.value), *relation.reasons)
    return replace(relation, state=state, reasons=reasons)


def ruled(
    record: ObservationRecord,
    decisions: Decisions,
    *,
    corpus: str,
    text_digest: str | None,
    template: RelationRecord | None = None,
) -> ObservationRecord:
    """Return an observation as it stands under what was decided, and under the quarantine of templates.

    A decision about the observation's own relation goes before one about its content, and that before the
    quarantine: the more is said of the very thing, the more it counts.

    Args:
        record: as it was stored.
        decisions: all of them.
        corpus: that of its job.
        text_digest: that of its body.
        template: the relation that says that the body is a template of the host.
    """
    if decisions.touch(record.url_key):
        if (about_text := _ruled_text(record, decisions, corpus, text_digest)) is not None:
            return about_text
        about_content = decisions.about_content(corpus, record.url_key, record.payload_digest)
        if about_content is not None:
            return _ruled_content(record, about_content)
    if template is not None and record.body_id is not None:
        return _ruled_template(record, template, decisions.in_force(template.relation_id))
    return record


def _ruled_text(
    record: ObservationRecord, decisions: Decisions, corpus: str, text_digest: str | None
) -> ObservationRecord | None:
    relation = of_observation(record, text_digest, corpus)
    if relation is None or relation.kind is RelationKind.CONTENT_INVALID:
        return None
    decision = decisions.in_force(relation.relation_id)
    if decision is None:
        return None
    if relation.kind not in _TEXT_KINDS:
        return replace(record, decision_id=decision.decision_id)
    return replace(
        record, action=_TEXT_ACTIONS[decision.action], reason=DECIDED, decision_id=decision.decision_id
    )


def ruled_near(
    record: ObservationRecord, decisions: Decisions, first_observations: Mapping[str, str]
) -> ObservationRecord:
    """Return an observation as it stands under what was decided about its text and similar ones.

    What was decided about the page itself outranks that. Of two texts that are the same the later decision
    counts; a text that was suppressed is kept again when it is decided to be different from the one that
    stood for it.

    Args:
        record: under all other decisions.
        decisions: all of them.
        first_observations: of the texts that can stand for this one, the observations that brought them.
    """
    about = decisions.about_text(record.body_id)
    if not about or record.decision_id is not None or record.action not in (Action.KEEP, Action.REUSE):
        return record
    same = [
        one
        for one in about
        if one[1].action is DecisionAction.SAME and leader_of(one[0]) in first_observations
    ]
    if same and (record.action is Action.KEEP or record.reason == NEAR_DUPLICATE):
        relation, decision = same[-1]
        return replace(
            record,
            action=Action.REUSE,
            reason=DECIDED,
            related_observation_id=first_observations[leader_of(relation)],
            decision_id=decision.decision_id,
        )
    if record.reason != NEAR_DUPLICATE:
        return record
    for relation, decision in about:
        stands_for_it = first_observations.get(leader_of(relation)) == record.related_observation_id
        if decision.action is DecisionAction.DIFFERENT and stands_for_it:
            return replace(
                record,
                action=Action.KEEP,
                reason=DECIDED,
                related_observation_id=None,
                decision_id=decision.decision_id,
            )
    return record


def _ruled_content(record: ObservationRecord, decision: DecisionRecord) -> ObservationRecord:
    """A rejected text is one to look at; an accepted page has no text yet, that is for a later run."""
    if decision.action is DecisionAction.REJECT and record.body_id is not None:
        record = replace(record, action=Action.REVIEW, reason=DECIDED)
    return replace(record, decision_id=decision.decision_id)


def _ruled_template(
    record: ObservationRecord, template: RelationRecord, decision: DecisionRecord | None
) -> ObservationRecord:
    decision_id = decision.decision_id if decision else None
    if ruled_relation(template, decision).state is not _CONFIRMED:
        return replace(record, decision_id=decision_id)
    return replace(record, action=Action.REVIEW, reason=template.kind.value, decision_id=decision_id)


def load(connection: sa.Connection) -> Decisions:
    """Read all decisions.

    Raises:
        RecordError: a decision is about a relation that the ledger does not hold.
    """
    return Decisions(_decided(connection, sa.select(_t.decision).order_by(_t.decision.c.ordinal)))


def _decided(
    connection: sa.Connection, statement: sa.Select[tuple[object, ...]]
) -> list[tuple[RelationRecord, DecisionRecord]]:
    found = connection.execute(statement).mappings().all()
    held = relations.with_identity(connection, {bytes(row["relation_id"]) for row in found})
    decided: list[tuple[RelationRecord, DecisionRecord]] = []
    for row in found:
        relation = held.get(codec.unpack_relation_id(row["relation_id"]))
        if relation is None:
            raise RecordError(
                f"the decision {codec.unpack_decision_id(row['decision_id'])} is about a relation that the "
                "ledger does not hold"
            )
        decided.append((relation, rows.decision_record(row, relation)))
    return decided


def record_decision(
    url: str,
    relation: RelationRecord,
    action: DecisionAction,
    *,
    by: str,
    note: str | None = None,
    supersedes: str | None = None,
) -> DecisionRecord:
    """Decide about a relation, durably; a relation that only followed from others is stored with it.

    Args:
        url: the ledger, which must be there; crawls may be writing to it.
        relation: what is decided about.
        action: what is decided. UNDO takes back ``supersedes``, or what is in force.
        by: ``human:<name>`` or ``policy:<name>``.
        note: why, in words.
        supersedes: the decision that this one takes the place of; by default what is in force.

    Raises:
        RecordError: ``relation`` or ``by`` has not its form.
        DedupError: the action makes no sense for the relation, or there is nothing to undo.
        LedgerUnavailable: there is no ledger, or it cannot be written.
    """
    _check(relation, action, by, note)
    with relations.writing(url) as connection:
        return _record(connection, relation, action, by=by, note=note, supersedes=supersedes)


@dataclass(frozen=True, slots=True)
class NewDecision:
    """What is to be decided about a relation.

    Attributes:
        relation: what is decided about.
        action: what is decided.
        note: why, in words.
        expects: the decision that was in force when somebody made up their mind, None for none.
    """

    relation: RelationRecord
    action: DecisionAction
    note: str | None = None
    expects: str | None = None


class DecidedMeanwhile(DedupError):
    """Somebody decided about a relation after it was looked at; nothing was written.

    Attributes:
        relation_ids: the relations, in the order in which they were given.
    """

    def __init__(self, relation_ids: Sequence[str]) -> None:
        self.relation_ids = tuple(relation_ids)
        super().__init__(
            f"somebody decided meanwhile about {', '.join(relation_ids[:5])}"
            f"{' and others' if len(relation_ids) > 5 else ''}; nothing was written"
        )


def record_decisions(url: str, news: Sequence[NewDecision], *, by: str) -> list[DecisionRecord]:
    """Decide about several relations, durably: about all of them or about none.

    Args:
        url: the ledger, which must be there; crawls may be writing to it.
        news: at most one about each relation.
        by: ``human:<name>`` or ``policy:<name>``.

    Raises:
        DecidedMeanwhile: something else is in force about a relation than was expected.
        RecordError: a relation or ``by`` has not its form.
        DedupError: an action makes no sense for its relation.
        LedgerUnavailable: there is no ledger, or it cannot be written.
    """
    for one in news:
        _check(one.relation, one.action, by, one.note)
    with relations.writing(url) as connection:
        changed = [
            one.relation.relation_id
            for one in news
            if _identity_in_force(connection, one.relation.relation_id) != one.expects
        ]
        if changed:
            raise DecidedMeanwhile(changed)
        return [
            _record(connection, one.relation, one.action, by=by, note=one.note, supersedes=one.expects)
            for one in news
        ]


def about(connection: sa.Connection, relation_id: str) -> tuple[DecisionRecord, ...]:
    """Return all decisions about one relation, the oldest first, those undone too.

    Raises:
        RecordError: it is no identity, or the ledger does not hold the relation that was decided about.
    """
    packed = codec.pack_id(relation_id)
    statement = sa.select(_t.decision).where(_t.decision.c.relation_id == packed)
    return tuple(decision for _, decision in _decided(connection, statement.order_by(_t.decision.c.ordinal)))


def _identity_in_force(connection: sa.Connection, relation_id: str) -> str | None:
    held = in_force(about(connection, relation_id))
    return held.decision_id if held else None


def _check(relation: RelationRecord, action: DecisionAction, by: str, note: str | None) -> None:
    identity = relations.identity(relation)
    if relation.relation_id != identity:
        raise RecordError(f"{relation.relation_id!r:.100} is not the identity of the relation, {identity} is")
    if not _BY.fullmatch(by):
        raise RecordError(f"{by!r:.100} does not say who decides; write human:<name> or policy:<name>")
    if note is not None and len(note) > MAX_NOTE_CHARS:
        raise RecordError(f"a note of {len(note)} characters is longer than {MAX_NOTE_CHARS}")
    if action is not DecisionAction.UNDO and action not in MEANING[relation.kind]:
        raise DedupError(
            f"{action.value!r} cannot be decided about {relation.relation_id}, which is a relation of the "
            f"kind {relation.kind.value}; {_possible(relation.kind)}."
        )


def _possible(kind: RelationKind) -> str:
    if DecisionAction.FORGET in MEANING[kind]:
        return "undo it, and it is fetched again"
    choices = " or ".join(repr(action.value) for action in MEANING[kind])
    return f"decide {choices}" if choices else "decide about one of the claims"


def _record(
    connection: sa.Connection,
    relation: RelationRecord,
    action: DecisionAction,
    *,
    by: str,
    note: str | None,
    supersedes: str | None,
) -> DecisionRecord:
    packed = codec.pack_id(relation.relation_id)
    history = about(connection, relation.relation_id)
    superseded = _superseded(relation, action, history, supersedes)
    if not relations.with_identity(connection, {packed}):
        relations.insert(connection, [relation], job=_job_of(connection, relation))
    at = codec.from_micros(codec.to_micros(datetime.now(timezone.utc).isoformat()))
    decision = DecisionRecord(
        decision_id=codec.decision_id(relation.relation_id, action.value, by, at, secrets.token_hex(8)),
        relation_id=relation.relation_id,
        action=action,
        supersedes=superseded,
        by=by,
        at=at,
        note=note,
        digests_seen=(relation.a_digest, relation.b_digest),
    )
    last = connection.execute(sa.select(sa.func.max(_t.decision.c.ordinal))).scalar() or 0
    connection.execute(sa.insert(_t.decision), {**rows.decision_row(decision), "ordinal": last + 1})
    return decision


def _superseded(
    relation: RelationRecord,
    action: DecisionAction,
    history: Sequence[DecisionRecord],
    named: str | None,
) -> str | None:
    """Return the decision that a new one takes the place of."""
    held = in_force(history)
    if named is None:
        if held is None and action is DecisionAction.UNDO:
            raise DedupError(f"No decision about {relation.relation_id} is in force: there is none to undo.")
        return held.decision_id if held else None
    if all(decision.decision_id != named for decision in history):
        raise DedupError(f"{named} is no decision about {relation.relation_id}.")
    if named in undone(history):
        raise DedupError(f"The decision {named} is undone already; undo the undo to bring it back.")
    return named


def _job_of(connection: sa.Connection, relation: RelationRecord) -> int | None:
    if relation.job_id is None:
        return None
    named = sa.select(_t.job.c.ordinal).where(_t.job.c.job_id == codec.escape(relation.job_id))
    return connection.execute(named).scalar()
