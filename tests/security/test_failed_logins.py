"""Wrong passwords cause an immediate error and few login attempts, regardless of the number of connections."""

import contextlib
import time

import pytest

from samsarrow import Admin, Consumer, Producer
from samsarrow.exceptions import AuthenticationError
from samsarrow.testing import Broker
from support.kafka import QUICK_COMPILER, KafkaServer, free_ports
from support.mitm import AUTHENTICATE, Middle

WATCHED = 10


def polls(consumer, seconds):
    """Polls for `seconds`; returns the time of each authentication error since the first poll, and the text of the
    error.
    """
    began, raised = time.monotonic(), []
    while time.monotonic() - began < seconds:
        try:
            assert consumer.poll(0.1).num_rows == 0
        except AuthenticationError as error:
            raised.append((time.monotonic() - began, str(error)))
    assert raised
    assert raised[0][0] < seconds / 2, "at once"
    assert not any("hunter2" in text for _, text in raised)
    return raised


def test_at_most_four_login_attempts_in_ten_seconds():
    with Broker(brokers=3, topics={"t": 6}, security="SASL_PLAINTEXT", users={"alice": "secret"}) as broker:
        options = broker.client_options("alice") | {"sasl.password": "hunter2", "group.id": "g"}
        with Consumer(options) as consumer:
            consumer.subscribe(["t"])
            raised = polls(consumer, WATCHED)
        assert len(raised) > 1, "and whenever it is asked again"
        assert 2 <= broker.logins().failed <= 4
        # All other calls raise the same error without waiting for their timeouts.
        options = {name: value for name, value in options.items() if name != "group.id"}
        with Producer(options) as producer, pytest.raises(AuthenticationError):
            producer.send("t", value=b"x").get(timeout=60)
        with Admin(options) as admin, pytest.raises(AuthenticationError):
            admin.list_topics(timeout=60)


class LoginKafka(KafkaServer):
    """A broker with an additional listener that requires PLAIN."""

    def __init__(self):
        super().__init__(jvm=QUICK_COMPILER)
        (self._login_port,) = free_ports(1)
        listener = f"LOGIN://127.0.0.1:{self._login_port}"
        for name in ("listeners", "advertised.listeners"):
            self._properties[name] += f",{listener}"
        self._properties |= {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": (
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
            ),
        }

    @property
    def login_address(self):
        return f"127.0.0.1:{self._login_port}"


@pytest.fixture(scope="module")
def kafka():
    with LoginKafka() as server:
        yield server


def test_login_attempts_at_apache_kafka(kafka):
    with contextlib.ExitStack() as stack:
        fronts = [stack.enter_context(Middle(kafka.login_address)) for _ in range(3)]
        options = {
            "bootstrap.servers": ",".join(front.address for front in fronts),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "hunter2",
            "group.id": "g",
        }
        with Consumer(options) as consumer:
            consumer.subscribe(["t"])
            polls(consumer, WATCHED)
        assert 2 <= sum(front.asked.count(AUTHENTICATE) for front in fronts) <= 4
        # The same client succeeds with the correct password.
        right = {name: value for name, value in options.items() if name != "group.id"} | {"sasl.password": "secret"}
        with Admin(right) as admin:
            admin.list_topics(timeout=30)
