"""The feed formats ``observations``, ``bodies`` and ``changes``: JSON Lines of records, whole lines only.

Each record is one UTF-8 line, handed to the system as soon as it is known, so a crawl that is killed leaves
every line but perhaps the last one whole. A last line that an earlier run left torn is removed before the
first line is appended. The ledger is the truth: what a feed misses, ``scrapy dedup export`` writes again.

Nothing here raises on an item or a full disk: one exception in one feed would take the item from every other
feed of the project.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from scrapy.exporters import BaseItemExporter
from scrapy.extensions.feedexport import ItemFilter

from scrapy_dedup.crawl.items import PageItem, PageRow
from scrapy_dedup.crawl.stats import FEED_FOREIGN_ITEMS, FEED_WRITE_ERRORS
from scrapy_dedup.records import BodyRecord, ChangeRecord, ObservationRecord, to_dict

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_LINE_START = b'{"schema":"scrapy-dedup/'
_TAIL_BLOCK_BYTES = 64 * 1024


def record_line(record: object, fields: Mapping[str, str] | Iterable[str] | None = None) -> bytes:
    """Return a record as one line of JSON, ``schema`` first, with its line end.

    Args:
        record: an instance of a record class.
        fields: the fields to write, in this order, or a mapping of field to the name to write; None for all.
            ``schema`` is always written.
    """
    plain = _selected(to_dict(record), fields)
    try:
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form, but JSON can escape it
        return json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _selected(plain: dict[str, Any], fields: Mapping[str, str] | Iterable[str] | None) -> dict[str, Any]:
    if fields is None:
        return plain
    names = dict(fields) if isinstance(fields, Mapping) else {name: name for name in fields}
    chosen = {target: plain[name] for name, target in names.items() if name in plain and name != "schema"}
    return {"schema": plain["schema"], **chosen}


class RecordExporter(BaseItemExporter):
    """Writes one record for each page that has one; encoding is UTF-8 and one record is one line, always.

    Attributes:
        recovery: the command that writes what a feed could not.
    """

    recovery = "scrapy dedup export"

    def __init__(self, file: IO[bytes], *, crawler: Crawler | None = None, **kwargs: object) -> None:
        super().__init__(dont_fail=True, **kwargs)
        self.file = file
        self._crawler = crawler
        self._foreign_logged = False
        self._broken = False

    @classmethod
    def from_crawler(cls, crawler: Crawler, file: IO[bytes], **kwargs: object) -> Self:
        """Make the exporter as Scrapy asks for it."""
        return cls(file, crawler=crawler, **kwargs)

    def start_exporting(self) -> None:
        """Make the end of an existing file a line end."""
        try:
            repair_tail(self.file)
        except OSError as error:
            self._stop_writing(error)

    def export_item(self, item: object) -> None:
        """Write the record that the page holds for this feed, if it holds one."""
        row = _row(item)
        if row is None:
            self._refuse(item)
            return
        records = self.records(row)
        if not records or self._broken:
            return
        try:
            self.file.write(b"".join(record_line(record, self.fields_to_export) for record in records))
            self.file.flush()
        except OSError as error:
            self._stop_writing(error)

    @abstractmethod
    def records(self, row: PageRow) -> Sequence[object]:
        """Return the records that this feed writes of a page."""

    def _refuse(self, item: object) -> None:
        self._count(FEED_FOREIGN_ITEMS)
        if not self._foreign_logged:
            self._foreign_logged = True
            logger.warning(
                "A feed of scrapy_dedup refused an item of type %s: it takes pages that the suite has "
                "recorded. Further ones are counted in %s.",
                type(item).__qualname__,
                FEED_FOREIGN_ITEMS,
            )

    def _stop_writing(self, error: Exception) -> None:
        """Leave the feed as it is: to go on after a failed write would put a line into the middle of one."""
        self._broken = True
        self._count(FEED_WRITE_ERRORS)
        logger.error(
            "A feed of scrapy_dedup cannot be written any more: %s. The ledger holds all records; "
            "'%s' writes them.",
            error,
            self.recovery,
        )

    def _count(self, stat_name: str) -> None:
        if self._crawler is not None and self._crawler.stats is not None:
            self._crawler.stats.inc_value(stat_name)


class ObservationsExporter(RecordExporter):
    """The feed format ``observations``: one line for each page or failure that was recorded."""

    def records(self, row: PageRow) -> Sequence[ObservationRecord]:
        """Return the observation."""
        return (row.observation,)


class BodiesExporter(RecordExporter):
    """The feed format ``bodies``: one line for each text that this job was the first to commit."""

    def records(self, row: PageRow) -> Sequence[BodyRecord]:
        """Return the body when it is new."""
        return () if row.body is None else (row.body,)


class ChangesExporter(RecordExporter):
    """The feed format ``changes``: what became of the key of each page or failure, and of keys led there.

    It compares with the last valid page that the ledger holds of the key, of whatever job in the corpus. What
    a crawl did not visit, or was led to a page that it had already, is in ``scrapy dedup export changes``.
    """

    def records(self, row: PageRow) -> Sequence[ChangeRecord]:
        """Return the changes."""
        return row.changes


class PageFilter(ItemFilter):
    """Lets recorded pages into a feed, so that batches count lines."""

    def accepts(self, item: object) -> bool:
        """Accept pages that the ledger holds, of the feed's ``item_classes`` if it names any."""
        return _row(item) is not None and super().accepts(item)


