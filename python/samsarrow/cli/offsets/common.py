"""What the commands on offsets share: options, the connection, tables."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from samsarrow.exceptions import ConfigurationError, GroupIdNotFoundError, KafkaError, UnsupportedVersionError
from samsarrow.types import GroupDescription, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from samsarrow import Admin, Consumer
    from samsarrow.offsets import KafkaOffsetStore, ZooKeeperOffsetStore

P = ParamSpec("P")
R = TypeVar("R")

STORAGES = click.Choice(["kafka", "zookeeper"])


@dataclass
class Cluster:
    """How to reach a cluster; clients are made when first needed and closed with the command."""

    options: dict[str, str]
    timeout: float | None
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _admin: Admin | None = None
    _consumer: Consumer | None = None

    @property
    def servers(self) -> str:
        """Where the cluster was looked for."""
        return self.options["bootstrap.servers"]

    @property
    def admin(self) -> Admin:
        """One for the whole command."""
        from samsarrow import Admin

        if self._admin is None:
            self._admin = self._open.enter_context(Admin(self._limited()))
        return self._admin

    @property
    def consumer(self) -> Consumer:
        """One for the whole command, without a group."""
        from samsarrow import Consumer

        if self._consumer is None:
            options = {**self._limited(), "allow.auto.create.topics": "false"}
            self._consumer = self._open.enter_context(Consumer(options))
        return self._consumer

    def _limited(self) -> dict[str, str]:
        limit = {} if self.timeout is None else {"default.api.timeout.ms": str(round(self.timeout * 1000))}
        return {**limit, **self.options}

    def store(self, storage: str, group: str) -> KafkaOffsetStore | ZooKeeperOffsetStore:
        """Where a group's offsets are."""
        from samsarrow.offsets import KafkaOffsetStore, ZooKeeperOffsetStore

        kind = ZooKeeperOffsetStore if storage == "zookeeper" else KafkaOffsetStore
        return kind(group, admin=self.admin)

    def description(self, group: str) -> GroupDescription | None:
        """What Kafka knows of a group; None if it knows none, or cannot tell."""
        try:
            found = self.admin.describe_groups([group])[group]
        except UnsupportedVersionError:
            return None
        if isinstance(found, GroupIdNotFoundError):
            return None
        if isinstance(found, KafkaError):
            raise found
        return found

    def partitions(self, topics: Sequence[TopicChoice]) -> list[TopicPartition]:
        """The partitions that `--topic` names.

        Raises:
            click.UsageError: there is no such topic or partition.
        """
        counts = {name: topic.partitions for name, topic in self.admin.list_topics().items()}
        chosen: dict[TopicPartition, None] = {}
        for topic in topics:
            count = counts.get(topic.name)
            if count is None:
                raise click.UsageError(f"there is no topic {topic.name} at {self.servers}")
            for partition in range(count) if topic.partitions is None else topic.partitions:
                if partition >= count:
                    raise click.UsageError(
                        f"topic {topic.name} has {count} partitions, from 0 on: there is no {partition}"
                    )
                chosen[TopicPartition(topic.name, partition)] = None
        return sorted(chosen)

    def close(self) -> None:
        """Closes what was opened."""
        self._open.close()


@dataclass(frozen=True)
class TopicChoice:
    """`TOPIC`, or `TOPIC:0,2,5-7` for some of its partitions."""

    name: str
    partitions: tuple[int, ...] | None

    @classmethod
    def of(cls, text: str) -> TopicChoice:
        """From the command line."""
        name, colon, numbers = text.partition(":")
        if not name:
            raise click.BadParameter(f"{text!r} names no topic")
        if not colon:
            return cls(name, None)
        partitions: list[int] = []
        for part in numbers.split(","):
            found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
            if found is None:
                raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION,..., for example flights:0,2,5-7")
            first = int(found[1])
            partitions += range(first, int(found[2] or first) + 1)
        return cls(name, tuple(partitions))

    def takes(self, tp: TopicPartition) -> bool:
        """Whether a partition is one of these."""
        return tp.topic == self.name and (self.partitions is None or tp.partition in self.partitions)


def _topics(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[TopicChoice, ...]:
    return tuple(TopicChoice.of(value) for value in values)


def topic_option(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`--topic`, repeatable."""
    return click.option("--topic", "topics", multiple=True, callback=_topics, metavar="TOPIC[:P,...]", help=text)


storage_option = click.option(
    "--storage",
    type=STORAGES,
    default="kafka",
    show_default=True,
    help="Where the offsets are; zookeeper needs brokers before 4.0 and knows no metadata.",
)


def _settings(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE, for example client.id=me")
        settings[name.strip()] = text.strip()
    return settings


def _file(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> dict[str, str]:
    """Options from a file of lines NAME=VALUE, as Kafka's own tools take it."""
    settings = {}
    for line in path.read_text("utf-8").splitlines() if path else ():
        text = line.strip()
        if text and text[0] not in "#!":
            name, equals, value = text.partition("=")
            if not equals:
                raise click.BadParameter(f"{path}: {text!r} is not NAME=VALUE")
            settings[name.strip()] = value.strip()
    return settings


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of the connection, and the `Cluster` as its first argument."""

    @click.option("-b", "--bootstrap-servers", metavar="HOST:PORT,...", help="Brokers to start from.")
    @click.option(
        "--command-config",
        "from_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        callback=_file,
        help="A file of client options, NAME=VALUE a line.",
    )
    @click.option(
        "-c", "--config", "given", multiple=True, callback=_settings, metavar="NAME=VALUE", help="A client option."
    )
    @click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each request.")
    def with_cluster(
        bootstrap_servers: str | None,
        from_file: dict[str, str],
        given: dict[str, str],
        timeout: float | None,
        **arguments: Any,
    ) -> None:
        options = {**from_file, **given}
        if bootstrap_servers is not None:
            options["bootstrap.servers"] = bootstrap_servers
        if "bootstrap.servers" not in options:
            raise click.UsageError("give --bootstrap-servers HOST:PORT, or bootstrap.servers in --command-config")
        for name in options:
            if name.replace("_", ".") in ("api.version.offset.commit", "api.version.offset.fetch"):
                raise click.UsageError(f"option {name} has no place here: the storage decides about the version")
        cluster = Cluster(options, timeout)
        try:
            command(cluster, **arguments)
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from None
        finally:
            cluster.close()

    with_cluster.__name__, with_cluster.__doc__ = command.__name__, command.__doc__
    with_cluster.__click_params__ = [  # type: ignore[attr-defined]
        *with_cluster.__click_params__,  # type: ignore[attr-defined]
        *getattr(command, "__click_params__", []),
    ]
    return with_cluster


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Lines with columns below each other; numbers stand at the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    right = [bool(cells) and all(re.fullmatch(r"-?\d+|-", row[i]) for row in cells) for i in range(len(head))]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    for row in [list(head), *cells]:
        yield "  ".join(
            cell.rjust(width) if at_right else cell.ljust(width)
            for cell, width, at_right in zip(row, widths, right, strict=True)
        ).rstrip()


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def shown(at: OffsetAndMetadata | None) -> int | None:
    """The offset for a table."""
    return None if at is None else at.offset


@contextlib.contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
