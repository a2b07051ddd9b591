"""The exceptions: `KafkaError`, the client's own errors, and one class for each error of the protocol."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from samsarrow._core import BatchDelivery
    from samsarrow.types import PartOutcome, TopicPartition


class KafkaError(Exception):
    """The base of all Kafka errors.

    Attributes:
        name: name of the error: Kafka's own for an error of the protocol.
        code: the protocol's error code, None for an error of the client.
        retriable: whether the same call may succeed later.
        abortable: whether the transaction must be aborted, after which the producer can continue (KIP-1050).
        fatal: whether this client can never succeed.
        partitions: the error of each failed partition, if a call on several partitions failed in part.
        outcomes: the result of each run of rows, if rows of a `send_batch` were not delivered.
        delivery: the pending result of the rows that were queued, if a `send_batch` failed after its first rows.
    """

    name: str = "KAFKA_ERROR"
    code: int | None = None
    retriable: bool = False
    abortable: bool = False
    fatal: bool = False
    partitions: Mapping[TopicPartition, KafkaError] = MappingProxyType({})
    outcomes: Sequence[PartOutcome] = ()
    delivery: BatchDelivery | None = None

    def _state(self) -> dict[str, Any]:
        """Returns the attributes that other processes can have; a pending result belongs to its own."""
        return {name: value for name, value in vars(self).items() if name != "delivery"}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, self._state()

    def __copy__(self) -> Self:
        make, arguments, state = self.__reduce__()
        return self._completed(make(*arguments), state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        make, arguments, state = self.__reduce__()
        # Errors of several partitions are each other's attributes: the copy exists before they are copied.
        copied = memo[id(self)] = make(*copy.deepcopy(arguments, memo))
        return self._completed(copied, copy.deepcopy(state, memo))

    def _completed(self, copied: Self, state: dict[str, Any]) -> Self:
        vars(copied).update(state)
        if self.delivery is not None:
            copied.delivery = self.delivery
        return copied


class RetriableError(KafkaError):
    """A temporary error: the same call may succeed later. The base of all such errors."""

    name = "RETRIABLE"
    retriable = True


class AuthorizationError(KafkaError):
    """ACLs deny access to this user. The base of the errors that name the resource."""

    name = "AUTHORIZATION"


class FencedError(KafkaError):
    """Another client has taken over this one's transactional id, instance id or membership."""

    name = "FENCED"


class KafkaTimeoutError(RetriableError, TimeoutError):
    """An operation did not finish in time; the message has its last error.

    This is a timeout of the client; `RequestTimedOutError` is a timeout of a broker.
    """

    name = "TIMEOUT"


class KafkaConnectionError(RetriableError, ConnectionError):
    """A broker cannot be reached, or the connection broke.

    If a broker lost its connection to another broker, it returns `NetworkError`.
    """

    name = "CONNECTION"


class BootstrapResolutionError(KafkaError):
    """No name in `bootstrap.servers` could be resolved within `bootstrap.resolve.timeout.ms` (KIP-909).

    All later calls of the client raise it as well.
    """

    name = "BOOTSTRAP_RESOLUTION"
    fatal = True


class KafkaProtocolError(KafkaError):
    """The server does not speak Kafka, or not correctly."""

    name = "PROTOCOL"
    fatal = True


class TlsError(KafkaError):
    """A TLS handshake failed permanently; the message names the problem and the setting to change."""

    name = "TLS"
    fatal = True


class AuthenticationError(KafkaError):
    """A broker rejected the login, or could not prove that it knows the password."""

    name = "AUTHENTICATION"
    fatal = True


class ClosedError(KafkaError):
    """The client is closed."""

    name = "CLOSED"
    fatal = True


class WakeupError(KafkaError):
    """`Consumer.wakeup` was called; the next poll continues."""

    name = "WAKEUP"


class ForkError(KafkaError):
    """A client was used in a process other than the one that created it."""

    name = "FORK"
    fatal = True


class ConfigurationError(KafkaError, ValueError):
    """An option or argument, or a combination of them, is invalid."""

    name = "CONFIGURATION"


class IllegalStateError(KafkaError, RuntimeError):
    """The call is not allowed in the current state of the client, such as a commit without a transaction."""

    name = "ILLEGAL_STATE"


class RejectedWithOthersError(RetriableError):
    """The record was rejected with its batch because of another record in it; the record itself is valid."""

    name = "REJECTED_WITH_OTHERS"


