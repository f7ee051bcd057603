"""What the name of a query parameter means on every site: tracking, session, pagination.

The rows and their reasons stand in ``tracking.toml``. There are no patterns besides its prefixes:
``?gallery=1`` begins like ``?ga=1``, and is another page than ``?gallery=2``.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Callable, Container

from scrapy_dedup.urls import toml

_TABLES = toml.loads(importlib.resources.files(__package__).joinpath("tracking.toml").read_text("utf-8"))

_TRACKING = frozenset(_TABLES["tracking"]["exact"])
_TRACKING_PREFIXES = tuple(_TABLES["tracking"]["prefixes"])
_LOOK_ALIKES = frozenset(_TABLES["tracking"]["look_alikes"])
_PLATFORM = frozenset(_TABLES["session"]["platform"])
_PLATFORM_PREFIXES = tuple(_TABLES["session"]["platform_prefixes"])
_PARTNER = {a: b for pair in _TABLES["session"]["pairs"] for a, b in (pair, reversed(pair))}
_SHAPED = frozenset(_TABLES["session"]["shaped"])
PROTECTED = frozenset(_TABLES["pagination"]["protected"])

_ESCAPED_AMPERSAND = "amp;"

# At least 24 letters and digits, both kinds, then perhaps the node that a load balancer adds after a dot: the
# identifiers of PHP (26, 32), Java (32) and osCommerce (26, 32) have this form, article numbers and words do
# not.
_session_shaped = re.compile(
    r"(?=[0-9]*[A-Za-z])(?=[A-Za-z]*[0-9])[0-9A-Za-z]{24,256}(?:\.[0-9A-Za-z_.-]{1,64})?", re.ASCII
).fullmatch


def folded(name: str) -> str:
    """Return a normal name as the tables spell it; a leading ``amp;`` is a page's double escaping."""
    return name.lower().removeprefix(_ESCAPED_AMPERSAND)


def is_tracking(name: str) -> bool:
    """Tell whether a parameter only says where the visitor came from.

    >>> is_tracking("UTM_Source"), is_tracking("amp;gclid"), is_tracking("utm_zone"), is_tracking("gallery")
    (True, True, False, False)
    """
    name = folded(name)
    return name in _TRACKING or (
        name.startswith(_TRACKING_PREFIXES) and name not in _LOOK_ALIKES and name not in _TRACKING_PREFIXES
    )


SessionTest = Callable[[str, Container[str]], bool]
"""Whether a parameter holds a session identifier, from its value and the folded names of the query."""


def session_test(name: str) -> SessionTest | None:
    """Return how to tell whether a parameter holds a session identifier; None if its name never does."""
    name = folded(name)
    if name in _SHAPED:
        return lambda value, _: _session_shaped(value) is not None
    if name in _PARTNER:
        partner = _PARTNER[name]
        return lambda value, folded_names: bool(value) and partner in folded_names
    if name in _PLATFORM or _has_platform_prefix(name):
        return lambda value, _: bool(value)
    return None


def _has_platform_prefix(name: str) -> bool:
    return any(
        name.startswith(prefix) and len(name) == len(prefix) + 8 and name.isalpha()
        for prefix in _PLATFORM_PREFIXES
    )


def is_session(name: str, value: str, folded_names: Container[str]) -> bool:
    """Tell whether a parameter holds a session identifier.

    Args:
        name: the name in normal percent-encoding.
        value: the value likewise.
        folded_names: the folded names of all parameters of the URL.

    >>> is_session("sid", "0123456789abcdef0123456789abcdef", ()), is_session("sid", "4711", ())
    (True, False)
    """
    test = session_test(name)
    return test is not None and test(value, folded_names)


def is_protected(name: str) -> bool:
    """Tell whether a parameter walks through the pages of a list.

    >>> is_protected("Page"), is_protected("paging_style")
    (True, False)
    """
    return name.lower() in PROTECTED
