"""Options of the data source: the names and rules of Spark's own Kafka connector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from samsarrow.exceptions import ConfigurationError

EARLIEST = -2
LATEST = -1

# What the source decides itself, as the connector does.
_REFUSED_KAFKA = {
    "auto.offset.reset": "use the option startingOffsets; the source keeps track of offsets itself",
    "key.deserializer": "keys are always read as binary; cast them in the DataFrame",
    "value.deserializer": "values are always read as binary; cast them in the DataFrame",
    "enable.auto.commit": "the source never commits on its own",
    "interceptor.classes": "interceptors are Java classes",
}
_KNOWN = (
    "assign",
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "includeHeaders",
    "minPartitions",
    "kafkaConsumer.pollTimeoutMs",
)
# The connector has these, this source does not yet: better an error than another result.
_NOT_YET = (
    "subscribePattern",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "maxRecordsPerPartition",
)

Offsets: TypeAlias = dict[str, dict[int, int]]


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a batch read.

    Attributes:
        kafka: options of the consumer, the prefix `kafka.` taken off.
        topics: of `subscribe`, else None.
        assigned: partitions of `assign` by topic, else None.
        starting: `EARLIEST`, or offsets per partition.
        ending: `LATEST`, or offsets per partition.
        include_headers: whether the column `headers` is served.
        min_partitions: the least number of Spark tasks wanted, or None.
        poll_timeout_s: seconds without progress after which a task fails.
    """

    kafka: dict[str, str]
    topics: tuple[str, ...] | None
    assigned: dict[str, tuple[int, ...]] | None
    starting: int | Offsets
    ending: int | Offsets
    include_headers: bool
    min_partitions: int | None
    poll_timeout_s: float

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Checks the options of `spark.read`; names are case-insensitive, as Spark's are.

        Raises:
            ConfigurationError: an option is missing, unknown, contradicts another or has a value that cannot be.
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in _NOT_YET:
            if name.lower() in given:
                raise ConfigurationError(f"option {name} is not available in this version of samsarrow")
        kafka = _kafka_options(given)
        topics, assigned = _what_to_read(given)
        return cls(
            kafka=kafka,
            topics=topics,
            assigned=assigned,
            starting=_offsets(given, "startingOffsets", "earliest"),
            ending=_offsets(given, "endingOffsets", "latest"),
            include_headers=_boolean(given, "includeHeaders"),
            min_partitions=_positive(given, "minPartitions"),
            poll_timeout_s=(_positive(given, "kafkaConsumer.pollTimeoutMs") or 120_000) / 1000,
        )


def _kafka_options(given: Mapping[str, str]) -> dict[str, str]:
    kafka = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    for name, reason in _REFUSED_KAFKA.items():
        if name in kafka:
            raise ConfigurationError(f"option kafka.{name} is not supported: {reason}")
    if not kafka.get("bootstrap.servers"):
        raise ConfigurationError("option kafka.bootstrap.servers must be given, for example localhost:9092")
    return kafka


def _what_to_read(given: Mapping[str, str]) -> tuple[tuple[str, ...] | None, dict[str, tuple[int, ...]] | None]:
    if ("subscribe" in given) == ("assign" in given):
        raise ConfigurationError(
            'exactly one of the options subscribe ("topic,topic") and assign (\'{"topic":[0,1]}\') must be given'
        )
    if "subscribe" in given:
        topics = tuple(dict.fromkeys(t for t in (part.strip() for part in given["subscribe"].split(",")) if t))
        if not topics:
            raise ConfigurationError("option subscribe names no topic: give a list such as flights,trains")
        return topics, None
    parsed = _json(given["assign"], "assign", '{"topic":[0,1]}')
    good = all(isinstance(ps, list) and ps and all(type(p) is int and p >= 0 for p in ps) for ps in parsed.values())
    if not parsed or not good:
        raise ConfigurationError(f'option assign must be JSON like {{"topic":[0,1]}}, not {given["assign"]!r}')
    return None, {topic: tuple(sorted(set(partitions))) for topic, partitions in parsed.items()}


def _offsets(given: Mapping[str, str], name: str, default: str) -> int | Offsets:
    """`earliest`, `latest` or JSON; a batch cannot start at the latest offset nor end at the earliest."""
    text = given.get(name.lower(), default).strip()
    allowed, refused = (EARLIEST, LATEST) if name == "startingOffsets" else (LATEST, EARLIEST)
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        if words[text.lower()] == refused:
            raise ConfigurationError(f"option {name} cannot be {text.lower()!r} in a batch read")
        return allowed
    parsed = _json(text, name, '{"topic":{"0":23,"1":-2}}')
    result: Offsets = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise ConfigurationError(
                f'option {name}: {topic!r} must map to offsets per partition, like {{"{topic}":{{"0":23}}}}'
            )
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST:
                raise ConfigurationError(
                    f"option {name}: {partition!r}: {offset!r} of topic {topic!r} is not a partition and an offset"
                )
            if offset == refused:
                meaning = "latest" if refused == LATEST else "earliest"
                raise ConfigurationError(
                    f"option {name}: {refused} ({meaning}) of {topic}-{partition} cannot be used in a batch read"
                )
            result.setdefault(topic, {})[int(partition)] = offset
    return result


def _json(text: str, name: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"option {name} must be JSON like {example}, not {text!r} ({error})") from None
    if not isinstance(parsed, dict):
        raise ConfigurationError(f"option {name} must be JSON like {example}, not {text!r}")
    return parsed


def _boolean(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"option {name} must be true or false, not {text!r}")
    return text == "true"


def _positive(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) <= 0:
        raise ConfigurationError(f"option {name} must be a whole number greater than 0, not {text!r}")
    return int(text)
