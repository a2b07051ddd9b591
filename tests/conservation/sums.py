"""The three sums, which must be correct after every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from conservation.clusters import Row

# Maximum number of rows that the text of a violation lists.
SHOWN = 5


def missing(log: Iterable[Row], returned: Collection[Row], expected: Collection[str]) -> list[str]:
    """Checks the first half of the third sum: returns rows of the log that the application did not get."""
    have = {row.id for row in returned}
    places = {row.id: row for row in log}
    lost = sorted(places.get(item, Row(-1, -1, item)) for item in expected if item not in have)
    return _lines(f"{len(lost)} of {len(expected)} rows were never returned", [_place(row) for row in lost])


def repeated(returned: Iterable[Row]) -> list[str]:
    """Checks the second half of the third sum: returns rows that were returned more than once."""
    counts = Counter(returned)
    twice = sorted(row for row, count in counts.items() if count > 1)
    return _lines(f"{len(twice)} rows were returned more than once", [_place(row) for row in twice])


def passed(log: Iterable[Row], committed: Mapping[int, int], returned: Iterable[Row]) -> list[str]:
    """Checks the second sum: returns rows below the committed offset of their partition that were not returned."""
    have = {row.id for row in returned}
    lost = sorted(row for row in log if row.offset < committed.get(row.partition, 0) and row.id not in have)
    return _lines(f"{len(lost)} rows were committed and not returned", [_place(row) for row in lost])


def unreported(
    given: Collection[str], acknowledged: Collection[str], failed: Collection[str], log: Iterable[Row], reports: int
) -> list[str]:
    """Checks the first sum: returns rows given to a producer that were neither acknowledged nor reported as failed.

    Rows without an observed delivery count as acknowledged if they are in the log, and as failed if the producer
    reported failures on its own: by an exception of `flush` or `close`, or in the log.
    """
    written = Counter(row.id for row in log)
    silent = sorted(
        (
            item
            for item in given
            if item not in acknowledged and item not in failed and (not written[item] and not reports)
        ),
        key=_number,
    )
    lost = sorted((item for item in acknowledged if not written[item]), key=_number)
    twice = sorted((item for item, count in written.items() if count > 1), key=_number)
    foreign = sorted((item for item in written if item not in given), key=_number)
    return [
        *_lines(f"{len(silent)} of {len(given)} rows were neither written nor reported as failed", silent),
        *_lines(f"{len(lost)} rows were acknowledged and are not in the log", lost),
        *_lines(f"{len(twice)} rows are in the log more than once", twice),
        *_lines(f"{len(foreign)} rows of the log were never given", foreign),
    ]


def joined(rejected: Collection[str], log: Iterable[Row]) -> list[str]:
    """Returns rows of aborted transactions or cancelled calls that are in the log although they must not be."""
    written = {row.id for row in log}
    there = sorted((item for item in rejected if item in written), key=_number)
    return _lines(f"{len(there)} rows of aborted transactions are committed", there)


def _place(row: Row) -> str:
    return f"{row.id} at {row.partition}:{row.offset}"


def _number(one: str) -> tuple[int, str]:
    return (int(digits) if (digits := one.rpartition(" ")[2]).isdigit() else -1, one)


def _lines(what: str, where: Collection[str]) -> list[str]:
    if not where:
        return []
    first = list(where)[:SHOWN]
    return [f"{what}: {', '.join(first)}{', …' if len(where) > SHOWN else ''}"]
