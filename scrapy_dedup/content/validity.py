"""Whether a response can serve as evidence: an ordered table of small rules, the first that speaks wins.

Only valid content has a content identity: a hundred equal "access denied" pages are a hundred failures and
not one document. A short but real notice is valid. A new state is a new rule and a new row of `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scrapy_dedup.content.extraction import PASSING_FAILURES, Extraction
from scrapy_dedup.records import Recovery, Validity


@dataclass(frozen=True, slots=True)
class ResponseFacts:
    """All that the rules may look at; gathered by the shell, so that judging needs no response object.

    Attributes:
        status: HTTP status, or None when there was no response.
        content_type: the Content-Type header as sent.
        payload_bytes: length of the body.
        supported: whether the body is of a type that can be extracted (see `is_html`).
        extraction: what extraction gave; None when it was not tried.
        unmet_expectation: what the page lacks of what its spider expects, in words.
        declared_valid: the spider's own verdict; None when it gave none.
        declared_reason: the spider's reason for it.
    """

    status: int | None
    content_type: str | None
    payload_bytes: int
    supported: bool = True
    extraction: Extraction | None = None
    unmet_expectation: str | None = None
    declared_valid: bool | None = None
    declared_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a response, why, and what might turn it into a usable one."""

    validity: Validity
    reason: str | None
    recovery: Recovery


Rule = Callable[[ResponseFacts], Judgement | None]

# Statuses that can pass by themselves: too early, rate limits, time-outs, faults of the server.
_RETRY_STATUSES = frozenset({408, 425, 429})
_AUTHENTICATE_STATUSES = frozenset({401, 403, 407})

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
# Servers send these for want of a better word, so the first bytes decide.
_VAGUE_TYPES = frozenset({"", "text/plain", "application/octet-stream", "text/xml", "application/xml"})
_HTML_STARTS = (b"<!doctype html", b"<html")


def judge(facts: ResponseFacts) -> Judgement:
    """Return the verdict of the first rule of `RULES` that has one, else valid, for the spider's reason."""
    for rule in RULES:
        judgement = rule(facts)
        if judgement is not None:
            return judgement
    return Judgement(Validity.VALID, facts.declared_reason, Recovery.NONE)


def is_html(content_type: str | None, body_start: bytes) -> bool:
    """Tell whether a body is HTML by its declared type or, where that says nothing, by its first bytes.

    >>> is_html("text/html; charset=utf-8", b""), is_html(None, b"<!DOCTYPE HTML><p>")
    (True, True)
    >>> is_html("image/png", b"<html>")
    False
    """
    declared = (content_type or "").partition(";")[0].strip().lower()
    if declared in _HTML_TYPES:
        return True
    start = body_start[:1024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith(b"<?xml"):
        start = start.partition(b"?>")[2].lstrip()
    return declared in _VAGUE_TYPES and start.startswith(_HTML_STARTS)


def _http_status(facts: ResponseFacts) -> Judgement | None:
    """A status outside 2xx is an error page, whatever it says."""
    if facts.status is None or 200 <= facts.status < 300:
        return None
    return Judgement(Validity.HTTP_ERROR, f"http_{facts.status}", _status_recovery(facts.status))


def _status_recovery(status: int) -> Recovery:
    if status >= 500 or status in _RETRY_STATUSES:
        return Recovery.RETRY
    return Recovery.AUTHENTICATE if status in _AUTHENTICATE_STATUSES else Recovery.NONE


def _declared_by_spider(facts: ResponseFacts) -> Judgement | None:
    """The spider knows its site better than any rule."""
    if facts.declared_valid is not False:
        return None
    return Judgement(
        Validity.UNEXPECTED_CONTENT, facts.declared_reason or "declared_by_spider", Recovery.NONE
    )


def _type(facts: ResponseFacts) -> Judgement | None:
    """There is no extractor for this kind of body."""
    if facts.supported:
        return None
    declared = (facts.content_type or "").partition(";")[0].strip().lower()
    return Judgement(Validity.UNSUPPORTED_TYPE, declared or "no_content_type", Recovery.NONE)


def _no_body(facts: ResponseFacts) -> Judgement | None:
    """A response without a single byte."""
    if facts.payload_bytes:
        return None
    return Judgement(Validity.EMPTY, "no_body", Recovery.RETRY)


def _malformed(facts: ResponseFacts) -> Judgement | None:
    """Text that UTF-8 cannot hold is never stored, and never repaired in silence."""
    if facts.extraction is None or facts.extraction.failure != "malformed_text":
        return None
    return Judgement(Validity.MALFORMED_TEXT, "lone_surrogate", Recovery.NONE)


def _extraction(facts: ResponseFacts) -> Judgement | None:
    """The extractor did not come to an end."""
    if facts.extraction is None or facts.extraction.failure is None:
        return None
    failure = facts.extraction.failure
    recovery = Recovery.RETRY if failure in PASSING_FAILURES else Recovery.NONE
    return Judgement(Validity.EXTRACTION_FAILED, failure, recovery)


def _expectation(facts: ResponseFacts) -> Judgement | None:
    """The page lacks what the spider says that it must hold."""
    if facts.unmet_expectation is None:
        return None
    return Judgement(Validity.UNEXPECTED_CONTENT, facts.unmet_expectation, Recovery.NONE)


def _no_text(facts: ResponseFacts) -> Judgement | None:
    """The page has no main text; scripts on it may be what would write one."""
    if facts.extraction is None or facts.extraction.text is not None:
        return None
    flags = facts.extraction.flags
    if "main_not_visible" in flags:
        return Judgement(Validity.EMPTY, "text_not_visible", Recovery.RENDER)
    return Judgement(
        Validity.EMPTY, "no_main_text", Recovery.RENDER if "scripted" in flags else Recovery.NONE
    )


# The order matters: the status outranks everything, the spider's word outranks what we find, and a page
# that lacks what the spider expects is unexpected even when it is empty.
RULES: tuple[Rule, ...] = (
    _http_status,
    _declared_by_spider,
    _no_body,
    _type,
    _malformed,
    _extraction,
    _expectation,
    _no_text,
)
