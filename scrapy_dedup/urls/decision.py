"""What a URL policy says about one URL: a verdict is a value that carries its reasons."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Verdict(str, enum.Enum):
    """What to do with a URL that was found."""

    ALLOW = "allow"  # request it as linked
    REWRITE = "rewrite"  # request fetch_url, which leaves out what must not be sent
    DENY = "deny"  # do not request it; the reason says why


class Change(NamedTuple):
    """One rule that acted, and on what: ``Change("tracking", "utm_source")``."""

    rule: str
    detail: str = ""


class UrlDecision(NamedTuple):
    """The outcome of `UrlPolicy.decide` for one URL.

    A named tuple and not a dataclass, because one is made for every link of a crawl and a tuple is the
    cheapest frozen value that Python has.

    Attributes:
        url: the URL as given.
        key: the identity; URLs with one key count as one request. It holds the user info of a URL that has
            some, so a recorder redacts it like the URL itself.
        fetch_url: what to request: the URL as linked, less only what must not be sent. Equal to ``url``
            unless the verdict is REWRITE.
        verdict: ALLOW, REWRITE or DENY.
        reason: for DENY "facet", "denied", "unsupported_scheme" or "credentials"; "unparseable" for a URL
            that is allowed as it stands because it could not be understood; else None.
        changes: each rule that acted on the key or on fetch_url, in the order in which they acted.
        policy_id: digest of the preset and of the rules that apply to this host.
    """

    url: str
    key: str
    fetch_url: str
    verdict: Verdict
    reason: str | None
    changes: tuple[Change, ...]
    policy_id: str
