"""``scrapy dedup events``: takes from a file which observations report which event."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.event_file import EventFileError, EventLine, read_event_file
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.crawl.cli.relations import short, statement
from scrapy_dedup.crawl.cli.signature import signature
from scrapy_dedup.crawl.suite import utc_now
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.ledger.events import Claim, Claimed, claims_in_conflict, record_claims
from scrapy_dedup.records import to_dict

MAX_CONFLICTS_TOLD = 10


def run(context: Context) -> int:
    """Check the whole file, then write what it says that the ledger does not hold yet."""
    path = Path(context.options.file)
    url, by = context.ledger_url(), signature(context.options.by)
    lines = read_event_file(path)
    with Ledger.open(url) as ledger:
        claims = _claims(ledger, path, lines, by=by)
    claimed = record_claims(url, claims, at=utc_now())
    if context.options.json:
        context.write(json.dumps(_as_json(claimed), indent=2, ensure_ascii=True))
    else:
        context.write("\n".join(_told(context, path, claimed)))
    return 0


def _claims(ledger: Ledger, path: Path, lines: Sequence[EventLine], *, by: str) -> list[Claim]:
    """Return the claims of a file, one for each observation.

    Raises:
        EventFileError: lines name observations or URLs that the ledger does not hold.
    """
    keys = {line.url: set(ledger.keys_of(line.url)) for line in lines if line.url}
    wanted = {line.observation_id for line in lines} | {key for of_url in keys.values() for key in of_url}
    corpora: dict[str, str] = {}
    with_text: dict[str, list[str]] = {}
    for place in ledger.places():
        if place.observation_id in wanted or (place.has_text and place.url_key in wanted):
            corpora[place.observation_id] = place.corpus
        if place.has_text and place.url_key in wanted:
            with_text.setdefault(place.url_key, []).append(place.observation_id)
    claims: list[Claim] = []
    problems: list[str] = []
    for line in lines:
        found = list(_named(line, keys, corpora, with_text))
        if not found:
            problems.append(f"line {line.number}: {_missing(line)}")
        claims += [
            Claim(
                observation_id,
                corpora[observation_id],
                line.event_id,
                line.reason,
                line.evidence,
                line.by or by,
                line.at,
            )
            for observation_id in found
        ]
    if problems:
        raise EventFileError(path, problems)
    return claims


def _named(
    line: EventLine,
    keys: Mapping[str, set[str]],
    corpora: Mapping[str, str],
    with_text: Mapping[str, list[str]],
) -> Iterator[str]:
    """Yield the observations that a line names."""
    if line.url:
        for key in sorted(keys[line.url]):
            yield from with_text.get(key, ())
    elif line.observation_id and line.observation_id in corpora:
        yield line.observation_id


def _missing(line: EventLine) -> str:
    if line.url:
        return f"the ledger holds no text that was seen at {line.url}"
    return f"the ledger holds no observation {line.observation_id}"


def _told(context: Context, path: Path, claimed: Claimed) -> Iterator[str]:
    yield printable(f"{path}: {claimed.new:,} new, {claimed.known:,} known already")
    conflicts = claimed.conflicts
    if conflicts:
        yield f"{len(conflicts):,} new conflict(s); an observation has no event until one claim is refused:"
    for conflict in conflicts[:MAX_CONFLICTS_TOLD]:
        yield f"  {statement(conflict)}"
        for claim in claims_in_conflict(conflict):
            yield f"    refuse one: {context.command('decide', short(claim), 'different')}"
    if len(conflicts) > MAX_CONFLICTS_TOLD:
        yield f"  and {len(conflicts) - MAX_CONFLICTS_TOLD:,} more"


def _as_json(claimed: Claimed) -> dict[str, object]:
    return {
        "new": claimed.new,
        "known": claimed.known,
        "conflicts": [to_dict(conflict) for conflict in claimed.conflicts],
    }
