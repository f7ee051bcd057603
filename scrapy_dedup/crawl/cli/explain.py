"""``scrapy dedup explain URL``: the rules that act on a URL and all that the ledger knows about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import columns, printable, redacted, shown_url
from scrapy_dedup.ledger import Ledger, Lookup
from scrapy_dedup.records import AliasRecord, BodyRecord, ObservationRecord, to_dict
from scrapy_dedup.urls import Change, UrlDecision, Verdict


def run(context: Context) -> int:
    """Print what becomes of the URL; a URL that was never seen is explained as well."""
    with Ledger.open(context.ledger_url()) as ledger:
        found = ledger.lookup(context.options.url, job_id=context.options.job)
    if context.options.json:
        context.write(json.dumps(as_json(found), indent=2, ensure_ascii=True))
    else:
        context.write("\n\n".join(sections(found)))
    return 0


def as_json(found: Lookup) -> dict[str, Any]:
    """Return an explanation as JSON values; the texts themselves are left to ``export``."""
    decision = found.decision
    return {
        **redacted({"url": decision.url, "fetch_url": decision.fetch_url, "url_key": decision.key}),
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "changes": [{"rule": change.rule, "detail": change.detail} for change in decision.changes],
        "policy_id": decision.policy_id,
        "observations": [redacted(to_dict(row)) for row in found.observations],
        "aliases": [redacted(to_dict(row)) for row in found.aliases],
        "bodies": [_without_text(body) for body in found.bodies],
        "same_text": [redacted(to_dict(row)) for row in found.same_text],
        "same_text_counts": dict(found.same_text_counts),
    }


def _without_text(body: BodyRecord) -> dict[str, Any]:
    return {name: value for name, value in to_dict(body).items() if name != "text"}


def sections(found: Lookup) -> Iterator[str]:
    """Yield the parts of an explanation, each a block of lines."""
    yield columns(_decision_rows(found.decision))
    yield _block(f"Key held by {_counted(found.observations, 'observation')}", map(_seen, found.observations))
    yield _block(f"Known under {_counted(found.aliases, 'alias', 'aliases')}", map(_alias, found.aliases))
    for body in found.bodies:
        sharing = [row for row in found.same_text if row.body_id == body.body_id]
        more = found.same_text_counts[body.body_id] - len(sharing)
        places = [*map(_place, sharing), *([f"and {more:,} more"] if more else [])]
        yield _block(f"Text {body.body_id}, {body.word_count} words, at", places)


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


def _counted(rows: tuple[object, ...], one: str, many: str | None = None) -> str:
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


def _alias(row: AliasRecord) -> str:
    count = f"{row.count} times" if row.count > 1 else "once"
    referrer = f", from {shown_url(row.referrer_url)}" if row.referrer_url else ""
    raw_url = shown_url(row.raw_url) if row.raw_url else "further URLs, beyond those kept"
    return f"{row.verdict} by {printable(row.rule)}, {count}: {raw_url}{referrer}"


def _place(row: ObservationRecord) -> str:
    return f"{row.fetched_at} {printable(row.job_id)}#{row.seq} {shown_url(row.url)}"
