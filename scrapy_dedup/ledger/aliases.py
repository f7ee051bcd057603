"""How the many URLs of one key are kept within bounds without losing their number. Pure.

Notes are aggregated by (key, raw URL, rule). For one job and one key at most `MAX_RAW_URLS` distinct raw URLs
are kept; all others count in a single overflow row of the key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scrapy_dedup.records import AliasRecord

MAX_RAW_URLS = 100
OVERFLOW_RULE = "overflow"

AliasKey = tuple[str, str, str]


def alias_key(alias: AliasRecord) -> AliasKey:
    """Return what makes two notes the same alias: key, raw URL, rule."""
    return alias.url_key, alias.raw_url, alias.rule


def overflow_of(alias: AliasRecord) -> AliasRecord:
    """Return the row that counts the aliases of a key beyond the bound; it names no URL."""
    return replace(alias, raw_url="", fetch_url="", rule=OVERFLOW_RULE, referrer_url=None, depth=None)


class AliasCounter:
    """Aggregates notes of one job, bounded for each key; first-seen order is kept."""

    def __init__(self) -> None:
        self._rows: dict[AliasKey, AliasRecord] = {}
        self._raw_urls: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, alias: AliasRecord) -> None:
        """Count one note."""
        raw_urls = self._raw_urls.setdefault(alias.url_key, set())
        if alias.raw_url not in raw_urls and alias.rule != OVERFLOW_RULE:
            if len(raw_urls) >= MAX_RAW_URLS:
                alias = overflow_of(alias)
            else:
                raw_urls.add(alias.raw_url)
        held = self._rows.get(alias_key(alias))
        self._rows[alias_key(alias)] = (
            alias if held is None else replace(held, count=held.count + alias.count)
        )

    def take(self, limit: int | None) -> list[AliasRecord]:
        """Return the oldest rows, at most ``limit`` of them, and forget them."""
        keys = list(itertools.islice(self._rows, limit))
        rows = [self._rows.pop(key) for key in keys]
        self._raw_urls.clear()  # the ledger bounds them over the whole job; this only bounds what waits
        return rows


@dataclass(slots=True)
class AliasPlan:
    """The writes for a group of notes: rows to insert, and counts to add to held rows by their ordinal."""

    inserts: list[AliasRecord] = field(default_factory=list)
    additions: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class HeldAliases:
    """What the ledger holds for the keys at hand: ordinals by alias, raw URL digests by key."""

    ordinals: dict[tuple[bytes, bytes, str], int] = field(default_factory=dict)
    raw_urls: dict[bytes, set[bytes]] = field(default_factory=dict)


def plan_aliases(held: HeldAliases, notes: Iterable[tuple[bytes, bytes, AliasRecord]]) -> AliasPlan:
    """Return the writes for ``notes``, each given as (digest of its key, digest of its raw URL, note)."""
    plan = AliasPlan()
    fresh: dict[tuple[bytes, bytes, str], int] = {}
    for key, raw, note in notes:
        identity, row = _within_bound(held, key, raw, note)
        if identity in held.ordinals:
            ordinal = held.ordinals[identity]
            plan.additions[ordinal] = plan.additions.get(ordinal, 0) + row.count
        elif identity in fresh:
            place = fresh[identity]
            plan.inserts[place] = replace(plan.inserts[place], count=plan.inserts[place].count + row.count)
        else:
            fresh[identity] = len(plan.inserts)
            plan.inserts.append(row)
    return plan


def _within_bound(
    held: HeldAliases, key: bytes, raw: bytes, note: AliasRecord
) -> tuple[tuple[bytes, bytes, str], AliasRecord]:
    raw_urls = held.raw_urls.setdefault(key, set())
    if note.rule != OVERFLOW_RULE and raw not in raw_urls:
        if len(raw_urls) >= MAX_RAW_URLS:
            return (key, b"", OVERFLOW_RULE), overflow_of(note)
        raw_urls.add(raw)
    return (key, b"" if note.rule == OVERFLOW_RULE else raw, note.rule), note
