"""The fields of an X.509 certificate that the doctor shows.

Python's `ssl` decodes only certificates that it has verified. The Rust client verifies certificates; this module only
describes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x17, 0x18, 0xA0
_COMMON_NAME = bytes.fromhex("550403")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate.

    Attributes:
        subject: common name of the subject; empty without one.
        issuer: common name of the issuer; empty without one.
        start: first moment of its validity.
        end: last moment of its validity.
    """

    subject: str
    issuer: str
    start: datetime
    end: datetime


def decode(der: bytes) -> Certificate | None:
    """Decodes a certificate. Returns None if the bytes are not a certificate."""
    try:
        body = next(_elements(next(_elements(der))[1]))[1]
        fields = [value for tag, value in _elements(body) if tag != _VERSION]
        # Serial number, signature algorithm, issuer, validity, subject.
        start, end = (_time(tag, value) for tag, value in _elements(fields[3]))
        return Certificate(_common_name(fields[4]), _common_name(fields[2]), start, end)
    except (ValueError, IndexError, StopIteration, RuntimeError):
        return None


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the tag and the content of each DER element."""
    at = 0
    while at < len(content):
        tag, size, at = content[at], content[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(content[at : at + count], "big"), at + count
        if at + size > len(content):
            raise ValueError("an element exceeds its parent")
        yield tag, content[at : at + size]
        at += size


def _common_name(name: bytes) -> str:
    found = ""
    for _, attributes in _elements(name):
        for _, attribute in _elements(attributes):
            (_, kind), (_, value) = _elements(attribute)
            if kind == _COMMON_NAME:
                # Control characters of a hostile certificate must not reach the terminal.
                found = "".join(c for c in value.decode("utf-8", "replace") if c.isprintable())
    return found


def _time(tag: int, value: bytes) -> datetime:
    text = value.decode("ascii")
    if tag == _UTC_TIME:
        # RFC 5280: years from 50 are in the twentieth century.
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
