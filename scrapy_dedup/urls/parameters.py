"""Which parameters of a query have to go, and under which rule."""

from __future__ import annotations

from collections.abc import Container

from scrapy_dedup.urls import names
from scrapy_dedup.urls.rules import Rules


def universal_rule(name: str, value: str, folded_names: Container[str]) -> str:
    """Return the rule of the `standard` preset for a parameter: tracking, session, or none ("")."""
    if names.is_tracking(name):
        return "tracking"
    return "session" if names.is_session(name, value, folded_names) else ""


def host_rule(name: str, value: str | None, rules: Rules) -> str:
    """Return the rule of the host that a parameter falls under: value, drop, facet, or none ("")."""
    if value in rules.values.get(name, ()):
        return "value"
    if name in rules.drop:
        return "drop"
    if name in rules.facets or (rules.allow is not None and not is_allowed(name, rules)):
        return "facet"
    return ""


def is_allowed(name: str, rules: Rules) -> bool:
    """Tell whether an allowlist lets a parameter pass; pagination passes unless it is forced out."""
    return name in (rules.allow or ()) or (names.is_protected(name) and name not in rules.force)


def refuses(rule: str, rules: Rules) -> bool:
    """Tell whether a parameter that falls under a rule is no reason to cut it out, but to deny the URL."""
    return rule == "facet" and rules.on_disallowed == "reject"
