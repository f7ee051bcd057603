"""The processes that extract: a nursery that loads the extractors once, and workers forked from it.

Loading trafilatura takes seconds, forking a process that has loaded it takes milliseconds, so a worker can be
killed for one slow page or retired for its memory at next to no cost. `multiprocessing` is not used to start
them: it would import the user's main script again in every worker, and a script without a ``__main__`` guard
would start its crawl again. The nursery has no threads, so that forking it is safe.

The crawl's process holds one end of a control socket. For each worker it sends the nursery one end of a new
socket pair; the forked worker answers on it, first with its process id, then with one `Reply` for each
request. Nursery and workers form a session of their own: Ctrl-C in the terminal belongs to the crawl. When
the control socket closes, which it does however the crawl's process ends, the nursery ends the whole session.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import socket
import sys
from multiprocessing.connection import Connection

from scrapy_dedup.content.digest import sha256_id
from scrapy_dedup.content.extract import extract
from scrapy_dedup.content.extraction import ExtractOptions, Payload, Reply, Request

# Makes the libraries fill their tables before the fork, so that no worker has to.
_REHEARSAL = Payload(
    b"<html lang='en'><head><title>Rehearsal</title></head><body><main><h1>Rehearsal</h1>"
    b"<p>Word lists and patterns are read the first time that they are needed, which is now.</p>"
    b"</main></body></html>",
    "utf-8",
    "http://rehearsal.invalid/",
)


def run_nursery(control_fd: int) -> None:
    """Load the extractors, then fork a worker for each socket received; never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended workers leave no zombies
    logging.disable(logging.CRITICAL)  # there is no log here: what goes wrong comes back as a value
    extract(_REHEARSAL, ExtractOptions())
    gc.collect()
    gc.freeze()  # the collector would otherwise touch, and so copy, every shared page
    with socket.socket(fileno=control_fd) as control:
        while True:
            message, fds, _, _ = socket.recv_fds(control, 1, 1)
            if not message:
                os.killpg(os.getpgrp(), signal.SIGKILL)
            if os.fork() == 0:
                control.close()
                _run_worker(Connection(fds[0]))
            os.close(fds[0])


def _run_worker(connection: Connection) -> None:
    """Answer requests until the other end closes; never returns."""
    try:
        connection.send(os.getpid())
        while True:
            request = connection.recv()
            connection.send(_answer(request, connection.recv_bytes()))
    except (EOFError, OSError):
        os._exit(0)
    finally:
        os._exit(1)  # whatever happened, a fork must not go on as a second nursery


def _answer(request: Request, body: bytes) -> Reply:
    if request.options is None:
        return Reply(sha256_id(body), None, _peak_kb())
    payload = Payload(body, request.encoding, request.url, request.declared_charset)
    extraction = extract(payload, request.options)
    return Reply(extraction.payload_digest, extraction, _peak_kb())


def _peak_kb() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak  # macOS counts bytes
