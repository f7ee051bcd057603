"""How a URL key stands after each of its observations, and what each made of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from scrapy_dedup.ledger.changes import Case, Evidence, Seen, change_of
from scrapy_dedup.records import BodyRecord, ChangeRecord, Conditions, ObservationRecord

_Kind = tuple[str, str, Conditions]


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was seen, and its text: a body, or the ordinal of one that is still to be read."""

    seen: Seen
    text: BodyRecord | int


@dataclass(slots=True)
class Standing:
    """How a key stands: the last page of each kind, the latest last; whether it is gone since."""

    pages: dict[_Kind, Page] = field(default_factory=dict)
    is_gone: bool = False

    def before(self, now: Seen | None) -> Page | None:
        """Return the page to compare with: one read alike under equal conditions if there is one."""
        last = next(reversed(self.pages.values()), None)
        return self.pages.get(_kind_of(now), last) if now and now.text else last

    def learn(self, seen: Seen, body: BodyRecord | None) -> None:
        """Take an observation into account for those after it."""
        if seen.evidence is not Evidence.NONE:
            self.is_gone = seen.evidence is Evidence.GONE
        if body is not None and seen.is_page:
            self.add(Page(seen, body))

    def add(self, page: Page) -> None:
        """Add the latest page."""
        kind = _kind_of(page.seen)
        self.pages.pop(kind, None)
        self.pages[kind] = page


def _kind_of(seen: Seen) -> _Kind:
    text = seen.text
    return (text.representation, text.extractor_id, seen.conditions) if text else ("", "", seen.conditions)


@dataclass(frozen=True, slots=True)
class Revision:
    """One observation of a URL with its text, and what became of its key by it."""

    observation: ObservationRecord
    body: BodyRecord | None
    change: ChangeRecord


def revisions(
    observations: Iterable[ObservationRecord], bodies: Iterable[BodyRecord], corpora: Mapping[str, str]
) -> Iterator[Revision]:
    """Yield the revisions of URL keys, each compared with what was seen of the same key before.

    Args:
        observations: in the order in which they were made.
        bodies: their texts.
        corpora: the corpus of each job; keys of two corpora are not compared.
    """
    texts = {body.body_id: body for body in bodies}
    standings: dict[tuple[str, str], Standing] = {}
    for observation in observations:
        key = corpora[observation.job_id], observation.url_key
        standing = standings.setdefault(key, Standing())
        body = texts.get(observation.body_id or "")
        seen = Seen.of(observation, body)
        before = standing.before(seen)
        case = Case(seen, before.seen if before else None, was_gone=standing.is_gone)
        change = change_of(case, job_id=seen.job_id, texts=partial(_texts, before, body))
        yield Revision(observation, body, change)
        standing.learn(seen, body)


def _texts(before: Page | None, now: BodyRecord | None) -> tuple[str, str]:
    if before is None or now is None or isinstance(before.text, int):
        raise LookupError("a changed page without its texts")
    return before.text.text, now.text
