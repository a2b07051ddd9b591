"""A Kafka broker in this process, for tests and demos.

    with Broker(topics={"flights": 4}) as broker:
        Producer(bootstrap_servers=broker.bootstrap_servers)

pytest finds the fixture `samsarrow_broker` by itself once samsarrow is installed.
"""

from samsarrow.testing.broker import Broker

__all__ = ["Broker"]
