"""Places that cannot be a ledger: one clear message, and whatever stands there stays as it was."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from scrapy_dedup.errors import LedgerError, LedgerTooNew, LedgerUnavailable
from scrapy_dedup.ledger import Ledger, LedgerWriter, engine
from scrapy_dedup.ledger.engine import Target
from scrapy_dedup.ledger.texts import Space
from scrapy_dedup.records import RelationKind, RelationRecord, RelationState


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


def make_foreign(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.fixture
def made(tmp_path, records):
    """A finished ledger with one page."""
    path = tmp_path / "dedup.db"
    with records.crawl(f"sqlite:///{path}", records.job()) as one:
        one.see("T " * 5000)
    return path


def spoil_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def spoil_empty(path: Path) -> None:
    path.write_bytes(b"")


def spoil_garbage(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to look at" * 200)


def spoil_header(path: Path) -> None:
    path.write_bytes(b"\xff" * 100 + path.read_bytes()[100:])


def spoil_schema_page(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 3996 + content[4096:])


def spoil_truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8192])


def spoil_foreign(path: Path) -> None:
    path.unlink()
    make_foreign(path, "CREATE TABLE customers (name TEXT)")


def spoil_foreign_meta(path: Path) -> None:
    path.unlink()
    make_foreign(
        path, "CREATE TABLE meta (name TEXT, value TEXT)", "INSERT INTO meta VALUES ('version', '1')"
    )


def spoil_foreign_wal(path: Path) -> None:
    path.unlink()
    make_foreign(path, "PRAGMA journal_mode=WAL", "CREATE TABLE meta (k TEXT)")


def spoil_without_tables(path: Path) -> None:
    path.unlink()
    make_foreign(path, "PRAGMA user_version=7")


SPOILERS = {
    "a directory": (spoil_directory, "directory"),
    "an empty file": (spoil_empty, "empty file"),
    "a file that is no database": (spoil_garbage, "not a database"),
    "a damaged header": (spoil_header, "not a database"),
    "a damaged first page": (spoil_schema_page, "cannot be opened"),
    "a truncated file": (spoil_truncated, "cannot be opened"),
    "somebody's database": (spoil_foreign, "not a ledger"),
    "somebody's database with a table meta": (spoil_foreign_meta, "not a ledger"),
    "somebody's database in WAL mode": (spoil_foreign_wal, "not a ledger"),
    "a database without tables": (spoil_without_tables, "not a ledger"),
}


@pytest.mark.parametrize(("spoil", "message"), SPOILERS.values(), ids=SPOILERS)
def test_what_is_no_ledger_is_refused_and_left_alone(made, tmp_path, records, spoil, message):
    spoil(made)
    (tmp_path / "dedup.db.lock").unlink()
    before = snapshot(tmp_path)
    url = f"sqlite:///{made}"
    with pytest.raises(LedgerUnavailable, match=message):
        LedgerWriter.check(url)
    with pytest.raises(LedgerUnavailable, match=message):
        Ledger.open(url)
    with pytest.raises(LedgerUnavailable, match=message) as caught:
        records.crawl(url, records.job()).see("T")
    assert str(made) in str(caught.value)
    assert snapshot(tmp_path) == before


def test_a_newer_ledger_is_refused_and_left_alone(made, tmp_path, records):
    make_foreign(made, "UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    before = snapshot(tmp_path)
    url = f"sqlite:///{made}"
    for attempt in (LedgerWriter.check, Ledger.open, lambda url: records.crawl(url, records.job()).see("T")):
        with pytest.raises(LedgerTooNew, match=r"version 99.*Upgrade"):
            attempt(url)
    assert snapshot(tmp_path) == before


def test_a_missing_ledger_is_no_problem_for_a_crawl_and_nothing_is_made(tmp_path):
    LedgerWriter.check(f"sqlite:///{tmp_path}/new/folder/dedup.db")
    with pytest.raises(LedgerUnavailable, match="no ledger"):
        Ledger.open(f"sqlite:///{tmp_path}/new/folder/dedup.db")
    assert list(tmp_path.iterdir()) == []


def test_folders_are_made_with_the_first_page(tmp_path, records):
    with records.crawl(f"sqlite:///{tmp_path}/new/folder/dedup.db", records.job()) as one:
        one.see("T")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "dedup.db",
        "dedup.db.lock",
    ]


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(LedgerUnavailable, match="is a file"):
        LedgerWriter.check(f"sqlite:///{tmp_path}/file/dedup.db")


@pytest.mark.parametrize(
    "url",
    ["dedup.db", "mysql://host/name", "sqlite://", "sqlite:///:memory:", "oracle://x", ""],
)
def test_what_is_no_url_of_a_ledger_is_refused(url):
    with pytest.raises(LedgerUnavailable, match="sqlite:///"):
        LedgerWriter.check(url)


def test_a_missing_server_is_named_without_its_password():
    with pytest.raises(LedgerUnavailable, match="cannot be reached") as caught:
        LedgerWriter.check("postgresql://user:secret@127.0.0.1:1/name")
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_a_database_with_tables_of_somebody_else_is_refused(postgres_url, records):
    import sqlalchemy as sa

    engine = sa.create_engine(Target.parse(postgres_url).url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE customers (name text)"))
    for attempt in (LedgerWriter.check, Ledger.open, lambda url: records.crawl(url, records.job()).see("T")):
        with pytest.raises(LedgerUnavailable, match="customers"):
            attempt(postgres_url)
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["customers"]
    engine.dispose()


def test_a_newer_ledger_on_a_server_is_refused(postgres_url, records):
    import sqlalchemy as sa

    with records.crawl(postgres_url, records.job()) as one:
        one.see("T")
    engine = sa.create_engine(Target.parse(postgres_url).url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE meta SET value = '99' WHERE name = 'schema_version'"))
    engine.dispose()
    with pytest.raises(LedgerTooNew):
        LedgerWriter.check(postgres_url)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Permissions don't bind root; do as another user where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    "modes", [(0o444, 0o777), (0o666, 0o555)], ids=["read-only file", "read-only folder"]
)
def test_a_read_only_ledger_can_be_read_and_says_why_it_cannot_be_written(made, tmp_path, records, modes):
    for folder in tmp_path.parents:
        if "pytest" in str(folder):  # made for root alone; there is one more of them in a parallel run
            folder.chmod(0o755)
    before = snapshot(tmp_path)
    made.chmod(modes[0])
    tmp_path.chmod(modes[1])
    url = f"sqlite:///{made}"
    with as_nobody():
        with pytest.raises(LedgerUnavailable, match="read-only") as caught:
            LedgerWriter.check(url)
        with pytest.raises(LedgerUnavailable, match="read-only"):
            records.crawl(url, records.job()).see("T")
        with Ledger.open(url) as ledger:
            assert ledger.summary()["observations"] == 1
    tmp_path.chmod(0o755)
    assert str(made) in str(caught.value)
    assert snapshot(tmp_path).items() >= before.items()


def test_reading_changes_no_byte_of_the_ledger(made):
    before = made.read_bytes()
    with Ledger.open(f"sqlite:///{made}") as ledger:
        assert ledger.check(deep=True) == []
        assert ledger.summary()["observations"] == 1
        with pytest.raises(Exception, match=r"readonly"):
            ledger._connection.exec_driver_sql("DELETE FROM observation")
    assert made.read_bytes() == before


def test_a_reader_sees_one_state_of_a_running_crawl(sqlite_url, records):
    with records.crawl(sqlite_url, records.job()) as one:
        one.see("1")
        with Ledger.open(sqlite_url) as ledger:
            observations = ledger.observations()
            next(observations)
            one.see("2")
            assert list(observations) == []
            assert ledger.summary()["observations"] == 1
        with Ledger.open(sqlite_url) as ledger:
            assert ledger.summary()["observations"] == 2


def test_a_relative_path_is_taken_from_the_present_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Target.parse("sqlite:///dedup.db").path == tmp_path / "dedup.db"


def test_a_path_with_marks_that_urls_know_is_a_path(tmp_path, records):
    url = f"sqlite:///{tmp_path}/a b%20#1?.db".replace("?", "%3F").replace("%20", "%2520")
    target = Target.parse(url)
    with records.crawl(url, records.job()) as one:
        one.see("T")
    assert target.path.exists()
    assert target.path.name + ".lock" in {path.name for path in tmp_path.iterdir()}


def test_damage_inside_a_ledger_is_found_by_the_deep_check(made):
    content = bytearray(made.read_bytes())
    (data,) = _one_value(made, "SELECT data FROM body")
    place = bytes(content).index(data[:16])
    content[place + 12] ^= 1
    made.write_bytes(content)
    with Ledger.open(f"sqlite:///{made}") as ledger:
        assert ledger.check() == []
        (problem,) = ledger.check(deep=True)
        assert "damaged" in problem or "digest" in problem


def test_rows_that_miss_each_other_are_found(made):
    make_foreign(made, "UPDATE observation SET body = NULL")
    with Ledger.open(f"sqlite:///{made}") as ledger:
        problems = ledger.check()
    assert any("has no observation" in problem for problem in problems)
    assert any("but no body" in problem for problem in problems)


ANY_SPACE = Space(1, "default", "markdown", "x-1", 1)
ANY_PAIR = RelationRecord(
    relation_id="rel1-" + "0" * 32,
    kind=RelationKind.NEAR,
    corpus="default",
    a="body1-" + "0" * 32,
    b="body1-" + "1" * 32,
    a_digest=None,
    b_digest=None,
    state=RelationState.UNRESOLVED,
    measures={},
    reasons=(),
    policy="by hand",
    job_id=None,
    created_at="2026-11-01T00:00:00Z",
)
READS = {
    "jobs": lambda ledger: list(ledger.jobs()),
    "observations": lambda ledger: list(ledger.observations()),
    "bodies": lambda ledger: list(ledger.bodies()),
    "aliases": lambda ledger: list(ledger.aliases()),
    "failed_urls": lambda ledger: list(ledger.failed_urls("job-1")),
    "policy_spec": lambda ledger: ledger.policy_spec(),
    "lookup": lambda ledger: ledger.lookup("http://site.example/a"),
    "keys_of": lambda ledger: ledger.keys_of("http://site.example/a"),
    "places": lambda ledger: list(ledger.places()),
    "relations": lambda ledger: list(ledger.relations()),
    "relation": lambda ledger: ledger.relation("rel1-" + "0" * 32),
    "spaces": lambda ledger: ledger.spaces("default"),
    "texts": lambda ledger: list(ledger.texts(ANY_SPACE)),
    "relations_named": lambda ledger: ledger.relations_named(["rel1-" + "0" * 32]),
    "for_review": lambda ledger: ledger.for_review("default"),
    "sides": lambda ledger: ledger.sides(ANY_PAIR),
    "are_current": lambda ledger: ledger.are_current(ANY_PAIR),
    "would_suppress": lambda ledger: ledger.would_suppress("default", 0.8),
    "decisions": lambda ledger: list(ledger.decisions()),
    "history": lambda ledger: ledger.history("rel1-" + "0" * 32),
    "overrides": lambda ledger: ledger.overrides("default"),
    "changes": lambda ledger: list(ledger.changes()),
    "owners": lambda ledger: list(ledger.owners("default")),
    "bodies_at": lambda ledger: ledger.bodies_at([1]),
    "stand_ins": lambda ledger: ledger.stand_ins("c"),
    "index_entries": lambda ledger: list(ledger.index_entries("default", "default")),
    "applied_plan": lambda ledger: ledger.applied_plan("default", "default"),
    "index_basis": lambda ledger: ledger.index_basis("default", "default"),
    "waiting_changes": lambda ledger: list(ledger.waiting_changes("default", "default")),
    "revisions": lambda ledger: list(ledger.revisions("http://site.example/a")),
    "job_summary": lambda ledger: ledger.job_summary("job-1"),
    "summary": lambda ledger: ledger.summary(),
}


def test_every_read_of_the_ledger_is_in_the_table():
    # Each of these has tests of its own.
    others = {"open", "overrides_at", "close", "check", "backup", "engine_version"}
    assert {name for name in vars(Ledger) if not name.startswith("_")} == set(READS) | others


@pytest.mark.parametrize("name", READS)
def test_what_a_read_raises_is_an_error_of_the_ledger(name, made):
    content = bytearray(made.read_bytes())
    with Ledger.open(f"sqlite:///{made}") as ledger:
        content[4096:] = b"\xff" * (len(content) - 4096)
        made.write_bytes(content)
        with pytest.raises(LedgerUnavailable, match=f"{made} cannot be read") as caught:
            READS[name](ledger)
        assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("UPDATE observation SET outcome = 'nonsense'", "observations"),
        ("UPDATE observation SET extra = '{'", "lookup"),
        ("UPDATE body SET data = x'00'", "bodies"),
        ("UPDATE policy SET spec = '['", "policy_spec"),
    ],
)
def test_a_damaged_row_is_an_error_of_the_ledger(statement, read, made):
    make_foreign(made, statement)
    with Ledger.open(f"sqlite:///{made}") as ledger, pytest.raises(LedgerUnavailable, match="damaged row"):
        READS[read](ledger)


def test_a_small_commit_takes_few_statements(sqlite_url, records, monkeypatch):
    said: list[str] = []
    connect = engine._connect_writer

    def connect_traced(path):
        connection = connect(path)
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(engine, "_connect_writer", connect_traced)
    with records.crawl(sqlite_url, records.job()) as one:
        one.see("First")
        one.note("http://raw", "key")
        said.clear()
        one.see("Second", "http://site.example/b")
    first_commit = said[: said.index("COMMIT")]
    assert [statement.split()[0] for statement in first_commit] == [
        "BEGIN",
        "PRAGMA",  # has another connection written?
        *["SELECT"] * 3,  # by body, normalized text and URL
        *["INSERT"] * 2,
        "SELECT",  # canonical claims that rest on the page
    ]


def test_a_failed_open_reaches_all_who_wait(tmp_path, records):
    (tmp_path / "dedup.db").mkdir()
    one = records.crawl(f"sqlite:///{tmp_path}/dedup.db", records.job())
    with pytest.raises(LedgerError):
        one.writer.next_seq()
    with pytest.raises(LedgerError):
        one.writer.variants("key").result(10)
    assert isinstance(one.writer.failed, LedgerUnavailable)
    one.note("http://raw", "key")
    one.writer.finish("failed")


def _one_value(path: Path, query: str):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchone()


@pytest.mark.parametrize("name", ["q?mode=ro.db", "q%41.db", "q#1.db"])
def test_a_file_is_named_as_it_is_written(tmp_path, name):
    assert Target.parse(f"sqlite:///{tmp_path}/{name}").path == tmp_path / name


@pytest.mark.parametrize(
    "url", ["sqlite:///", "sqlite:////tmp/:memory:", "postgresql://u:pw@host:port/d", "mysql://h/d", "x"]
)
def test_what_is_no_place_for_a_ledger_is_refused_with_a_message(url):
    with pytest.raises(LedgerUnavailable):
        Target.parse(url)


def test_no_message_names_a_password():
    assert "secret" not in Target.parse("postgresql://u:secret@h/d?password=secret").name
