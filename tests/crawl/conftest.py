"""Crawls as their user starts them: a real server, a process that crawls, and what it left behind."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from scrapy.cmdline import execute
from scrapy.settings import Settings

from .server import Answer, Server, mark

DRIVER = Path(__file__).with_name("driver.py")

ADDONS = {"scrapy_dedup.Addon": 500}

BASE_SETTINGS: Mapping[str, Any] = {
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 20,
    "RETRY_TIMES": 1,
    "DEDUP_WORKERS": 1,
}

# Follows every link of every page and writes down each callback and each errback.
FOLLOW = """
import scrapy

class Follow(scrapy.Spider):
    name = "follow"

    def __init__(self, start=(), errback=True, **kwargs):
        super().__init__(**kwargs)
        self.first, self.with_errback, self.seen, self.failures = start, errback, [], []

    def errback_or_none(self):
        return self.failed if self.with_errback else None

    async def start(self):
        for first in self.first:
            url, meta = (first, {}) if isinstance(first, str) else first
            yield scrapy.Request(url, errback=self.errback_or_none(), dont_filter=True, meta=meta)

    def parse(self, response):
        text = response.text if isinstance(response, scrapy.http.TextResponse) else ""
        self.seen.append({
            "url": response.url, "status": response.status, "flags": response.flags,
            "marks": sorted(set(word for word in text.replace("<", " ").split() if word.startswith("Zq"))),
        })
        if isinstance(response, scrapy.http.HtmlResponse):
            for href in response.css("a::attr(href)").getall():
                try:
                    request = response.follow(href, errback=self.errback_or_none())
                except ValueError:  # mailto:, javascript:
                    continue
                yield request

    def failed(self, failure):
        self.failures.append({"url": failure.request.url, "type": failure.type.__name__})
"""


@dataclass(frozen=True)
class Seen:
    """The content of a ledger, read once."""

    jobs: tuple[Any, ...]
    observations: tuple[Any, ...]
    bodies: tuple[Any, ...]
    aliases: tuple[Any, ...]

    def bodies_of(self, slug: str) -> list[Any]:
        return [body for body in self.bodies if mark(slug) in body.text]

    def observations_of(self, slug: str) -> list[Any]:
        ids = {body.body_id for body in self.bodies_of(slug)}
        return [observation for observation in self.observations if observation.body_id in ids]

    def at(self, url_end: str) -> list[Any]:
        """Return the observations whose URL, where the response came from, ends so."""
        return [observation for observation in self.observations if observation.url.endswith(url_end)]


@dataclass(frozen=True)
class Crawl:
    """What one crawl left behind."""

    folder: Path
    exit_code: int
    log: str
    dump: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stats(self) -> Mapping[str, Any]:
        return self.dump["stats"]

    @property
    def items(self) -> list[dict[str, Any]]:
        """Return the items that the spider itself made."""
        return [item for item in self.dump["items"] if item["class"] not in ("PageRow", "PageItem")]

    @property
    def callbacks(self) -> list[dict[str, Any]]:
        return self.dump["seen"]

    @property
    def failures(self) -> list[dict[str, Any]]:
        return self.dump["failures"]

    def reached_callback(self, slug: str) -> int:
        return sum(mark(slug) in call["marks"] for call in self.callbacks)

    @property
    def ledger_path(self) -> Path:
        return self.folder / "dedup.db"

    @property
    def ledger(self) -> Seen:
        return read_ledger(self.ledger_path)

    def feed(self, kind: str) -> list[dict[str, Any]]:
        """Return the records of one kind from the feeds under ``dedup/``."""
        records = [
            json.loads(line)
            for path in sorted((self.folder / "dedup").rglob("*.jsonl"))
            for line in path.read_text("utf-8").splitlines()
        ]
        return [record for record in records if record["schema"] == f"scrapy-dedup/{kind}/1"]


def read_ledger(path: Path) -> Seen:
    """Read a ledger as its user would, through the public name."""
    stamp = tuple(
        (file.stat().st_mtime_ns, file.stat().st_size) if file.exists() else None
        for file in (path, path.with_name(path.name + "-wal"))
    )
    return _read_ledger(path, stamp)


@functools.lru_cache(maxsize=64)
def _read_ledger(path: Path, _stamp: object) -> Seen:
    from scrapy_dedup import Ledger

    with Ledger.open(f"sqlite:///{path}") as ledger:
        return Seen(
            tuple(ledger.jobs()),
            tuple(ledger.observations()),
            tuple(ledger.bodies()),
            tuple(ledger.aliases()),
        )


def environment() -> dict[str, str]:
    """Return the environment of a crawl, which has no proxy of the machine."""
    inherited = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return inherited | {"PYTHONHASHSEED": "random"}


def run(
    command: Sequence[str], folder: Path, timeout_s: float, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command in a folder; return its exit code and its output and log together."""
    with (folder / "crawl.log").open("a+b") as log:
        start = log.seek(0, os.SEEK_END)
        done = subprocess.run(
            command,
            cwd=folder,
            env=env or environment(),
            stdout=log,
            stderr=log,
            timeout=timeout_s,
            check=False,
        )
        log.seek(start)
        return done.returncode, log.read().decode("utf-8", "replace")


