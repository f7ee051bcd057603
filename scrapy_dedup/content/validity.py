"""Whether a response can serve as evidence: an ordered table of small rules, the first that speaks wins.

Only valid content has a content identity: a hundred equal "access denied" pages are a hundred failures and
not one document. A short but real notice is valid. A new state is a new rule and a new row of `RULES`.

What a page says decides only where it says little and says it in its title, in a heading or at the start of
a paragraph: an article about captchas quotes them in the middle of a text. So most rules have a size above
which they do not speak, in units (words, or two characters of a script without spaces) of the prose outside
landmarks and links.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

from scrapy_dedup.content.canonical import LINK, resolve
from scrapy_dedup.content.extraction import PASSING_FAILURES, Extraction
from scrapy_dedup.content.phrases import kinds_of_start, kinds_of_title, kinds_of_whole, normal, title_parts
from scrapy_dedup.content.structure import MAX_PROSE_UNITS, Passage, Structure
from scrapy_dedup.records import Recovery, Validity
from scrapy_dedup.urls import redact


@dataclass(frozen=True, slots=True)
class ResponseFacts:
    """All that the rules may look at; gathered by the shell, so that judging needs no response object.

    Attributes:
        status: HTTP status, or None when there was no response.
        content_type: the Content-Type header as sent.
        payload_bytes: length of the body.
        supported: whether the body is of a type that can be extracted (see `is_html`).
        extraction: what extraction gave; None when it was not tried.
        unmet_expectation: what the page lacks of what is expected of it, in words.
        declared_valid: the spider's own verdict; None when it gave none.
        declared_reason: the spider's reason for it.
        url: where the response came from.
        headers: of the headers in `HEADERS` those that were sent, by lower-case name.
        flags: what the downloader noted about the body: ``dataloss``, ``partial``.
        declared_bytes: the Content-Length, where it counts the same bytes as ``payload_bytes``.
        end: what the body shows of its end, see `end_of`.
        equals_probe: whether its text is what the site says to a URL that nobody ever linked.
    """

    status: int | None
    content_type: str | None
    payload_bytes: int
    supported: bool = True
    extraction: Extraction | None = None
    unmet_expectation: str | None = None
    declared_valid: bool | None = None
    declared_reason: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    declared_bytes: int | None = None
    end: str = "unknown"
    equals_probe: bool = False

    @property
    def structure(self) -> Structure:
        """What is known of the page's tree; an empty one where there is none."""
        return (self.extraction and self.extraction.structure) or NO_STRUCTURE


