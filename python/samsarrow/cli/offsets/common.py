"""Code shared by the `offsets` subcommands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from samsarrow.cli.connection import Connection, connected_as
from samsarrow.cli.errors import NoSuchPartition, NotFound
from samsarrow.cli.share_groups import check_not_share
from samsarrow.exceptions import GroupIdNotFoundError, UnsupportedVersionError
from samsarrow.types import GroupDescription, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from samsarrow import Consumer
    from samsarrow.offsets import KafkaOffsetStore, ZooKeeperOffsetStore

P = ParamSpec("P")
R = TypeVar("R")

STORAGES = click.Choice(["kafka", "zookeeper"])


@dataclass
class Cluster(Connection):
    """Connection of the commands on offsets, with their consumer and stores."""

    _consumer: Consumer | None = None

    @property
    def end_offsets_consumer(self) -> Consumer:
        """Consumer without a group, for lookups of end offsets."""
        if self._consumer is None:
            self._consumer = self.consumer(allow_auto_create_topics="false")
        return self._consumer

    def store(self, storage: str, group: str) -> KafkaOffsetStore | ZooKeeperOffsetStore:
        """Returns the store of a group's offsets."""
        from samsarrow.offsets import KafkaOffsetStore, ZooKeeperOffsetStore

        kind = ZooKeeperOffsetStore if storage == "zookeeper" else KafkaOffsetStore
        return kind(group, admin=self.admin)

    def description(self, group: str) -> GroupDescription | None:
        """Returns the description of a group; None if the group does not exist, or brokers are too old.

        Raises:
            KafkaError: the group is a share group.
        """
        try:
            return self.admin.describe_groups([group])[group]
        except UnsupportedVersionError:
            return None
        except GroupIdNotFoundError:
            check_not_share(self.admin, group)
            return None

    def partitions(self, topics: Sequence[TopicChoice]) -> list[TopicPartition]:
        """Returns the partitions that `--topic` selects.

        Raises:
            click.ClickException: a topic or partition does not exist.
        """
        counts = {name: topic.partitions for name, topic in self.admin.list_topics().items()}
        chosen: dict[TopicPartition, None] = {}
        for topic in topics:
            count = counts.get(topic.name)
            if count is None:
                raise NotFound(f"topic {topic.name}", self.servers)
            for partition in range(count) if topic.partitions is None else topic.partitions:
                if partition >= count:
                    raise NoSuchPartition(topic.name, count, partition)
                chosen[TopicPartition(topic.name, partition)] = None
        return sorted(chosen)


@dataclass(frozen=True)
class TopicChoice:
    """A value of `--topic`: `TOPIC`, or `TOPIC:0,2,5-7` for some partitions of the topic."""

    name: str
    partitions: tuple[int, ...] | None

    @classmethod
    def parse(cls, text: str) -> TopicChoice:
        """Parses a value of `--topic`."""
        name, colon, numbers = text.partition(":")
        if not name:
            raise click.BadParameter(f"{text!r} names no topic")
        if not colon:
            return cls(name, None)
        partitions: list[int] = []
        for part in numbers.split(","):
            match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
            if match is None:
                raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION,..., for example flights:0,2,5-7")
            first = int(match[1])
            partitions += range(first, int(match[2] or first) + 1)
        return cls(name, tuple(partitions))

    def takes(self, tp: TopicPartition) -> bool:
        """Returns true if a partition is selected."""
        return tp.topic == self.name and (self.partitions is None or tp.partition in self.partitions)


def _topics(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[TopicChoice, ...]:
    return tuple(TopicChoice.parse(value) for value in values)


def topic_option(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Returns the repeatable option `--topic`."""
    return click.option("--topic", "topics", multiple=True, callback=_topics, metavar="TOPIC[:P,...]", help=text)


storage_option = click.option(
    "--storage",
    type=STORAGES,
    default="kafka",
    show_default=True,
    help="The storage of the offsets; zookeeper needs brokers before 4.0 and stores no metadata.",
)


def _check(options: dict[str, str]) -> None:
    for name in options:
        if name.replace("_", ".") in ("api.version.offset.commit", "api.version.offset.fetch"):
            raise click.UsageError(f"option {name} is not allowed here: the storage determines the version")


connected = connected_as(Cluster, _check, clients=("admin", "consumer"))


def offset_or_none(at: OffsetAndMetadata | None) -> int | None:
    """Returns the offset to print in a table, or None."""
    return None if at is None else at.offset
