"""Reads the structure of a page from its tree, for the few pages that say so little that it matters."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import lxml.etree

from scrapy_dedup.content.blocks import Block, comparable
from scrapy_dedup.content.normalise import is_well_formed
from scrapy_dedup.content.page import Element, is_hidden, parse
from scrapy_dedup.content.structure import (
    MAX_PROSE_UNITS,
    Jump,
    Passage,
    Refresh,
    Structure,
)
from scrapy_dedup.near.shingles import size_in_words

MAX_PASSAGES = 24
MAX_MOUNT_TEXTS = 50  # pieces of text, most of them blank; enough to see that a node is not empty
MAX_CHARS = 300  # of a title, heading or passage
MAX_URL_CHARS = 2_000
MAX_SCRIPT_CHARS = 20_000  # a script that leads away at once says so early


def _words(spelled: str) -> frozenset[str]:
    return frozenset(spelled.split())


def structure_of(source: str, found: Sequence[Block], visible_tokens: Sequence[str]) -> Structure:
    """Return the structure of a page.

    A page of little prose is parsed a second time: what preparation drops from the tree matters here. Such
    pages are few and small, while to look at every page before it is prepared costs a tenth of extraction.

    Args:
        source: the decoded page.
        found: its blocks of text.
        visible_tokens: the tokens of all visible text.
    """
    sizes = _sizes(found, _lorem_share(visible_tokens))
    if sizes.prose_units > MAX_PROSE_UNITS:
        return sizes
    root = parse(source)
    return sizes if root is None else _with_tree(sizes, root, found)


def _sizes(found: Sequence[Block], lorem_share: float) -> Structure:
    prose_units = linked_units = 0.0
    for block in found:
        is_much = prose_units > MAX_PROSE_UNITS
        prose_units += _rough_units(block.unlinked) if is_much else _units(block.unlinked)
        if len(block.unlinked) != len(block.text):
            linked_units += _rough_units(block.text) - _rough_units(block.unlinked)
    return Structure(prose_units, linked_units, lorem_share)


def _with_tree(sizes: Structure, root: Element, found: Sequence[Block]) -> Structure:
    seen = _Seen()
    for element in root.iter("*"):
        reader = _READERS.get(element.tag)
        if reader is not None:
            reader(seen, element)
        identity, names = element.get("id"), element.get("class")
        if identity or names or element.tag in _MOUNT_TAGS:
            _read_names(seen, element, identity, names or "")
    first = found[:MAX_PASSAGES]
    return replace(
        sizes,
        title=seen.title,
        headings=tuple(seen.headings),
        passages=tuple(Passage(block.tag, _bounded(block.text), _units(block.unlinked)) for block in first),
        refresh=seen.refresh,
        jump=seen.jump,
        challenge=seen.challenge,
        captcha=seen.captcha,
        asks_password=seen.fields["password"] > 0,
        asks_user=seen.fields["user"] > 0,
        other_fields=seen.fields["other"],
        buttons=tuple(seen.buttons),
        mount_units=seen.mount_units,
        needs_scripts=seen.needs_scripts,
        has_scripts=seen.has_scripts,
        has_spinner=seen.has_spinner,
        has_samples=seen.has_samples,
    )


def _rough_units(text: str) -> float:
    """Return about the size of a text, in a tenth of the time: three bytes a character are those of CJK."""
    return (
        len(text.split())
        if text.isascii()
        else max(len(text.split()), len(text.encode("utf-8", "replace")) / 6)
    )


def _units(text: str) -> float:
    words = comparable(text) if text else ()
    return len(words) if text.isascii() else size_in_words(words)


def _bounded(text: str) -> str:
    return " ".join(text[: 4 * MAX_CHARS].split())[:MAX_CHARS]


def _text_of(element: Element) -> str:
    """Return the start of an element's text, never one that UTF-8 cannot hold."""
    text = _bounded("".join(element.itertext()))
    return text if is_well_formed(text) else ""


