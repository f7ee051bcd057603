"""What the canonical that a page declares is worth: a decision table over what is known of page and target.

A declared canonical is evidence, never an order: sites declare their homepage for every page, the first page
of a series for all of them, the latest version for an old one, and targets that do not exist. So a
declaration is confirmed only once its target was seen and says the same in the same language and version.
`claim_of` judges by the declarations alone, `judge_canonical` by both pages; the tables are `CLAIM_RULES` and
`RULES`, the first row that applies decides.

RFC 6596 defines the link, https://developers.google.com/search/docs/crawling-indexing the common mistakes.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urljoin, urlsplit

from scrapy_dedup.records import Reason, RelationState
from scrapy_dedup.urls import redact, site_of
from scrapy_dedup.urls.names import is_protected

if TYPE_CHECKING:
    from scrapy_dedup.near.claims import Comparison

MAX_URL_CHARS = 2_000
MAX_RAW_CHARS = 500  # of what was written; a page can hold it many times

# Where a declaration can stand. The first two are claims, the next ones say what the page is called
# elsewhere, the last one where a page without a text of its own sends its visitors.
LINK = "link"
HEADER = "header:link"
OG_URL = "meta:og:url"
JSON_LD_URL = "json-ld:url"
JSON_LD_MAIN = "json-ld:mainEntityOfPage"
STUB = "redirect_stub"

CLAIMS = frozenset({LINK, HEADER})
WEAK = frozenset({OG_URL, JSON_LD_URL, JSON_LD_MAIN})

MAX_HOPS = 3

# Reasons that hold whatever the text of the target is, as long as it is not that of the page.
WITHOUT_TEXT = frozenset({"homepage", "first_page_of_series", "many_to_one"})

# The share of a page's shingles that its target has: "page within target". A print page or "view all" has
# 0.91 to 1.0 of each of its parts, versions of one page that were edited mostly less.
CONTAINED = 0.9

# Longer texts are not read side by side: a commit may judge hundreds of claims.
MAX_READ_CHARS = 200_000
MAX_SPAN_CHARS = 200

# So many distinct texts that declare one target are a fault of the template: a series or the prints of a
# page rarely have that many, a template has as many as the site has pages.
MANY = 10


@dataclass(frozen=True, slots=True)
class Stated:
    """A declaration as it stands in a page or header, not yet resolved: equal bytes are read once only."""

    source: str
    raw: str
    in_head: bool = True


@dataclass(frozen=True, slots=True)
class PageDeclarations:
    """What the tree of a page declares: its first ``<base>`` in the head, addresses of itself, noindex."""

    base: str | None = None
    stated: tuple[Stated, ...] = ()
    noindex: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """One declaration; ``resolved`` is None where it names no page that anybody could look up."""

    source: str
    raw: str
    resolved: str | None
    in_head: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a declaration is worth, why, and what that rests on."""

    state: RelationState
    reason: str
    measures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Return the reason with the value and threshold behind it, as relations have it."""
        value = self.measures.get(_MEASURE_OF.get(self.reason, ""))
        return (Reason(self.reason, value, _THRESHOLDS.get(self.reason)),)


_MEASURE_OF = {"contained": "page_in_target", "many_to_one": "texts_for_target", "broken": "target_problem"}
_THRESHOLDS = {"contained": CONTAINED, "many_to_one": MANY, "loop": MAX_HOPS}


@dataclass(frozen=True, slots=True)
class Claim:
    """What the declarations of a page say when taken together.

    Attributes:
        verdict: what they are worth by themselves.
        target: the one URL that is declared, None where there is none or several.
        target_key: its key; set only where the page claims to be another one, so that there is a relation.
    """

    verdict: Verdict
    target: str | None = None
    target_key: str | None = None


def confirmed(reason: str, **measures: Any) -> Verdict:
    """Return the verdict that page and target are one document."""
    return Verdict(RelationState.CONFIRMED, reason, measures)


def refuted(reason: str, **measures: Any) -> Verdict:
    """Return the verdict that the declaration is wrong."""
    return Verdict(RelationState.REFUTED, reason, measures)


def unresolved(reason: str, **measures: Any) -> Verdict:
    """Return the verdict that the evidence does not decide."""
    return Verdict(RelationState.UNRESOLVED, reason, measures)


# -- from what is stated to one claim


def resolve(stated: Sequence[Stated], page_url: str, base: str | None) -> tuple[Declaration, ...]:
    """Return declarations with the URLs that they name, without passwords.

    Args:
        stated: in the order in which they stand.
        page_url: where the page came from in the end.
        base: the page's first ``<base>``; headers do not know it.
    """
    within = _joined(page_url, base) if base else None
    return tuple(
        Declaration(
            item.source,
            redact(item.raw)[:MAX_RAW_CHARS],
            _target(item, page_url, None if item.source == HEADER else within),
            item.in_head,
        )
        for item in stated
    )


def _joined(base: str, reference: str) -> str | None:
    try:
        return urljoin(base, _tidy(reference))
    except ValueError:
        return None


def _tidy(reference: str) -> str:
    """Return a URL as browsers read it: without spaces around it and without line ends in it."""
    return re.sub(r"[\t\n\r]", "", reference).strip(" \f")


def _target(item: Stated, page_url: str, base: str | None) -> str | None:
    reference = _tidy(item.raw)
    if not reference or reference.startswith("#") or len(reference) > MAX_URL_CHARS:
        return None
    if _NO_HOST.match(reference) or (base is None and item.source == LINK and _is_meant_absolute(reference)):
        return None
    resolved = _joined(base or page_url, reference)
    if resolved is None or redact(resolved) != resolved:
        return None
    host = _host(resolved)
    if not resolved.lower().startswith(("http://", "https://")) or not host or not _is_port_sound(resolved):
        return None
    return None if _is_private(host) and not _is_private(_host(page_url)) else resolved


_NO_HOST = re.compile(r"https?:(?!//[^/?#])", re.IGNORECASE)

# "example.com/cake" and "docs/page.html" below the page's own folder: the start of the URL was forgotten.
_MEANT_ABSOLUTE = re.compile(r"(?![.]{1,2}/)[^/?#:\\]+/")


def _is_meant_absolute(reference: str) -> bool:
    return _MEANT_ABSOLUTE.match(reference) is not None


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_port_sound(url: str) -> bool:
    """Tell whether a URL has no port or one that exists; Scrapy makes no request for any other."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _is_private(host: str) -> bool:
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _Declared:
    page_url: str
    page_key: str
    declared: Sequence[Declaration]
    key_of: Callable[[str], str]

    def of(self, sources: frozenset[str], *, in_head: bool = False) -> list[Declaration]:
        return [item for item in self.declared if item.source in sources and (item.in_head or not in_head)]

    @property
    def claims(self) -> list[Declaration]:
        """Return what stands where a claim may stand."""
        return self.of(CLAIMS, in_head=True)

    def is_self(self, item: Declaration) -> bool:
        return item.resolved is not None and self.key_of(item.resolved) == self.page_key

    def targets(self) -> set[str]:
        return {self.key_of(item.resolved) if item.resolved else item.raw for item in self.claims}


