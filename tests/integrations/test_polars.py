"""`samsarrow.polars.scan_topic`: its rows equal those of Polars' own filters, and it fetches as little as possible."""

from __future__ import annotations

import datetime as dt
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import samsarrow.polars
from samsarrow import Consumer, KafkaError, Producer
from samsarrow._predicate import NEVER, Rows, Span, matching_rows
from samsarrow.exceptions import (
    ConfigurationError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from samsarrow.polars import scan_topic
from samsarrow.testing import Broker

PARTITIONS, ROWS = 3, 1000
START = dt.datetime(2024, 5, 6, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
offset, partition, timestamp = pl.col("offset"), pl.col("partition"), pl.col("timestamp")


def minute(number: float) -> dt.datetime:
    return START + number * MINUTE


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a record per minute in each partition; in partition 2, every tenth record is an hour late."""
    with Broker(topics={"t": PARTITIONS, "one": 1, "none": 1}, auto_create_topics=False) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=1000) as producer:
            for number in range(PARTITIONS):
                late = [60 * (number == 2 and i % 10 == 9) for i in range(ROWS)]
                rows = {
                    "key": [None if i % 7 == 0 else f"k{i}" for i in range(ROWS)],
                    "value": [f"{number} {i}" for i in range(ROWS)],
                    "partition": [number] * ROWS,
                    "at": pa.array([minute(i - late[i]) for i in range(ROWS)], pa.timestamp("ms", "UTC")),
                    "headers": pa.array(
                        [[{"key": "h", "value": b"x"}]] * ROWS,
                        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                    ),
                }
                producer.send_batch("t", pa.table(rows), partition="partition", timestamp="at").result()
            producer.send_batch("one", pa.table({"value": [str(i) for i in range(ROWS)]})).result()
        yield broker


class Counted(Consumer):
    """Counts the rows polled, and records the start positions."""

    rows = 0
    made: list[dict[str, Any]] = []  # noqa: RUF012
    starts: dict[int, int] = {}  # noqa: RUF012

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        Counted.made.append({**(config or {}), **options})

    async def _poll(self, timeout: Any, until_assigned: bool = False) -> pa.RecordBatch:
        batch = await super()._poll(timeout, until_assigned)
        Counted.rows += batch.num_rows
        return batch

    def seek(self, tp: Any, to: Any) -> None:
        Counted.starts[tp.partition] = to
        super().seek(tp, to)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    monkeypatch.setattr(samsarrow.polars, "Consumer", Counted)
    Counted.rows, Counted.made, Counted.starts = 0, [], {}
    return Counted


@pytest.fixture
def frame(counted: type[Counted], broker: Broker) -> pl.LazyFrame:
    return scan_topic("t", bootstrap_servers=broker.bootstrap_servers)


@pytest.fixture(scope="module")
def everything(broker: Broker) -> pl.DataFrame:
    """All rows, read without `scan_topic`."""
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for("t"))
        return in_order(pl.DataFrame(pl.from_arrow(consumer.reader().read_all())))


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("partition", "offset")


def same(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    return one.schema == other.schema and in_order(one).equals(in_order(other))


def test_whole_topic(frame: pl.LazyFrame, everything: pl.DataFrame) -> None:
    assert dict(frame.collect_schema()) == {
        "key": pl.Binary,
        "value": pl.Binary,
        "topic": pl.Categorical,
        "partition": pl.Int32,
        "offset": pl.Int64,
        "timestamp": pl.Datetime("ms", "UTC"),
        "timestamp_type": pl.Int8,
    }
    for engine in ("in-memory", "streaming"):
        assert same(frame.collect(engine=engine), everything)  # type: ignore[call-overload]
    assert everything.height == PARTITIONS * ROWS
    assert frame.select(pl.len()).collect().item() == PARTITIONS * ROWS
    assert "bootstrap" not in repr(frame) + frame.explain()


@pytest.mark.parametrize(
    ("predicate", "most", "starts"),
    [
        (partition == 1, ROWS, {1: 0}),
        (partition != 1, 2 * ROWS, {0: 0, 2: 0}),
        (partition.is_in([0, 5]), ROWS, {0: 0}),
        (pl.lit(1) < partition, ROWS, {2: 0}),
        (offset >= 990, 30, {0: 990, 1: 990, 2: 990}),
        (offset > 990, 27, {0: 991, 1: 991, 2: 991}),
        (offset == 500, None, {0: 500, 1: 500, 2: 500}),
        (offset.is_in([995, 997]) & (partition == 0), 5, {0: 995}),
        (offset.is_between(995, 997, closed="right") & (partition == 0), 4, {0: 996}),
        # An application that resumes at stored offsets uses such a filter.
        (((partition == 0) & (offset >= 998)) | ((partition == 1) & (offset >= 995)), 7, {0: 998, 1: 995}),
        (timestamp >= minute(900), 300, {0: 900, 1: 900, 2: 900}),
        (timestamp > minute(899.5), 300, {0: 900, 1: 900, 2: 900}),
        (timestamp.is_between(minute(950), minute(980)) & (partition == 1), 50, {1: 950}),
        ((timestamp >= minute(900)) & (offset >= 950), 150, {0: 950, 1: 950, 2: 950}),
        (timestamp == minute(990), 30, {0: 990, 1: 990, 2: 990}),
        ((timestamp >= minute(990).astimezone(dt.timezone(dt.timedelta(hours=5)))), 30, {0: 990, 1: 990, 2: 990}),
        # No row can match, so nothing is fetched.
        (timestamp >= minute(5000), 0, {}),
        (offset >= ROWS, 0, {}),
        (offset < 0, 0, {}),
        (partition == 7, 0, {}),
        ((offset < 10) & (offset > 20), 0, {}),
        (offset >= 1 << 62, 0, {}),
        # Predicates without a known range filter all rows.
        (pl.col("value") == b"1 7", 3000, {0: 0, 1: 0, 2: 0}),
        (offset % 2 == 1, 3000, {0: 0, 1: 0, 2: 0}),
        ((offset >= 990) | (pl.col("key").is_null()), 3000, {0: 0, 1: 0, 2: 0}),
        (timestamp.dt.hour() == 3, 3000, {0: 0, 1: 0, 2: 0}),
        (~(offset < 990) & partition.is_not_null(), None, None),
        (pl.col("topic") == "t", 3000, {0: 0, 1: 0, 2: 0}),
        (offset > pl.lit(None, pl.Int64), None, None),
        (timestamp > dt.datetime(1960, 1, 1, tzinfo=dt.UTC), 3000, {0: 0, 1: 0, 2: 0}),
        (timestamp < dt.datetime(1960, 1, 1, tzinfo=dt.UTC), 0, {}),
    ],
)
def test_filter_limits_fetches(
    frame: pl.LazyFrame, everything: pl.DataFrame, predicate: Any, most: int | None, starts: dict[int, int] | None
) -> None:
    assert same(frame.filter(predicate).collect(), everything.filter(predicate))
    if most is not None:
        assert Counted.rows <= most
    if starts is not None:
        assert Counted.starts == starts


def test_excluded_partitions_are_not_fetched(frame: pl.LazyFrame, broker: Broker) -> None:
    before = broker.requests()
    assert frame.filter(offset >= ROWS).collect().height == 0
    after = broker.requests()
    assert after.get("Fetch", 0) == before.get("Fetch", 0)
    # The scan requests beginning and end offsets, but looks up no offset by time.
    assert after["ListOffsets"] - before["ListOffsets"] == 2
    assert frame.filter(partition == 9).collect().height == 0
    assert broker.requests() == after


def test_lateness_ends_scan_at_upper_time_bound(broker: Broker, counted: type[Counted]) -> None:
    def scanned(number: int, lateness: dt.timedelta | None) -> pl.DataFrame:
        counted.rows = 0
        frame = scan_topic("t", bootstrap_servers=broker.bootstrap_servers, lateness=lateness, max_poll_records=50)
        return frame.filter(timestamp < minute(100), partition == number).collect()

    assert scanned(0, dt.timedelta()).height == 100
    assert counted.rows <= 150
    # The scan includes late records if they may be an hour late.
    assert scanned(2, None).height == 106
    assert counted.rows == ROWS
    result = scanned(2, dt.timedelta(hours=1))
    assert (result.height, result["offset"].max()) == (106, 159)
    assert counted.rows <= 250
    # The scan does not verify the lateness: with zero, it misses the late records.
    assert scanned(2, dt.timedelta()).height == 100


def test_limit_ends_the_scan(broker: Broker, frame: pl.LazyFrame, everything: pl.DataFrame) -> None:
    before = broker.requests().get("Fetch", 0)
    assert frame.head(5).collect().height == 5
    assert Counted.rows == 5
    assert {"fetch.max.bytes", "queued.max.bytes"} <= Counted.made[-1].keys()
    assert broker.requests()["Fetch"] - before <= 4
    assert frame.head(0).collect().height == 0
    # Applies a limit before the filter, and a limit after it.
    one = frame.filter(partition == 1)
    assert one.head(5).collect()["offset"].to_list() == [0, 1, 2, 3, 4]
    first = scan_topic("one", bootstrap_servers=broker.bootstrap_servers)
    assert first.head(5).filter(offset >= 3).collect()["offset"].to_list() == [3, 4]
    assert first.filter(offset >= 3).head(5).collect()["offset"].to_list() == [3, 4, 5, 6, 7]
    assert first.tail(2).collect()["offset"].to_list() == [998, 999]
    assert frame.head(1 << 20).collect().height == everything.height


def test_streaming_query_ends_at_its_limit(broker: Broker, counted: type[Counted]) -> None:
    one = scan_topic("one", bootstrap_servers=broker.bootstrap_servers, max_poll_records=1)
    result = one.filter(pl.col("value") != b"3").head(5).collect(engine="streaming")
    assert result["offset"].to_list() == [0, 1, 2, 4, 5]
    assert counted.rows < ROWS


def test_unused_columns_are_not_built(broker: Broker, counted: type[Counted]) -> None:
    frame = scan_topic(
        "t", {"bootstrap.servers": broker.bootstrap_servers}, include_headers=True, include_leader_epoch=True
    )
    assert frame.filter(offset == 3).select("value").collect().columns == ["value"]
    assert not {"include.headers", "include.leader.epoch"} & counted.made[-1].keys()
    result = frame.filter(offset == 3, partition == 0).select("headers", "leader_epoch").collect()
    assert result.to_dicts() == [{"headers": [{"key": "h", "value": b"x"}], "leader_epoch": 0}]
    assert {"include.headers", "include.leader.epoch"} <= counted.made[-1].keys()


def test_later_records_are_excluded(broker: Broker) -> None:
    broker.create_topic("grows")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("grows", "1").result()
        frame = scan_topic("grows", bootstrap_servers=broker.bootstrap_servers)
        producer.send("grows", "2").result()
    for _ in range(2):
        assert frame.collect()["value"].to_list() == [b"1"]
    later = scan_topic("grows", bootstrap_servers=broker.bootstrap_servers)
    joined = later.join(later, on="offset").collect()
    assert joined.height == 2
    assert scan_topic("none", bootstrap_servers=broker.bootstrap_servers).collect().height == 0


def test_markers_and_aborted_records_do_not_end_scan(broker: Broker) -> None:
    broker.create_topic("committed")
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id="scan") as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.send("committed", str(number))
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
        frame = scan_topic("committed", bootstrap_servers=servers, isolation_level="read_committed")
        assert frame.collect()["value"].to_list() == [b"0", b"2"]
        producer.begin_transaction()
        producer.send("committed", "open").result()
        # The end is the last stable offset, so the scan does not wait for open transactions.
        frame = scan_topic("committed", bootstrap_servers=servers, isolation_level="read_committed")
        assert frame.collect()["value"].to_list() == [b"0", b"2"]


def test_recreated_topic_is_an_error(broker: Broker) -> None:
    from samsarrow import Admin

    broker.create_topic("again")
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("again", "1").result()
    frame = scan_topic("again", bootstrap_servers=servers)
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["again"])
    broker.create_topic("again")
    with pytest.raises(
        OffsetOutOfRangeError, match=r"again-0 ends at offset 0 and ended at 1 .* truncated or recreated"
    ):
        frame.collect()
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(3):
            producer.send("again", str(number))
    with pytest.raises(OffsetOutOfRangeError, match="topic again was deleted and recreated"):
        frame.collect()


def test_unreachable_broker_is_an_error() -> None:
    with Broker(topics={"t": 1}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", "1").result()
        options = {"bootstrap_servers": broker.bootstrap_servers, "default_api_timeout_ms": 2000}
        frame = scan_topic("t", request_timeout_ms=2000, **options)
        broker.fail("Fetch", drop="before", times=None)
        with pytest.raises(KafkaError, match=r"t-0 at offset 0 of 1|Fetch"):
            frame.collect()
        broker.heal()
        assert frame.collect().height == 1
    with pytest.raises(KafkaTimeoutError):
        frame.collect()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda s: scan_topic("nowhere", bootstrap_servers=s),
            UnknownTopicOrPartitionError,
            "nowhere",
        ),
        (lambda s: scan_topic("t", bootstrap_servers=s, group_id="g"), ConfigurationError, "omit group.id"),
        (
            lambda s: scan_topic("t", {"bootstrap.servers": s, "enable.auto.commit": True}),
            ConfigurationError,
            "omit enable.auto.commit",
        ),
        (lambda s: scan_topic("t", bootstrap_servers=s, linger_ms=1), ConfigurationError, "linger"),
        (lambda s: scan_topic("t", {"bootstrap.servers": s}, bootstrap_servers=s), ConfigurationError, "twice"),
        (lambda s: scan_topic(["t"], bootstrap_servers=s), ConfigurationError, "one topic, not list"),
        (lambda s: scan_topic("t"), ConfigurationError, "bootstrap.servers"),
        (lambda s: scan_topic("t", lateness=5), ConfigurationError, "timedelta of zero or more, not 5"),  # type: ignore[arg-type]
        (lambda s: scan_topic("t", lateness=-MINUTE), ConfigurationError, "lateness is a timedelta of zero or more"),
    ],
)
def test_invalid_arguments(broker: Broker, make: Callable[[str], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make(broker.bootstrap_servers)


def test_random_predicates_match_polars(everything: pl.DataFrame) -> None:
    """All rows that match a random predicate according to Polars are in the derived ranges."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)

    def literal(name: str) -> Any:
        if name == "timestamp":
            moment = minute(chance.randrange(-20, ROWS + 20)) + dt.timedelta(microseconds=chance.randrange(3) * 700)
            if chance.random() < 0.5:
                return moment
            return pl.lit(moment).dt.cast_time_unit(chance.choice(["ns", "us", "ms"]))  # type: ignore[arg-type]
        if name == "partition":
            return chance.choice([chance.randrange(-1, 4), pl.lit(chance.randrange(4), pl.Int64), pl.lit(2, pl.Int8)])
        return chance.choice(
            [chance.randrange(-5, ROWS + 5), pl.lit(chance.randrange(ROWS), pl.Int16), 1.5, pl.lit(None, pl.Int64)]
        )

    def leaf() -> pl.Expr:
        name = chance.choice(["offset", "partition", "timestamp"])
        column = pl.col(name)
        kind = chance.randrange(10)
        if kind == 0:
            return column.is_between(
                literal(name), literal(name), closed=chance.choice(["both", "left", "right", "none"])
            )  # type: ignore[arg-type]
        if kind == 1 and name != "timestamp":
            return column.is_in([chance.randrange(ROWS if name == "offset" else 4) for _ in range(chance.randrange(4))])
        if kind == 2:
            return pl.col("key").is_null()
        compare = chance.choice(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"])
        one, other = column, literal(name)
        if kind < 5 and isinstance(other, pl.Expr):
            one, other = other, one
        return getattr(one, compare)(other)  # type: ignore[no-any-return]

    def tree(depth: int) -> pl.Expr:
        if not depth or chance.random() < 0.3:
            return ~leaf() if chance.random() < 0.1 else leaf()
        left, right = tree(depth - 1), tree(depth - 1)
        return left & right if chance.random() < 0.5 else left | right

    narrowed = 0
    for _ in range(600):
        predicate = tree(3)
        actual = everything.filter(predicate)
        where = matching_rows(predicate, range(PARTITIONS))
        narrowed += where != dict.fromkeys(range(PARTITIONS), Rows())
        times = actual["timestamp"].to_physical().to_list()
        for p, o, t in zip(actual["partition"].to_list(), actual["offset"].to_list(), times, strict=True):
            assert p in where, (seed, predicate)
            assert where[p].offsets.first <= o < where[p].offsets.end, (seed, predicate)
            assert where[p].times.first <= t < where[p].times.end, (seed, predicate)
    assert narrowed > 200


def test_predicate_ranges() -> None:
    assert matching_rows(None, [0, 1]) == {0: Rows(), 1: Rows()}
    assert matching_rows((offset > 5) & (offset <= 9), [0]) == {0: Rows(offsets=Span(6, 10))}
    assert matching_rows(timestamp > pl.lit(minute(1)).dt.cast_time_unit("ns"), [0])[0].times.end == NEVER
    chain = pl.col("value") == b""
    for number in range(300):
        chain = chain | (offset == number)
    assert matching_rows(chain, [0]) == {0: Rows()}
    assert matching_rows(offset.map_batches(lambda o: o > 3, pl.Boolean), [0]) == {0: Rows()}


def test_polars_is_imported_lazily() -> None:
    code = "import samsarrow, sys; samsarrow.Consumer; assert 'polars' not in sys.modules; samsarrow.polars.scan_topic"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    without = "import sys; sys.modules['polars'] = None\nimport samsarrow.polars"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False, timeout=60)
    assert "ImportError: samsarrow.polars needs Polars" in done.stderr
    assert "pip install 'polars>=1.36.1'" in done.stderr
