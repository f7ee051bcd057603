"""`UrlPolicy`: a preset and rules for hosts, and what they decide about a URL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from scrapy_dedup.errors import ConfigError
from scrapy_dedup.urls import toml
from scrapy_dedup.urls.fast import compile_policy
from scrapy_dedup.urls.hosts import HostRules, digest_id, pattern_problems
from scrapy_dedup.urls.rules import plain, suggestion
from scrapy_dedup.urls.steps import CONSERVATIVE, PRESETS

MAX_RULE_FILE_BYTES = (
    1_000_000  # a hundred times the largest rule file seen; a bound for files that nobody has to trust
)
_MAX_PROBLEMS = 1_000  # in one message
_SPEC_KEYS = ("preset", "hosts")


class UrlPolicy:
    """Decides about URLs: the same answer for the same URL, always, without a network and without state.

    >>> policy = UrlPolicy.preset("standard", hosts={"shop.example": {"allow": ["page"]}})
    >>> decision = policy.decide("https://Shop.example/shoes/?page=2&color=red&utm_source=mail")
    >>> decision.key
    'https://shop.example/shoes?page=2'
    >>> decision.fetch_url
    'https://Shop.example/shoes/?page=2'
    """

    def __init__(
        self, preset: str = "standard", hosts: Mapping[str, Any] | None = None, source: str = "rules"
    ) -> None:
        """Check the rules and prepare them.

        Raises:
            ConfigError: with every problem that was found.
        """
        spec = plain({"preset": preset, "hosts": {} if hosts is None else hosts})
        problems = list(islice(_problems(spec), _MAX_PROBLEMS))
        if len(problems) == _MAX_PROBLEMS:
            problems.append(f"there may be more: only the first {_MAX_PROBLEMS:,} are listed")
        if problems:
            raise ConfigError(problems, source)
        self.name = preset
        self._preset = PRESETS[preset]
        self._tables = spec["hosts"]
        self._hosts = HostRules(self._preset.preset_id, self._preset.defaults, self._tables)
        self.decide = compile_policy(self._preset, self._hosts)
        no_hosts = HostRules(CONSERVATIVE.preset_id, CONSERVATIVE.defaults, {})
        self._decide_conservatively = compile_policy(CONSERVATIVE, no_hosts)
        self.policy_id = digest_id(self._preset.preset_id, self._tables)

    @classmethod
    def preset(cls, name: str, hosts: Mapping[str, Any] | None = None) -> UrlPolicy:
        """Return the policy of a preset, "standard" or "conservative", with rules for hosts."""
        return cls(name, hosts)

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], source: str = "rules") -> UrlPolicy:
        """Return the policy that `spec` describes.

        Raises:
            ConfigError: with every problem that was found.
        """
        unknown = [
            f"unknown key {key!r}{suggestion(key, _SPEC_KEYS)}" for key in spec if key not in _SPEC_KEYS
        ]
        preset, hosts = spec.get("preset", "standard"), spec.get("hosts", {})
        if unknown:
            found = _problems(plain({"preset": preset, "hosts": hosts}))
            raise ConfigError([*unknown[:_MAX_PROBLEMS], *islice(found, _MAX_PROBLEMS)], source)
        return cls(preset, hosts, source)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], hosts: Mapping[str, Any] | None = None) -> UrlPolicy:
        """Return the policy of a TOML file: ``preset = "standard"`` and ``[hosts."shop.example"]`` tables.

        Args:
            path: the file.
            hosts: further rules; for a pattern that the file has too they override the keys that they name.

        Raises:
            ConfigError: with every problem that was found; its source is the path.
        """
        spec = _read_toml(Path(path))
        of_file = spec.get("hosts", {})
        if hosts and isinstance(of_file, dict):
            spec["hosts"] = {
                **of_file,
                **{pattern: _over(of_file.get(pattern), table) for pattern, table in hosts.items()},
            }
        return cls.from_spec(spec, source=str(path))

    def spec(self) -> dict[str, Any]:
        """Return the policy as plain JSON, from which `from_spec` builds it again."""
        return {"preset": self._preset.name, "hosts": plain(self._tables)}

    def conservative_key(self, url: str) -> str:
        """Return the key of a URL under the conservative preset alone, without rules for hosts."""
        return self._decide_conservatively(url).key

    def own_key(self, url: str) -> str:
        """Return a key for a URL that it shares with none of the URLs that this policy merges with it.

        It is the conservative key, or the URL itself, whichever first differs from the key that they share; a
        URL that is that key itself gets an empty fragment, which no server sees.

        >>> policy = UrlPolicy.preset("standard")
        >>> policy.own_key("https://shop.example/a/"), policy.own_key("https://shop.example/a")
        ('https://shop.example/a/', 'https://shop.example/a#')
        """
        shared = self.decide(url).key
        return next(key for key in (self.conservative_key(url), url, f"{url}#") if key != shared)

    def drops_facets(self, url: str) -> bool:
        """Tell whether the rules of the host would leave out, or refuse, a facet parameter of a URL."""
        return any(change.rule == "facet" for change in self.decide(url).changes)


def _over(below: object, above: object) -> object:
    return {**below, **above} if isinstance(below, Mapping) and isinstance(above, Mapping) else above


def _problems(spec: Mapping[str, Any]) -> Iterator[str]:
    preset, hosts = spec["preset"], spec["hosts"]
    if not isinstance(preset, str) or preset not in PRESETS:
        known = ", ".join(sorted(PRESETS))
        yield f"preset must be one of {known}, not {preset!r}{suggestion(preset, PRESETS)}"
    if isinstance(hosts, dict):
        yield from pattern_problems(hosts)
    else:
        yield f"hosts must be a table of host patterns, not {type(hosts).__name__}"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            raise ConfigError(["there is no such file"], str(path))
        with path.open("rb") as file:
            data = file.read(MAX_RULE_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError([f"the rule file cannot be read: {error}"], str(path)) from error
    if len(data) > MAX_RULE_FILE_BYTES:
        raise ConfigError([f"the rule file is larger than {MAX_RULE_FILE_BYTES:,} bytes"], str(path))
    try:
        tables: dict[str, Any] = toml.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"the rule file is no TOML: {error}"], str(path)) from error
    return tables
