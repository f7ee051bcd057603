"""``scrapy dedup``: what each subcommand says, with and without a project, never as a traceback."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scrapy_dedup.crawl import commands
from scrapy_dedup.crawl.cli.export import FILES, export
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.ledger import Ledger, LedgerWriter, Sighting
from scrapy_dedup.records import Sourced
from scrapy_dedup.urls import UrlPolicy

from .by_hand import MIRROR, POLICY, PROSE, SHOP, alias, fill, job, observation, sha256, text_of
from .conftest import Done


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The path of a ledger that nobody writes to."""
    path = tmp_path_factory.mktemp("ledger") / "dedup.db"
    fill(f"sqlite:///{path}")
    return path


def in_project(folder, *arguments):
    """Run ``scrapy dedup`` in a process of its own, in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "SCRAPY_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "dedup", *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def project(tmp_path):
    """A project with a sub-folder and a spider that has a ledger of its own."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shopping.settings\n")
    spiders = tmp_path / "shopping" / "spiders"
    spiders.mkdir(parents=True)
    (spiders / "__init__.py").touch()
    (spiders.parent / "__init__.py").touch()
    (spiders.parent / "settings.py").write_text(
        "SPIDER_MODULES = ['shopping.spiders']\nDEDUP_LEDGER = 'sqlite:///data/dedup.db'\n"
    )
    (spiders / "shop.py").write_text(
        "import scrapy\n\nclass Shop(scrapy.Spider):\n    name = 'shop'\n"
        "    custom_settings = {'DEDUP_LEDGER': 'sqlite:///data/shop.db'}\n"
    )
    (tmp_path / "data").mkdir()
    return tmp_path


# -- help and usage


