"""The same decisions as ``steps.py``, several times faster, for the URLs that most links are.

Four things make the difference:

- **Authorities are remembered.** ``https://Shop.example:443`` is parsed, and its rules are looked up, once for each
  spelling. IDN, ports, aliases and 400 host rules cost nothing for the second link of a host.
- **Whether anything has to be normalised is asked once**, of the whole rest of the URL, in C:
  ``bytes.translate(None, PLAIN)`` deletes the characters that need no attention, and the residue of most URLs is empty.
- **Shapes of queries are remembered.** Which parameters go, which rule says so and how the rest is sorted depends on the
  names alone, so it is a `Plan` that is made once for each tuple of names. Where a value matters (``sid``), the outcome
  of its test becomes part of the shape.
- **Nothing is built that is there already**: an unchanged URL is its own key and its own fetch_url.

Whatever does not fit (whitespace, dot segments, backslashes, credentials, empty parameters, very long URLs) goes to the
steps. No decision about a whole URL is remembered, and what is remembered is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from scrapy_dedup.urls import names, parameters, paths, percent, query
from scrapy_dedup.urls.decision import Change, UrlDecision, Verdict
from scrapy_dedup.urls.fragments import settle_fragment
from scrapy_dedup.urls.hosts import HostRules, Place, settle_path
from scrapy_dedup.urls.rules import Rules
from scrapy_dedup.urls.steps import STANDARD, Preset, decide_by_steps, take_apart

PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&*+,=:@/?)"
"""What stands for itself in every path and query; not ``%``, and not ``;([]'``, which some step looks for."""
_LEGAL = b"%;'([]"
"""What else may stand raw; any other character has to be encoded, or to be parsed with care."""
_needs_care = re.compile(r"[\\\t\n\r]|[\x00-\x20]\Z").search

_MAX_AUTHORITIES = 16_384
_MAX_AUTHORITY_LENGTH = 300
_MAX_LANES = 16_384
_MAX_FATES = 4_096  # names, for each set of rules
_MAX_PLANS = 16_384
_MAX_QUERY_LENGTH = 2_000  # a plan remembers the names of one query

_ALLOW, _REWRITE, _DENY = Verdict.ALLOW, Verdict.REWRITE, Verdict.DENY
_PATH_SPELLING = (Change("percent_encoding", "path"),)
_QUERY_SPELLING = (Change("percent_encoding", "query"),)
_PATH_SESSION = (Change("session", "path"),)
_SLASH = (Change("trailing_slash"),)
_QUERY_ORDER = (Change("query_order"),)

_Parts = Sequence[str]
_Pick = Callable[[_Parts], _Parts]


class Plan(NamedTuple):
    """What is to be done with queries of one shape.

    Attributes:
        for_key: picks the parameters of the key in their order; None when it is all of them as they stand.
        to_send: picks the parameters that are sent; None when it is all of them.
        changes: what the plan does.
        denied: the reason to deny the URL, or None.
        tested: the places of the parameters whose value matters; the plan itself is then another one, see `Lane`.
    """

    for_key: _Pick | None
    to_send: _Pick | None
    changes: tuple[Change, ...]
    denied: str | None
    tested: tuple[int, ...]


class Plans:
    """All plans of a policy, counted together so that their number is bounded."""

    def __init__(self) -> None:
        self._count = 0
        self._tables: list[dict[Any, Plan]] = []

    def new_table(self) -> dict[Any, Plan]:
        """Return an empty table from shapes to plans."""
        table: dict[Any, Plan] = {}
        self._tables.append(table)
        return table

    def remember(self, table: dict[Any, Plan], shape: object, plan: Plan) -> Plan:
        """Add a plan to its table; when there are too many of them, all are forgotten."""
        self._count += 1
        if self._count > _MAX_PLANS:
            for full in self._tables:
                full.clear()
            self._count = 1
        table[shape] = plan
        return plan


class Fate(NamedTuple):
    """What becomes of the parameters of one name.

    Attributes:
        rule: the rule that they fall under, or "".
        changes: what that rule notes.
        goes: whether they are left out.
        tested: whether all this depends on the value; then the rest is as for a value that no rule names.
    """

    rule: str
    changes: tuple[Change, ...]
    goes: bool
    tested: bool


class Lane:
    """The rules of one place, with what follows from them for names and for shapes of queries."""

    def __init__(self, rules: Rules, preset: Preset, plans: Plans) -> None:
        self.rules = rules
        self.sorts = preset is STANDARD
        self.collapses_slash = rules.trailing_slash == "collapse"
        self.fragment = rules.fragment
        self.reads_query = self.sorts or rules.limits_parameters
        self.splits_at_semicolon = ";" in rules.separators
        self._rejects = rules.on_disallowed == "reject"
        self._fates: dict[str, Fate] = {}
        self._plans = plans
        self._table = plans.new_table()
        self.plan_of = self._table.get

    def new_plan(self, shape: tuple[str, ...]) -> Plan:
        """Make and remember the plan for the names of a query."""
        fates = [self._fates.get(name) or self._new_fate(name) for name in shape]
        tested = tuple([place for place, fate in enumerate(fates) if fate.tested])
        plan = Plan(None, None, (), None, tested) if tested else self._plan(shape, fates)
        return self._plans.remember(self._table, shape, plan)

    def plan_for_values(self, shape: tuple[str, ...], parts: _Parts, tested: tuple[int, ...]) -> Plan:
        """Return the plan for a query in which the values of some parameters matter."""
        folded = _FoldedNames(shape)
        hits = tuple(
            [self._rule_hit(shape[place], parts[place].partition("=")[2], folded) for place in tested]
        )
        plan = self._table.get((shape, hits))
        if plan is None:
            fates = [self._fates.get(name) or self._new_fate(name) for name in shape]
            for place, rule in zip(tested, hits, strict=True):
                fates[place] = self._fate(shape[place], rule)
            plan = self._plans.remember(self._table, (shape, hits), self._plan(shape, fates))
        return plan

    def _new_fate(self, name: str) -> Fate:
        spelled = query.rule_name(name)
        matters = spelled in self.rules.values or (self.sorts and names.may_be_session(spelled))
        fate = self._fate(
            name, self._rule_hit(name, None, ()), tested=matters and spelled not in self.rules.keep
        )
        if len(self._fates) >= _MAX_FATES:
            self._fates.clear()
        self._fates[name] = fate
        return fate

    def _fate(self, name: str, rule: str, *, tested: bool = False) -> Fate:
        changes = (Change(rule, query.rule_name(name)),) if rule else ()
        return Fate(rule, changes, bool(rule) and not (self._rejects and rule == "facet"), tested)

    def _rule_hit(self, name: str, value: str | None, folded: Container[str]) -> str:
        """Return the rule that a parameter falls under, or ""; a value of None is one that no rule names."""
        name = query.rule_name(name)
        value = value and query.rule_name(value)
        if name in self.rules.keep:
            return ""
        universal = parameters.universal_rule(name, value or "", folded) if self.sorts else ""
        return universal or parameters.host_rule(name, value, self.rules)

    def _plan(self, shape: _Parts, fates: Sequence[Fate]) -> Plan:
        kept = [place for place, fate in enumerate(fates) if not fate.goes]
        ordered = sorted(kept, key=shape.__getitem__) if self.sorts else kept
        return Plan(
            for_key=None if ordered == kept and len(kept) == len(shape) else _pick(ordered),
            to_send=None if len(kept) == len(shape) else _pick(kept),
            changes=_changes(fates) + (_QUERY_ORDER if ordered != kept else ()),
            denied="facet" if self._rejects and any(fate.rule == "facet" for fate in fates) else None,
            tested=(),
        )


def _changes(fates: Sequence[Fate]) -> tuple[Change, ...]:
    """Return what the rules of the fates note; the universal ones act first."""
    hit = [fate for fate in fates if fate.rule]
    hit.sort(key=lambda fate: fate.rule not in parameters.UNIVERSAL)
    return tuple([change for fate in hit for change in fate.changes])


class _FoldedNames:
    """The folded names of a query; they are made only when a rule asks for them."""

    def __init__(self, shape: _Parts) -> None:
        self._shape = shape

    def __contains__(self, name: object) -> bool:
        return name in {names.folded(query.rule_name(raw)) for raw in self._shape}


def _pick(places: Sequence[int]) -> _Pick:
    if len(places) > 1:
        return itemgetter(*places)  # a tuple, in one call
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))


