"""The two presets as lists of small named steps: this module says what the policy means.

A URL is taken apart into a `Draft`, each step changes the draft and notes what it did, and the draft is put
together again twice: as the key, and as the URL to fetch. ``fast.py`` computes the same for the ordinary
shapes of URLs; a test holds that the two agree.

Three properties follow from the order of the steps, and tests hold them: a key's key is itself; the key of
fetch_url is the key; and `standard` after `conservative` is `standard`, because it only adds steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scrapy_dedup.urls import names, parameters, paths, percent, query
from scrapy_dedup.urls.authority import (
    ends_in_number,
    normal_host,
    normal_port,
    normal_userinfo,
    split_authority,
)
from scrapy_dedup.urls.decision import Change, UrlDecision, Verdict
from scrapy_dedup.urls.fragments import settle_fragment
from scrapy_dedup.urls.hosts import HostRules, Place, settle_path
from scrapy_dedup.urls.rules import Rules, Table

C0_AND_SPACE = "".join(map(chr, range(0x21)))
"""What the WHATWG parser strips from both ends of its input."""
_TABS_AND_BREAKS = re.compile("[\t\n\r]+")
_SEPARATORS = {chars: re.compile(f"([{chars}])") for chars in ("&", ";", "&;")}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class UnsupportedScheme(ValueError):
    """The URL is for another scheme than http and https; the message is that scheme."""


@dataclass(slots=True)
class Parameter:
    """What stands between two separators of a query: as linked, and in normal form."""

    raw: str
    raw_separator: str  # the one before it; "" for the first
    text: str
    dropped: bool = False

    @property
    def name(self) -> str:
        """The name in the spelling of rules."""
        return query.name_of(self.text)

    @property
    def value(self) -> str:
        """The value in the spelling of rules."""
        return query.rule_name(self.text.partition("=")[2])


@dataclass(slots=True)
class Draft:
    """A URL taken apart: the raw parts as linked, and the parts that the key will have.

    A query or fragment is None where the URL has no ``?`` or ``#``.
    """

    hosts: HostRules
    url: str
    before_authority: str
    raw_authority: str
    raw_path: str
    raw_query: str | None
    raw_fragment: str | None
    scheme: str
    path: str
    query: str | None
    fragment: str | None
    userinfo: str = ""
    host: str = ""
    port: int | None = None
    place: Place = field(init=False)
    rules: Rules = field(init=False)
    parameters: list[Parameter] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    denied: str | None = None
    sends_less: bool = False

    def note(self, rule: str, detail: str = "") -> None:
        """Note that a rule acted."""
        self.changes.append(Change(rule, detail))

    @property
    def base(self) -> str:
        """The key up to its path."""
        userinfo = f"{self.userinfo}@" if self.userinfo else ""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{userinfo}{self.host}{port}"

    @property
    def key(self) -> str:
        """The parts of the key put together."""
        return f"{self.base}{self.path}{_led('?', self.query)}{_led('#', self.fragment)}"

    @property
    def fetch_url(self) -> str:
        """The URL as linked, less what must not be sent."""
        if not self.sends_less:
            return self.url
        before = f"{self.before_authority}{self.raw_authority}{self.raw_path}"
        text = f"{before}{_led('?', self.raw_query)}{_led('#', self.raw_fragment)}"
        kept = text.rstrip(C0_AND_SPACE)
        return kept + percent.encode(
            text[len(kept) :]
        )  # a space that is now the last character would be lost


def _led(mark: str, text: str | None) -> str:
    return "" if text is None else f"{mark}{text}"


Step = Callable[[Draft], None]


def take_apart(url: str, hosts: HostRules) -> Draft:
    """Cut an absolute URL into its parts, as the WHATWG basic URL parser does without a base.

    Raises:
        UnsupportedScheme: it is not for http or https.
        ValueError: it is no absolute URL.
    """
    text = _TABS_AND_BREAKS.sub("", url.strip(C0_AND_SPACE))
    scheme = _SCHEME.match(text)
    if scheme is None:
        msg = "no scheme"
        raise ValueError(msg)
    if scheme[1].lower() not in ("http", "https"):
        raise UnsupportedScheme(scheme[1].lower())
    rest, hash_mark, fragment = text[scheme.end() :].partition("#")
    rest, question_mark, raw_query = rest.partition("?")
    slashed = rest.replace("\\", "/")
    authority, slash, path = slashed.lstrip("/").partition("/")
    start = scheme.end() + len(slashed) - len(authority + slash + path)
    draft = Draft(
        hosts=hosts,
        url=url,
        before_authority=text[:start],
        raw_authority=authority,
        raw_path=slash + path,
        raw_query=raw_query if question_mark else None,
        raw_fragment=fragment if hash_mark else None,
        scheme=scheme[1],
        path=slash + path,
        query=raw_query if question_mark else None,
        fragment=fragment if hash_mark else None,
    )
    if text != url:
        draft.note("whitespace")
    if rest != slashed or not text.startswith("//", scheme.end()) or slashed.startswith("///"):
        draft.note("slashes")
    return draft


# -- the authority ---------------------------------------------------------------------------------------


def scheme_case(draft: Draft) -> None:
    """RFC 3986 6.2.2.1: the case of a scheme means nothing."""
    scheme = draft.scheme.lower()
    if scheme != draft.scheme:
        draft.note("scheme_case")
    draft.scheme = scheme


def authority_form(draft: Draft) -> None:
    """User info, host and port in the forms of the WHATWG standard; a default port goes (RFC 3986 6.2.3)."""
    raw = split_authority(draft.raw_authority)
    draft.userinfo = normal_userinfo(raw.userinfo)
    draft.host = normal_host(raw.host)
    draft.port = normal_port(draft.scheme, raw.port)
    if draft.host != raw.host:
        draft.note("host_case" if draft.host == raw.host.lower() else "host_form")
    if raw.port and draft.port is None:
        draft.note("default_port", raw.port)
    elif raw.port and raw.port != f":{draft.port}":
        draft.note("port_form", raw.port)
    if draft.userinfo != raw.userinfo or (not raw.userinfo and "@" in draft.raw_authority):
        draft.note("userinfo_form")


def authority_session(draft: Draft) -> None:
    """``http://h;jsessionid=A?p=v``: a servlet wrote its identifier where the path should begin."""
    host = paths.without_session(draft.host)
    if not host or host == draft.host or "xn--" in draft.host or ends_in_number(host):
        return
    draft.host = host
    draft.note("session", "jsessionid")
    raw = split_authority(draft.raw_authority)
    raw_host = paths.without_session(raw.host)
    if raw_host != raw.host and _is_spelled(host, raw_host):
        userinfo, at, _ = draft.raw_authority.rpartition("@")
        draft.raw_authority = f"{userinfo}{at}{raw_host}{raw.port}"
        draft.sends_less = True


