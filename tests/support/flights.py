"""Flights for the pipelines of examples/spark, and the expected output of the pipeline that counts them."""

import datetime
import json

from samsarrow import Producer

NOON = datetime.datetime(2024, 5, 6, 12, tzinfo=datetime.UTC)
CARRIERS = ("AA", "UA", "B6")
# The result has no row for the last of the five hours, since a later flight could still arrive in that window.
BY_HOUR = [[hour, carrier, 20] for hour in (12, 13, 14, 15) for carrier in sorted(CARRIERS)]


def send_flights(servers: str, topic: str) -> None:
    """Sends 300 flights as JSON, one per minute from noon on. The timestamp of each record is the departure time."""
    with Producer(bootstrap_servers=servers) as producer:
        for n in range(300):
            when = NOON + datetime.timedelta(minutes=n)
            flight = {"carrier": CARRIERS[n % 3], "departed": when.isoformat(), "delay": n % 10}
            producer.send(topic, json.dumps(flight), partition=n % 2, timestamp=when)
