"""Parsing of times, durations and sizes on the command line."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

import click

# Times in help texts. The parsers below accept the same forms everywhere, with `@` or without.
TIME_HELP = "a time: 2026-11-01T10:00, -1h (an hour ago), now, or milliseconds since 1970"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
# ISO 8601 durations, which Kafka's tools also accept.
_ISO_SPAN = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_ISO_UNITS = ("d", "h", "m", "s")
# Last millisecond of the year 9999, the maximum of `datetime`.
_LIMIT = 253_402_300_799_999


def span_of(text: str) -> float:
    """Returns the seconds of a time span such as `90s`, `1h30m` or `500ms`, or in ISO 8601 such as `P1DT2H`.

    Raises:
        ValueError: the text is not a time span.
    """
    iso = _ISO_SPAN.fullmatch(text.upper())
    if iso is not None and any(iso.groups()):
        return sum(float(number or 0) * UNITS[unit] for number, unit in zip(iso.groups(), _ISO_UNITS, strict=True))
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a time span, for example 90s, 1h30m, 7d or P1DT2H")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def instant_of(text: str) -> int:
    """Returns the milliseconds since 1970 of a time.

    The text may be `2026-11-01T10:00`, `2026-11-01`, `-1h`, `now`, or a number of milliseconds since 1970. A leading
    `@`, which distinguishes times from offsets in `--from`, is accepted everywhere.

    Times without a time zone are local, as in Python.

    Raises:
        ValueError: the text is not a time.
    """
    text = text.removeprefix("@")
    if text == "now":
        return round(time.time() * 1000)
    if text.startswith("-"):
        return round((time.time() - span_of(text[1:])) * 1000)
    if re.fullmatch(r"\d{11,15}", text):
        found = int(text)
    else:
        try:
            found = round(datetime.fromisoformat(text).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise ValueError(
                f"{text!r} is not a time: use 2026-11-01T10:00, 2026-11-01T10:00:00+01:00, -1h for an hour ago, "
                "or milliseconds since 1970"
            ) from None
    if not 0 <= found <= _LIMIT:
        raise ValueError(f"{text!r} is outside the years 1970 to 9999")
    return found


def bytes_of(text: str) -> int | None:
    """Returns the number of bytes of a size such as `100MB` or `64MiB`; None if the text has no unit of size."""
    found = re.fullmatch(r"(\d+)\s*([kmg]i?b|b)", text.strip().lower())
    return None if found is None else int(found[1]) * SIZES[found[2]]


def instant_option(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Parses an option with `instant_of`."""
    try:
        return None if value is None else instant_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def duration_option(_context: click.Context, _parameter: click.Parameter, value: str | None) -> timedelta | None:
    """Parses an option with `span_of`."""
    try:
        return None if value is None else timedelta(seconds=span_of(value))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error)) from None


def seconds_option(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """Parses an option such as `5`, `500ms` or `1h` as seconds."""
    if value is None:
        return None
    try:
        seconds = float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else span_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if seconds <= 0:
        raise click.BadParameter(f"{value!r} must be more than 0")
    return seconds