NO_STRUCTURE = Structure()


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a response, why, and what might turn it into a usable one.

    ``evidence`` is what the reason rests on where that is short: the target of a redirect, a marker.
    """

    validity: Validity
    reason: str | None
    recovery: Recovery
    evidence: str | None = None

    @property
    def explained(self) -> str | None:
        """The reason with its evidence behind a colon."""
        return self.reason if self.evidence is None else f"{self.reason}: {self.evidence}"


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


def end_of(body: bytes) -> str:
    """Tell whether a body has the end tag of the document that it begins: seen, missing or unknown.

    >>> end_of(b"<HTML><p>a</HTML>"), end_of(b"<html><p>a"), end_of(b"<p>a")
    ('seen', 'missing', 'unknown')
    """
    folded = body.lower()
    start = folded.find(b"<html")
    if start < 0:
        return "unknown"
    return "seen" if folded.find(b"</html", start) >= 0 else "missing"


# -- what the response says of itself

_HEADER_VERDICTS: tuple[tuple[str, str, str], ...] = (
    # Header, start of its value, reason. Only headers that a refusal alone carries: cf-ray, __cf_bm and their
    # kind are on every page of a site behind the same service.
    ("cf-mitigated", "challenge", "challenge"),
    ("x-vercel-mitigated", "challenge", "challenge"),
    ("x-vercel-mitigated", "deny", "access_denied"),
    ("x-amzn-waf-action", "challenge", "challenge"),
    ("x-amzn-waf-action", "captcha", "challenge"),
    ("x-sucuri-block", "", "access_denied"),
)
HEADERS = frozenset(header for header, _, _ in _HEADER_VERDICTS)
"""The headers that the rules look at, in lower case."""

# Unavailable for legal reasons (RFC 7725): what a page says beside it is about the visitor's country.
_LEGAL_STATUS = 451


def _refused(facts: ResponseFacts) -> Judgement | None:
    """A header or a status that says more than that the request failed."""
    for header, start, reason in _HEADER_VERDICTS:
        value = facts.headers.get(header)
        if value is not None and value.strip().lower().startswith(start):
            return _blocked(reason, f"{header} {value.strip()}"[:100])
    return _blocked("geo_block") if facts.status == _LEGAL_STATUS else None


def _blocked(reason: str, evidence: str | None = None) -> Judgement:
    """A challenge or limit may be over later, and for a crawl that asks less often."""
    recovery = Recovery.RETRY if reason in ("challenge", "rate_limit") else Recovery.NONE
    return Judgement(Validity.BLOCKED, reason, recovery, evidence)


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


# Compression can make a short body longer, by 23 bytes (gzip), and the downloader forgets that a body was
# compressed but not how long it was.
_COMPRESSION_OVERHEAD_BYTES = 64


def _truncated(facts: ResponseFacts) -> Judgement | None:
    """Bytes are missing.

    A body without a declared length ends with its connection, on purpose or not, and is noted as partial
    either way; only a document that lacks its end tag was cut. One that has it lacks nothing.
    """
    if "dataloss" in facts.flags:
        return Judgement(Validity.TRUNCATED, "dataloss", Recovery.RETRY)
    if "partial" in facts.flags and facts.end == "missing":
        return Judgement(Validity.TRUNCATED, "partial", Recovery.RETRY)
    missing = (facts.declared_bytes or 0) - facts.payload_bytes
    if missing > _COMPRESSION_OVERHEAD_BYTES and facts.end != "seen":
        return Judgement(Validity.TRUNCATED, "content_length", Recovery.RETRY, f"{missing} bytes missing")
    return None


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


# -- what the page is made of


def _challenge(facts: ResponseFacts) -> Judgement | None:
    """The markup of a challenge on a page that says little; a form with a captcha has fields to fill in."""
    page = facts.structure
    if page.prose_units >= 60:
        return None
    if page.challenge:
        return _blocked("challenge", page.challenge)
    is_form = page.other_fields or page.asks_user or page.asks_password
    return _blocked("challenge", "captcha") if page.captcha and not is_form else None


_MAX_REFRESH_DELAY_S = 10  # a page that waits longer wants to be read


def _redirect_stub(facts: ResponseFacts) -> Judgement | None:
    """A page that only leads to another one.

    Inside ``noscript`` a refresh is for visitors without scripts, and may lead to a lesser copy of a real
    page; so it has to be the only thing that the page does.
    """
    page = facts.structure
    if page.prose_units >= 40:
        return None
    says_so = "redirecting" in _kinds(facts)
    says_nothing = _substance(page) < 3 and page.linked_units <= 10
    refresh, jump = page.refresh, page.jump
    if refresh is not None and refresh.delay_s <= _MAX_REFRESH_DELAY_S:
        target = _other_page(facts, refresh.target)
        if target and (not refresh.in_noscript or jump is not None or says_so or says_nothing):
            return Judgement(Validity.REDIRECT_STUB, "meta_refresh", Recovery.NONE, target)
    if jump is not None and (says_so or (jump.at_once and says_nothing)):
        target = _other_page(facts, jump.target)
        if target:
            return Judgement(Validity.REDIRECT_STUB, "script_redirect", Recovery.NONE, target)
    return None


def _other_page(facts: ResponseFacts, reference: str) -> str | None:
    """Return the URL that a reference leads to, None when that is the page itself or nowhere."""
    base = facts.extraction.declared.base if facts.extraction else None
    try:
        target = urljoin(urljoin(facts.url, base or ""), reference)
        if not urlsplit(target).scheme.startswith("http") and facts.url:
            return None
    except ValueError:
        return None
    return None if target.partition("#")[0] == facts.url.partition("#")[0] else redact(target)


def _js_required(facts: ResponseFacts) -> Judgement | None:
    """A page that scripts have yet to write: nothing in it but its name and a sign that it is loading."""
    page = facts.structure
    if page.prose_units > MAX_PROSE_UNITS or _substance(page) >= 3:
        return None
    reason = next((reason for reason, is_shell in _SHELLS if is_shell(facts)), None)
    return Judgement(Validity.JS_REQUIRED, reason, Recovery.RENDER) if reason else None


def _has_notice(facts: ResponseFacts) -> bool:
    page = facts.structure
    shown = any(_asks_for_scripts(passage.text) for passage in page.passages)
    return shown or (page.needs_scripts and page.has_scripts and page.linked_units <= 10)


def _has_empty_mount(facts: ResponseFacts) -> bool:
    page = facts.structure
    is_empty = page.mount_units is not None and page.mount_units <= 8
    return is_empty and page.has_scripts and page.linked_units <= 40


def _is_loading(facts: ResponseFacts) -> bool:
    page = facts.structure
    if page.linked_units > 10:
        return False
    if any("loading" in kinds_of_whole(passage.text) for passage in page.passages):
        return True
    return page.has_spinner and page.has_scripts and not _has_text(facts)


# A page of a site's own menu and nothing else is no shell, so each has a limit of text in links.
_SHELLS: tuple[tuple[str, Callable[[ResponseFacts], bool]], ...] = (
    ("empty_mount", _has_empty_mount),
    ("noscript_notice", _has_notice),
    ("spinner", _is_loading),
)


def _substance(page: Structure) -> float:
    """Return the size of what a page says besides its name and notices about its own coming."""
    names = {normal(part) for part in title_parts(page.title or "")}
    return sum(passage.units for passage in page.passages if not _is_empty_talk(passage, names))


def _is_empty_talk(passage: Passage, names: set[str]) -> bool:
    return (
        normal(passage.text) in names
        or "loading" in kinds_of_whole(passage.text)
        or "redirecting" in kinds_of_start(passage.text)
        or _asks_for_scripts(passage.text)
    )


def _asks_for_scripts(text: str) -> bool:
    return "javascript" in text.lower() and "needs_scripts" in kinds_of_start(text)


def _has_text(facts: ResponseFacts) -> bool:
    return facts.extraction is not None and facts.extraction.text is not None


def _login(facts: ResponseFacts) -> Judgement | None:
    """A form to sign in where the page should be."""
    page = facts.structure
    asks = page.asks_password or (page.asks_user and not page.other_fields)
    if not asks or page.prose_units >= 120:
        return None
    if "login_form" in _kinds(facts) or (page.asks_password and page.prose_units <= 8):
        return Judgement(Validity.LOGIN, "login_wall", Recovery.AUTHENTICATE)
    return None


def _cookie_wall(facts: ResponseFacts) -> Judgement | None:
    """A question about cookies, with the button that accepts, and nothing behind it."""
    page = facts.structure
    if page.prose_units >= 80 or not any("accept" in kinds_of_start(button) for button in page.buttons):
        return None
    behind = sum(
        passage.units for passage in page.passages if "cookie_wall" not in kinds_of_title(passage.text)
    )
    is_named = "cookie_wall" in _kinds_of_titles(page)
    is_all = not _has_text(facts) or ("cookie_wall" in _kinds(facts) and behind <= 15)
    if is_named or is_all:
        return Judgement(Validity.CONSENT, "cookie_wall", Recovery.AUTHENTICATE)
    return None


_FULL_TITLE = re.compile(
    r"\w+(?:Error|Exception|DoesNotExist|NotFound|Configured|Denied|Forbidden) at /\S*"  # Django
    r"|.{0,200}// Werkzeug Debugger"
    r"|Action Controller: Exception caught"
    r"|HTTP Status [45]\d\d .{0,200}"  # Tomcat
    r"|Apache Tomcat/\S+ - Error report"
    r"|.{0,200}Server Error in '/.{0,100}' Application\.?"  # ASP.NET
    r"|Whoops! There was an error\.?"
    r"|Symfony Exception",
    re.IGNORECASE,
)
_FIRST_WORDS = re.compile(
    r"Traceback \(most recent call last\):"
    r"|(?:PHP )?(?:Fatal error|Parse error|Warning|Notice|Deprecated) ?: "
    r".{1,250}(?: on line \d|\bin /|Stack trace)",
    re.IGNORECASE,
)


def _stack_trace(facts: ResponseFacts) -> Judgement | None:
    """What a program prints when it fails; its own title, all of it, or its first words on a small page.

    A question about such an error has the name of its site in the title.
    """
    page = facts.structure
    title = page.title or _stated_title(facts)
    named = _FULL_TITLE.fullmatch(title) is not None and not _is_self_canonical(facts)
    starts = page.passages[:1] if not page.headings and page.prose_units < MAX_PROSE_UNITS else ()
    if named or any(_FIRST_WORDS.match(passage.text) for passage in starts):
        return Judgement(Validity.ERROR_PAGE, "stack_trace", Recovery.RETRY)
    return None


def _stated_title(facts: ResponseFacts) -> str:
    """Return the title from the metadata, which pages of any size have."""
    stated = facts.extraction.metadata.title if facts.extraction else None
    return stated.value if stated else ""


def _lorem_ipsum(facts: ResponseFacts) -> Judgement | None:
    """Filler text of a template; an article about it consists of other words."""
    if facts.structure.lorem_share < 0.4:
        return None
    return Judgement(Validity.PLACEHOLDER, "lorem_ipsum", Recovery.NONE)


# -- what the page says


@dataclass(frozen=True, slots=True)
class PhraseRow:
    """What it means that a page says a phrase of some kind.

    Attributes:
        kind: the kind of phrase, see ``phrases.toml``.
        reason: the reason to give.
        max_prose_units: a larger page is about something else.
        max_linked_units: the same for the text of its links.
        passages: how many paragraphs may begin with the phrase, counted from the first; titles and headings
            always may.
        has_manuals: manuals have pages about it, under its own name. Such a page shows code, or declares its
            own address to be canonical, which what stands in for a page hardly ever does.
    """

    kind: str
    validity: Validity
    reason: str
    recovery: Recovery
    max_prose_units: float = 60
    max_linked_units: float = 400
    passages: int = 3
    has_manuals: bool = True


_V, _R = Validity, Recovery
PHRASE_ROWS: tuple[PhraseRow, ...] = (
    PhraseRow("challenge", _V.BLOCKED, "challenge", _R.RETRY),
    PhraseRow("rate_limit", _V.BLOCKED, "rate_limit", _R.RETRY),
    PhraseRow("access_denied", _V.BLOCKED, "access_denied", _R.NONE),
    PhraseRow("geo_block", _V.BLOCKED, "geo_block", _R.NONE, has_manuals=False),
    # Blogs end every post with "you must be logged in to comment".
    PhraseRow("login_wall", _V.LOGIN, "login_wall", _R.AUTHENTICATE, passages=1, has_manuals=False),
    PhraseRow("age_gate", _V.CONSENT, "age_gate", _R.AUTHENTICATE, 80, passages=2, has_manuals=False),
    PhraseRow("redirecting", _V.REDIRECT_STUB, "title_phrase", _R.NONE, 40, 30),
    PhraseRow("database_error", _V.ERROR_PAGE, "database_error", _R.RETRY),
    PhraseRow("maintenance", _V.ERROR_PAGE, "maintenance", _R.RETRY),
    PhraseRow("error_template", _V.ERROR_PAGE, "error_template", _R.RETRY),
    PhraseRow("soft_404", _V.SOFT_404, "title_phrase", _R.NONE),
    PhraseRow("parked_domain", _V.PLACEHOLDER, "parked_domain", _R.NONE, 120, passages=24, has_manuals=False),
    # "Coming soon" is also the name of a list of films.
    PhraseRow("under_construction", _V.PLACEHOLDER, "under_construction", _R.NONE, 20, 10),
    PhraseRow("default_page", _V.PLACEHOLDER, "default_page", _R.NONE, 120, has_manuals=False),
)


def _phrases(facts: ResponseFacts) -> Judgement | None:
    """A title, a heading or the start of a paragraph that stands in for the page."""
    page = facts.structure
    of_titles = _kinds_of_titles(page)
    of_passages = [kinds_of_start(passage.text) for passage in _paragraphs(page)]
    for row in PHRASE_ROWS:
        if page.prose_units >= row.max_prose_units or page.linked_units >= row.max_linked_units:
            continue
        said = row.kind in of_titles or any(row.kind in kinds for kinds in of_passages[: row.passages])
        if said and not (row.has_manuals and (page.has_samples or _is_self_canonical(facts))):
            return Judgement(row.validity, row.reason, row.recovery)
    return None


_SERVER_PAGE_UNITS = 700  # the default page of Debian's Apache has about 400


def _server_page(facts: ResponseFacts) -> Judgement | None:
    """What a server shows before it is set up, also at length; all of the title is its name."""
    page = facts.structure
    if page.prose_units >= _SERVER_PAGE_UNITS or _is_self_canonical(facts):
        return None
    title = page.title or _stated_title(facts)
    if "server_page" not in kinds_of_whole(title):
        return None
    return Judgement(Validity.PLACEHOLDER, "default_page", Recovery.NONE)


def _kinds(facts: ResponseFacts) -> frozenset[str]:
    """Return the kinds of phrases that a page says in titles and headings or at the start of a paragraph."""
    page = facts.structure
    said = [kinds_of_start(passage.text) for passage in _paragraphs(page)[:3]]
    return _kinds_of_titles(page).union(*said)


def _kinds_of_titles(page: Structure) -> frozenset[str]:
    headings = [passage.text for passage in page.passages if passage.tag in _HEADINGS][:3]
    said = [kinds_of_title(title) for title in (page.title or "", *page.headings, *headings)]
    return frozenset[str]().union(*said)


_HEADINGS = frozenset({"h1", "h2"})
# What stands in a cell, an entry of a list or a listing is one of several things that a page tells.
_IN_SERIES = frozenset({"td", "th", "li", "dt", "dd", "pre", "option", "caption", "figcaption"})


def _paragraphs(page: Structure) -> list[Passage]:
    apart = _IN_SERIES | _HEADINGS
    return [passage for passage in page.passages if passage.tag not in apart]


# Generators write this file at the root of a site or version, and some hosts serve it with status 200.
_NOT_FOUND_FILE = re.compile(r"(?:/[^/]*){0,2}/404\.html?", re.IGNORECASE)


def _is_self_canonical(facts: ResponseFacts) -> bool:
    """Tell whether a page says that its own address is the right one for it."""
    if facts.extraction is None or not facts.url:
        return False
    declared = facts.extraction.declared
    links = [item for item in declared.stated if item.source == LINK and item.in_head][:1]
    try:
        if _NOT_FOUND_FILE.fullmatch(urlsplit(facts.url).path):
            return False
        return any(
            item.resolved is not None and _place(item.resolved) == _place(facts.url)
            for item in resolve(links, facts.url, declared.base)
        )
    except ValueError:
        return False


def _place(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    return parts.netloc.lower(), parts.path.rstrip("/"), parts.query


def _probe(facts: ResponseFacts) -> Judgement | None:
    """The site says the same to any URL."""
    return Judgement(Validity.SOFT_404, "probe_equal", Recovery.NONE) if facts.equals_probe else None


# -- what is expected, and what there is


def _expectation(facts: ResponseFacts) -> Judgement | None:
    """The page lacks what it must hold, by its spider or by the settings."""
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


def _unless_vouched_for(rule: Rule) -> Rule:
    """Return a rule that does not speak where the spider says that the page is valid."""

    def judged(facts: ResponseFacts) -> Judgement | None:
        return None if facts.declared_valid else rule(facts)

    return judged


# The order matters. The status outranks everything, and the spider's word outranks what we find. Markup is
# stronger evidence than phrases. A state that says what happened comes before what is merely unexpected, and
# a page that lacks what is expected of it is unexpected even when it is empty.
RULES: tuple[Rule, ...] = (
    _refused,
    _http_status,
    _declared_by_spider,
    _no_body,
    _type,
    _truncated,
    _malformed,
    _extraction,
    *map(
        _unless_vouched_for,
        (
            _challenge,
            _redirect_stub,
            _login,
            _js_required,
            _cookie_wall,
            _stack_trace,
            _lorem_ipsum,
            _server_page,
            _phrases,
            _probe,
        ),
    ),
    _expectation,
    _no_text,
)
