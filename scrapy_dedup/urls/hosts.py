"""Which rules hold for a host: patterns are read and checked as a whole, then looked up.

Patterns are ``shop.example`` (this host), ``*.shop.example`` (its subdomains) and ``.shop.example`` (both),
each with an optional ``:port``. They apply from the widest to the exact host, and for one host those with a
port after those without; each overrides the keys that it names, and path scopes add up.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scrapy_dedup.urls import paths
from scrapy_dedup.urls.authority import DEFAULT_PORTS, normal_host, split_authority
from scrapy_dedup.urls.decision import Change
from scrapy_dedup.urls.domains import is_public_suffix, site_of
from scrapy_dedup.urls.paths import Glob
from scrapy_dedup.urls.rules import Rules, Table, problems_of_host

_MAX_HOST_LENGTH = 254  # a DNS name has at most 253 characters (RFC 1035 2.3.4) and perhaps a final dot
_Row = tuple["HostPattern", Table]
_MAX_COMBINATIONS = 1024  # of path scopes, for each host
_MAX_PLACES = 16_384  # hosts remembered with their rules
_ALIASES = ("scheme_alias", "www_alias")


class HostPattern(NamedTuple):
    """A host pattern as parsed; ``covers`` says whether the host, its subdomains or both are meant."""

    host: str
    port: int | None
    covers_host: bool
    covers_subdomains: bool

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Read a pattern.

        >>> HostPattern.parse("*.Shop.example:8080")
        HostPattern(host='shop.example', port=8080, covers_host=False, covers_subdomains=True)

        Raises:
            ValueError: it is no pattern; the message says why.
        """
        below = text.startswith("*.")
        both = text.startswith(".")
        try:
            raw = split_authority(text[2 * below + both :])
            host = normal_host(raw.host).removesuffix(".")
            port = int(raw.port[1:]) if raw.port[1:] else None
        except ValueError as error:
            msg = (
                "is no host pattern: write shop.example, *.shop.example or .shop.example, perhaps with :port"
            )
            raise ValueError(msg) from error
        if raw.userinfo or "*" in host or "/" in text or not host:
            msg = "is no host pattern: '*' stands for whole subdomains only; no scheme, user or path"
            raise ValueError(msg)
        if (below or both) and is_public_suffix(host):
            msg = f"covers the public suffix {host!r}, and so the sites of unrelated owners"
            raise ValueError(msg)
        return cls(host, port, not below, below or both)


@dataclass(frozen=True, slots=True)
class PathScope:
    """Rules that hold below a path only."""

    glob: Glob
    table: Table


class Place(NamedTuple):
    """All that is known about a host before a URL's path is looked at.

    Attributes:
        scheme, host, port: those of the key, after the aliases.
        rules: the rules of the host outside every path scope.
        policy_id: digest of the preset and of the rules that apply here.
        scopes: the rules that depend on the path, or None.
    """

    scheme: str
    host: str
    port: int | None
    rules: Rules
    policy_id: str
    scopes: Scopes | None


class Scopes:
    """The path scopes of one host: finds the rules that hold for a path, and builds each combination once."""

    def __init__(self, table: Table) -> None:
        self._host_table = table
        self._scopes = sorted(map(_scope, table["paths"]), key=lambda scope: scope.glob.specificity)
        self._rules: dict[tuple[int, ...], Rules] = {}

    def rules(self, path: str) -> Rules:
        """Return the rules for a path in normal form; the longest pattern has the last word."""
        covering = tuple([number for number, scope in enumerate(self._scopes) if scope.glob.matches(path)])
        if covering not in self._rules:
            if len(self._rules) >= _MAX_COMBINATIONS:
                self._rules.clear()
            table = dict(self._host_table)
            for number in covering:
                table.update(self._scopes[number].table)
            self._rules[covering] = Rules.from_table(table)
        return self._rules[covering]


def pattern_problems(hosts: Mapping[object, object]) -> Iterator[str]:
    """Yield a sentence for each fault in a table of host patterns."""
    seen: dict[HostPattern, str] = {}
    for text, table in hosts.items():
        where = f"hosts[{text!r}]"
        yield from problems_of_host(table, where)
        if not isinstance(text, str):
            yield f"{where}: the host pattern must be text"
            continue
        try:
            pattern = HostPattern.parse(text)
        except ValueError as error:
            yield f"{where} {error}"
            continue
        if pattern in seen:
            yield f"{where} is the same pattern as {seen[pattern]!r}"
        seen.setdefault(pattern, text)
        if pattern.port is not None and isinstance(table, dict):
            yield from (
                f"{where}.{key} joins hosts on any port, so its pattern cannot name one"
                for key in _ALIASES
                if key in table
            )


