"""The normal form of percent-encoding: octets, not text.

RFC 3986 6.2.2.1 and 6.2.2.2: hexadecimal digits are upper case, and an escape of an unreserved character
equals that character. Every other escape is data and stays: ``%2F`` is no slash, ``%E9`` is no "é", ``%25``
is decoded by nobody. What may not stand in a URL is encoded as UTF-8, as the WHATWG URL standard does.

A malformed ``%`` stays as it is (WHATWG), so care is needed that decoding its neighbours builds no new escape
out of it: in ``%%34%31`` the ``%34`` stays, else a second pass would read ``%41``.
"""

from __future__ import annotations

import re

_HEX = "0123456789ABCDEFabcdef"
UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _octet(pair: str) -> str:
    char = chr(int(pair, 16))
    return char if char in UNRESERVED else f"%{pair.upper()}"


_OCTETS = {a + b: _octet(a + b) for a in _HEX for b in _HEX}
"""Two hexadecimal digits to the normal form of the escape that they make."""

_abnormal = re.compile(
    "%(?![0-9A-F]{2})"  # malformed, or lower-case digits
    "|%(?:2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])"  # an unreserved character
).search

# RFC 3986 appendix A: what may stand in a path, query or fragment; "%" and the brackets are judged elsewhere
_FORBIDDEN = re.compile(r"[^!$-;=?-Z_a-z~\[\]]+")


def normal(text: str) -> str:
    """Return one component of a URL with its percent-encoding in normal form.

    >>> normal("caf%c3%a9/%7Euser/%2f/é x")
    'caf%C3%A9/~user/%2F/%C3%A9%20x'
    >>> normal("100%/%%34%31")
    '100%/%%341'
    """
    return encode_forbidden(decode_unreserved(text))


def decode_unreserved(text: str) -> str:
    """Decode the escapes of unreserved characters, and write the others in upper case."""
    return _decode_unreserved(text) if "%" in text and _abnormal(text) else text


def encode_forbidden(text: str) -> str:
    """Encode the characters that may not stand raw in any component; lone surrogates as three octets each."""
    return _FORBIDDEN.sub(_encode_run, text)


def encode(text: str) -> str:
    """Encode each octet of a text, whatever it is."""
    return "%" + text.encode("utf-8", "surrogatepass").hex("%").upper() if text else ""


def _encode_run(run: re.Match[str]) -> str:
    return encode(run[0])


def _decode_unreserved(text: str) -> str:
    head, *rest = text.split("%")
    done = [head]
    try:
        for part in rest:
            if len(part) == 2:  # another escape follows at once, as in most
                done.append(_OCTETS[part])
            else:
                done.append(_OCTETS[part[:2]])
                done.append(part[2:])
    except KeyError:
        return head + _decode_beside_malformed(rest)
    return "".join(done)


def _decode_beside_malformed(parts: list[str]) -> str:
    done = []
    exposed = False  # does a malformed "%", with at most one digit after it, stand right before this escape?
    for part in parts:
        octet = _OCTETS.get(part[:2])
        if octet is None:
            done.append("%" + part)
            exposed = not part or (len(part) == 1 and part in _HEX)
            continue
        if exposed:
            octet = f"%{part[:2].upper()}"
        done.append(octet + part[2:])
        exposed = False
    return "".join(done)
