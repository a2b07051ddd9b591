"""The embedded broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Literal, overload

from samsarrow import _core
from samsarrow.types import Seconds, to_seconds


class Broker:
    """A Kafka broker in memory: it speaks the wire protocol on loopback, so any Kafka client can use it.

    It serves topics, records, idempotent and transactional producers, offsets, and consumer groups of the classic
    protocol and of KIP-848. Times are seconds, or a `timedelta`.

    Args:
        brokers: how many virtual brokers, each on a port of its own; they lead the partitions in turn.
        topics: number of partitions by name of topic.
        port: of the first broker, the others follow; 0 takes free ones.
        auto_create_topics: whether a topic that is asked for and does not exist is created, with one partition.
        group_initial_rebalance_delay: how long the first rebalance of an empty group waits for more members. Kafka
            waits for 3 seconds; here it is 0 unless told, so that tests are quick.
        group_min_session_timeout: the shortest session timeout that a member may ask for; 6 unless told, as Kafka.
        group_max_session_timeout: the longest; 1800 unless told, as Kafka.
        consumer_group_heartbeat_interval: how often members of groups of KIP-848 are told to send heartbeats; 0.5
            unless told, where Kafka has 5, as members learn from the answers what is theirs.
        consumer_group_session_timeout: how long they may be silent; 45 unless told, as Kafka.
        offsets_retention: how long a group without members keeps its offsets; 7 days unless told, as Kafka.
        transaction_version: level of Kafka's feature `transaction.version`, 0 to 2. From 2 on, producers that can do so
            have a new epoch with each transaction, and add partitions to it by writing to them (KIP-890).
        transaction_max_timeout: the longest timeout that a transactional producer may ask for; 900 unless told, as
            Kafka.
        transaction_marker_delay: how long after its end a transaction is complete in its partitions and groups; 0
            unless told. Kafka takes a moment, in which producers are told CONCURRENT_TRANSACTIONS.
        transactional_id_expiration: how long a transactional id is remembered; 7 days unless told, as Kafka.
        kafka_version: the Kafka to pass for, such as `"2.8"`: the broker names and takes the versions of each request
            that this Kafka has, refuses others as it does, and has its limits and defaults, such as no groups of
            KIP-848 before 4.0. From 0.8.2 on. Without it, every version of every request that the broker knows.
        producer_id_expiration: how long a partition remembers an idempotent producer; a day unless told, as Kafka.

    Raises:
        OSError: the port is taken.
        ValueError: a number or name that cannot be.
    """

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        port: int = 0,
        *,
        auto_create_topics: bool = True,
        group_initial_rebalance_delay: Seconds | None = None,
        group_min_session_timeout: Seconds | None = None,
        group_max_session_timeout: Seconds | None = None,
        consumer_group_heartbeat_interval: Seconds | None = None,
        consumer_group_session_timeout: Seconds | None = None,
        offsets_retention: Seconds | None = None,
        transaction_version: int = 2,
        transaction_max_timeout: Seconds | None = None,
        transaction_marker_delay: Seconds | None = None,
        transactional_id_expiration: Seconds | None = None,
        producer_id_expiration: Seconds | None = None,
        kafka_version: str | None = None,
    ) -> None:
        given = {
            "group_initial_rebalance_delay": to_seconds(group_initial_rebalance_delay),
            "group_min_session_timeout": to_seconds(group_min_session_timeout),
            "group_max_session_timeout": to_seconds(group_max_session_timeout),
            "consumer_group_heartbeat_interval": to_seconds(consumer_group_heartbeat_interval),
            "consumer_group_session_timeout": to_seconds(consumer_group_session_timeout),
            "offsets_retention": to_seconds(offsets_retention),
            "transaction_max_timeout": to_seconds(transaction_max_timeout),
            "transaction_marker_delay": to_seconds(transaction_marker_delay),
            "transactional_id_expiration": to_seconds(transactional_id_expiration),
            "producer_id_expiration": to_seconds(producer_id_expiration),
        }
        times = {name: seconds for name, seconds in given.items() if seconds is not None}
        named = list((topics or {}).items())
        if not 0 <= transaction_version <= 2:
            raise ValueError(f"transaction_version={transaction_version}: it must be 0, 1 or 2")
        self._core = _core.Broker(brokers, named, port, auto_create_topics, transaction_version, times, kafka_version)
        self._closed = False

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, as clients take it."""
        return self._core.bootstrap_servers

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic."""
        self._core.create_topic(name, partitions)

    def stop_broker(self, node: int) -> None:
        """Ends one virtual broker, as a crash would; what it holds is kept. The first has the number 0."""
        self._core.stop_node(node)

    def start_broker(self, node: int) -> None:
        """Starts a stopped broker again, on its port."""
        self._core.start_node(node)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Makes a broker the leader of a partition: others answer NOT_LEADER_OR_FOLLOWER from now on."""
        self._core.move_leader(topic, partition, node)

    def move_coordinator(self, group: str, node: int) -> None:
        """Makes a broker the coordinator of a group: others answer NOT_COORDINATOR from now on.

        Offsets, and members that have been assigned to, come along. A rebalance that is not finished is begun again.
        """
        self._core.move_coordinator(group, node)

    def move_transaction_coordinator(self, transactional_id: str, node: int) -> None:
        """Makes a broker the coordinator of a transactional id: others answer NOT_COORDINATOR from now on.

        A transaction that is open stays so.
        """
        self._core.move_transaction_coordinator(transactional_id, node)

    def transaction_state(self, transactional_id: str) -> str | None:
        """Kafka's name of a transactional id's state, such as `"Ongoing"`; None for an id that is not known."""
        return self._core.transaction_state(transactional_id)

    def fence(self, transactional_id: str) -> None:
        """Fences the producer of a transactional id, as an administrator does, or a second producer with that id.

        A transaction that is open is aborted.

        Raises:
            ValueError: the id is not known.
            OSError: its last transaction is not complete yet.
        """
        self._core.fence(transactional_id)

    def stale_metadata(self, times: int | None = 1, *, without: Iterable[str] = ()) -> None:
        """Lets metadata say what is so at this moment, whatever comes after it.

            broker.stale_metadata(times=2)
            broker.move_leader("flights", 0, 1)  # clients learn of it from the third answer on

        Args:
            times: how many answers; None: all, until `heal`.
            without: topics that these answers do not know. Nor do they know topics that are created later.
        """
        if times is not None and times < 1:
            raise ValueError(f"times={times}: it must be 1 or more, or None for all until heal()")
        self._core.stale_metadata(times, list(without))

    def fail(
        self,
        api: str,
        *,
        error: str | None = None,
        times: int | None = 1,
        delay: Seconds | None = None,
        drop: Literal["before", "after"] | None = None,
        garbage: bool = False,
        node: int | None = None,
        handled: bool = False,
    ) -> None:
        """Lets requests go wrong.

            broker.fail("OffsetCommit", error="NOT_COORDINATOR", times=2)
            broker.fail("Fetch", drop="after", node=1)

        Faults of one API take effect one after the other, in the order in which they were asked for.

        Args:
            api: Kafka's name of the API, such as `"Produce"` or `"JoinGroup"`.
            error: Kafka's name of the error that all of the answer carries, such as `"NOT_COORDINATOR"`; the request is
                not handled, unless `handled` says so.
            times: how many requests; None: all, until `heal`.
            delay: how long the request waits before it is handled, or before it meets the fault that is given too.
            drop: `"before"` closes the connection and the request is not handled; `"after"` handles it and closes the
                connection without an answer.
            garbage: the request is handled, and answered with bytes that mean nothing.
            node: only requests to this broker.
            handled: the request is handled (records are written, offsets committed), and answered with `error` all the
                same, as a broker does that fails between the two.

        Raises:
            ValueError: an unknown name (it names the nearest), nothing that could fail, or more than one thing.
        """
        if times is not None and times < 1:
            raise ValueError(f"times={times}: it must be 1 or more, or None for all until heal()")
        self._core.fail(api, error, times, to_seconds(delay), drop, garbage, node, handled)

    def heal(self, api: str | None = None) -> None:
        """Ends the faults of one API, or of all; what `stale_metadata` does ends with those of `Metadata`."""
        self._core.heal(api)

    @overload
    def requests(self, api: None = None) -> dict[str, int]: ...
    @overload
    def requests(self, api: str) -> int: ...
    def requests(self, api: str | None = None) -> dict[str, int] | int:
        """How many requests have come so far, by API or of one; those that met a fault count too."""
        return self._core.requests() if api is None else self._core.requests_of(api)

    def close(self) -> None:
        """Ends the broker and frees its ports. May be called again."""
        if not self._closed:
            self._closed = True
            self._core.close()

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
