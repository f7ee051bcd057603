"""The rules that a host or a path can have: what each key may hold, and the values that the policy reads.

A rule table comes from settings or from a file that nobody has to trust, so a whole table is checked before
any of it is used, and every problem is reported.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scrapy_dedup.urls import names
from scrapy_dedup.urls.paths import Glob
from scrapy_dedup.urls.query import rule_name

Table = dict[str, Any]
"""The rules of one pattern as plain JSON: strings, booleans, lists and tables."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that hold for one host and path; the defaults are those of the `conservative` preset."""

    allow: frozenset[str] | None = None
    drop: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    facets: frozenset[str] = frozenset()
    force: frozenset[str] = frozenset()
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    deny: tuple[Glob, ...] = ()
    on_disallowed: str = "drop"
    path_case: str = "keep"
    trailing_slash: str = "keep"
    fragment: str = "keep"
    separators: str = "&"
    index_files: frozenset[str] = frozenset()

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Rules:
        """Build the rules of a checked table; keys that only a lookup reads are left out."""
        return cls(
            **{key: _KEYS[key].read(value) for key, value in table.items() if _KEYS[key].read is not None}
        )

    @property
    def limits_parameters(self) -> bool:
        """Whether any parameter of a query can fall under a rule of the host."""
        return bool(self.allow is not None or self.drop or self.facets or self.values)


class _Key(NamedTuple):
    """What the value of a key must be, how it is checked, and how the checked value is read."""

    expected: str
    accepts: Callable[[object], bool]
    read: Any  # Callable[[Any], object] | None


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _is_values(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(texts, list) and all(isinstance(text, str) for text in texts)
        for name, texts in value.items()
    )


def _is_globs(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_glob, value))


def _is_glob(value: object) -> bool:
    return isinstance(value, str) and value[:1] in ("/", "*") and not re.search("[?#]", value)


def _is_index_files(value: object) -> bool:
    return isinstance(value, list) and _is_texts(value) and not any("/" in name for name in value)


def _is_separators(value: object) -> bool:
    return value in (["&"], [";"], ["&", ";"], [";", "&"])


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _read_names(value: Iterable[str]) -> frozenset[str]:
    return frozenset(map(rule_name, value))


def _read_values(value: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    return {rule_name(name): _read_names(texts) for name, texts in value.items()}


def _read_separators(value: Sequence[str]) -> str:
    return "".join(sorted(value))


def _read_globs(value: Sequence[str]) -> tuple[Glob, ...]:
    return tuple(map(Glob, value))


def _names() -> _Key:
    return _Key("a list of parameter names", _is_texts, _read_names)


def _choice(*choices: str) -> _Key:
    return _Key(
        f"one of {', '.join(choices)}",
        lambda value: value in choices if isinstance(value, str) else False,
        str,
    )


_MAX_SCOPES = 200  # each is looked at for every URL of its host

_KEYS = {
    "allow": _names(),
    "drop": _names(),
    "keep": _names(),
    "facets": _names(),
    "force": _names(),
    "values": _Key("a table of lists of texts, one for each parameter name", _is_values, _read_values),
    "deny": _Key(
        "a list of path patterns, each beginning with / or * and without ? and #", _is_globs, _read_globs
    ),
    "on_disallowed": _choice("drop", "reject"),
    "path_case": _choice("keep", "lower"),
    "trailing_slash": _choice("collapse", "keep"),
    "fragment": _choice("drop", "keep", "routes"),
    "separators": _Key("a list of & and ;", _is_separators, _read_separators),
    "index_files": _Key("a list of file names without /", _is_index_files, frozenset),
    "scheme_alias": _Key("true or false", _is_bool, None),
    "www_alias": _Key("true or false", _is_bool, None),
    "path": _Key("a path pattern that begins with / or * and has no ? and #", _is_glob, None),
    "paths": _Key(
        f"a list of at most {_MAX_SCOPES} tables",
        lambda value: isinstance(value, list) and len(value) <= _MAX_SCOPES,
        None,
    ),
}
_ONLY_FOR_HOSTS = ("scheme_alias", "www_alias", "paths")  # aliases act before the path is known
_ONLY_FOR_PATHS = ("path",)

_NAME_LISTS = ("allow", "drop", "keep", "facets", "force", "values")
_CONTRADICTIONS = (
    ("keep", "drop"),
    ("keep", "facets"),
    ("keep", "values"),
    ("allow", "drop"),
    ("allow", "facets"),
)


def plain(value: object) -> Any:
    """Return settings as plain JSON: tuples and sets become lists; what is not JSON stays, to be reported."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def problems_of_host(table: object, where: str) -> Iterator[str]:
    """Yield a sentence for each fault in the rules of one host pattern."""
    if not isinstance(table, dict):
        yield f"{where} must be a table of rules, not {_kind(table)}"
        return
    yield from _problems(table, where, forbidden=_ONLY_FOR_PATHS)
    scopes = table.get("paths", [])
    for number, scope in enumerate(scopes if isinstance(scopes, list) else []):
        yield from _problems_of_scope(scope, f"{where}.paths[{number}]")


def _problems_of_scope(table: object, where: str) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"{where} must be a table of rules, not {_kind(table)}"
        return
    if "path" not in table:
        yield f"{where} needs a path pattern: path = '/search/*'"
    yield from _problems(table, where, forbidden=_ONLY_FOR_HOSTS)


def _problems(table: Table, where: str, forbidden: Sequence[str]) -> Iterator[str]:
    sound: Table = {}
    for key, value in table.items():
        problem = _problem_of_key(key, value, forbidden)
        if problem:
            yield f"{where}{problem}"
        else:
            sound[key] = value
    yield from (f"{where}{problem}" for problem in _problems_between(sound))


def _problem_of_key(key: object, value: object, forbidden: Sequence[str]) -> str | None:
    known = [name for name in _KEYS if name not in forbidden]
    if key not in known:
        return f" has an unknown key {key!r}{suggestion(key, known)}"
    rule = _KEYS[str(key)]
    return None if rule.accepts(value) else f".{key} must be {rule.expected}, not {_shown(value)}"


def _problems_between(table: Table) -> Iterator[str]:
    """Check what only two keys together can get wrong."""
    lists = {key: _read_names(table.get(key, ())) for key in _NAME_LISTS}
    for first, second in _CONTRADICTIONS:
        for name in sorted(lists[first] & lists[second]):
            yield f" names {name!r} both in {first} and in {second}"
    for key in ("drop", "facets"):
        for name in sorted(lists[key] - lists["force"]):
            if names.is_protected(name):
                yield (
                    f".{key} would lose pages: {name!r} walks through the pages of a list; "
                    f"if it really never does here, add force = ['{name}']"
                )


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the known word that is nearest, or nothing."""
    near = difflib.get_close_matches(str(word)[:100], list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _kind(value: object) -> str:
    return f"{type(value).__name__} {_shown(value)}"
