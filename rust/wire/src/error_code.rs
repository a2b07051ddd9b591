//! Kafka's error codes and their handling by clients.

/// Handling of an error by clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// Fail the request.
    Fail,
    /// Fail permanently, because the client can never succeed with its configuration.
    Fatal,
    /// Retry the same request.
    Retry,
    /// Refresh the metadata and retry the same request, possibly at another broker.
    Refresh,
}

/// Handling of an error by a transactional producer (KIP-1050).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTransaction {
    /// Retry the request, because the transaction is still valid.
    Retry,
    /// Abort the transaction. The next transaction may succeed.
    Abort,
    /// Close the producer, because it was fenced or has no permission to write.
    Fatal,
}

/// An error code in a response. Unknown codes are preserved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(i16);

struct Entry {
    code: i16,
    name: &'static str,
    remedy: Remedy,
    description: &'static str,
}

macro_rules! error_codes {
    ($($name:ident = $code:literal, $remedy:ident, $description:literal;)*) => {
        #[allow(missing_docs, reason = "the table has a description of each")]
        impl ErrorCode {
            $(pub const $name: ErrorCode = ErrorCode($code);)*

            /// All known codes, in order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];
        }

        const TABLE: &[Entry] = &[
            $(Entry { code: $code, name: stringify!($name), remedy: Remedy::$remedy, description: $description },)*
        ];
    };
}