def _is_spelled(host: str, raw_host: str) -> bool:
    """Tell whether a raw host is a spelling of this one; an escaped ``;`` can make the two end elsewhere."""
    try:
        return normal_host(raw_host) == host
    except ValueError:
        return False


def credentials(draft: Draft) -> None:
    """A URL with user info shows what is not for everybody, and would be stored with its secret."""
    if draft.userinfo:
        draft.denied = "credentials"
        draft.note("credentials")


def host_place(draft: Draft) -> None:
    """Look up the rules of the host; its aliases become one host in the key."""
    place = draft.hosts.place(draft.scheme, draft.host, draft.port)
    if place.scheme != draft.scheme:
        draft.note("scheme_alias", draft.scheme)
    if place.host != draft.host:
        draft.note("www_alias", draft.host)
    draft.scheme, draft.host = place.scheme, place.host
    draft.place, draft.rules = place, place.rules


# -- the path --------------------------------------------------------------------------------------------


def empty_path(draft: Draft) -> None:
    """RFC 3986 6.2.3: an empty path is ``/``."""
    if not draft.path:
        draft.path = "/"
        draft.note("empty_path")


def path_octets(draft: Draft) -> None:
    """RFC 3986 6.2.2: one spelling for each octet."""
    path = percent.normal(draft.path)
    if path != draft.path:
        draft.note("percent_encoding", "path")
    draft.path = path


