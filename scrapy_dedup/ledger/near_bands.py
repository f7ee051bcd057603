"""Short texts that are similar, by the bands of their MinHash signatures, in a table of the ledger.

Only texts without a leader stand there, and short ones only, so that the table stays small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import sqlalchemy as sa

from scrapy_dedup.ledger import schema
from scrapy_dedup.ledger.statement import SOUGHT, Change, ListQuery
from scrapy_dedup.near.bands import Banding
from scrapy_dedup.near.claims import MIN_JACCARD
from scrapy_dedup.near.minhash import signatures
from scrapy_dedup.near.shingles import SHINGLE_TOKENS, shingles_of_words, word_hashes
from scrapy_dedup.near.simhash import MIN_WORDS

BANDING = Banding.for_threshold(MIN_JACCARD)

MAX_WORDS = int(MIN_WORDS / MIN_JACCARD)
"""The size of a text that can be similar to one without a fingerprint; those of fewer words have bands."""

MAX_BUCKET = 200
"""Texts under each key that are looked at, on average, the first ones; a larger bucket is a form with another
word in each."""

_band = schema.near_band.c
_space: sa.BindParameter[int] = sa.bindparam("space", required=False)
_WITH_KEYS = ListQuery(
    sa.select(_band.body)
    .where(_band.space == _space, _band.key.in_(SOUGHT))
    .order_by(_band.body)
    .limit(BANDING.bands * MAX_BUCKET)
)
_WITH_KEY = ListQuery(sa.select(_band.key, _band.body).where(_band.space == _space, _band.key.in_(SOUGHT)))
_INSERT = Change(sa.insert(schema.near_band).inline())

Keys = tuple[int, ...]
"""One key for each band, as the signed integers that both engines hold; none for a text of a word or two."""


def band_keys(texts: Sequence[str]) -> list[Keys]:
    """Return the keys of some texts."""
    words, offsets = word_hashes(texts)
    signed = signatures(*shingles_of_words(words, offsets))
    columns = np.column_stack([BANDING.keys(signed, band) for band in range(BANDING.bands)]).view(np.int64)
    spoken = np.diff(offsets) >= SHINGLE_TOKENS
    return [tuple(row) if has_words else () for row, has_words in zip(columns.tolist(), spoken, strict=True)]


def sharing(connection: sa.Connection, space: int, keys: Keys) -> Counter[int]:
    """Return the bodies that share bands with a text, and how many."""
    return Counter(row["body"] for row in _WITH_KEYS.rows(connection, set(keys), space=space))


def keep(connection: sa.Connection, space: int, keys_of: Mapping[int, Keys]) -> None:
    """Store the keys of bodies that have none yet, by their ordinals."""
    rows = [
        {"space": space, "key": key, "body": body}
        for body, keys in keys_of.items()
        for key in sorted(set(keys))
    ]
    if rows:
        _INSERT.run(connection, rows)


def without_keys(connection: sa.Connection, space: int, keys_of: Mapping[int, Keys]) -> Iterable[int]:
    """Return which of some bodies have no keys in the table yet; all of a body's stand there or none."""
    first = {body: keys[0] for body, keys in keys_of.items() if keys}
    held = {(row["key"], row["body"]) for row in _WITH_KEY.rows(connection, set(first.values()), space=space)}
    return [body for body, key in first.items() if (key, body) not in held]
