"""A record that the doctor writes on request."""

from __future__ import annotations

from samsarrow.doctor import _cluster
from samsarrow.doctor._finding import Check, Finding
from samsarrow.doctor._run import Run
from samsarrow.doctor._stopwatch import Stopwatch
from samsarrow.doctor._texts import split, text_of
from samsarrow.doctor._topic import grant_topic
from samsarrow.exceptions import AuthorizationError, KafkaError

KEY = b"samsarrow doctor"


def check_write(run: Run, topic: str) -> list[Finding]:
    """Writes one record. If the topic has LogAppendTime, its timestamp is compared with this machine's clock."""
    from samsarrow import Producer

    check = Check("write", f"topic {topic}")
    # `acks=all` also fails if there are too few in-sync replicas.
    limit = str(max(1, int(run.timeout * 1000)))
    fixed = {"acks": "all", "linger.ms": "0"}
    fixed |= dict.fromkeys(("delivery.timeout.ms", "request.timeout.ms", "max.block.ms"), limit)
    producer = Producer(run.client("producer", fixed, ("transactional.id",)))
    try:
        # Fetches the metadata first, so that the time below is that of the write.
        producer.partitions_for(topic)
        sent, clock = Stopwatch(), _cluster.now()
        stamp = int(clock * 1000)
        delivery = producer.send(topic, b"written by samsarrow doctor --write", key=KEY, timestamp=stamp)
        written = delivery.result(run.timeout)
        duration = sent.seconds
    except AuthorizationError:
        return [check.failed("this client may not write to the topic", grant_topic(run, topic))]
    except KafkaError as error:
        return [check.failed(*split(text_of(error), "see the broker's log"))]
    finally:
        producer.close(run.timeout, errors="log")
    findings = [check.ok(f"wrote a record to partition {written.partition} at offset {written.offset}")]
    if written.timestamp is not None and written.timestamp >= 0 and written.timestamp != stamp:
        difference = clock + duration / 2 - written.timestamp / 1000
        findings.append(_cluster.compare_clocks(Check("clock"), difference, duration / 2, "the partition's leader"))
    return findings
