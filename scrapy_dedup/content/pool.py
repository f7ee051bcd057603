"""Extraction off the caller's thread: a pool of processes with a time limit, a cache and no shared fate.

Each worker process serves one page at a time and is driven by one thread, which may wait as long as it has to
without holding up the event loop. A page that takes too long costs its worker, never the crawl and never
another page: the worker is killed and the next page gets a fresh one. How workers are made is told in
`scrapy_dedup.content.worker`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection

from scrapy_dedup.content.digest import sha256_id
from scrapy_dedup.content.extraction import (
    PASSING_FAILURES,
    Extraction,
    ExtractOptions,
    Payload,
    Reply,
    Request,
)
from scrapy_dedup.errors import DedupError

# Hashing more than this takes the event loop's thread longer than handing the body over.
DIGEST_HERE_MAX_BYTES = 1_000_000

# A worker that ever held this much is replaced: memory of one huge page does not go back to the system.
RETIRE_ABOVE_KB = 700_000

# The first worker waits for the nursery to load the extractors, on a busy machine from a cold disk.
START_TIMEOUT_S = 120.0

# The child gets the import path of this process, so that it finds what this process found, and no main
# script.
_NURSERY = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from scrapy_dedup.content.worker import run_nursery; run_nursery(int(sys.argv[1]))"
)


class WorkerDiedError(DedupError):
    """The worker ended before it answered."""


class TimeLimitError(DedupError):
    """The worker did not answer in time."""


@dataclass(slots=True)
class Counters:
    """What a pool has done so far.

    Attributes:
        extractions: pages that a worker was asked to extract, retries not counted.
        cache_hits: pages answered from the cache or by an extraction already in flight.
        restarts: workers that died and were replaced.
        timeouts: workers that were killed for their page's time limit.
        retired: workers replaced for their age or memory.
    """

    extractions: int = 0
    cache_hits: int = 0
    restarts: int = 0
    timeouts: int = 0
    retired: int = 0


class ExtractionPool:
    """Extracts payloads in worker processes; to be used from one event loop.

    Args:
        options: how to extract.
        workers: number of processes, and so of pages in work at a time.
        time_limit_s: how long one page may take in its worker; waiting for a free worker does not count.
        recycle_after: pages after which a worker is replaced.
        cache_entries: how many results are remembered.
        cache_text_bytes: how much text the remembered results may hold together.
    """

    def __init__(
        self,
        options: ExtractOptions,
        *,
        workers: int,
        time_limit_s: float,
        recycle_after: int = 200,
        cache_entries: int = 1024,
        cache_text_bytes: int = 16_000_000,
    ) -> None:
        self.options = options
        self.counters = Counters()
        self._to_hire = workers
        self._crew = _Crew(workers, time_limit_s, recycle_after, self.counters)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="dedup-extract")
        self._cache = _Cache(cache_entries, cache_text_bytes)
        self._in_flight: dict[Hashable, asyncio.Task[Extraction]] = {}

    def warm_up(self) -> None:
        """Start the processes in the background; returns at once, and does nothing the second time."""
        to_hire, self._to_hire = self._to_hire, 0
        for _ in range(to_hire):
            self._threads.submit(self._crew.hire_ahead)

    async def extract(self, payload: Payload) -> Extraction:
        """Return what is in a payload; equal payloads are extracted once, even if they arrive together.

        Never raises for any payload: what went wrong is the extraction's ``failure``. A cancelled caller does
        not cancel the extraction, which others may be waiting for.

        Raises:
            asyncio.CancelledError: the pool was closed before the page's turn came.
        """
        digest = await self._digest(payload.body)
        if len(payload.body) > self.options.max_input_bytes:
            return Extraction(digest, failure="input_over_cap")
        key = self._key(digest, payload)
        known = self._cache.get(key)
        if known is not None:
            self.counters.cache_hits += 1
            return known
        task = self._in_flight.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._extract(key, digest, payload))
            self._in_flight[key] = task
        else:
            self.counters.cache_hits += 1
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End all processes and threads; pages in work end as "worker_died", waiting ones are cancelled."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._crew.dismiss()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _key(self, digest: str, payload: Payload) -> Hashable:
        """Return all that decides the result; the URL does only where links are written out in full."""
        url = payload.url if self.options.include_links else None
        return digest, payload.encoding, payload.declared_charset, url, self.options.extractor_id

    async def _digest(self, body: bytes) -> str:
        if len(body) <= DIGEST_HERE_MAX_BYTES:
            return sha256_id(body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._crew.digest, body)

    async def _extract(self, key: Hashable, digest: str, payload: Payload) -> Extraction:
        loop = asyncio.get_running_loop()
        self.counters.extractions += 1
        try:
            done = await loop.run_in_executor(
                self._threads, self._crew.extract, digest, payload, self.options
            )
        finally:
            del self._in_flight[key]
        if done.failure not in PASSING_FAILURES:
            self._cache.put(key, done)
        return done


class _Cache:
    """The results used last, bounded in number and in bytes of text."""

    def __init__(self, max_entries: int, max_text_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_text_bytes = max_text_bytes
        self._text_bytes = 0
        self._entries: OrderedDict[Hashable, Extraction] = OrderedDict()

    def get(self, key: Hashable) -> Extraction | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: Extraction) -> None:
        self._entries[key] = entry
        self._text_bytes += _text_bytes(entry)
        while len(self._entries) > self._max_entries or self._text_bytes > self._max_text_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._text_bytes -= _text_bytes(oldest)


def _text_bytes(entry: Extraction) -> int:
    return sys.getsizeof(entry.text.text) if entry.text else 0


class _Crew:
    """The workers; all methods block and belong into threads."""

    def __init__(self, size: int, time_limit_s: float, recycle_after: int, counters: Counters) -> None:
        self._size = size
        self._time_limit_s = time_limit_s
        self._recycle_after = recycle_after
        self._counters = counters
        self._nursery = _Nursery()
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    def hire_ahead(self) -> None:
        """Start one worker and leave it idle."""
        with contextlib.suppress(WorkerDiedError):  # the page that needs it will try again
            self._release(self._nursery.new_worker())

    def dismiss(self) -> None:
        """End all workers, busy or not."""
        self._nursery.close()
        with self._lock:
            for worker in self._idle:
                worker.end()
            self._idle.clear()

    def extract(self, digest: str, payload: Payload, options: ExtractOptions) -> Extraction:
        """Extract one payload; a dead worker is replaced once, a slow one is killed."""
        request = Request(payload.encoding, payload.url, payload.declared_charset, options)
        try:
            reply = self._ask(request, payload.body)
        except WorkerDiedError:
            return Extraction(digest, failure="worker_died")
        except TimeLimitError:
            return Extraction(digest, failure="time_limit")
        return reply.extraction or Extraction(digest, failure="worker_died")

    def digest(self, body: bytes) -> str:
        """Return the digest of a large body, taken in a worker."""
        try:
            return self._ask(Request(), body).digest
        except (WorkerDiedError, TimeLimitError):
            return sha256_id(body)  # costs this thread some time, but an observation needs its digest

    def _ask(self, request: Request, body: bytes) -> Reply:
        """Have a worker answer; once more with a new worker if the first one died.

        Raises:
            WorkerDiedError: twice in a row; the page itself may be what kills.
            TimeLimitError: the worker was killed.
        """
        try:
            return self._ask_once(request, body)
        except WorkerDiedError:
            self._count("restarts")
            return self._ask_once(request, body)

    def _ask_once(self, request: Request, body: bytes) -> Reply:
        worker = self._take()
        try:
            reply = worker.ask(request, body, self._time_limit_s)
        except TimeLimitError:
            self._count("timeouts")
            worker.kill()
            raise
        except WorkerDiedError:
            worker.end()
            raise
        if worker.served >= self._recycle_after or reply.peak_kb > RETIRE_ABOVE_KB:
            self._count("retired")
            worker.end()
        else:
            self._release(worker)
        return reply

    def _take(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._nursery.new_worker()

    def _release(self, worker: _Worker) -> None:
        """Keep a worker for the next page; there is never use for more of them than there are threads."""
        with self._lock:
            if len(self._idle) < self._size:
                self._idle.append(worker)
                return
        worker.end()

    def _count(self, name: str) -> None:
        with self._lock:
            setattr(self._counters, name, getattr(self._counters, name) + 1)


class _Worker:
    """The near end of one worker process."""

    def __init__(self, connection: Connection) -> None:
        """Wait until the process is there.

        Raises:
            WorkerDiedError: it did not come up.
        """
        self._connection = connection
        self.served = 0
        try:
            if not connection.poll(START_TIMEOUT_S):
                raise WorkerDiedError
            self.pid: int = connection.recv()
        except (EOFError, OSError, WorkerDiedError) as error:
            connection.close()
            raise WorkerDiedError from error

    def ask(self, request: Request, body: bytes, time_limit_s: float) -> Reply:
        """Return the answer to one request.

        Raises:
            TimeLimitError: the worker is still at it.
            WorkerDiedError: it will never answer.
        """
        self.served += 1
        try:
            self._connection.send(request)
            self._connection.send_bytes(body)
            if not self._connection.poll(time_limit_s):
                raise TimeLimitError
            reply: Reply = self._connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerDiedError from error
        return reply

    def end(self) -> None:
        """Let the process end by itself: it sees that nobody is left to ask."""
        self._connection.close()

    def kill(self) -> None:
        """End the process at once, in the middle of its page."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._connection.close()