class _Seen:
    """What was found so far."""

    def __init__(self) -> None:
        self.title: str | None = None
        self.headings: list[str] = []
        self.refresh: Refresh | None = None
        self.jump: Jump | None = None
        self.challenge: str | None = None
        self.captcha = False
        self.fields: Counter[str] = Counter()
        self.buttons: list[str] = []
        self.mount_units: float | None = None
        self.needs_scripts = False
        self.has_scripts = False
        self.has_spinner = False
        self.has_samples = False


# -- what stands where

_LANDMARKS = frozenset({"nav", "header", "footer", "aside", "dialog"})
_POP_UP = re.compile(
    r"modal|popup|pop-up|dialog|dropdown|drop-down|offcanvas|overlay|drawer|sidebar", re.IGNORECASE
)


def _is_in_landmark(element: Element) -> bool:
    return any(ancestor.tag in _LANDMARKS for ancestor in element.iterancestors())


def _is_beside(element: Element) -> bool:
    """Tell whether an element is in a landmark that no page is called after."""
    return any(
        ancestor.tag in _LANDMARKS and ancestor.tag != "header" for ancestor in element.iterancestors()
    )


def _is_aside(element: Element) -> bool:
    """Tell whether an element is hidden, in a landmark, or in what a click would open."""
    return any(
        holder.tag in _LANDMARKS
        or (
            holder.attrib
            and (is_hidden(holder) or _POP_UP.search(f"{holder.get('id', '')} {holder.get('class', '')}"))
        )
        for holder in (element, *element.iterancestors())
    )


def _is_in_noscript(element: Element) -> bool:
    return next(element.iterancestors("noscript"), None) is not None


# -- titles


def _read_title(seen: _Seen, element: Element) -> None:
    if seen.title is None and next(element.iterancestors("svg"), None) is None:
        seen.title = _text_of(element) or None


def _read_heading(seen: _Seen, element: Element) -> None:
    if len(seen.headings) == 3 or is_hidden(element) or _is_beside(element):
        return
    if text := _text_of(element):
        seen.headings.append(text)


def _url(text: str) -> str | None:
    tidy = text.strip()[:MAX_URL_CHARS]
    return tidy if tidy and is_well_formed(tidy) else None


# -- what leads away

_REFRESH = re.compile(
    r"\s*(\d{1,6}(?:\.\d{0,6})?)\s*[;,]?\s*(?:url\s*=\s*)?(['\"]?)(.*)", re.IGNORECASE | re.DOTALL
)


def _read_meta(seen: _Seen, element: Element) -> None:
    if seen.refresh is not None or element.get("http-equiv", "").strip().lower() != "refresh":
        return
    found = _REFRESH.match(element.get("content", "")[: MAX_URL_CHARS + 100])
    if found is None:
        return
    delay, quote, rest = found.groups()
    target = _url(rest.partition(quote)[0] if quote else rest)
    if target:
        seen.refresh = Refresh(target, float(delay), _is_in_noscript(element))


# Scripts without a source that are data.
_DATA_SCRIPTS = re.compile(
    r"json|text/template|text/html|x-handlebars|importmap|speculationrules", re.IGNORECASE
)
_LOCATION = re.compile(
    r"\blocation(?:\.href)?\s*(?:=(?!=)|\.(?:replace|assign)\s*\()\s*(?P<quote>['\"`])(?P<target>[^'\"`\n\\]{1,2000})"
)
_OWNER = re.compile(r"(?:\b(?:window|document|self|top|parent|globalThis)\s*\.\s*)+\Z")
_RUNS_AT_ONCE = re.compile(
    r"(?:\(\s*(?:async\s+)?function\s*\w*\s*\(\s*\)|\(\s*(?:async\s*)?\(\s*\)\s*=>|setTimeout\(\s*function\s*\(\s*\)"
    r"|setTimeout\(\s*\(\s*\)\s*=>|onload\s*=\s*function\s*\(\s*\w*\s*\)|onload\s*=\s*\(\s*\w*\s*\)\s*=>)\s*\Z"
)