class Site(NamedTuple):
    """What is remembered for one spelling of an authority.

    Attributes:
        base: the key up to its path.
        changes: what the authority steps did.
        lane: the rules outside path scopes.
        place: where `settle_path` has to look; None where a path needs no more than its slash collapsed.
        policy_id: as in the decision.
    """

    base: str
    changes: tuple[Change, ...]
    lane: Lane
    place: Place | None
    policy_id: str


class Memory:
    """What is remembered of the authorities and rules that were met; when it is full, all is forgotten."""

    def __init__(self, preset: Preset, hosts: HostRules) -> None:
        self._preset = preset
        self._hosts = hosts
        self._plans = Plans()
        self._lanes: dict[int, Lane] = {}
        self.sites: dict[str, Site | None] = {}

    def site(self, prefix: str) -> Site | None:
        """Return the site of an authority; None if the steps have to take its URLs."""
        if prefix not in self.sites:
            if len(self.sites) >= _MAX_AUTHORITIES:
                self._forget()
            self.sites[prefix] = self._parse(prefix)
        return self.sites[prefix]

    def lane(self, rules: Rules) -> Lane:
        """Return the lane of rules; a lane holds its rules, so that their identity is not used again."""
        lane = self._lanes.get(id(rules))
        if lane is None:
            if len(self._lanes) >= _MAX_LANES:
                self._forget()
            lane = self._lanes[id(rules)] = Lane(rules, self._preset, self._plans)
        return lane

    def _forget(self) -> None:
        self.sites.clear()
        self._lanes.clear()
        self._plans = Plans()

    def _parse(self, prefix: str) -> Site | None:
        try:
            draft = take_apart(f"{prefix}/", self._hosts)
            if (
                draft.changes
                or draft.raw_path != "/"
                or draft.query is not None
                or draft.fragment is not None
            ):
                return None
            for step in self._preset.authority_steps:
                step(draft)
        except ValueError:
            return None
        if draft.denied or draft.sends_less:
            return None
        place, rules = draft.place, draft.rules
        plain_path = not (place.scopes or rules.deny or rules.index_files or rules.path_case != "keep")
        lane = self.lane(rules)
        return Site(draft.base, tuple(draft.changes), lane, None if plain_path else place, place.policy_id)


