"""The ledger thread of one job: group commit, so that a page is durable before it leaves the pipeline.

Whatever is queued is committed as soon as the previous commit has ended; no timer holds a page back. (With
"every 100 pages or every second" a crawl whose items await their commit waits for the timer: 52 pages/s
instead of 146.) Notes about aliases nobody waits for: a commit takes them along once they have waited for
`NOTE_DELAY_S` or are many, so that the small commits of a crawl are not slowed down by them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from scrapy_dedup.errors import LedgerError, LedgerUnavailable, LedgerWriteFailed
from scrapy_dedup.ledger import engine
from scrapy_dedup.ledger.aliases import AliasCounter, storable
from scrapy_dedup.ledger.comparing import Comparison
from scrapy_dedup.ledger.decide import Recorded, Sighting
from scrapy_dedup.ledger.engine import Target, WriteSession
from scrapy_dedup.ledger.lock import WAIT_S
from scrapy_dedup.ledger.nearness import OFF, NearOptions
from scrapy_dedup.ledger.seen import PageQuestion, SeenPage
from scrapy_dedup.ledger.store import Prepared, Store, prepare
from scrapy_dedup.records import AliasRecord, JobRecord

logger = logging.getLogger(__name__)

MAX_BATCH = 100
"""Sightings of one commit: larger batches gain little and hold the interpreter for longer."""

MAX_BATCH_CHARS = 32_000_000
MAX_NEAR_CHARS = 1_000_000
"""Characters of one commit that looks for similar texts, each of which may be read beside ten others; the
text that exceeds them comes along."""

MAX_NOTES = 2_000
"""Notes of one commit, so that a page never waits behind a long list of aliases."""

MAX_PENDING_NOTES = 50_000
"""Distinct notes that wait with their URLs, some 30 MB; further ones are only counted."""

NOTE_DELAY_S = 1.0
DUE_S = 30.0
"""How long the end of a job may take to judge claims that are due; the rest waits for the next job."""

FINISH_TIMEOUT_S = 60.0 + WAIT_S
"""Longer than the last commit may wait for its turn, whose error says better what is wrong."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A sighting in the queue, and the future of the one who waits for it."""

    sighting: Sighting
    future: Future[Recorded]


@dataclass(frozen=True, slots=True)
class _Question:
    """Something to be asked inside a commit.

    Attributes:
        ask: the question; it may change nothing.
        future: of the one who waits for the answer.
        about: the URL keys whose notes have to be written first; None for all that was queued before it.
    """

    ask: Callable[[Store, sa.Connection], Any]
    future: Future[Any]
    about: tuple[str, ...] | None = ()


