"""Cost of a scrape; and cost of reading and writing with a scrape per second, events and pushes, compared with "off".

Metrics cannot be switched off: "off" is a client that is not scraped, with `enable.metrics.push=false`. Other benches
show, from version to version, that counting has no measurable cost.
"""

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest

import harness
from clients import data
from samsarrow import Consumer, Producer, TopicPartition, metrics

RECORDS = harness.RECORDS
ROUNDS = 25
FLOOR = 0.99
# On a machine with neighbours, results vary by more than 1 %. Therefore the floor counts as missed only if this many
# rounds are below the floor. The median is then below the floor with a certainty of 98 % (sign test).
CERTAIN = 18
PARTITIONS = 10_000
SCRAPE_S = 0.020


# The broker runs in another process, so its CPU time is not counted.
BROKER = f"""
from samsarrow.testing import Broker
with Broker(topics={{"t": 1, "out": 1, "wide": {PARTITIONS}}}, telemetry=[""], telemetry_interval=1) as broker:
    print(broker.bootstrap_servers, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    command = [sys.executable, "-c", BROKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        servers = process.stdout.readline().strip()
        with Producer(bootstrap_servers=servers) as producer:
            producer.send_batch("t", data.table(RECORDS, "100B"), value="value").result(120)
        yield servers
        process.communicate("\n")


def scraped(*clients: metrics.export.Client) -> Callable[[], None]:
    """Scrapes clients once per second as Prometheus would, until the returned function is called."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(1.0):
            metrics.exposition(*clients)

    thread = threading.Thread(target=scrape)
    thread.start()

    def stop() -> None:
        over.set()
        thread.join()

    return stop


def consume(servers: str, everything: bool) -> float:
    """Returns CPU seconds of all threads, which are more stable than wall time on a machine with neighbours."""
    on = {"on_event": lambda _: None} if everything else {"enable_metrics_push": False}
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **on) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        stop = scraped(consumer) if everything else lambda: None
        started, rows = time.process_time(), 0
        while rows < RECORDS:
            rows += consumer.poll(5.0).num_rows
        took = time.process_time() - started
        stop()
    return took


def produce(servers: str, everything: bool, rows: pa.Table) -> float:
    on = {"on_event": lambda _: None} if everything else {"enable_metrics_push": False}
    with Producer(bootstrap_servers=servers, **on) as producer:
        stop = scraped(producer) if everything else lambda: None
        started = time.process_time()
        producer.send_batch("out", rows, value="value").result(120)
        took = time.process_time() - started
        stop()
    return took


@pytest.mark.parametrize("verb", ["consume", "produce"])
def test_all_metrics_on_cost_a_hundredth_at_most(servers: str, verb: str) -> None:
    rows = data.table(RECORDS, "100B").slice(0, RECORDS // 4)
    ratios = []
    for number in range(ROUNDS):
        # Runs with and without metrics alternate in being first.
        took = {
            everything: consume(servers, everything) if verb == "consume" else produce(servers, everything, rows)
            for everything in ((True, False) if number % 2 else (False, True))
        }
        ratios.append(took[False] / took[True])
    ratios.sort()
    low, median, high = ratios[ROUNDS - CERTAIN], statistics.median(ratios), ratios[CERTAIN - 1]
    harness.metrics.append(f"{verb} with all metrics on: {median:.3f} x off (between {low:.3f} and {high:.3f})")
    assert high >= FLOOR


def test_a_scrape_of_ten_thousand_partitions(servers: str) -> None:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("wide", p) for p in range(PARTITIONS)])
        deadline = time.monotonic() + 120
        while len(consumer.metrics().lag) < PARTITIONS:
            consumer.poll(0.1)
            assert time.monotonic() < deadline
        registry = CollectorRegistry()
        metrics.prometheus(consumer, registry=registry)
        ways: dict[str, Callable[[], object]] = {
            "samsarrow.metrics.exposition": lambda: metrics.exposition(consumer),
            "prometheus_client": lambda: generate_latest(registry),
            "metrics()": consumer.metrics,
        }
        took = {}
        for name, scrape in ways.items():
            runs = []
            for _ in range(20):
                started = time.perf_counter()
                scrape()
                runs.append(time.perf_counter() - started)
            took[name] = statistics.median(runs)
            harness.metrics.append(f"scrape of {PARTITIONS:,} partitions by {name}: {took[name] * 1e3:.1f} ms")
        assert metrics.exposition(consumer).count("samsarrow_consumer_records_lag{") == PARTITIONS
    assert took["samsarrow.metrics.exposition"] <= SCRAPE_S