@pytest.mark.parametrize("row", commands.SUBCOMMANDS, ids=[row.name for row in commands.SUBCOMMANDS])
def test_every_subcommand_has_help(row, dedup):
    overall = dedup("-h")
    own = dedup(row.name, "-h")
    assert (overall.code, own.code) == (0, 0)
    assert row.about in " ".join(overall.out.split())
    assert row.about in " ".join(own.out.split())
    assert "--ledger" in own.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], f"a subcommand is needed: {', '.join(row.name for row in commands.SUBCOMMANDS)}"),
        (["decide", "rel1-01234567"], "required: action"),
        (["decide", "rel1-01234567", "merge"], "invalid choice: 'merge'"),
        (["undo"], "required: RELATION_ID|DECISION_ID"),
        (["forget"], "required: URL|PREFIX*"),
        (["events"], "required: FILE"),
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["stats", "--nosuch"], "unrecognized arguments: --nosuch\n"),
        (["stats", "--jsn"], "unrecognized arguments: --jsn; did you mean --json?"),
        (
            ["explain", "localhost:8791/pump"],
            "'localhost:8791/pump' names no scheme; write http://",
        ),
        (["forget", "docs.example/*"], "'docs.example/*' names no scheme"),
        (["explain"], "required: URL"),
        (["stats", "-s", "novalue"], "Invalid -s value"),
        (["stats", "--spider", "nosuch"], "there is no spider 'nosuch' here"),
    ],
    ids=[
        "no subcommand",
        "no action",
        "unknown action",
        "nothing to undo",
        "nothing to forget",
        "no file",
        "unknown subcommand",
        "unknown option",
        "misspelt option",
        "a URL without a scheme",
        "a prefix without a scheme",
        "no URL",
        "broken setting",
        "unknown spider",
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(arguments, message, dedup):
    done = dedup(*arguments)
    assert done.code == 2
    assert message in done.err


def test_the_command_costs_other_commands_no_import_of_the_suite():
    code = (
        "import sys, scrapy_dedup.crawl.commands\n"
        "late = ('sqlalchemy', 'trafilatura', 'numpy', 'scrapy_dedup.ledger', 'scrapy_dedup.config')\n"
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats"],
        ["explain", SHOP],
        ["export"],
        ["check"],
        ["decide", "rel1-0123456789abcdef", "same"],
        ["undo", "dec1-0123456789abcdef"],
        ["forget", SHOP],
        ["forget", "https://shop.example/*"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("kind", ["missing", "no ledger", "folder"])
def test_a_ledger_that_cannot_be_read_is_one_message_and_stays_as_it_is(kind, arguments, dedup, tmp_path):
    path = tmp_path / "dedup.db"
    if kind == "no ledger":
        path.write_bytes(b"not a database, but long enough to look at" * 100)
    elif kind == "folder":
        path.mkdir()
    before = path.read_bytes() if path.is_file() else None
    done = dedup(*arguments, "--ledger", "dedup.db")
    assert done.code == 1
    assert "dedup.db" in done.err + done.out
    assert (path.read_bytes() if path.is_file() else None) == before
    assert path.exists() == (kind != "missing")
    assert not list(tmp_path.glob("dedup-export*"))


# -- which ledger


@pytest.mark.parametrize("named", ["{path}", "sqlite:///{path}"], ids=["bare path", "URL"])
def test_a_ledger_can_be_named_outside_a_project(named, filled, dedup):
    assert dedup("stats", "--ledger", named.format(path=filled)).code == 0


def test_a_relative_ledger_on_the_command_line_starts_at_the_current_folder(filled, dedup, monkeypatch):
    monkeypatch.chdir(filled.parent)
    assert dedup("stats", "--ledger", "dedup.db").code == 0
    assert dedup("stats", "-s", "DEDUP_LEDGER=sqlite:///dedup.db").code == 0


def test_settings_may_stand_on_both_sides_of_the_subcommand(filled, dedup):
    ledger = f"DEDUP_LEDGER=sqlite:///{filled}"
    assert dedup("-s", ledger, "stats", "-s", "DEDUP_WORKERS=1").code == 0
    assert dedup("-s", "DEDUP_WORKERS=1", "--nolog", "stats", "-s", ledger).code == 0
    assert dedup("-s", ledger, "stats", "--nolog", "-L", "ERROR", "--logfile", "log.txt").code == 0


@pytest.mark.slow
def test_a_relative_ledger_of_the_settings_starts_at_scrapy_cfg(project):
    fill(f"sqlite:///{project}/data/dedup.db")
    assert in_project(project / "shopping", "stats").code == 0
    other = in_project(project / "shopping", "stats", "--spider", "shop")
    assert other.code == 1
    assert "shop.db" in other.err


# -- explain


def test_explain_tells_rules_holders_aliases_and_every_place_of_the_text(filled, dedup):
    done = dedup("explain", f"{SHOP}&utm_source=x&color=red", "--ledger", filled)
    assert done.code == 0
    decision = POLICY.decide(f"{SHOP}&utm_source=x&color=red")
    for said in [
        f"{SHOP}&utm_source=x&color=red",
        decision.verdict.value,
        decision.key,
        decision.fetch_url,
        decision.policy_id,
        "tracking: utm_source",
        "Key held by 2 observations",
        "first#",
        "second#",
        "200 valid keep (new_text)",
        "reuse (text_equal)",
        "2 aliases",
        f"merged by tracking, 3 times: {SHOP}&utm_source=x, from https://shop.example/",
        f"merged by facet, once: {SHOP}&color=red",
        MIRROR,
    ]:
        assert said in done.out


def test_explain_of_a_url_never_seen_says_so(filled, dedup):
    done = dedup("explain", "https://other.example/?utm_source=x", "--ledger", filled)
    assert done.code == 0
    for said in ["tracking: utm_source", "Key held by no observation.", "Known under no alias."]:
        assert said in done.out


def test_explain_of_a_denied_url_names_no_url_to_fetch(filled, dedup):
    done = dedup("explain", "ftp://shop.example/", "--ledger", filled)
    assert "deny (unsupported_scheme)" in done.out
    assert "none, it is not requested" in done.out


def test_explain_uses_the_policy_of_the_ledger(filled, dedup):
    shop = json.loads(dedup("explain", f"{SHOP}&color=red", "--json", "--ledger", filled).out)
    other = json.loads(dedup("explain", "https://x.example/?color=red", "--json", "--ledger", filled).out)
    assert "color=red" not in shop["url_key"]
    assert "color=red" in other["url_key"]


def test_explain_judges_by_each_policy_or_by_that_of_one_job(dedup, tmp_path):
    path = tmp_path / "two.db"
    url = "https://shop.example/lamps?utm_source=x"
    for job_id in ("conservative", "standard"):
        policy = UrlPolicy.preset(job_id)
        writer = LedgerWriter(f"sqlite:///{path}", job(job_id), policy.spec(), reuse_normalized=True)
        seen = dataclasses.replace(observation(writer, job_id, url), url_key=policy.decide(url).key)
        writer.record(Sighting(seen, text_of(PROSE))).result(timeout=20)
        writer.finish("finished")
    of_all = dedup("explain", url, "--ledger", path).out
    assert "Key held by 2 observations" in of_all
    assert "tracking: utm_source" in of_all
    of_one = dedup("explain", url, "--job", "conservative", "--ledger", path).out
    assert "Key held by 1 observation:" in of_one
    assert "tracking" not in of_one
    unknown = dedup("explain", url, "--job", "nosuch", "--ledger", path)
    assert unknown.code == 1
    assert "no job 'nosuch'" in unknown.err


def test_explain_of_a_text_seen_everywhere_counts_the_rest(dedup, tmp_path, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.reader.MAX_SAME_TEXT", 2)
    path = tmp_path / "many.db"
    writer = LedgerWriter(f"sqlite:///{path}", job("one"), POLICY.spec(), reuse_normalized=True)
    for number in range(5):
        seen = observation(writer, "one", f"{MIRROR}/{number}")
        writer.record(Sighting(seen, text_of(PROSE))).result(timeout=20)
    writer.finish("finished")
    told = dedup("explain", f"{MIRROR}/4", "--ledger", path).out
    assert told.count("one#") == 4  # the observation, what it is compared with, and two places of its text
    assert "and 3 more" in told
    found = json.loads(dedup("explain", f"{MIRROR}/4", "--json", "--ledger", path).out)
    assert len(found["same_text"]) == 2
    assert list(found["same_text_counts"].values()) == [5]


def test_explain_names_publisher_and_access_and_leaves_independence_open(dedup, tmp_path):
    path = tmp_path / "wire.db"
    writer = LedgerWriter(f"sqlite:///{path}", job("one"), POLICY.spec(), reuse_normalized=True)
    for number, name in enumerate(["mirror.example", "shop.example", "mirror.example"]):
        seen = dataclasses.replace(
            observation(writer, "one", f"https://{name}/{number}"),
            publisher=Sourced(name, "url:registrable_domain"),
            site_name=Sourced("The\x1b[31m Mirror", "og:site_name"),
            access="anonymous",
        )
        writer.record(Sighting(seen, text_of(PROSE))).result(timeout=20)
    writer.finish("finished")
    told = dedup("explain", "https://shop.example/1", "--ledger", path).out
    assert "10 words, 2 publishers, independence unresolved, at:" in told
    assert r"one#2 mirror.example (The\x1b[31m Mirror) anonymous https://mirror.example/2" in told
    found = json.loads(dedup("explain", "https://shop.example/1", "--json", "--ledger", path).out)
    assert [row["publisher"]["value"] for row in found["same_text"]] == [
        "mirror.example",
        "shop.example",
        "mirror.example",
    ]


def test_explain_shows_the_first_aliases_the_one_asked_about_before_all(dedup, tmp_path):
    path = tmp_path / "many.db"
    for job_id in ("one", "two"):
        writer = LedgerWriter(f"sqlite:///{path}", job(job_id), POLICY.spec(), reuse_normalized=True)
        writer.record(Sighting(observation(writer, job_id, SHOP), text_of(PROSE))).result(timeout=20)
        for number in range(14):
            writer.note(alias(job_id, f"{SHOP}&utm_source={number}", "tracking"))
        writer.note(dataclasses.replace(alias(job_id, f"{SHOP}#old", "redirect"), verdict="redirected"))
        writer.finish("finished")
    told = dedup("explain", f"{SHOP}&utm_source=13", "--ledger", path).out
    assert "Known under 15 aliases:\n  merged by tracking, 2 times: " + f"{SHOP}&utm_source=13" in told
    assert told.count("merged by tracking") == told.count("undo: scrapy dedup undo rel1-") - 1 == 10
    assert "and 5 more, listed by --json" in told
    found = json.loads(dedup("explain", SHOP, "--json", "--ledger", path).out)
    assert len(found["aliases"]) == 30
    assert len([row for row in found["relations"] if row["kind"] == "url_merged"]) == 15
    redirected = dedup("explain", f"{SHOP}#old", "--ledger", path).out
    assert f"redirected by redirect, 2 times: {SHOP}#old, from https://shop.example/\n  merged" in redirected


def test_explain_as_json_holds_the_records_without_the_texts(filled, dedup):
    found = json.loads(dedup("explain", MIRROR, "--json", "--ledger", filled).out)
    assert found["url"] == MIRROR
    assert [row["url"] for row in found["observations"]] == [MIRROR]
    assert sorted(row["url"] for row in found["same_text"]) == sorted([SHOP, MIRROR, SHOP])
    assert [body["word_count"] for body in found["bodies"]] == [10]
    assert PROSE not in json.dumps(found)


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    "url",
    [
        "https://user:secret@shop.example/",
        "https://shop.example/\x1b[31m\u202e",
        "https://shop.example/gone\u202e\x1b[31m",
        "javascript:alert(1)",
        "not a url",
        "",
        "http://[::1",
        "https://shop.example/?" + "&".join(f"p{n}={n}" for n in range(2000)),
    ],
    ids=[
        "credentials",
        "control",
        "control seen",
        "scheme",
        "no URL",
        "empty",
        "unparseable",
        "many parameters",
    ],
)
def test_explain_shows_no_credentials_and_nothing_acts_on_the_terminal(url, flags, filled, dedup):
    done = dedup("explain", url, "--ledger", filled, *flags)
    assert done.code == 0
    assert "secret" not in done.out
    assert all(char == "\n" or char.isprintable() for char in done.out)


def test_printable_keeps_letters_of_all_languages():
    assert printable("Grüße 日本語 ١٢٣") == "Grüße 日本語 ١٢٣"
    assert printable("a\x00\x7f\x9b\u2028\ud800") == r"a\x00\x7f\x9b\u2028\ud800"


# -- stats


def test_stats_counts_what_the_ledger_holds(filled, dedup):
    counts = json.loads(dedup("stats", "--json", "--ledger", filled).out)
    assert (counts["jobs"], counts["observations"], counts["bodies"]) == (2, 4, 1)
    table = dedup("stats", "--ledger", filled).out
    assert [line.split()[0] for line in table.splitlines()] == list(counts)


# -- check


def test_check_says_ok_with_versions(filled, dedup):
    done = dedup("check", "--deep", "--ledger", filled)
    assert done.code == 0, done.out
    assert done.out.splitlines()[-1] == "OK"
    for name in ["scrapy_dedup", "Scrapy", "Python", "SQLite", "policy", "extractor", "ledger"]:
        assert name in done.out


def test_check_warns_of_an_sqlite_that_can_damage_a_ledger(filled, dedup, monkeypatch):
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 40, 1))
    assert "can damage a ledger" in dedup("check", "--ledger", filled).out
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 51, 3))
    assert "can damage a ledger" not in dedup("check", "--ledger", filled).out


