"""Canonical relations: what the claims of pages are worth by all that the ledger holds, kept up to date.

A claim is judged in the transaction that writes its page, and again whenever something new is seen at a place
that the judgement rested on: the declared target, what that redirects to, what the page there declares in
turn. `claim_place` says which pages rest on a place. Where thousands rest on one, they are not all judged in
one commit: those that are due stand in `claim_due` until their turn comes, in a later commit, at the end
of the job, or, if the job is killed, in the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa

from scrapy_dedup.content.canonical import (
    MANY,
    WITHOUT_TEXT,
    Route,
    Verdict,
    judge_canonical,
)
from scrapy_dedup.ledger import codec, decisions, relations, rows, schema
from scrapy_dedup.ledger.claims import Known, Seen, Way, claimed, is_refuted, way_of
from scrapy_dedup.ledger.statement import SOUGHT, Change, ListQuery
from scrapy_dedup.records import (
    AliasRecord,
    ObservationRecord,
    Outcome,
    RelationKind,
    RelationRecord,
    RelationState,
    Validity,
)

MAX_JUDGED = 200
"""Claims of one commit: judging one takes about a millisecond where the texts differ."""

MAX_COMPARED_CHARS = 1_000_000
"""Of longer texts only the digests are compared."""

_t = schema
_seen = schema.observation.c
_corpus: sa.BindParameter[str] = sa.bindparam("corpus", required=False)
_kind: sa.BindParameter[str] = sa.bindparam("kind", required=False)

# One row for each outcome, since a page that is down for a day was still seen before.
_LATEST_ORDINALS = (
    sa.select(sa.func.max(_seen.ordinal))
    .select_from(_t.observation.join(_t.job, _t.job.c.ordinal == _seen.job))
    .where(_seen.url_key_digest.in_(SOUGHT), _t.job.c.corpus == _corpus)
    .group_by(_seen.url_key_digest, _seen.outcome)
)
_LATEST = ListQuery(
    sa.select(
        _seen.ordinal,
        _seen.job,
        _seen.url_key_digest,
        _seen.url_key,
        _seen.url,
        _seen.policy_id,
        _seen.fetched_us,
        _seen.outcome,
        _seen.http_status,
        _seen.validity,
        _seen.canonical,
        _seen.residual_digest,
        _seen.sourced,
        _seen.body,
        _t.body.c.space,
        _t.body.c.language,
        _t.body.c.char_count,
        _t.body.c.normalized_digest,
        _t.body.c.residual_digest.label("body_residual_digest"),
    )
    .select_from(_t.observation.outerjoin(_t.body, _t.body.c.ordinal == _seen.body))
    .where(_seen.ordinal.in_(_LATEST_ORDINALS))
)
_REDIRECTS = ListQuery(
    sa.select(_t.alias.c.ordinal, _t.alias.c.raw_url_digest, _t.alias.c.url_key_digest, _t.alias.c.job)
    .select_from(_t.alias.join(_t.job, _t.job.c.ordinal == _t.alias.c.job))
    .where(
        _t.alias.c.raw_url_digest.in_(SOUGHT),
        _t.alias.c.verdict == sa.literal_column("'redirected'"),
        _t.job.c.corpus == _corpus,
    )
    .order_by(_t.alias.c.ordinal)
)
_TEXTS = ListQuery(
    sa.select(_t.body.c.ordinal, _t.body.c.codec, _t.body.c.data).where(_t.body.c.ordinal.in_(SOUGHT))
)
_CLAIMED = ListQuery(
    sa.select(_t.relation.c.b_place, _t.relation.c.a_place, _t.relation.c.a_digest)
    .where(_t.relation.c.b_place.in_(SOUGHT), _t.relation.c.kind == _kind, _t.relation.c.corpus == _corpus)
    .distinct()
)
_WATCHERS = ListQuery(
    sa.select(_t.claim_place.c.page).where(
        _t.claim_place.c.place.in_(SOUGHT), _t.claim_place.c.corpus == _corpus
    )
)
_DUE = sa.select(_t.claim_due.c.page).where(_t.claim_due.c.corpus == _corpus).limit(MAX_JUDGED)


def _insert_once(table: sa.Table) -> Change:
    """Return an insert that leaves a row alone which stands there already."""
    values = [sa.bindparam(f"new_{column.name}", type_=column.type) for column in table.c]
    same = sa.and_(*(column == value for column, value in zip(table.c, values, strict=True)))
    absent = sa.select(*values).where(~sa.exists(sa.select(sa.literal_column("1")).where(same)))
    return Change(sa.insert(table).inline().from_select([column.name for column in table.c], absent))


_WATCH = _insert_once(schema.claim_place)
_POSTPONE = _insert_once(schema.claim_due)
_DONE = Change(
    sa.delete(schema.claim_due).where(
        schema.claim_due.c.corpus == _corpus, schema.claim_due.c.page == sa.bindparam("done")
    )
)


class Canonicals:
    """Keeps the canonical relations of one corpus, for the store of one job.

    Attributes:
        any_due: claims may be due whose turn has not come yet.
    """

    def __init__(self, corpus: str, job_id: str) -> None:
        self._corpus = corpus
        self._in_corpus = {"corpus": codec.escape(corpus)}
        self._job_id = job_id
        self._job = 0
        self.any_due = False
        self._crowded: set[bytes] = set()

    def open(self, connection: sa.Connection, job: int) -> None:
        """Take up what an earlier job may have left to be judged."""
        self._job = job
        self.any_due = connection.execute(_DUE, self._in_corpus).first() is not None

    def learn(
        self,
        connection: sa.Connection,
        observations: Sequence[rows.Row],
        notes: Sequence[AliasRecord] = (),
    ) -> None:
        """Judge the claims that rest on what was written in this transaction, as many as a commit may take.

        Args:
            connection: inside a transaction that holds the writers' turn.
            observations: their rows as they were written.
            notes: aliases as they were written; redirects are evidence.
        """
        news = [row for row in observations if row["outcome"] != Outcome.SKIPPED.value]
        own = {bytes(row["url_key_digest"]) for row in news if _claims(row)}
        places = {bytes(row["url_key_digest"]) for row in news}
        places |= {
            codec.url_digest(url)
            for note in notes
            if note.verdict == "redirected"
            for url in (note.raw_url, note.fetch_url)
        }
        if not places and not self.any_due:
            return
        resting = self._resting_on(connection, places) - own
        room = max(0, MAX_JUDGED - len(own))
        now = own | set(sorted(resting)[:room])
        self._postpone(connection, resting - now)
        if self.any_due:
            now |= self._take_due(connection, MAX_JUDGED - len(now))
        if now:
            self._judge(connection, now)

    def judge_due(self, connection: sa.Connection) -> None:
        """Judge claims that are due, as many as a commit may take."""
        self._judge(connection, self._take_due(connection, MAX_JUDGED))

    def confirmed(self, connection: sa.Connection, url_keys: Collection[str]) -> dict[str, int]:
        """Return when the canonical of a page was last seen, for those keys whose claim is confirmed.

        Args:
            connection: changes nothing there.
            url_keys: at most `statement.MAX_LIST`.

        Returns:
            Microseconds since 1970 by URL key; nothing for a page that is its own canonical.
        """
        known = Known()
        self._load(connection, known, {codec.url_digest(key) for key in url_keys})
        claimants = [page for page in known.pages.values() if page is not None and page.is_claimant]
        if not claimants:
            return {}
        held = self._held(connection, [page.url_key for page in claimants])
        ways = self._ways(connection, known, claimants)
        ruled = decisions.load(connection)
        found: dict[str, int] = {}
        for page in claimants:
            relation, end = held.get(_pair(page)), ways[page.key].end
            if relation is None or end is None or relation.a_digest != page.normalized_digest:
                continue
            if relation.b_digest not in (None, end.normalized_digest):
                continue  # it is still to be judged again
            holds = decisions.ruled_relation(relation, ruled.in_force(relation.relation_id))
            if holds.state is RelationState.CONFIRMED and end.key != page.key:
                found[page.url_key] = end.fetched_us
        return found

    def _ways(self, connection: sa.Connection, known: Known, claimants: Sequence[Seen]) -> dict[bytes, Way]:
        """Follow the claims of pages as far as anything is known."""
        ways = {page.key: way_of(page, known) for page in claimants}
        while known.wanted:  # ends: a way has a bounded number of places
            self._load(connection, known, known.wanted)
            ways = {page.key: way_of(page, known) for page in claimants}
        return ways

    def _resting_on(self, connection: sa.Connection, places: Iterable[bytes]) -> set[bytes]:
        return {bytes(row["page"]) for row in _WATCHERS.rows(connection, places, **self._in_corpus)}

    def _postpone(self, connection: sa.Connection, pages: Collection[bytes]) -> None:
        if pages:
            corpus = self._in_corpus["corpus"]
            _POSTPONE.run(connection, [{"new_corpus": corpus, "new_page": page} for page in pages])
            self.any_due = True

    def _take_due(self, connection: sa.Connection, room: int) -> set[bytes]:
        if room <= 0:
            return set()
        held = [bytes(page) for page in connection.execute(_DUE, self._in_corpus).scalars()]
        due = held[:room]
        if due:
            _DONE.run(connection, [{**self._in_corpus, "done": page} for page in due])
        self.any_due = len(held) > len(due) or len(held) == MAX_JUDGED  # else these were all
        return set(due)

    def _judge(self, connection: sa.Connection, pages: Collection[bytes]) -> None:
        known = Known()
        self._load(connection, known, pages)
        claimants = [page for place in pages if (page := known.pages[place]) and page.is_claimant]
        ways = self._ways(connection, known, claimants)
        crowds = self._texts_for_targets(connection, claimants)
        texts = _differing_texts(
            connection,
            [
                (page, ways[page.key].end)
                for page in claimants
                if not is_refuted(page) and crowds[_target_place(page)] < MANY
            ],
        )
        found = [
            self._relation(page, ways[page.key], texts, crowds[_target_place(page)]) for page in claimants
        ]
        held = self._held(connection, [page.url_key for page in claimants])
        fresh = [one for one in found if not _says_the_same(held.get((one.a, one.b)), one)]
        relations.insert(connection, fresh, job=self._job)
        watched = {(place, page.key) for page in claimants for place in ways[page.key].places}
        if watched:
            corpus = self._in_corpus["corpus"]
            _WATCH.run(
                connection,
                [{"new_place": place, "new_corpus": corpus, "new_page": page} for place, page in watched],
            )

    def _load(self, connection: sa.Connection, known: Known, places: Collection[bytes]) -> None:
        sought = list(places)
        known.wanted = set()
        known.pages.update(_latest(connection, sought, self._in_corpus))
        for row in _REDIRECTS.rows(connection, sought, **self._in_corpus):
            known.redirects[bytes(row["raw_url_digest"])] = bytes(row["url_key_digest"]), row["job"]

    def _texts_for_targets(self, connection: sa.Connection, claimants: Sequence[Seen]) -> dict[bytes, int]:
        """Return how many distinct texts claim each target, `MANY` for all that are more.

        When a target becomes one of a template, its earlier claims are due.
        """
        claims: dict[bytes, set[tuple[bytes, str | None]]] = {
            _target_place(page): set() for page in claimants
        }
        asked = {place for place in claims if place not in self._crowded}
        for row in _CLAIMED.rows(connection, asked, kind=RelationKind.CANONICAL.value, **self._in_corpus):
            claims[bytes(row["b_place"])].add((bytes(row["a_place"]), row["a_digest"]))
        before = {place: _distinct(held) for place, held in claims.items()}
        for page in claimants:
            claims[_target_place(page)].add((page.key, page.normalized_digest))
        after = {place: _distinct(held) for place, held in claims.items()}
        became = {place for place in asked if before[place] < MANY <= after[place]}
        if became:
            judged = {page.key for page in claimants}
            self._postpone(connection, self._resting_on(connection, became) - judged)
        self._crowded |= {place for place in asked if after[place] >= MANY}
        return {place: MANY if place in self._crowded else count for place, count in after.items()}

    def _held(
        self, connection: sa.Connection, url_keys: Iterable[str]
    ) -> dict[tuple[str, str], RelationRecord]:
        """Return the latest relation of each pair; the later ones take the place of the earlier."""
        held = relations.with_side(connection, RelationKind.CANONICAL, a=url_keys)
        return {(one.a, one.b): one for one in held if one.corpus == self._corpus}

    def _relation(
        self, page: Seen, way: Way, texts: Mapping[int, str], texts_for_target: int
    ) -> RelationRecord:
        target, key = page.claimed or (page.url, page.url_key)
        route = Route(target, key, tuple(way.hops), way.back, way.too_long)
        end = way.end
        verdict = judge_canonical(
            page.evidence(texts.get(page.body or 0)),
            end.evidence(texts.get(end.body or 0)) if end else None,
            route,
            texts_for_target=texts_for_target,
        )
        return _record(page, end, key, verdict, corpus=self._corpus, job_id=self._job_id)


def _record(
    page: Seen, end: Seen | None, key: str, verdict: Verdict, *, corpus: str, job_id: str
) -> RelationRecord:
    rests_on_text = end is not None and end.problem is None and verdict.reason not in WITHOUT_TEXT
    b_digest = end.normalized_digest if end is not None and rests_on_text else None
    kind = RelationKind.CANONICAL
    return RelationRecord(
        relation_id=codec.relation_id(
            kind.value, corpus, page.url_key, key, a_digest=page.normalized_digest, b_digest=b_digest
        ),
        kind=kind,
        corpus=corpus,
        a=page.url_key,
        b=key,
        a_digest=page.normalized_digest,
        b_digest=b_digest,
        state=verdict.state,
        measures=verdict.measures,
        reasons=verdict.reasons,
        policy=page.policy_id,
        job_id=job_id,
        created_at=codec.from_micros(max(page.fetched_us, end.fetched_us if end else 0)),
    )


def _distinct(claims: Collection[tuple[bytes, str | None]]) -> int:
    """Return how many texts claim a target; neither the revisions of one page count nor its variants."""
    return min(len({page for page, _ in claims}), len({digest for _, digest in claims}))


def _claims(row: rows.Row) -> bool:
    """Tell whether an observation is a page that claims to be another one."""
    if row["canonical"] is None or row["body"] is None:
        return False
    return claimed(codec.unpack_json(row["canonical"])) is not None


def _pair(page: Seen) -> tuple[str, str]:
    """Return the keys of a page and of what it claims to be."""
    return page.url_key, page.claimed[1] if page.claimed else page.url_key


def _target_place(page: Seen) -> bytes:
    return codec.url_digest(page.claimed[1]) if page.claimed else page.key


def _says_the_same(held: RelationRecord | None, found: RelationRecord) -> bool:
    return (
        held is not None
        and (held.relation_id, held.state) == (found.relation_id, found.state)
        and held.reasons[0].code == found.reasons[0].code
    )


def _latest(
    connection: sa.Connection, places: Sequence[bytes], in_corpus: Mapping[str, str]
) -> dict[bytes, Seen | None]:
    """Return what was last seen at each place, None where there was nothing."""
    told: dict[bytes, rows.Row] = {}
    for row in _LATEST.rows(connection, places, **in_corpus):
        place = bytes(row["url_key_digest"])
        if place not in told or _weight(row) > _weight(told[place]):
            told[place] = row
    return {place: _seen_of(told[place]) if place in told else None for place in places}


def _weight(row: rows.Row) -> tuple[bool, int]:
    """Return what puts observations of one page in order: an answer of the page itself says more."""
    outcome = row["outcome"]
    answered = outcome in ("fetched", "gone") or (outcome == "not_modified" and row["body"] is not None)
    return answered, row["ordinal"]


def _seen_of(row: rows.Row) -> Seen | None:
    validity = row["validity"]
    problem = _problem(row)
    if problem == "":
        return None
    is_unchanged = row["outcome"] == Outcome.NOT_MODIFIED.value  # such a one states nothing of its own
    residual = row["body_residual_digest"] if is_unchanged else row["residual_digest"]
    normalized = row["normalized_digest"]
    return Seen(
        key=bytes(row["url_key_digest"]),
        url_key=codec.unescape(row["url_key"]),
        url=codec.unescape(row["url"]),
        policy_id=codec.unescape(row["policy_id"]),
        fetched_us=row["fetched_us"],
        job=row["job"],
        problem=problem,
        is_stub=validity == Validity.REDIRECT_STUB.value,
        canonical={} if row["canonical"] is None else codec.unpack_json(row["canonical"]),
        residual_digest=None if residual is None else codec.unpack_digest(residual),
        body=row["body"],
        space=row["space"],
        language=codec.unescape_optional(row["language"]),
        declared_language=(codec.unpack_json(row["sourced"]).get("language_declared") or [None])[0],
        char_count=row["char_count"] or 0,
        normalized_digest=None if normalized is None else codec.unpack_digest(normalized),
    )


def _problem(row: rows.Row) -> str | None:
    """Return why a page is no evidence: None where it is, nothing where it never answered."""
    outcome, validity, status = row["outcome"], row["validity"], row["http_status"]
    if outcome in ("gone", "error"):
        return f"http_{status}" if status else ""
    if outcome == "not_modified":
        return None if row["body"] is not None else ""
    if outcome != "fetched":
        return ""
    return None if validity == Validity.VALID.value else str(validity)


def _differing_texts(connection: sa.Connection, pairs: Iterable[tuple[Seen, Seen | None]]) -> dict[int, str]:
    """Return the texts of pages and targets that can be compared and whose digests differ."""
    wanted: set[int] = set()
    for page, end in pairs:
        if end is None or end.problem is not None or end.body is None or page.body is None:
            continue
        if page.space != end.space or page.normalized_digest == end.normalized_digest:
            continue
        if max(page.char_count, end.char_count) <= MAX_COMPARED_CHARS:
            wanted |= {page.body, end.body}
    found = _TEXTS.rows(connection, wanted)
    return {row["ordinal"]: codec.unpack_text(row["codec"], row["data"]) for row in found}


# -- over observations


def with_canonical(observation: ObservationRecord, relation: RelationRecord) -> ObservationRecord:
    """Return an observation with what is known of its canonical, and the URL to store and cite it under.

    Args:
        observation: of a page with a claim, as it was stored.
        relation: that of the claim, in the state that holds.
    """
    stated = observation.canonical or {}
    canonical = {**stated, "status": relation.state.value, "reason": relation.reasons[0].code}
    if relation.state is not RelationState.CONFIRMED:
        return replace(observation, canonical=canonical)
    # A stub has no content to cite, so the page counts that it leads to.
    document_url = relation.measures.get("judged_url") or stated.get("target")
    return replace(observation, canonical=canonical, document_url=document_url)


def latest(held: Iterable[RelationRecord]) -> list[RelationRecord]:
    """Return those of relations, the oldest first, that no later evidence on the same claim has replaced."""
    return list({(one.corpus, one.a, one.b): one for one in held}.values())


ClaimKey = tuple[str, str, str, str | None]
"""Corpus, URL key of the page, key of the target, normalized digest of the page's text."""


def of_claims(connection: sa.Connection, claims: Collection[ClaimKey]) -> dict[ClaimKey, RelationRecord]:
    """Return the latest relation of each claim; a claim without one was never judged by its target."""
    if not claims:
        return {}
    held = relations.with_side(connection, RelationKind.CANONICAL, a={claim[1] for claim in claims})
    found = {(one.corpus, one.a, one.b, one.a_digest): one for one in held}
    return {claim: found[claim] for claim in claims if claim in found}
