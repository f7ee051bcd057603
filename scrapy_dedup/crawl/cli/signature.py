"""Who signs a decision: ``human:<name>`` or ``policy:<name>``."""

from __future__ import annotations

import getpass

from scrapy_dedup.errors import DedupError

KINDS = ("human:", "policy:")
MAX_CHARS = 200


def signature(name: str | None) -> str:
    """Return who decides: the given name, by default the login name of the user.

    Raises:
        DedupError: the name cannot stand in a decision, or the system knows no login name.
    """
    if name is None:
        name = _login_name()
    problem = signature_problem(name)
    if problem:
        raise DedupError(f"--by: {problem}")
    return signed(name)


def signature_problem(name: str) -> str | None:
    """Return why a name cannot stand in a decision, else None."""
    bare = name.strip()
    for kind in KINDS:
        bare = bare.removeprefix(kind)
    if not bare or len(name) > MAX_CHARS or not name.strip().isprintable():
        return f"a name has 1 to {MAX_CHARS} printable characters"
    return None


def signed(name: str) -> str:
    """Return a name with its kind; a bare one is a person's.

    >>> signed("ann"), signed("policy:nightly")
    ('human:ann', 'policy:nightly')
    """
    name = name.strip()
    return name if name.startswith(KINDS) else f"human:{name}"


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise DedupError("the system knows no login name for this user; say who decides with --by") from None
