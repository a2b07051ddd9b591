"""A process that copies a topic twice with Spark, once at least once and once exactly once, until it is killed or done.

python spark_copy.py SINK BOOTSTRAP FOLDER COME AT_LEAST_ONCE EXACTLY_ONCE run|drain

The process logs its steps and micro-batches to standard error, with the time.
"""

import sys
import time
from pathlib import Path
from typing import Any


def note(text: str) -> None:
    sys.stderr.write(f"{time.time():.2f} {text}\n")
    sys.stderr.flush()


def started(writer: Any) -> Any:
    """Starts the query and waits until its sources have started."""
    from samsarrow.spark import wait_for_sources

    query = writer.start()
    wait_for_sources(query)
    note(f"query {query.name} runs")
    return query


def main(sink: str, servers: str, folder: str, come: str, at_least_once: str, exactly_once: str, mode: str) -> None:
    from support.spark import QUICK, STALLED, local_session

    note("starting Spark")
    spark = local_session(Path(folder) / "scratch", connector=False, spark_driver_memory="700m", **QUICK)
    note("Spark is there")
    trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "50 milliseconds"}
    writers = []
    for topic, exactly in ((at_least_once, "false"), (exactly_once, "true")):
        options = {
            "kafka.bootstrap.servers": servers,
            "kafka.group.id": f"copy-{topic}",
            "commitOffsets": "true",
            "subscribe": come,
            "startingOffsets": "earliest",
        }
        if mode == "run":
            options["maxOffsetsPerTrigger"] = "200"
        frame = spark.readStream.format("samsarrow-python").options(**options).load().select("key", "value")
        writer = frame.writeStream.format(sink).option("kafka.bootstrap.servers", servers)
        writer = writer.option("topic", topic).option("exactlyOnce", exactly)
        writers.append(
            writer.option("checkpointLocation", str(Path(folder) / topic)).queryName(topic).trigger(**trigger)
        )
    queries = [started(writer) for writer in writers]
    sys.stdout.write("running\n")
    sys.stdout.flush()
    reported: dict[str, int] = {}
    while any(query.isActive or query.exception() for query in queries):
        for at, query in enumerate(queries):
            if (error := query.exception()) is not None:
                note(f"query {query.name} failed")
                if STALLED not in str(error):
                    raise error
                queries[at] = started(writers[at])
                continue
            progress = query.lastProgress
            if progress is not None and reported.get(query.name) != progress["batchId"]:
                reported[query.name] = progress["batchId"]
                rows, took = progress["numInputRows"], progress["durationMs"]
                note(f"query {query.name}, micro-batch {progress['batchId']}: {rows} rows, {dict(took)}")
        time.sleep(0.1)
    for query in queries:
        query.awaitTermination()
    note("drained")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main(*sys.argv[1:])