class HostRules:
    """The rules of all hosts of a policy, ready to be looked up."""

    def __init__(self, preset_id: str, defaults: Table, hosts: Mapping[str, Table]) -> None:
        self._preset_id = preset_id
        self.default_policy_id = digest_id(preset_id, {})
        self._defaults = defaults
        self._rules: dict[str, tuple[Rules, str]] = {}
        self._by_host: dict[str, list[_Row]] = defaultdict(list)
        for text, table in hosts.items():
            pattern = HostPattern.parse(text)
            self._by_host[pattern.host].append((pattern, table))
        for rows in self._by_host.values():
            rows.sort(key=_width)
        self._places: dict[tuple[str, str, int | None], Place] = {}

    def place(self, scheme: str, host: str, port: int | None) -> Place:
        """Return the place that a URL's scheme, host and port (None for the default) lead to."""
        address = (scheme, host, port)
        place = self._places.get(address)
        if place is None:
            if len(self._places) >= _MAX_PLACES:
                self._places.clear()
            place = self._places[address] = self._find_place(*address)
        return place

    def _find_place(self, scheme: str, host: str, port: int | None) -> Place:
        name = host.removesuffix(".")
        twins = (name.removeprefix("www."), f"www.{name.removeprefix('www.')}")
        rows = {twin: self._rows(twin) for twin in twins}
        if not any(rows.values()):
            return Place(scheme, host, port, *self._rules_of({}), None)
        hosts: tuple[str, ...] = (name,)
        if _merged(rows, twins, ()).get("www_alias") and site_of(twins[0]):  # www.com is not com
            hosts = twins
        ports: tuple[int, ...] = (DEFAULT_PORTS[scheme] if port is None else port,)
        if port is None and _merged(rows, hosts, ()).get("scheme_alias"):
            scheme, ports = "https", tuple(DEFAULT_PORTS.values())
        table = _merged(rows, hosts, ports)
        rules, policy_id = self._rules_of(table)
        scopes = Scopes({**self._defaults, **table}) if "paths" in table else None
        return Place(scheme, hosts[0] + host[len(name) :], port, rules, policy_id, scopes)

    def _rules_of(self, table: Table) -> tuple[Rules, str]:
        """Return the rules of a table and their policy id; equal tables share them."""
        text = canonical_json(table) if table else ""
        known = self._rules.get(text)
        if known is None:
            if len(self._rules) >= _MAX_PLACES:
                self._rules.clear()
            known = Rules.from_table({**self._defaults, **table}), digest_id(self._preset_id, table)
            self._rules[text] = known
        return known

    def _rows(self, host: str) -> list[_Row]:
        """Return the patterns that cover a host on some port, the widest first."""
        if not self._by_host or len(host) > _MAX_HOST_LENGTH:
            return []
        rows: list[_Row] = []
        labels = host.split(".")
        for start in range(len(labels) - 1, -1, -1):
            at_name = self._by_host.get(".".join(labels[start:]))
            if at_name:  # few names have a pattern
                rows += [
                    row for row in at_name if (row[0].covers_subdomains if start else row[0].covers_host)
                ]
        return rows


def _merged(rows: Mapping[str, Sequence[_Row]], hosts: Sequence[str], ports: Sequence[int]) -> Table:
    """Return the rules that hold for hosts on ports as one table; path scopes add up."""
    merged: Table = {}
    scopes: list[Table] = []
    for host in hosts:
        for pattern, table in rows[host]:
            if pattern.port is None or pattern.port in ports:
                merged.update(table)
                scopes.extend([scope for scope in table.get("paths", ()) if scope not in scopes])
    return {**merged, "paths": scopes} if scopes else merged


def _width(row: _Row) -> tuple[bool, bool, bool]:
    """Sort ``.h`` before ``*.h`` before ``h``, and each before the same with a port."""
    pattern, _ = row
    covers_both = pattern.covers_host and pattern.covers_subdomains
    return not covers_both, pattern.covers_host, pattern.port is not None


def _scope(table: Table) -> PathScope:
    return PathScope(Glob(table["path"]), {key: value for key, value in table.items() if key != "path"})


def digest_id(preset_id: str, rules: object) -> str:
    """Return the id of a preset together with rules: the preset and 16 digits of their canonical JSON."""
    return f"{preset_id}:{hashlib.sha256(canonical_json([preset_id, rules]).encode()).hexdigest()[:16]}"


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def settle_path(place: Place, path: str) -> tuple[str, Rules, tuple[Change, ...]]:
    """Apply the path rules of a place until nothing changes; return the path, its rules and the changes.

    Rules can move a path into another scope, and the scope that counts is that of the path that results: so
    the key of a key is found under the same rules. Each round makes the path shorter or folds more of it, so
    it ends.
    """
    changes: list[Change] = []
    while True:
        rules = place.scopes.rules(path) if place.scopes else place.rules
        edited = path
        for edit in _PATH_EDITS:
            before, (edited, change) = edited, edit(edited, rules)
            if edited != before and change not in changes:
                changes.append(change)
        if edited == path:
            return path, rules, tuple(changes)
        path = edited


def _fold_case(path: str, rules: Rules) -> tuple[str, Change]:
    return (paths.lower_case(path) if rules.path_case == "lower" else path), Change("path_case")


def _leave_out_index(path: str, rules: Rules) -> tuple[str, Change]:
    edited = paths.without_index(path, rules.index_files) if rules.index_files else path
    return edited, Change("index_file", path[len(edited) :])


def _collapse_slash(path: str, rules: Rules) -> tuple[str, Change]:
    return (paths.collapse_slash(path) if rules.trailing_slash == "collapse" else path), Change(
        "trailing_slash"
    )


_PATH_EDITS = (_fold_case, _leave_out_index, _collapse_slash)
