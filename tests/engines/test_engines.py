"""Adapters of engines on the embedded broker: pushdown, lost offsets, recreated topics, wrong arguments."""

import datetime as dt
import inspect
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import samsarrow
from samsarrow import Admin, NewTopic, TopicPartition, ranges
from samsarrow.exceptions import KafkaError
from samsarrow.testing import Broker
from support.engines import Pipeline, Read, datafusion_table, digest, in_order, need, polled

# Engines and their packages warn at import.
pytestmark = pytest.mark.filterwarnings("ignore")
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROWS, PARTITIONS = 4000, 4


def write(servers: str, topic: str, first: int, last: int, **options: Any) -> None:
    numbers = range(first, last)
    table = pa.table(
        {
            "key": [None if number % 7 == 0 else b"k%d" % number for number in numbers],
            "value": [b"%d" % number for number in numbers],
            "timestamp": pa.array([START + number * dt.timedelta(seconds=1) for number in numbers]),
        }
    )
    samsarrow.write(topic, table, bootstrap_servers=servers, timestamp="timestamp", **options)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(topics={"t": PARTITIONS, "none": 2, "out": 2, "one": 1}, auto_create_topics=False) as broker:
        write(broker.bootstrap_servers, "t", 0, ROWS)
        write(broker.bootstrap_servers, "one", 0, ROWS)
        yield broker.bootstrap_servers


@pytest.mark.parametrize("splits", [None, 1, 64])
def test_each_row_once(read_topic: Callable[..., pa.Table], servers: str, splits: int | None) -> None:
    assert digest(read_topic(servers, "t", splits=splits)) == digest(polled(servers, "t", ROWS))


def test_topic_without_records(read_topic: Callable[..., pa.Table], servers: str) -> None:
    assert read_topic(servers, "none").num_rows == 0


def test_values_of_a_format(read: Read, servers: str) -> None:
    plan = ranges.plan("one", bootstrap_servers=servers, value_format=samsarrow.Json(pa.int64()), columns=["value"])
    assert sorted(read(plan)["value"].to_pylist()) == list(range(ROWS))