def compile_policy(preset: Preset, hosts: HostRules) -> Callable[[str], UrlDecision]:
    """Return the function that decides about URLs under a preset and rules for hosts; it never raises."""
    memory = Memory(preset, hosts)
    known_site, site_of, lane_of = memory.sites.get, memory.site, memory.lane
    is_standard = preset is STANDARD
    make = tuple.__new__

    def by_steps(url: str) -> UrlDecision:
        return decide_by_steps(url, preset, hosts)

    def decide(url: str) -> UrlDecision:  # noqa: C901, PLR0911, PLR0912, PLR0915 - a call costs as much as a step
        # The authority.
        cut = url.find("/", 8)
        if not 0 < cut < _MAX_AUTHORITY_LENGTH:
            return by_steps(url)
        prefix = url[:cut]
        site = known_site(prefix) or site_of(prefix)
        if site is None:
            return by_steps(url)
        base, changes, lane, place, policy_id = site

        # Does anything need a closer look?
        raw = url[cut:]
        fragment = None
        if "#" in raw:
            raw, _, fragment = raw.partition("#")
            if not fragment.isprintable() or fragment[-1:] <= " ":
                return by_steps(url)
        try:
            residue = raw.encode().translate(None, PLAIN)
        except UnicodeEncodeError:
            return by_steps(url)
        illegal = residue and residue.translate(None, _LEGAL)
        if "/." in raw or (illegal and _needs_care(raw)):
            return by_steps(url)
        raw_path, mark, raw_query = raw.partition("?")

        # The path.
        path, sent_path = raw_path, raw_path
        if residue:
            path = percent.decode_unreserved(raw_path)
            if illegal:
                path = percent.encode_forbidden(path)
            if path != raw_path:
                if "/." in path:
                    return by_steps(url)
                changes += _PATH_SPELLING
            if is_standard and (";" in path or "/(" in path):
                stripped = paths.strip_sessions(path)
                if stripped != path:
                    changes += _PATH_SESSION
                    path, sent_path = stripped, paths.strip_sessions(raw_path)
        denied = None
        if place:
            path, rules, edits = settle_path(place, path)
            changes += edits
            lane = lane_of(rules)
            for glob in rules.deny:
                if glob.matches(path):
                    denied = "denied"
                    changes += (Change("denied", glob.pattern),)
                    break
        elif path[-1] == "/" and lane.collapses_slash and path != "/" and path[-2] != "/":
            path = path[:-1]
            changes += _SLASH

        # The query.
        text, sent_query = raw_query, raw_query
        if mark:
            if residue:
                text = percent.decode_unreserved(raw_query)
                if illegal:
                    text = percent.encode_forbidden(text)
                if b"'" in residue:
                    text = text.replace("'", "%27")
                if is_standard:
                    text = query.loose(text)
                if text != raw_query:
                    changes += _QUERY_SPELLING
            if lane.reads_query:
                parts = text.split("&")
                if "" in parts or lane.splits_at_semicolon or len(text) > _MAX_QUERY_LENGTH:
                    return by_steps(url)
                shape = tuple([part.partition("=")[0] for part in parts])
                plan = lane.plan_of(shape) or lane.new_plan(shape)
                if plan.tested:
                    plan = lane.plan_for_values(shape, parts, plan.tested)
                for_key, to_send, hits, rejected, _ = plan
                changes += hits
                denied = denied or rejected
                if for_key:
                    text = "&".join(for_key(parts))
                    if not text:
                        mark = ""
                if to_send:
                    sent_query = "&".join(to_send(raw_query.split("&")))
            elif not raw_query or lane.splits_at_semicolon:
                return by_steps(url)

        # The fragment, and all together.
        key_fragment = None
        if fragment is not None:
            key_fragment, edits = settle_fragment(fragment, lane.fragment)
            changes += edits
        if not changes:
            return make(UrlDecision, (url, url, url, _ALLOW, None, changes, policy_id))
        key = (
            f"{base}{path}{mark}{text}"
            if key_fragment is None
            else f"{base}{path}{mark}{text}#{key_fragment}"
        )
        if denied:
            return make(UrlDecision, (url, key, url, _DENY, denied, changes, policy_id))
        if sent_query == raw_query and sent_path == raw_path:
            return make(UrlDecision, (url, key, url, _ALLOW, None, changes, policy_id))
        fetch_url = f"{prefix}{sent_path}{mark}{sent_query}{'' if fragment is None else f'#{fragment}'}"
        if fetch_url[-1] <= " ":
            return by_steps(url)
        return make(UrlDecision, (url, key, fetch_url, _REWRITE, None, changes, policy_id))

    return decide
