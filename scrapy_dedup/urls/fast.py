"""The same decisions as ``steps.py``, several times faster, for the URLs that most links are.

Four things make the difference:

- **Authorities are remembered.** ``https://Shop.example:443`` is parsed, and its rules are looked up, once
  for each spelling. IDN, ports, aliases and 400 host rules cost nothing for the second link of a host.
- **Whether anything has to be normalised is asked once**, of the whole rest of the URL, in C: a translation
  that changes every character that may need attention changes nothing in most URLs.
- **Names of parameters are remembered**: the fate of one is worked out once for each set of rules. One loop
  goes over the parameters, and they are sorted without a key; they are so few that to set up several loops
  in C would take longer. To remember shapes of whole queries does not pay: shops shuffle their facets, so
  most shapes are new.
- **Nothing is built that is there already**: an unchanged URL is its own key and its own fetch_url.

What does not fit (line breaks inside, backslashes, empty parameters) goes to the steps. No
decision about a whole URL is remembered, and what is remembered is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple, TypeVar

from scrapy_dedup.urls import names, parameters, paths, percent, query
from scrapy_dedup.urls.decision import Change, UrlDecision, Verdict
from scrapy_dedup.urls.fragments import settle_fragment
from scrapy_dedup.urls.hosts import HostRules, Place, settle_path
from scrapy_dedup.urls.rules import Rules
from scrapy_dedup.urls.steps import C0_AND_SPACE, STANDARD, Preset, decide_by_steps, take_apart

PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&*+,=:@/?)"
"""What stands for itself in every path and query; not ``%``, and not ``;([]'``, which some step looks for."""
_LEGAL = PLAIN + b"%;'([]"
"""What may stand raw; any other character has to be encoded, or to be parsed with care."""
_DELICATE = b"\\\t\n\r"
"""What the WHATWG parser reads as a slash, or not at all."""


def _marking(octets: bytes) -> bytes:
    """Return the table with which ``bytes.translate`` changes these octets and no others.

    To see whether a text comes back unchanged is the fastest way to ask whether it holds none of them.
    """
    return bytes.maketrans(octets, PLAIN[:1] * len(octets))


_MARKING_ALL_BUT_PLAIN = _marking(bytes(range(256)).translate(None, PLAIN))
_MARKING_ILLEGAL = _marking(bytes(range(256)).translate(None, _LEGAL))
_MARKING_DELICATE = _marking(_DELICATE)

_Value = TypeVar("_Value")

_MAX_AUTHORITIES = 16_384
_MAX_AUTHORITY_LENGTH = 300
_MAX_LANES = 16_384
_MAX_NAMES = 4_096  # for each lane

_ALLOW, _REWRITE, _DENY = Verdict.ALLOW, Verdict.REWRITE, Verdict.DENY
_PATH_SPELLING = (Change("percent_encoding", "path"),)
_QUERY_SPELLING = (Change("percent_encoding", "query"),)
_PATH_SESSION = (Change("session", "path"),)
_ANCHOR = (Change("fragment"),)
_DOT_SEGMENTS = (Change("dot_segments"),)
_WHITESPACE = Change("whitespace")
_KEPT_AS_GIVEN = ("unparseable", "unsupported_scheme")  # reasons under which the key is the URL as given
_SLASH = (Change("trailing_slash"),)
_QUERY_ORDER = (Change("query_order"),)
LOOK_CLOSER = Change("look_closer")
"""Stands for the fate of a parameter whose name does not decide it; it never stands in a decision."""
NAME_END = "\0"
"""Stands for ``=`` while parameters are sorted: it is less than every character of a name, so that to sort
different names is to sort the parameters as they are."""


class _Memo(dict[str, _Value]):
    """Answers about names of parameters, worked out once for each spelling; bounded by forgetting all."""

    def __init__(self, answer: Callable[[str], _Value]) -> None:
        super().__init__()
        self._answer = answer

    def __missing__(self, raw_name: str) -> _Value:
        if len(self) >= _MAX_NAMES:
            self.clear()
        value = self[raw_name] = self._answer(query.rule_name(raw_name))
        return value


class Lane:
    """The rules of one place, and what follows from them for the names of parameters.

    Attributes:
        fate: by raw name, None for a parameter that stays, and what is noted for one that a rule names;
            `LOOK_CLOSER` where it takes the rest of the parameter to know.
    """

    def __init__(self, rules: Rules, preset: Preset) -> None:
        self.rules = rules
        self.sorts = preset is STANDARD
        self.collapses_slash = rules.trailing_slash == "collapse"
        self.fragment = rules.fragment
        self.drops_anchors = rules.fragment in ("drop", "routes")
        self.reads_query = self.sorts or rules.limits_parameters
        self.splits_at_semicolon = ";" in rules.separators
        self.refuses = parameters.refuses("facet", rules)
        self.fate = _Memo(self._fate)
        self._fate_of_value = _Memo(self._judge_of_values)

    def _fate(self, name: str) -> Change | None:
        rule = self._rule(name)
        if rule != "tracking" and self._value_matters(name):
            return LOOK_CLOSER
        return Change(rule, name) if rule else None

    def _value_matters(self, name: str) -> bool:
        if not name:
            return True  # a parameter without both is none
        return name not in self.rules.keep and (
            name in self.rules.values or self._session_test(name) is not None
        )

    def _session_test(self, name: str) -> names.SessionTest | None:
        return names.session_test(name) if self.sorts else None

    def _rule(self, name: str) -> str:
        """Return the rule that a parameter falls under if no rule names its value, or ""."""
        if name in self.rules.keep:
            return ""
        if self.sorts and names.is_tracking(name):
            return "tracking"
        return parameters.host_rule(name, None, self.rules)

    def _judge_of_values(self, name: str) -> Callable[[str, Container[str]], Change | None]:
        is_session, session, rules = self._session_test(name), Change("session", name), self.rules

        def fate(value: str, folded_names: Container[str]) -> Change | None:
            value = query.rule_name(value)
            if is_session and is_session(value, folded_names):
                return session
            rule = parameters.host_rule(name, value, rules)
            return Change(rule, name) if rule else None

        return fate

    def look_closer(self, raw_name: str, part: str, folded_names: Container[str]) -> Change | None:
        """Return the fate of a parameter whose name got `LOOK_CLOSER`."""
        value = part[len(raw_name) + 1 :].replace(NAME_END, "=")
        return self._fate_of_value[raw_name](value, folded_names)


class _FoldedNames:
    """The folded names of a query; they are made only when a rule asks for them, and once."""

    __slots__ = ("_folded", "_parts")

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = parts
        self._folded: set[str] = set()

    def __contains__(self, name: object) -> bool:
        if not self._folded:
            self._folded = {names.folded(query.rule_name(_raw_name(part))) for part in self._parts}
        return name in self._folded


class Site(NamedTuple):
    """What is remembered for one spelling of an authority.

    Attributes:
        base: the key up to its path.
        changes: what the authority steps did.
        denied: the reason to deny every URL of it, or None.
        lane: the rules outside path scopes.
        place: where `settle_path` has to look; None where a path needs no more than its slash collapsed.
        policy_id: as in the decision.
    """

    base: str
    changes: tuple[Change, ...]
    denied: str | None
    lane: Lane
    place: Place | None
    policy_id: str


def _raw_name(part: str) -> str:
    return part.partition(NAME_END)[0]


def _sent_query(raw_query: str, parts: Iterable[str], kept: Iterable[str]) -> str:
    """Leave the same parameters out of a query as linked as were left out of its normal form."""
    stays = {*kept}
    return "&".join([raw for raw, part in zip(raw_query.split("&"), parts, strict=True) if part in stays])


class Memory:
    """What is remembered of the authorities and rules that were met; when it is full, all is forgotten."""

    def __init__(self, preset: Preset, hosts: HostRules) -> None:
        self._preset = preset
        self._hosts = hosts
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
            lane = self._lanes[id(rules)] = Lane(rules, self._preset)
        return lane

    def _forget(self) -> None:
        self.sites.clear()
        self._lanes.clear()

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
        if draft.sends_less:
            return None
        place, rules = draft.place, draft.rules
        plain_path = not (place.scopes or rules.deny or rules.index_files or rules.path_case != "keep")
        lane = self.lane(rules)
        changes = tuple(draft.changes)
        return Site(draft.base, changes, draft.denied, lane, None if plain_path else place, place.policy_id)


def compile_policy(  # noqa: C901, PLR0915 - it holds `decide`
    preset: Preset, hosts: HostRules
) -> Callable[[str], UrlDecision]:
    """Return the function that decides about URLs under a preset and rules for hosts; it never raises."""
    memory = Memory(preset, hosts)
    known_site, site_of, lane_of = memory.sites.get, memory.site, memory.lane
    is_standard = preset is STANDARD
    make = tuple.__new__

    def by_steps(url: str) -> UrlDecision:
        bare = url.strip(C0_AND_SPACE)
        if bare == url:
            return decide_by_steps(url, preset, hosts)
        decision = decide(bare)
        if decision.reason in _KEPT_AS_GIVEN:
            return decide_by_steps(url, preset, hosts)
        changes = (*(() if _WHITESPACE in decision.changes else (_WHITESPACE,)), *decision.changes)
        fetch_url = url if decision.fetch_url == bare else decision.fetch_url
        return decision._replace(url=url, fetch_url=fetch_url, changes=changes)

    def decide(url: str) -> UrlDecision:  # noqa: C901, PLR0911, PLR0912, PLR0915 - a call costs as much as a step
        # The authority.
        cut = url.find("/", 8)
        if not 0 < cut < _MAX_AUTHORITY_LENGTH:
            return by_steps(url)
        prefix = url[:cut]
        site = known_site(prefix) or site_of(prefix)
        if site is None:
            return by_steps(url)
        base, changes, denied, lane, place, policy_id = site

        # Does anything need a closer look?
        raw = url[cut:]
        fragment = None
        if "#" in raw:
            raw, _, fragment = raw.partition("#")
            if not fragment.isprintable() or fragment[-1:] <= " ":
                return by_steps(url)
        try:
            octets = raw.encode()
        except UnicodeEncodeError:
            return by_steps(url)
        is_plain = octets.translate(_MARKING_ALL_BUT_PLAIN) == octets
        if "?" in raw:
            raw_path, mark, raw_query = raw.partition("?")
        else:
            raw_path, mark, raw_query = raw, "", ""

        # The path.
        path = sent_path = raw_path
        if not is_plain:
            if octets.translate(_MARKING_ILLEGAL) == octets:
                spell = percent.decode_unreserved
            elif raw[-1] <= " " or octets.translate(_MARKING_DELICATE) != octets:
                return by_steps(url)
            else:
                spell = percent.normal
            path = spell(raw_path)
            if path != raw_path:
                changes += _PATH_SPELLING
        if "/." in path and paths.has_dot_segment(path):
            path = paths.remove_dot_segments(path)
            changes += _DOT_SEGMENTS
        if not is_plain and is_standard and (";" in raw_path or "/(" in raw_path):
            stripped = paths.strip_sessions(path)
            sent_path = stripped if path == raw_path else paths.strip_sessions(raw_path)
            if stripped != path:
                changes += _PATH_SESSION
                path = stripped
        if place:
            path, rules, edits = settle_path(place, path)
            changes += edits
            lane = lane_of(rules)
            for glob in rules.deny:
                if glob.matches(path):
                    denied = denied or "denied"
                    changes += (Change("denied", glob.pattern),)
                    break
        elif path[-1] == "/" and lane.collapses_slash and path != "/" and path[-2] != "/":
            path = path[:-1]
            changes += _SLASH

        # The query.
        text = sent_query = raw_query
        if mark:
            if not is_plain:
                text = spell(raw_query)
                if "'" in text:
                    text = text.replace("'", "%27")
                if is_standard:
                    text = query.loose(text)
                if text != raw_query:
                    changes += _QUERY_SPELLING
            if lane.reads_query:
                if lane.splits_at_semicolon:
                    return by_steps(url)
                parts = text.replace("=", NAME_END).split("&")
                fate_of = lane.fate
                raw_names: list[str] = []
                kept: list[str] = []
                noted: list[Change] = []
                folded_names: _FoldedNames | None = None
                for part in parts:
                    raw_name = part.partition(NAME_END)[0]
                    raw_names.append(raw_name)
                    fate = fate_of[raw_name]
                    if fate is LOOK_CLOSER:
                        if not part:
                            return by_steps(url)
                        folded_names = folded_names or _FoldedNames(parts)
                        fate = lane.look_closer(raw_name, part, folded_names)
                    if fate is None:
                        kept.append(part)
                        continue
                    noted.append(fate)
                    if lane.refuses and parameters.refuses(fate.rule, lane.rules):
                        denied = denied or fate.rule
                        kept.append(part)
                if noted:
                    changes += tuple(noted)
                    if len(kept) < len(parts):
                        as_linked = text == raw_query
                        text = "&".join(kept).replace(NAME_END, "=")
                        sent_query = text if as_linked else _sent_query(raw_query, parts, kept)
                        mark = "?" if text else ""
                if len(kept) > 1 and lane.sorts:
                    ordered = sorted(kept)
                    if ordered != kept:
                        if len({*raw_names}) < len(parts):
                            ordered = sorted(kept, key=_raw_name)  # equal names keep their order
                        if ordered != kept:
                            text = "&".join(ordered).replace(NAME_END, "=")
                            changes += _QUERY_ORDER
            elif not raw_query or lane.splits_at_semicolon:
                return by_steps(url)

        # The fragment, and all together.
        key_fragment = None
        if fragment is not None:
            if lane.drops_anchors and fragment[0] not in "!/":
                changes += _ANCHOR
            else:
                key_fragment, edits = settle_fragment(fragment, lane.fragment)
                changes += edits
        if not changes:
            return make(UrlDecision, (url, url, url, _ALLOW, None, changes, policy_id))
        key = f"{base}{path}{mark}{text}"
        if key_fragment is not None:
            key = f"{key}#{key_fragment}"
        if denied:
            return make(UrlDecision, (url, key, url, _DENY, denied, changes, policy_id))
        if sent_query == raw_query and sent_path == raw_path:
            return make(UrlDecision, (url, key, url, _ALLOW, None, changes, policy_id))
        fetch_url = f"{prefix}{sent_path}{mark}{sent_query}{'' if fragment is None else f'#{fragment}'}"
        if fetch_url[-1] <= " ":
            return by_steps(url)
        return make(UrlDecision, (url, key, fetch_url, _REWRITE, None, changes, policy_id))

    return decide
