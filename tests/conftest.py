"""Fixtures for all tests: a real PostgreSQL server, started once for each session where its binaries are."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_SCHEMAS = itertools.count()


def postgresql_binaries() -> Path | None:
    """Return the folder of the newest installed PostgreSQL server, or None."""
    on_path = shutil.which("initdb")
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    found = [folder for folder in candidates if (folder / "initdb").exists()]
    return found[-1] if found else (Path(on_path).parent if on_path else None)


class PostgresServer:
    """A server of one session: a folder of its own, a Unix socket, no TCP."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._data = folder / "data"
        self._folder = folder
        self._as_user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            shutil.chown(folder, "postgres", "postgres")

    def start(self) -> None:
        """Make the data folder and start the server."""
        self._run(
            "initdb", "-D", self._data, "-U", "dedup", "--auth=trust", "-E", "UTF8", "--no-locale", "-N"
        )
        self._control("start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; mode "immediate" is a crash."""
        self._control("stop", "-m", mode)

    def restart_after_crash(self) -> None:
        """Crash the server and start it again."""
        self.stop("immediate")
        self._control("start")

    def new_database(self) -> str:
        """Make an empty schema, which is all that a client of the URL sees, and return the URL.

        A schema is made in a moment; a database of its own would copy some hundred files.
        """
        psycopg = pytest.importorskip("psycopg")
        name = f"t{next(_SCHEMAS)}"
        address = f"host={self._folder} user=dedup dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"postgresql://dedup@/postgres?host={self._folder}&options=-csearch_path%3D{name}"

    def _control(self, *words: str) -> None:
        options = f"-k {self._folder} -c listen_addresses= -c fsync=off -c max_connections=50"
        self._run("pg_ctl", "-D", self._data, "-l", self._folder / "log", "-o", options, "-w", *words)

    def _run(self, program: str, *words: object) -> None:
        command = [*self._as_user, str(self._binaries / program), *map(str, words)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120)


@pytest.fixture(scope="session")
def postgres_server():
    """A running PostgreSQL server, or a skip that says why there is none."""
    binaries = postgresql_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server binaries (Debian: apt-get install postgresql)")
    if os.geteuid() == 0 and not (shutil.which("setpriv") and _has_user("postgres")):
        pytest.skip("PostgreSQL does not run as root, and setpriv or the user postgres is missing")
    # Not pytest's own folder, which nobody else may enter; and a socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        server = PostgresServer(binaries, Path(name))
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                server.stop("immediate")  # nothing in it is worth a checkpoint


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of an empty database; nothing of another test is seen in it."""
    return postgres_server.new_database()


def _has_user(name: str) -> bool:
    import pwd

    return any(entry.pw_name == name for entry in pwd.getpwall())