class LedgerWriter:
    """Writes the sightings and aliases of one job to one ledger.

    All methods may be called from any thread; the ledger itself is touched by the writer's thread alone.
    Nothing is opened or made before the first sighting.

    Args:
        with_changes: fill the ``changes`` of what is recorded.
        near: how to deal with texts that are similar to earlier ones; by default they are not looked for.

    Attributes:
        started: the thread runs, or has run.
        failed: the error after which nothing more is written, or None.
    """

    def __init__(
        self,
        url: str,
        job: JobRecord,
        policy_spec: Mapping[str, Any],
        *,
        reuse_normalized: bool,
        with_changes: bool = False,
        near: NearOptions | None = None,
    ) -> None:
        self._target = Target.parse(url)
        self._job = job
        self._with_changes = with_changes
        self._max_chars = MAX_BATCH_CHARS if near is None or near.mode == OFF else MAX_NEAR_CHARS
        self._store = Store(
            job, policy_spec, reuse_normalized=reuse_normalized, near=near, path=self._target.path
        )
        self._session: WriteSession | None = None
        self._wake = threading.Condition()
        self._entries: deque[_Entry] = deque()
        self._questions: deque[_Question] = deque()
        self._late_links: dict[int, str] = {}
        self._notes = AliasCounter(MAX_PENDING_NOTES)
        self._notes_due = 0.0
        self._outcome: str | None = None
        self._next_seq = 0
        self._opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="dedup-ledger", daemon=True)
        self.started = False
        self.failed: LedgerError | None = None

    @staticmethod
    def check(url: str) -> None:
        """Raise unless a crawl could write to the ledger at ``url``; creates and changes nothing.

        Raises:
            LedgerUnavailable: with what is wrong and what to do about it.
            LedgerTooNew: the ledger has a newer schema than this package.
        """
        engine.check_writable(Target.parse(url))

    def start(self) -> Future[None]:
        """Start the thread, once; the future is done when the ledger is open and the job stands in it."""
        with self._wake:
            if not self.started:
                self.started = True
                self._opened.set_running_or_notify_cancel()
                self._thread.start()
        return self._opened

    def open(self) -> None:
        """Start the thread and wait until the ledger is open.

        Raises:
            LedgerError: the ledger cannot be opened, or another job has this id.
        """
        self.start().result()

    def record(self, sighting: Sighting) -> Future[Recorded]:
        """Queue a sighting; the future is done once it is durable.

        The future ends with LedgerWriteFailed when the commit failed, LedgerConflict when the ledger holds
        another observation under this identity, RecordError when a value has not its form.
        """
        entry = _Entry(sighting, _running())
        self._submit(self._entries, entry)
        return entry.future

    def variants(self, url_key: str) -> Future[list[AliasRecord]]:
        """Ask for the aliases of a key noted by this job so far, in first-seen order."""
        question = _Question(
            lambda store, connection: store.aliases_of(connection, url_key), _running(), (url_key,)
        )
        self._submit(self._questions, question)
        return question.future

    def latest_pages(self, asked: Sequence[PageQuestion]) -> Future[list[SeenPage | None]]:
        """Ask what was last seen of pages; at most `statement.MAX_LIST` at once."""
        question = _Question(lambda store, connection: store.latest_pages(connection, asked), _running())
        self._submit(self._questions, question)
        return question.future

    def canonicals_seen(self, url_keys: Sequence[str]) -> Future[dict[str, int]]:
        """Ask when the confirmed canonicals of pages were last seen; at most `statement.MAX_LIST` at once."""
        question = _Question(
            lambda store, connection: store.canonicals_seen(connection, url_keys), _running()
        )
        self._submit(self._questions, question)
        return question.future

    def flush(self) -> Future[None]:
        """Ask for word that all is durable that was handed in so far, the notes too."""
        question = _Question(lambda store, connection: None, _running(), None)  # noqa: ARG005
        self._submit(self._questions, question)
        return question.future

    def add_links(self, seq: int, links: str) -> None:
        """Add the links of an observation that was recorded before; never waits for the ledger."""
        with self._wake:
            if self._can_write():
                self._late_links[seq] = links
                self._wake.notify_all()

    def note(self, alias: AliasRecord) -> None:
        """Count a URL that was merged, rewritten or denied; never waits for the ledger.

        When notes come faster than the ledger takes them, further URLs are counted without being kept.
        """
        with self._wake:
            if not self._can_write():
                return
            if not len(self._notes):
                self._notes_due = time.monotonic() + NOTE_DELAY_S
            self._notes.add(storable(alias))
            pending = len(self._notes)
            if pending == 1 or pending % MAX_NOTES == 0:
                self._wake.notify_all()
        if pending >= MAX_PENDING_NOTES // 2:
            self.start()

    def next_seq(self) -> int:
        """Return the next free place in the job; the first call waits until the ledger is open.

        Raises:
            LedgerError: the ledger cannot be opened.
        """
        self.open()
        with self._wake:
            seq = self._next_seq
            self._next_seq += 1
        return seq

    def finish(self, outcome: str, timeout_s: float = FINISH_TIMEOUT_S) -> None:
        """Write what is queued and how the job ended, and close. Nothing is made if nothing was started.

        Raises:
            LedgerWriteFailed: the thread did not end in time.
        """
        with self._wake:
            if not self.started:
                return
            if self._outcome is None:
                self._outcome = outcome
            self._wake.notify_all()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise LedgerWriteFailed(
                f"The ledger {self._target.name} did not finish within {timeout_s:g} s. What was "
                "acknowledged is safe; the job will stand without an end."
            )

    def _can_write(self) -> bool:
        return self.failed is None and self._outcome is None

    def _submit(self, queue: deque[Any], item: _Entry | _Question) -> None:
        with self._wake:
            if self._can_write():
                queue.append(item)
                self._wake.notify_all()
            else:
                item.future.set_exception(self.failed or LedgerWriteFailed("The job has finished."))
        self.start()

    def _run(self) -> None:
        try:
            self._open()
            while self._wait_for_work():
                self._commit_queued()
            self._finish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the ones who wait must hear of it
            self._fail(self._failure(error))
        finally:
            self._close()

    def _failure(self, error: Exception) -> LedgerError:
        if isinstance(error, LedgerError) and not self._opened.done():
            return error
        failure = LedgerWriteFailed(f"The ledger {self._target.name} could not commit: {_short(error)}")
        failure.__cause__ = error
        return failure

    def _open(self) -> None:
        self._session = WriteSession(self._target)
        with self._session.transaction() as connection:
            self._next_seq = self._store.open_job(connection)
        self._opened.set_result(None)

    def _wait_for_work(self) -> bool:
        """Sleep until there is something to write; False when the job is to finish and all is written."""
        with self._wake:
            while True:
                if self._entries or self._questions or self._late_links:
                    return True
                if self._notes_are_due():
                    return True
                if self._outcome is not None:
                    return False
                self._wake.wait(self._notes_due - time.monotonic() if len(self._notes) else None)

    def _notes_are_due(self) -> bool:
        pending = len(self._notes)
        if not pending:
            return False
        return pending >= MAX_NOTES or self._outcome is not None or time.monotonic() >= self._notes_due

    def _commit_queued(self) -> None:
        with self._wake:
            entries = _take_batch(self._entries, self._max_chars)
            questions = self._take_questions()
            links = {} if self._entries else self._late_links  # not before the observations that they are of
            if links:
                self._late_links = {}
            notes = self._notes.take_of(url_key for question in questions for url_key in question.about or ())
            if any(question.about is None for question in questions):
                notes += self._notes.take(None)
            elif self._notes_are_due():
                notes += self._notes.take(MAX_NOTES)
                self._notes_due = time.monotonic() + NOTE_DELAY_S
        try:
            self._commit(entries, questions, notes, links)
        except BaseException:
            with self._wake:  # so that the failure reaches them too
                self._entries.extendleft(reversed(entries))
                self._questions.extendleft(reversed(questions))
            raise

    def _take_questions(self) -> list[_Question]:
        """Take the questions that can be asked; one about all that was queued waits for the last of it."""
        waiting = [*self._questions]
        self._questions.clear()
        if self._entries:
            self._questions.extend(one for one in waiting if one.about is None)
        return [one for one in waiting if one.about is not None or not self._entries]

    def _commit(
        self,
        entries: Sequence[_Entry],
        questions: Sequence[_Question],
        notes: Sequence[AliasRecord],
        links: Mapping[int, str],
    ) -> None:
        prepared = _prepare_all(entries, self._job)
        with self._live_session().transaction() as connection:
            comparison = self._comparison(connection, prepared) if self._with_changes and prepared else None
            results = self._store.write(connection, [one for _, one in prepared], notes)
            if comparison is not None:
                comparison.read(results)
            self._store.add_links(connection, links)
            answers = [one.ask(self._store, connection) for one in questions]
        if comparison is not None:
            results = comparison.completed(results)
        for (entry, _), result in zip(prepared, results, strict=True):
            _settle(entry.future, result)
        for question, answer in zip(questions, answers, strict=True):
            question.future.set_result(answer)

    def _comparison(
        self, connection: sa.Connection, prepared: Sequence[tuple[_Entry, Prepared]]
    ) -> Comparison:
        return Comparison(connection, self._job.corpus, [one.sighting for _, one in prepared])

    def _finish(self) -> None:
        deadline = time.monotonic() + DUE_S
        while self._store.has_due and time.monotonic() < deadline:
            with self._live_session().transaction() as connection:
                self._store.judge_due(connection)
        with self._live_session().transaction() as connection:
            self._store.finish_job(connection, self._outcome or "finished", _now())

    def _live_session(self) -> WriteSession:
        if self._session is None:
            raise LedgerUnavailable(f"The ledger {self._target.name} is not open.")
        return self._session

    def _fail(self, error: LedgerError) -> None:
        with self._wake:
            self.failed = error
            waiting: list[_Entry | _Question] = [*self._entries, *self._questions]
            self._entries.clear()
            self._questions.clear()
            self._notes.take(None)
            self._wake.notify_all()
        if not self._opened.done():
            self._opened.set_exception(error)
        for item in waiting:
            if not item.future.done():
                item.future.set_exception(error)

    def _close(self) -> None:
        self._store.close()
        if self._session is None:
            return
        try:
            self._session.close()
        except (sa.exc.SQLAlchemyError, LedgerError, OSError) as error:
            logger.warning("The ledger %s did not close cleanly: %s", self._target.name, _short(error))


