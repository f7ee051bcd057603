"""Writers take turns, and places where turns cannot work are recognised."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scrapy_dedup.errors import LedgerUnavailable
from scrapy_dedup.ledger import LedgerWriter, lock, writer
from scrapy_dedup.ledger.lock import TurnLock, network_type

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:30 / /mnt/nfs rw,relatime shared:2 master:1 - nfs4 server:/export rw,vers=4.2
31 22 0:31 / /mnt/two\040words rw - cifs //server/share rw
32 22 0:32 / /mnt/ssh rw - fuse.sshfs me@server:/ rw
33 22 0:33 / /mnt/local rw - fuse.gocryptfs /home/me rw
34 30 0:34 / /mnt/nfs/scratch rw - tmpfs tmpfs rw
35 22 0:35 / /mnt/covered rw - ext4 /dev/vdb rw
36 22 0:36 / /mnt/covered rw - 9p host rw
37 22 0:37 / /data rw - btrfs /dev/vdc rw
not a line of the format
"""

CASES = [
    ("/home/me/dedup.db", None),
    ("/mnt/nfs/dedup.db", "nfs4"),
    ("/mnt/nfs", "nfs4"),
    ("/mnt/nfsx/dedup.db", None),
    ("/mnt/nfs/scratch/dedup.db", None),
    ("/mnt/two words/dedup.db", "cifs"),
    ("/mnt/ssh/dedup.db", "fuse.sshfs"),
    ("/mnt/local/dedup.db", None),
    ("/mnt/covered/dedup.db", "9p"),
    ("/data/a/b/dedup.db", None),
]


@pytest.mark.parametrize(("path", "kind"), CASES)
def test_network_file_systems_are_recognised(path, kind):
    assert network_type(Path(path), MOUNTS) == kind


def test_a_ledger_on_a_network_file_system_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("scrapy_dedup.ledger.engine.network_filesystem", lambda path: "nfs4")
    with pytest.raises(LedgerUnavailable, match=r"network file system \(nfs4\)"):
        LedgerWriter.check(f"sqlite:///{tmp_path}/dedup.db")
    assert list(tmp_path.iterdir()) == []


def test_the_file_system_of_the_tests_is_local(tmp_path):
    assert lock.network_filesystem(tmp_path) is None


HOLDER = (
    "import sys; from pathlib import Path; from scrapy_dedup.ledger.lock import TurnLock\n"
    "with TurnLock(Path(sys.argv[1])).turn():\n"
    "    print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def held(tmp_path):
    """The path of a lock that another process holds, and that process."""
    path = tmp_path / "dedup.db.lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        yield path, holder
        holder.kill()


def test_a_turn_excludes_another_process_and_says_so_in_time(held):
    path, holder = held
    waiting = TurnLock(path, timeout_s=0.05)
    with pytest.raises(LedgerUnavailable, match=f"Another process .*{holder.pid}"), waiting.turn():
        pytest.fail("the turn was given to two")
    holder.communicate(b"")
    with waiting.turn():
        assert path.exists()
    waiting.close()
    assert path.exists()


def test_a_turn_that_is_long_in_coming_is_told_once_and_waited_for(held, caplog):
    path, holder = held
    waiting = TurnLock(path, warn_after_s=0.05)
    threading.Timer(0.5, holder.kill).start()
    with waiting.turn():
        holder.wait(10)
    waiting.close()
    (said,) = caplog.records
    assert said.levelname == "WARNING"
    assert f"process {holder.pid}, python" in said.getMessage()


def test_a_crawl_is_not_closed_by_another_that_writes_for_minutes():
    assert lock.WARN_AFTER_S == 60
    assert lock.WAIT_S >= 600
    assert writer.FINISH_TIMEOUT_S > lock.WAIT_S


def test_a_turn_excludes_another_writer_of_the_same_process(tmp_path):
    path = tmp_path / "dedup.db.lock"
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        turns = TurnLock(path)
        for _ in range(20):
            with turns.turn():
                inside.append(1)
                most.append(len(inside))
                inside.pop()
        turns.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
