"""Which observations report which event is taken from a file as a whole, once, and never merges a text."""

from __future__ import annotations

import csv
import json

import pytest

from scrapy_dedup.crawl.cli.event_file import COLUMNS, EventFileError, read_event_file
from scrapy_dedup.ledger import Ledger
from scrapy_dedup.records import RelationKind, RelationState, to_dict

from ..ledger.test_schemas import validator_of
from .by_hand import MIRROR, SHOP, fill


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The path of a ledger with two jobs, that nobody writes to."""
    path = tmp_path_factory.mktemp("ledger") / "dedup.db"
    fill(f"sqlite:///{path}")
    return path


@pytest.fixture
def ledger(filled, tmp_path):
    """The URL of a copy of that ledger."""
    with Ledger.open(f"sqlite:///{filled}") as held:
        held.backup(tmp_path / "own.db")
    return f"sqlite:///{tmp_path}/own.db"


def observations(url):
    with Ledger.open(url) as held:
        return list(held.observations())


def relations(url, kind):
    with Ledger.open(url) as held:
        return list(held.relations(kind=kind))


def events_of(url):
    """Return the events of the observations, by the URL of the page."""
    found: dict[str, set[str | None]] = {}
    for row in observations(url):
        found.setdefault(row.url, set()).add(row.event_id)
    return found


def write_lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


CLAIM = {"url": MIRROR, "event_id": "flood-7", "reason": "names the bridge"}


def test_an_event_of_a_url_is_that_of_all_its_observations_with_a_text(ledger, dedup, tmp_path):
    texts = {row.body_id for row in observations(ledger)}
    path = write_lines(
        tmp_path / "events.jsonl",
        {
            "url": f"{SHOP}&utm_source=x",
            "event_id": "flood-7",
            "reason": "names the bridge",
            "evidence": "https://river.example/log",
            "by": "policy:nightly",
            "at": "2026-03-01T12:00:00+01:00",
        },
    )
    done = dedup("events", path, "--by", "ann", "--ledger", ledger)
    assert (done.code, "2 new, 0 known" in done.out) == (0, True)
    assert events_of(ledger)[SHOP] == {"flood-7"}
    assert events_of(ledger)[MIRROR] == {None}
    assert {row.body_id for row in observations(ledger)} == texts
    for claim in relations(ledger, RelationKind.EVENT):
        assert (claim.b, claim.state, claim.reasons[0].value) == (
            "flood-7",
            RelationState.CONFIRMED,
            "names the bridge",
        )
        assert claim.measures == {
            "evidence": "https://river.example/log",
            "by": "policy:nightly",
            "at": "2026-03-01T11:00:00Z",
        }


@pytest.mark.parametrize("dated", [False, True], ids=["without a time", "with a time"])
def test_the_same_file_again_writes_nothing(dated, ledger, dedup, tmp_path):
    rows = [CLAIM, {**CLAIM, "reason": "and the date"}, CLAIM]
    if dated:
        rows = [{**row, "at": "2026-03-01T12:00:00Z"} for row in rows]
    path = write_lines(tmp_path / "events.jsonl", *rows)
    counts = [json.loads(dedup("events", path, "--json", "--ledger", ledger).out) for _ in range(2)]
    assert [(count["new"], count["known"]) for count in counts] == [(2, 1), (0, 3)]
    assert len(relations(ledger, RelationKind.EVENT)) == 1
    assert events_of(ledger)[MIRROR] == {"flood-7"}


def test_csv_says_the_same_as_json_lines(ledger, dedup, tmp_path):
    (mirror,) = [row for row in observations(ledger) if row.url == MIRROR]
    with (tmp_path / "events.CSV").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, ["event_id", "observation_id", "reason", "evidence"])
        writer.writeheader()
        said = 'says "flood",\nand when'
        writer.writerow({"event_id": "flood-7", "observation_id": mirror.observation_id, "reason": said})
    assert dedup("events", tmp_path / "events.CSV", "--ledger", ledger).code == 0
    (claim,) = relations(ledger, RelationKind.EVENT)
    assert (claim.a, claim.b, claim.reasons[0].value) == (mirror.observation_id, "flood-7", said)
    assert claim.measures["evidence"] is None
    assert claim.measures["by"].startswith("human:")


def test_two_events_for_one_observation_both_stand_until_one_is_refused(ledger, dedup, tmp_path):
    write_lines(tmp_path / "one.jsonl", CLAIM)
    write_lines(tmp_path / "two.jsonl", {**CLAIM, "event_id": "fire-1"})
    dedup("events", "one.jsonl", "--ledger", ledger)
    done = dedup("events", "two.jsonl", "--ledger", ledger)
    assert "1 new conflict" in done.out
    assert events_of(ledger)[MIRROR] == {None}
    assert [row.b for row in relations(ledger, RelationKind.EVENT)] == ["flood-7", "fire-1"]
    (conflict,) = relations(ledger, RelationKind.EVENT_CONFLICT)
    assert (conflict.b, conflict.state) == ('["fire-1", "flood-7"]', RelationState.UNRESOLVED)
    again = dedup("events", "two.jsonl", "--ledger", ledger)
    assert (again.code, "conflict" in again.out) == (0, False)

    refused = dedup("undo", conflict.relation_id, "--ledger", ledger)
    assert refused.code == 1
    commands = [line.split() for line in done.out.splitlines() if "refuse one:" in line]
    assert [" ".join(command[2:]) for command in commands] == [
        line.strip() for line in refused.err.splitlines() if line.startswith("  scrapy dedup decide")
    ]
    assert dedup(*commands[0][4:]).code == 0
    assert events_of(ledger)[MIRROR] == {"flood-7"}
    explained = dedup("explain", MIRROR, "--ledger", ledger)
    assert "reports the event flood-7" in explained.out
    assert "is claimed for two events" in explained.out
    for kind in (RelationKind.EVENT, RelationKind.EVENT_CONFLICT):
        for record in relations(ledger, kind):
            validator_of("relation").validate(json.loads(json.dumps(to_dict(record))))


def test_all_problems_are_told_with_their_lines_and_nothing_is_written(ledger, dedup, tmp_path):
    path = tmp_path / "events.jsonl"
    rows = [
        json.dumps(CLAIM),
        "",
        "{",
        "[1]",
        json.dumps({**CLAIM, "event": "x"}),
        json.dumps({"url": MIRROR, "event_id": " ", "reason": "r"}),
        json.dumps({"event_id": "e", "reason": "r"}),
        json.dumps({**CLAIM, "observation_id": "obs1-0"}),
        json.dumps({**CLAIM, "reason": 7}),
        json.dumps({**CLAIM, "by": "a\nb"}),
        json.dumps({**CLAIM, "at": "yesterday"}),
        json.dumps({**CLAIM, "event_id": "e" * 501}),
        "[" * 100_000,
        json.dumps({**CLAIM, "at": "9999-12-31T23:59:59-14:00"}),
    ]
    path.write_text("\n".join(rows))
    done = dedup("events", path, "--ledger", ledger)
    assert done.code == 1
    assert "12 problem(s)" in done.err
    for line, said in [
        (3, "no JSON"),
        (4, "no JSON object"),
        (5, "unknown column 'event'"),
        (6, "event_id is missing"),
        (7, "either observation_id or url"),
        (8, "either observation_id or url"),
        (9, "reason is int"),
        (10, "by: a name has"),
        (11, "at: 'yesterday'"),
        (12, "longer than 500"),
        (13, "no JSON"),
        (14, "outside the years"),
    ]:
        assert any(f"line {line}: " in told and said in told for told in done.err.splitlines()), (line, said)
    assert relations(ledger, RelationKind.EVENT) == []


def test_what_the_ledger_does_not_hold_is_told_and_nothing_is_written(ledger, dedup, tmp_path):
    (gone,) = [row for row in observations(ledger) if "gone" in row.url]
    path = write_lines(
        tmp_path / "events.jsonl",
        CLAIM,
        {**CLAIM, "url": "https://nowhere.example/"},
        {**CLAIM, "url": gone.url},
        {"observation_id": "obs1-" + "0" * 32, "event_id": "e", "reason": "r"},
    )
    done = dedup("events", path, "--ledger", ledger)
    assert done.code == 1
    for said in ["line 2: the ledger holds no text", "line 3: the ledger holds no text", "line 4: "]:
        assert said in done.err
    assert "line 1" not in done.err
    assert relations(ledger, RelationKind.EVENT) == []
    missing = dedup("events", "nosuch.jsonl", "--ledger", ledger)
    assert (missing.code, missing.err) == (
        1,
        "scrapy dedup events: nosuch.jsonl: No such file or directory\n",
    )


@pytest.mark.parametrize(
    ("name", "content", "problems"),
    [
        ("a.csv", b"event_id,reason,event_id\n1,2,3\n", ["line 1: a column stands twice"]),
        ("a.csv", b"url;event_id;reason\n", ["line 1: the first line names no column event_id and reason"]),
        (
            "a.csv",
            b"url,event_id,reason\nu,e\nu,e,r\n\nu,e,r,x\n",
            ["line 2: it has 2 cells", "line 5: it has 4"],
        ),
        ("a.csv", b'url,event_id,reason\nu,e,"r\n', ["line 2: it is no CSV"]),
        ("a.csv", b"url,event,reason\nu,e,r\n", ["line 1: the first line names no column event_id"]),
        ("a.jsonl", b"{}\n\xff\n", ["line 2: it is not UTF-8"]),
        ("a.jsonl", b"{}\n" * 60, ["line 1: event_id is missing", "and 130 more"]),
    ],
    ids=["column twice", "semicolons", "cells", "open quote", "no event_id", "not UTF-8", "many"],
)
def test_a_file_of_another_form_is_refused(name, content, problems, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EventFileError) as refused:
        read_event_file(tmp_path / name)
    for problem in problems:
        assert problem in str(refused.value)


def test_a_file_beyond_the_bound_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.crawl.cli.event_file.MAX_FILE_BYTES", 100)
    (tmp_path / "a.jsonl").write_bytes(b" " * 101)
    with pytest.raises(EventFileError, match="larger than 100 bytes"):
        read_event_file(tmp_path / "a.jsonl")


def test_an_empty_file_says_nothing(tmp_path):
    for name in ("a.csv", "a.jsonl"):
        (tmp_path / name).write_text("\n")
        assert read_event_file(tmp_path / name) == []
    assert set(COLUMNS) == {"observation_id", "url", "event_id", "reason", "evidence", "by", "at"}