class TransactionAbortedError(KafkaError):
    """The record, or the offsets, were dropped unsent with their transaction."""

    name = "TRANSACTION_ABORTED"
    abortable = True


class CorruptRecordError(KafkaError):
    """The client found bytes that are not valid record batches.

    `CorruptMessageError` is a broker's error for a batch that it received.
    """

    name = "CORRUPT_RECORD"


class BadValueError(KafkaError, ValueError):
    """A value cannot be read with its schema, or a row cannot be written with it.

    Attributes:
        row: index of the row, from 0 on.
        schema_id: id, GUID or fingerprint of the writer's schema; None if the value names none.
        field: the field, as `user.city` or `items[3].sku`; empty for the whole value.
        reason: what is wrong.
        partition: partition of a consumer's record; None for `decode_values`.
        offset: offset of a consumer's record. To skip the record, seek to the next offset.
    """

    name = "BAD_VALUE"
    row: int = 0
    schema_id: int | str | None = None
    field: str = ""
    reason: str = ""
    partition: TopicPartition | None = None
    offset: int | None = None


class RegistryError(KafkaError):
    """A schema registry cannot be reached, or rejects the request. `retriable` says whether a retry may succeed.

    Attributes:
        url: URL of the registry.
        status: its HTTP status; None without a response.
    """

    name = "REGISTRY"
    url: str = ""
    status: int | None = None


class SchemaNotFoundError(KafkaError, LookupError):
    """A schema registry does not have the schema, subject or version, or not all referenced schemas."""

    name = "SCHEMA_NOT_FOUND"


class SchemaIncompatibleError(KafkaError):
    """A schema is incompatible with earlier versions of its subject.

    Attributes:
        reasons: the registry's reasons.
    """

    name = "SCHEMA_INCOMPATIBLE"
    reasons: Sequence[str] = ()


class OffsetStorageWarning(UserWarning):
    """A client is configured to commit offsets to one storage and to fetch them from the other."""


def error_of(
    class_name: str, text: str, code: int | None, retriable: bool, fatal: bool, abortable: bool = False
) -> KafkaError:
    """The exception for an error of the core. A code that has no class of its own becomes a plain `KafkaError`."""
    found = globals().get(class_name)
    error = found(text) if isinstance(found, type) and issubclass(found, KafkaError) else KafkaError(text)
    error.code, error.retriable, error.fatal, error.abortable = code, retriable, fatal, abortable
    return error


# Below: the protocol's errors, by `make generate` from the table in rust/wire.


class UnknownServerError(KafkaError):
    """The broker hit an error it did not expect; its log says more."""

    name = "UNKNOWN_SERVER_ERROR"
    code = -1


class OffsetOutOfRangeError(KafkaError):
    """The offset is outside the partition's log."""

    name = "OFFSET_OUT_OF_RANGE"
    code = 1


class CorruptMessageError(RetriableError):
    """The broker found a record batch whose checksum or size is wrong."""

    name = "CORRUPT_MESSAGE"
    code = 2


class UnknownTopicOrPartitionError(RetriableError):
    """The broker does not have this topic or partition."""

    name = "UNKNOWN_TOPIC_OR_PARTITION"
    code = 3


class InvalidFetchSizeError(KafkaError):
    """The fetch size is not valid."""

    name = "INVALID_FETCH_SIZE"
    code = 4


class LeaderNotAvailableError(RetriableError):
    """The partition has no leader at the moment."""

    name = "LEADER_NOT_AVAILABLE"
    code = 5


class NotLeaderOrFollowerError(RetriableError):
    """This broker is not the leader or a replica of the partition."""

    name = "NOT_LEADER_OR_FOLLOWER"
    code = 6


class RequestTimedOutError(RetriableError):
    """The request was not finished in its time."""

    name = "REQUEST_TIMED_OUT"
    code = 7


class BrokerNotAvailableError(KafkaError):
    """The broker is not available."""

    name = "BROKER_NOT_AVAILABLE"
    code = 8


class ReplicaNotAvailableError(RetriableError):
    """The replica is not available."""

    name = "REPLICA_NOT_AVAILABLE"
    code = 9


class MessageTooLargeError(KafkaError):
    """The record batch is larger than the topic allows."""

    name = "MESSAGE_TOO_LARGE"
    code = 10


