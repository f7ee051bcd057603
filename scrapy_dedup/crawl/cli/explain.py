"""``scrapy dedup explain URL``: the rules that act on a URL and all that the ledger knows about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import columns, printable, redacted, shown_url
from scrapy_dedup.crawl.cli.relations import EFFECTS, evidence, offer, short, signed, statement
from scrapy_dedup.crawl.cli.relations import as_json as relation_json
from scrapy_dedup.ledger import Ledger, Lookup
from scrapy_dedup.ledger.decisions import in_force
from scrapy_dedup.ledger.standing import Revision
from scrapy_dedup.near.claims import compare
from scrapy_dedup.records import (
    AliasRecord,
    BodyRecord,
    ChangeKind,
    ChangeRecord,
    DecisionRecord,
    ObservationRecord,
    RelationKind,
    RelationRecord,
    to_dict,
)
from scrapy_dedup.urls import Change, UrlDecision, Verdict, redact

MAX_ALIASES_TOLD = 10
MAX_RELATIONS_TOLD = 20
MAX_REVISIONS_TOLD = 20
MAX_QUOTED_CHARS = 60

# These stand beside the aliases that they come from.
_OF_ALIASES = frozenset({RelationKind.URL_MERGED, RelationKind.URL_DENIED})

Row = TypeVar("Row")


def run(context: Context) -> int:
    """Print what becomes of the URL; a URL that was never seen is explained as well."""
    with Ledger.open(context.ledger_url()) as ledger:
        found = ledger.lookup(context.options.url, job_id=context.options.job)
        revisions = ledger.revisions(context.options.url, job_id=context.options.job)
        differences = {} if context.options.json else first_differences(ledger, found)
    if context.options.json:
        explained = as_json(context, found)
        explained["revisions"] = [redacted(to_dict(row.change)) for row in revisions]
        context.write(json.dumps(explained, indent=2, ensure_ascii=True))
    else:
        context.write("\n\n".join([*sections(context, found, differences), *history(revisions)]))
    return 0


def as_json(context: Context, found: Lookup) -> dict[str, Any]:
    """Return an explanation as JSON values; the texts themselves are left to ``export``."""
    decision, held = found.decision, _held(found)
    return {
        **redacted({"url": decision.url, "fetch_url": decision.fetch_url, "url_key": decision.key}),
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "changes": [{"rule": change.rule, "detail": change.detail} for change in decision.changes],
        "policy_id": decision.policy_id,
        "observations": [redacted(to_dict(row)) for row in found.observations],
        "aliases": [redacted(to_dict(row)) for row in found.aliases],
        "relations": [relation_json(context, row, held.get(row.relation_id)) for row in found.relations],
        "decisions": [to_dict(row) for row in found.decisions],
        "bodies": [_without_text(body) for body in found.bodies],
        "same_text": [redacted(to_dict(row)) for row in found.same_text],
        "same_text_counts": dict(found.same_text_counts),
        "similar_urls": {body_id: redact(url) for body_id, url in found.similar_urls.items()},
    }


def _without_text(body: BodyRecord) -> dict[str, Any]:
    return {name: value for name, value in to_dict(body).items() if name != "text"}


def _held(found: Lookup) -> Mapping[str, DecisionRecord]:
    """Return the decisions in force by the relation that they are about."""
    histories: dict[str, list[DecisionRecord]] = {}
    for decision in found.decisions:
        histories.setdefault(decision.relation_id, []).append(decision)
    held = {relation_id: in_force(history) for relation_id, history in histories.items()}
    return {relation_id: decision for relation_id, decision in held.items() if decision}


def first_differences(ledger: Ledger, found: Lookup) -> dict[str, str]:
    """Return what differs first in the similar texts that are told, by their relation."""
    differences = {}
    for row in _related(found)[:MAX_RELATIONS_TOLD]:
        sides = ledger.sides(row) if row.kind is RelationKind.NEAR else None
        spans = compare(*(side.body.text for side in sides), min_jaccard=0.0).spans if sides else ()
        if spans:
            more = f", and {len(spans) - 1} more" if len(spans) > 1 else ""
            differences[row.relation_id] = f"{_quoted(spans[0].a)} / {_quoted(spans[0].b)}{more}"
    return differences


def _related(found: Lookup) -> list[RelationRecord]:
    return [row for row in found.relations if row.kind not in _OF_ALIASES]


def sections(context: Context, found: Lookup, differences: Mapping[str, str]) -> Iterator[str]:
    """Yield the parts of an explanation, each a block of lines."""
    held = _held(found)
    yield columns(_decision_rows(found.decision))
    yield _block(f"Key held by {_counted(found.observations, 'observation')}", map(_seen, found.observations))
    aliases = _over_jobs(found)
    yield _block(
        f"Known under {_counted(aliases, 'alias', 'aliases')}",
        _first(aliases, MAX_ALIASES_TOLD, _alias_teller(context, found, held)),
    )
    related = _related(found)
    if related:
        yield _block(
            _counted(related, "relation").capitalize(),
            _first(related, MAX_RELATIONS_TOLD, _relation_teller(context, found, held, differences)),
        )
    for body in found.bodies:
        sharing = [row for row in found.same_text if row.body_id == body.body_id]
        count = found.same_text_counts[body.body_id]
        more = [f"and {count - len(sharing):,} more"] if count > len(sharing) else []
        title = f"Text {body.body_id}, {body.word_count:,} words{_independence(sharing)}, at"
        yield _block(title, [*map(_place, sharing), *more])


def history(revisions: Sequence[Revision]) -> Iterator[str]:
    """Yield what became of the keys over time; observations of the same text are left out."""
    told = [row for row in revisions if row.change.kind is not ChangeKind.UNCHANGED]
    if [row.change.kind for row in told] not in ([], [ChangeKind.NEW]):
        latest = told[-MAX_REVISIONS_TOLD:]
        more = [f"{len(told) - len(latest):,} earlier ones"] if len(told) > len(latest) else []
        yield _block("What became of it", [*more, *map(_revision, latest)])


def _revision(row: Revision) -> str:
    change, observation = row.change, row.observation
    facts = [
        observation.fetched_at,
        f"{printable(observation.job_id)}#{observation.seq}",
        change.kind.value,
        f"({printable(change.reason)})" if change.reason else "",
        change.body_id or "",
        shown_url(observation.url),
        _first_difference(change),
    ]
    return " ".join(fact for fact in facts if fact)


def _first_difference(change: ChangeRecord) -> str:
    if not change.spans:
        return ""
    span, *others = change.spans
    more = f", and {len(others)}{' or more' if change.spans_cut else ''} more" if others else ""
    return f"{_quoted(span.before)} became {_quoted(span.after)}{more}"


def _quoted(text: str) -> str:
    shortened = text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "..."
    return f'"{printable(shortened)}"'


def _decision_rows(decision: UrlDecision) -> Iterator[tuple[str, str]]:
    verdict = decision.verdict.value
    yield "URL", shown_url(decision.url)
    yield "verdict", f"{verdict} ({decision.reason})" if decision.reason else verdict
    for number, change in enumerate(decision.changes):
        yield ("" if number else "rules"), _rule(change)
    if not decision.changes:
        yield "rules", "none acted"
    yield "key", shown_url(decision.key)
    is_denied = decision.verdict is Verdict.DENY
    yield "fetch URL", "none, it is not requested" if is_denied else shown_url(decision.fetch_url)
    yield "policy", decision.policy_id


def _rule(change: Change) -> str:
    return f"{change.rule}: {shown_url(change.detail)}" if change.detail else change.rule


def _counted(rows: Sequence[object], one: str, many: str | None = None) -> str:
    if not rows:
        return f"no {one}"
    return f"{len(rows)} {one if len(rows) == 1 else many or one + 's'}"


def _block(title: str, lines: Iterable[str]) -> str:
    listed = [f"  {line}" for line in lines]
    return "\n".join([f"{title}:" if listed else f"{title}.", *listed])


def _seen(row: ObservationRecord) -> str:
    facts = [
        row.fetched_at,
        f"{printable(row.job_id)}#{row.seq}",
        str(row.http_status or "-"),
        row.validity.value if row.validity else row.outcome.value,
        f"({printable(row.validity_reason)})" if row.validity_reason else "",
        row.action.value,
        f"({row.reason})" if row.reason else "",
        shown_url(row.url),
    ]
    return " ".join(fact for fact in facts if fact)


def _first(rows: Sequence[Row], limit: int, tell: Callable[[Row], Iterable[str]]) -> Iterator[str]:
    for row in rows[:limit]:
        yield from tell(row)
    if len(rows) > limit:
        yield f"and {len(rows) - limit:,} more, listed by --json"


def _alias_teller(
    context: Context, found: Lookup, held: Mapping[str, DecisionRecord]
) -> Callable[[AliasRecord], Iterator[str]]:
    relations = {(row.kind, row.a, row.b): row for row in found.relations if row.kind in _OF_ALIASES}

    def tell(row: AliasRecord) -> Iterator[str]:
        yield _alias(row)
        is_denied = row.verdict == "denied"
        kind = RelationKind.URL_DENIED if is_denied else RelationKind.URL_MERGED
        relation = relations.get((kind, row.raw_url, row.rule if is_denied else row.url_key))
        if relation is not None and row.verdict != "redirected":  # that the server did, and does again
            yield from _ruling(context, relation, held.get(relation.relation_id))

    return tell


def _relation_teller(
    context: Context, found: Lookup, held: Mapping[str, DecisionRecord], differences: Mapping[str, str]
) -> Callable[[RelationRecord], Iterator[str]]:
    places = dict(found.similar_urls) | {
        row.observation_id: f"{row.job_id}#{row.seq} {row.url}"
        for row in (*found.observations, *found.same_text)
    }

    def tell(row: RelationRecord) -> Iterator[str]:
        yield f"{row.kind.value} {short(row.relation_id)}: {statement(row, places)}"
        yield f"  {evidence(row)}"
        if row.relation_id in differences:
            yield f"  differs: {differences[row.relation_id]}"
        yield from _ruling(context, row, held.get(row.relation_id))

    return tell


def _ruling(context: Context, relation: RelationRecord, decision: DecisionRecord | None) -> Iterator[str]:
    """Yield the decision in force, and the command that changes what holds."""
    if decision is not None:
        yield f"  decided: {signed(decision)}"
    if relation.kind in EFFECTS:
        yield "  {}: {}".format(*offer(context, relation, decision))


def _over_jobs(found: Lookup) -> list[AliasRecord]:
    """Return the aliases with what several jobs noted counted together, those of the URL itself first."""
    counted: dict[tuple[str, ...], AliasRecord] = {}
    for row in found.aliases:
        same = (row.verdict, row.rule, row.raw_url, row.url_key)
        held = counted.get(same)
        counted[same] = replace(held, count=held.count + row.count) if held else row
    linked = redact(found.decision.url)
    return sorted(counted.values(), key=lambda row: row.raw_url != linked)


def _alias(row: AliasRecord) -> str:
    count = f"{row.count} times" if row.count > 1 else "once"
    referrer = f", from {shown_url(row.referrer_url)}" if row.referrer_url else ""
    raw_url = shown_url(row.raw_url) if row.raw_url else "further URLs, beyond those kept"
    return f"{row.verdict} by {printable(row.rule)}, {count}: {raw_url}{referrer}"


def _place(row: ObservationRecord) -> str:
    facts = [
        row.fetched_at,
        f"{printable(row.job_id)}#{row.seq}",
        printable(row.publisher.value) if row.publisher else "publisher unknown",
        f"({printable(row.site_name.value)})" if row.site_name else "",
        row.access or "access unknown",
        shown_url(row.url),
    ]
    return " ".join(fact for fact in facts if fact)


def _independence(sharing: Iterable[ObservationRecord]) -> str:
    """Say that several publishers show one text: whether one took it from another, nobody knows."""
    publishers = {row.publisher.value for row in sharing if row.publisher}
    return f", {len(publishers)} publishers, independence unresolved" if len(publishers) > 1 else ""
