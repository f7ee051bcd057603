"""The settings of the suite: one table, one frozen, validated value.

Every ``DEDUP_*`` setting is a row of `SETTINGS`. `Config.from_settings` reads them all and reports every
problem at once, so a wrong set-up costs its user one failed start and not one for each fault.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from scrapy_dedup.chunks import ChunkOptions
from scrapy_dedup.content import ExtractOptions
from scrapy_dedup.content.expectations import Expectations
from scrapy_dedup.errors import ConfigError
from scrapy_dedup.urls import UrlPolicy

PREFIX = "DEDUP_"
PRESETS = ("standard", "conservative")

_CORPUS = re.compile(r"[A-Za-z0-9._-]{1,100}")
_JOB_ID = re.compile(r"[A-Za-z0-9._:/-]{1,200}")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the settings table.

    Attributes:
        name: the Scrapy setting.
        field: the attribute of `Config` that it fills.
        default: the value when the setting is not set.
        read: turns the raw value into the attribute; raises ValueError or ConfigError with the fault.
        about: one line for the reference.
    """

    name: str
    field: str
    default: Any
    read: Callable[[Any], Any]
    about: str


def _boolean(value: Any) -> bool:
    known = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if isinstance(value, bool):
        return value
    try:
        return known[str(value).strip().lower()]
    except KeyError:
        raise ValueError(f"is {value!r}; use True or False") from None


