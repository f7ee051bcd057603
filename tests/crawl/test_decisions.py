"""What somebody decides holds in later crawls, until it is undone or the page changes."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys

import jsonschema
import pytest
from scrapy import Request, Spider
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler

from scrapy_dedup.content.validity import Judgement
from scrapy_dedup.crawl import commands
from scrapy_dedup.crawl.cli.relations import EFFECTS, STATEMENTS
from scrapy_dedup.crawl.overrides import DECIDED, Urls, judged
from scrapy_dedup.ledger import Ledger, Overrides
from scrapy_dedup.ledger.decisions import MEANING
from scrapy_dedup.records import (
    Action,
    DecisionAction,
    Recovery,
    RelationKind,
    Validity,
)
from scrapy_dedup.urls import UrlPolicy, Verdict

from ..ledger.test_schemas import validator_of
from .by_hand import MIRROR, POLICY, SHOP, fill
from .conftest import FOLLOW, environment, run_dedup
from .server import page, redirect

HOSTS = {
    "127.0.0.1": {
        "deny": ["/secret/*"],
        "paths": [{"path": "/shop", "allow": ["id"], "on_disallowed": "reject"}],
    }
}

# Says of one page that it is not what it should be.
DOUBTER = FOLLOW.replace(
    "        if isinstance(response, scrapy.http.HtmlResponse):",
    """        if response.url.endswith("/odd"):
            yield PageItem.from_response(response, content_valid=False, validity_reason="looks odd")
        if isinstance(response, scrapy.http.HtmlResponse):""",
).replace("import scrapy\n", "import scrapy\nfrom scrapy_dedup import PageItem\n", 1)

LINKS = [
    "/order?b=2&a=1",
    "/order?a=1&b=2",
    "/slash/",
    "/slash",
    "/mail?utm_source=news",
    "/secret/1",
    "/shop?color=red",
    "/odd",
]
MERGED = ["/order?a=1&b=2", "/slash", "/mail?utm_source=news"]
DENIED = ["/secret/1", "/shop?color=red"]
PLAIN = ["/", "/mail", "/odd", "/order?b=2&a=1", "/slash/"]
# What is fetched once every merge is undone and every denied URL accepted.
UNDONE = sorted([*LINKS, "/"])


class Story:
    """Crawls of one site into one ledger, with decisions between them."""

    def __init__(self, crawl, serve, folder):
        self.odd = "odd"
        self._crawl = crawl
        self.folder = folder
        self.server = serve(
            {
                "/": page("home", LINKS),
                "/odd": lambda visit: page(self.odd),
                **{link: page(link) for link in LINKS if link != "/odd"},
                "/mail": page("/mail"),
            }
        )

    def crawl(self):
        self.server.site.forget_hits()
        done = self._crawl(
            DOUBTER, folder=self.folder, settings={"DEDUP_HOSTS": HOSTS}, start=[f"{self.server.base}/"]
        )
        assert done.exit_code == 0, done.log
        assert done.dump["reason"] == "finished"
        return sorted(self.server.site.targets()), done

    def latest(self):
        """Return the observations of the last job by where they came from."""
        with Ledger.open(self.url) as ledger:
            job_id = list(ledger.jobs())[-1].job_id
            rows = list(ledger.observations(job_id=job_id))
        return {row.url.removeprefix(self.server.base): row for row in rows}

    @property
    def url(self):
        return f"sqlite:///{self.folder}/dedup.db"

    def dedup(self, *arguments):
        done = run_dedup(*arguments, "--ledger", self.folder / "dedup.db", "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    def relation(self, target):
        """Return the relation that ``explain`` shows of what became of a URL."""
        url = self.server.base + target
        kinds = {"url_merged", "url_denied", "content_invalid"}
        (found,) = [
            row
            for row in self.dedup("explain", url)["relations"]
            if row["kind"] in kinds and row["a"] == url and row["reasons"][0]["code"] != "valid"
        ]
        return found


@pytest.fixture(scope="module")
def story(crawl, serve, tmp_path_factory):
    """Four crawls: as the suite does, all of it undone, all decisions undone, and that undone too."""
    told = Story(crawl, serve, tmp_path_factory.mktemp("story"))
    fetched, seen, undo = [], [], []

    def crawl_once():
        targets, _ = told.crawl()
        fetched.append(targets)
        seen.append(told.latest())

    crawl_once()
    subjects = [told.relation(target)["relation_id"] for target in [*MERGED, *DENIED, "/odd"]]
    undo = [told.dedup("undo", subject)["decisions"][0]["decision"]["decision_id"] for subject in subjects]
    crawl_once()
    undo = [told.dedup("undo", decision)["decisions"][0]["decision"]["decision_id"] for decision in undo]
    crawl_once()
    for decision in undo:
        told.dedup("undo", decision)
    told.odd = "odd, changed"
    crawl_once()
    return told, fetched, seen


def test_a_crawl_without_decisions_merges_and_denies(story):
    assert story[1][0] == PLAIN


@pytest.mark.parametrize("crawl_number", [1, 3], ids=["undone", "undo undone"])
def test_a_merge_undone_is_two_pages_and_a_denied_url_is_fetched(crawl_number, story):
    told, fetched, seen = story
    assert fetched[crawl_number] == UNDONE
    keys = [row.url_key for row in seen[crawl_number].values()]
    assert len(set(keys)) == len(keys) == len(UNDONE)
    assert seen[crawl_number]["/order?a=1&b=2"].body_id != seen[crawl_number]["/order?b=2&a=1"].body_id
    assert seen[crawl_number]["/mail?utm_source=news"].url_key == f"{told.server.base}/mail?utm_source=news"
    assert seen[crawl_number]["/slash"].url_key == f"{told.server.base}/slash#"
    assert seen[crawl_number]["/slash/"].url_key == f"{told.server.base}/slash"


def test_an_undo_brings_back_what_the_suite_does(story):
    assert story[1][2] == PLAIN


def test_an_accepted_page_is_valid_until_it_is_undone_or_the_page_changes(story):
    pages = [seen["/odd"] for seen in story[2]]
    assert [(row.validity, row.validity_reason) for row in pages] == [
        (Validity.UNEXPECTED_CONTENT, "looks odd"),
        (Validity.VALID, DECIDED),
        (Validity.UNEXPECTED_CONTENT, "looks odd"),
        (Validity.UNEXPECTED_CONTENT, "looks odd"),
    ]
    assert [row.action for row in pages] == [Action.REVIEW, Action.KEEP, Action.REVIEW, Action.REVIEW]
    assert pages[1].payload_digest == pages[2].payload_digest != pages[3].payload_digest


def test_an_accepted_facet_stands_under_a_key_of_its_own_as_any_page(story):
    told, _, seen = story
    facet = seen[1]["/shop?color=red"]
    assert (facet.url_key, facet.reason) == (f"{told.server.base}/shop?color=red", "new_text")


def test_history_stays_as_it_was_seen(story):
    told, _, seen = story
    with Ledger.open(told.url) as ledger:
        jobs = list(ledger.jobs())
        held = [len(list(ledger.observations(job_id=row.job_id))) for row in jobs]
        assert len(list(ledger.decisions())) == 3 * 6
    assert held == [len(rows) for rows in seen]


def test_explain_finds_a_url_under_the_key_that_it_got_for_itself(story):
    told = story[0]
    found = told.dedup("explain", f"{told.server.base}/slash")
    keys = {row["url_key"].removeprefix(told.server.base) for row in found["observations"]}
    assert keys == {"/slash", "/slash#"}
    (merge,) = [row for row in found["relations"] if row["kind"] == "url_merged"]
    assert merge["state"] == "refuted"
    assert merge["decision"]["action"] == "different"
    assert merge["undo"] == (
        f"scrapy dedup undo {merge['decision']['decision_id']} --ledger {told.folder}/dedup.db"
    )
    assert [row["action"] for row in found["decisions"]] == ["different", "undo", "undo"]


# -- the rules, without a crawl

DIFFERENT, ACCEPT, REJECT = DecisionAction.DIFFERENT, DecisionAction.ACCEPT, DecisionAction.REJECT
STANDARD = UrlPolicy.preset("standard", hosts={"s.example": HOSTS["127.0.0.1"]})


@pytest.mark.parametrize(
    ("url", "action", "key", "verdict"),
    [
        ("https://s.example/a/?utm_source=x", None, "https://s.example/a", Verdict.REWRITE),
        ("https://s.example/a/?utm_source=x", DIFFERENT, "https://s.example/a/?utm_source=x", Verdict.ALLOW),
        ("https://S.example/a", DIFFERENT, "https://S.example/a", Verdict.ALLOW),
        ("https://s.example/a", DIFFERENT, "https://s.example/a#", Verdict.ALLOW),
        ("https://s.example/a", DecisionAction.SAME, "https://s.example/a", Verdict.ALLOW),
        ("https://s.example/a/", ACCEPT, "https://s.example/a", Verdict.ALLOW),
        ("https://s.example/secret/1", None, "https://s.example/secret/1", Verdict.DENY),
        ("https://s.example/secret/1", DIFFERENT, "https://s.example/secret/1", Verdict.DENY),
        ("https://s.example/secret/1/", ACCEPT, "https://s.example/secret/1", Verdict.ALLOW),
        ("https://s.example/shop/?b=2&a=1", None, "https://s.example/shop/?b=2&a=1", Verdict.DENY),
    ],
    ids=[
        "as the policy says",
        "an own key",
        "the URL itself, where its conservative key is shared",
        "an empty fragment, where the URL itself is shared",
        "same is what the policy says",
        "accepting what is not denied changes nothing",
        "denied by the policy",
        "a key of its own does not lift a denial",
        "denied but accepted",
        "a denied facet takes no shared key",
    ],
)
def test_a_decision_about_a_url_stands_above_the_policy(url, action, key, verdict):
    urls = Urls(STANDARD, Overrides(urls={url: action} if action else {}))
    decision = urls.decide(url)
    assert (urls.key_of(url), decision.verdict) == (key, verdict)
    if verdict is Verdict.ALLOW:
        assert decision.fetch_url == url
    assert urls.decide("https://s.example/other/").key == "https://s.example/other"


def test_a_decision_about_a_url_with_credentials_is_found_without_them():
    urls = Urls(STANDARD, Overrides(urls={"https://***@s.example/a": ACCEPT}))
    assert urls.decide("https://u:secret@s.example/a").verdict is Verdict.ALLOW
    assert urls.decide("https://u:secret@s.example/a").reason == "credentials"  # no source for its text
    assert urls.decide("https://u:secret@s.example/b").verdict is Verdict.DENY


LOGIN = Judgement(Validity.LOGIN, "password_field", Recovery.AUTHENTICATE)


@pytest.mark.parametrize(
    ("judgement", "action", "has_text", "validity"),
    [
        (LOGIN, None, True, Validity.LOGIN),
        (LOGIN, ACCEPT, True, Validity.VALID),
        (LOGIN, ACCEPT, False, Validity.LOGIN),
        (LOGIN, REJECT, True, Validity.UNEXPECTED_CONTENT),
        (Judgement(Validity.VALID, None, Recovery.NONE), REJECT, True, Validity.UNEXPECTED_CONTENT),
        (
            Judgement(Validity.HTTP_ERROR, "http_404", Recovery.NONE),
            ACCEPT,
            True,
            Validity.HTTP_ERROR,
        ),
    ],
    ids=[
        "undecided",
        "accepted",
        "no text to accept",
        "rejected",
        "valid but rejected",
        "an error stays one",
    ],
)
def test_a_decision_about_a_page_stands_above_its_judgement(judgement, action, has_text, validity):
    found = judged(judgement, action, has_text=has_text)
    assert found.validity is validity
    assert (found is judgement) == (found.reason != DECIDED)


class OwnFingerprinter(RequestFingerprinter):
    """A fingerprinter of the user's, which canonicalizes the URL once more."""


