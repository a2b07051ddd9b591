"""Log lines of the Rust client in Python's logging."""

import logging
import os
import re
import subprocess
import sys
import time

import pytest

from samsarrow import Admin, Consumer, KafkaError, Producer, TopicPartition, _core
from samsarrow.testing import Broker
from support.log_lines import log_lines, member_lines
from support.waiting import until

TRACE = 5
PASSWORD = "correct-horse-battery-staple"


@pytest.mark.parametrize("level", [logging.DEBUG, logging.ERROR])
def test_log_lines_have_logger_level_and_fields(servers, level):
    with log_lines(level) as lines, Producer(bootstrap_servers=servers, client_id="me") as producer:
        producer.send("t", b"x").result(10)
        found = [record for record in lines.written() if "producer ID assigned" in record.getMessage()]
    assert len(found) == (level == logging.DEBUG)
    for record in found:
        assert (record.name, record.levelno) == ("samsarrow.producer", logging.DEBUG)
        assert record.getMessage().startswith("producer ID assigned (client_id=me, producer_id=")
        assert record.kafka["client_id"] == "me"
        assert record.kafka["epoch"] == "0"


def test_a_member_logs_each_step():
    with Broker(topics={"orders": 2}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"x", partition=0).result(10)
        info = member_lines(broker.bootstrap_servers, logging.INFO)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_groups(["invoices"])
        debug = member_lines(broker.bootstrap_servers, logging.DEBUG)
    who = r"\(client_id=billing, group_id=invoices"
    steps = [
        rf"INFO samsarrow.group: joined generation 1 of the group as its leader {who}, member_id=.*, assignor=range\)",
        rf"INFO samsarrow.group: partitions assigned: orders-0, orders-1 {who}\)",
        rf"INFO samsarrow.consumer: partition orders-[01]: position reset to 0 \(earliest\) {who}\)",
        rf"INFO samsarrow.group: left the group: .* {who}\)",
    ]
    details = [
        r"DEBUG samsarrow.net: connected to bootstrap server .* \(client_id=billing\)",
        r"DEBUG samsarrow.metadata: metadata refreshed \(client_id=billing, brokers=1, topics=1, controller=\d\)",
        r"DEBUG samsarrow.metadata: new topics: orders \(id [0-9a-f]{32}, 2 partitions\) \(client_id=billing\)",
        r"DEBUG samsarrow.metadata: the coordinator of group invoices is broker \d \(client_id=billing\)",
        rf"DEBUG samsarrow.group: joining the group {who}.*\)",
        rf"DEBUG samsarrow.group: assigned 2 partitions to 1 members {who}, assignor=range\)",
        rf"DEBUG samsarrow.group: generation 1 assigns 2 partitions to this member: orders-0, orders-1 {who}\)",
        rf"DEBUG samsarrow.group: committed orders-0 at 1.* {who}\)",
        r"DEBUG samsarrow.net: the connection to .* was closed: .* \(client_id=billing\)",
    ]
    for lines, expected in ((info, steps), (debug, steps + details)):
        for pattern in expected:
            assert any(re.fullmatch(pattern, line) for line in lines), (pattern, lines)
    assert {line.partition(" ")[0] for line in info} == {"INFO"}
    # An operator sees each event once.
    assert len(info) == len(set(info)) <= 6, info


def test_trace_lines_have_api_size_and_latency(servers):
    with log_lines(TRACE) as lines, Admin(bootstrap_servers=servers) as admin:
        admin.list_topics()
        texts = lines.texts("samsarrow.net")
    fields = r"client_id=samsarrow, correlation_id=\d+, bytes=\d+"
    assert any(re.fullmatch(rf"sending Metadata to [\d.:]+ \({fields}\)", text) for text in texts), texts
    received = rf"received the response to Metadata from [\d.:]+ \({fields}, latency_ms=[\d.]+\)"
    assert any(re.fullmatch(received, text) for text in texts), texts