def _whole_number(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", str(value).strip()):
            raise ValueError(f"is {value!r}; use a whole number from {low} to {high}")
        number = int(value)
        if not low <= number <= high:
            raise ValueError(f"is {number}; use a whole number from {low} to {high}")
        return number

    return read


def _seconds(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(value, bool) or not 0 < number <= 3600:
        raise ValueError(f"is {value!r}; use a number of seconds above 0 and at most 3600")
    return number


_AGE_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
MAX_AGE_DAYS = 3_650


def _share(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = -1.0
        if isinstance(value, bool) or not low <= number <= high:
            raise ValueError(f"is {value!r}; use a number from {low:g} to {high:g}")
        return number

    return read


def _age(value: Any) -> float | None:
    """Read a length of time: seconds, or a number with its unit; None and "off" for none."""
    if value is None or value == "off":
        return None
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?) ?([smhd]?)", str(value).strip())
    seconds = float(found[1]) * _AGE_UNITS_S[found[2]] if found else 0.0
    if isinstance(value, bool) or not 0 < seconds <= MAX_AGE_DAYS * 86_400:
        raise ValueError(
            f"is {value!r}; use a time such as '7d', '12h', '30m' or a number of seconds, above 0, at most "
            f"{MAX_AGE_DAYS} days, or 'off'"
        )
    return seconds


def _matching(pattern: re.Pattern[str], hint: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"is {value!r}; use {hint}")
        return value

    return read


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"is {value!r}; use {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}")
        return str(value)

    return read


def _job_id(value: Any) -> str | None:
    if value is None:
        return None
    return _matching(_JOB_ID, "up to 200 letters, digits or . _ : / -")(value)


def _ledger(value: Any) -> str:
    if not isinstance(value, str) or not re.match(r"sqlite:///.|postgresql(\+psycopg)?://", value):
        raise ValueError(
            f"is {_without_password(value)!r}; use 'sqlite:///path/to/dedup.db' or 'postgresql://user@host/database'"
        )
    return value


def _without_password(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return re.sub(r"(?<=password=)[^&]*", "***", re.sub(r"//([^:/@]*):.*@", r"//\1:***@", value))


def _extract(value: Any) -> ExtractOptions:
    if isinstance(value, str):
        value = _json(value) if value.lstrip().startswith(("{", "[")) else {"focus": value}
    if not isinstance(value, Mapping):
        raise ValueError(f"is {value!r}; use a dict of options such as {{'focus': 'precision'}}")
    known = {item.name for item in fields(ExtractOptions)}
    unknown = sorted(set(map(str, value)) - known)
    if unknown:
        raise ValueError(f"has unknown options {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return ExtractOptions(**value)


def _policy_source(value: Any) -> str:
    if isinstance(value, (str, os.PathLike)) and os.fspath(value):
        return os.fspath(value)
    raise ValueError(f"is {value!r}; use 'standard', 'conservative' or the path of a TOML rule file")


def _json(text: str) -> Any:
    """Read a value from the command line, where every setting is a string."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None


def _hosts(value: Any) -> Mapping[str, Mapping[str, Any]]:
    if isinstance(value, str):
        value = _json(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"is a {type(value).__name__}; use a dict of host pattern to rules")
    return value


def _expectations(value: Any) -> Expectations:
    if isinstance(value, str):
        value = _json(value)
    return Expectations(value)


def _chunks(value: Any) -> ChunkOptions:
    if isinstance(value, str):
        value = _json(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"is {value!r}; use a dict of options such as {{'size': 1000}}")
    return ChunkOptions.of(value)


SETTINGS: tuple[Setting, ...] = (
    Setting("DEDUP_ENABLED", "enabled", True, _boolean, "Switches the suite; the exporters stay registered."),
    Setting(
        "DEDUP_LEDGER",
        "ledger_url",
        "sqlite:///dedup.db",
        _ledger,
        "Where observations and bodies are kept: SQLite or PostgreSQL. A relative path starts at scrapy.cfg.",
    ),
    Setting(
        "DEDUP_JOB_ID", "job_id", None, _job_id, "Identity of the run; made anew for each run when unset."
    ),
    Setting(
        "DEDUP_CORPUS",
        "corpus",
        "default",
        _matching(_CORPUS, "up to 100 letters, digits or . _ -"),
        "Text is shared only within a corpus.",
    ),
    Setting(
        "DEDUP_URL_POLICY",
        "policy_source",
        "standard",
        _policy_source,
        "'standard', 'conservative', or the path of a TOML rule file.",
    ),
    Setting("DEDUP_HOSTS", "hosts", {}, _hosts, "Rules for each host, added to the policy."),
    Setting("DEDUP_EXTRACT", "extract", {}, _extract, "Options of the extraction."),
    Setting(
        "DEDUP_EXPECT",
        "expectations",
        {},
        _expectations,
        "What pages must hold, by host and path; a page without it is unexpected_content.",
    ),
    Setting(
        "DEDUP_SOFT404_PROBE",
        "soft404_probe",
        False,
        _boolean,
        "Asks each host and folder for a page that cannot exist, once; what says the same is a soft 404.",
    ),
    Setting(
        "DEDUP_WORKERS",
        "workers",
        0,
        _whole_number(0, 64),
        "Extraction processes; 0 means one for each core, at most 4.",
    ),
    Setting(
        "DEDUP_EXTRACT_TIMEOUT",
        "extract_timeout_s",
        30.0,
        _seconds,
        "Seconds that one page may take to extract.",
    ),
    Setting(
        "DEDUP_AUTO_PAGES",
        "auto_pages",
        True,
        _boolean,
        "Each HTML response that reaches a callback becomes a page.",
    ),
    Setting(
        "DEDUP_FRESHNESS",
        "freshness_s",
        None,
        _age,
        "How long a fetched page is not fetched again: '7d', '12h', '30m', seconds; 'off' fetches always.",
    ),
    Setting(
        "DEDUP_CONDITIONAL",
        "conditional",
        False,
        _boolean,
        "Asks the server whether a known page changed (ETag, Last-Modified), and follows its links if not.",
    ),
    Setting(
        "DEDUP_CANONICAL",
        "canonical",
        "record",
        _one_of("record", "fetch", "skip"),
        "'record' canonicals, 'fetch' also what they name, 'skip' also pages whose canonical is fresh.",
    ),
    Setting(
        "DEDUP_NEAR",
        "near",
        "review",
        _one_of("off", "review", "suppress"),
        "Of similar texts: 'review' relates them, 'suppress' also lets the earlier one stand for the later.",
    ),
    Setting(
        "DEDUP_SIMHASH_DISTANCE",
        "simhash_distance",
        7,
        _whole_number(0, 7),
        "Differing bits of two fingerprints up to which texts are read side by side, 0 to 7.",
    ),
    Setting(
        "DEDUP_NEAR_JACCARD",
        "near_jaccard",
        0.8,
        _share(0.5, 1.0),
        "The similarity from which one text can stand for another, 0.5 to 1.",
    ),
    Setting(
        "DEDUP_CHUNKS",
        "chunks",
        {},
        _chunks,
        "How texts are cut into chunks, and what these are embedded with.",
    ),
    Setting(
        "DEDUP_CRAWL_DELAY",
        "crawl_delay",
        True,
        _boolean,
        "With ROBOTSTXT_OBEY: each host gets the Crawl-delay of its robots.txt, at most 60 seconds.",
    ),
)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of the suite, validated.

    Attributes:
        policy: the URL policy that ``policy_source`` and ``hosts`` make.
        settings_digest: identifies the settings that shape results, as ``sha256:<hex>``.
    """

    enabled: bool
    ledger_url: str
    job_id: str | None
    corpus: str
    policy_source: str
    hosts: Mapping[str, Mapping[str, Any]]
    extract: ExtractOptions
    expectations: Expectations
    soft404_probe: bool
    workers: int
    extract_timeout_s: float
    auto_pages: bool
    freshness_s: float | None
    conditional: bool
    canonical: str
    near: str
    simhash_distance: int
    near_jaccard: float
    chunks: ChunkOptions
    crawl_delay: bool
    policy: UrlPolicy
    settings_digest: str

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, base_dir: Path) -> Config:
        """Read and validate every setting of the suite.

        Args:
            settings: the ``DEDUP_*`` settings that are set, by name; others are ignored.
            base_dir: where relative paths (ledger, rule file) start.

        Raises:
            ConfigError: with every problem found, when any setting is wrong.
        """
        problems = list(_misspelt(settings))
        values: dict[str, Any] = {}
        for row in SETTINGS:
            try:
                values[row.field] = row.read(settings.get(row.name, row.default))
            except ValueError as error:
                problems.append(f"{row.name} {error}")
            except ConfigError as error:
                problems += [f"{row.name} {problem}" for problem in error.problems]
        if values.get("canonical") == "skip" and values.get("freshness_s", 0) is None:
            problems.append(
                "DEDUP_CANONICAL is 'skip', but DEDUP_FRESHNESS is off; set how long a target is fresh"
            )
        policy = None
        if "policy_source" in values and "hosts" in values:
            try:
                policy = _policy(values["policy_source"], values["hosts"], base_dir)
            except ConfigError as error:
                where = _named_source(values["policy_source"], error)
                problems += [f"{where}: {problem}" for problem in error.problems]
        if problems or policy is None:
            raise ConfigError(problems)
        values["ledger_url"] = absolute_ledger_url(values["ledger_url"], base_dir)
        values["chunks"] = values["chunks"].at(base_dir)
        values["workers"] = values["workers"] or min(4, os.cpu_count() or 1)
        return cls(**values, policy=policy, settings_digest=_settings_digest(values, policy))


def _misspelt(settings: Mapping[str, Any]) -> Iterable[str]:
    names = [row.name for row in SETTINGS]
    for name in settings:
        if name.startswith(PREFIX) and name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
            if near:
                yield f"{name} is not a setting; did you mean {near[0]}?"


def _policy(source: str, hosts: Mapping[str, Mapping[str, Any]], base_dir: Path) -> UrlPolicy:
    if source in PRESETS:
        return UrlPolicy.preset(source, hosts=hosts)
    return UrlPolicy.from_file(base_dir / source, hosts=hosts)


def _named_source(source: str, error: ConfigError) -> str:
    """Return the setting that a problem of the policy comes from, and its file where it has one."""
    if source in PRESETS:
        return "DEDUP_HOSTS"
    near = difflib.get_close_matches(source, PRESETS, n=1, cutoff=0.7)
    hint = f", or did you mean {near[0]!r}?" if near else ""
    return f"DEDUP_URL_POLICY = {source!r} (the rule file {error.source}{hint})"


def absolute_ledger_url(url: str, base_dir: Path) -> str:
    """Return the ledger URL with a relative SQLite path resolved against ``base_dir``."""
    prefix = "sqlite:///"
    if not url.startswith(prefix):
        return url
    return prefix + str((base_dir / url[len(prefix) :]).absolute())


def _settings_digest(values: Mapping[str, Any], policy: UrlPolicy) -> str:
    shaping = {
        "corpus": values["corpus"],
        "extractor": values["extract"].extractor_id,
        "policy": policy.policy_id,
        "expectations": values["expectations"].spec(),
        "soft404_probe": values["soft404_probe"],
        "auto_pages": values["auto_pages"],
        "freshness_s": values["freshness_s"],
        "conditional": values["conditional"],
        "canonical": values["canonical"],
        "near": values["near"],
        "simhash_distance": values["simhash_distance"],
        "near_jaccard": values["near_jaccard"],
        "chunks": values["chunks"].spec(),
    }
    canonical = json.dumps(shaping, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()
