"""Options of reads: the names and rules of Spark's own Kafka connector, and a few more."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.bounds import LATEST, Bound, ending, starting
from samsarrow.spark.schema import COLUMNS
from samsarrow.spark.values import Given, boolean, duration, json_object, natural, positive

# What the source decides itself, as the connector does.
_REFUSED_KAFKA = {
    "auto.offset.reset": "use the option startingOffsets; the source keeps track of offsets itself",
    "key.deserializer": "keys are read as binary, or with layout=string as text",
    "value.deserializer": "values are read as binary, or with layout=string as text",
    "enable.auto.commit": "the source never commits on its own; see the option commitOffsets",
    "interceptor.classes": "interceptors are Java classes",
}
_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitOffsets")
_BATCH_ONLY = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_KNOWN = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "layout",
    "isolation.level",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    *_STREAM_ONLY,
    *_BATCH_ONLY,
)


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a read.

    Attributes:
        kafka: options of the consumer, the prefix `kafka.` taken off.
        topics: of `subscribe`, else None.
        assigned: partitions of `assign` by topic, else None.
        pattern: of `subscribePattern`, else None.
        starting: where a batch or a new query starts.
        ending: where a batch ends; None in a stream.
        no_match_is_latest: whether a partition without a record at or after its starting time starts at its end.
        fail_on_data_loss: whether records that are gone end the query.
        columns: that are served, in their order.
        text: of key and value those that are served as text.
        min_partitions: the least number of Spark tasks wanted, or None.
        max_records_per_partition: the most offsets in one Spark task, or None.
        max_offsets: in a micro-batch, or None.
        min_offsets: below which no micro-batch starts, or None.
        max_delay_s: seconds after which one starts all the same.
        poll_timeout_s: seconds without progress after which a task fails.
        retries: of what the driver asks the brokers.
        retry_interval_s: between those.
        commit: whether offsets of finished micro-batches are committed to the group.
    """

    kafka: dict[str, str]
    topics: tuple[str, ...] | None
    assigned: dict[str, tuple[int, ...]] | None
    pattern: str | None
    starting: Bound
    ending: Bound | None
    no_match_is_latest: bool
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    text: frozenset[str]
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets: int | None
    min_offsets: int | None
    max_delay_s: float
    poll_timeout_s: float
    retries: int
    retry_interval_s: float
    commit: bool

    @property
    def start_moves(self) -> bool:
        """Whether the start, asked for again, can be another one although no record was deleted."""
        at, latest = self.starting, self.no_match_is_latest
        timed = at.time is not None or at.times is not None
        return at.group or at.everywhere == LATEST or LATEST in (at.offsets or {}).values() or (timed and latest)

    @property
    def group(self) -> str | None:
        """The group that offsets are committed to or started from."""
        return self.kafka.get("group.id")

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
        """Checks the options of `spark.read` or `spark.readStream`; names are case-insensitive, as Spark's are.

        Raises:
            ConfigurationError: an option is missing, contradicts another or has a value that cannot be.
        """
        given = {name.lower(): value for name, value in options.items()}
        refuse_misspelt(given, _KNOWN)
        kafka = kafka_options(given, _REFUSED_KAFKA)
        if "isolation.level" in given:
            kafka["isolation.level"] = given["isolation.level"]
        # What brokers see in their logs and quotas; the source is in no group.
        kafka.setdefault("client.id", given.get("groupidprefix", "samsarrow-spark"))
        if streaming:
            for name in _BATCH_ONLY:
                if name.lower() in given:
                    raise ConfigurationError(f"option {name} cannot be used in a streaming query, which has no end")
        topics, assigned, pattern = _what_to_read(given)
        strategy = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
        if strategy not in ("error", "latest"):
            raise ConfigurationError(
                f"option startingOffsetsByTimestampStrategy must be error or latest, not {strategy!r}"
            )
        parsed = cls(
            kafka=kafka,
            topics=topics,
            assigned=assigned,
            pattern=pattern,
            starting=starting(given, streaming),
            ending=None if streaming else ending(given),
            no_match_is_latest=strategy == "latest",
            fail_on_data_loss=boolean(given, "failOnDataLoss", True),
            columns=_columns(given),
            text=_text(given),
            min_partitions=positive(given, "minPartitions"),
            max_records_per_partition=positive(given, "maxRecordsPerPartition"),
            max_offsets=positive(given, "maxOffsetsPerTrigger"),
            min_offsets=positive(given, "minOffsetsPerTrigger"),
            max_delay_s=duration(given, "maxTriggerDelay", "15m"),
            poll_timeout_s=(positive(given, "kafkaConsumer.pollTimeoutMs") or 120_000) / 1000,
            retries=3 if (retries := natural(given, "fetchOffset.numRetries")) is None else retries,
            retry_interval_s=duration(given, "fetchOffset.retryIntervalMs", "10"),
            commit=boolean(given, "commitOffsets"),
        )
        parsed._check(streaming)
        return parsed

    def _check(self, streaming: bool) -> None:
        if self.min_offsets and self.max_offsets and self.min_offsets > self.max_offsets:
            raise ConfigurationError(
                f"option minOffsetsPerTrigger ({self.min_offsets}) cannot be larger than maxOffsetsPerTrigger "
                f"({self.max_offsets})"
            )
        if (self.commit or self.starting.group) and not self.group:
            which = "commitOffsets=true" if self.commit else "startingOffsets=group"
            raise ConfigurationError(f"{which} needs the option kafka.group.id, which names the group")
        if self.commit and not streaming:
            raise ConfigurationError(
                "option commitOffsets is for streaming queries: a batch read cannot know when its rows are processed"
            )


