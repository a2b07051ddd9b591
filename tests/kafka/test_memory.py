"""Memory of a consumer that reads far more than its limit."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from samsarrow import Producer
from support.fixtures import create_topic
from support.kafka import KafkaServer

MIB = 1 << 20
COUNT = 1_000_000
# Reads a topic with pauses, during which prefetching reaches its limit.
READER = """
import json, sys, time
from pathlib import Path
from samsarrow import Consumer

servers, topic, queued, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
peak = lambda: int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", queued_max_bytes=queued) as consumer:
    consumer.assign(consumer.partitions_for(topic))
    idle, rows, bytes_read, pauses = peak(), 0, 0, 0
    while rows < count:
        batch = consumer.poll(20)
        assert batch.num_rows, f"nothing came after {rows} records"
        rows += batch.num_rows
        bytes_read += batch.column("value").nbytes
        if rows > pauses * count // 5:
            pauses += 1
            del batch
            time.sleep(0.3)
print(json.dumps([rows, bytes_read / 2**20, idle, peak()]))
"""


@pytest.fixture(scope="module")
def topic(kafka: KafkaServer) -> str:
    topic = create_topic(kafka, partitions=4)
    values = pa.array([b"%0100d" % i for i in range(COUNT // 4)], pa.binary())
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for partition in range(4):
            to = pa.repeat(pa.scalar(partition, pa.int32()), len(values))
            producer.send_batch(topic, pa.table({"value": values, "to": to}), partition="to").result(60)
    return topic


@pytest.mark.parametrize("queued", [4 * MIB, 32 * MIB])
def test_consumer_memory_is_bounded_by_queue_size(kafka: KafkaServer, topic: str, queued: int) -> None:
    command = [sys.executable, "-c", READER, kafka.bootstrap_servers, topic, str(queued), str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows, mib, idle, peak = json.loads(done.stdout)
    assert rows == COUNT
    assert mib > 95
    # Memory in addition to the queue: the current batch, the response being read, and buffers kept for reuse.
    assert peak - idle < 2 * queued / MIB + 48, f"{idle:.0f} MiB before, {peak:.0f} MiB at most"
    assert peak < 150 + queued / MIB