class StaleControllerEpochError(KafkaError):
    """The controller moved."""

    name = "STALE_CONTROLLER_EPOCH"
    code = 11


class OffsetMetadataTooLargeError(KafkaError):
    """The metadata of the committed offset is too long."""

    name = "OFFSET_METADATA_TOO_LARGE"
    code = 12


class NetworkError(RetriableError):
    """The broker disconnected before it sent a response."""

    name = "NETWORK_EXCEPTION"
    code = 13


class CoordinatorLoadInProgressError(RetriableError):
    """The coordinator is still loading its state."""

    name = "COORDINATOR_LOAD_IN_PROGRESS"
    code = 14


class CoordinatorNotAvailableError(RetriableError):
    """The group or transaction has no coordinator at the moment."""

    name = "COORDINATOR_NOT_AVAILABLE"
    code = 15


class NotCoordinatorError(RetriableError):
    """This broker is not the coordinator."""

    name = "NOT_COORDINATOR"
    code = 16


class InvalidTopicError(KafkaError):
    """The topic name is not valid or the topic is internal."""

    name = "INVALID_TOPIC_EXCEPTION"
    code = 17


class RecordListTooLargeError(KafkaError):
    """The request holds more records than a segment can."""

    name = "RECORD_LIST_TOO_LARGE"
    code = 18


class NotEnoughReplicasError(RetriableError):
    """Fewer replicas are in sync than min.insync.replicas requires."""

    name = "NOT_ENOUGH_REPLICAS"
    code = 19


class NotEnoughReplicasAfterAppendError(RetriableError):
    """Records were written, but to fewer in-sync replicas than required."""

    name = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    code = 20


class InvalidRequiredAcksError(KafkaError):
    """Acks must be 0, 1 or -1."""

    name = "INVALID_REQUIRED_ACKS"
    code = 21


class IllegalGenerationError(KafkaError):
    """The group is in another generation."""

    name = "ILLEGAL_GENERATION"
    code = 22


class InconsistentGroupProtocolError(KafkaError):
    """The member's protocols have nothing in common with the group's."""

    name = "INCONSISTENT_GROUP_PROTOCOL"
    code = 23


class InvalidGroupIdError(KafkaError):
    """The group id is not valid."""

    name = "INVALID_GROUP_ID"
    code = 24


class UnknownMemberIdError(KafkaError):
    """This member is not in the group."""

    name = "UNKNOWN_MEMBER_ID"
    code = 25


class InvalidSessionTimeoutError(KafkaError):
    """The session timeout is outside what the broker allows."""

    name = "INVALID_SESSION_TIMEOUT"
    code = 26


class RebalanceInProgressError(KafkaError):
    """The group is rebalancing; join again."""

    name = "REBALANCE_IN_PROGRESS"
    code = 27


class InvalidCommitOffsetSizeError(KafkaError):
    """The offsets to commit are too large."""

    name = "INVALID_COMMIT_OFFSET_SIZE"
    code = 28


class TopicAuthorizationFailedError(AuthorizationError):
    """Not authorized for the topic."""

    name = "TOPIC_AUTHORIZATION_FAILED"
    code = 29
    fatal = True


class GroupAuthorizationFailedError(AuthorizationError):
    """Not authorized for the group."""

    name = "GROUP_AUTHORIZATION_FAILED"
    code = 30
    fatal = True


class ClusterAuthorizationFailedError(AuthorizationError):
    """Not authorized for the cluster."""

    name = "CLUSTER_AUTHORIZATION_FAILED"
    code = 31
    fatal = True


class InvalidTimestampError(KafkaError):
    """The timestamp is outside what the topic allows."""

    name = "INVALID_TIMESTAMP"
    code = 32


class UnsupportedSaslMechanismError(AuthenticationError):
    """The broker does not support this SASL mechanism."""

    name = "UNSUPPORTED_SASL_MECHANISM"
    code = 33


class IllegalSaslStateError(AuthenticationError):
    """SASL is not in the state for this request."""

    name = "ILLEGAL_SASL_STATE"
    code = 34
    fatal = False


class UnsupportedVersionError(KafkaError):
    """The broker does not support this version of the request."""

    name = "UNSUPPORTED_VERSION"
    code = 35
    fatal = True


class TopicAlreadyExistsError(KafkaError):
    """The topic exists already."""

    name = "TOPIC_ALREADY_EXISTS"
    code = 36


