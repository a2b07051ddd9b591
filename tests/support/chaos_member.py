"""A consumer that tests kill. It writes the processed rows to a file and then commits. Arguments: options as JSON,
topics, file.

Each line has the partition, offset and value of a record. With several topics, separated by commas, each line starts
with the topic and ends with the time of the monotonic clock, which is the same in all processes.
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
    # Reasons to join again are logged at DEBUG if the coordinator cannot be reached.
    logging.getLogger("samsarrow.group").setLevel(logging.DEBUG)
    stopping = []
    # The handler is set before the file is created, since a test may send the signal as soon as the file exists.
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    with (
        Consumer(auto_offset_reset="earliest", max_poll_records=50, **options) as consumer,
        open(path, "ab", buffering=0) as done,
    ):
        consumer.subscribe(topics)
        late = False
        while not stopping:
            if late:
                # The commit is retried before the next poll, since until then the positions are those of the processed
                # rows.
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
            # All lines are written by a single call, so that each line is either complete or missing.
            os.write(done.fileno(), "".join(lines).encode())
            late = not committed(consumer, batch)


def committed(consumer: Consumer, batch: pa.RecordBatch | None) -> bool:
    """Commits a batch, or the positions of all assigned partitions. Returns False if a rebalance rejected the commit,
    so that it must be retried.
    """
    try:
        consumer.commit(batch)
    except KafkaError as error:
        logging.warning("commit: %s", error)
        return False
    return True


main()
