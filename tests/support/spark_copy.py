"""A process that copies a topic twice with Spark, at least once and exactly once, until it is killed or has drained.

python spark_copy.py BOOTSTRAP FOLDER COME AT_LEAST_ONCE EXACTLY_ONCE run|drain
"""

import sys
import time
from pathlib import Path


def main(servers: str, folder: str, come: str, at_least_once: str, exactly_once: str, mode: str) -> None:
    from support.spark import local_session

    spark = local_session(Path(folder) / "scratch", connector=False)
    trigger = {"availableNow": True} if mode == "drain" else {"processingTime": "50 milliseconds"}
    queries = []
    for topic, exactly in ((at_least_once, "false"), (exactly_once, "true")):
        options = {
            "kafka.bootstrap.servers": servers,
            "kafka.group.id": f"copy-{topic}",
            "commitOffsets": "true",
            "subscribe": come,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "200",
        }
        frame = spark.readStream.format("samsarrow").options(**options).load().select("key", "value")
        writer = frame.writeStream.format("samsarrow").option("kafka.bootstrap.servers", servers)
        writer = writer.option("topic", topic).option("exactlyOnce", exactly)
        writer = writer.option("checkpointLocation", str(Path(folder) / topic)).trigger(**trigger)
        queries.append(writer.start())
    sys.stdout.write("running\n")
    sys.stdout.flush()
    while any(query.isActive for query in queries):
        for query in queries:
            if query.exception() is not None:
                raise query.exception()
        time.sleep(0.1)
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main(*sys.argv[1:])