def test_check_of_a_ledger_to_be_made_is_fine_and_makes_nothing(dedup, tmp_path):
    done = dedup("check")
    assert done.code == 0, done.out
    assert "does not exist yet" in done.out
    assert list(tmp_path.iterdir()) == []


def test_check_names_the_problems_of_settings_rule_file_and_ledger_at_once(dedup, tmp_path):
    (tmp_path / "rules.toml").write_text('preset = "nosuch"\n')
    (tmp_path / "dedup.db").write_bytes(b"not a database, but long enough to look at" * 100)
    done = dedup(
        "check",
        *["-s", "DEDUP_WORKERS=many"],
        *["-s", "DEDUP_URL_POLICY=rules.toml"],
        *["-s", "DEDUP_LEGDER=x"],
        *["-s", 'DEDUP_CHUNKS={"sise": 3}'],
    )
    assert done.code == 1
    chunks = "unknown option 'sise'; did you mean 'size'? known are "
    for problem in ["5 problem(s)", "DEDUP_WORKERS", "rules.toml", "mean DEDUP_LEDGER", chunks, "dedup.db"]:
        assert problem in done.out


def test_check_deep_finds_a_body_that_is_not_what_it_was(dedup, tmp_path):
    path = tmp_path / "dedup.db"
    fill(f"sqlite:///{path}")
    damage_the_text(path)
    assert dedup("check", "--deep", "--ledger", path).code == 1


