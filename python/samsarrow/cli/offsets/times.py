"""Times and durations on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """`90s`, `15m`, `2h`, `7d`, or ISO 8601 as Kafka's tools take it: `P1DT2H`."""
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", text.strip()):
        return timedelta(**{_UNITS[found[2]]: float(found[1])})
    iso = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.strip().upper())
    if iso is None or not any(iso.groups()):
        raise click.BadParameter(f"{text!r} is not a duration, for example 90s, 15m, 2h, 7d or P1DT2H")
    days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def duration_option(_context: click.Context, _parameter: click.Parameter, text: str | None) -> timedelta | None:
    """Callback of an option that is a duration."""
    return None if text is None else duration(text)


def moment_option(_context: click.Context, _parameter: click.Parameter, text: str | None) -> datetime | None:
    """Callback of an option that is a moment; without a time zone it is UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time, for example 2026-03-29T12:00:00 or …+02:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
