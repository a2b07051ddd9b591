"""Kafka releases, recognised by the API versions that a broker supports."""

from __future__ import annotations

from collections.abc import Mapping

# Newest first: the release, and the code and version of an API that the release added. No API version is new in 3.4.
# Derived from the table in rust/wire/src/releases.rs; tests compare both.
_MARKS = (
    ("4.4", 18, 5),  # ApiVersions
    ("4.3", 35, 5),  # DescribeLogDirs
    ("4.2", 2, 11),  # ListOffsets
    ("4.1", 1, 18),  # Fetch
    ("4.0", 2, 10),
    ("3.9", 1, 17),
    ("3.8", 10, 5),  # FindCoordinator
    ("3.7", 1, 16),
    ("3.6", 24, 4),  # AddPartitionsToTxn
    ("3.5", 1, 15),
    ("3.3", 35, 4),
    ("3.2", 11, 9),  # JoinGroup
    ("3.1", 1, 13),
    ("3.0", 2, 7),
    ("2.8", 3, 11),  # Metadata
    ("2.7", 1, 12),
    ("2.6", 21, 2),  # DeleteRecords
    ("2.5", 11, 7),
    ("2.4", 3, 9),
    ("2.3", 1, 11),
    ("2.2", 2, 5),
    ("2.1", 1, 10),
    ("2.0", 1, 8),
    ("1.1", 1, 7),
    ("1.0", 1, 6),
    ("0.11", 1, 5),
    ("0.10.2", 9, 2),  # OffsetFetch
    ("0.10.1", 1, 3),
)


def release_of(versions: Mapping[int, tuple[int, int]]) -> str:
    """Returns the Kafka release whose API versions a broker supports, such as `3.9`.

    Args:
        versions: lowest and highest version by API code.
    """
    for release, api, version in _MARKS:
        if versions.get(api, (0, -1))[1] >= version:
            return f"{release} or later" if release == _MARKS[0][0] else "3.3 or 3.4" if release == "3.3" else release
    return "0.10.0"