def claim_of(
    declared: Sequence[Declaration], page_url: str, page_key: str, key_of: Callable[[str], str]
) -> Claim | None:
    """Return what a page's declarations claim, or None when it declares nothing.

    Args:
        declared: all of them.
        page_url: where the page came from in the end.
        page_key: the key of that URL.
        key_of: the crawl's own policy, so that every spelling of a URL counts as that URL.
    """
    case = _Declared(page_url, page_key, declared, key_of)
    return next((claim for rule in CLAIM_RULES if (claim := rule(case)) is not None), None)


def _only_weak(case: _Declared) -> Claim | None:
    """What a page is called on other services; they want one address for all versions of a page."""
    if case.of(CLAIMS):
        return None
    weak = case.of(WEAK)
    other = next((item for item in weak if not case.is_self(item)), None)
    if other is not None:
        return Claim(unresolved("weak"), other.resolved)
    return Claim(confirmed("self"), weak[0].resolved) if weak else None


def _only_in_body(case: _Declared) -> Claim | None:
    """Whoever can write into the text of a page can write a link there."""
    found = case.of(CLAIMS)
    if not found or case.claims:
        return None
    return Claim(refuted("only_in_body"), found[0].resolved)


def _conflict(case: _Declared) -> Claim | None:
    """Several targets: search engines ignore them all."""
    return Claim(refuted("conflict", targets=len(case.targets()))) if len(case.targets()) > 1 else None


