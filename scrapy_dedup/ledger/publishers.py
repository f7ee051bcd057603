"""Which texts were seen on the sites of more than one publisher.

Such copies are one body with several publishers. Whether they are one voice (syndicated, quoted, copied) or
several that say the same is not known from the text, so it is said to be unresolved. Nothing is merged or
dropped by it.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from scrapy_dedup.ledger import schema

UNRESOLVED = "unresolved"

MAX_BODIES = 500
"""Bodies that one statement asks about."""

MAX_REMEMBERED = 200_000
"""Bodies whose answers are kept; more of them are asked about again."""

_t = schema.observation.c


class Publishers:
    """Answers for one state of the ledger.

    Args:
        connection: it is read in the transaction that is open on it.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._asked: set[int] = set()
        self._several: set[int] = set()

    def several(self, bodies: Iterable[int]) -> set[int]:
        """Return those of some bodies (their ordinals) that were seen with more than one publisher."""
        wanted = set(bodies)
        if len(self._asked) > MAX_REMEMBERED:
            self._asked.clear()
            self._several.clear()
        unknown = sorted(wanted - self._asked)
        for start in range(0, len(unknown), MAX_BODIES):
            self._several |= self._ask(unknown[start : start + MAX_BODIES])
        self._asked.update(unknown)
        return wanted & self._several

    def _ask(self, bodies: list[int]) -> set[int]:
        statement = (
            sa.select(_t.body)
            .where(_t.body.in_(bodies))
            .group_by(_t.body)
            .having(sa.func.min(_t.publisher) != sa.func.max(_t.publisher))
        )
        return set(self._connection.execute(statement).scalars())