def _read_script(seen: _Seen, element: Element) -> None:
    if _DATA_SCRIPTS.search(element.get("type", "")):
        return
    seen.has_scripts = True
    source = element.get("src", "")
    code = (element.text or "")[:MAX_SCRIPT_CHARS]
    seen.challenge = (
        seen.challenge or _first_in(_CHALLENGE_SOURCES, source) or _first_in(_CHALLENGE_CODE, code)
    )
    if not source:
        _read_code(seen, code)


def _read_body(seen: _Seen, element: Element) -> None:
    _read_code(seen, element.get("onload", "")[:MAX_SCRIPT_CHARS])


def _read_code(seen: _Seen, code: str) -> None:
    if "location" not in code or (seen.jump is not None and seen.jump.at_once):
        return
    for found in _LOCATION.finditer(code):
        target = _url(found["target"])
        if target is None:
            continue
        jump = Jump(target, _is_at_once(code[: found.start()]))
        if seen.jump is None or jump.at_once:
            seen.jump = jump
        if jump.at_once:
            return


def _is_at_once(before: str) -> bool:
    """Tell whether what follows this part of a script runs as soon as the script does."""
    statement = _OWNER.sub("", before[-200:]).rstrip()
    if statement and statement[-1] not in ";{}(" and not before[-200:].rstrip(" \t").endswith("\n"):
        return False
    if statement.endswith(")"):
        return False  # a condition on the line before
    open_braces: list[int] = []
    for brace in re.finditer(r"[{}]", before):
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif open_braces:
            open_braces.pop()
    return all(_RUNS_AT_ONCE.search(before[max(0, place - 200) : place]) for place in open_braces)


# -- what stands between a visitor and the page

# Only what challenges themselves hold. Marks that the same services leave on every page of their customers
# (challenge-platform, cf-ray, __cf_bm, the scripts of DataDome or Imperva) say nothing.
_CHALLENGE_CODE = ("_cf_chl_opt", "gokuProps", "sucuri_cloudproxy_js", "_pxCaptcha")
_CHALLENGE_SOURCES = ("captcha-delivery.com",)
_CHALLENGE_FRAMES = ("captcha-delivery.com", "_Incapsula_Resource")
_CHALLENGE_IDS = frozenset({"px-captcha", "challenge-form", "cf-challenge-running", "anubis_challenge"})
_CAPTCHAS = frozenset(
    {"g-recaptcha", "h-captcha", "cf-turnstile", "frc-captcha", "smart-captcha", "geetest_captcha"}
)
_SPINNERS = frozenset(
    {
        "spinner",
        "loader",
        "loading",
        "preloader",
        "loading-spinner",
        "spinner-border",
        "page-loader",
        "skeleton",
    }
)


def _first_in(markers: Iterable[str], text: str) -> str | None:
    return next((marker for marker in markers if marker in text), None)


def _read_names(seen: _Seen, element: Element, identity: str | None, spelled: str) -> None:
    """Take note of what an element's id and class say that it is."""
    if identity in _CHALLENGE_IDS:
        seen.challenge = seen.challenge or identity
    if identity in _MOUNTS or element.tag in _MOUNT_TAGS:
        seen.mount_units = (seen.mount_units or 0.0) + _shown_units(element)
    names = spelled.lower().split()
    if not seen.captcha and not _CAPTCHAS.isdisjoint(names):
        seen.captcha = not _is_in_landmark(element)
    seen.has_spinner = seen.has_spinner or not _SPINNERS.isdisjoint(names)


def _read_frame(seen: _Seen, element: Element) -> None:
    seen.challenge = seen.challenge or _first_in(_CHALLENGE_FRAMES, element.get("src", ""))


