"""Disturbances of an application, a topic, a group or a broker while rows are read or written."""

from __future__ import annotations

import gc
import random
import signal
import subprocess
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from conservation.cancelling import Cancelled
from conservation.clusters import Apache, Cluster, Topic
from conservation.reading import Application, Poll, ReadInterface
from conservation.writing import WriteInterface, Writer
from samsarrow.exceptions import ClosedError


@dataclass
class Scene:
    """The program, topic and cluster that a disturbance affects."""

    cluster: Cluster
    topic: Topic
    program: Application | Writer
    interface: ReadInterface | WriteInterface
    random: random.Random
    others: list[tuple[threading.Thread, Application]] = field(default_factory=list)
    """Other members of the group."""

    def rest(self, low: float = 0.02, high: float = 0.3) -> None:
        """Sleeps for a random time, which depends on the seed."""
        time.sleep(self.random.uniform(low, high) * self.interface.pace)


class Disturbance:
    """One kind of event that disturbs a run."""

    name: str
    reads = True
    """True if it applies to reading interfaces."""
    writes = True
    """True if it applies to writing interfaces."""
    repeats = False
    """True if rows may be returned twice after it."""
    fills = True
    """True if rows are written during it."""
    process = False
    """True if it requires a separate process."""
    spark = False
    """True if it applies to Spark queries."""
    times = 3
    """Number of events in a run."""
    quick_times = 1

    def options(self) -> dict[str, Any]:
        """Options of the client under test."""
        return {}

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        """Returns the reason why the pair is not run, or None if it is run."""
        if interface.spark and not self.spark:
            return "about a client of the program, and Spark's are in its tasks"
        if isinstance(interface, ReadInterface) and not (self.reads or interface.writes):
            return "about producers"
        if isinstance(interface, WriteInterface) and not self.writes:
            return "about consumers"
        return None

    def before(self, scene: Scene) -> None:
        """Changes the application or the cluster before the application starts."""

    def apply(self, scene: Scene, turn: int) -> None:
        """Disturbs once."""
        raise NotImplementedError


class Nothing(Disturbance):
    name = "none"
    spark = True
    fills = False
    times = 1

    def apply(self, scene: Scene, turn: int) -> None:
        pass


class Rebalance(Disturbance):
    writes = False
    times = 2

    def __init__(self, name: str, **options: Any) -> None:
        self.name, self._options = f"rebalance, {name}", options

    def options(self) -> dict[str, Any]:
        return self._options

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        if isinstance(interface, ReadInterface) and not interface.group:
            return "no member of a group"
        return super().inapplicable(interface, cluster)

    def apply(self, scene: Scene, turn: int) -> None:
        """Lets another member join the group and leave after a while."""
        assert isinstance(scene.program, Application)
        other = Application(
            scene.cluster, scene.topic.name, scene.program.group, scene.random.randrange(1 << 30), self._options
        )
        thread = threading.Thread(target=Poll().run, args=(other,), daemon=True)
        thread.start()
        scene.others.append((thread, other))
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not (other.consumer and _assignment(other)):
            time.sleep(0.05)
        scene.rest(0.1, 0.6)
        if turn % 2:
            other.stopped.set()


def _assignment(app: Application) -> object:
    with suppress(ClosedError, AttributeError):
        return app.consumer.assignment()
    return None


class Wakeup(Disturbance):
    name = "wakeup"
    writes = False
    times = 200
    quick_times = 60

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        if isinstance(interface, ReadInterface) and (not interface.group or interface.process):
            return "no consumer of the program"
        return super().inapplicable(interface, cluster)

    def apply(self, scene: Scene, turn: int) -> None:
        assert isinstance(scene.program, Application)
        if (consumer := scene.program.consumer) is not None:
            with suppress(ClosedError):
                consumer.wakeup()
        scene.rest(0.0, 0.01)


