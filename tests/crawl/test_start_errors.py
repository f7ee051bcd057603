"""What is wrong at the start is named once, ends with exit code 1, and leaves every file as it was."""

from __future__ import annotations

import os
import re
import sqlite3
import sys

import pytest

from .conftest import ADDONS, BASE_SETTINGS, environment, run
from .server import page

pytestmark = pytest.mark.slow  # each start is a process of its own

SPIDER = """
import scrapy

class Started(scrapy.Spider):
    name = "started"
    custom_settings = {settings!r}
    start_urls = [{url!r}]

    def parse(self, response):
        return {{"url": response.url}}
"""


@pytest.fixture(scope="module")
def site(serve):
    return serve({"/": page("index")})


@pytest.fixture
def start(site, tmp_path):
    """Return a function that runs a spider with ``scrapy runspider`` and gives exit code and log."""

    def run_spider(settings, modules=None, env=None):
        site.site.forget_hits()
        merged = {**BASE_SETTINGS, "LOG_LEVEL": "DEBUG", "ADDONS": ADDONS, **settings}
        (tmp_path / "started.py").write_text(SPIDER.format(settings=merged, url=f"{site.base}/"))
        for name, text in (modules or {}).items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        command = [sys.executable, "-m", "scrapy", "runspider", "started.py"]
        return run(command, tmp_path, 60, environment() | {"PYTHONPATH": str(tmp_path)} | (env or {}))

    return run_spider


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".log", ".py")
    }


def test_every_wrong_setting_is_named_in_one_message(start, site, tmp_path):
    exit_code, log = start(
        {
            "DEDUP_WORKERS": "many",
            "DEDUP_CORPUS": "two words",
            "DEDUP_URL_POLICY": "missing-rules.toml",
            "DEDUP_LEDGER": "mysql://somewhere",
            "DEDUP_EXTRACT_TIMEOUT": -1,
            "DEDUP_LEGDER": "sqlite:///x.db",
        }
    )

    assert exit_code == 1
    for name in (
        "DEDUP_WORKERS",
        "DEDUP_CORPUS",
        "missing-rules.toml",
        "DEDUP_EXTRACT_TIMEOUT",
        "DEDUP_LEGDER",
    ):
        assert name in log
    assert re.findall(r"^scrapy_dedup\.errors\.\w+: .*$", log, re.MULTILINE) == [
        "scrapy_dedup.errors.ConfigError: 6 problem(s) in settings:"
    ]
    assert site.site.targets() == []
    assert files_of(tmp_path) == {}


def test_every_fault_of_a_rule_file_is_named(start, site, tmp_path):
    (tmp_path / "scrapy.cfg").touch()
    (tmp_path / "rules.toml").write_text(
        'preset = "standrad"\n[hosts."shop.test"]\nalow = ["page"]\non_disallowed = "maybe"\n'
    )

    exit_code, log = start({"DEDUP_URL_POLICY": "rules.toml"})

    assert exit_code == 1
    for fault in ("standrad", "alow", "maybe", "rules.toml"):
        assert fault in log
    assert site.site.targets() == []


def corrupt(path):
    path.write_bytes(os.urandom(8192))


def text_file(path):
    path.write_text("these are the notes of somebody, and no ledger\n" * 100)


def torn(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x)")
        database.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
    database.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * 4000 + whole[4100:20_000])


