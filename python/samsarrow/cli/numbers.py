"""Numbers with a unit: raw in JSON and CSV, readable in tables, closing lines and progress bars."""

from __future__ import annotations

from datetime import datetime

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
# Kafka's names of the levels of metadata.version, from level 1 on (org.apache.kafka.server.common.MetadataVersion).
_METADATA_VERSIONS = (
    "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1",
    "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0",
    "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
)  # fmt: skip


class Number(int):
    """A number that tables show as `text`, and JSON and CSV as a number."""

    @property
    def text(self) -> str:
        """The number for people."""
        return str(int(self))


class Size(Number):
    """A number of bytes."""

    @property
    def text(self) -> str:
        """The size, such as `9.1 GB`."""
        return size_text(self)


class Timestamp(Number):
    """Milliseconds since 1970; a negative number is an unknown time."""

    @property
    def text(self) -> str:
        """The local time, in a form that options such as `--from` accept; `-` if it is unknown."""
        if self < 0:
            return "-"
        try:
            return datetime.fromtimestamp(self / 1000).isoformat(" ", "seconds")
        except (ValueError, OverflowError, OSError):
            return str(int(self))


class MetadataVersion(Number):
    """A level of the feature `metadata.version`."""

    @property
    def text(self) -> str:
        """Kafka's name of the level, such as `4.3-IV0`; the number if the level is newer than this table."""
        known = 0 < self <= len(_METADATA_VERSIONS)
        return f"{_METADATA_VERSIONS[self - 1]} ({int(self)})" if known else str(int(self))


def size_or_none(value: int | None) -> Size | None:
    """Returns a size for a table, or None."""
    return None if value is None else Size(value)


def timestamp_or_none(value: int | None) -> Timestamp | None:
    """Returns a time for a table, or None."""
    return None if value is None else Timestamp(value)


def size_text(size: float) -> str:
    """Returns a number of bytes such as `512 B` or `9.1 GB`, with the units of `bytes_of`."""
    return f"{_short(size)}B"


def rate_text(rate: float, unit: str) -> str:
    """Returns a rate such as `1.2M records/s`, or `31 MB/s` for the unit `B`."""
    return f"{size_text(rate)}/s" if unit == "B" else f"{_short(rate).replace(' ', '')} {unit}/s"


def _short(number: float) -> str:
    """Returns a number with at most three digits and the prefix of its unit."""
    prefix = 0
    while abs(number) >= 999.5 and prefix < len(_PREFIXES) - 1:
        number /= 1000
        prefix += 1
    digits = f"{number:.1f}" if prefix and abs(number) < 99.95 else f"{number:.0f}"
    return f"{digits} {_PREFIXES[prefix]}"


def written_text(records: int, size: int, seconds: float) -> str:
    """Returns the beginning of a closing line: `1,000 records, 31 kB in 0.2 s`."""
    return f"{records:,} record{'s' if records != 1 else ''}, {size_text(size)} in {seconds:.1f} s"