class Cancellation(Disturbance):
    name = "cancellation at each await"
    times = 1
    # Number of cancelled calls in a run; later calls are not cancelled.
    CALLS = 60

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        return super().inapplicable(interface, cluster) or (None if interface.loop else "no event loop")

    def before(self, scene: Scene) -> None:
        cancelled = Cancelled(self.CALLS, scene.random.random() < 0.5, scene.interface.loop or "")
        scene.program.guard = cancelled.call

    def apply(self, scene: Scene, turn: int) -> None:
        time.sleep(0.5)


class Terminated(Disturbance):
    name = "SIGTERM"
    process = True
    repeats = True
    times = 2

    def __init__(self, name: str = "SIGTERM", number: signal.Signals = signal.SIGTERM) -> None:
        self.name, self._number = name, number

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        if interface.name.startswith("samsarrow ") and self._number is not signal.SIGTERM:
            return "the command line has SIGTERM"
        if isinstance(interface, ReadInterface) and not interface.group:
            return "commits nothing"
        return super().inapplicable(interface, cluster)

    def apply(self, scene: Scene, turn: int) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not isinstance(scene.program.consumer, subprocess.Popen):
            time.sleep(0.01)
        before = len(scene.program.snapshot())
        while time.monotonic() < deadline and len(scene.program.snapshot()) == before:
            time.sleep(0.005)
        process = scene.program.consumer
        if isinstance(process, subprocess.Popen):
            process.send_signal(self._number)
            scene.rest(0.05, 0.1)


class PartitionAdded(Disturbance):
    name = "partitions added"
    spark = True
    fills = False

    def apply(self, scene: Scene, turn: int) -> None:
        scene.topic.add_partition()
        if isinstance(scene.interface, ReadInterface):
            scene.topic.fill(scene.topic.partitions * 4)
        scene.rest()


class TopicCreatedAgain(Disturbance):
    name = "topic created again"
    spark = True
    fills = False
    times = 1

    def apply(self, scene: Scene, turn: int) -> None:
        if isinstance(scene.program, Application):
            # Rows that were not returned before the deletion are lost, so the remaining checks cover only returned
            # rows.
            deadline = time.monotonic() + 20
            returned = {row.id for row in scene.program.snapshot()}
            while time.monotonic() < deadline and len(scene.topic.expected & returned) < len(scene.topic.expected) // 3:
                time.sleep(0.01)
                returned = {row.id for row in scene.program.snapshot()}
        scene.topic.delete()
        scene.topic.create(scene.topic.partitions)
        scene.topic.created_again = True
        scene.topic.expected.clear()


class LeaderMoved(Disturbance):
    name = "leader moved"
    spark = True

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        if isinstance(cluster, Apache):
            return "one node"
        return super().inapplicable(interface, cluster)

    def apply(self, scene: Scene, turn: int) -> None:
        for partition in range(scene.topic.partitions):
            scene.cluster.move_leader(scene.topic.name, partition, turn + partition)
        scene.rest()


class Rejected(Disturbance):
    spark = True
    fills = False
    times = 2

    def __init__(self, api: str, error: str, *, reads: bool = True, writes: bool = True, reopens: bool = False) -> None:
        self.name, self._api, self._error = f"{api} rejected or late", api, error
        self.reads, self.writes, self._reopens = reads, writes, reopens

    def before(self, scene: Scene) -> None:
        self._reject(scene, scene.random.randrange(2))

    def apply(self, scene: Scene, turn: int) -> None:
        self._reject(scene, turn)
        if self._reopens:
            scene.program.restart.set()
        scene.rest(0.5, 1.0)

    def _reject(self, scene: Scene, turn: int) -> None:
        if turn % 2:
            scene.cluster.delay(self._api, 0.4)
        else:
            scene.cluster.reject(self._api, self._error)


class LoginRejected(Disturbance):
    name = "login rejected once"
    fills = False
    times = 2
    # The application gets the error, and continues with another consumer if the error is fatal.
    repeats = True

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        if "sasl_mechanism" not in cluster.options():
            return "no logins"
        if interface.name.startswith("samsarrow "):
            return "the command ends with the error"
        return super().inapplicable(interface, cluster)

    def apply(self, scene: Scene, turn: int) -> None:
        scene.cluster.reject_login()
        scene.rest(0.5, 1.0)