class Crawler:
    """A process that runs crawl after crawl; it is replaced when a crawl hangs or takes it down."""

    def __init__(self, log_file: Path) -> None:
        self._log_file = log_file
        self._process: subprocess.Popen[str] | None = None

    def run(self, folder: Path, timeout_s: float) -> int:
        """Run the crawl prepared in a folder; return its exit code, or -1 if there was no end to it."""
        if self._process is None:
            with self._log_file.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, str(DRIVER)],
                    env=environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        print(folder, file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        answer = self._process.stdout.readline() if ready else ""
        if not answer:
            self.stop()
            return -1
        return int(answer)

    def stop(self) -> None:
        """End the process, the gentle way if it is idle."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


RunCrawl = Callable[..., Crawl]


@pytest.fixture(scope="session")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunCrawl]:
    """Return a function that runs a spider in another process and reads what it left."""
    crawler = Crawler(tmp_path_factory.mktemp("crawler") / "stderr.log")

    def run_crawl(
        spider: str = FOLLOW,
        *,
        addon: bool = True,
        settings: Mapping[str, Any] | None = None,
        proxy: Server | None = None,
        folder: Path | None = None,
        timeout_s: float = 120,
        **arguments: Any,
    ) -> Crawl:
        where = folder or tmp_path_factory.mktemp("crawl")
        prepare(where, spider, addon=addon, settings=settings, arguments=arguments, proxy=proxy)
        log_file, dump_file = where / "crawl.log", where / "dump.json"
        earlier = log_file.stat().st_size if log_file.exists() else 0
        exit_code = crawler.run(where, timeout_s)
        log = log_file.read_bytes()[earlier:].decode("utf-8", "replace") if log_file.exists() else ""
        dump = json.loads(dump_file.read_text()) if dump_file.exists() else {}
        return Crawl(where, exit_code, log, dump)

    yield run_crawl
    crawler.stop()


def prepare(
    folder: Path,
    spider: str = FOLLOW,
    *,
    addon: bool = True,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    proxy: Server | None = None,
) -> list[str]:
    """Write the files of a crawl into its folder and return the command that runs it alone."""
    plan = {
        "settings": {**BASE_SETTINGS, **({"ADDONS": ADDONS} if addon else {}), **(settings or {})},
        "arguments": dict(arguments or {}),
        "proxy": proxy.base if proxy else None,
    }
    (folder / "spider.py").write_text(spider)
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "dump.json").unlink(missing_ok=True)
    (folder / "scrapy.cfg").touch()
    return [sys.executable, str(DRIVER), str(folder)]


@pytest.fixture(scope="session")
def prepare_crawl() -> Callable[..., list[str]]:
    """Return the function that writes the files of a crawl and returns its command."""
    return prepare


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Mapping[str, Answer]], Server]]:
    """Return a function that serves routes until the module ends."""
    servers: list[Server] = []

    def start(routes: Mapping[str, Answer]) -> Server:
        servers.append(Server(routes))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@dataclass(frozen=True)
class Project:
    """A Scrapy project on disk, run with the commands of Scrapy."""

    folder: Path

    def scrapy(self, *arguments: str, timeout_s: float = 120, **env: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "scrapy", *arguments]
        return run(command, self.folder, timeout_s, environment() | env)

    def copy_to(self, folder: Path) -> Project:
        return dataclasses.replace(self, folder=Path(shutil.copytree(self.folder, folder)))


@pytest.fixture
def project(tmp_path: Path) -> Callable[[Mapping[str, str]], Project]:
    """Return a function that writes a Scrapy project from its files and returns it."""

    def write(files: Mapping[str, str]) -> Project:
        return write_project(tmp_path / "project", files)

    return write


def write_project(folder: Path, files: Mapping[str, str]) -> Project:
    """Write the files of a project ``shop``; WITH_DEDUP in the environment turns the add-on on."""
    (folder / "shop" / "spiders").mkdir(parents=True)
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "spiders" / "__init__.py").touch()
    settings = "\n".join(
        [
            "import os",
            'BOT_NAME = "shop"',
            'SPIDER_MODULES = ["shop.spiders"]',
            *(f"{name} = {value!r}" for name, value in BASE_SETTINGS.items()),
            files.get("shop/settings.py", ""),
            'if os.environ.get("WITH_DEDUP"):',
            f"    ADDONS = {ADDONS!r}",
            "",
        ]
    )
    for name, text in {**files, "shop/settings.py": settings}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Project(folder)


@dataclass
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


def run_dedup(*arguments: object) -> Done:
    """Run ``scrapy dedup`` in this process, outside any project."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as exit_:
        execute(["scrapy", "dedup", *map(str, arguments)], settings=Settings())
    assert "Traceback" not in err.getvalue()
    return Done(exit_.value.code or 0, out.getvalue(), err.getvalue())


@pytest.fixture
def dedup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Done]:
    """Return a function that runs ``scrapy dedup`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run_dedup