error_codes! {
    UNKNOWN_SERVER_ERROR = -1, Fail, "the broker hit an error it did not expect; its log says more";
    NONE = 0, Fail, "no error";
    OFFSET_OUT_OF_RANGE = 1, Fail, "the offset is outside the partition's log";
    CORRUPT_MESSAGE = 2, Retry, "the broker found a record batch whose checksum or size is wrong";
    UNKNOWN_TOPIC_OR_PARTITION = 3, Refresh, "the broker does not have this topic or partition";
    INVALID_FETCH_SIZE = 4, Fail, "the fetch size is not valid";
    LEADER_NOT_AVAILABLE = 5, Refresh, "the partition has no leader at the moment";
    NOT_LEADER_OR_FOLLOWER = 6, Refresh, "this broker is not the leader or a replica of the partition";
    REQUEST_TIMED_OUT = 7, Retry, "the request was not finished in its time";
    BROKER_NOT_AVAILABLE = 8, Fail, "the broker is not available";
    REPLICA_NOT_AVAILABLE = 9, Refresh, "the replica is not available";
    MESSAGE_TOO_LARGE = 10, Fail, "the record batch is larger than the topic allows";
    STALE_CONTROLLER_EPOCH = 11, Fail, "the controller moved";
    OFFSET_METADATA_TOO_LARGE = 12, Fail, "the metadata of the committed offset is too long";
    NETWORK_EXCEPTION = 13, Refresh, "the broker disconnected before it sent a response";
    COORDINATOR_LOAD_IN_PROGRESS = 14, Retry, "the coordinator is still loading its state";
    COORDINATOR_NOT_AVAILABLE = 15, Retry, "the group or transaction has no coordinator at the moment";
    NOT_COORDINATOR = 16, Retry, "this broker is not the coordinator";
    INVALID_TOPIC_EXCEPTION = 17, Fail, "the topic name is not valid or the topic is internal";
    RECORD_LIST_TOO_LARGE = 18, Fail, "the request holds more records than a segment can";
    NOT_ENOUGH_REPLICAS = 19, Retry, "fewer replicas are in sync than min.insync.replicas requires";
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, Retry, "records were written, but to fewer in-sync replicas than required";
    INVALID_REQUIRED_ACKS = 21, Fail, "acks must be 0, 1 or -1";
    ILLEGAL_GENERATION = 22, Fail, "the group is in another generation";
    INCONSISTENT_GROUP_PROTOCOL = 23, Fail, "the member's protocols have nothing in common with the group's";
    INVALID_GROUP_ID = 24, Fail, "the group id is not valid";
    UNKNOWN_MEMBER_ID = 25, Fail, "this member is not in the group";
    INVALID_SESSION_TIMEOUT = 26, Fail, "the session timeout is outside what the broker allows";
    REBALANCE_IN_PROGRESS = 27, Fail, "the group is rebalancing; join again";
    INVALID_COMMIT_OFFSET_SIZE = 28, Fail, "the offsets to commit are too large";
    TOPIC_AUTHORIZATION_FAILED = 29, Fatal, "not authorized for the topic";
    GROUP_AUTHORIZATION_FAILED = 30, Fatal, "not authorized for the group";
    CLUSTER_AUTHORIZATION_FAILED = 31, Fatal, "not authorized for the cluster";
    INVALID_TIMESTAMP = 32, Fail, "the timestamp is outside what the topic allows";
    UNSUPPORTED_SASL_MECHANISM = 33, Fatal, "the broker does not support this SASL mechanism";
    ILLEGAL_SASL_STATE = 34, Fail, "SASL is not in the state for this request";
    UNSUPPORTED_VERSION = 35, Fatal, "the broker does not support this version of the request";
    TOPIC_ALREADY_EXISTS = 36, Fail, "the topic exists already";
    INVALID_PARTITIONS = 37, Fail, "the number of partitions is not valid";
    INVALID_REPLICATION_FACTOR = 38, Fail, "the replication factor is below 1 or above the number of brokers";
    INVALID_REPLICA_ASSIGNMENT = 39, Fail, "the replica assignment is not valid";
    INVALID_CONFIG = 40, Fail, "the configuration is not valid";
    NOT_CONTROLLER = 41, Retry, "this broker is not the controller";
    INVALID_REQUEST = 42, Fail, "the request contradicts itself or the protocol";
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, Fail, "the message format on the broker does not support the request";
    POLICY_VIOLATION = 44, Fail, "a policy of the cluster rejects the request";
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, Fail, "the broker received a sequence number out of order";
    DUPLICATE_SEQUENCE_NUMBER = 46, Fail, "the broker has this sequence number already";
    INVALID_PRODUCER_EPOCH = 47, Fatal, "the producer's epoch is older than the newest epoch on the broker";
    INVALID_TXN_STATE = 48, Fail, "the transaction is not in a state for this request";
    INVALID_PRODUCER_ID_MAPPING = 49, Fatal, "the producer id does not belong to this transactional id";
    INVALID_TRANSACTION_TIMEOUT = 50, Fail, "the transaction timeout is above what the broker allows";
    CONCURRENT_TRANSACTIONS = 51, Retry, "another operation on this transaction is in progress";
    TRANSACTION_COORDINATOR_FENCED = 52, Fatal, "the transaction coordinator is no longer the current one";
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, Fatal, "not authorized for the transactional id";
    SECURITY_DISABLED = 54, Fatal, "security is not enabled on the broker";
    OPERATION_NOT_ATTEMPTED = 55, Fail, "the operation was not attempted, as another of the same request failed";
    KAFKA_STORAGE_ERROR = 56, Refresh, "the broker cannot read or write its disk";
    LOG_DIR_NOT_FOUND = 57, Fail, "the log directory does not exist on the broker";
    SASL_AUTHENTICATION_FAILED = 58, Fatal, "the broker rejects the login: check mechanism, user and password";
    UNKNOWN_PRODUCER_ID = 59, Fail, "the broker has no state of this producer any more";
    REASSIGNMENT_IN_PROGRESS = 60, Fail, "a partition reassignment is in progress";
    DELEGATION_TOKEN_AUTH_DISABLED = 61, Fail, "the broker has no delegation tokens: set delegation.token.secret.key on all brokers";
    DELEGATION_TOKEN_NOT_FOUND = 62, Fail, "the delegation token does not exist, or has expired and was removed";
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, Fail, "only the owner and the renewers of a delegation token may renew or expire it";
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, Fail, "delegation tokens can only be managed over SASL or mutual TLS, and not with a login by token";
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, Fail, "not authorized for the delegation token";
    DELEGATION_TOKEN_EXPIRED = 66, Fail, "the delegation token has expired: create another one";
    INVALID_PRINCIPAL_TYPE = 67, Fail, "the principal is of a type that the broker does not support here: use User:NAME";
    NON_EMPTY_GROUP = 68, Fail, "the group has members";
    GROUP_ID_NOT_FOUND = 69, Fail, "the group does not exist on the broker";
    FETCH_SESSION_ID_NOT_FOUND = 70, Retry, "the broker has forgotten the fetch session";
    INVALID_FETCH_SESSION_EPOCH = 71, Retry, "the fetch session is at another epoch";
    LISTENER_NOT_FOUND = 72, Refresh, "the partition's leader has no listener with the name of the one that the client uses";
    TOPIC_DELETION_DISABLED = 73, Fail, "the brokers do not delete topics: set delete.topic.enable=true on them";
    FENCED_LEADER_EPOCH = 74, Refresh, "the leader epoch of the request is older than the broker's";
    UNKNOWN_LEADER_EPOCH = 75, Refresh, "the leader epoch of the request is newer than the broker's";
    UNSUPPORTED_COMPRESSION_TYPE = 76, Fatal, "the broker does not support this compression";
    STALE_BROKER_EPOCH = 77, Fail, "the broker's registration has another epoch, because it was started again";
    OFFSET_NOT_AVAILABLE = 78, Refresh, "the offset is not known yet to the new leader";
    MEMBER_ID_REQUIRED = 79, Fail, "join again with the member id that the broker gave";
    PREFERRED_LEADER_NOT_AVAILABLE = 80, Refresh, "the preferred leader is offline or not in sync, so it cannot be elected";
    GROUP_MAX_SIZE_REACHED = 81, Fail, "the group is full";
    FENCED_INSTANCE_ID = 82, Fatal, "another member took over this group.instance.id";
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, Refresh, "no replica that may become the leader is online";
    ELECTION_NOT_NEEDED = 84, Refresh, "the partition has the leader already that the election would choose";
    NO_REASSIGNMENT_IN_PROGRESS = 85, Fail, "no reassignment of the partition is in progress";
    GROUP_SUBSCRIBED_TO_TOPIC = 86, Fail, "members of the group subscribe to the topic, so its offsets cannot be deleted: stop them first";
    INVALID_RECORD = 87, Fail, "a record was rejected by the broker's validation";
    UNSTABLE_OFFSET_COMMIT = 88, Retry, "transactions with offsets of this group are still open";
    THROTTLING_QUOTA_EXCEEDED = 89, Retry, "a quota was exceeded";
    PRODUCER_FENCED = 90, Fatal, "a newer producer with the same transactional id took over";
    RESOURCE_NOT_FOUND = 91, Fail, "the user, group or other resource of the request does not exist";
    DUPLICATE_RESOURCE = 92, Fail, "the request names a resource twice";
    UNACCEPTABLE_CREDENTIAL = 93, Fail, "the credential is not acceptable: the number of iterations is out of range, or the password is empty";
    INCONSISTENT_VOTER_SET = 94, Fail, "the voter is not in the set of voters that the quorum has";
    INVALID_UPDATE_VERSION = 95, Fail, "the update has a version that does not follow the current one";
    FEATURE_UPDATE_FAILED = 96, Fail, "the features cannot be updated to these levels";
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, Fail, "the controller cannot read the principal of a forwarded request: principal.builder.class must be equal";
    SNAPSHOT_NOT_FOUND = 98, Fail, "the node does not have the requested snapshot";
    POSITION_OUT_OF_RANGE = 99, Fail, "the requested position is outside the snapshot";
    UNKNOWN_TOPIC_ID = 100, Refresh, "the broker does not have a topic of this id";
    DUPLICATE_BROKER_REGISTRATION = 101, Fail, "another broker is registered with this node id";
    BROKER_ID_NOT_REGISTERED = 102, Fail, "no broker is registered with this node id";
    INCONSISTENT_TOPIC_ID = 103, Refresh, "the topic id does not belong to this topic name";
    INCONSISTENT_CLUSTER_ID = 104, Fail, "the node belongs to another cluster";
    TRANSACTIONAL_ID_NOT_FOUND = 105, Fail, "no transaction has this transactional id, or it was unused for longer than transactional.id.expiration.ms";
    FETCH_SESSION_TOPIC_ID_ERROR = 106, Retry, "requests of the fetch session differ in their use of topic ids";
    INELIGIBLE_REPLICA = 107, Fail, "the replica is shutting down or fenced, so it cannot join the in-sync replicas";
    NEW_LEADER_ELECTED = 108, Fail, "the change of the in-sync replicas has completed, and a new leader was elected";
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, Fail, "the offset is in remote storage and no longer on the broker's disk";
    FENCED_MEMBER_EPOCH = 110, Fail, "the member's epoch is older than the group's";
    UNRELEASED_INSTANCE_ID = 111, Fail, "the instance id is still held by another member";
    UNSUPPORTED_ASSIGNOR = 112, Fail, "the broker has no such assignor";
    STALE_MEMBER_EPOCH = 113, Fail, "the member's epoch is not the current one";
    MISMATCHED_ENDPOINT_TYPE = 114, Fail, "the address belongs to a controller in place of a broker, or the reverse";
    UNSUPPORTED_ENDPOINT_TYPE = 115, Fail, "the node does not support this request: send it to a broker, not a controller, or the reverse";
    UNKNOWN_CONTROLLER_ID = 116, Fail, "the quorum has no controller with this id";
    UNKNOWN_SUBSCRIPTION_ID = 117, Fail, "the client's metrics subscription has changed, so it must be requested again";
    TELEMETRY_TOO_LARGE = 118, Fail, "the pushed metrics are larger than telemetry.max.bytes of the broker";
    INVALID_REGISTRATION = 119, Fail, "the controller rejects the registration of the node";
    TRANSACTION_ABORTABLE = 120, Fail, "the transaction must be aborted";
    INVALID_RECORD_STATE = 121, Fail, "the records are not locked by this member any more: if processing takes longer than the lock, renew them";
    SHARE_SESSION_NOT_FOUND = 122, Retry, "the broker has closed the share session, and released its records";
    INVALID_SHARE_SESSION_EPOCH = 123, Retry, "the share session is at another epoch";
    FENCED_STATE_EPOCH = 124, Fail, "another leader of the partition has taken over the state of the share group";
    INVALID_VOTER_KEY = 125, Fail, "the voter's directory id differs from that of its disk";
    DUPLICATE_VOTER = 126, Fail, "the node is a voter of the quorum already";
    VOTER_NOT_FOUND = 127, Fail, "the quorum has no such voter";
    INVALID_REGULAR_EXPRESSION = 128, Fail, "the regular expression is not valid";
    REBOOTSTRAP_REQUIRED = 129, Fail, "all known brokers are gone; start again from the bootstrap servers";
    STREAMS_INVALID_TOPOLOGY = 130, Fail, "the topology of the streams group is not valid";
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, Fail, "the topology of the streams group has another epoch";
    STREAMS_TOPOLOGY_FENCED = 132, Fail, "the member has an older topology than its streams group: update it";
    SHARE_SESSION_LIMIT_REACHED = 133, Retry, "the broker has as many share sessions as group.share.max.share.sessions allows";
    GROUP_DELETION_FAILED = 134, Fail, "the group could not be deleted";
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, Fail, "the description of the streams group's topology could not be stored";
    CONTROLLER_ID_NOT_REGISTERED = 136, Fail, "the controller id is not registered";
}

