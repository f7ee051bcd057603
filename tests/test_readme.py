"""Every block of the README runs, or says why it does not."""

from __future__ import annotations

import ast
import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from scrapy_dedup.config import SETTINGS, Config
from scrapy_dedup.ledger import LedgerWriter, Sighting
from scrapy_dedup.urls import UrlPolicy

from .crawl import by_hand

POLICY = UrlPolicy.preset("standard")
README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(
    r"(?:<!-- (?P<why>not run: [^>]+) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL
)
BLOCKS = [match.groupdict() for match in BLOCK.finditer(README.read_text(encoding="utf-8"))]
RUN = [block for block in BLOCKS if block["why"] is None]


def blocks(language: str) -> list[str]:
    return [block["code"] for block in RUN if block["language"] == language]


def test_every_language_has_a_way_to_run():
    ways = {"python", "toml", "bash", "text", "console", "csv", "jsonl"}
    assert {block["language"] for block in RUN} <= ways


def test_the_first_text_is_the_funnel():
    """The other one, what the demo finds, is held by the test of the demo."""
    from scrapy_dedup.crawl import stats
    from scrapy_dedup.crawl.funnel import funnel

    text, _ = blocks("text")

    labels = [line[:17].strip() for line in text.splitlines()]
    whole = funnel(dict.fromkeys((stats.CHUNKS, stats.CHUNKS_DISTINCT, stats.EMBEDDINGS_REUSED), 0))
    assert labels == [line[:17].strip() for line in whole.splitlines()]


@pytest.mark.parametrize("code", [code for code in blocks("python") if code.startswith(">>>")])
def test_sessions_print_what_they_say(code):
    test = doctest.DocTestParser().get_doctest(code, {}, "README", str(README), 0)

    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("code", [code for code in blocks("python") if code.startswith("# settings.py")])
def test_settings_are_accepted_by_scrapy_and_by_the_suite(code, tmp_path, monkeypatch):
    from scrapy import Spider
    from scrapy.utils.test import get_crawler

    monkeypatch.chdir(tmp_path)
    settings: dict[str, object] = {}
    exec(compile(ast.parse(code), "README", "exec"), settings)
    named = {name: value for name, value in settings.items() if name.isupper()}

    crawler = get_crawler(Spider, {"ADDONS": {"scrapy_dedup.Addon": 500}, **named})

    formats = {options["format"] for options in crawler.settings.getdict("FEEDS").values()}
    assert formats - {"changes", "chunks"} == {"observations", "bodies"}


@pytest.mark.parametrize("code", [code for code in blocks("python") if code.startswith("import scrapy")])
def test_spiders_yield_a_page(code):
    from scrapy.http import HtmlResponse

    names: dict[str, object] = {}
    exec(compile(ast.parse(code), "README", "exec"), names)
    response = HtmlResponse("https://docs.example/", body=b"<meta name=product content=x><a href=/b>b</a>")

    page, *links = names["DocsSpider"]().parse(response)

    assert page.extra == {"product": "x"}
    assert [link.url for link in links] == ["https://docs.example/b"]


