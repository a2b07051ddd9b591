"""HTML of results, descriptions and metrics in notebooks: valid, escaped, bounded. Records as text."""

import dataclasses
import datetime
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from samsarrow import GroupDescription, KafkaError, Latency, MemberDescription, Results, TopicPartition, show
from samsarrow._html import CHARACTERS, ROWS
from samsarrow.access import DelegationToken
from samsarrow.admin_types import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
    GroupLag,
    PartitionDescription,
    PartitionLag,
    TopicDescription,
)
from samsarrow.group_types import ShareGroupDescription, ShareOffset
from samsarrow.metrics import ConsumerMetrics, NodeMetrics
from samsarrow.types import OffsetAndMetadata

EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Parses HTML. Checks that each element is closed, and collects cells by row."""

    def __init__(self, html):
        super().__init__()
        self.open, self.rows, self.tags = [], [], set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def page(value):
    html = value._repr_html_()
    assert len(html) < 40_000
    found = Page(html)
    assert "script" not in found.tags
    return found


def lag(group, partitions):
    return GroupLag(
        group,
        tuple(
            PartitionLag(TopicPartition("t", p), OffsetAndMetadata(p), 10 + p, None if p else KafkaError(EVIL))
            for p in range(partitions)
        ),
    )


def test_group_with_members():
    members = tuple(
        MemberDescription(f"m-{n}", None, EVIL, "/h", (TopicPartition("t", n), TopicPartition("t", 99)), None)
        for n in range(ROWS + 5)
    )
    rows = page(GroupDescription(EVIL, "classic", "Stable", "consumer", "range", members)).rows
    assert ["group", EVIL] in rows
    assert ["state", "Stable"] in rows
    assert ["m-3", "-", EVIL, "/h", "t-3, t-99", "-"] in rows
    assert rows[-1] == ["… 5 more"]
    assert not any("m-24" in row for row in rows)


def test_topic_lag_and_share_group():
    parts = tuple(PartitionDescription(p, 1, 0, (1, 2), (1,), (), None, None) for p in range(3))
    rows = page(TopicDescription("orders", None, False, parts)).rows
    assert ["0", "1", "0", "1, 2", "1", "-", "-", "-"] in rows
    rows = page(lag("g", 3)).rows
    assert ["total", "30"] in rows
    assert ["t-0", "offset 0", "10", EVIL, "10"] in rows
    assert ["members", "-"] in page(ShareGroupDescription("s", "Empty", 1, 1, "simple", ())).rows


def test_results_with_errors():
    found = {f"g{n}": lag(f"g{n}", 2) for n in range(30)}
    errors = {f"bad{n}": KafkaError(EVIL + "x" * 1000) for n in range(30)}
    rows = page(Results(found, errors, [*found, *errors], str, GroupLag)).rows
    assert rows[0] == ["key", "partitions", "total"]
    assert rows[1] == ["g0", "2", "20"]
    assert ["… 10 more"] in rows[ROWS:]
    assert ["key", "error", "message"] in rows
    assert all(len(cell) <= CHARACTERS for row in rows for cell in row)
    assert "no results" in Results({}, {}, [], str, int)._repr_html_()


def test_results_with_several_items_and_nested_results():
    entry = ConfigEntry("retention.ms", "7", ConfigSource.TOPIC, False, False, ConfigType.LONG, None, ())
    entries = {f"s{n}": dataclasses.replace(entry, name=f"s{n}") for n in range(50)}
    topic = ConfigResource.topic("orders")
    rows = page(Results({topic: entries}, {}, [topic], ConfigResource, dict[str, ConfigEntry])).rows
    assert rows[0][:5] == ["type", "name", "name_", "value", "source"]
    assert rows[1][:5] == ["TOPIC", "orders", "s0", "7", "TOPIC"]
    assert rows[-1] == ["… 30 more"]
    offsets = {TopicPartition("t", 0): ShareOffset(5, None, 2)}
    failed = {TopicPartition("t", 1): KafkaError("x")}
    inner = Results(offsets, failed, [*offsets, *failed], TopicPartition, ShareOffset)
    rows = page(Results({"s": inner}, {}, ["s"], str, str)).rows
    assert rows[1] == ["s", "5", "2"]


def test_metrics():
    latency = Latency(0.001, 0.25, 1.5, 2.0, 1200, 3.0)
    none = Latency(0.0, 0.0, 0.0, 0.0, 0, 0.0)
    values = {field.name: 12345 for field in dataclasses.fields(ConsumerMetrics)}
    values |= {
        "nodes": {1: NodeMetrics(1, 2, 3, 4, 5, latency)}, "apis": {"Fetch": latency}, "lag": {}, "topics": {EVIL: 7},
        "lead": {TopicPartition("t", n): n for n in range(100)}, "end_to_end_latency": latency, "fetch_latency": none,
        "commit_latency": none, "last_poll": 0.25, "_client": "consumer", "_samples": (), "_client_id": "secret",
    }  # fmt: skip
    found = page(ConsumerMetrics(**values))
    assert ["bytes", "12,345"] in found.rows
    assert ["end_to_end_latency", "p50 1 ms, p95 250 ms, p99 1.5 s, max 2 s (1,200)"] in found.rows
    assert ["fetch_latency", "-"] in found.rows
    assert [EVIL, "7"] in found.rows
    assert ["t-19", "19"] in found.rows
    assert ["… 80 more"] in found.rows
    assert not any("secret" in cell for row in found.rows for cell in row)


def test_fields_without_repr_are_left_out():
    hidden = {field.name for field in dataclasses.fields(DelegationToken) if not field.repr}
    assert hidden
    values = {field.name: "x" for field in dataclasses.fields(DelegationToken)}
    token = DelegationToken(**{**values, **dict.fromkeys(hidden, "S3CR3T")})
    assert "S3CR3T" not in Results({"t": token}, {}, ["t"], str, DelegationToken)._repr_html_()


def test_show_keys_and_values_as_text():
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, datetime.UTC)
    batch = pa.record_batch(
        {
            "key": pa.array([b"k\xc3\xbc", b"\x00\xff", None], pa.binary_view()),
            "value": pa.array([b'{"a": 1}', b"line\nend", b""]),
            "typed": [{"id": 1, "raw": b"x"}, None, {"id": None, "raw": b"\xfe"}],
            "timestamp": pa.array([when, None, when], pa.timestamp("ms", "UTC")),
            "headers": [[("n", b"v")], [], None],
        }
    )
    shown = show(batch)
    assert shown.rows == [
        ["kü", '{"a": 1}', '{"id": 1, "raw": "x"}', "2026-01-02 03:04:05.006+00:00", '[["n", "v"]]'],
        ["0x00ff", r"line\nend", None, None, "[]"],
        [None, "", '{"id": null, "raw": "0xfe"}', "2026-01-02 03:04:05.006+00:00", None],
    ]  # fmt: skip
    lines = str(shown).splitlines()
    assert lines[0].split() == ["key", "value", "typed", "timestamp", "headers"]
    assert lines[-1] == "3 rows"
    assert str(show(batch, 2)).splitlines()[-1] == "2 of 3 rows"
    assert page(shown).rows[3][0] == "null"
    assert str(show(batch.slice(0, 0))).splitlines()[-1] == "0 rows"


def test_show_truncates_and_escapes():
    table = pa.table({EVIL: [EVIL, "\x1b[2J", "x" * 500], "b": [b"\xf0\x9f\x98\x80" * 50, b"\xff" * 500, b"a" * 10**7]})
    shown = show(table, width=20)
    assert all(len(cell) <= 20 for row in shown.rows for cell in row)
    assert shown.rows[1] == ["\\x1b[2J", "0xfff…(500 bytes)"] or shown.rows[1][1].endswith("(500 bytes)")
    assert shown.rows[0][1] == "😀" * 19 + "…"
    assert "\x1b" not in str(shown)
    assert page(shown).rows[0][0] == EVIL


@pytest.mark.parametrize("width", [1, 2, 10])
def test_show_of_narrow_cells(width):
    shown = show(pa.table({"b": [b"\xff" * 100, "é".encode() * 100, b"\xff"]}), width=width)
    assert all(len(cell) <= width for row in shown.rows for cell in row)


def test_show_times_that_datetime_does_not_represent():
    late = pa.array([2**62], pa.timestamp("ms", "UTC"))
    shown = show(pa.table({"timestamp": late, "list": pa.array([[2**62]], pa.list_(late.type))}))
    assert shown.rows == [["4611686018427387904", "[<value out of range: 4611686018427387904>]"]]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((pa.array([1]),), r'pass pyarrow.table\({"name": column}\) for this Int64Array'),
        ((pa.chunked_array([[1]]),), "for this ChunkedArray"),
        ((pa.table({"a": [1]}), "x"), "rows must be an int, not str"),
        ((pa.table({"a": [1]}), None), "rows must be an int, not NoneType"),
    ],
)
def test_show_rejects_arguments_of_other_types(arguments, text):
    with pytest.raises(TypeError, match=text):
        show(*arguments)


def test_show_of_a_huge_number_of_rows():
    assert str(show(pa.table({"a": [1]}), 10**30)).splitlines()[-1] == "1 row"


def test_show_rejects_streams_and_other_objects():
    table = pa.table({"a": [1]})
    with pytest.raises(TypeError, match="streams"):
        show(table.to_reader())
    with pytest.raises(TypeError, match="got list"):
        show([1])
    with pytest.raises(ValueError, match="rows=-1"):
        show(table, -1)
    with pytest.raises(ValueError, match="width=0"):
        show(table, width=0)
    with pytest.raises(TypeError):
        show(table, 1.5)


def test_show_takes_frames_of_other_libraries():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    assert show(polars.DataFrame({"a": [b"x", None]})).rows == [["x"], [None]]
