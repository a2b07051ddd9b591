"""A consumer to be killed: records the processed rows, then commits. Arguments: options as JSON, topics, file.

A line has partition, offset and value of a record; with several topics (separated by commas) it starts with the topic
and ends with the time (of the monotonic clock, which all processes share).
"""

import json
import logging
import os
import signal
import sys
import time

import pyarrow as pa

from samsarrow import Consumer, KafkaError


def main() -> None:
    options, topics, path = json.loads(sys.argv[1]), sys.argv[2].split(","), sys.argv[3]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s %(levelname)s %(message)s")
    stopping = []
    # Installed before the file exists, since a test may signal the member as soon as it sees the file.
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    with (
        Consumer(auto_offset_reset="earliest", max_poll_records=50, **options) as consumer,
        open(path, "ab", buffering=0) as done,
    ):
        consumer.subscribe(topics)
        late = False
        while not stopping:
            if late:
                # Before the next poll, while the positions are those of the processed rows.
                late = not committed(consumer, None)
            batch = consumer.poll(0.2)
            if batch.num_rows == 0:
                continue
            rows = zip(
                batch.column("topic").to_pylist(),
                batch.column("partition").to_pylist(),
                batch.column("offset").to_pylist(),
                batch.column("value").cast(pa.string()).to_pylist(),
                strict=True,
            )
            now = time.monotonic()
            several = len(topics) > 1
            lines = (f"{t} {p} {o} {v} {now}\n" if several else f"{p} {o} {v}\n" for t, p, o, v in rows)
            # A single write, so that a line is complete or missing.
            os.write(done.fileno(), "".join(lines).encode())
            late = not committed(consumer, batch)


def committed(consumer: Consumer, batch: pa.RecordBatch | None) -> bool:
    """Commits a batch, or all owned partitions; returns False if a rebalance rejected the commit, which must be
    retried.
    """
    try:
        consumer.commit(batch)
    except KafkaError as error:
        logging.warning("commit: %s", error)
        return False
    return True


main()
