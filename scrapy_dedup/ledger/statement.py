"""Statements that every commit runs, compiled once for each dialect.

SQLAlchemy prepares a statement anew for each execution: the cache key, the list of an IN, types, result
columns. In a crawl most commits hold one to three pages, and preparing ten statements took most of the CPU
of a commit. Here the driver gets the text that SQLAlchemy compiled once.

Only types that the drivers read and write as they are may occur: integers, strings, bytes, None. Lists of an
IN are filled up to a power of two, so that few texts exist and the driver's own cache of statements holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

MAX_LIST = 512
"""Well below SQLite's limit of bound values, and enough for every batch of pages."""

SOUGHT: sa.BindParameter[Any] = sa.bindparam("sought", expanding=True)
"""The list that a `ListQuery` looks for: ``column.in_(SOUGHT)``."""

Row = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class _Text:
    """What a driver gets.

    Attributes:
        sql: the text.
        names: the parameters in their places, None where they go by name.
        constants: the values that the statement itself holds.
    """

    sql: str
    names: Sequence[str] | None
    constants: Mapping[str, Any]

    def bound(self, values: Mapping[str, Any]) -> Any:
        return dict(values) if self.names is None else tuple([values[name] for name in self.names])


@dataclass(frozen=True, slots=True)
class Change:
    """An insert, update or delete that is run for many rows at once; each row names every parameter."""

    clause: sa.Insert | sa.Update | sa.Delete
    _texts: dict[str, _Text] = field(default_factory=dict)

    def run(self, connection: sa.Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run it for each of ``rows``."""
        dialect = connection.dialect
        text = self._texts.get(dialect.name)
        if text is None:
            text = self._texts[dialect.name] = _compiled(self.clause, dialect)
        bound = [text.bound(row) for row in rows]
        with _cursor(connection, text) as cursor:
            cursor.executemany(text.sql, bound)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A query for a list of values, at `SOUGHT`, and for fixed parameters."""

    clause: sa.Select[Any]
    _texts: dict[tuple[str, int], _Text] = field(default_factory=dict)

    def rows(self, connection: sa.Connection, sought: Iterable[Any], **fixed: Any) -> list[Row]:
        """Return the rows for all values of ``sought``, looked up in parts of at most `MAX_LIST`."""
        found: list[Row] = []
        values = list(sought)
        for start in range(0, len(values), MAX_LIST):
            part = values[start : start + MAX_LIST]
            size = 1 << (len(part) - 1).bit_length()
            part += part[-1:] * (size - len(part))
            text = self._text(connection.dialect, size)
            named = {f"sought_{place}": value for place, value in enumerate(part, 1)}
            with _cursor(connection, text) as cursor:
                cursor.execute(text.sql, text.bound({**text.constants, **named, **fixed}))
                names = [column[0] for column in cursor.description or ()]
                found += [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return found

    def _text(self, dialect: sa.Dialect, size: int) -> _Text:
        text = self._texts.get((dialect.name, size))
        if text is None:
            clause = self.clause.params(sought=[b""] * size)
            text = self._texts[dialect.name, size] = _compiled(clause, dialect)
        return text


@contextmanager
def _cursor(connection: sa.Connection, text: _Text) -> Iterator[Any]:
    """Give a cursor of the driver; its errors leave as SQLAlchemy's, like those of all other statements."""
    try:
        with closing(connection.connection.cursor()) as cursor:
            yield cursor
    except connection.dialect.loaded_dbapi.Error as error:
        raise sa.exc.DBAPIError(text.sql, None, error) from error


def _compiled(clause: sa.Insert | sa.Update | sa.Delete | sa.Select[Any], dialect: sa.Dialect) -> _Text:
    compiled = clause.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    names = getattr(compiled, "positiontup", None)
    bound = {name: parameter.effective_value for name, parameter in compiled.binds.items()}
    constants = {name: value for name, value in bound.items() if value is not None}
    return _Text(str(compiled), None if names is None else tuple(names), constants)