impl ErrorCode {
    /// Creates an error code from its number in Kafka's protocol.
    pub const fn from_i16(code: i16) -> Self {
        Self(code)
    }

    /// Returns the numeric error code of Kafka's protocol.
    pub const fn code(self) -> i16 {
        self.0
    }

    /// Returns true for `NONE`.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Returns `Ok` for `NONE` and `Err(self)` for any other code.
    pub fn ok(self) -> Result<(), ErrorCode> {
        if self.is_none() { Ok(()) } else { Err(self) }
    }

    fn entry(self) -> Option<&'static Entry> {
        // Codes are contiguous from -1, so a code determines its index in the table. The filter checks that the entry
        // has this code.
        TABLE.get(usize::try_from(i32::from(self.0) + 1).ok()?).filter(|e| e.code == self.0)
    }

    /// Returns Kafka's name of the code, or `UNKNOWN_ERROR_CODE` for an unknown code.
    pub fn name(self) -> &'static str {
        self.entry().map_or("UNKNOWN_ERROR_CODE", |e| e.name)
    }

    /// Returns a description, which is one sentence without a full stop.
    pub fn description(self) -> &'static str {
        self.entry().map_or("an error code that is unknown to this version of the client", |e| e.description)
    }

    fn remedy(self) -> Remedy {
        self.entry().map_or(Remedy::Fail, |e| e.remedy)
    }

    /// Returns true if the same request may succeed later.
    pub fn retriable(self) -> bool {
        matches!(self.remedy(), Remedy::Retry | Remedy::Refresh)
    }

    /// Returns true if the metadata should be refreshed before the retry.
    pub fn refresh_metadata(self) -> bool {
        self.remedy() == Remedy::Refresh
    }

    /// Returns the handling in a transaction. The meaning of an error may depend on the API: INVALID_PRODUCER_EPOCH
    /// from a transaction coordinator means that the producer was fenced, but from Produce it does not.
    pub fn in_transaction(self) -> InTransaction {
        if self.retriable() {
            return InTransaction::Retry;
        }
        match self {
            Self::TRANSACTION_ABORTABLE
            // These errors concern topics, groups or records, but not the producer.
            | Self::TOPIC_AUTHORIZATION_FAILED
            | Self::GROUP_AUTHORIZATION_FAILED
            | Self::OPERATION_NOT_ATTEMPTED
            | Self::INVALID_TOPIC_EXCEPTION
            | Self::INVALID_GROUP_ID
            | Self::ILLEGAL_GENERATION
            | Self::UNKNOWN_MEMBER_ID
            | Self::FENCED_INSTANCE_ID
            | Self::FENCED_MEMBER_EPOCH
            | Self::STALE_MEMBER_EPOCH
            | Self::REBALANCE_IN_PROGRESS
            | Self::GROUP_ID_NOT_FOUND
            | Self::OFFSET_METADATA_TOO_LARGE
            | Self::INVALID_COMMIT_OFFSET_SIZE
            | Self::MESSAGE_TOO_LARGE
            | Self::RECORD_LIST_TOO_LARGE
            | Self::INVALID_RECORD
            | Self::INVALID_TIMESTAMP
            | Self::UNSUPPORTED_COMPRESSION_TYPE
            | Self::INVALID_REQUIRED_ACKS
            // A new producer epoch resolves these errors.
            | Self::OUT_OF_ORDER_SEQUENCE_NUMBER
            | Self::UNKNOWN_PRODUCER_ID
            | Self::INVALID_PRODUCER_ID_MAPPING => InTransaction::Abort,
            _ => InTransaction::Fatal,
        }
    }

    /// Returns true if the client can never succeed with its configuration.
    pub fn fatal(self) -> bool {
        self.remedy() == Remedy::Fatal
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.name(), self.0, self.description())
    }
}