class InvalidPartitionsError(KafkaError):
    """The number of partitions is not valid."""

    name = "INVALID_PARTITIONS"
    code = 37


class InvalidReplicationFactorError(KafkaError):
    """The replication factor is below 1 or above the number of brokers."""

    name = "INVALID_REPLICATION_FACTOR"
    code = 38


class InvalidReplicaAssignmentError(KafkaError):
    """The replica assignment is not valid."""

    name = "INVALID_REPLICA_ASSIGNMENT"
    code = 39


class InvalidConfigError(KafkaError):
    """The configuration is not valid."""

    name = "INVALID_CONFIG"
    code = 40


class NotControllerError(RetriableError):
    """This broker is not the controller."""

    name = "NOT_CONTROLLER"
    code = 41


class InvalidRequestError(KafkaError):
    """The request contradicts itself or the protocol."""

    name = "INVALID_REQUEST"
    code = 42


class UnsupportedForMessageFormatError(KafkaError):
    """The message format on the broker does not support the request."""

    name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"
    code = 43


class PolicyViolationError(KafkaError):
    """A policy of the cluster rejects the request."""

    name = "POLICY_VIOLATION"
    code = 44


class OutOfOrderSequenceNumberError(KafkaError):
    """The broker received a sequence number out of order."""

    name = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    code = 45


class DuplicateSequenceNumberError(KafkaError):
    """The broker has this sequence number already."""

    name = "DUPLICATE_SEQUENCE_NUMBER"
    code = 46


class InvalidProducerEpochError(FencedError):
    """The producer's epoch is older than the newest epoch on the broker."""

    name = "INVALID_PRODUCER_EPOCH"
    code = 47
    fatal = True


class InvalidTxnStateError(KafkaError):
    """The transaction is not in a state for this request."""

    name = "INVALID_TXN_STATE"
    code = 48


class InvalidProducerIdMappingError(KafkaError):
    """The producer id does not belong to this transactional id."""

    name = "INVALID_PRODUCER_ID_MAPPING"
    code = 49
    fatal = True


class InvalidTransactionTimeoutError(KafkaError):
    """The transaction timeout is above what the broker allows."""

    name = "INVALID_TRANSACTION_TIMEOUT"
    code = 50


class ConcurrentTransactionsError(RetriableError):
    """Another operation on this transaction is in progress."""

    name = "CONCURRENT_TRANSACTIONS"
    code = 51


class TransactionCoordinatorFencedError(KafkaError):
    """The transaction coordinator is no longer the current one."""

    name = "TRANSACTION_COORDINATOR_FENCED"
    code = 52
    fatal = True


class TransactionalIdAuthorizationFailedError(AuthorizationError):
    """Not authorized for the transactional id."""

    name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    code = 53
    fatal = True


class SecurityDisabledError(KafkaError):
    """Security is not enabled on the broker."""

    name = "SECURITY_DISABLED"
    code = 54
    fatal = True


class OperationNotAttemptedError(KafkaError):
    """The operation was not attempted, as another of the same request failed."""

    name = "OPERATION_NOT_ATTEMPTED"
    code = 55


class KafkaStorageError(RetriableError):
    """The broker cannot read or write its disk."""

    name = "KAFKA_STORAGE_ERROR"
    code = 56


class LogDirNotFoundError(KafkaError):
    """The log directory does not exist on the broker."""

    name = "LOG_DIR_NOT_FOUND"
    code = 57


class SaslAuthenticationFailedError(AuthenticationError):
    """The broker rejects the login: check mechanism, user and password."""

    name = "SASL_AUTHENTICATION_FAILED"
    code = 58


class UnknownProducerIdError(KafkaError):
    """The broker has no state of this producer any more."""

    name = "UNKNOWN_PRODUCER_ID"
    code = 59


class ReassignmentInProgressError(KafkaError):
    """A partition reassignment is in progress."""

    name = "REASSIGNMENT_IN_PROGRESS"
    code = 60


class DelegationTokenAuthDisabledError(KafkaError):
    """The broker has no delegation tokens: set delegation.token.secret.key on all brokers."""

    name = "DELEGATION_TOKEN_AUTH_DISABLED"
    code = 61


class DelegationTokenNotFoundError(KafkaError):
    """The delegation token does not exist, or has expired and was removed."""

    name = "DELEGATION_TOKEN_NOT_FOUND"
    code = 62


