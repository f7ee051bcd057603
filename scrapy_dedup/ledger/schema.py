"""The tables of the ledger, the same on SQLite and PostgreSQL.

Identities (body, observation) are digests of their content or place; the integer ``ordinal`` columns are the
order of commits, given inside the transaction under the writers' lock, and keep indexes small and sequential.
An observation's identity is a function of (job, seq), so it needs no column. Wall time never orders anything.

Strings stand escaped (see codec), times are microseconds since 1970, digests are bytes.
"""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA_VERSION = 3
FORMAT = "scrapy-dedup-ledger"

DECISIONS_SINCE = 2
"""The first version that holds decisions and relations; they have not changed since."""

metadata = sa.MetaData()

# SQLite makes a column the row's own address only when its type is spelled INTEGER.
Ordinal = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _ordinal() -> sa.Column[int]:
    return sa.Column("ordinal", Ordinal, primary_key=True, autoincrement=False)


meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

policy = sa.Table(
    "policy",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("spec", sa.Text, nullable=False),
)

job = sa.Table(
    "job",
    metadata,
    _ordinal(),
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

# Text is shared within one space and never across two.
space = sa.Table(
    "space",
    metadata,
    _ordinal(),
    sa.Column("corpus", sa.Text, nullable=False),
    sa.Column("representation", sa.Text, nullable=False),
    sa.Column("extractor_id", sa.Text, nullable=False),
    sa.UniqueConstraint("corpus", "representation", "extractor_id", name="space_identity"),
)

# ``data`` comes last of the first version's columns, so that reading these does not touch its overflow pages;
# ``leader``, which came later, is read from its index. It is the earlier body that can stand for this one.
body = sa.Table(
    "body",
    metadata,
    _ordinal(),
    sa.Column("body_id", sa.LargeBinary, nullable=False),
    sa.Column("job", Ordinal, nullable=False),
    sa.Column("space", Ordinal, nullable=False),
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
    sa.Column("leader", Ordinal),
    sa.UniqueConstraint("body_id", name="body_identity"),
    sa.ForeignKeyConstraint(["job"], ["job.ordinal"], name="body_job"),
    sa.ForeignKeyConstraint(["space"], ["space.ordinal"], name="body_space"),
    sa.Index("body_by_normalized", "normalized_digest", "space"),
    sa.Index("body_by_job", "job", "ordinal"),
    sa.Index("body_by_leader", "space", "leader", "ordinal", "word_count", "simhash"),
)

observation = sa.Table(
    "observation",
    metadata,
    _ordinal(),
    sa.Column("job", Ordinal, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("url_key_digest", sa.LargeBinary, nullable=False),
    sa.Column("space", Ordinal),
    sa.Column("body", Ordinal),
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
    sa.Column("links", sa.LargeBinary),
    sa.Column("publisher", sa.Text),
    sa.Column("license_spdx", sa.Text),
    sa.UniqueConstraint("job", "seq", name="observation_identity"),
    sa.ForeignKeyConstraint(["job"], ["job.ordinal"], name="observation_job"),
    sa.ForeignKeyConstraint(["space"], ["space.ordinal"], name="observation_space"),
    sa.ForeignKeyConstraint(["body"], ["body.ordinal"], name="observation_body"),
    sa.Index("observation_by_url", "url_key_digest", "space", "ordinal"),
    sa.Index("observation_by_body", "body", "ordinal"),
)

alias = sa.Table(
    "alias",
    metadata,
    _ordinal(),
    sa.Column("job", Ordinal, nullable=False),
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
    sa.Index("alias_by_raw_url", "raw_url_digest"),
)

# The links that pages had, each distinct list once: most pages of a second crawl link where they did before.
link_set = sa.Table(
    "link_set",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("codec", sa.SmallInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

# What is known of how two things relate. New evidence about the same pair in the same state of its texts is a
# further row with the same relation_id; the latest one holds, unless a decision says otherwise.
relation = sa.Table(
    "relation",
    metadata,
    _ordinal(),
    sa.Column("relation_id", sa.LargeBinary, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("corpus", sa.Text, nullable=False),
    sa.Column("job", Ordinal),
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
    sa.Index("relation_by_identity", "relation_id", "ordinal"),
    sa.Index("relation_by_kind", "kind", "ordinal"),
    sa.Index("relation_by_a", "a_place", "kind", "ordinal"),
    sa.Index("relation_by_b", "b_place", "kind", "ordinal"),
)

# The pages whose claim to be another page rests on what is seen at a place, by digests of keys.
claim_place = sa.Table(
    "claim_place",
    metadata,
    sa.Column("place", sa.LargeBinary, primary_key=True),
    sa.Column("corpus", sa.Text, primary_key=True),
    sa.Column("page", sa.LargeBinary, primary_key=True),
)

# The pages whose claim is to be judged again; a list of work, not a record.
claim_due = sa.Table(
    "claim_due",
    metadata,
    sa.Column("corpus", sa.Text, primary_key=True),
    sa.Column("page", sa.LargeBinary, primary_key=True),
)

# The bands of MinHash signatures by which short texts that have no leader are found.
near_band = sa.Table(
    "near_band",
    metadata,
    sa.Column("space", Ordinal, primary_key=True, autoincrement=False),
    sa.Column("key", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", Ordinal, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# On how many pages of a host each paragraph stands, up to the body that ``near_space`` names; derived.
host_blocks = sa.Table(
    "host_blocks",
    metadata,
    sa.Column("space", Ordinal, primary_key=True, autoincrement=False),
    sa.Column("host", sa.Text, primary_key=True),
    sa.Column("pages", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

# Up to which body of a space paragraphs are counted and bands are kept.
near_space = sa.Table(
    "near_space",
    metadata,
    sa.Column("space", Ordinal, primary_key=True, autoincrement=False),
    sa.Column("counted", Ordinal, nullable=False),
)

decision = sa.Table(
    "decision",
    metadata,
    _ordinal(),
    sa.Column("decision_id", sa.LargeBinary, nullable=False),
    sa.Column("relation_id", sa.LargeBinary, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("supersedes", sa.LargeBinary),
    sa.Column("decided_by", sa.Text, nullable=False),
    sa.Column("decided_us", sa.BigInteger, nullable=False),
    sa.Column("note", sa.Text),
    sa.UniqueConstraint("decision_id", name="decision_identity"),
    sa.Index("decision_by_relation", "relation_id", "ordinal"),
)

# The indexes that plans are made for, by the name that their user gives them, each with the plan that was
# applied to it last, and the options of that.
index_target = sa.Table(
    "index_target",
    metadata,
    _ordinal(),
    sa.Column("corpus", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("applied_plan", sa.LargeBinary),
    sa.Column("applied_us", sa.BigInteger),
    sa.Column("applied_options", sa.Text),
    sa.UniqueConstraint("corpus", "name", name="index_target_identity"),
)

# What an index holds by the plans that were applied to it. What was deleted stays, not held, as its vector is
# known.
index_entry = sa.Table(
    "index_entry",
    metadata,
    sa.Column("target", Ordinal, primary_key=True),
    sa.Column("entry_id", sa.LargeBinary, primary_key=True),
    sa.Column("embed_key", sa.LargeBinary, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("is_held", sa.Boolean, nullable=False),
    sa.Column("owners", sa.LargeBinary, nullable=False),
    sa.ForeignKeyConstraint(["target"], ["index_target.ordinal"], name="index_entry_target"),
)

# The latest plan for each index that nobody has confirmed yet, and its lines.
index_plan = sa.Table(
    "index_plan",
    metadata,
    sa.Column("target", Ordinal, primary_key=True, autoincrement=False),
    sa.Column("plan_id", sa.LargeBinary, nullable=False),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("is_whole", sa.Boolean, nullable=False),
    sa.ForeignKeyConstraint(["target"], ["index_target.ordinal"], name="index_plan_target"),
)
index_change = sa.Table(
    "index_change",
    metadata,
    sa.Column("target", Ordinal, primary_key=True),
    sa.Column("entry_id", sa.LargeBinary, primary_key=True),
    sa.Column("is_delete", sa.Boolean, nullable=False),
    sa.Column("embed_key", sa.LargeBinary, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("owners", sa.LargeBinary, nullable=False),
    sa.ForeignKeyConstraint(["target"], ["index_plan.target"], name="index_change_plan"),
)


def create(connection: sa.Connection) -> None:
    """Make all tables in an empty database."""
    metadata.create_all(connection, checkfirst=False)
    state_version(connection)


def state_version(connection: sa.Connection) -> None:
    """Write down what these tables are, once they are all there."""
    connection.execute(sa.delete(meta))
    stated = {"format": FORMAT, "schema_version": str(SCHEMA_VERSION)}
    connection.execute(sa.insert(meta), [{"name": name, "value": value} for name, value in stated.items()])