impl std::fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_table() {
        for (i, code) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(code.code(), i as i16 - 1);
            assert_eq!(code.name(), TABLE[i].name);
            let name = code.name().replace('_', " ");
            // Texts name the cause, and not the code again.
            assert!(!code.description().is_empty() && !code.description().eq_ignore_ascii_case(&name), "{code}");
        }
        assert_eq!(ErrorCode::ALL.last().map(|c| c.name()), Some("CONTROLLER_ID_NOT_REGISTERED"));
    }

    #[test]
    fn abortable_errors_do_not_fence_the_producer() {
        for code in [ErrorCode::CONCURRENT_TRANSACTIONS, ErrorCode::NOT_COORDINATOR, ErrorCode::NOT_LEADER_OR_FOLLOWER]
        {
            assert_eq!(code.in_transaction(), InTransaction::Retry, "{code}");
        }
        for code in [ErrorCode::TRANSACTION_ABORTABLE, ErrorCode::MESSAGE_TOO_LARGE, ErrorCode::ILLEGAL_GENERATION] {
            assert_eq!(code.in_transaction(), InTransaction::Abort, "{code}");
        }
        let fatal = [
            ErrorCode::PRODUCER_FENCED,
            ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::INVALID_TXN_STATE,
            ErrorCode::INVALID_TRANSACTION_TIMEOUT,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode::UNSUPPORTED_VERSION,
            ErrorCode::from_i16(i16::MAX),
        ];
        for code in fatal {
            assert_eq!(code.in_transaction(), InTransaction::Fatal, "{code}");
        }
    }

    #[test]
    fn unknown_codes_are_preserved() {
        for code in [i16::MIN, -2, 137, i16::MAX] {
            let error = ErrorCode::from_i16(code);
            assert_eq!((error.code(), error.name(), error.retriable()), (code, "UNKNOWN_ERROR_CODE", false));
        }
    }

    #[test]
    fn handling_follows_the_table() {
        let moved = ErrorCode::NOT_LEADER_OR_FOLLOWER;
        assert!(moved.retriable() && moved.refresh_metadata() && !moved.fatal());
        let loading = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
        assert!(loading.retriable() && !loading.refresh_metadata());
        assert!(ErrorCode::TOPIC_AUTHORIZATION_FAILED.fatal());
        assert_eq!(
            moved.to_string(),
            "NOT_LEADER_OR_FOLLOWER (6): this broker is not the leader or a replica of the partition"
        );
    }
}
