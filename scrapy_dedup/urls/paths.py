"""The path of a URL: dot segments, session identifiers, and the changes that a host's rules may ask for."""

from __future__ import annotations

import re
from collections.abc import Collection

from scrapy_dedup.urls import percent

_DOTS = frozenset((".", ".."))

# ASP.NET puts its cookieless identifiers into a segment of their own: (S(<24 characters>)), with (A(...)),
# (F(...)) or (X(1)) beside it.
_aspnet_segment = re.compile(
    r"\((?:[AFX]\([0-9A-Za-z_-]*\)){0,3}S\([0-9A-Za-z]{24}\)(?:[AFX]\([0-9A-Za-z_-]*\)){0,3}\)",
    re.ASCII | re.IGNORECASE,
).fullmatch
_upper_case = re.compile(r"%[0-9A-F]{2}|[A-Z]")


def remove_dot_segments(path: str) -> str:
    """Resolve ``.`` and ``..`` as RFC 3986 5.2.4 and the WHATWG path state do.

    >>> remove_dot_segments("/a/./b/../c"), remove_dot_segments("/../a/..")
    ('/a/c', '/')
    """
    done: list[str] = []
    *inner, last = path.split("/")[1:]
    for segment in inner:
        if segment == "..":
            del done[-1:]
        elif segment != ".":
            done.append(segment)
    if last == "..":
        del done[-1:]
    done.append("" if last in _DOTS else last)
    return "/" + "/".join(done)


def has_dot_segment(path: str) -> bool:
    """Tell whether a path in normal percent-encoding holds a ``.`` or ``..`` segment."""
    return "/." in path and not _DOTS.isdisjoint(path.split("/"))


def strip_sessions(path: str) -> str:
    """Leave out the session identifiers of a path, and no other octet.

    ``;jsessionid=...`` is a parameter of its segment (RFC 3986 3.3); its value runs to the next ``;`` or
    ``/``, so the node that a load balancer adds after a dot goes with it. Where only a dot segment would
    remain it stays, for a path must not be cut into another one.

    >>> strip_sessions("/shop/item;jsessionid=0A1B.node1;v=2")
    '/shop/item;v=2'
    >>> strip_sessions("/(S(lit3py55t21z5v55vlm25s55))/o.aspx")
    '/o.aspx'
    """
    if ";" in path:
        path = "/".join([without_session(part) if ";" in part else part for part in path.split("/")])
    if "/(" in path:
        path = _without_aspnet_segments(path)
    return path


def without_session(segment: str) -> str:
    """Leave out the session parameters of one path segment."""
    first, *parameters = segment.split(";")
    kept = [parameter for parameter in parameters if not is_session_parameter(parameter)]
    if len(kept) == len(parameters) or (not kept and percent.normal(first) in _DOTS):
        return segment
    return ";".join([first, *kept])


def is_session_parameter(parameter: str) -> bool:
    """Tell whether a path parameter is the session identifier of a servlet (Servlet specification 7.1.3)."""
    name, _, value = parameter.partition("=")
    return bool(value) and (name if name.isalnum() else percent.normal(name)).lower() == "jsessionid"


def _without_aspnet_segments(path: str) -> str:
    *inner, last = path.split("/")
    if not any(map(_aspnet_segment, inner)) or any(
        percent.normal(segment) in _DOTS for segment in (*inner, last)
    ):
        return path  # beside a dot segment, leaving one out would change what the dots climb over
    return "/".join([*[segment for segment in inner if not _aspnet_segment(segment)], last])


def lower_case(path: str) -> str:
    """Fold the case of a path in normal percent-encoding; escapes stay.

    >>> lower_case("/Shop/%C3%89T")
    '/shop/%C3%89t'
    """
    return _upper_case.sub(lambda found: found[0] if found[0][0] == "%" else found[0].lower(), path)


def without_index(path: str, index_files: Collection[str]) -> str:
    """Leave out the name of a directory's index file.

    >>> without_index("/docs/index.html", ("index.html",))
    '/docs/'
    """
    directory, _, name = path.rpartition("/")
    return f"{directory}/" if name in index_files else path


def collapse_slash(path: str) -> str:
    """Leave out one trailing slash; ``//`` is an empty segment, not a spelling (RFC 3986 3.3).

    >>> collapse_slash("/a/"), collapse_slash("/"), collapse_slash("/a//")
    ('/a', '/', '/a//')
    """
    return path[:-1] if len(path) > 1 and path[-1] == "/" != path[-2] else path


class Glob:
    """A path pattern in which ``*`` stands for any characters, also slashes.

    Everything else stands for itself. A trailing slash does not count, neither in the pattern nor in the
    path, and ``/cart/*`` covers ``/cart`` too. Matching takes linear time, so a rule file cannot make it
    slow.

    >>> [Glob("/cart/*").matches(path) for path in ("/cart/3", "/cart/", "/cartoon")]
    [True, True, False]
    >>> Glob("*.pdf").matches("/a/b.pdf")
    True
    """

    __slots__ = ("first", "last", "middle", "pattern", "specificity")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        literal = percent.normal(pattern)
        self.specificity = len(literal.replace("*", ""))
        if not literal.endswith("*"):
            literal = literal.rstrip("/")
        self.first, *rest = literal.split("*")
        self.last = rest.pop() if rest else None
        self.middle = rest

    def matches(self, path: str) -> bool:
        """Tell whether the pattern covers a path in normal percent-encoding."""
        path = path.rstrip("/")
        if self.last is None:
            return path == self.first
        if self.last == "":
            path += "/"
        return path.startswith(self.first) and self._matches_rest(path)

    def _matches_rest(self, path: str) -> bool:
        place = len(self.first)
        for part in self.middle:
            found = path.find(part, place)
            if found < 0:
                return False
            place = found + len(part)
        return len(path) - len(self.last or "") >= place and path.endswith(self.last or "")
