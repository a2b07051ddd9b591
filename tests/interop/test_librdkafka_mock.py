"""librdkafka's mock cluster, which confluent-kafka brings along: it answers a little otherwise than Kafka does."""

import pytest
from confluent_kafka import Producer as ConfluentProducer

from samsarrow import Consumer, Producer

# It names later versions too, and closes the connection when it is asked in them: it reads them in the old form.
GROUP_VERSIONS = {"api.version.join_group": 5, "api.version.sync_group": 3, "api.version.leave_group": 1}


@pytest.fixture
def mock():
    """The cluster lives as long as the client that starts it."""
    owner = ConfluentProducer({"test.mock.num.brokers": 2, "log_level": 2})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(1)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_consume_group_and_commit(mock, codec):
    with Producer(bootstrap_servers=mock, compression_type=codec) as producer:
        values = [f"{n}".encode() for n in range(100)]
        for sent in [producer.send("t", value, partition=0) for value in values]:
            sent.result(20)
    options = {"bootstrap_servers": mock, "group_id": "g", "auto_offset_reset": "earliest", **GROUP_VERSIONS}
    with Consumer(**options) as consumer:
        consumer.subscribe(["t"])
        found: list[bytes] = []
        while len(found) < 100:
            batch = consumer.poll(20)
            assert batch.num_rows, f"{len(found)} rows came"
            found += batch["value"].to_pylist()
        assert found == values
        consumer.commit(timeout=20)
        assert consumer.committed([("t", 0)])[("t", 0)].offset == 100
    # Somebody else goes on where that one has stopped.
    with Producer(bootstrap_servers=mock) as producer:
        producer.send("t", b"next", partition=0).result(20)
    with Consumer(**options) as consumer:
        consumer.assign([("t", 0)])
        assert consumer.poll(20)["value"].to_pylist() == [b"next"]
