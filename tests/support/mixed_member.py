"""A member of a group to be killed: says on stdout what it owns. Arguments: the client, options as JSON, topics."""

import json
import sys
from collections.abc import Iterable

import confluent_kafka

from samsarrow import Consumer


def ours(options: dict[str, str], topics: list[str]) -> None:
    consumer = Consumer(options)
    consumer.subscribe(topics)
    while True:
        consumer.poll(0.05)
        say((tp.topic, tp.partition) for tp in consumer.assignment())


def confluent(options: dict[str, str], topics: list[str]) -> None:
    consumer = confluent_kafka.Consumer({**options})
    consumer.subscribe(topics)
    while True:
        consumer.poll(0.05)
        say((tp.topic, tp.partition) for tp in consumer.assignment())


said = ""


def say(owned: Iterable[tuple[str, int]]) -> None:
    global said
    line = json.dumps(sorted(owned))
    if line != said:
        said = line
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


{"ours": ours, "confluent": confluent}[sys.argv[1]](json.loads(sys.argv[2]), sys.argv[3:])
