"""Reprs of clients, brokers and stores: one line that identifies the object, without secrets."""

import os
import sqlite3

import numpy as np
import pytest

from samsarrow import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Producer,
    RebalanceListener,
    SchemaRegistry,
)
from samsarrow.exceptions import ConfigurationError
from samsarrow.offsets import FileOffsetStore, KafkaOffsetStore, SqlOffsetStore
from samsarrow.testing import Broker, Registry

SECRETS = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "canary",
}


@pytest.mark.parametrize("client", [Admin, AsyncAdmin, Consumer, AsyncConsumer, Producer, AsyncProducer])
def test_clients_show_servers_and_ids_but_no_secrets(client):
    created = client({"metadata.broker.list": "h:1,i:2", "client.id": "app"}, **SECRETS)
    assert repr(created) == f"<{client.__name__} bootstrap_servers='h:1,i:2' client_id='app'>"
    assert repr(client(bootstrap_servers=["h:1", "i:2"])) == f"<{client.__name__} bootstrap_servers='h:1,i:2'>"


def test_clients_without_a_constructor_have_a_repr():
    for client in (Admin, Consumer, Producer):
        assert repr(client.__new__(client)) == f"<{client.__name__}, closed>"


def test_consumers_show_group_topics_and_partitions():
    with Broker(topics=["orders"]) as broker:
        servers = broker.bootstrap_servers
        with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            start = f"<Consumer bootstrap_servers={servers!r} group_id='g', "
            assert repr(consumer) == f"{start}subscribed to ['orders']>"
            while not consumer.assignment():
                consumer.poll(0.1)
            assert repr(consumer) == f"{start}subscribed to ['orders'], reads orders-0>"
        assert repr(consumer) == f"{start}closed>"
        with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
            assert repr(producer) == f"<Producer bootstrap_servers={servers!r} transactional_id='x'>"


def test_servers_and_stores(tmp_path):
    with Broker() as broker:
        assert repr(broker) == f"<Broker bootstrap_servers={broker.bootstrap_servers!r} security='PLAINTEXT'>"
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert repr(KafkaOffsetStore("g", admin=admin)) == f"<KafkaOffsetStore group='g' of {admin!r}>"
    assert repr(broker) == "<Broker, closed>"
    with Registry(auth=("user", "canary")) as registry:
        assert repr(registry) == f"<Registry url={registry.url!r}>"
    path = os.fspath(tmp_path / "offsets.json")
    store = FileOffsetStore(path)
    assert repr(store) == f"<FileOffsetStore path={path!r}>"
    store.close()
    assert repr(store) == f"<FileOffsetStore path={path!r}, read-only or closed>"
    store = SqlOffsetStore(sqlite3.connect(":memory:"), "g", owner="w1")
    assert repr(store) == "<SqlOffsetStore group='g' table='samsarrow_offsets' owner='w1'>"


def test_listeners_show_their_functions():
    def assigned(partitions):
        pass

    assert repr(RebalanceListener()) == "RebalanceListener()"
    shown = repr(RebalanceListener(assigned, on_partitions_lost=print))
    assert "on_partitions_assigned=test_listeners_show_their_functions.<locals>.assigned" in shown
    assert "on_partitions_lost=print" in shown

    class Own(RebalanceListener):
        pass

    assert repr(Own()) == "Own()"


def test_topics_of_a_broker():
    with (
        Broker(topics={"a": np.int32(2), "b": 1}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        assert {name: topic.partitions for name, topic in admin.list_topics().items()} == {"a": 2, "b": 1}
    for topics, text in [
        ("orders", "topics must be numbers of partitions by name.*, not 'orders'"),
        (5, "not 5"),
        ([5], "got 5"),
        ({"a": "x"}, "the number of partitions of a is 'x'"),
    ]:
        with pytest.raises(TypeError, match=text):
            Broker(topics=topics)
    with pytest.raises(ConfigurationError, match=r"the number of partitions of topic a must be from 1 to .*, not 0"):
        Broker(topics={"a": 0})


@pytest.mark.parametrize("client", [Admin, Consumer, Producer, SchemaRegistry])
def test_closed(client):
    arguments = {"url": "http://h:1"} if client is SchemaRegistry else {"bootstrap_servers": "h:1"}
    with client(**arguments) as created:
        assert not created.closed
    assert created.closed
