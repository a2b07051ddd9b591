//! Options of an embedded broker.

use std::time::Duration;

use samsarrow_wire::compression::Codec;
use samsarrow_wire::releases::Release;

use crate::security::SecurityOptions;

/// Options of consumer groups, named after Kafka's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOptions {
    /// Delay of the first rebalance of an empty group, like Kafka's `group.initial.rebalance.delay.ms`. It is zero by
    /// default, which makes tests fast.
    pub initial_rebalance_delay: Duration,
    /// Minimum session timeout that a member may request, like Kafka's `group.min.session.timeout.ms`.
    pub min_session_timeout: Duration,
    /// Maximum session timeout that a member may request, like Kafka's `group.max.session.timeout.ms`.
    pub max_session_timeout: Duration,
    /// Heartbeat interval of KIP-848 members, like Kafka's `group.consumer.heartbeat.interval.ms`. The default is
    /// shorter than Kafka's 5 seconds, because members receive their assignment only in heartbeat responses.
    pub consumer_heartbeat_interval: Duration,
    /// Session timeout of KIP-848 members, like Kafka's `group.consumer.session.timeout.ms`.
    pub consumer_session_timeout: Duration,
    /// Retention of the committed offsets of a group without members, like Kafka's `offsets.retention.minutes`.
    pub offsets_retention: Duration,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions {
            initial_rebalance_delay: Duration::ZERO,
            min_session_timeout: Duration::from_secs(6),
            max_session_timeout: Duration::from_secs(30 * 60),
            consumer_heartbeat_interval: Duration::from_millis(500),
            consumer_session_timeout: Duration::from_secs(45),
            offsets_retention: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

/// Options of share groups (KIP-932), named after Kafka's. Group configs override them. Heartbeats and sessions of
/// members have the options of consumer groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareOptions {
    /// Level of the feature `share.version`: 1, or 0 to disable share groups. Releases before 4.2 have level 0.
    pub version: i16,
    /// Duration of acquisition locks, like Kafka's `group.share.record.lock.duration.ms`.
    pub lock: Duration,
    /// Maximum number of deliveries of a record, like Kafka's `group.share.delivery.count.limit`.
    pub delivery_limit: i16,
    /// Maximum number of records in flight in a partition, like Kafka's `group.share.partition.max.record.locks`.
    pub record_locks: u32,
    /// Maximum number of share sessions on a node, like Kafka's `group.share.max.share.sessions`.
    pub max_sessions: usize,
}

impl Default for ShareOptions {
    fn default() -> Self {
        ShareOptions {
            version: 1,
            lock: Duration::from_secs(30),
            delivery_limit: 5,
            record_locks: 2000,
            max_sessions: 2000,
        }
    }
}

/// Options of transactions and idempotent producers, named after Kafka's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionOptions {
    /// Level of the feature `transaction.version`. Since level 2, clients that support it get a new epoch for each
    /// transaction and add partitions implicitly by writing to them (KIP-890).
    pub version: i16,
    /// Maximum timeout that a producer may request, like Kafka's `transaction.max.timeout.ms`.
    pub max_timeout: Duration,
    /// Delay between the end of a transaction and its markers, zero by default. Kafka needs some time to write markers,
    /// during which producers get CONCURRENT_TRANSACTIONS.
    pub marker_delay: Duration,
    /// Retention of an unused transactional id, like Kafka's `transactional.id.expiration.ms`.
    pub id_expiration: Duration,
    /// Retention of the state of an idle producer in a partition, like Kafka's `producer.id.expiration.ms`.
    pub producer_id_expiration: Duration,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            version: 2,
            max_timeout: Duration::from_secs(15 * 60),
            marker_delay: Duration::ZERO,
            id_expiration: Duration::from_secs(7 * 24 * 60 * 60),
            producer_id_expiration: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// Options of client telemetry (KIP-714).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryOptions {
    /// Prefixes of the requested metric names. An empty string requests all metrics, an empty list requests none.
    pub requested: Vec<String>,
    /// Push interval.
    pub interval: Duration,
    /// Maximum size of a push in bytes, like Kafka's `telemetry.max.bytes`.
    pub max_bytes: usize,
    /// True if counters are reported as deltas since the last push.
    pub delta: bool,
    /// Accepted compression codecs, in order of preference.
    pub compression: Vec<Codec>,
}

impl Default for TelemetryOptions {
    fn default() -> Self {
        TelemetryOptions {
            requested: vec![String::new()],
            interval: Duration::from_secs(300),
            max_bytes: 1 << 20,
            delta: true,
            // Kafka's order.
            compression: vec![Codec::Zstd, Codec::Lz4, Codec::Gzip, Codec::Snappy],
        }
    }
}

/// Options of an embedded broker. `..Default::default()` sets the remaining options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerOptions {
    /// Address to which all nodes bind, and which they advertise; loopback by default.
    pub host: String,
    /// Port of the first node; node `i` uses `port + i`. With 0, each node uses any free port.
    pub port: u16,
    /// Number of nodes. They share the same data, and the leaders of partitions are distributed over them.
    pub brokers: usize,
    /// Names and partition counts of the topics to create at the start.
    pub topics: Vec<(String, i32)>,
    /// True if Metadata requests may create unknown topics, like Kafka's `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// Number of partitions of a topic that is created without a partition count, like Kafka's `num.partitions`.
    pub default_partitions: i32,
    /// Maximum size of a record batch in bytes, like Kafka's `message.max.bytes`. The topic config `max.message.bytes`
    /// overrides it.
    pub message_max_bytes: usize,
    /// Maximum size in bytes of the metadata of a committed offset, like Kafka's `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// Maximum size of a request frame in bytes, like Kafka's `socket.request.max.bytes`.
    pub request_max_bytes: usize,
    /// Maximum number of fetch sessions (KIP-227), like Kafka's `max.incremental.fetch.session.cache.slots`. It is 0 by
    /// default, so that every request lists all of its partitions.
    pub fetch_sessions: usize,
    /// Kafka release whose API versions, handling of unsupported versions, errors and defaults are emulated. With
    /// `None`, all implemented versions are supported.
    pub kafka: Option<Release>,
    /// Options of consumer groups.
    pub groups: GroupOptions,
    /// Options of share groups.
    pub shares: ShareOptions,
    /// Options of transactions and idempotent producers.
    pub transactions: TransactionOptions,
    /// Options of client telemetry, which a Kafka broker supports if a metrics plugin is configured. With `None`, the
    /// telemetry APIs are unsupported and not advertised.
    pub telemetry: Option<TelemetryOptions>,
    /// TLS and authentication.
    pub security: SecurityOptions,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        BrokerOptions {
            host: "127.0.0.1".to_owned(),
            port: 0,
            brokers: 1,
            topics: Vec::new(),
            auto_create_topics: true,
            default_partitions: 1,
            // Kafka's default: 1 MiB of records plus 12 bytes for the offset and size fields.
            message_max_bytes: 1_048_588,
            offset_metadata_max_bytes: 4096,
            request_max_bytes: 100 * 1024 * 1024,
            fetch_sessions: 0,
            kafka: None,
            groups: GroupOptions::default(),
            shares: ShareOptions::default(),
            transactions: TransactionOptions::default(),
            telemetry: None,
            security: SecurityOptions::default(),
        }
    }
}
