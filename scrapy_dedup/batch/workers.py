"""Work in several processes, with results in the order of the tasks."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import TypeVar

from scrapy_dedup.errors import DedupError

Task = TypeVar("Task")
Given = TypeVar("Given")
Result = TypeVar("Result")

_WAITING_PER_WORKER = 2


class ProcessDied(DedupError):
    """A process that compares texts has died, perhaps for want of memory."""


class Workers:
    """Processes that are started when the first task comes; a context manager.

    They are spawned, not forked: a fork of a process with threads may stop for ever. So a script that uses
    more than one needs the usual ``if __name__ == "__main__":``.

    Args:
        count: how many; with 1 the work is done in this process.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def in_order(
        self, function: Callable[[Given], Result], tasks: Iterable[tuple[Task, Given]]
    ) -> Iterator[tuple[Task, Result]]:
        """Yield each task with the result of the function for what it gives, in the order of the tasks.

        Only a few tasks are taken ahead of their results.

        Args:
            function: of a module, since it is named to other processes.
            tasks: what to remember of a task, and what to give to the function.

        Raises:
            ProcessDied: one of them.
        """
        if self._count == 1:
            for task, given in tasks:
                yield task, function(given)
            return
        waiting: deque[tuple[Task, Future[Result]]] = deque()
        try:
            for task, given in tasks:
                waiting.append((task, self._started().submit(function, given)))
                if len(waiting) > _WAITING_PER_WORKER * self._count:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        except BrokenProcessPool as error:
            raise ProcessDied from error

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._count, multiprocessing.get_context("spawn"))
        return self._pool