_USER = re.compile(
    r"user(?:[-_]?(?:name|id))?|log[-_]?in|e?mail(?:[-_]?address)?|identifier|account", re.IGNORECASE
)
_NO_FIELDS = frozenset({"hidden", "submit", "button", "image", "reset", "checkbox", "radio", "search"})


def _read_input(seen: _Seen, element: Element) -> None:
    kind = element.get("type", "text").strip().lower()
    if kind in ("submit", "button"):
        _add_button(seen, element.get("value", ""))
    if kind in _NO_FIELDS or _is_aside(element):
        return
    if kind == "password":
        seen.fields["password"] += 1
    elif (
        kind == "email"
        or element.get("autocomplete") == "username"
        or _USER.fullmatch(element.get("name", ""))
    ):
        seen.fields["user"] += 1
    else:
        seen.fields["other"] += 1


def _read_control(seen: _Seen, element: Element) -> None:
    if not _is_aside(element) and not element.get("name", "").endswith("captcha-response"):
        seen.fields["other"] += 1


def _read_button(seen: _Seen, element: Element) -> None:
    _add_button(seen, "".join(element.itertext()))


def _add_button(seen: _Seen, text: str) -> None:
    said = " ".join(text[:200].split())[:60]
    if said and len(seen.buttons) < 12 and is_well_formed(said):
        seen.buttons.append(said)


# -- pages that scripts write

# The nodes that programs write their page into.
_MOUNTS = _words("root app __next __nuxt ___gatsby q-app svelte react-root main-app")
_MOUNT_TAGS = _words("app-root ion-app")
_UNSEEN = _words("script style noscript template")


def _shown_units(mount: Element) -> float:
    """Return the size of the start of a node's text, landmarks aside."""
    return _units("".join(itertools.islice(_shown_in(mount), MAX_MOUNT_TEXTS)))


def _shown_in(mount: Element) -> Iterator[str]:
    walk = lxml.etree.iterwalk(mount, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            if element is not mount and element.tail:
                yield element.tail
        elif element.tag in _UNSEEN or element.tag in _LANDMARKS:
            walk.skip_subtree()
        elif element.text:
            yield element.text


def _read_noscript(seen: _Seen, element: Element) -> None:
    seen.needs_scripts = seen.needs_scripts or "javascript" in "".join(element.itertext())[:2_000].lower()


# -- what a text is made of


def _read_sample(seen: _Seen, element: Element) -> None:
    """Take note of code; the address that was asked for is often set like it."""
    if not seen.has_samples and not _is_in_landmark(element):
        text = _text_of(element)
        seen.has_samples = bool(text) and not text.startswith(("/", "http"))


_LOREM = _words(
    "lorem ipsum dolor sit amet consectetur adipiscing adipisicing elit sed do eiusmod tempor"
    " incididunt ut labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation"
    " ullamco laboris nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate"
    " velit esse cillum eu fugiat nulla pariatur excepteur sint occaecat cupidatat non proident sunt"
    " culpa qui officia deserunt mollit anim id est laborum vestibulum mauris pellentesque aenean"
    " vivamus phasellus nullam donec curabitur suspendisse"
)


def _lorem_share(visible_tokens: Sequence[str]) -> float:
    if "lorem" not in visible_tokens or "ipsum" not in visible_tokens:
        return 0.0
    return sum(word in _LOREM for word in visible_tokens) / len(visible_tokens)


_READERS: dict[str, Callable[[_Seen, Element], None]] = {
    "title": _read_title,
    "h1": _read_heading,
    "meta": _read_meta,
    "script": _read_script,
    "body": _read_body,
    "iframe": _read_frame,
    "input": _read_input,
    "textarea": _read_control,
    "select": _read_control,
    "button": _read_button,
    "noscript": _read_noscript,
    "pre": _read_sample,
    "code": _read_sample,
    "samp": _read_sample,
    "th": _read_sample,
}
