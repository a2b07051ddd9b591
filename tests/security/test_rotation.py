"""Certificates that are replaced during use, as cert-manager and Vault do."""

import logging
import os
import threading
import time

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.testing import Broker
from support.waiting import until

ROTATIONS = 100


def replace(path, text):
    """Replaces a file atomically, so that no reader sees a partial file."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_certificate_rotation_under_load(tmp_path, caplog):
    """Replaces the certificate and then the key. New connections use the replaced files."""
    caplog.set_level(logging.INFO, "samsarrow")
    with Broker(topics={"t": 1}, security="SSL", client_auth="required") as broker:
        (tmp_path / "ca.pem").write_text(broker.ca_pem)
        certificate, key = tmp_path / "own.pem", tmp_path / "key.pem"

        def rotate(number):
            own = broker.client_certificate(f"client {number}")
            replace(certificate, own.certificate)
            replace(key, own.key)

        rotate(0)
        options = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
            "reconnect.backoff.ms": "1",
            "reconnect.backoff.max.ms": "20",
        }
        seen, expected, failures = [], [], []

        def read():
            try:
                with Consumer(options, auto_offset_reset="earliest") as consumer:
                    consumer.assign([TopicPartition("t", 0)])
                    while not seen or seen[-1] != b"end":
                        seen.extend(consumer.poll(20).column("value").to_pylist())
            except Exception as failure:
                failures.append(failure)

        with Producer(options) as producer:
            reader = threading.Thread(target=read)
            reader.start()
            for number in range(1, ROTATIONS + 1):
                rotate(number)
                # The broker closes the connection without a response, so the next connection reads the files again.
                broker.fail("Produce", drop="after")
                if number % 10 == 0:
                    broker.fail("Fetch", drop="before")
                expected.append(b"%d" % number)
                producer.send("t", expected[-1]).result(20)
                deadline = time.monotonic() + 20
                while len(seen) < number and not failures and time.monotonic() < deadline:
                    time.sleep(0.001)
            expected.append(b"end")
            producer.send("t", b"end").result(20)
            reader.join(60)
        assert failures == []
        assert seen == expected
        assert broker.connections().refused == 0

    def renewed():
        said = "new connections use them"
        return sum(said in record.getMessage() for record in caplog.records)

    # Waits, because another thread writes the log lines.
    until(lambda: renewed() >= ROTATIONS, renewed)
