"""How the many URLs of one key are kept within bounds without losing their number. Pure.

Notes are aggregated by (key, raw URL, rule). For one job and one key at most `MAX_RAW_URLS` distinct raw URLs
are kept; all others count in a single overflow row of the key.

A note comes from whatever a page or a spider's request says, and nobody waits for it: what does not fit into
the ledger's columns is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scrapy_dedup.ledger.codec import MAX_INT32
from scrapy_dedup.records import AliasRecord

MAX_RAW_URLS = 100
OVERFLOW_RULE = "overflow"

AliasKey = tuple[str, str, str]


def alias_key(alias: AliasRecord) -> AliasKey:
    """Return what makes two notes the same alias: key, raw URL, rule."""
    return alias.url_key, alias.raw_url, alias.rule


def storable(alias: AliasRecord) -> AliasRecord:
    """Return the note without a depth that no engine can hold."""
    depth: object = alias.depth
    if depth is None or (isinstance(depth, int) and abs(depth) <= MAX_INT32):
        return alias
    return replace(alias, depth=None)


def overflow_of(alias: AliasRecord) -> AliasRecord:
    """Return the row that counts the aliases of a key beyond the bound; it names no URL."""
    return replace(alias, raw_url="", fetch_url="", rule=OVERFLOW_RULE, referrer_url=None, depth=None)


@dataclass(slots=True)
class _Waiting:
    """The rows of one key that wait, in first-seen order, and the raw URLs seen since the first of them."""

    rows: dict[AliasKey, None] = field(default_factory=dict)
    raw_urls: set[str] = field(default_factory=set)


class AliasCounter:
    """Aggregates notes of one job in bounded memory; first-seen order is kept, and so is the total.

    Of one key at most `MAX_RAW_URLS` raw URLs wait. Once ``max_rows`` rows wait, a further one is counted in
    the overflow row of its key, and once ``2 * max_rows`` wait, in one overflow row without a key.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._rows: dict[AliasKey, AliasRecord] = {}
        self._keys: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, alias: AliasRecord) -> None:
        """Count one note."""
        alias = self._within_bounds(alias)
        key = alias_key(alias)
        held = self._rows.get(key)
        if held is not None:
            self._rows[key] = replace(held, count=held.count + alias.count)
            return
        self._rows[key] = alias
        waiting = self._keys.setdefault(alias.url_key, _Waiting())
        waiting.rows[key] = None
        if alias.rule != OVERFLOW_RULE:
            waiting.raw_urls.add(alias.raw_url)

    def take(self, limit: int | None) -> list[AliasRecord]:
        """Return the oldest rows, at most ``limit`` of them, and forget them."""
        return [self._taken(key) for key in list(itertools.islice(self._rows, limit))]

    def take_of(self, url_keys: Iterable[str]) -> list[AliasRecord]:
        """Return the rows of some keys, and forget them."""
        waiting = [self._keys[url_key] for url_key in dict.fromkeys(url_keys) if url_key in self._keys]
        return [self._taken(key) for one in waiting for key in list(one.rows)]

    def _within_bounds(self, alias: AliasRecord) -> AliasRecord:
        if alias_key(alias) in self._rows:
            return alias
        waiting = self._keys.get(alias.url_key)
        is_full = (
            waiting is not None
            and len(waiting.raw_urls) >= MAX_RAW_URLS
            and alias.raw_url not in waiting.raw_urls
        )
        if is_full or len(self._rows) >= self._max_rows:
            alias = overflow_of(alias)
        if alias_key(alias) not in self._rows and len(self._rows) >= 2 * self._max_rows:
            return replace(overflow_of(alias), url_key="")
        return alias

    def _taken(self, key: AliasKey) -> AliasRecord:
        row = self._rows.pop(key)
        waiting = self._keys[row.url_key]
        del waiting.rows[key]
        if not waiting.rows:  # what the ledger holds bounds the key from here on
            del self._keys[row.url_key]
        return row


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