class DelegationTokenOwnerMismatchError(KafkaError):
    """Only the owner and the renewers of a delegation token may renew or expire it."""

    name = "DELEGATION_TOKEN_OWNER_MISMATCH"
    code = 63


class DelegationTokenRequestNotAllowedError(KafkaError):
    """Delegation tokens can only be managed over SASL or mutual TLS, and not with a login by token."""

    name = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
    code = 64


class DelegationTokenAuthorizationFailedError(AuthorizationError):
    """Not authorized for the delegation token."""

    name = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"
    code = 65


class DelegationTokenExpiredError(KafkaError):
    """The delegation token has expired: create another one."""

    name = "DELEGATION_TOKEN_EXPIRED"
    code = 66


class InvalidPrincipalTypeError(KafkaError):
    """The principal is of a type that the broker does not support here: use User:NAME."""

    name = "INVALID_PRINCIPAL_TYPE"
    code = 67


class NonEmptyGroupError(KafkaError):
    """The group has members."""

    name = "NON_EMPTY_GROUP"
    code = 68


class GroupIdNotFoundError(KafkaError):
    """The group does not exist on the broker."""

    name = "GROUP_ID_NOT_FOUND"
    code = 69


class FetchSessionIdNotFoundError(RetriableError):
    """The broker has forgotten the fetch session."""

    name = "FETCH_SESSION_ID_NOT_FOUND"
    code = 70


class InvalidFetchSessionEpochError(RetriableError):
    """The fetch session is at another epoch."""

    name = "INVALID_FETCH_SESSION_EPOCH"
    code = 71


class ListenerNotFoundError(RetriableError):
    """The partition's leader has no listener with the name of the one that the client uses."""

    name = "LISTENER_NOT_FOUND"
    code = 72


class TopicDeletionDisabledError(KafkaError):
    """The brokers do not delete topics: set delete.topic.enable=true on them."""

    name = "TOPIC_DELETION_DISABLED"
    code = 73


class FencedLeaderEpochError(RetriableError):
    """The leader epoch of the request is older than the broker's."""

    name = "FENCED_LEADER_EPOCH"
    code = 74


class UnknownLeaderEpochError(RetriableError):
    """The leader epoch of the request is newer than the broker's."""

    name = "UNKNOWN_LEADER_EPOCH"
    code = 75


class UnsupportedCompressionTypeError(KafkaError):
    """The broker does not support this compression."""

    name = "UNSUPPORTED_COMPRESSION_TYPE"
    code = 76
    fatal = True


class StaleBrokerEpochError(KafkaError):
    """The broker's registration has another epoch, because it was started again."""

    name = "STALE_BROKER_EPOCH"
    code = 77


class OffsetNotAvailableError(RetriableError):
    """The offset is not known yet to the new leader."""

    name = "OFFSET_NOT_AVAILABLE"
    code = 78


class MemberIdRequiredError(KafkaError):
    """Join again with the member id that the broker gave."""

    name = "MEMBER_ID_REQUIRED"
    code = 79


class PreferredLeaderNotAvailableError(RetriableError):
    """The preferred leader is offline or not in sync, so it cannot be elected."""

    name = "PREFERRED_LEADER_NOT_AVAILABLE"
    code = 80


class GroupMaxSizeReachedError(KafkaError):
    """The group is full."""

    name = "GROUP_MAX_SIZE_REACHED"
    code = 81


class FencedInstanceIdError(FencedError):
    """Another member took over this group.instance.id."""

    name = "FENCED_INSTANCE_ID"
    code = 82
    fatal = True


class EligibleLeadersNotAvailableError(RetriableError):
    """No replica that may become the leader is online."""

    name = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    code = 83


class ElectionNotNeededError(RetriableError):
    """The partition has the leader already that the election would choose."""

    name = "ELECTION_NOT_NEEDED"
    code = 84


class NoReassignmentInProgressError(KafkaError):
    """No reassignment of the partition is in progress."""

    name = "NO_REASSIGNMENT_IN_PROGRESS"
    code = 85


class GroupSubscribedToTopicError(KafkaError):
    """Members of the group subscribe to the topic, so its offsets cannot be deleted: stop them first."""

    name = "GROUP_SUBSCRIBED_TO_TOPIC"
    code = 86


class InvalidRecordError(KafkaError):
    """A record was rejected by the broker's validation."""

    name = "INVALID_RECORD"
    code = 87