def foreign(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE customers (name TEXT)")
        database.execute("INSERT INTO customers VALUES ('Ada')")
    database.close()


@pytest.mark.parametrize(
    "damage",
    [corrupt, foreign, *(pytest.param(damage, marks=pytest.mark.slow) for damage in (text_file, torn))],
)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(start, site, tmp_path, damage):
    ledger = tmp_path / "state" / "dedup.db"
    ledger.parent.mkdir()
    damage(ledger)
    before = files_of(tmp_path)

    exit_code, log = start({"DEDUP_LEDGER": f"sqlite:///{ledger}"})

    assert exit_code == 1
    assert str(ledger) in log
    assert "Ledger" in log
    assert site.site.targets() == []
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("place", ["a_folder", "a_file/dedup.db"], ids=["a folder", "below a file"])
def test_a_place_that_cannot_hold_a_ledger_is_refused(start, site, tmp_path, place):
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_file").write_text("text")
    before = files_of(tmp_path)
    path = tmp_path / place

    exit_code, log = start({"DEDUP_LEDGER": f"sqlite:///{path}"})

    assert exit_code == 1
    assert str(path) in log
    assert site.site.targets() == []
    assert files_of(tmp_path) == before
    assert list((tmp_path / "a_folder").iterdir()) == []


def test_a_ledger_that_cannot_be_made_after_all_ends_the_crawl(start):
    # Only the attempt shows that nobody, not even root, can write there.
    exit_code, log = start({"DEDUP_LEDGER": "sqlite:////proc/self/no/dedup.db"})

    assert exit_code in (0, 1)
    assert "/proc/self/no" in log
    if exit_code == 0:
        assert "Spider closed (dedup_ledger_failed)" in log
        assert len(re.findall(r"^.* CRITICAL: .*$", log, re.MULTILINE)) == 1


as_a_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@as_a_user
@pytest.mark.parametrize("read_only", ["dedup.db", "."], ids=["file", "folder"])
def test_a_ledger_that_cannot_be_written_is_refused(start, site, crawl, read_only):
    made = crawl(start=[f"{site.base}/"])
    place = made.folder / read_only
    mode = place.stat().st_mode
    place.chmod(mode & 0o555)
    before = files_of(made.folder)
    try:
        exit_code, log = start({"DEDUP_LEDGER": f"sqlite:///{made.ledger_path}"})
    finally:
        place.chmod(mode)

    assert exit_code == 1
    assert str(made.ledger_path) in log
    assert files_of(made.folder) == before


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(start, site, crawl, tmp_path):
    made = crawl(start=[f"{site.base}/"])
    with sqlite3.connect(made.ledger_path) as database:
        database.execute("UPDATE meta SET value = '999' WHERE name = 'schema_version'")
        assert database.total_changes == 1
    database.close()
    before = made.ledger_path.read_bytes()

    exit_code, log = start({"DEDUP_LEDGER": f"sqlite:///{made.ledger_path}"})

    assert exit_code == 1
    assert "schema version 999" in log
    assert "Upgrade scrapy_dedup" in log
    assert site.site.targets() == []
    assert made.ledger_path.read_bytes() == before


def test_a_database_server_that_does_not_answer_is_named_without_its_password(start, site):
    exit_code, log = start({"DEDUP_LEDGER": "postgresql://me:s3cret-Passw0rd@127.0.0.1:1/ledger"})

    assert exit_code == 1
    assert "127.0.0.1" in log
    assert "s3cret-Passw0rd" not in log.replace("'DEDUP_LEDGER': 'postgresql://me:s3cret-Passw0rd@", "")
    assert site.site.targets() == []


FAKE_REDIS = {
    "scrapy_redis/__init__.py": "",
    "scrapy_redis/dupefilter.py": """
import hashlib
from scrapy.dupefilters import BaseDupeFilter

class RFPDupeFilter(BaseDupeFilter):
    def __init__(self):
        self.known = set()

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    def request_fingerprint(self, request):
        return hashlib.sha1(request.url.encode()).hexdigest()

    def request_seen(self, request):
        known = self.request_fingerprint(request) in self.known
        self.known.add(self.request_fingerprint(request))
        return known
""",
    "scrapy_redis/scheduler.py": """
from scrapy.core.scheduler import Scheduler as Base
from scrapy_redis.dupefilter import RFPDupeFilter

class Scheduler(Base):
    @classmethod
    def from_crawler(cls, crawler):
        made = super().from_crawler(crawler)
        made.df = RFPDupeFilter.from_crawler(crawler)
        return made
""",
}


@pytest.mark.parametrize(
    "settings",
    [
        {"DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter"},
        {"SCHEDULER": "scrapy_redis.scheduler.Scheduler"},
    ],
    ids=["dupefilter", "scheduler"],
)
def test_a_scheduler_or_dupefilter_with_a_fingerprint_of_its_own_is_named(start, site, settings):
    exit_code, log = start(settings, FAKE_REDIS)

    assert exit_code == 0
    (warning,) = re.findall(r"^.*scrapy_dedup.*WARNING: (.*)$", log, re.MULTILINE)
    assert "scrapy_redis.dupefilter.RFPDupeFilter" in warning
    assert "crawler.request_fingerprinter" in warning
    assert log.index(warning) < log.index("Crawled (200)")
    assert site.site.targets() == ["/"]


OWN_FILTERS = {
    "filters.py": """
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

class Counting(RFPDupeFilter):
    def request_seen(self, request):
        seen = super().request_seen(request)
        return seen

class ByUrl(BaseDupeFilter):
    def __init__(self):
        self.known = set()

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    def request_seen(self, request):
        known = request.url in self.known
        self.known.add(request.url)
        return known
"""
}


def test_a_dupefilter_that_does_not_ask_for_fingerprints_is_named(start, site):
    exit_code, log = start({"DUPEFILTER_CLASS": "filters.ByUrl"}, OWN_FILTERS)

    assert exit_code == 0
    (warning,) = re.findall(r"^.*scrapy_dedup.*WARNING: (.*)$", log, re.MULTILINE)
    assert "filters.ByUrl" in warning
    assert site.site.targets() == ["/"]


def test_a_dupefilter_built_on_that_of_scrapy_goes_on_working(start, site):
    exit_code, log = start({"DUPEFILTER_CLASS": "filters.Counting"}, OWN_FILTERS)

    assert exit_code == 0, log
    assert "scrapy_dedup.crawl.extension] WARNING" not in log
    assert site.site.targets() == ["/"]


def test_another_reactor_than_asyncio_is_named(start, site):
    exit_code, log = start({"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"})

    assert exit_code == 1
    assert "TWISTED_REACTOR" in log
    assert site.site.targets() == []
