"""Runs the site in a process of its own, for as long as somebody needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[2]


class SiteError(Exception):
    """The site could not be started."""


class SiteProcess:
    """A running site.

    The process ends when `stop` closes its standard input, and just so when this process dies otherwise.

    Args:
        port: where to listen; 0 lets the system choose.
        edition: which edition of the pages to show.

    Attributes:
        url: the address of the home page.

    Raises:
        SiteError: when the port is taken.
    """

    def __init__(self, port: int, edition: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "example.site", "--port", str(port), "--edition", str(edition)],
            cwd=_PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C stops the crawl, which still needs its site to end in good order
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            _, complaint = self._process.communicate()
            raise SiteError(
                f"{complaint.strip()}\nChoose another port with -a port=NUMBER (0: any free one)."
            )

    def stop(self) -> None:
        """End the site and wait for its end."""
        self._process.communicate()