def dot_segments(draft: Draft) -> None:
    """RFC 3986 6.2.2.3; ``%2e`` counts as a dot, as in the WHATWG standard."""
    if paths.has_dot_segment(draft.path):
        draft.path = paths.remove_dot_segments(draft.path)
        draft.note("dot_segments")


def path_session(draft: Draft) -> None:
    """Leave out the session identifiers of servlets and ASP.NET, in the key and in what is sent."""
    path = paths.strip_sessions(draft.path)
    if path != draft.path:
        draft.note("session", "path")
    draft.path = path
    raw_path = paths.strip_sessions(draft.raw_path)
    if raw_path != draft.raw_path:
        draft.raw_path = raw_path
        draft.sends_less = True


def path_rules(draft: Draft) -> None:
    """What the host says about case, index files and the trailing slash; then the rules of this path hold."""
    draft.path, draft.rules, changes = settle_path(draft.place, draft.path)
    draft.changes.extend(changes)


def denied_path(draft: Draft) -> None:
    """What the host's rules forbid."""
    for glob in draft.rules.deny:
        if glob.matches(draft.path):
            draft.denied = draft.denied or "denied"
            draft.note("denied", glob.pattern)
            return


# -- the query -------------------------------------------------------------------------------------------


def query_octets(draft: Draft) -> None:
    """RFC 3986 6.2.2, and ``'`` as in the WHATWG special-query percent-encode set."""
    _respell_query(draft, query.normal)


def query_spelling(draft: Draft) -> None:
    """``+`` for ``%20``, and escapes for raw brackets, which RFC 3986 3.4 does not allow."""
    _respell_query(draft, query.loose)


def _respell_query(draft: Draft, spell: Callable[[str], str]) -> None:
    if draft.query is None:
        return
    text = spell(draft.query)
    change = Change("percent_encoding", "query")
    if text != draft.query and change not in draft.changes:
        draft.changes.append(change)
    draft.query = text


def split_query(draft: Draft) -> None:
    """Cut the query, as linked and in normal form, at the separators of the host."""
    if draft.query is None or draft.raw_query is None:
        return
    at = _SEPARATORS[draft.rules.separators]
    raw = ["", *at.split(draft.raw_query)]
    texts = at.split(draft.query)[::2]
    draft.parameters = [
        Parameter(raw_part, separator, text)
        for separator, raw_part, text in zip(raw[::2], raw[1::2], texts, strict=True)
    ]
    if draft.rules.separators == "&;" and ";" in raw[::2]:
        draft.note("separators")


def universal_and_host_parameters(draft: Draft) -> None:
    """Leave out tracking and session parameters too, in the key and in what is sent."""
    folded = {names.folded(parameter.name) for parameter in draft.parameters}
    for parameter in draft.parameters:
        rule = parameters.universal_rule(parameter.name, parameter.value, folded)
        _judge(draft, parameter, rule or parameters.host_rule(parameter.name, parameter.value, draft.rules))


def host_parameters(draft: Draft) -> None:
    """Leave out what the host's rules name, and leave out or refuse what its allowlist does not hold."""
    for parameter in draft.parameters:
        _judge(draft, parameter, parameters.host_rule(parameter.name, parameter.value, draft.rules))


def _judge(draft: Draft, parameter: Parameter, rule: str) -> None:
    if not rule or not parameter.text or parameter.name in draft.rules.keep:
        return
    draft.note(rule, parameter.name)
    if parameters.refuses(rule, draft.rules):
        draft.denied = draft.denied or rule
    else:
        parameter.dropped = True


def cut_query(draft: Draft) -> None:
    """Cut what was dropped out of the query, with the separator before it; the rest stays as linked."""
    kept = [parameter for parameter in draft.parameters if not parameter.dropped]
    if len(kept) == len(draft.parameters):
        return
    draft.raw_query = "".join([parameter.raw_separator + parameter.raw for parameter in kept])
    if kept:
        draft.raw_query = draft.raw_query[len(kept[0].raw_separator) :]
    else:
        draft.raw_query = draft.query = None
    draft.sends_less = True
    draft.parameters = kept