def test_levels_change_at_run_time(servers):
    with log_lines(logging.WARNING) as lines, Consumer(bootstrap_servers=servers) as consumer:
        tp = TopicPartition("t", 0)
        consumer.assign([tp])

        def seek_lines() -> int:
            consumer.seek(tp, 0)
            return len([text for text in lines.texts() if "seek" in text])

        assert seek_lines() == 0
        logging.getLogger("samsarrow.consumer").setLevel(logging.DEBUG)
        try:
            assert seek_lines() == 1
            logging.disable(logging.DEBUG)
            assert seek_lines() == 1
            logging.disable(logging.NOTSET)
            assert seek_lines() == 2
        finally:
            logging.disable(logging.NOTSET)
            logging.getLogger("samsarrow.consumer").setLevel(logging.NOTSET)
        assert seek_lines() == 2
        # The level of the root logger applies to loggers without one.
        logging.getLogger("samsarrow").setLevel(logging.NOTSET)
        before = logging.root.level
        logging.root.setLevel(logging.DEBUG)
        try:
            assert seek_lines() == 3
        finally:
            logging.root.setLevel(before)
        assert seek_lines() == 3


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_no_line_contains_a_password(mechanism):
    with Broker(security="SASL_PLAINTEXT", users={"alice": PASSWORD}, topics={"t": 1}) as broker, log_lines(1) as lines:
        options = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_username": "alice",
        }
        with Producer(sasl_password=PASSWORD, **options) as producer:
            producer.send("t", b"x").result(10)
        with Admin(sasl_password=f"{PASSWORD}-wrong", **options) as admin, pytest.raises(KafkaError):
            admin.list_topics(timeout=10)
        records = lines.written()
    texts = [f"{record.getMessage()} {vars(record)}" for record in records]
    assert any(f"logged in to {broker.bootstrap_servers} with {mechanism}" in text for text in texts), texts
    assert not [text for text in texts if PASSWORD in text]


def test_warnings_without_configuration_are_sentences():
    code = """
import time
from samsarrow import Admin, KafkaError
with Admin(bootstrap_servers="127.0.0.1:1") as admin:
    try:
        admin.list_topics(timeout=1)
    except KafkaError:
        pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    (line,) = done.stderr.splitlines()
    problem = r"cannot connect to the broker at 127\.0\.0\.1:1: Connection refused.*\. "
    assert re.fullmatch(
        rf"{problem}The client keeps retrying and logs when it succeeds \(client_id=samsarrow\)", line
    ), line


def test_a_lost_broker_is_logged_once_and_when_it_returns(broker, servers):
    with log_lines(logging.INFO) as lines, Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"x").result(10)
        broker.stop_broker(0)
        delivery = producer.send("t", b"y")
        until(lambda: lines.texts(level=logging.WARNING))
        time.sleep(1)
        assert len(lines.texts(level=logging.WARNING)) == 1
        broker.start_broker(0)
        delivery.result(30)
        until(lambda: [text for text in lines.texts() if "after failed attempts" in text])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_follows_levels(servers):
    code = f"""
import logging, os, sys
from samsarrow import Producer
logging.basicConfig(format="%(process)d %(name)s %(message)s")
with Producer(bootstrap_servers={servers!r}) as producer:
    producer.send("t", b"x").result(10)
pid = os.fork()
if not pid:
    logging.getLogger("samsarrow.producer").setLevel(logging.DEBUG)
    with Producer(bootstrap_servers={servers!r}) as producer:
        producer.send("t", b"x").result(10)
    sys.exit()
assert os.waitpid(pid, 0)[1] == 0
print(pid)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stderr.splitlines()
    assert any(line.startswith(f"{done.stdout.strip()} samsarrow.producer producer ID assigned") for line in lines), (
        lines
    )
    assert all(line.startswith(f"{done.stdout.strip()} samsarrow.producer ") for line in lines), lines


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


@pytest.mark.parametrize("ends", [True, False])
def test_closing_with_an_open_transaction_logs_a_warning(servers, ends):
    with log_lines(logging.WARNING) as lines:
        with Producer(bootstrap_servers=servers, transactional_id="closed") as producer:
            producer.begin_transaction()
            producer.send("t", b"x").result(10)
            if ends:
                producer.commit_transaction()
        texts = [record.getMessage() for record in lines.written()]
    assert [text for text in texts if "an open transaction, which is aborted: call commit_transaction" in text] == texts
    assert len(texts) == (not ends)


def test_loggers_are_documented():
    assert _core.loggers()[0] == "samsarrow"
    assert _core.loggers()[1:] == sorted(_core.loggers()[1:])