def damage_the_text(path):
    """Write another digest beside a stored text."""
    import sqlite3

    with sqlite3.connect(path) as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(body)")]
        column = "text_digest"
        assert column in names
        stored = database.execute(f"SELECT {column} FROM body").fetchone()[0]
        other = bytes(len(stored)) if isinstance(stored, bytes) else sha256("other")
        database.execute(f"UPDATE body SET {column} = ?", (other,))
    database.close()


# -- export


def exported(folder):
    return {name: [json.loads(line) for line in (folder / name).read_bytes().splitlines()] for name in FILES}


def test_export_writes_every_record_once(filled, dedup, tmp_path):
    done = dedup("export", "--ledger", filled, "--out", "out")
    assert done.code == 0
    found = exported(tmp_path / "out")
    assert [row["job_id"] for row in found["jobs.jsonl"]] == ["first", "second"]
    assert len(found["observations.jsonl"]) == 4
    assert [row["text"] for row in found["bodies.jsonl"]] == [PROSE]
    assert sorted(row["rule"] for row in found["aliases.jsonl"]) == ["facet", "tracking"]
    assert all(next(iter(row)) == "schema" for rows in found.values() for row in rows)
    bodies = {row["body_id"] for row in found["bodies.jsonl"]}
    assert {row["body_id"] for row in found["observations.jsonl"]} - {None} == bodies
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    assert "observations.jsonl: 4 lines" in done.out


