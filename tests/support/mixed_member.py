"""A group member that tests kill; it prints its partitions. Arguments: the client, options as JSON, topics."""

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
        print_owned((tp.topic, tp.partition) for tp in consumer.assignment())


def confluent(options: dict[str, str], topics: list[str]) -> None:
    consumer = confluent_kafka.Consumer({**options})
    consumer.subscribe(topics)
    while True:
        consumer.poll(0.05)
        print_owned((tp.topic, tp.partition) for tp in consumer.assignment())


last_line = ""


def print_owned(owned: Iterable[tuple[str, int]]) -> None:
    global last_line
    line = json.dumps(sorted(owned))
    if line != last_line:
        last_line = line
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


{"ours": ours, "confluent": confluent}[sys.argv[1]](json.loads(sys.argv[2]), sys.argv[3:])
