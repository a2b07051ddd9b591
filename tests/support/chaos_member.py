"""A consumer to be killed: writes down what it processed, then commits. Arguments: options as JSON, topic, file."""

import json
import logging
import os
import signal
import sys

import pyarrow as pa

from samsarrow import Consumer, KafkaError


def main() -> None:
    options, topic, path = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s %(levelname)s %(message)s")
    stopping = []
    with (
        Consumer(auto_offset_reset="earliest", max_poll_records=50, **options) as consumer,
        open(path, "ab", buffering=0) as done,
    ):
        signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
        consumer.subscribe([topic])
        late = False
        while not stopping:
            if late:
                # Before the next rows are given: positions are what was processed.
                late = not committed(consumer, None)
            batch = consumer.poll(0.2)
            if batch.num_rows == 0:
                continue
            rows = zip(
                batch.column("partition").to_pylist(),
                batch.column("offset").to_pylist(),
                batch.column("value").cast(pa.string()).to_pylist(),
                strict=True,
            )
            # One write: a line is whole or not there.
            os.write(done.fileno(), "".join(f"{p} {o} {v}\n" for p, o, v in rows).encode())
            late = not committed(consumer, batch)


def committed(consumer: Consumer, batch: pa.RecordBatch | None) -> bool:
    """Commits a batch, or all that is still ours: what was refused in a rebalance is to be tried again."""
    try:
        consumer.commit(batch)
    except KafkaError as error:
        logging.warning("commit: %s", error)
        return False
    return True


main()