class _Nursery:
    """The near end of the process that workers are forked from; started with the first worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def new_worker(self) -> _Worker:
        """Return a worker that is ready for its first page.

        Raises:
            WorkerDiedError: none could be made, not even by a new nursery.
        """
        near, nursery = self._order()
        try:
            return _Worker(near)
        except WorkerDiedError:
            self._give_up(nursery)
        return _Worker(self._order()[0])

    def close(self) -> None:
        """End the nursery and all its workers; no worker can be made after that."""
        with self._lock:
            self._closed = True
            self._stop()
        atexit.unregister(self.close)

    def _order(self) -> tuple[Connection, subprocess.Popen[bytes] | None]:
        """Ask for a worker; return the near end of its connection, and the nursery that was asked."""
        near, far = socket.socketpair()
        with far, self._lock:
            if self._closed:
                near.close()
                raise WorkerDiedError
            if self._control is None or self._process is None or self._process.poll() is not None:
                self._control = self._start()
            # A nursery that has just died takes no orders; its worker then turns out to be dead.
            with contextlib.suppress(OSError):
                socket.send_fds(self._control, [b"w"], [far.fileno()])
            return Connection(near.detach()), self._process

    def _give_up(self, nursery: subprocess.Popen[bytes] | None) -> None:
        """Stop a nursery that makes no workers, unless another thread has replaced it already."""
        with self._lock:
            if self._process is nursery:
                self._stop()

    def _start(self) -> socket.socket:
        self._stop()
        atexit.register(self.close)  # for a crawl that ends without closing its pool
        control, far = socket.socketpair()
        with far:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", _NURSERY, str(far.fileno()), *sys.path],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # a feed may be written to ours
                start_new_session=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        return control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()  # the nursery sees it and ends its session
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(1.0)
            except subprocess.TimeoutExpired:  # still loading the extractors
                self._kill_session(self._process.pid)
                self._process.wait()
            self._process = None

    @staticmethod
    def _kill_session(leader: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
