"""The keys of a terminal, one at a time."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol

QUIT, RESIZED = "q", "resized"
UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "page up", "page down", "home", "end"

POLL_S = 0.5
ESCAPE_S = 0.05
"""So long after an escape the rest of what one key sends has come, over a slow line too."""

_NAMES: Mapping[bytes, str] = {
    b"[A": UP,
    b"OA": UP,
    b"[B": DOWN,
    b"OB": DOWN,
    b"[5~": PAGE_UP,
    b"[6~": PAGE_DOWN,
    b"[H": HOME,
    b"OH": HOME,
    b"[1~": HOME,
    b"[F": END,
    b"OF": END,
    b"[4~": END,
    b"": "escape",
}
_END_OF_INPUT = (b"", b"\x03", b"\x04")


class Keys(Protocol):
    """Where keys come from."""

    def read(self) -> str:
        """Return the next key: a character, a name of this module, or something that means nothing."""

    def forget(self) -> None:
        """Drop what was typed already: a key is about what was seen when it was pressed."""


class TerminalKeys:
    """The keys of a terminal; a context manager, which leaves the terminal as it was.

    Args:
        descriptor: of the terminal.
        size: tells its size; when that changes, RESIZED is read.
    """

    def __init__(self, descriptor: int, size: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._size = size
        self._before = termios.tcgetattr(descriptor)

    def __enter__(self) -> TerminalKeys:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def read(self) -> str:
        """Wait for a key; the end of the input, like Ctrl-C and Ctrl-D, is QUIT."""
        size = self._size()
        while True:
            # Each time, since a shell that the program was suspended to has its own mode.
            tty.setcbreak(self._descriptor, termios.TCSANOW)
            if self._is_ready(POLL_S):
                return self._key()
            if self._size() != size:
                return RESIZED

    def forget(self) -> None:
        """Drop what was typed already."""
        termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def _is_ready(self, timeout_s: float) -> bool:
        return bool(select.select([self._descriptor], [], [], timeout_s)[0])

    def _key(self) -> str:
        first = os.read(self._descriptor, 1)
        if first in _END_OF_INPUT:
            return QUIT
        if first == b"\x1b":
            return _NAMES.get(self._sequence(), "unknown")
        return first.decode("ascii", "replace")

    def _sequence(self) -> bytes:
        """Return what follows an escape, as far as it comes at once."""
        found = b""
        while len(found) < 8 and self._is_ready(ESCAPE_S):
            found += os.read(self._descriptor, 1)
            if (len(found) > 1 and found[-1:].isalpha()) or found[-1:] == b"~":
                break
        return found
