"""The embedded broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from types import TracebackType
from typing import Literal, overload
from uuid import UUID

from samsarrow import _core
from samsarrow.testing._checks import in_range
from samsarrow.testing.security import ClientCertificate, Connections, Logins
from samsarrow.types import INT32, Seconds, checked, to_seconds


@dataclass(frozen=True, slots=True)
class TelemetryPush:
    """Metrics that a client pushed (KIP-714).

    Attributes:
        client_id: client id of the client.
        client_instance_id: id that the broker assigned to the client.
        terminating: whether this was the client's last push, sent when it closed.
        compression: compression codec of the push.
        metrics: decompressed bytes of OpenTelemetry's `MetricsData`, which `opentelemetry.proto.metrics.v1.metrics_pb2`
            parses.
    """

    client_id: str
    client_instance_id: UUID
    terminating: bool
    compression: str
    metrics: bytes


# Maximum of the delivery limit and the record locks of share groups. Kafka's maxima are 25 and 10,000.
_MAX_SHARE_LIMIT = 10_000


class Broker:
    """An in-memory Kafka broker that any Kafka client can connect to on loopback.

    It supports topics, records, idempotent and transactional producers, offsets, consumer groups of the classic
    protocol and of KIP-848, and share groups (KIP-932). Times are seconds, or a `timedelta`.

    Args:
        brokers: number of virtual brokers, each on its own port. Partitions are assigned to them in turn.
        topics: number of partitions by topic name, or names of topics with one partition.
        port: port of the first broker. The other brokers use the following ports. With 0, all brokers use free ports.
        auto_create_topics: whether a missing topic is created when a client requests it. It gets one partition.
        group_initial_rebalance_delay: time for which the first rebalance of an empty group waits for more members; 0 by
            default, for fast tests. Kafka waits for 3 seconds.
        group_min_session_timeout: minimum session timeout of a member; 6 by default, as in Kafka.
        group_max_session_timeout: maximum session timeout of a member; 1800 by default, as in Kafka.
        consumer_group_heartbeat_interval: heartbeat interval of members of KIP-848 groups; 0.5 by default, because
            members get their assignment in heartbeat responses. Kafka's default is 5.
        consumer_group_session_timeout: time without a heartbeat after which a member of a KIP-848 group is removed; 45
            by default, as in Kafka.
        share_lock: time for which a member of a share group holds a record; 30 by default, as in Kafka. This and the
            next two arguments are defaults of group configs, such as `share.record.lock.duration.ms`. Heartbeats and
            sessions of share groups have the times of KIP-848 groups.
        share_delivery_limit: number of deliveries after which a record is archived; 5 by default, as in Kafka.
        share_record_locks: maximum number of records of a partition that a share group has in flight; 2000 by default,
            as in Kafka.
        offsets_retention: time for which a group without members keeps its offsets; 7 days by default, as in Kafka.
        transaction_version: level of Kafka's feature `transaction.version`, 0 to 2. With 2, producers that support it
            get a new epoch with each transaction, and add partitions to a transaction by writing to them (KIP-890).
        transaction_max_timeout: maximum transaction timeout of a producer; 900 by default, as in Kafka.
        transaction_marker_delay: time from the end of a transaction until its markers are written to partitions and
            groups; 0 by default. During this time, which is short in Kafka, producers get CONCURRENT_TRANSACTIONS.
        transactional_id_expiration: time after which an unused transactional id is forgotten; 7 days by default, as in
            Kafka.
        kafka_version: the Kafka version to emulate, such as `"2.8"`; 0.8.2 or later. The broker supports exactly the
            request versions of this Kafka, and has its limits and defaults, such as no KIP-848 groups before 4.0. By
            default, the broker supports all versions of all requests that it implements.
        producer_id_expiration: time after which a partition forgets an idempotent producer that does not write; a day
            by default, as in Kafka.
        security: the `security.protocol` of clients: `"PLAINTEXT"`, `"SSL"`, `"SASL_PLAINTEXT"` or `"SASL_SSL"`. With
            TLS, the broker's certificate is signed by a private authority that is created at the start. Clients must
            trust its certificate, `ca_pem`.
        client_auth: whether clients must present a certificate (`client_certificate`): `"none"`, `"requested"` or
            `"required"`, like Kafka's `ssl.client.auth`.
        users: passwords by name of the user, for logins with PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
        sasl_mechanisms: allowed SASL mechanisms; by default all that the broker supports: `"PLAIN"`,
            `"SCRAM-SHA-256"`, `"SCRAM-SHA-512"` and `"OAUTHBEARER"`, which accepts any unsecured JWT, as Kafka does by
            default.
        session_lifetime: time within which a client must reauthenticate, like Kafka's `connections.max.reauth.ms`. A
            client that does not is disconnected at its next request. Unlimited by default.
        telemetry: prefixes of the metrics that clients should push (KIP-714), `[""]` for all metrics. By default, the
            broker behaves like a Kafka broker without a telemetry plugin. `broker.telemetry()` returns the metrics.
        telemetry_interval: time between two pushes of a client.
        telemetry_max_bytes: maximum size of a push, like Kafka's `telemetry.max.bytes`.
        telemetry_delta: whether clients push the increase of counters since the last push, as Kafka requests, instead
            of totals.
        telemetry_compression: allowed compression codecs of pushes, in order of preference.

    Raises:
        OSError: a port is in use.
        ValueError: a number or name is invalid.
    """

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | Iterable[str] | None = None,
        port: int = 0,
        *,
        auto_create_topics: bool = True,
        group_initial_rebalance_delay: Seconds | None = None,
        group_min_session_timeout: Seconds | None = None,
        group_max_session_timeout: Seconds | None = None,
        consumer_group_heartbeat_interval: Seconds | None = None,
        consumer_group_session_timeout: Seconds | None = None,
        share_lock: Seconds | None = None,
        share_delivery_limit: int | None = None,
        share_record_locks: int | None = None,
        offsets_retention: Seconds | None = None,
        transaction_version: int = 2,
        transaction_max_timeout: Seconds | None = None,
        transaction_marker_delay: Seconds | None = None,
        transactional_id_expiration: Seconds | None = None,
        producer_id_expiration: Seconds | None = None,
        kafka_version: str | None = None,
        security: str = "PLAINTEXT",
        client_auth: str = "none",
        users: Mapping[str, str] | None = None,
        sasl_mechanisms: Iterable[str] | None = None,
        session_lifetime: Seconds | None = None,
        telemetry: Iterable[str] | None = None,
        telemetry_interval: Seconds = 300,
        telemetry_max_bytes: int = 1 << 20,
        telemetry_delta: bool = True,
        telemetry_compression: Iterable[str] = ("zstd", "lz4", "gzip", "snappy"),
    ) -> None:
        durations = {
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
        times = {name: seconds for name, seconds in durations.items() if seconds is not None}
        named = _partition_counts(topics)
        port = in_range("port", port, 0, 65_535)
        brokers = in_range("brokers", brokers, 1, 1000)
        if not 0 <= transaction_version <= 2:
            raise ValueError(f"transaction_version={transaction_version}: it must be 0, 1 or 2")
        self._users = dict(users or {})
        self._security, self._client_auth = security.upper(), client_auth
        secured = {
            "protocol": security,
            "client_auth": client_auth,
            "users": self._users,
            "mechanisms": None if sasl_mechanisms is None else list(sasl_mechanisms),
            "session_lifetime": to_seconds(session_lifetime),
        }
        if isinstance(telemetry, str):
            raise ValueError(f"telemetry={telemetry!r}: it must be prefixes in a list, such as [{telemetry!r}]")
        if telemetry_max_bytes < 1:
            raise ValueError(f"telemetry_max_bytes={telemetry_max_bytes}: it must be 1 or more")
        pushed = None
        if telemetry is not None:
            interval, codecs = to_seconds(telemetry_interval) or 0.0, list(telemetry_compression)
            pushed = (list(telemetry), interval, telemetry_max_bytes, telemetry_delta, codecs)
        limits = {"share_delivery_limit": share_delivery_limit, "share_record_locks": share_record_locks}
        for name, limit in limits.items():
            if limit is not None and not 1 <= limit <= _MAX_SHARE_LIMIT:
                raise ValueError(f"{name}={limit}: it must be 1 to {_MAX_SHARE_LIMIT}")
        shares = (to_seconds(share_lock), share_delivery_limit, share_record_locks)
        self._core = _core.Broker(
            brokers, named, port, auto_create_topics, transaction_version, times, kafka_version, secured, pushed, shares
        )
        self._closed = False

    def __repr__(self) -> str:
        # The attribute is missing if the constructor raised.
        if getattr(self, "_closed", True):
            return "<Broker, closed>"
        return f"<Broker bootstrap_servers={self.bootstrap_servers!r} security={self._security!r}>"

    def telemetry(self) -> list[TelemetryPush]:
        """The metrics that clients have pushed (KIP-714), oldest first. Only the last thousand pushes are kept."""
        pushes = self._core.telemetry()
        return [
            TelemetryPush(client, UUID(bytes=bytes(raw)), last, codec, data)
            for client, raw, last, codec, data in pushes
        ]

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, for `bootstrap.servers`."""
        return self._core.bootstrap_servers

    @property
    def ca_pem(self) -> str:
        """The certificate of the broker's authority as PEM, which clients must trust.

        Raises:
            ValueError: the broker does not speak TLS.
        """
        return self._core.ca_pem()

    def client_certificate(self, name: str = "client") -> ClientCertificate:
        """Creates a client certificate with this name, signed by the broker's authority.

        Raises:
            ValueError: the broker does not speak TLS.
        """
        return ClientCertificate(*self._core.client_certificate(name))

    def client_options(self, user: str | None = None, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """The options that a client needs to connect, with `bootstrap.servers`; confluent-kafka takes the same options.

            Producer(**broker.client_options("alice"))

        Args:
            user: user to log in, if the broker requires a login; by default the first of `users`.
            mechanism: login mechanism: `"PLAIN"`, `"SCRAM-SHA-256"` or `"SCRAM-SHA-512"`.

        Raises:
            ValueError: the broker does not have this user.
        """
        options = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self._security}
        if self._security in ("SSL", "SASL_SSL"):
            options["ssl.ca.pem"] = self.ca_pem
            if self._client_auth != "none":
                own = self.client_certificate(user or "client")
                options |= {"ssl.certificate.pem": own.certificate, "ssl.key.pem": own.key}
        if self._security in ("SASL_PLAINTEXT", "SASL_SSL"):
            user = next(iter(self._users), "") if user is None else user
            if user not in self._users:
                raise ValueError(f"there is no user {user!r}: name one of `users`")
            options |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": self._users[user]}
        return options

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic."""
        self._core.create_topic(name, partitions)

    def stop_broker(self, node: int) -> None:
        """Stops one virtual broker as if it crashed, and keeps its data. The first broker has the number 0."""
        self._core.stop_node(node)

    def start_broker(self, node: int) -> None:
        """Starts a stopped broker again, on the same port."""
        self._core.start_node(node)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Makes a broker the leader of a partition. From now on, the other brokers return NOT_LEADER_OR_FOLLOWER."""
        self._core.move_leader(topic, partition, node)

    def move_coordinator(self, group: str, node: int) -> None:
        """Makes a broker the coordinator of a group. From now on, the other brokers return NOT_COORDINATOR.

        Offsets, and members with an assignment, move to the new coordinator. An unfinished rebalance starts again.
        """
        self._core.move_coordinator(group, node)

    def expire_locks(self, group: str) -> None:
        """Ends all acquisition locks of a share group, as if their time had passed.

        Its records become available to other members. Records at the delivery limit are archived.

        Raises:
            ValueError: no share group with this id has acquired records.
        """
        self._core.expire_locks(group)

    def move_transaction_coordinator(self, transactional_id: str, node: int) -> None:
        """Makes a broker the coordinator of a transactional id. From now on, the other brokers return NOT_COORDINATOR.

        An open transaction stays open.
        """
        self._core.move_transaction_coordinator(transactional_id, node)

    def transaction_state(self, transactional_id: str) -> str | None:
        """Kafka's name of a transactional id's state, such as `"Ongoing"`; None for an unknown id."""
        return self._core.transaction_state(transactional_id)

    def fence(self, transactional_id: str) -> None:
        """Fences the producer of a transactional id, as `fence_producers` or a second producer with the same id does.

        Aborts an open transaction.

        Raises:
            ValueError: the id is unknown.
            OSError: the last transaction of the id is not complete yet.
        """
        self._core.fence(transactional_id)

    def stale_metadata(self, times: int | None = 1, *, without: Iterable[str] = ()) -> None:
        """Freezes the metadata that clients see at its current state.

            broker.stale_metadata(times=2)
            broker.move_leader("flights", 0, 1)  # clients see it from the third response on

        Args:
            times: number of responses; None for all, until `heal`.
            without: topics that are missing in these responses, in addition to topics that are created later.
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
        """Makes requests fail.

            broker.fail("OffsetCommit", error="NOT_COORDINATOR", times=2)
            broker.fail("Fetch", drop="after", node=1)

        Several faults of one API take effect one after another, in the order of the calls.

        Args:
            api: Kafka's name of the API, such as `"Produce"` or `"JoinGroup"`.
            error: Kafka's name of the error for the whole response, such as `"NOT_COORDINATOR"`; the request is not
                handled, unless `handled` is set.
            times: number of requests; None for all, until `heal`.
            delay: time for which the request waits before it is handled, or before another fault of this call takes
                effect.
            drop: `"before"` closes the connection without handling the request; `"after"` handles it and closes the
                connection without a response.
            garbage: whether the response consists of random bytes. The request is handled.
            node: broker to whose requests the fault applies; by default all brokers.
            handled: whether the request is handled (records are written, offsets committed) although the response has
                `error`, as from a broker that fails after handling.

        Raises:
            ValueError: a name is unknown (the message has the most similar name), or the call has no fault, or more
                than one.
        """
        if times is not None and times < 1:
            raise ValueError(f"times={times}: it must be 1 or more, or None for all until heal()")
        self._core.fail(api, error, times, to_seconds(delay), drop, garbage, node, handled)

    def alter_logins(
        self,
        *,
        step: int | None = None,
        times: int | None = 1,
        node: int | None = None,
        error: str | None = None,
        message: str | None = None,
        mechanisms: Iterable[str] | None = None,
        token: bytes | None = None,
        replace: tuple[str, bytes] | None = None,
        session_lifetime: Seconds | None = None,
    ) -> None:
        """Changes the responses to logins, to emulate a hostile broker.

            broker.alter_logins(replace=("i=[0-9]+", b"i=1"))  # SCRAM that hashes a password once
            broker.alter_logins(step=2, token=b"v=AAAA", times=None)  # a broker that does not know the password

        Args:
            step: number of the response in the login: 0 is the response to SaslHandshake, 1 the response to the first
                token of the mechanism. None for all responses.
            times: number of responses; None for all, until `heal`.
            node: broker whose responses are altered; by default all brokers.
            error: Kafka's name of the error to return instead of the actual one. An error in a successful response
                makes the broker reject the client. With `"NONE"` instead of an actual error, the client is still
                rejected.
            message: text of the error.
            mechanisms: mechanisms in the response to SaslHandshake.
            token: token of the mechanism.
            replace: a regular expression and the replacement of its matches in the token; `$1` is its first group.
                Responses without a match are unchanged and do not count in `times`.
            session_lifetime: session lifetime in the response. The session still ends at its original time.

        Raises:
            ValueError: a name is unknown, the broker does not exist, the regular expression is invalid, or nothing is
                to be changed.
        """
        if times is not None and times < 1:
            raise ValueError(f"times={times}: it must be 1 or more, or None for all until heal()")
        altered = {
            "step": step,
            "node": node,
            "times": times,
            "error": error,
            "message": message,
            "mechanisms": None if mechanisms is None else list(mechanisms),
            "token": token,
            "replace": replace,
            "session_lifetime": to_seconds(session_lifetime),
        }
        self._core.alter_logins(altered)

    def connections(self) -> Connections:
        """Counts of client connections so far."""
        return Connections(*self._core.connections())

    def logins(self) -> Logins:
        """Counts of logins so far."""
        return Logins(*self._core.logins())

    def heal(self, api: str | None = None) -> None:
        """Removes the faults of one API, or of all.

        `Metadata` includes the effect of `stale_metadata`; `SaslHandshake` and `SaslAuthenticate` include that of
        `alter_logins`.
        """
        self._core.heal(api)

    @overload
    def requests(self, api: None = None) -> dict[str, int]: ...
    @overload
    def requests(self, api: str) -> int: ...
    def requests(self, api: str | None = None) -> dict[str, int] | int:
        """The number of requests so far, by API or of one API. It includes requests with a fault."""
        return self._core.requests() if api is None else self._core.requests_of(api)

    def close(self) -> None:
        """Stops the broker and frees its ports. May be called again."""
        if not self._closed:
            self._closed = True
            self._core.close()

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _partition_counts(topics: Mapping[str, int] | Iterable[str] | None) -> list[tuple[str, int]]:
    """Returns the topics with their numbers of partitions."""
    example = 'topics must be numbers of partitions by name, such as {"orders": 2}, or names in a list'
    if topics is None:
        return []
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"{example}, not {topics!r}")
    counts = []
    for name, count in topics.items() if isinstance(topics, Mapping) else ((name, 1) for name in topics):
        if not isinstance(name, str):
            raise TypeError(f"{example}: got {name!r}")
        try:
            counts.append((name, checked(index(count), f"the number of partitions of topic {name}", 1, INT32)))
        except TypeError:
            raise TypeError(f"{example}: the number of partitions of {name} is {count!r}") from None
    return counts
