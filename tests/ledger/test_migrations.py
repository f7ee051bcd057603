"""The numbered steps give exactly the present schema, all or nothing; every released ledger still opens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from scrapy_dedup.ledger import Ledger, migrations, schema
from scrapy_dedup.ledger.engine import Target, WriteSession, probe
from scrapy_dedup.ledger.schema import SCHEMA_VERSION, metadata
from scrapy_dedup.records import to_dict

GOLDEN = Path(__file__).parent / "golden"


def test_every_version_has_its_step():
    assert sorted(migrations.STEPS) == list(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize("made_by", ["the steps", "the tables"])
def test_the_sum_of_the_steps_is_the_present_schema(ledger_url, made_by):
    session = WriteSession(Target.parse(ledger_url))
    with session.transaction() as connection:
        if made_by == "the steps":
            metadata.drop_all(connection)
            migrations.upgrade(connection, 0)
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        names = {name for table in metadata.tables.values() for name in _constraint_names(table)}
        assert {name for table in metadata.tables for name in _held_names(connection, table)} == names
    session.close()
    assert probe(Target.parse(ledger_url)) == SCHEMA_VERSION


def _constraint_names(table: sa.Table) -> set[str]:
    kinds = (sa.UniqueConstraint, sa.ForeignKeyConstraint)
    constraints = {one.name for one in table.constraints if isinstance(one, kinds)}
    return constraints | {index.name for index in table.indexes}


def _held_names(connection: sa.Connection, table: str) -> set[str]:
    inspector = sa.inspect(connection)
    unique = {one["name"] for one in inspector.get_unique_constraints(table)}
    foreign = {one["name"] for one in inspector.get_foreign_keys(table)}
    indexes = {one["name"] for one in inspector.get_indexes(table) if not one.get("duplicates_constraint")}
    return unique | foreign | indexes


def test_a_step_that_fails_leaves_what_was_there(ledger_url, monkeypatch):
    target = Target.parse(ledger_url)
    session = WriteSession(target)
    with session.transaction() as connection, monkeypatch.context() as patched:
        metadata.drop_all(connection)
        patched.setattr(schema, "SCHEMA_VERSION", 1)
        migrations.upgrade(connection, 0)
    session.close()

    def fail(operations):
        migrations.v0002_evidence.upgrade(operations)
        raise RuntimeError("in the middle")

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "STEPS", {**migrations.STEPS, 2: fail})
        with pytest.raises(RuntimeError, match="in the middle"):
            WriteSession(target)
    assert probe(target) == 1
    WriteSession(target).close()
    assert probe(target) == SCHEMA_VERSION


def test_tables_that_fail_leave_nothing(ledger_url, monkeypatch):
    target = Target.parse(ledger_url)
    with monkeypatch.context() as patched:
        patched.setattr(schema, "state_version", lambda connection: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            WriteSession(target)
    assert probe(target) is None
    WriteSession(target).close()
    assert probe(target) == SCHEMA_VERSION


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.db")), ids=lambda path: path.stem)
def test_a_released_ledger_opens_and_holds_what_it_held(golden, tmp_path, records):
    held = [json.loads(line) for line in golden.with_suffix(".jsonl").read_text("utf-8").splitlines()]
    assert golden.stat().st_size < 250_000
    path = tmp_path / "dedup.db"
    shutil.copyfile(golden, path)
    WriteSession(Target.parse(f"sqlite:///{path}")).close()  # migrates, once there is something to migrate
    with Ledger.open(f"sqlite:///{path}") as ledger:
        read = [*ledger.jobs(), *ledger.observations(), *ledger.bodies(), *ledger.aliases()]
        read += [*ledger.relations(), *ledger.decisions()]
        kinds = {was["schema"] for was in held}  # version 1 knew of fewer
        lines = [json.loads(json.dumps(to_dict(record))) for record in read if record.schema in kinds]
        assert [{name: line[name] for name in was} for line, was in zip(lines, held, strict=True)] == held
        # What a record has learnt to hold since then is unknown of an old one.
        later = [line[name] for line, was in zip(lines, held, strict=True) for name in line.keys() - was]
        assert set(later) <= {None}
        assert ledger.check(deep=True) == []
        knows_plans = int(golden.stem.rpartition("v")[2]) >= 3
        assert [(one.id[-1], one.is_held) for one in ledger.index_entries("default", "golden")] == (
            [("0", True), ("1", False), ("2", True)] if knows_plans else []
        )
        if knows_plans:
            assert ledger.applied_plan("default", "golden").plan_id == f"plan1-{1:032x}"
    with records.crawl(f"sqlite:///{path}", records.job("next")) as one:
        assert not one.see("The Text").body_is_new


def test_there_is_a_golden_ledger_of_the_present_version():
    assert (GOLDEN / f"ledger-v{SCHEMA_VERSION}.db").exists()
