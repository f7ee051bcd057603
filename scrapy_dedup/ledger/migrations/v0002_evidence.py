"""Version 2: relations, decisions about them, the links of pages, and what finds similar texts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add the tables of version 2 to those of version 1."""
    ordinal = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("observation", sa.Column("links", sa.LargeBinary))
    op.add_column("observation", sa.Column("publisher", sa.Text))
    op.add_column("observation", sa.Column("license_spdx", sa.Text))
    op.add_column("body", sa.Column("leader", ordinal))
    op.create_index("body_by_leader", "body", ["space", "leader", "ordinal", "word_count", "simhash"])
    op.create_table(
        "near_band",
        sa.Column("space", ordinal, primary_key=True, autoincrement=False),
        sa.Column("key", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", ordinal, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "host_blocks",
        sa.Column("space", ordinal, primary_key=True, autoincrement=False),
        sa.Column("host", sa.Text, primary_key=True),
        sa.Column("pages", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "near_space",
        sa.Column("space", ordinal, primary_key=True, autoincrement=False),
        sa.Column("counted", ordinal, nullable=False),
    )
    op.create_table(
        "link_set",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("codec", sa.SmallInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "relation",
        sa.Column("ordinal", ordinal, primary_key=True, autoincrement=False),
        sa.Column("relation_id", sa.LargeBinary, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("corpus", sa.Text, nullable=False),
        sa.Column("job", ordinal),
        sa.Column("a_place", sa.LargeBinary, nullable=False),
        sa.Column("b_place", sa.LargeBinary, nullable=False),
        sa.Column("a", sa.Text, nullable=False),
        sa.Column("b", sa.Text, nullable=False),
        sa.Column("a_digest", sa.Text),
        sa.Column("b_digest", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("measures", sa.Text, nullable=False),
        sa.Column("reasons", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["job"], ["job.ordinal"], name="relation_job"),
    )
    op.create_index("relation_by_identity", "relation", ["relation_id", "ordinal"])
    op.create_index("relation_by_kind", "relation", ["kind", "ordinal"])
    op.create_index("relation_by_a", "relation", ["a_place", "kind", "ordinal"])
    op.create_index("relation_by_b", "relation", ["b_place", "kind", "ordinal"])
    op.create_table(
        "claim_place",
        sa.Column("place", sa.LargeBinary, primary_key=True),
        sa.Column("corpus", sa.Text, primary_key=True),
        sa.Column("page", sa.LargeBinary, primary_key=True),
    )
    op.create_table(
        "claim_due",
        sa.Column("corpus", sa.Text, primary_key=True),
        sa.Column("page", sa.LargeBinary, primary_key=True),
    )
    op.create_table(
        "decision",
        sa.Column("ordinal", ordinal, primary_key=True, autoincrement=False),
        sa.Column("decision_id", sa.LargeBinary, nullable=False),
        sa.Column("relation_id", sa.LargeBinary, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("supersedes", sa.LargeBinary),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("decided_us", sa.BigInteger, nullable=False),
        sa.Column("note", sa.Text),
        sa.UniqueConstraint("decision_id", name="decision_identity"),
    )
    op.create_index("decision_by_relation", "decision", ["relation_id", "ordinal"])