class BodiesFilter(ItemFilter):
    """Lets only pages into a feed that brought a new body into the ledger."""

    def accepts(self, item: object) -> bool:
        """Accept pages with a new body, of the feed's ``item_classes`` if it names any."""
        row = _row(item)
        return row is not None and row.body is not None and super().accepts(item)


class ChangesFilter(ItemFilter):
    """Lets only pages into a feed that were compared with what the ledger held before."""

    def accepts(self, item: object) -> bool:
        """Accept pages that say what changed, of the feed's ``item_classes`` if it names any."""
        row = _row(item)
        return row is not None and bool(row.changes) and super().accepts(item)


def _row(item: object) -> PageRow | None:
    """Return what a feed may write of an item; None when the item is no page that the ledger holds."""
    if isinstance(item, PageRow):
        return item
    if isinstance(item, PageItem) and item.observation is not None and not item.is_repeat:
        return PageRow(item.observation, item.body if item.body_is_new else None, item.changes)
    return None


# By feed format: what writes it, and what it may be given.
EXPORTERS = {"observations": ObservationsExporter, "bodies": BodiesExporter, "changes": ChangesExporter}
FILTERS = {"observations": PageFilter, "bodies": BodiesFilter, "changes": ChangesFilter}

DEFAULT_FORMATS = ("observations", "bodies")
"""Formats of the feeds that a project gets unless it has a feed of one of them."""


def default_feeds(folder: str = "dedup") -> dict[str, dict[str, Any]]:
    """Return the two feeds that a project gets when it names none.

    Options that Scrapy would take from the project's ``FEED_EXPORT_*`` and ``FEED_URI_PARAMS`` settings are
    set here: those are made for the project's own items, and a batch size without a place in the URI would
    switch off all its feeds. The files are appended to, as the ledger is; a crawl without pages leaves none.
    """
    shared = {
        "encoding": "utf-8",
        "fields": None,
        "indent": None,
        "batch_item_count": 0,
        "uri_params": None,
        "store_empty": False,
        "overwrite": False,
    }
    return {
        f"{folder}/observations.jsonl": {"format": "observations", "item_filter": PageFilter, **shared},
        f"{folder}/bodies.jsonl": {"format": "bodies", "item_filter": BodiesFilter, **shared},
    }


def repair_tail(file: IO[bytes]) -> int:
    """Make a local file that is open for appending end with a whole line.

    A torn line of ours is cut off; any other text without a line end gets one, as it may be somebody's data.
    Everything but a regular file in append mode stays untouched, and so does a file that another crawl is
    appending to: the end of it may be a line in the making. The shared lock that shows this lasts until the
    file is closed.

    Returns:
        The number of bytes cut off.
    """
    path = getattr(file, "name", None)
    if getattr(file, "mode", None) != "ab" or not isinstance(path, (str, os.PathLike)):
        return 0
    descriptor = file.fileno()
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not Path(path).is_file():
        return 0
    alone = _lock(descriptor, fcntl.LOCK_EX)
    try:
        return _repair(descriptor, Path(path)) if alone else 0
    finally:
        _lock(descriptor, fcntl.LOCK_SH)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:  # held by another crawl, or a file system without locks
        return False
    return True


def _repair(descriptor: int, path: Path) -> int:
    with path.open("rb") as readable:
        if not os.path.sameopenfile(descriptor, readable.fileno()):
            return 0
        size_bytes = readable.seek(0, os.SEEK_END)
        whole_bytes = _end_of_last_line(readable, size_bytes)
        if whole_bytes == size_bytes:
            return 0
        readable.seek(whole_bytes)
        if not _is_torn_line(readable):
            os.write(descriptor, b"\n")
            return 0
    os.ftruncate(descriptor, whole_bytes)
    logger.warning("Removed %d bytes of a torn last line from %s", size_bytes - whole_bytes, path)
    return size_bytes - whole_bytes


def _end_of_last_line(readable: IO[bytes], size_bytes: int) -> int:
    """Return the offset after the last line end, 0 without one; reads blocks from the end backwards."""
    end = size_bytes
    while end > 0:
        start = max(0, end - _TAIL_BLOCK_BYTES)
        readable.seek(start)
        found = readable.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _is_torn_line(readable: IO[bytes]) -> bool:
    """Tell whether what follows in the file is a piece of a line of ours.

    Zeros are what some file systems leave of a line that was not on disk when the power failed. A record that
    lacks only its line end is whole.
    """
    start = readable.read(len(_LINE_START))
    if not start.strip(b"\0"):
        return True
    if not _LINE_START.startswith(start):
        return False
    try:
        json.loads(start + readable.read())
    except ValueError:
        return True
    return False