def test_export_has_a_default_folder_and_replaces_what_is_there(filled, dedup, tmp_path):
    folder = tmp_path / "dedup-export"
    folder.mkdir()
    (folder / "bodies.jsonl").write_text("old")
    assert dedup("export", "--ledger", filled).code == 0
    assert len(exported(folder)["bodies.jsonl"]) == 1


def test_export_of_one_job_holds_the_bodies_that_it_brought(filled, dedup, tmp_path):
    assert dedup("export", "--ledger", filled, "--out", "out", "--job", "second").code == 0
    found = exported(tmp_path / "out")
    assert {name: len(rows) for name, rows in found.items()} == {
        "jobs.jsonl": 1,
        "observations.jsonl": 1,
        "bodies.jsonl": 0,
        "aliases.jsonl": 0,
        "relations.jsonl": 1,
        "decisions.jsonl": 0,
    }


def test_export_of_an_unknown_job_writes_nothing(filled, dedup, tmp_path):
    done = dedup("export", "--ledger", filled, "--job", "nosuch")
    assert done.code == 1
    assert "no job 'nosuch'" in done.err
    assert list(tmp_path.iterdir()) == []


def test_export_replaces_a_link_and_leaves_its_target_alone(filled, dedup, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bodies.jsonl").symlink_to(victim)
    assert dedup("export", "--ledger", filled, "--out", "out").code == 0
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out" / "bodies.jsonl").is_symlink()


def test_an_export_that_fails_leaves_the_folder_as_it_was(filled, dedup, tmp_path, monkeypatch):
    def full(ledger, job_id):
        yield from ledger.observations(job_id=job_id)
        raise OSError(28, "No space left on device")

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bodies.jsonl").write_text("old")
    monkeypatch.setitem(FILES, "observations.jsonl", full)
    done = dedup("export", "--ledger", filled, "--out", "out")
    assert done.code == 1
    assert "No space left" in done.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bodies.jsonl"]
    assert (tmp_path / "out" / "bodies.jsonl").read_text() == "old"


def test_an_export_during_a_crawl_shows_one_state(tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db"
    fill(url)
    writer = LedgerWriter(url, job("third"), POLICY.spec(), reuse_normalized=True)
    writer.open()

    def while_writing(source):
        def records(ledger, job_id):
            page = f"https://shop.example/{len(pages)}"
            pages.append(page)
            writer.record(Sighting(observation(writer, "third", page), text_of(f"{PROSE} {page}"))).result(20)
            yield from source(ledger, job_id)

        return records

    pages: list[str] = []
    with Ledger.open(url) as ledger, pytest.MonkeyPatch.context() as patch:
        for name, source in list(FILES.items()):
            patch.setitem(FILES, name, while_writing(source))
        export(ledger, tmp_path / "out")
    writer.finish("finished")
    found = exported(tmp_path / "out")
    assert len(pages) == 6
    bodies = {row["body_id"] for row in found["bodies.jsonl"]}
    assert {row["body_id"] for row in found["observations.jsonl"]} - {None} == bodies
    assert {row["job_id"] for row in found["observations.jsonl"]} <= {
        row["job_id"] for row in found["jobs.jsonl"]
    }


@pytest.mark.slow
def test_explain_writes_what_the_encoding_of_the_terminal_lacks_as_escapes(filled):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "scrapy",
            "dedup",
            "explain",
            "https://shop.example/ü",
            "--ledger",
            str(filled),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert r"https://shop.example/\xfc" in done.stdout


def test_export_beside_a_folder_of_the_same_name_replaces_nothing(filled, dedup, tmp_path):
    (tmp_path / "out" / "bodies.jsonl").mkdir(parents=True)
    done = dedup("export", "--ledger", filled, "--out", tmp_path / "out")
    assert done.code == 1
    assert "bodies.jsonl is a folder" in done.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bodies.jsonl"]


def test_export_into_a_file_is_one_message(filled, dedup, tmp_path):
    (tmp_path / "out").write_text("mine")
    done = dedup("export", "--ledger", filled, "--out", "out")
    assert (done.code, f"{tmp_path / 'out'} is no folder" in done.err) == (1, True)
    done = dedup("export", "changes", "--ledger", filled, "--out", "out/deeper")
    assert (done.code, f"{tmp_path / 'out'} is no folder" in done.err) == (1, True)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_backup_is_a_ledger(filled, dedup, tmp_path):
    done = dedup("export", "--ledger", filled, "--backup", "copy.db")
    assert done.code == 0
    with Ledger.open(f"sqlite:///{tmp_path}/copy.db") as copy, Ledger.open(f"sqlite:///{filled}") as original:
        assert list(copy.observations()) == list(original.observations())
        assert list(copy.bodies()) == list(original.bodies())
    assert not (tmp_path / "dedup-export").exists()


def test_a_backup_never_replaces_a_file(filled, dedup):
    before = filled.read_bytes()
    done = dedup("export", "--ledger", filled, "--backup", filled)
    assert done.code == 1
    assert "exists" in done.err
    assert filled.read_bytes() == before


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(filled):
    url = f"https://shop.example/?{'a&' * 30_000}"
    done = subprocess.run(
        f"{sys.executable} -m scrapy dedup explain '{url}' --ledger {filled} | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""


def test_reading_a_ledger_leaves_no_file_beside_it(filled, dedup):
    dedup("stats", "--ledger", filled)
    leftovers = {path.name for path in Path(filled).parent.iterdir()} - {"dedup.db", "dedup.db.lock"}
    assert not {name for name in leftovers if not name.startswith("dedup.db")}
