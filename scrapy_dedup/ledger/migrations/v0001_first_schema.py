"""Version 1: jobs with their policies, spaces of shared text, bodies, observations, aliases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    """Create the tables of version 1."""
    ordinal = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "meta",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "policy",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("spec", sa.Text, nullable=False),
    )
    op.create_table(
        "job",
        sa.Column("ordinal", ordinal, primary_key=True, autoincrement=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("spider", sa.Text, nullable=False),
        sa.Column("corpus", sa.Text, nullable=False),
        sa.Column("settings_digest", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("policy_spec", sa.LargeBinary, nullable=False),
        sa.Column("extractor", sa.Text, nullable=False),
        sa.Column("source_digest", sa.Text),
        sa.Column("started_us", sa.BigInteger, nullable=False),
        sa.Column("finished_us", sa.BigInteger),
        sa.Column("outcome", sa.Text),
        sa.UniqueConstraint("job_id", name="job_identity"),
        sa.ForeignKeyConstraint(["policy_spec"], ["policy.digest"], name="job_policy"),
    )
    op.create_table(
        "space",
        sa.Column("ordinal", ordinal, primary_key=True, autoincrement=False),
        sa.Column("corpus", sa.Text, nullable=False),
        sa.Column("representation", sa.Text, nullable=False),
        sa.Column("extractor_id", sa.Text, nullable=False),
        sa.UniqueConstraint("corpus", "representation", "extractor_id", name="space_identity"),
    )
    op.create_table(
        "body",
        sa.Column("ordinal", ordinal, primary_key=True, autoincrement=False),
        sa.Column("body_id", sa.LargeBinary, nullable=False),
        sa.Column("job", ordinal, nullable=False),
        sa.Column("space", ordinal, nullable=False),
        sa.Column("variant", sa.Integer, nullable=False),
        sa.Column("text_digest", sa.LargeBinary, nullable=False),
        sa.Column("normalized_digest", sa.LargeBinary, nullable=False),
        sa.Column("visible_digest", sa.LargeBinary),
        sa.Column("residual_digest", sa.LargeBinary),
        sa.Column("first_observation", sa.LargeBinary, nullable=False),
        sa.Column("language", sa.Text),
        sa.Column("char_count", sa.BigInteger, nullable=False),
        sa.Column("word_count", sa.BigInteger, nullable=False),
        sa.Column("simhash", sa.BigInteger, nullable=False),
        sa.Column("simhash_scheme", sa.Text, nullable=False),
        sa.Column("codec", sa.SmallInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("body_id", name="body_identity"),
        sa.ForeignKeyConstraint(["job"], ["job.ordinal"], name="body_job"),
        sa.ForeignKeyConstraint(["space"], ["space.ordinal"], name="body_space"),
    )
    op.create_index("body_by_normalized", "body", ["normalized_digest", "space"])
    op.create_index("body_by_job", "body", ["job", "ordinal"])
    op.create_table(
        "observation",
        sa.Column("ordinal", ordinal, primary_key=True, autoincrement=False),
        sa.Column("job", ordinal, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("url_key_digest", sa.LargeBinary, nullable=False),
        sa.Column("space", ordinal),
        sa.Column("body", ordinal),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("related_observation", sa.LargeBinary),
        sa.Column("residual_digest", sa.LargeBinary),
        sa.Column("fetched_us", sa.BigInteger, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("conditions", sa.Text, nullable=False),
        sa.Column("from_cache", sa.Boolean, nullable=False),
        sa.Column("gateway_status", sa.Integer),
        sa.Column("access", sa.Text),
        sa.Column("request_url", sa.Text, nullable=False),
        sa.Column("fetch_url", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("redirect_urls", sa.Text, nullable=False),
        sa.Column("url_key", sa.Text, nullable=False),
        sa.Column("policy_id", sa.Text, nullable=False),
        sa.Column("document_url", sa.Text),
        sa.Column("referrer_url", sa.Text),
        sa.Column("depth", sa.Integer),
        sa.Column("http_status", sa.Integer),
        sa.Column("content_type", sa.Text),
        sa.Column("etag", sa.Text),
        sa.Column("last_modified", sa.Text),
        sa.Column("payload_digest", sa.LargeBinary),
        sa.Column("payload_bytes", sa.BigInteger),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("validity", sa.Text),
        sa.Column("validity_reason", sa.Text),
        sa.Column("recovery", sa.Text),
        sa.Column("canonical", sa.Text),
        sa.Column("sourced", sa.Text, nullable=False),
        sa.Column("independence", sa.Text),
        sa.Column("event_id", sa.Text),
        sa.Column("extra", sa.Text, nullable=False),
        sa.UniqueConstraint("job", "seq", name="observation_identity"),
        sa.ForeignKeyConstraint(["job"], ["job.ordinal"], name="observation_job"),
        sa.ForeignKeyConstraint(["space"], ["space.ordinal"], name="observation_space"),
        sa.ForeignKeyConstraint(["body"], ["body.ordinal"], name="observation_body"),
    )
    op.create_index("observation_by_url", "observation", ["url_key_digest", "space", "ordinal"])
    op.create_index("observation_by_body", "observation", ["body", "ordinal"])
    op.create_table(
        "alias",
        sa.Column("ordinal", ordinal, primary_key=True, autoincrement=False),
        sa.Column("job", ordinal, nullable=False),
        sa.Column("url_key_digest", sa.LargeBinary, nullable=False),
        sa.Column("raw_url_digest", sa.LargeBinary, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("depth", sa.Integer),
        sa.Column("raw_url", sa.Text, nullable=False),
        sa.Column("fetch_url", sa.Text, nullable=False),
        sa.Column("url_key", sa.Text, nullable=False),
        sa.Column("referrer_url", sa.Text),
        sa.UniqueConstraint("url_key_digest", "job", "raw_url_digest", "rule", name="alias_identity"),
        sa.ForeignKeyConstraint(["job"], ["job.ordinal"], name="alias_job"),
    )
    op.create_index("alias_by_raw_url", "alias", ["raw_url_digest"])