class UnstableOffsetCommitError(RetriableError):
    """Transactions with offsets of this group are still open."""

    name = "UNSTABLE_OFFSET_COMMIT"
    code = 88


class ThrottlingQuotaExceededError(RetriableError):
    """A quota was exceeded."""

    name = "THROTTLING_QUOTA_EXCEEDED"
    code = 89


class ProducerFencedError(FencedError):
    """A newer producer with the same transactional id took over."""

    name = "PRODUCER_FENCED"
    code = 90
    fatal = True


class ResourceNotFoundError(KafkaError):
    """The user, group or other resource of the request does not exist."""

    name = "RESOURCE_NOT_FOUND"
    code = 91


class DuplicateResourceError(KafkaError):
    """The request names a resource twice."""

    name = "DUPLICATE_RESOURCE"
    code = 92


class UnacceptableCredentialError(KafkaError):
    """The credential is not acceptable: the number of iterations is out of range, or the password is empty."""

    name = "UNACCEPTABLE_CREDENTIAL"
    code = 93


class InconsistentVoterSetError(KafkaError):
    """The voter is not in the set of voters that the quorum has."""

    name = "INCONSISTENT_VOTER_SET"
    code = 94


class InvalidUpdateVersionError(KafkaError):
    """The update has a version that does not follow the current one."""

    name = "INVALID_UPDATE_VERSION"
    code = 95


class FeatureUpdateFailedError(KafkaError):
    """The features cannot be updated to these levels."""

    name = "FEATURE_UPDATE_FAILED"
    code = 96


class PrincipalDeserializationFailureError(KafkaError):
    """The controller cannot read the principal of a forwarded request: principal.builder.class must be equal."""

    name = "PRINCIPAL_DESERIALIZATION_FAILURE"
    code = 97


class SnapshotNotFoundError(KafkaError):
    """The node does not have the requested snapshot."""

    name = "SNAPSHOT_NOT_FOUND"
    code = 98


class PositionOutOfRangeError(KafkaError):
    """The requested position is outside the snapshot."""

    name = "POSITION_OUT_OF_RANGE"
    code = 99


class UnknownTopicIdError(RetriableError):
    """The broker does not have a topic of this id."""

    name = "UNKNOWN_TOPIC_ID"
    code = 100


class DuplicateBrokerRegistrationError(KafkaError):
    """Another broker is registered with this node id."""

    name = "DUPLICATE_BROKER_REGISTRATION"
    code = 101


class BrokerIdNotRegisteredError(KafkaError):
    """No broker is registered with this node id."""

    name = "BROKER_ID_NOT_REGISTERED"
    code = 102


class InconsistentTopicIdError(RetriableError):
    """The topic id does not belong to this topic name."""

    name = "INCONSISTENT_TOPIC_ID"
    code = 103


class InconsistentClusterIdError(KafkaError):
    """The node belongs to another cluster."""

    name = "INCONSISTENT_CLUSTER_ID"
    code = 104


class TransactionalIdNotFoundError(KafkaError):
    """No transaction has this transactional id, or it was unused for longer than transactional.id.expiration.ms."""

    name = "TRANSACTIONAL_ID_NOT_FOUND"
    code = 105


class FetchSessionTopicIdError(RetriableError):
    """Requests of the fetch session differ in their use of topic ids."""

    name = "FETCH_SESSION_TOPIC_ID_ERROR"
    code = 106


class IneligibleReplicaError(KafkaError):
    """The replica is shutting down or fenced, so it cannot join the in-sync replicas."""

    name = "INELIGIBLE_REPLICA"
    code = 107


class NewLeaderElectedError(KafkaError):
    """The change of the in-sync replicas has completed, and a new leader was elected."""

    name = "NEW_LEADER_ELECTED"
    code = 108


class OffsetMovedToTieredStorageError(KafkaError):
    """The offset is in remote storage and no longer on the broker's disk."""

    name = "OFFSET_MOVED_TO_TIERED_STORAGE"
    code = 109


class FencedMemberEpochError(FencedError):
    """The member's epoch is older than the group's."""

    name = "FENCED_MEMBER_EPOCH"
    code = 110


class UnreleasedInstanceIdError(KafkaError):
    """The instance id is still held by another member."""

    name = "UNRELEASED_INSTANCE_ID"
    code = 111


