"""Turns between processes that write one SQLite ledger, and the file systems on which turns cannot work.

SQLite before 3.51.3 can corrupt a write-ahead log when two connections write or checkpoint at one moment.
Each transaction and each checkpoint of ours therefore stands under an exclusive lock on a file beside the
ledger. The lock file is never deleted: a deleted one would let two processes hold "the" lock.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrapy_dedup.errors import LedgerUnavailable

logger = logging.getLogger(__name__)

_POLL_S = 0.002

WARN_AFTER_S = 60.0
WAIT_S = 600.0
"""Turns are not given in order, and another crawl may write for long: its progress must not end this one."""

NETWORK_FILESYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gfs2",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb3",
        "smbfs",
    }
)
"""Shared between machines: the write-ahead log needs memory that all its users share."""

NETWORK_FUSE = ("glusterfs", "sshfs", "s3fs", "gcsfuse", "rclone", "davfs", "curlftpfs", "ceph", "juicefs")
"""FUSE file systems that reach other machines; local ones (fuse.ext4, fuseblk, ...) are fine."""


class TurnLock:
    """An exclusive lock on ``path``, held by at most one transaction of one process at a time."""

    def __init__(self, path: Path, timeout_s: float = WAIT_S, warn_after_s: float = WARN_AFTER_S) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._warn_after_s = warn_after_s
        self._descriptor: int | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            LedgerUnavailable: another process kept the lock for longer than the time-out, or the lock file
                cannot be written.
        """
        descriptor = self._open()
        self._acquire(descriptor)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file; it stays where it is."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise LedgerUnavailable(
                    f"Cannot write the lock file {self._path} ({error.strerror}). "
                    "Make its directory writable or set DEDUP_LEDGER to another place."
                ) from error
        return self._descriptor

    def _acquire(self, descriptor: int) -> None:
        started = time.monotonic()
        is_warned = False
        while not _try_lock(descriptor):
            waited_s = time.monotonic() - started
            if waited_s > self._timeout_s:
                raise LedgerUnavailable(
                    f"Another process{_named(holder(descriptor))} has held {self._path} whenever this one "
                    f"asked, for more than {self._timeout_s:g} s. See who it is with `fuser {self._path}`."
                )
            if waited_s > self._warn_after_s and not is_warned:
                is_warned = True
                logger.warning(
                    "Waiting for another process%s that writes to the ledger of %s, for %.0f s so far; "
                    "giving up after %g s",
                    _named(holder(descriptor)),
                    self._path,
                    waited_s,
                    self._timeout_s,
                )
            time.sleep(_POLL_S)


def _named(process: str | None) -> str:
    return "" if process is None else f" ({process})"


def holder(descriptor: int) -> str | None:
    """Return number and name of the process that holds the lock on an open file, None where unknown.

    Format: proc(5), "/proc/locks". Only Linux tells, and only about processes that this one can see.
    """
    status = os.fstat(descriptor)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
        held = [fields for line in lines if (fields := line.split())[1:2] == ["FLOCK"] and place in fields]
        pid = next((fields[4] for fields in held if fields[4] not in {"0", "-1"}), None)
        if pid is None:
            return None
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, IndexError):
        return None
    return f"process {pid}, {name}"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def network_filesystem(path: Path) -> str | None:
    """Return the type of the network file system that holds ``path``, or None for a local one.

    Args:
        path: an absolute path; it need not exist.
    """
    mounts = Path("/proc/self/mountinfo")
    if not mounts.exists():  # not Linux: nothing to judge by
        return None
    return network_type(path, mounts.read_text(encoding="utf-8", errors="surrogateescape"))


def network_type(path: Path, mountinfo: str) -> str | None:
    """Return the network file system type of ``path`` according to the text of a mountinfo file.

    The innermost mount point that holds the path counts; of two mounts on one point, the later.
    Format: proc(5), "/proc/pid/mountinfo".
    """
    depth, kind = -1, ""
    for line in mountinfo.splitlines():
        fields, separator, described = line.partition(" - ")
        columns = fields.split(" ")
        if not separator or len(columns) < 5:
            continue
        point = Path(_unescaped(columns[4]))
        if path.is_relative_to(point) and len(point.parts) >= depth:
            depth, kind = len(point.parts), described.split(" ")[0]
    return kind if _crosses_network(kind) else None


def _crosses_network(kind: str) -> bool:
    if kind.startswith("fuse."):
        return any(name in kind for name in NETWORK_FUSE)
    return kind in NETWORK_FILESYSTEMS


def _unescaped(point: str) -> str:
    for escaped, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(escaped, character)
    return point
