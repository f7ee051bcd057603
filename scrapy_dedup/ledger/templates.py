"""Short texts that a host shows under unrelated URLs: notices and error templates, not documents. Pure.

A page that says "Sorry, something went wrong" with status 200 under hundreds of URLs gives itself away by
exactly that, in any language. Three things tell it from a real text that stands under several URLs:

- It is short. A real page of so few words says little that would be missed while it waits for a review.
- Its paths are unrelated. ``/v1/install`` and ``/v2/install`` are one page of two versions, ``/shirt?size=s``
  and ``/shirt?size=m`` one page twice, ``/shirt-red`` and ``/shirt-blue`` neighbours of one folder. Paths are
  counted as unrelated only when they share neither their folder nor their name; see `unrelated_paths`.
- There are `MIN_UNRELATED_PATHS` of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from scrapy_dedup.ledger.codec import relation_id
from scrapy_dedup.records import BodyRecord, Reason, RelationKind, RelationRecord, RelationState

MAX_TEMPLATE_WORDS = 60
"""Words of the text, a character of a script without spaces counting half."""

MIN_UNRELATED_PATHS = 5
MAX_COUNTED = 200
"""Of the observations of a body so many are looked at, the latest ones."""

POLICY = "shared-template-1"

_INDEX_FILE = re.compile(r"/(?:index|default)\.[a-z]{3,5}$", re.IGNORECASE)


def is_short(body: BodyRecord) -> bool:
    """Tell whether a text is short enough to be a template."""
    return body.word_count <= MAX_TEMPLATE_WORDS


def host_of(url_key: str) -> str:
    """Return the host of a URL key, with its port where it has one; an empty string for a key without.

    >>> host_of("https://ann@site.example:8080/a"), host_of("mailto:a@b")
    ('site.example:8080', '')
    """
    authority = url_key.partition("://")[2]
    return re.split(r"[/?#]", authority, maxsplit=1)[0].rpartition("@")[2].lower()


def unrelated_paths(url_keys: Iterable[str]) -> int:
    """Return how many of some URL keys can be told apart by both their folder and their name.

    Keys are taken in order, each that shares neither with one taken before, so the count is a lower bound.

    >>> unrelated_paths(["http://s/v1/install", "http://s/v2/install", "http://s/v2/faq?all=1"])
    2
    >>> unrelated_paths(["http://s/a/x/", "http://s/b/y/index.html", "http://s/c?page=1", "http://s/c?page=2"])
    3
    """
    folders: set[str] = set()
    names: set[str] = set()
    count = 0
    for url_key in url_keys:
        folder, name = _folder_and_name(url_key)
        if folder not in folders and name not in names:
            folders.add(folder)
            names.add(name)
            count += 1
    return count


def _folder_and_name(url_key: str) -> tuple[str, str]:
    path = _INDEX_FILE.sub("", urlsplit(url_key).path).rstrip("/")
    folder, _, name = path.rpartition("/")
    return folder, name


def template_id(corpus: str, body: BodyRecord, host: str) -> str:
    """Return the identity of the relation of a body and a host that shows it everywhere."""
    kind = RelationKind.SHARED_TEMPLATE.value
    return relation_id(kind, corpus, body.body_id, host, a_digest=body.text_digest)


def template(body: BodyRecord, host: str, *, urls: int, job_id: str, created_at: str) -> RelationRecord:
    """Return the relation that puts a text under quarantine on a host."""
    return RelationRecord(
        relation_id=template_id(body.corpus, body, host),
        kind=RelationKind.SHARED_TEMPLATE,
        corpus=body.corpus,
        a=body.body_id,
        b=host,
        a_digest=body.text_digest,
        b_digest=None,
        state=RelationState.CONFIRMED,
        measures={"urls": urls, "words": body.word_count},
        reasons=(Reason("unrelated_paths", urls, MIN_UNRELATED_PATHS),),
        policy=POLICY,
        job_id=job_id,
        created_at=created_at,
    )