class UnsupportedAssignorError(KafkaError):
    """The broker has no such assignor."""

    name = "UNSUPPORTED_ASSIGNOR"
    code = 112


class StaleMemberEpochError(KafkaError):
    """The member's epoch is not the current one."""

    name = "STALE_MEMBER_EPOCH"
    code = 113


class MismatchedEndpointTypeError(KafkaError):
    """The address belongs to a controller in place of a broker, or the reverse."""

    name = "MISMATCHED_ENDPOINT_TYPE"
    code = 114


class UnsupportedEndpointTypeError(KafkaError):
    """The node does not support this request: send it to a broker, not a controller, or the reverse."""

    name = "UNSUPPORTED_ENDPOINT_TYPE"
    code = 115


class UnknownControllerIdError(KafkaError):
    """The quorum has no controller with this id."""

    name = "UNKNOWN_CONTROLLER_ID"
    code = 116


class UnknownSubscriptionIdError(KafkaError):
    """The client's metrics subscription has changed, so it must be requested again."""

    name = "UNKNOWN_SUBSCRIPTION_ID"
    code = 117


class TelemetryTooLargeError(KafkaError):
    """The pushed metrics are larger than telemetry.max.bytes of the broker."""

    name = "TELEMETRY_TOO_LARGE"
    code = 118


class InvalidRegistrationError(KafkaError):
    """The controller rejects the registration of the node."""

    name = "INVALID_REGISTRATION"
    code = 119


class TransactionAbortableError(KafkaError):
    """The transaction must be aborted."""

    name = "TRANSACTION_ABORTABLE"
    code = 120
    abortable = True


class InvalidRecordStateError(KafkaError):
    """The records are not locked by this member any more: if processing takes longer than the lock, renew them."""

    name = "INVALID_RECORD_STATE"
    code = 121


class ShareSessionNotFoundError(RetriableError):
    """The broker has closed the share session, and released its records."""

    name = "SHARE_SESSION_NOT_FOUND"
    code = 122


class InvalidShareSessionEpochError(RetriableError):
    """The share session is at another epoch."""

    name = "INVALID_SHARE_SESSION_EPOCH"
    code = 123


class FencedStateEpochError(KafkaError):
    """Another leader of the partition has taken over the state of the share group."""

    name = "FENCED_STATE_EPOCH"
    code = 124


class InvalidVoterKeyError(KafkaError):
    """The voter's directory id differs from that of its disk."""

    name = "INVALID_VOTER_KEY"
    code = 125


class DuplicateVoterError(KafkaError):
    """The node is a voter of the quorum already."""

    name = "DUPLICATE_VOTER"
    code = 126


class VoterNotFoundError(KafkaError):
    """The quorum has no such voter."""

    name = "VOTER_NOT_FOUND"
    code = 127


class InvalidRegularExpressionError(KafkaError):
    """The regular expression is not valid."""

    name = "INVALID_REGULAR_EXPRESSION"
    code = 128


class RebootstrapRequiredError(KafkaError):
    """All known brokers are gone; start again from the bootstrap servers."""

    name = "REBOOTSTRAP_REQUIRED"
    code = 129


class StreamsInvalidTopologyError(KafkaError):
    """The topology of the streams group is not valid."""

    name = "STREAMS_INVALID_TOPOLOGY"
    code = 130


class StreamsInvalidTopologyEpochError(KafkaError):
    """The topology of the streams group has another epoch."""

    name = "STREAMS_INVALID_TOPOLOGY_EPOCH"
    code = 131


class StreamsTopologyFencedError(KafkaError):
    """The member has an older topology than its streams group: update it."""

    name = "STREAMS_TOPOLOGY_FENCED"
    code = 132


class ShareSessionLimitReachedError(RetriableError):
    """The broker has as many share sessions as group.share.max.share.sessions allows."""

    name = "SHARE_SESSION_LIMIT_REACHED"
    code = 133


class GroupDeletionFailedError(KafkaError):
    """The group could not be deleted."""

    name = "GROUP_DELETION_FAILED"
    code = 134


class StreamsTopologyDescriptionUpdateFailedError(KafkaError):
    """The description of the streams group's topology could not be stored."""

    name = "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"
    code = 135


class ControllerIdNotRegisteredError(KafkaError):
    """The controller id is not registered."""

    name = "CONTROLLER_ID_NOT_REGISTERED"
    code = 136
