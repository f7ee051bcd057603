"""Where the claim of a page leads: over redirects, stubs and further claims to the page that counts. Pure.

What is not known yet is noted as wanted, so that the one who asks can load it and ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scrapy_dedup.content.canonical import MAX_HOPS, Evidence
from scrapy_dedup.ledger import codec
from scrapy_dedup.records import RelationState


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last seen of a page: by its latest observation that says something of the page.

    Attributes:
        key: the digest of ``url_key``, by which places are named.
        problem: why it is no evidence, None for a valid page.
        canonical: as it was stored, empty where nothing was declared.
        body, space, job: their ordinals in the ledger.
    """

    key: bytes
    url_key: str
    url: str
    policy_id: str
    fetched_us: int
    job: int
    problem: str | None
    is_stub: bool
    canonical: Mapping[str, Any]
    residual_digest: str | None
    body: int | None
    space: int | None
    language: str | None
    declared_language: str | None
    char_count: int
    normalized_digest: str | None

    @property
    def claimed(self) -> tuple[str, str] | None:
        """Return target and key of the page that this one claims to be, or sends its visitors to."""
        return claimed(self.canonical)

    @property
    def is_claimant(self) -> bool:
        """Tell whether the page has content and claims to be another one."""
        return self.problem is None and self.body is not None and self.claimed is not None

    def evidence(self, text: str | None) -> Evidence:
        """Return what the decision table has to know of it."""
        return Evidence(
            url=self.url,
            url_key=self.url_key,
            problem=self.problem,
            noindex=bool(self.canonical.get("noindex")),
            language=self.language,
            declared_language=self.declared_language,
            text=text,
            normalized_digest=self.normalized_digest,
            residual_digest=self.residual_digest,
            comparable=self.space,
        )


def claimed(canonical: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Return target and key of the claim in a stored ``canonical``, or None where there is none."""
    key = (canonical or {}).get("target_key")
    target = (canonical or {}).get("target")
    return (target, key) if isinstance(key, str) and isinstance(target, str) else None


@dataclass(slots=True)
class Known:
    """What is loaded of pages and redirects, by digests of keys; remembers what was asked for in vain."""

    pages: dict[bytes, Seen | None] = field(default_factory=dict)
    redirects: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    wanted: set[bytes] = field(default_factory=set)

    def page(self, place: bytes) -> Seen | None:
        """Return what was seen at a place; ask for it where it is not loaded."""
        if place not in self.pages:
            self.wanted.add(place)
        return self.pages.get(place)

    def sent_on(self, place: bytes, *spellings: bytes) -> tuple[bytes, str] | None:
        """Return where the visitors of a place are sent and how, or None where they stay."""
        page = self.page(place)
        for spelling in (place, *spellings):
            self.page(spelling)  # a redirect is loaded together with its page
            target, job = self.redirects.get(spelling, (place, -1))
            if target != place and (page is None or job > page.job):
                return target, "redirect"
        if page is not None and page.is_stub and page.claimed is not None:
            return codec.url_digest(page.claimed[1]), "redirect_stub"
        return None


@dataclass(slots=True)
class Way:
    """The way of one claim, as far as it is known.

    Attributes:
        places: all that the judgement rests on, the declared target first.
        hops: how each further page was reached: ``redirect``, ``redirect_stub`` or ``canonical``.
        back: it came to a page where it had been before.
        too_long: it went on after `MAX_HOPS`.
        end: the page that counts, None where nothing was seen there.
    """

    places: list[bytes]
    hops: list[str] = field(default_factory=list)
    back: bool = False
    too_long: bool = False
    end: Seen | None = None


def way_of(page: Seen, known: Known) -> Way:
    """Follow the claim of a page over redirects, stubs and the claims of the pages on the way."""
    way = Way([])
    place = _land(page, way, known)
    while not way.back and not way.too_long and place != page.key:
        found = known.page(place)
        if found is None or not found.is_claimant or is_refuted(found):
            way.end = found
            return way
        onward = Way([])
        beyond = _land(found, onward, known)
        if beyond == place and not onward.back:  # its target only sends back to it
            way.end = found
            return way
        way.hops += ["canonical", *onward.hops]
        way.back = onward.back or beyond == page.key or beyond in way.places
        way.too_long = onward.too_long or len(way.hops) > MAX_HOPS
        way.places += onward.places
        place = beyond
    # Of a way without an end the declared target is what the page can be compared with.
    came_home = place == page.key and "canonical" not in way.hops
    way.end = page if came_home else known.page(way.places[0])
    return way


def _land(page: Seen, way: Way, known: Known) -> bytes:
    """Follow what sends visitors on from the target of a page; note the way; return where it ends."""
    target, key = page.claimed or (page.url, page.url_key)
    place = codec.url_digest(key)
    way.places.append(place)
    spelling = codec.url_digest(target)
    if spelling != place:
        way.places.append(spelling)
    sent = known.sent_on(place, spelling)
    passed = {place}
    while sent is not None:
        place, how = sent
        way.hops.append(how)
        way.places.append(place)
        if place in passed:
            way.back = True
            break
        if len(way.hops) > MAX_HOPS:
            way.too_long = True
            break
        passed.add(place)
        sent = None if place == page.key else known.sent_on(place)
    return place


def is_refuted(page: Seen) -> bool:
    """Tell whether the URLs alone refuted a claim when it was made; nobody follows such a one."""
    return page.canonical.get("status") == RelationState.REFUTED.value