def _malformed(case: _Declared) -> Claim | None:
    found = case.claims
    return Claim(refuted("malformed")) if found and found[0].resolved is None else None


def _self(case: _Declared) -> Claim | None:
    found = case.claims
    return Claim(confirmed("self"), found[0].resolved) if found and case.is_self(found[0]) else None


def _other_url(case: _Declared) -> Claim | None:
    found = case.claims
    if not found or found[0].resolved is None:
        return None
    target = found[0].resolved
    key = case.key_of(target)
    verdict = judge_canonical(Evidence(case.page_url, case.page_key), None, Route(target, key))
    return Claim(verdict, target, key)


CLAIM_RULES: tuple[Callable[[_Declared], Claim | None], ...] = (
    _only_weak,
    _only_in_body,
    _conflict,
    _malformed,
    _self,
    _other_url,
)


def stub_claim(target: str, key_of: Callable[[str], str]) -> Claim:
    """Return where a page that only sends its visitors on sends them, in the form of a claim."""
    return Claim(unresolved("redirect_stub"), target, key_of(target))


# -- from a claim and its target to a verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one page.

    Attributes:
        url: where it came from.
        url_key: the key of that URL.
        problem: why it is no evidence (``http_404``, ``blocked``), None for a valid page.
        language: of the text, BCP 47.
        declared_language: what the page says of itself, as it says it.
        text: the text, None where it is not at hand.
        normalized_digest: of the text.
        residual_digest: of the visible prose that the text lacks.
        comparable: what made the text; texts of two extractors are not compared.
    """

    url: str
    url_key: str
    problem: str | None = None
    noindex: bool = False
    language: str | None = None
    declared_language: str | None = None
    text: str | None = None
    normalized_digest: str | None = None
    residual_digest: str | None = None
    comparable: object = None


@dataclass(frozen=True, slots=True)
class Route:
    """The way from a declared target to the page at its end.

    Attributes:
        declared: the declared target, as a URL.
        declared_key: the key of it.
        hops: how each further page was reached: ``redirect``, ``redirect_stub`` or ``canonical``.
        back: the way came to a page where it had been before.
        too_long: it went on after `MAX_HOPS`.
    """

    declared: str
    declared_key: str
    hops: tuple[str, ...] = ()
    back: bool = False
    too_long: bool = False


@dataclass(frozen=True, slots=True)
class TextDifference:
    """How two texts differ: by shares of shingles, and whether only in the versions that they name."""

    page_in_target: float
    target_in_page: float
    only_versions: bool


def compare_texts(page: str, target: str) -> TextDifference:
    """Compare two texts by their distinct shingles of three words, and with the versions in them left out."""
    # A crawl without such claims does not load numpy.
    from scrapy_dedup.near.overlap import overlap  # noqa: PLC0415
    from scrapy_dedup.near.shingles import distinct, shingle_hashes  # noqa: PLC0415

    hashes, (_, middle, _) = shingle_hashes([page, target])
    shared = overlap(distinct(hashes[:middle]), distinct(hashes[middle:]))
    return TextDifference(
        round(shared.containment_a, 4),
        round(shared.containment_b, 4),
        _without_versions(page) == _without_versions(target),
    )


_VERSION_IN_TEXT = re.compile(
    r"\b(?:v(?:ersion)?|release)\.? ?\d+(?:\.\w+)*\b|\b\d+(?:\.\d+)+(?:[-.]?(?:rc|alpha|beta|dev|post)\d*)?\b"
)


def _without_versions(text: str) -> str:
    return _VERSION_IN_TEXT.sub("", " ".join(text.lower().split()))


@dataclass(frozen=True, slots=True)
class _Case:
    page: Evidence
    target: Evidence | None
    route: Route
    texts_for_target: int
    difference: TextDifference | None

    @property
    def judged_url(self) -> str:
        """Return the URL of the page at the end of the way, as far as it is known."""
        return self.target.url if self.target else self.route.declared

    @property
    def is_seen(self) -> bool:
        return self.target is not None and self.target.normalized_digest is not None

    @property
    def same_text(self) -> bool:
        target = self.target
        return (
            target is not None
            and self.page.normalized_digest is not None
            and self.page.normalized_digest == target.normalized_digest
        )

    @property
    def versions(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return versions_in(self.page.url), versions_in(self.judged_url)

    @property
    def versions_disagree(self) -> bool:
        ours, theirs = self.versions
        return bool(ours and theirs and ours != theirs)

    def claims(self) -> Comparison | None:
        """Read both texts side by side; None where they are not there, or too long for that."""
        ours, theirs = self.page.text, self.target.text if self.target else None
        if ours is None or theirs is None or max(len(ours), len(theirs)) > MAX_READ_CHARS:
            return None
        from scrapy_dedup.near.claims import compare  # noqa: PLC0415 - as in compare_texts

        return compare(ours, theirs)

    @property
    def differs_in_versions_only(self) -> bool:
        return not self.same_text and self.difference is not None and self.difference.only_versions


def judge_canonical(
    page: Evidence, target: Evidence | None, route: Route, *, texts_for_target: int = 0
) -> Verdict:
    """Return what the claim of a page is worth: the first row of `RULES` that applies.

    Args:
        page: a valid page that declares one other URL in its head or headers.
        target: the page at the end of the way from that URL; None when nothing was seen there.
        route: that way.
        texts_for_target: how many distinct texts declare this target.
    """
    difference = None
    if target is not None and page.text is not None and target.text is not None:
        difference = compare_texts(page.text, target.text)
    case = _Case(page, target, route, texts_for_target, difference)
    verdict = next(verdict for rule in RULES if (verdict := rule(case)) is not None)
    return Verdict(verdict.state, verdict.reason, {**_measures(case), **verdict.measures})


def _measures(case: _Case) -> dict[str, Any]:
    measures: dict[str, Any] = {}
    if case.route.hops:
        measures["hops"] = list(case.route.hops)
    if case.target is not None:
        measures["judged_url"] = case.target.url
    if case.is_seen and case.page.normalized_digest is not None:
        measures["text_equal"] = case.same_text
    if case.difference is not None:
        measures["page_in_target"] = case.difference.page_in_target
        measures["target_in_page"] = case.difference.target_in_page
    if case.texts_for_target > 1:
        measures["texts_for_target"] = case.texts_for_target
    return measures


def _leads_back(case: _Case) -> Verdict | None:
    """The target only sends its visitors back to the page, which is therefore the canonical one itself."""
    only_redirects = bool(case.route.hops) and "canonical" not in case.route.hops
    came_home = case.target is not None and case.target.url_key == case.page.url_key
    return confirmed("self") if only_redirects and came_home else None


def _loop(case: _Case) -> Verdict | None:
    if not (case.route.back or case.route.too_long):
        return None
    # Two versions that declare each other are two versions first of all.
    if case.differs_in_versions_only or case.versions_disagree:
        return unresolved("other_version", **_named_versions(case))
    return refuted("loop")


def _off_site(case: _Case) -> Verdict | None:
    """A syndicated copy, or a fault: the other publisher has to be confirmed by somebody."""
    if case.is_seen and not case.same_text:
        return None
    ours, theirs = _host(case.page.url), _host(case.judged_url)
    same = ours == theirs or (site_of(ours) is not None and site_of(ours) == site_of(theirs))
    return None if same else unresolved("off_site")


def _broken(case: _Case) -> Verdict | None:
    target = case.target
    if target is None:
        return None
    if target.problem is not None:
        return refuted("broken", target_problem=target.problem)
    if target.noindex and not case.page.noindex:
        return refuted("broken", target_problem="noindex")
    return None


def _other_language(case: _Case) -> Verdict | None:
    if case.target is None:
        return None
    told = (case.page.language, case.target.language)
    declared = (case.page.declared_language, case.target.declared_language)
    for ours, theirs in (told, declared):
        if ours and theirs and _written_language(ours) != _written_language(theirs):
            return refuted("other_language", languages=[ours[:100], theirs[:100]])
    return None


def _other_version(case: _Case) -> Verdict | None:
    """One text in two versions is evidence for two versions; the claim diff may say more one day."""
    if not case.is_seen:
        return None
    if (case.same_text and case.versions_disagree) or case.differs_in_versions_only:
        return unresolved("other_version", **_named_versions(case))
    return None


def _residual_differs(case: _Case) -> Verdict | None:
    """The texts are equal, but not the prose around them: the extractor may have lost a section of one."""
    if case.same_text and case.target and case.page.residual_digest != case.target.residual_digest:
        return unresolved("residual_differs")
    return None


def _text_equal(case: _Case) -> Verdict | None:
    return confirmed("text_equal") if case.same_text else None


def _homepage(case: _Case) -> Verdict | None:
    parts = urlsplit(case.route.declared)
    is_home = not parts.query and re.fullmatch(r"/?(?:index\.\w+)?", parts.path) is not None
    return refuted("homepage") if is_home else None


def _first_page_of_series(case: _Case) -> Verdict | None:
    return (
        refuted("first_page_of_series") if leads_to_first_page(case.page.url, case.route.declared) else None
    )


def _many_to_one(case: _Case) -> Verdict | None:
    return refuted("many_to_one") if case.texts_for_target >= MANY else None


def _target_unknown(case: _Case) -> Verdict | None:
    """Nothing was seen there, or nothing that can be compared."""
    if not case.is_seen or case.page.normalized_digest is None:
        return unresolved("target_unknown")
    if case.target is not None and case.target.comparable != case.page.comparable:
        return unresolved("target_unknown", text="of another extractor")
    return None


def _dropped_parameter(case: _Case) -> Verdict | None:
    dropped = dropped_parameters(case.page.url_key, case.route.declared_key)
    return refuted("dropped_parameter", parameters=dropped) if dropped else None


def _language_in_url(case: _Case) -> Verdict | None:
    ours, theirs = language_in(case.page.url), language_in(case.judged_url)
    return refuted("other_language", languages=[ours, theirs]) if ours and ours != theirs else None


def _contained(case: _Case) -> Verdict | None:
    """Nearly all of the page stands in the target; what differs is no claim and no passage of its own."""
    if case.difference is None or case.difference.page_in_target < CONTAINED or case.versions_disagree:
        return None
    read = case.claims()
    if read is None or read.verdict.value == "different":
        return unresolved("contained")
    measures = {"verdict": read.verdict.value, "jaccard": round(read.jaccard, 6)}
    if read.verdict.value == "claim_changed":
        changed = next((span for span in read.spans if span.changes_claim), None)
        where = {"changed": [changed.a[:MAX_SPAN_CHARS], changed.b[:MAX_SPAN_CHARS]]} if changed else {}
        return refuted("claim_changed", **measures, **where)
    if read.passage_tokens_a:
        return unresolved("contained", **measures, passage_tokens=read.passage_tokens_a)
    return confirmed("contained", **measures)


def _text_differs(case: _Case) -> Verdict | None:  # noqa: ARG001 - every rule is asked in the same way
    return refuted("text_differs")


RULES: tuple[Callable[[_Case], Verdict | None], ...] = (
    _leads_back,
    _loop,
    _broken,
    _other_language,
    _other_version,
    _residual_differs,
    _off_site,
    _text_equal,
    # From here on the texts differ or are not known, and the more telling reason comes first.
    _homepage,
    _first_page_of_series,
    _many_to_one,
    _target_unknown,
    _dropped_parameter,
    _language_in_url,
    _contained,
    _text_differs,
)


def _named_versions(case: _Case) -> dict[str, Any]:
    ours, theirs = case.versions
    return {"versions": [list(ours), list(theirs)]} if case.versions_disagree else {}


def _written_language(tag: str) -> tuple[str, ...]:
    """Return what decides whether two readers can read one text: the language, and a script if it is named.

    >>> _written_language("en_GB"), _written_language("zh-Hant-TW")
    (('en',), ('zh', 'hant'))
    """
    language, *rest = tag.strip().lower().replace("_", "-").split("-")
    return (language, *(part for part in rest[:1] if len(part) == 4 and part.isalpha()))


# -- what a URL says by itself

_VERSION_SEGMENT = re.compile(
    r"(?:v(?:ersion)?[-_]?|release[-_]?)?\d+(?:\.(?:\d+|x))+(?:[-_.]?(?:rc|alpha|beta|dev|post|lts|stable)[-_.]?\d*)?"
    r"|v\d+(?:[-_.]?(?:rc|alpha|beta)\d*)?",
    re.IGNORECASE,
)


def versions_in(url: str) -> tuple[str, ...]:
    """Return the versions that the folders of a URL name; a bare number may be a year or an id.

    >>> versions_in("https://docs.example/v1.2/guide"), versions_in("https://docs.example/2024/5/guide")
    (('1.2',), ())
    """
    segments = unquote(_path(url)).lower().split("/")
    return tuple(re.sub(r"^[a-z_-]+", "", part) for part in segments if _VERSION_SEGMENT.fullmatch(part))


def _path(url: str) -> str:
    return urlsplit(url).path


_FIRST = frozenset({"", "0", "1"})
_PAGE_IN_PATH = re.compile(r"(?P<series>.*?)/?\bpage[/_-]?(?P<number>\d{1,6})(?:\.\w{1,5})?/?", re.IGNORECASE)


def leads_to_first_page(page_url: str, target_url: str) -> bool:
    """Tell whether a later page of a series names the first one.

    >>> leads_to_first_page("https://a.example/news?page=2", "https://a.example/news")
    True
    >>> leads_to_first_page("https://a.example/news/page/3/", "https://a.example/news/")
    True
    >>> leads_to_first_page("https://a.example/news?page=1", "https://a.example/news")
    False
    """
    ours, theirs = urlsplit(page_url), urlsplit(target_url)
    if not _FIRST.issuperset(value for _, value in _pagination(theirs.query)):
        return False
    if not _others(theirs.query) <= _others(ours.query):  # a view of all pages
        return False
    if ours.path.rstrip("/") == theirs.path.rstrip("/"):
        return any(value not in _FIRST for _, value in _pagination(ours.query))
    found, first = _PAGE_IN_PATH.fullmatch(ours.path), _PAGE_IN_PATH.fullmatch(theirs.path)
    if found is None or int(found["number"]) < 2 or (first is not None and int(first["number"]) > 1):
        return False
    return found["series"].rstrip("/") == (first["series"] if first else theirs.path).rstrip("/")


def _pagination(query: str) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in _parameters(query) if is_protected(name))


def _others(query: str) -> set[tuple[str, str]]:
    return {(name, value) for name, value in _parameters(query) if not is_protected(name)}


def _parameters(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=1_000)
    except ValueError:  # more than anybody means
        return []


def dropped_parameters(page_key: str, target_key: str) -> list[str]:
    """Return the parameters that a target lacks which is else the page itself.

    >>> dropped_parameters("https://a.example/list?brand=x&size=1", "https://a.example/list?size=1")
    ['brand']
    """
    ours, theirs = urlsplit(page_key), urlsplit(target_key)
    if (ours.netloc, ours.path.rstrip("/")) != (theirs.netloc, theirs.path.rstrip("/")):
        return []
    kept = {name for name, _ in _parameters(theirs.query)}
    return sorted({name[:100] for name, _ in _parameters(ours.query) if name not in kept})[:20]


_LANGUAGE_NAMES = frozenset({"lang", "language", "locale", "hl", "tl", "l"})
_LANGUAGE_CODE = re.compile(r"[a-z]{2}(?:[-_][a-z]{2,4})?", re.IGNORECASE)


def language_in(url: str) -> str | None:
    """Return the language that a URL names in its first folder or in a parameter for it.

    >>> language_in("https://a.example/pt-BR/x"), language_in("https://a.example/x?tl=ja")
    ('pt', 'ja')
    """
    parts = urlsplit(url)
    named = [value for name, value in _parameters(parts.query) if name.lower() in _LANGUAGE_NAMES]
    first = next(filter(None, parts.path.split("/")), "")
    found = next((code for code in (*named, first) if _LANGUAGE_CODE.fullmatch(code)), None)
    return found[:2].lower() if found else None
