"""A member of a share group that tests kill. Arguments: options as JSON, topic, file.

It appends a line for each delivered row, `got PARTITION OFFSET VALUE TIME`, and another one after the acknowledgement,
which begins with `done`, or with `lost` if the outcome is an error; then the name of the error precedes the time. The
time is that of the monotonic clock, which is the same in all processes.
"""

import json
import logging
import os
import signal
import sys
import time

import pyarrow as pa

from samsarrow import KafkaError, ShareConsumer, TopicPartition


def main() -> None:
    options, topic, path = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s %(levelname)s %(message)s")
    stopping = []
    # The handler is set before the file is created, since a test may send the signal as soon as the file exists.
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    with ShareConsumer(**options) as consumer, open(path, "ab", buffering=0) as log:
        consumer.subscribe([topic])
        while not stopping:
            try:
                batch = consumer.poll(0.2)
            except KafkaError as error:
                logging.warning("poll: %r", error)
                continue
            if batch.num_rows == 0:
                continue
            append(log.fileno(), "got", batch)
            # Most kills happen while rows are locked.
            time.sleep(0.1)
            if options["acknowledgement"] == "explicit":
                consumer.acknowledge(batch)
            try:
                outcomes = consumer.commit(30)
            except KafkaError as error:
                logging.warning("commit: %r", error)
                outcomes = dict.fromkeys(
                    map(TopicPartition, batch.column("topic").to_pylist(), partitions(batch)), error
                )
            append(log.fileno(), "done", batch, {tp.partition: error for tp, error in outcomes.items()})


def partitions(batch: pa.RecordBatch) -> list[int]:
    return batch.column("partition").to_pylist()  # type: ignore[no-any-return]


def append(file: int, what: str, batch: pa.RecordBatch, outcomes: dict[int, KafkaError | None] | None = None) -> None:
    """Appends a line for each row by a single call, so that each line is either complete or missing."""
    lines, now = [], time.monotonic()
    rows = zip(partitions(batch), batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
    for partition, offset, value in rows:
        error = None if outcomes is None else outcomes[partition]
        words = [what if error is None else "lost", partition, offset, value.decode()]
        lines.append(" ".join(map(str, [*words, *([] if error is None else [type(error).__name__]), now])))
    os.write(file, ("\n".join(lines) + "\n").encode())


main()