def empty_parameters(draft: Draft) -> None:
    """``a=1&&b=2`` and ``a=1&`` hold no more than their parameters (WHATWG form parser), ``?`` holds none."""
    kept = [parameter for parameter in draft.parameters if parameter.text]
    if len(kept) != len(draft.parameters):
        draft.parameters = kept
        draft.note("empty_parameter")
    if not kept:
        draft.query = None


def query_order(draft: Draft) -> None:
    """Sort by name, stably: the order of equal names can mean something (WHATWG URLSearchParams.sort)."""
    ordered = sorted(draft.parameters, key=_sorting_name)
    if ordered != draft.parameters:
        draft.parameters = ordered
        draft.note("query_order")


def _sorting_name(parameter: Parameter) -> str:
    return parameter.text.partition("=")[0]


def join_query(draft: Draft) -> None:
    """Put the parameters of the key together again, with one separator."""
    if draft.query is not None:
        draft.query = draft.rules.separators[0].join([parameter.text for parameter in draft.parameters])


# -- the fragment ----------------------------------------------------------------------------------------


def fragment_rule(draft: Draft) -> None:
    """What the host or the preset says about fragments; a kept one in normal form, without its directive."""
    if draft.fragment is not None:
        draft.fragment, changes = settle_fragment(draft.fragment, draft.rules.fragment)
        draft.changes.extend(changes)


# -- the presets -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Preset:
    """A named, versioned list of steps, and the rules that hold where a host says nothing.

    The version is part of every policy id: a change of steps, tables or defaults that can change a key is a
    new one.
    """

    name: str
    version: int
    authority_steps: Sequence[Step]
    steps: Sequence[Step]
    defaults: Table

    @property
    def preset_id(self) -> str:
        """Name and version, ``standard-1``."""
        return f"{self.name}-{self.version}"


CONSERVATIVE = Preset(
    name="conservative",
    version=1,
    authority_steps=(scheme_case, authority_form, credentials, host_place),
    steps=(
        empty_path,
        path_octets,
        dot_segments,
        path_rules,
        denied_path,
        query_octets,
        split_query,
        host_parameters,
        cut_query,
        join_query,
        fragment_rule,
    ),
    defaults={"trailing_slash": "keep", "fragment": "keep"},
)
STANDARD = Preset(
    name="standard",
    version=1,
    authority_steps=(scheme_case, authority_form, authority_session, credentials, host_place),
    steps=(
        empty_path,
        path_octets,
        dot_segments,
        path_session,
        path_rules,
        denied_path,
        query_octets,
        query_spelling,
        split_query,
        universal_and_host_parameters,
        cut_query,
        empty_parameters,
        query_order,
        join_query,
        fragment_rule,
    ),
    defaults={"trailing_slash": "collapse", "fragment": "routes"},
)
PRESETS = {preset.name: preset for preset in (CONSERVATIVE, STANDARD)}


def decide_by_steps(url: str, preset: Preset, hosts: HostRules) -> UrlDecision:
    """Decide about one URL, step by step; never raises for any text."""
    try:
        draft = take_apart(url, hosts)
        for step in (*preset.authority_steps, *preset.steps):
            step(draft)
    except UnsupportedScheme as error:
        changes = (Change("unsupported_scheme", str(error)),)
        return UrlDecision(
            url, url, url, Verdict.DENY, "unsupported_scheme", changes, hosts.default_policy_id
        )
    except ValueError:
        return UrlDecision(url, url, url, Verdict.ALLOW, "unparseable", (), hosts.default_policy_id)
    return _decision(draft)


def _decision(draft: Draft) -> UrlDecision:
    policy_id = draft.place.policy_id
    fetch_url, verdict = draft.url, Verdict.ALLOW
    if draft.denied:
        verdict = Verdict.DENY
    elif draft.sends_less:
        fetch_url, verdict = draft.fetch_url, Verdict.REWRITE
    return UrlDecision(
        draft.url, draft.key, fetch_url, verdict, draft.denied, tuple(draft.changes), policy_id
    )
