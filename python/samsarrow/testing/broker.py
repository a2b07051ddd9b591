"""The embedded broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, overload
from uuid import UUID

from samsarrow import _core
from samsarrow.testing.security import ClientCertificate, Connections, Logins
from samsarrow.types import Seconds, to_seconds


@dataclass(frozen=True, slots=True)
class TelemetryPush:
    """Metrics that a client pushed (KIP-714).

    Attributes:
        client_id: what the client calls itself.
        client_instance_id: the id that the broker gave it.
        terminating: whether it was its last push, made as it closed.
        compression: how it was compressed.
        metrics: OpenTelemetry's `MetricsData`, decompressed: `opentelemetry.proto.metrics.v1.metrics_pb2` reads it.
    """

    client_id: str
    client_instance_id: UUID
    terminating: bool
    compression: str
    metrics: bytes


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
            waits for 3 seconds; here it is 0 by default, so that tests are quick.
        group_min_session_timeout: the shortest session timeout that a member may ask for; 6 by default, as in Kafka.
        group_max_session_timeout: the longest; 1800 by default, as in Kafka.
        consumer_group_heartbeat_interval: how often members of groups of KIP-848 are asked to send heartbeats; 0.5
            by default, where Kafka has 5, as members learn from the answers what is theirs.
        consumer_group_session_timeout: how long they may be silent; 45 by default, as in Kafka.
        offsets_retention: how long a group without members keeps its offsets; 7 days by default, as in Kafka.
        transaction_version: level of Kafka's feature `transaction.version`, 0 to 2. From 2 on, producers that can do so
            have a new epoch with each transaction, and add partitions to it by writing to them (KIP-890).
        transaction_max_timeout: the longest timeout that a transactional producer may ask for; 900 by default, as
            Kafka.
        transaction_marker_delay: how long after its end a transaction is complete in its partitions and groups; 0
            by default. Kafka takes a moment, in which producers get CONCURRENT_TRANSACTIONS.
        transactional_id_expiration: how long a transactional id is remembered; 7 days by default, as in Kafka.
        kafka_version: the Kafka to pass for, such as `"2.8"`: the broker names and takes the versions of each request
            that this Kafka has, refuses others as it does, and has its limits and defaults, such as no groups of
            KIP-848 before 4.0. From 0.8.2 on. Without it, every version of every request that the broker knows.
        producer_id_expiration: how long a partition remembers an idempotent producer; a day by default, as in Kafka.
        security: how clients must speak to it, as their `security.protocol`: `"PLAINTEXT"`, `"SSL"`, `"SASL_PLAINTEXT"`
            or `"SASL_SSL"`. Over TLS the broker has a certificate of an authority of its own, made at the start, which
            clients must trust: `ca_pem`.
        client_auth: whether clients show a certificate (`client_certificate`): `"none"`, `"requested"` or `"required"`,
            as Kafka's `ssl.client.auth`.
        users: passwords by name, for logins with PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
        sasl_mechanisms: how clients may log in; by default all that the broker knows: `"PLAIN"`, `"SCRAM-SHA-256"`,
            `"SCRAM-SHA-512"` and `"OAUTHBEARER"`, which takes unsecured JWTs of anybody, as Kafka does by default.
        session_lifetime: after which a client must have logged in again, or is disconnected at its next request, as
            Kafka's `connections.max.reauth.ms`; no end by default.
        telemetry: prefixes of the metrics that clients are to push (KIP-714), `[""]` for all, as a Kafka with a plugin
            for them; without it clients hear nothing of that, as of a Kafka without one. `broker.telemetry()` has them.
        telemetry_interval: between the pushes of a client.
        telemetry_max_bytes: of a push, as Kafka's `telemetry.max.bytes`.
        telemetry_delta: whether counters are pushed as what they grew by since the last push, as Kafka asks for.
        telemetry_compression: how pushes may be compressed, the best first.

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
        self._core = _core.Broker(
            brokers, named, port, auto_create_topics, transaction_version, times, kafka_version, secured, pushed
        )
        self._closed = False

    def telemetry(self) -> list[TelemetryPush]:
        """What clients have pushed (KIP-714), the oldest first; the last thousand pushes are kept."""
        pushes = self._core.telemetry()
        return [
            TelemetryPush(client, UUID(bytes=bytes(raw)), last, codec, data)
            for client, raw, last, codec, data in pushes
        ]

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, as clients take it."""
        return self._core.bootstrap_servers

    @property
    def ca_pem(self) -> str:
        """The certificate of the broker's authority: what clients must trust.

        Raises:
            ValueError: the broker does not speak TLS.
        """
        return self._core.ca_pem()

    def client_certificate(self, name: str = "client") -> ClientCertificate:
        """A new certificate for a client of this name, of the broker's authority.

        Raises:
            ValueError: the broker does not speak TLS.
        """
        return ClientCertificate(*self._core.client_certificate(name))

    def client_options(self, user: str | None = None, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """What a client needs to come in, `bootstrap.servers` among it; confluent-kafka takes the same options.

            Producer(**broker.client_options("alice"))

        Args:
            user: who logs in, where there is a login; by default the first of `users`.
            mechanism: how: `"PLAIN"`, `"SCRAM-SHA-256"` or `"SCRAM-SHA-512"`.

        Raises:
            ValueError: there is no such user.
        """
        options = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self._security}
        if self._security in ("SSL", "SASL_SSL"):
            options["ssl.ca.pem"] = self.ca_pem
            if self._client_auth != "none":
                shown = self.client_certificate(user or "client")
                options |= {"ssl.certificate.pem": shown.certificate, "ssl.key.pem": shown.key}
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
        """Changes what clients are answered when they log in, as a hostile broker would.

            broker.alter_logins(replace=("i=[0-9]+", b"i=1"))  # SCRAM that hashes a password once
            broker.alter_logins(step=2, token=b"v=AAAA", times=None)  # a broker that does not know the password

        Args:
            step: which answer: 0 is that to SaslHandshake, 1 that to the mechanism's first token, and so on. None: all.
            times: how many answers; None: all, until `heal`.
            node: only those of this broker.
            error: Kafka's name of another error. One where there was none refuses the client; `"NONE"` where there was
                one leaves it refused.
            message: the text of the error.
            mechanisms: the names in the answer to SaslHandshake.
            token: the mechanism's token.
            replace: a regular expression and what comes in place of what it finds in the token; `$1` is what its first
                group has found. Answers in which it finds nothing are left as they are, and not counted.
            session_lifetime: the session lifetime that the client is given; it ends when it would have.

        Raises:
            ValueError: an unknown name, no such broker, no regular expression, or nothing that could change.
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
        """How clients connected so far."""
        return Connections(*self._core.connections())

    def logins(self) -> Logins:
        """How logins went so far."""
        return Logins(*self._core.logins())

    def heal(self, api: str | None = None) -> None:
        """Ends the faults of one API, or of all.

        What `stale_metadata` does ends with those of `Metadata`, what `alter_logins` does with those of `SaslHandshake`
        and `SaslAuthenticate`.
        """
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