class Closed(Disturbance):
    name = "close"
    times = 2
    repeats = True

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        if (
            interface.process
            or interface.loop == "trio"
            or (isinstance(interface, ReadInterface) and not interface.group)
        ):
            return "no other thread or task can close it"
        return super().inapplicable(interface, cluster)

    def apply(self, scene: Scene, turn: int) -> None:
        client = scene.program.consumer
        if client is not None:
            if scene.interface.loop == "asyncio":
                assert scene.program.in_loop is not None
                # Ignores the error that is raised if the event loop ends before the call.
                with suppress(CancelledError):
                    scene.program.in_loop(lambda: client.close(10))
            else:
                client.close(10)
        scene.rest()


class Collected(Disturbance):
    name = "garbage collection"
    times = 2
    repeats = True

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        if interface.process or (isinstance(interface, ReadInterface) and not interface.group):
            return "no client of the program"
        return super().inapplicable(interface, cluster)

    def apply(self, scene: Scene, turn: int) -> None:
        scene.program.closes = False
        scene.program.restart.set()
        scene.rest(0.3, 0.5)
        gc.collect()
        scene.program.closes = True


class FetchRejected(Rejected):
    def __init__(self) -> None:
        super().__init__("Fetch", "TOPIC_AUTHORIZATION_FAILED", writes=False)

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        return super().inapplicable(interface, cluster) or (None if interface.spark else "in runs of Spark")


class DriverKilled(Disturbance):
    name = "driver killed between micro-batches"
    spark = True
    writes = False
    fills = False

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        return super().inapplicable(interface, cluster) or (None if interface.checkpointed else "no checkpoint")

    def apply(self, scene: Scene, turn: int) -> None:
        """Restarts the query from its checkpoint, from which the commit of the last finished micro-batch is removed."""
        before = len(scene.program.snapshot())
        scene.topic.fill(scene.topic.partitions * 40)
        deadline = time.monotonic() + scene.interface.patience
        while time.monotonic() < deadline and len(scene.program.snapshot()) == before:
            time.sleep(0.05)
        scene.program.restart.set()
        scene.rest()


class TaskFailed(Disturbance):
    name = "each task fails once"
    spark = True
    times = 2

    def inapplicable(self, interface: ReadInterface | WriteInterface, cluster: Cluster) -> str | None:
        return super().inapplicable(interface, cluster) or (None if interface.spark else "no tasks of Spark")

    def before(self, scene: Scene) -> None:
        scene.program.fails_tasks = True

    def apply(self, scene: Scene, turn: int) -> None:
        scene.rest()


DISTURBANCES: tuple[Disturbance, ...] = (
    Nothing(),
    Rebalance("range", partition_assignment_strategy="range", heartbeat_interval_ms=200, session_timeout_ms=10000),
    Rebalance(
        "cooperative-sticky",
        partition_assignment_strategy="cooperative-sticky",
        heartbeat_interval_ms=200,
        session_timeout_ms=10000,
    ),
    Rebalance("KIP-848", group_protocol="consumer"),
    Wakeup(),
    Cancellation(),
    Terminated(),
    Terminated("exit", signal.SIGUSR1),
    Terminated("fork", signal.SIGUSR2),
    PartitionAdded(),
    TopicCreatedAgain(),
    LeaderMoved(),
    Rejected("ListOffsets", "TOPIC_AUTHORIZATION_FAILED", writes=False),
    Rejected("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", writes=False, reopens=True),
    FetchRejected(),
    Rejected("Metadata", "UNKNOWN_SERVER_ERROR"),
    Rejected("Produce", "TOPIC_AUTHORIZATION_FAILED", reads=False),
    LoginRejected(),
    Closed(),
    Collected(),
    DriverKilled(),
    TaskFailed(),
)