@pytest.mark.parametrize("code", blocks("toml"))
def test_rule_files_load(code, tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(code, encoding="utf-8")

    policy = UrlPolicy.from_file(path)

    assert policy.decide("https://www.shop.example/p/?id=1&color=red&page=2").key.endswith("/p/?id=1&page=2")


@pytest.fixture(scope="module")
def ledger_folder(tmp_path_factory):
    """A folder with the ledger of a crawl that saw one page."""
    folder = tmp_path_factory.mktemp("readme")
    spider = folder / "one.py"
    page = "<html lang=en><title>One</title><main><h1>One</h1><p>" + "A page with some words. " * 20
    (folder / "one.html").write_text(page, encoding="utf-8")
    for name, lines in zip(("texts.jsonl", "pairs.jsonl"), blocks("jsonl"), strict=True):
        (folder / name).write_text(lines, encoding="utf-8")
    spider.write_text(
        "import http.server, threading, scrapy\n"
        "class One(scrapy.Spider):\n"
        "    name = 'one'\n"
        "    custom_settings = {'ADDONS': {'scrapy_dedup.Addon': 500}, 'TELNETCONSOLE_ENABLED': False,\n"
        "                       'REMOTE_CONTROL_ENABLED': False}\n"
        "    async def start(self):\n"
        "        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0),\n"
        "                                                      http.server.SimpleHTTPRequestHandler)\n"
        "        threading.Thread(target=self.server.serve_forever, daemon=True).start()\n"
        "        yield scrapy.Request(f'http://127.0.0.1:{self.server.server_port}/one.html')\n"
        "    def parse(self, response):\n"
        "        return None\n",
        encoding="utf-8",
    )
    run(folder, "runspider", "one.py")
    return folder


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "SCRAPY_SETTINGS_MODULE": ""}
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_walk_through_undo_prints_what_it_says(tmp_path):
    (walk,) = blocks("console")
    (tmp_path / "events.csv").write_text(blocks("csv")[0], encoding="utf-8")
    write_ledger(tmp_path / "dedup.db", "https://docs.example/guide", linked="https://docs.example/guide/")
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", walk, re.MULTILINE)

    for command, said in steps:
        program, *arguments = shlex.split(command)
        assert program == "scrapy"
        printed = run(tmp_path, *arguments)
        assert doctest.OutputChecker().check_output(said, printed, doctest.ELLIPSIS), printed
    assert len(steps) == 5


def write_ledger(path: Path, url: str, *, linked: str) -> None:
    """Write a ledger with one page, to which another page links under another URL."""
    writer = LedgerWriter(f"sqlite:///{path}", by_hand.job("docs"), POLICY.spec(), reuse_normalized=True)
    writer.record(
        Sighting(by_hand.observation(writer, "docs", url), by_hand.text_of("A guide with some words."))
    ).result(20)
    merged = by_hand.alias("docs", linked, "trailing_slash")
    writer.note(replace(merged, referrer_url="https://docs.example/"))
    writer.finish("finished")


COMMANDS = [line for code in blocks("bash") for line in code.splitlines() if line.strip()]


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(ledger_folder, line):
    program, *arguments = shlex.split(line, comments=True)

    assert program == "scrapy"
    run(ledger_folder, *arguments)


def test_the_settings_table_is_the_settings_table():
    table = dict(
        re.findall(r"^\| `(DEDUP_\w+)` \| `(.*?)` \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    )

    assert {name: ast.literal_eval(default) for name, default in table.items()} == {
        row.name: row.default for row in SETTINGS
    }
    for row in SETTINGS:
        assert row.about in README.read_text(encoding="utf-8")


def test_the_defaults_are_a_valid_configuration(tmp_path):
    assert Config.from_settings({}, base_dir=tmp_path).enabled


def test_the_table_of_extraction_options_is_that_of_the_code():
    from scrapy_dedup.content import ExtractOptions

    (section,) = re.findall(r"### Extraction\n(.*?)\n## ", README.read_text(encoding="utf-8"), re.DOTALL)
    table = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", section, re.MULTILINE))

    assert {name: ast.literal_eval(default) for name, default in table.items()} == asdict(ExtractOptions())


def test_the_table_of_stats_is_that_of_the_code():
    from scrapy_dedup.crawl.stats import STATS

    table = re.findall(r"^\| `(dedup/\S*)` \| (.*) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)

    assert dict(table) == STATS


def test_every_reason_of_a_decision_stands_in_the_table_of_reasons():
    from scrapy_dedup.crawl.pages import FACET_BY_REDIRECT
    from scrapy_dedup.ledger import decide

    source = Path(decide.__file__).read_text(encoding="utf-8")
    reasons = {*re.findall(r'Action\.\w+,\s+"(\w+)"', source), *decide.ORDINARY_REASONS, FACET_BY_REDIRECT}
    rows = re.findall(r"^\| `(?:keep|reuse|review).*", README.read_text(encoding="utf-8"), re.MULTILINE)

    assert [reason for reason in sorted(reasons) if not any(f"`{reason}`" in row for row in rows)] == []


def test_every_state_of_validity_and_recovery_is_named():
    from scrapy_dedup.records import Recovery, Validity

    text = README.read_text(encoding="utf-8")
    assert [state.value for state in (*Validity, *Recovery) if f"`{state.value}`" not in text] == []