def test_deleted_records_are_an_error_that_names_them(read_topic: Callable[..., pa.Table]) -> None:
    with Broker(topics={"t": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        write(broker.bootstrap_servers, "t", 0, 100)
        admin.delete_records({TopicPartition("t", 0): 60})
        arguments = {"start": {TopicPartition("t", 0): 10}}
        with pytest.raises(Exception, match=r"t-0: offsets 10 to 59 \(50\) cannot be read"):
            read_topic(broker.bootstrap_servers, "t", **arguments)
        skipped = read_topic(broker.bootstrap_servers, "t", on_data_loss="skip", **arguments)
        assert in_order(skipped)["offset"].to_pylist() == list(range(60, 100))


def test_topic_that_was_created_again(read: Read) -> None:
    with Broker(topics={"t": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        write(broker.bootstrap_servers, "t", 0, 100)
        plan = ranges.plan("t", bootstrap_servers=broker.bootstrap_servers)
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1, 1)])
        write(broker.bootstrap_servers, "t", 0, 200)
        with pytest.raises(Exception, match="topic t was deleted and recreated"):
            read(plan)


def test_topic_that_was_deleted(read: Read) -> None:
    with Broker(topics={"t": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        write(broker.bootstrap_servers, "t", 0, 100)
        plan = ranges.plan("t", bootstrap_servers=broker.bootstrap_servers)
        admin.delete_topics(["t"])
        with pytest.raises(Exception, match=r"topic t was deleted .* t-0 at offset 0 of 100"):
            read(plan)


def test_datafusion_reports_failed_lookups_of_times_without_traceback() -> None:
    need("datafusion")
    import datafusion

    context, query = datafusion.SessionContext(), "SELECT count(*) FROM {} WHERE timestamp > '2026-01-01T00:10:00Z'"
    with Broker(topics={"t": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        write(broker.bootstrap_servers, "t", 0, 100)
        plan = ranges.plan("t", bootstrap_servers=broker.bootstrap_servers, timeout=2)
        context.register_table("deleted", samsarrow.datafusion.table(plan))
        admin.delete_topics(["t"])
        with pytest.raises(Exception, match="OffsetOutOfRangeError: topic t was deleted") as deleted:
            context.sql(query.format("deleted")).to_pydict()
    with pytest.raises(Exception, match="KafkaTimeoutError: topic t: offsets of the condition's times") as away:
        context.sql(query.format("deleted")).to_pydict()
    assert "Traceback" not in f"{deleted.value}{away.value}"


def test_brokers_that_are_away(read: Read) -> None:
    with Broker(topics={"t": 1}) as broker:
        write(broker.bootstrap_servers, "t", 0, 100)
        plan = ranges.plan("t", bootstrap_servers=broker.bootstrap_servers, timeout=3)
    with pytest.raises(Exception, match="t-0 at offset 0 of 100"):
        read(plan)


def test_plan_of_another_version(read: Read, servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("samsarrow.ranges.plans.FORMAT", 2)
        text = pickle.dumps(ranges.plan("t", bootstrap_servers=servers))
    with pytest.raises(KafkaError, match="format 2 is unknown to this version of samsarrow"):
        read(pickle.loads(text))


def test_plan_that_is_read_twice_at_the_same_time(read: Read, servers: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    plan = ranges.plan("t", splits=8, bootstrap_servers=servers)
    with ThreadPoolExecutor(2) as pool:
        found = set(map(digest, pool.map(read, [plan, plan])))
    assert found == {digest(polled(servers, "t", ROWS))}


@pytest.mark.parametrize("engine", ["ray.Topic", "daft.read_topic", "datafusion.table"])
def test_topic_name_in_place_of_a_plan(engine: str) -> None:
    need(engine.partition(".")[0])
    module, _, name = engine.partition(".")
    with pytest.raises(TypeError, match=r"takes a plan of samsarrow.ranges.plan, not str: samsarrow.*plan\('t', boots"):
        getattr(getattr(samsarrow, module), name)("t")


def test_arguments_of_adapters_are_those_of_the_functions() -> None:
    need("ray"), need("dlt")

    def arguments(function: Any) -> dict[str, inspect.Parameter]:
        found = inspect.signature(function).parameters.values()
        return {one.name: one.replace(annotation=None) for one in found if one.name not in ("self", "options")}

    sink, write = arguments(samsarrow.ray.TopicSink.__init__), arguments(samsarrow.write)
    assert sink == {name: one for name, one in write.items() if name not in ("data", "progress")}
    topic, plan = arguments(samsarrow.dlt.topic), arguments(ranges.plan)
    # dlt flattens rows, and its resources are not divided; the end of a run is the end of the topic.
    assert topic == {
        name: one
        for name, one in (plan | {"name": topic["name"]}).items()
        if name not in ("end", "splits", "raw_values")
    }


# Ray.


@pytest.fixture
def ray_data(ray_session: None) -> Any:
    import ray

    return ray.data


def test_ray_reads_only_what_a_query_needs(ray_data: Any, servers: str) -> None:
    from ray.data.expressions import col

    plan = ranges.plan("t", splits=16, bootstrap_servers=servers)
    dataset = ray_data.read_datasource(samsarrow.ray.Topic(plan))
    first = dataset.filter(expr=(col("partition") == 2) & (col("offset") < 3))
    assert sorted(row["offset"] for row in first.select_columns(["offset"]).take_all()) == [0, 1, 2]
    topic = samsarrow.ray.Topic(plan).apply_predicate((col("partition") == 2) & (col("offset") < 3))
    assert len(topic.get_read_tasks(200)) == 1
    assert dataset.count() == ROWS
    assert len(dataset.take(5)) == 5


@pytest.mark.parametrize("splits", [4, 16])
def test_ray_has_a_block_for_each_split(ray_data: Any, servers: str, splits: int) -> None:
    """Ray would cut the rows into 200 blocks or more if it had no size."""
    plan = ranges.plan("t", splits=splits, bootstrap_servers=servers)
    assert ray_data.read_datasource(samsarrow.ray.Topic(plan)).materialize().num_blocks() == splits


def test_ray_looks_up_times_of_a_filter_once(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need("ray")
    from ray.data.expressions import col

    from samsarrow.integrations import pushdown

    opened: list[Any] = []
    real = pushdown.open_consumer
    monkeypatch.setattr(pushdown, "open_consumer", lambda *arguments: opened.append(arguments) or real(*arguments))
    topic = samsarrow.ray.Topic(ranges.plan("t", bootstrap_servers=servers))
    filtered = topic.apply_predicate(col("timestamp") >= START + dt.timedelta(seconds=ROWS - 10))
    tasks = filtered.get_read_tasks(1)
    assert filtered.estimate_inmemory_data_size() == len(tasks) << 20
    assert len(filtered.get_read_tasks(1)) == len(tasks)
    assert len(opened) == 1
    assert len(topic.get_read_tasks(1)) == PARTITIONS


def test_ray_repeats_a_killed_task(ray_data: Any, servers: str, tmp_path: Path) -> None:
    """Kills the worker of a task after the first blocks, which Ray already has."""
    import ray

    marker = str(tmp_path / "killed")

    class Killed(samsarrow.ray.Topic):  # type: ignore[misc, name-defined]
        def get_read_tasks(self, *arguments: Any, **named: Any) -> Any:
            tasks = super().get_read_tasks(*arguments, **named)
            read = tasks[0]._read_fn

            def once() -> Any:
                for number, block in enumerate(read()):
                    if number == 2 and not os.path.exists(marker):
                        with open(marker, "w"):
                            pass
                        os.kill(os.getpid(), signal.SIGKILL)
                    yield block

            tasks[0]._read_fn = once
            return tasks

    context = ray_data.DataContext.get_current()
    size, context.target_max_block_size = context.target_max_block_size, 100_000
    try:
        write(servers, "one", ROWS, 20_000)
        plan = ranges.plan("one", splits=2, bootstrap_servers=servers)
        refs = ray_data.read_datasource(Killed(plan)).to_arrow_refs()
        offsets = [one for ref in refs for one in ray.get(ref)["offset"].to_pylist()]
    finally:
        context.target_max_block_size = size
    assert os.path.exists(marker)
    assert sorted(offsets) == list(range(20_000))


def test_ray_writes_a_dataset(ray_data: Any, servers: str) -> None:
    sink = samsarrow.ray.TopicSink("out", bootstrap_servers=servers, key="id", value_format="json")
    ray_data.range(1000).map(lambda row: {"id": str(row["id"]), "n": row["id"]}).write_datasink(sink)
    assert sum(sink.counts.values()) == 1000
    table = samsarrow.read(
        "out", bootstrap_servers=servers, value_format=samsarrow.Json(pa.struct([("n", pa.int64())]))
    )
    assert sorted(row["n"] for row in table["value"].to_pylist()) == list(range(1000))
    ray_data.range(10).write_datasink(
        sink := samsarrow.ray.TopicSink("out", {"bootstrap.servers": servers}, value="id", value_format="long")
    )
    ray_data.range(5).write_datasink(sink)
    assert sum(sink.counts.values()) == 5
    wrong = samsarrow.ray.TopicSink("out", bootstrap_servers=servers, key="absent", value_format="json")
    with pytest.raises(KafkaError, match="key: there is no column 'absent' among id"):
        ray_data.range(3).write_datasink(wrong)
    with pytest.raises(KafkaError, match=r"share no transaction: omit transactional\.id"):
        samsarrow.ray.TopicSink("out", transactional_id="x")
    with pytest.raises(KafkaError, match=r"option bootstrap\.server is unknown; did you mean bootstrap\.servers"):
        samsarrow.ray.TopicSink("out", {"bootstrap.server": servers})


# Daft.


def test_daft_reads_only_what_a_query_needs(servers: str) -> None:
    need("daft")
    from daft import DataType, col

    frame = samsarrow.daft.read_topic(ranges.plan("t", splits=16, bootstrap_servers=servers))
    some = frame.where((col("partition") == 2) & (col("offset") < 3))
    assert some.select("offset").to_pydict() == {"offset": [0, 1, 2]}
    assert some.count_rows() == 3
    assert frame.where(col("value").cast(DataType.string()) == "17").count_rows() == 1
    assert frame.where(col("timestamp") >= START + dt.timedelta(seconds=ROWS - 10)).count_rows() == 10
    assert frame.count_rows() == ROWS


def test_daft_closes_a_read_that_a_limit_ends(servers: str) -> None:
    need("daft")
    plan = ranges.plan("one", bootstrap_servers=servers, max_poll_records=10)
    for _ in range(3):
        assert len(samsarrow.daft.read_topic(plan).limit(3).to_pydict()["offset"]) == 3
    from support.waiting import until

    until(lambda: not open_consumers(), seconds=10)


def open_consumers() -> list[object]:
    import gc

    gc.collect()
    return [one for one in gc.get_objects() if type(one).__name__ == "AsyncConsumer" and not one.closed]


# DataFusion.


@pytest.fixture
def sql(servers: str) -> Callable[[str], dict[str, list[Any]]]:
    need("datafusion")
    import datafusion

    context = datafusion.SessionContext()
    plan = ranges.plan("t", splits=16, bootstrap_servers=servers)
    context.register_table("t", samsarrow.datafusion.table(plan, lateness=dt.timedelta(0)))
    return lambda query: context.sql(query).to_pydict()  # type: ignore[no-any-return]


def test_datafusion_queries(sql: Callable[[str], dict[str, list[Any]]], servers: str) -> None:
    everything = polled(servers, "t", ROWS)
    assert sql("SELECT count(*) AS n FROM t") == {"n": [ROWS]}
    assert sql('SELECT partition, max("offset") AS last FROM t GROUP BY 1 ORDER BY 1')["last"] == [
        pc.max(everything.filter(pc.equal(everything["partition"], number))["offset"]).as_py()
        for number in range(PARTITIONS)
    ]
    query = (
        "SELECT count(*) AS n FROM t WHERE timestamp >= '2026-01-01T00:10:00Z' AND timestamp < '2026-01-01T00:20:00Z'"
    )
    assert sql(query) == {"n": [600]}
    assert sql('SELECT count(*) AS n FROM t WHERE "offset" BETWEEN 5 AND 9 AND partition IN (0, 3)') == {"n": [10]}
    assert sql("SELECT count(*) AS n FROM t WHERE key IS NULL")["n"] == [everything["key"].null_count]
    assert sql("SELECT count(*) AS n FROM t WHERE value = arrow_cast('17', 'Binary') OR \"offset\" < 1")["n"] == [5]
    assert len(sql("SELECT value FROM t LIMIT 3")["value"]) == 3


def test_datafusion_fetches_only_matching_offsets(
    sql: Callable[[str], dict[str, list[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[ranges.Split] = []
    original = ranges.Split.read

    def counted(split: ranges.Split, **arguments: Any) -> Any:
        read.append(split)
        return original(split, **arguments)

    monkeypatch.setattr(ranges.Split, "read", counted)
    queries = {
        '"offset" < 10': 10 * PARTITIONS,
        'partition = 1 AND "offset" = 7': 1,
        '(partition = 0 AND "offset" < 5) OR (partition = 3 AND "offset" < 2)': 7,
        "timestamp >= '2026-01-01T01:06:30Z'": 10,
        "timestamp < '2026-01-01T00:00:10Z'": 10,
        '"offset" < 0': 0,
        "partition = 9": 0,
    }
    for condition, offsets in queries.items():
        read.clear()
        assert sql(f"SELECT value FROM t WHERE {condition}")["value"] == [] or offsets
        # Between the first and the last matching record of a partition there are no others, as times increase.
        assert sum(split.estimated_rows for split in read) == offsets, condition
        assert all(split.schema.names[0] == "value" and "key" not in split.schema.names for split in read)


def test_datafusion_table_pickles(servers: str) -> None:
    need("datafusion")
    plan = ranges.plan(
        "t", bootstrap_servers=servers, sasl_mechanism="PLAIN", sasl_username="u", sasl_password="secret"
    )
    table = pickle.loads(pickle.dumps(samsarrow.datafusion.table(plan)))
    assert table.schema == plan.schema
    assert "secret" not in repr(table)
    assert datafusion_table(ranges.plan("t", bootstrap_servers=servers, end="earliest")).num_rows == 0


# dlt.


def test_dlt_loads_each_record_once(tmp_path: Path) -> None:
    need("dlt")
    with Broker(topics={"t": 3}) as broker:
        pipeline = Pipeline(tmp_path)

        def resource(**options: Any) -> Any:
            return samsarrow.dlt.topic("t", bootstrap_servers=broker.bootstrap_servers, name="rows", **options)

        write(broker.bootstrap_servers, "t", 0, 1000)
        pipeline.run(resource())
        write(broker.bootstrap_servers, "t", 1000, 1500)
        # A limit ends the run after some batches.
        pipeline.run(resource(max_poll_records=50).add_limit(2))
        assert pipeline.table().num_rows == 1100
        pipeline.run(resource())
        pipeline.run(resource())
        assert digest(pipeline.table()) == digest(polled(broker.bootstrap_servers, "t", 1500))


def test_dlt_keeps_its_state_if_a_run_fails(tmp_path: Path) -> None:
    need("dlt")
    with Broker(topics={"t": 1}) as broker:
        pipeline = Pipeline(tmp_path)
        write(broker.bootstrap_servers, "t", 0, 100)
        fails = [True]

        def check(batch: Any) -> Any:
            if fails and batch["offset"][0].as_py() >= 50:
                raise RuntimeError("failed in the middle")
            return batch

        def resource() -> Any:
            found = samsarrow.dlt.topic(
                "t", bootstrap_servers=broker.bootstrap_servers, name="rows", max_poll_records=10
            )
            return found.add_map(check)

        with pytest.raises(Exception, match="failed in the middle"):
            pipeline.run(resource())
        fails.clear()
        pipeline.run(resource())
        assert in_order(pipeline.table())["offset"].to_pylist() == list(range(100))


def test_dlt_columns(tmp_path: Path, servers: str) -> None:
    need("dlt")
    pipeline = Pipeline(tmp_path)
    resource = samsarrow.dlt.topic("one", bootstrap_servers=servers, columns=["value"], name="rows")
    batches = list(resource)
    assert {tuple(batch.schema.names) for batch in batches} == {("value",)}
    pipeline.run(samsarrow.dlt.topic("one", bootstrap_servers=servers, name="rows"))
    assert pipeline.table().num_rows >= ROWS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": "bogus"}, "start is 'earliest', 'latest', 'group:NAME'"),
        ({"bootstrap_server": "x:1"}, "option bootstrap_server is unknown"),
        ({"end": "latest"}, "option end is unknown"),
        ({"timeout": 0}, "timeout is a number of seconds above 0"),
        ({"group_id": "g"}, "group.id"),
    ],
)
def test_dlt_checks_arguments_at_once(arguments: dict[str, Any], message: str) -> None:
    need("dlt")
    with pytest.raises((KafkaError, TypeError), match=message):
        samsarrow.dlt.topic("t", **{"bootstrap_servers": "localhost:1", **arguments})


def test_dlt_reads_partitions_of_an_iterator_again(servers: str, tmp_path: Path) -> None:
    need("dlt")
    pipeline, resource = (
        Pipeline(tmp_path),
        samsarrow.dlt.topic("t", bootstrap_servers=servers, partitions=iter([1]), name="rows"),
    )
    for _ in range(2):
        pipeline.run(resource)
        assert pipeline.table()["partition"].unique().to_pylist() == [1]