def _take_batch(queue: deque[_Entry], max_chars: int) -> list[_Entry]:
    """Take the sightings of one commit from the queue: bounded, and no seq twice."""
    batch: list[_Entry] = []
    seqs: set[int] = set()
    room = max_chars
    while queue and len(batch) < MAX_BATCH and room > 0 and queue[0].sighting.observation.seq not in seqs:
        entry = queue.popleft()
        batch.append(entry)
        seqs.add(entry.sighting.observation.seq)
        room -= len(entry.sighting.text.text) if entry.sighting.text else 0
    return batch


def _prepare_all(entries: Sequence[_Entry], job: JobRecord) -> list[tuple[_Entry, Prepared]]:
    """Prepare each sighting; one that has a fault fails alone and leaves the others in the batch."""
    tried = [(entry, _prepared(entry, job)) for entry in entries]
    return [(entry, prepared) for entry, prepared in tried if prepared is not None]


def _prepared(entry: _Entry, job: JobRecord) -> Prepared | None:
    try:
        return prepare(entry.sighting, job)
    except Exception as error:  # noqa: BLE001 - a value of a foreign type; the one who gave it hears of it
        entry.future.set_exception(error)
        return None


def _settle(future: Future[Recorded], result: Recorded | Exception) -> None:
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _running() -> Future[Any]:
    """Return a future that its owner cannot cancel: what is queued will be committed."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _short(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    return f"{type(original).__name__}: {' '.join(str(original).split())}"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