def refuse_misspelt(given: Given, known: Sequence[str]) -> None:
    """Raises for a name that is nearly one of `known`; Spark and others may pass options of their own."""
    names = {name.lower(): name for name in known}
    for name in given:
        if name not in names and not name.startswith("kafka."):
            near = difflib.get_close_matches(name, names, 1, 0.85)
            if near:
                raise ConfigurationError(f"option {name} is unknown; did you mean {names[near[0]]}?")


def kafka_options(given: Given, refused: Mapping[str, str]) -> dict[str, str]:
    """The options `kafka.*` without their prefix.

    Raises:
        ConfigurationError: there are no bootstrap servers, or an option is one that the source decides.
    """
    kafka = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    for name, reason in refused.items():
        if name in kafka:
            raise ConfigurationError(f"option kafka.{name} is not supported: {reason}")
    if not kafka.get("bootstrap.servers"):
        raise ConfigurationError("option kafka.bootstrap.servers must be given, for example localhost:9092")
    return kafka


def _what_to_read(
    given: Given,
) -> tuple[tuple[str, ...] | None, dict[str, tuple[int, ...]] | None, str | None]:
    if sum(name in given for name in ("subscribe", "assign", "subscribepattern")) != 1:
        raise ConfigurationError(
            'exactly one of the options subscribe ("topic,topic"), subscribePattern ("topic.*") and assign '
            "('{\"topic\":[0,1]}') must be given"
        )
    if "subscribe" in given:
        topics = tuple(dict.fromkeys(t for t in (part.strip() for part in given["subscribe"].split(",")) if t))
        if not topics:
            raise ConfigurationError("option subscribe names no topic: give a list such as flights,trains")
        return topics, None, None
    if "subscribepattern" in given:
        pattern = given["subscribepattern"].strip()
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"option subscribePattern: {pattern!r} is no pattern: {error}") from None
        if not pattern:
            raise ConfigurationError("option subscribePattern is empty: give a pattern such as flights-.*")
        return None, None, pattern
    parsed = json_object(given["assign"], "assign", '{"topic":[0,1]}')
    good = all(isinstance(ps, list) and ps and all(type(p) is int and p >= 0 for p in ps) for ps in parsed.values())
    if not parsed or not good:
        raise ConfigurationError(f'option assign must be JSON like {{"topic":[0,1]}}, not {given["assign"]!r}')
    return None, {topic: tuple(sorted(set(partitions))) for topic, partitions in parsed.items()}, None


def _columns(given: Given) -> tuple[str, ...]:
    if "columns" not in given:
        return tuple(name for name in COLUMNS if name != "headers" or boolean(given, "includeHeaders"))
    boolean(given, "includeHeaders")
    names = {name.lower(): name for name in COLUMNS}
    wanted = [part.strip() for part in given["columns"].split(",")]
    for column in wanted:
        if column.lower() not in names:
            raise ConfigurationError(f"option columns: there is no column {column!r}, only {', '.join(COLUMNS)}")
    if len({column.lower() for column in wanted}) < len(wanted):
        raise ConfigurationError(f"option columns names a column twice: {given['columns']!r}")
    return tuple(names[column.lower()] for column in wanted)


def _text(given: Given) -> frozenset[str]:
    """`binary`, `string`, or `key:string,value:binary`."""
    wanted = given.get("layout", "binary").strip().lower()
    if wanted in ("binary", "string"):
        wanted = f"key:{wanted},value:{wanted}"
    chosen = set()
    for part in wanted.split(","):
        column, _, layout = (text.strip() for text in part.partition(":"))
        if column not in ("key", "value") or layout not in ("binary", "string"):
            raise ConfigurationError(
                f"option layout must be binary, string, or one for each like key:string,value:binary, not {wanted!r}"
            )
        if layout == "string":
            chosen.add(column)
    return frozenset(chosen)