def test_a_key_of_its_own_is_one_for_a_fingerprinter_of_the_users_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/dedup.db"
    fill(url)
    decide_different(url, f"{SHOP}&utm_source=x")
    for own in (RequestFingerprinter, OwnFingerprinter):
        settings = {"ADDONS": {"scrapy_dedup.Addon": 500}, "REQUEST_FINGERPRINTER_CLASS": own}
        settings["DEDUP_HOSTS"] = {"shop.example": {"allow": ["page"]}}
        fingerprint = get_crawler(Spider, settings).request_fingerprinter.fingerprint
        shared, decided, other = (f"{SHOP}", f"{SHOP}&utm_source=x", f"{SHOP}&utm_source=y")
        assert fingerprint(Request(shared)) == fingerprint(Request(other))
        assert fingerprint(Request(shared)) != fingerprint(Request(decided))


# -- the commands


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The path of a ledger with two jobs, that nobody writes to."""
    path = tmp_path_factory.mktemp("ledger") / "dedup.db"
    fill(f"sqlite:///{path}")
    return path


@pytest.fixture
def ledger(filled, tmp_path):
    """The path of a copy of that ledger."""
    with Ledger.open(f"sqlite:///{filled}") as held:
        held.backup(tmp_path / "own.db")
    return tmp_path / "own.db"


def relations(path, kind):
    with Ledger.open(f"sqlite:///{path}") as held:
        return {row.a: row for row in held.relations(kind=kind)}


def decisions(path):
    with Ledger.open(f"sqlite:///{path}") as held:
        return list(held.decisions())


def decide_different(url, raw_url):
    from scrapy_dedup.ledger import record_decision

    with Ledger.open(url) as held:
        merged = {row.a: row for row in held.relations(kind=RelationKind.URL_MERGED)}[raw_url]
    return record_decision(url, merged, DIFFERENT, by="human:ann", note=None)


TRACKED = f"{SHOP}&utm_source=x"


def test_a_decision_says_what_follows_and_how_it_is_undone(ledger, dedup):
    merged = relations(ledger, RelationKind.URL_MERGED)[TRACKED]
    done = dedup(
        "decide",
        merged.relation_id,
        "different",
        "--note",
        "a page\x1b[31m",
        "--by",
        "ann",
        "--ledger",
        ledger,
    )
    (decision,) = decisions(ledger)
    assert (done.code, decision.action, decision.by) == (0, DIFFERENT, "human:ann")
    undo = f"scrapy dedup undo {decision.decision_id[:21]} --ledger {ledger}"
    for said in [
        f"{TRACKED} was merged into",
        f'different by human:ann at {decision.at}, "a page\\x1b[31m"',
        "the next crawl fetches the URL as it is linked, under a key of its own",
        undo,
    ]:
        assert said in done.out
    explained = dedup("explain", TRACKED, "--ledger", ledger).out
    assert undo in explained
    assert "decided: different by human:ann" in explained
    assert dedup(*undo.split()[2:]).code == 0
    assert [row.action for row in decisions(ledger)] == [DIFFERENT, DecisionAction.UNDO]
    assert (
        f"undo: scrapy dedup undo {merged.relation_id[:21]}"
        in dedup("explain", TRACKED, "--ledger", ledger).out
    )


def test_an_undo_without_a_decision_decides_against_the_suite_and_toggles(ledger, dedup):
    same = relations(ledger, RelationKind.SAME_TEXT)[POLICY.decide(MIRROR).key]
    for expected, action in [
        ("different", Action.KEEP),
        ("undo", Action.REUSE),
        ("different", Action.KEEP),
    ]:
        done = json.loads(dedup("undo", same.relation_id[:13], "--json", "--ledger", ledger).out)
        (told,) = done["decisions"]
        assert told["decision"]["action"] == expected
        assert (told["in_force"] is None) == (expected == "undo")
        with Ledger.open(f"sqlite:///{ledger}") as held:
            (seen,) = held.lookup(MIRROR).observations
        assert seen.action is action


def test_what_is_undone_already_is_told_with_the_command_that_brings_it_back(ledger, dedup):
    decision = decide_different(f"sqlite:///{ledger}", TRACKED)
    first = json.loads(dedup("undo", decision.decision_id, "--json", "--ledger", ledger).out)["decisions"][0]
    done = dedup("undo", decision.decision_id, "--ledger", ledger)
    assert done.code == 1
    assert f"undone already; to bring it back: {first['undo']}" in done.err
    assert len(decisions(ledger)) == 2
    assert dedup(*first["undo"].split()[2:]).code == 0
    with Ledger.open(f"sqlite:///{ledger}") as held:
        assert held.overrides("default").urls == {TRACKED: DIFFERENT}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decide", "rel1-{other}", "same"], "holds nothing under rel1-{other}"),
        (["decide", "rel1-{other32}", "same"], "holds nothing under rel1-{other32}"),
        (["undo", "dec1-{other}"], "holds nothing under dec1-{other}"),
        (["decide", "0123456", "same"], "8 to 32 hexadecimal digits"),
        (["decide", "dec1-{other}", "same"], "it is written rel1-"),
        (["undo", "https://shop.example/"], "it is written rel1- or dec1- and 8 to 32 hexadecimal digits"),
        (["decide", "{merged}", "accept"], "decide 'same' or 'different'"),
        (["decide", "{merged}", "same", "--by", " "], "1 to 200 printable characters"),
        (["decide", "{merged}", "same", "--by", "a\nb"], "1 to 200 printable characters"),
        (["decide", "{merged}", "same", "--note", "n" * 10_001], "longer than 10000"),
        (["undo", "{merged}", "--url", MIRROR], "holds nothing under {merged}"),
        (["forget", "https://nowhere.example/"], "nothing to forget"),
        (["forget", "https://nowhere.example/*"], "nothing to forget"),
    ],
    ids=[
        "unknown relation",
        "unknown whole relation",
        "unknown decision",
        "too short",
        "a decision for a relation",
        "no identity",
        "an action for another kind",
        "nobody decides",
        "a name in two lines",
        "a long note",
        "a relation of another URL",
        "a URL never seen",
        "a prefix never seen",
    ],
)
def test_what_cannot_be_decided_is_one_message_and_writes_nothing(arguments, message, ledger, dedup):
    merged = relations(ledger, RelationKind.URL_MERGED)[TRACKED]
    names = {"other": "01234567", "other32": "01234567" * 4, "merged": merged.relation_id}
    done = dedup(*(argument.format(**names) for argument in arguments), "--ledger", ledger)
    assert done.code == 1
    assert message.format(**names) in done.err
    assert done.out == ""
    assert decisions(ledger) == []


def test_a_beginning_of_two_identities_names_none(ledger, dedup, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.crawl.cli.relations._IDENTITY", re.compile("(rel1-)?()"))
    done = dedup("decide", "rel1-", "same", "--ledger", ledger)
    assert done.code == 1
    assert "begins more than one identity: rel1-" in done.err


def test_the_login_name_signs_by_default(ledger, dedup, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "berta")
    dedup("undo", relations(ledger, RelationKind.URL_MERGED)[TRACKED].relation_id, "--ledger", ledger)
    assert [row.by for row in decisions(ledger)] == ["human:berta"]

    def nobody():
        raise KeyError("uid")

    monkeypatch.setattr("getpass.getuser", nobody)
    done = dedup("forget", SHOP, "--ledger", ledger)
    assert (done.code, "--by" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("place", "covered", "untouched"),
    [
        (SHOP, [SHOP], [MIRROR]),
        ("https://SHOP.example/lamps?utm_source=y&page=2", [SHOP], [MIRROR]),
        (TRACKED, [SHOP], [MIRROR]),
        ("https://SHOP.example/*", [SHOP], [MIRROR]),
        ("https://mirror.example/lamps/*", [MIRROR], [SHOP, f"{MIRROR}2"]),
        ("https://*", [SHOP, MIRROR], []),
    ],
    ids=["URL", "by its key", "by an alias", "host", "folder with and without slash", "as typed"],
)
def test_what_is_forgotten_does_not_count_as_seen(place, covered, untouched, ledger, dedup):
    with Ledger.open(f"sqlite:///{ledger}") as held:
        before = list(held.observations())
    done = dedup("forget", place, "--ledger", ledger)
    assert done.code == 0, done.err
    assert "in the ledger" in done.out
    with Ledger.open(f"sqlite:///{ledger}") as held:
        overrides = held.overrides("default")
        assert [row.observation_id for row in held.observations()] == [row.observation_id for row in before]
    keys = {url: POLICY.decide(url).key for url in [*covered, *untouched]}
    assert all(overrides.forgotten_us(keys[url]) for url in covered)
    assert not any(overrides.forgotten_us(keys[url]) for url in untouched)
    for line in done.out.splitlines():
        if line.startswith("  undo: "):
            assert dedup(*line.split()[3:]).code == 0
    with Ledger.open(f"sqlite:///{ledger}") as held:
        assert not held.overrides("default").forgotten


def test_relations_and_decisions_are_exported_counted_and_valid(ledger, dedup, tmp_path):
    decide_different(f"sqlite:///{ledger}", TRACKED)
    dedup("forget", MIRROR, "--ledger", ledger)
    assert dedup("export", "--ledger", ledger, "--out", "out").code == 0
    rows = {
        kind: [json.loads(line) for line in (tmp_path / "out" / f"{kind}s.jsonl").read_text().splitlines()]
        for kind in ("relation", "decision")
    }
    for kind, records in rows.items():
        assert records
        for record in records:
            validator_of(kind).validate(record)
    counts = json.loads(dedup("stats", "--json", "--ledger", ledger).out)
    assert counts["relations"] == len(rows["relation"]) == 5
    assert (counts["relations_url_merged_refuted"], counts["relations_url_merged_confirmed"]) == (1, 1)
    assert (counts["decisions"], counts["decisions_forget"]) == (2, 1)
    with pytest.raises(jsonschema.ValidationError):
        validator_of("decision").validate(rows["decision"][0] | {"action": "merge"})


@pytest.mark.slow
def test_a_command_with_a_closed_output_does_its_work_in_silence(ledger, tmp_path):
    merged = relations(ledger, RelationKind.URL_MERGED)[TRACKED]
    for arguments in (["check"], ["undo", merged.relation_id]):
        command = [sys.executable, "-m", "scrapy", "dedup", *arguments, "--ledger", str(ledger)]
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" >&-', "sh", *command],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert len(decisions(ledger)) == 1


def test_every_kind_and_every_decision_is_put_in_words():
    assert set(STATEMENTS) == set(RelationKind)
    assert {kind: set(effects) for kind, effects in EFFECTS.items()} == {
        kind: set(meaning) for kind, meaning in MEANING.items() if kind is not RelationKind.EVENT_CONFLICT
    }
    others = {DecisionAction.FORGET, DecisionAction.UNDO}
    assert {action.value for action in set(DecisionAction) - others} == set(commands.DECIDABLE)


# -- a ledger that cannot be read


def test_a_crawl_does_not_start_without_knowing_what_was_decided(crawl, ledger, tmp_path):
    decide_different(f"sqlite:///{ledger}", TRACKED)
    with sqlite3.connect(ledger) as database:
        database.execute("DELETE FROM relation")
    database.close()
    before = ledger.read_bytes()
    done = crawl(folder=tmp_path, settings={"DEDUP_LEDGER": f"sqlite:///{ledger}"}, start=[])
    assert done.exit_code == 1
    assert "damaged row" in done.log
    assert ledger.read_bytes() == before
    assert not (tmp_path / "dedup").exists()


def test_decisions_are_read_of_every_ledger_that_holds_some(ledger, tmp_path):
    assert Ledger.overrides_at(f"sqlite:///{tmp_path}/new.db", "default") == Overrides()
    assert not (tmp_path / "new.db").exists()
    decide_different(f"sqlite:///{ledger}", TRACKED)
    assert Ledger.overrides_at(f"sqlite:///{ledger}", "default").urls == {TRACKED: DIFFERENT}
    assert Ledger.overrides_at(f"sqlite:///{ledger}", "other") == Overrides()
    with sqlite3.connect(ledger) as database:
        database.execute("UPDATE meta SET value = '2' WHERE name = 'schema_version'")
    assert Ledger.overrides_at(f"sqlite:///{ledger}", "default").urls == {TRACKED: DIFFERENT}
    with sqlite3.connect(ledger) as database:
        database.execute("UPDATE meta SET value = '1' WHERE name = 'schema_version'")
    database.close()
    assert Ledger.overrides_at(f"sqlite:///{ledger}", "default") == Overrides()


@pytest.mark.slow
def test_a_skip_undone_and_a_url_forgotten_are_fetched_again(crawl, serve, tmp_path):
    links = ["/skipped", "/forgotten", "/docs/a", "/docs/b", "/fresh"]
    server = serve({"/": page("home", links), **{link: page(link) for link in links}})
    settings = {"DEDUP_FRESHNESS": "1d"}

    def fetched():
        server.site.forget_hits()
        done = crawl(folder=tmp_path, settings=settings, start=[f"{server.base}/"])
        assert done.exit_code == 0, done.log
        return sorted(server.site.targets())

    def command(*arguments):
        done = run_dedup(*arguments, "--ledger", tmp_path / "dedup.db")
        assert done.code == 0, done.err
        return done.out

    assert fetched() == sorted(["/", *links])
    assert fetched() == ["/"]
    explained = json.loads(command("explain", f"{server.base}/skipped", "--json"))
    (skip,) = [row for row in explained["relations"] if row["kind"] == "skipped"]
    assert "was not fetched" in command("explain", f"{server.base}/skipped")
    command("undo", skip["relation_id"])
    command("forget", f"{server.base}/forgotten")
    forgotten = json.loads(command("forget", f"{server.base}/docs/*", "--json"))["decisions"]
    assert fetched() == ["/", "/docs/a", "/docs/b", "/forgotten", "/skipped"]
    assert fetched() == ["/"]  # what is fetched after it was forgotten is fresh
    (decided,) = forgotten
    command("undo", decided["decision"]["decision_id"])
    assert fetched() == ["/"]


@pytest.mark.slow
def test_a_redirect_undone_is_asked_again_until_that_is_undone(crawl, serve, tmp_path):
    """The page behind the redirect is fresh, but does not answer for a URL that was set apart from it."""
    server = serve({"/": page("home", ["/old"]), "/old": redirect("/moved"), "/moved": page("moved")})

    def fetched():
        server.site.forget_hits()
        settings = {"DEDUP_FRESHNESS": "1d"}
        done = crawl(folder=tmp_path, settings=settings, start=[f"{server.base}/"])
        assert done.exit_code == 0, done.log
        return sorted(server.site.targets())

    def command(*arguments):
        done = run_dedup(*arguments, "--ledger", tmp_path / "dedup.db", "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    assert fetched() == ["/", "/moved", "/old"]
    relations = command("explain", f"{server.base}/old")["relations"]
    (merge,) = [row["relation_id"] for row in relations if row["kind"] == "url_merged"]
    command("undo", merge)
    assert fetched() == ["/", "/moved", "/old"]
    command("undo", merge)
    assert fetched() == ["/"]
