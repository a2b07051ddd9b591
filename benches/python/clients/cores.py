"""Decoding and reading on a given number of cores, which this process restricts itself to before it starts a thread.

python -m clients.cores decode CORES COUNT CODEC
python -m clients.cores fetch CORES BOOTSTRAP TOPIC COUNT
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .watch import Measured, Watch

# Calls of `decode_batches` in all threads together.
CALLS = 240
# Reads of the topic. One more read serves as warm-up.
PASSES = 3


def decode(cores: int, count: int, codec: Any) -> Measured:
    """Decodes the same record batches with one thread per core; the work is the same for each number of cores."""
    from samsarrow import decode_batches, encode_batches

    from . import data

    rows = data.table(count, "json").combine_chunks().to_batches()[0]
    raw = encode_batches(rows, value="value", compression=codec)
    expected = decode_batches(raw).column("value")
    assert expected.equals(rows.column("value").cast(expected.type))

    def decoded(calls: int) -> int:
        return sum(decode_batches(raw).num_rows for _ in range(calls))

    with ThreadPoolExecutor(cores) as threads:
        list(threads.map(decoded, [1] * cores))
        watch = Watch()
        total = sum(threads.map(decoded, [CALLS // cores] * cores))
        return watch.found(total)


def fetch(bootstrap: str, topic: str, count: int) -> Measured:
    """Reads all partitions of a topic, several times."""
    from samsarrow import Consumer

    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        for passed in range(1 + PASSES):
            if passed == 1:
                watch = Watch()
            consumer.seek_to_beginning()
            rows = 0
            while rows < count:
                batch = consumer.poll(5.0)
                if not batch.num_rows:
                    raise RuntimeError(f"nothing came after {rows} of {count} records")
                rows += batch.num_rows
            if rows != count:
                raise RuntimeError(f"read {rows} of {count} records")
        return watch.found(count * PASSES)


def main() -> None:
    verb, cores, *arguments = sys.argv[1:]
    available = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, available[: int(cores)])
    if verb == "decode":
        result = decode(int(cores), int(arguments[0]), arguments[1])
    else:
        result = fetch(arguments[0], arguments[1], int(arguments[2]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
