"""What the rules of validity need of a page's structure: values of a few hundred bytes.

All of it follows from the payload alone, not from its URL, so that it can be kept with the extraction of
equal payloads. It is read from the tree by `scrapy_dedup.content.outline`, which alone loads a parser.

A *unit* is a word, or two characters of a script without spaces.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_PROSE_UNITS = 120
"""A page with more prose is about something, whatever it is called: the rest of its structure stays empty."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A block of text outside landmarks; ``units`` counts what of it is no link."""

    tag: str
    text: str
    units: float


@dataclass(frozen=True, slots=True)
class Refresh:
    """A meta refresh that leads to another URL."""

    target: str
    delay_s: float
    in_noscript: bool


@dataclass(frozen=True, slots=True)
class Jump:
    """A script that leads to another URL; ``at_once`` unless a function or a condition stands before it."""

    target: str
    at_once: bool


@dataclass(frozen=True, slots=True)
class Structure:
    """What a page is made of.

    Attributes:
        prose_units: size of the text outside landmarks and links.
        linked_units: size of the text of links outside landmarks.
        lorem_share: share of filler words ("lorem ipsum") in the visible text.
        title: the title.
        headings: the visible first-level headings, also those in a header.
        passages: the first blocks of text.
        refresh: the first meta refresh to another URL.
        jump: the first ``location`` that a script sets to a literal.
        challenge: the marker of a challenge, such as ``_cf_chl_opt``.
        captcha: whether a captcha stands outside landmarks.
        asks_password: whether a password field is shown outside landmarks and pop-ups.
        asks_user: whether a field for a user's name or address is.
        other_fields: how many other fields there are to fill in.
        buttons: what the first buttons say.
        mount_units: size of the text in the node that a program fills, None without such a node.
        needs_scripts: whether there is a notice for those without scripts that names JavaScript.
        has_scripts: whether there are scripts that may write a text.
        has_spinner: whether an element is marked as a sign of loading.
        has_samples: whether code or a table with a header stands in the text.
    """

    prose_units: float = 0.0
    linked_units: float = 0.0
    lorem_share: float = 0.0
    title: str | None = None
    headings: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()
    refresh: Refresh | None = None
    jump: Jump | None = None
    challenge: str | None = None
    captcha: bool = False
    asks_password: bool = False
    asks_user: bool = False
    other_fields: int = 0
    buttons: tuple[str, ...] = ()
    mount_units: float | None = None
    needs_scripts: bool = False
    has_scripts: bool = False
    has_spinner: bool = False
    has_samples: bool = False
