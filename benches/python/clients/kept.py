"""Reads a topic and keeps all batches, then reads it again and drops each batch.

python -m clients.kept CLIENT BOOTSTRAP TOPIC COUNT
"""

import importlib
import json
import sys

import pyarrow as pa

from .checksum import checksum
from .watch import Watch, forget_peak


def main() -> None:
    name, bootstrap, topic, count = sys.argv[1:5]
    client = importlib.import_module(f"clients.{name}")
    forget_peak()
    watch = Watch()
    batches = list(client.batches(bootstrap, topic, int(count)))
    kept = watch.found(sum(batch.num_rows for batch in batches))
    # Checks that the retained batches hold the values sent, and that later batches did not overwrite them.
    if isinstance(batches[0], pa.RecordBatch):
        _, kept["crc"] = checksum(batch.column("value") for batch in batches)
    del batches
    forget_peak()
    watch = Watch()
    warm = watch.found(sum(len(array) for array in client.consume(bootstrap, topic, int(count))))
    print(json.dumps({"kept": kept, "warm": warm}))


main()
