"""The work folder of a batch: columns of values on disk, and a manifest of how far the work has come.

Columns only grow. The manifest states how long each was at the last checkpoint, when all of it was on the
disk; a run that goes on cuts off what came later, and does that part again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from scrapy_dedup.errors import DedupError

CHECKPOINT_S = 10.0

_MANIFEST = "MANIFEST"
_DRAFT = f"{_MANIFEST}.draft"  # all that is there where a disk was full at once
_FORMAT = "scrapy-dedup-batch-1"


class WorkFolder:
    """What one batch has on disk while it runs; a context manager that keeps other runs out.

    Attributes:
        path: the folder.
        resumed: whether this run goes on with an earlier one.
        discarded: whether an earlier run was there that this one does not go on with.

    Args:
        path: the folder, made where needed.
        stated: what the results depend on; work that was begun for other values is not taken up.
        resume: whether to go on with what is there; else it is discarded.

    Raises:
        DedupError: another run is in the folder, or what is there was begun for something else.
    """

    def __init__(self, path: Path, stated: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self._stated = json.loads(json.dumps(stated))
        self._resume = resume
        self._files: dict[str, IO[bytes]] = {}
        self._lock: IO[bytes] | None = None
        self._noted: dict[str, Any] = {}
        self._checkpoint_at = 0.0
        self._made_parent = False
        self.resumed = False
        self.discarded = False

    def __enter__(self) -> WorkFolder:
        self._made_parent = not self.path.parent.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / "LOCK").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise DedupError(
                f"Another batch works in {self.path}; wait for it, or name another --out."
            ) from error
        try:
            held = self._held()
            if held is not None and self._resume:
                self._check(held)
                self._noted, self.resumed = held["noted"], True
            else:
                self.discarded = held is not None
                self._clear()
                self._write_manifest()
        except BaseException:
            self._lock.close()
            raise
        self._checkpoint_at = time.monotonic() + CHECKPOINT_S
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        if self._lock is not None:
            self._lock.close()

    def discard(self) -> None:
        """Remove the folder, and the one around it if it was made for it and is empty."""
        shutil.rmtree(self.path)
        if self._made_parent and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def get(self, name: str, default: Any = None) -> Any:
        """Return what was noted under a name."""
        return self._noted.get(name, default)

    def append(self, column: str, values: npt.NDArray[Any] | bytes) -> None:
        """Add values to the end of a column."""
        self._open(column).write(values if isinstance(values, bytes) else np.ascontiguousarray(values).data)

    def column(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a column as an array that is mapped into memory, not held there."""
        if name in self._files:
            self._files[name].flush()
        return mapped(self.path / name, dtype)

    def checkpoint_if_due(self, **noted: Any) -> None:
        """Make a checkpoint when the last one was some time ago."""
        if time.monotonic() >= self._checkpoint_at:
            self.checkpoint(**noted)

    def checkpoint(self, **noted: Any) -> None:
        """Bring all columns to the disk, and note how long they are and what is given."""
        lengths = dict(self._noted.get("lengths", {}))
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            lengths[name] = file.tell()
        self._noted = {**self._noted, **json.loads(json.dumps(noted)), "lengths": lengths}
        self._write_manifest()
        self._checkpoint_at = time.monotonic() + CHECKPOINT_S

    def close(self, *columns: str) -> None:
        """Close columns that are complete; a checkpoint has to come first."""
        for name in columns:
            if (file := self._files.pop(name, None)) is not None:
                file.close()

    def remove(self, *columns: str) -> None:
        """Remove columns that are not needed any more; one of the same name begins empty."""
        self.close(*columns)
        lengths = self._noted.get("lengths", {})
        for name in columns:
            (self.path / name).unlink(missing_ok=True)
            lengths.pop(name, None)

    def _open(self, name: str) -> IO[bytes]:
        if name not in self._files:
            length = self._noted.get("lengths", {}).get(name, 0)
            path = self.path / name
            path.touch()
            os.truncate(path, length)
            self._files[name] = path.open("ab")
        return self._files[name]

    def _held(self) -> dict[str, Any] | None:
        try:
            held = json.loads((self.path / _MANIFEST).read_text("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DedupError(f"{self.path / _MANIFEST} is no manifest of a batch ({error}).") from error
        if not isinstance(held, dict) or held.get("format") != _FORMAT:
            raise DedupError(f"{self.path} was not made by this version; name another --out.")
        return held

    def _check(self, held: Mapping[str, Any]) -> None:
        differing = sorted(
            name
            for name in {*held["stated"], *self._stated}
            if held["stated"].get(name) != self._stated.get(name)
        )
        if differing:
            raise DedupError(
                f"The batch in {self.path} was begun with other values of {', '.join(differing)}; "
                "repeat them, or leave out --resume to begin anew."
            )

    def _clear(self) -> None:
        """Remove what an earlier batch left; anything else in the folder is not ours and stops the run."""
        entries = [path for path in self.path.iterdir() if path.name != "LOCK"]
        if entries and {_MANIFEST, _DRAFT}.isdisjoint(path.name for path in entries):
            raise DedupError(f"{self.path} holds something that no batch made; name another --out.")
        for path in entries:
            if path.name != _MANIFEST:
                path.unlink()

    def _write_manifest(self) -> None:
        draft = self.path / _DRAFT
        with draft.open("w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, "stated": self._stated, "noted": self._noted}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path / _MANIFEST)


def mapped(path: Path, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the values of a file, mapped into memory and not to be changed."""
    of_type = np.dtype(dtype)
    if not path.exists() or path.stat().st_size == 0:
        return np.zeros(0, of_type)
    return np.asarray(np.memmap(path, of_type, "r"))
