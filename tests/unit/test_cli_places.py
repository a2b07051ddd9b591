"""Parsing of time spans, timestamps, offset positions, partitions and rotation limits on the command line."""

import time

import click
import pytest

from samsarrow.cli.consume.formats import Rotation
from samsarrow.cli.consume.range import Position, partitions_option
from samsarrow.cli.offsets_lookup import beginnings, ends
from samsarrow.cli.times import instant_of, span_of
from samsarrow.exceptions import KafkaError
from samsarrow.types import TopicPartition


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("1.5h", 5400), ("7d", 604800), ("1w", 604800),
        ("P1DT2H", 93600), ("PT30S", 30), ("pt1m0.5s", 60.5), ("P2D", 172800),
    ],
)  # fmt: skip
def test_time_spans(text, seconds):
    assert span_of(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "1x", "1 h", "-1h", "1h 30m", "1e3s", "P", "PT", "P1Y"])
def test_invalid_time_spans_are_rejected(text):
    with pytest.raises(ValueError, match="is not a time span"):
        span_of(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-01T10:00:00+00:00", 1793527200000),
        ("2026-11-01T11:00:00.250+01:00", 1793527200250),
        ("2026-11-01T10:00Z", 1793527200000),
        ("1793527200000", 1793527200000),
        ("@1793527200000", 1793527200000),
        ("@2026-11-01T10:00Z", 1793527200000),
    ],
)
def test_timestamps(text, ms):
    assert instant_of(text) == ms


def test_timestamps_relative_to_now():
    before = time.time() * 1000
    assert before - 3_600_001 <= instant_of("-1h") <= time.time() * 1000 - 3_600_000 + 1
    assert before - 1 <= instant_of("now") <= time.time() * 1000 + 1


def test_timestamp_without_a_zone_is_local_time(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert instant_of("2026-11-02") == 1793595600000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "10:00", "-1", "-", "1900-01-01", "99999999999999999"])
def test_invalid_timestamps_are_rejected(text):
    with pytest.raises(ValueError, match=r"is not a time|is outside"):
        instant_of(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Position("earliest")), ("latest", Position("latest")), ("group", Position("group")),
        ("beginning", Position("earliest")), ("end", Position("latest")),
        ("2026-11-01T10:00Z", Position("time", 1793527200000)), ("@2026-11-01T10:00Z", Position("time", 1793527200000)),
        ("17", Position("offset", 17)),
        ("0", Position("offset", 0)), ("-5", Position("back", 5)), ("@1793527200000", Position("time", 1793527200000)),
    ],
)  # fmt: skip
def test_offset_positions(text, place):
    assert Position.parse(text) == place


@pytest.mark.parametrize("text", ["", "start", "1.5", "--5", "@", "@never", "9223372036854775808", "+5"])
def test_invalid_offset_positions_are_rejected(text):
    with pytest.raises(click.BadParameter):
        Position.parse(text)


def test_partition_lists():
    assert partitions_option(None, None, ("0,2", "5-7")) == {0, 2, 5, 6, 7}
    for text in ("x", "1-", "3-1", "", "-1", "1,"):
        with pytest.raises(click.BadParameter, match="not a partition"):
            partitions_option(None, None, (text,))


def test_rotation_limits():
    assert Rotation.parse("100MB,1h,1000000") == Rotation(rows=1_000_000, size=100_000_000, seconds=3600)
    assert Rotation.parse("1 GiB") == Rotation(size=2**30)
    for text in ("", "0", "much", "1TBx", "0s", "5MB,"):
        with pytest.raises(click.BadParameter):
            Rotation.parse(text)


def test_a_partition_without_a_first_offset_or_end_is_an_error(monkeypatch):
    tps = [TopicPartition("t", 0)]
    monkeypatch.setattr("samsarrow.cli.offsets_lookup.look_up", lambda _connection, tps, _what: dict.fromkeys(tps))
    for look_up, what in ((beginnings, "first offset"), (ends, "end")):
        with pytest.raises(KafkaError, match=f"no {what} of t-0"):
            look_up(None, tps)
