"""Log lines of the core in Python's logging."""

import logging
import time

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from support.waiting import until


@pytest.mark.parametrize("level", [logging.DEBUG, logging.ERROR])
def test_log_lines_have_logger_level_and_fields(servers, caplog, level):
    caplog.set_level(level, "samsarrow")
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"x").result(10)
    deadline = time.monotonic() + (60 if level == logging.DEBUG else 0.3)
    while not (lines := [r for r in caplog.records if "producer ID assigned" in r.getMessage()]):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    if level == logging.DEBUG:
        assert lines[0].name == "samsarrow.client.producer.producer_id"
        assert lines[0].levelno == logging.DEBUG
        assert lines[0].getMessage().startswith("producer ID assigned (producer_id=")
    else:
        assert not lines


def test_deleted_topic_logs_one_warning(broker, servers, caplog):
    caplog.set_level(logging.WARNING, "samsarrow")
    assigned = [TopicPartition("t", 0), *(TopicPartition("four", p) for p in range(4))]
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", allow_auto_create_topics=False) as consumer,
    ):
        consumer.assign(assigned)
        for tp in assigned:
            assert consumer.position(tp) == 0
        admin.delete_topics(["four"])
        requests, start, rows = broker.requests("Metadata"), time.monotonic(), 0
        for i in range(20):
            producer.send("t", str(i)).result(10)
            rows += consumer.poll(5).num_rows
            time.sleep(0.1)
        assert rows == 20
        assert broker.requests("Metadata") - requests < 15 * (time.monotonic() - start)
    # Log lines arrive with a delay.
    until(lambda: [record for record in caplog.records if record.levelno == logging.WARNING])
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1
    assert "four" in lines[0]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in lines[0]
