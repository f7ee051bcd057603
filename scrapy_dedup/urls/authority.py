"""The authority of a URL: user info, host and port, in the forms of the WHATWG URL standard.

https://url.spec.whatwg.org/#host-parsing is followed for http and https; a ValueError says that the standard
has no host for the input.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

import idna

from scrapy_dedup.urls import percent

DEFAULT_PORTS = {"http": 80, "https": 443}

_PLAIN_HOST = re.compile(r"(?:[A-Za-z0-9_-]+\.)*[A-Za-z][A-Za-z_-]*\.?", re.ASCII)
_FORBIDDEN_IN_HOST = re.compile(r"[\x00-\x20#/:<>?@\[\\\]^|%\x7f]")
_ESCAPE_RUN = re.compile("(?:%[0-9A-Fa-f]{2})+")
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]+)(?P<port>:[0-9]*)?", re.ASCII)
_RESERVED_IN_USERINFO = re.compile(r"[/:;=@\[\\\]^|]")  # WHATWG userinfo percent-encode set
_IDNA_DOTS = re.compile("[.\u3002\uff0e\uff61]")  # UTS 46 2.3: label separators


class RawAuthority(NamedTuple):
    """The parts of an authority as linked; ``port`` begins with its colon."""

    userinfo: str
    host: str
    port: str


def split_authority(text: str) -> RawAuthority:
    """Cut an authority at its last ``@`` and its port.

    >>> split_authority("ann:pw@Shop.example:8080")
    RawAuthority(userinfo='ann:pw', host='Shop.example', port=':8080')

    Raises:
        ValueError: there is no host, or the port is not a number.
    """
    userinfo, _, rest = text.rpartition("@")
    found = _HOST_AND_PORT.fullmatch(rest)
    if found is None:
        msg = "no host"
        raise ValueError(msg)
    return RawAuthority(userinfo, found["host"], found["port"] or "")


def normal_port(scheme: str, raw: str) -> int | None:
    """Return a port as a number, or None for none and for the default of the scheme.

    >>> normal_port("http", ":0080"), normal_port("http", ":443"), normal_port("https", ":")
    (None, 443, None)

    Raises:
        ValueError: it is above 65535.
    """
    if not raw[1:]:
        return None
    digits = raw[1:].lstrip("0") or "0"
    if len(digits) > 5 or int(digits) > 65535:
        msg = "port out of range"
        raise ValueError(msg)
    port = int(digits)
    return None if port == DEFAULT_PORTS[scheme] else port


def normal_userinfo(text: str) -> str:
    """Return user info in normal form; no password and no user info is the same as an empty one (WHATWG).

    >>> normal_userinfo("Ann:"), normal_userinfo(":"), normal_userinfo("a@b:p")
    ('Ann', '', 'a%40b:p')
    """
    if not text:
        return ""
    user, password = [
        _RESERVED_IN_USERINFO.sub(lambda found: percent.encode(found[0]), percent.normal(part))
        for part in text.partition(":")[::2]
    ]
    return f"{user}:{password}" if password else user


def normal_host(host: str) -> str:
    """Return a host as the WHATWG host parser serialises it.

    >>> [normal_host(host) for host in ("EXAMPLE.com", "bücher.example", "0xC0.0.2.1", "[2001:DB8::0:1]")]
    ['example.com', 'xn--bcher-kva.example', '192.0.2.1', '[2001:db8::1]']

    Raises:
        ValueError: the standard refuses the host.
    """
    if _PLAIN_HOST.fullmatch(host):
        return host.lower()
    if host.startswith("["):
        return f"[{_ipv6(host[1:-1])}]"
    if "%" in host:
        host = _ESCAPE_RUN.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode("utf-8"), host)
    host = host.lower() if host.isascii() else _domain_to_ascii(host)
    if not host or _FORBIDDEN_IN_HOST.search(host):
        msg = "forbidden host"
        raise ValueError(msg)
    return _ipv4(host) if ends_in_number(host) else host


def _domain_to_ascii(host: str) -> str:
    """UTS 46 ToASCII, non-transitional, without STD3 rules and length checks, as WHATWG asks."""
    mapped = idna.uts46_remap(host, std3_rules=False, transitional=False)
    return ".".join([_label_to_ascii(label) for label in _IDNA_DOTS.split(mapped)])


def _label_to_ascii(label: str) -> str:
    return label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}"


def ends_in_number(host: str) -> bool:
    """WHATWG "ends in a number" checker: such a host is an IPv4 address or nothing."""
    last = host.removesuffix(".").rpartition(".")[2]
    return (last.isascii() and last.isdigit()) or _ipv4_number(last) is not None


def _ipv4_number(text: str) -> int | None:
    """Read a decimal, ``0x`` or ``0``-led octal number; None when it is none."""
    if not text or not text.isascii() or not text.isalnum():
        return None
    base = 10
    if text[:2] == "0x":
        text, base = text[2:], 16
    elif len(text) > 1 and text[0] == "0":
        base = 8
    digits = text.lstrip("0") or "0"
    if not set(digits) <= set("0123456789abcdef"[:base]):
        return None
    return int(digits[:20], base)  # 20 digits of any base are above every address


def _ipv4(host: str) -> str:
    """WHATWG IPv4 parser and serialiser: one to four numbers, the last one fills the rest."""
    labels = host.removesuffix(".").split(".")
    numbers = [_ipv4_number(label) for label in labels] if len(labels) <= 4 else [None]
    *leading, last = [-1 if number is None else number for number in numbers]
    if any(not 0 <= number <= 255 for number in leading) or not 0 <= last < 256 ** (4 - len(leading)):
        msg = "not an IPv4 address"
        raise ValueError(msg)
    address = last + sum(number << (8 * (3 - place)) for place, number in enumerate(leading))
    return ".".join([str(address >> shift & 255) for shift in (24, 16, 8, 0)])


def _ipv6(text: str) -> str:
    """Serialise an IPv6 address (RFC 5952 4); ``str(IPv6Address)`` differs between Python versions."""
    if "%" in text:
        msg = "IPv6 zone"
        raise ValueError(msg)
    address = int(ipaddress.IPv6Address(text))
    words = [f"{address >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)]
    start, length = _longest_zero_run(words)
    if length < 2:
        return ":".join(words)
    return f"{':'.join(words[:start])}::{':'.join(words[start + length :])}"


def _longest_zero_run(words: list[str]) -> tuple[int, int]:
    """Return where the first longest run of zero words begins, and its length in words."""
    best_start = best_length = start = 0
    for place, word in enumerate([*words, "end"]):
        if word != "0":
            if place - start > best_length:
                best_start, best_length = start, place - start
            start = place + 1
    return best_start, best_length


_BEFORE_AUTHORITY = re.compile(r"[^/\\?#@:]*:?[/\\\t\r\n]*")
_AFTER_AUTHORITY = re.compile(r"[/\\?#]")


def redact(url: str) -> str:
    """Replace the user info of a URL, so that it can be logged and stored; never raises.

    What a browser would read as user info goes, also in a URL that does not parse; other text stays.

    >>> redact("https://ann:secret@shop.example/a@b")
    'https://***@shop.example/a@b'
    >>> redact("mailto:ann@shop.example")
    'mailto:ann@shop.example'
    """
    if "@" not in url:
        return url
    found = _BEFORE_AUTHORITY.match(url)
    start = found.end() if found else 0
    before = url[:start]
    if not ("//" in before or "\\" in before or before.strip().lower().startswith("http")):
        return url
    end = _AFTER_AUTHORITY.search(url, start)
    authority = url[start : end.start()] if end else url[start:]
    _, at, host = authority.rpartition("@")
    return f"{before}***@{host}{url[start + len(authority) :]}" if at else url
