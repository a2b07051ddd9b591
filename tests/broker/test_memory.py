"""Memory of a consumer that reads far more data than its queue holds."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from samsarrow import Producer
from samsarrow.testing import Broker

MIB = 1 << 20
ROWS = 240_000
# Reads a topic with pauses. During a pause the consumer prefetches as much as its options allow.
READER = """
import json, sys, time
from pathlib import Path
from samsarrow import Consumer

servers, queued, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
peak = lambda: int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", queued_max_bytes=queued) as consumer:
    consumer.assign(consumer.partitions_for("four"))
    idle, rows, bytes_read, pauses = peak(), 0, 0, 0
    while rows < count:
        batch = consumer.poll(20)
        assert batch.num_rows, f"nothing came after {rows} records"
        rows += batch.num_rows
        bytes_read += batch.column("value").nbytes
        if rows > pauses * count // 4:
            pauses += 1
            del batch
            time.sleep(1)
print(json.dumps([rows, bytes_read / 2**20, idle, peak()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_queued_max_bytes_counts_decompressed_records(broker: Broker, servers: str) -> None:
    values = pa.repeat(pa.scalar(bytes(1000)), ROWS // 4)
    with Producer(bootstrap_servers=servers, compression_type="zstd", batch_size=MIB) as producer:
        for partition in range(4):
            to = pa.repeat(pa.scalar(partition, pa.int32()), len(values))
            producer.send_batch("four", pa.table({"value": values, "to": to}), partition="to").result(60)
    queued = 32 * MIB
    command = [sys.executable, "-c", READER, servers, str(queued), str(ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows, mib, idle, peak = json.loads(done.stdout)
    assert rows == ROWS
    assert mib > 200
    assert peak - idle < queued / MIB + 64, f"{idle:.0f} MiB before, {peak:.0f} MiB at most"
