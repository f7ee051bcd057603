"""The numbered steps from an older schema to the present one, run inside the caller's transaction.

A step never changes once released: it spells its tables out and imports nothing from ``schema``; a test
compares the sum of the steps with ``schema.metadata``, which new ledgers are made from, on each engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from scrapy_dedup.ledger import schema
from scrapy_dedup.ledger.migrations import v0001_first_schema, v0002_evidence, v0003_index_plans

STEPS: Mapping[int, Callable[[Operations], None]] = {
    1: v0001_first_schema.upgrade,
    2: v0002_evidence.upgrade,
    3: v0003_index_plans.upgrade,
}


def upgrade(connection: sa.Connection, version: int) -> None:
    """Bring the schema from ``version`` (0: no tables) to the present one.

    The caller's transaction makes it all or nothing, on both engines.
    """
    operations = Operations(MigrationContext.configure(connection))
    for number in range(version + 1, schema.SCHEMA_VERSION + 1):
        STEPS[number](operations)
    schema.state_version(connection)
