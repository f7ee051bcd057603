"""Version 3: the indexes that plans are made for, and what they hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Add the tables of version 3 to those of version 2."""
    ordinal = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "index_target",
        sa.Column("ordinal", ordinal, primary_key=True, autoincrement=False),
        sa.Column("corpus", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("applied_plan", sa.LargeBinary),
        sa.Column("applied_us", sa.BigInteger),
        sa.Column("applied_options", sa.Text),
        sa.UniqueConstraint("corpus", "name", name="index_target_identity"),
    )
    op.create_table(
        "index_entry",
        sa.Column("target", ordinal, primary_key=True),
        sa.Column("entry_id", sa.LargeBinary, primary_key=True),
        sa.Column("embed_key", sa.LargeBinary, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("is_held", sa.Boolean, nullable=False),
        sa.Column("owners", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["target"], ["index_target.ordinal"], name="index_entry_target"),
    )
    op.create_table(
        "index_plan",
        sa.Column("target", ordinal, primary_key=True, autoincrement=False),
        sa.Column("plan_id", sa.LargeBinary, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("is_whole", sa.Boolean, nullable=False),
        sa.ForeignKeyConstraint(["target"], ["index_target.ordinal"], name="index_plan_target"),
    )
    op.create_table(
        "index_change",
        sa.Column("target", ordinal, primary_key=True),
        sa.Column("entry_id", sa.LargeBinary, primary_key=True),
        sa.Column("is_delete", sa.Boolean, nullable=False),
        sa.Column("embed_key", sa.LargeBinary, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("owners", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["target"], ["index_plan.target"], name="index_change_plan"),
    )
