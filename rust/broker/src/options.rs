//! What a broker is started with.

use std::time::Duration;

use samsarrow_wire::compression::Codec;
use samsarrow_wire::releases::Release;

use crate::security::SecurityOptions;

/// How a broker treats consumer groups; the names are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOptions {
    /// How long the first rebalance of an empty group waits for more members, as `group.initial.rebalance.delay.ms`;
    /// none by default, which tests are glad of.
    pub initial_rebalance_delay: Duration,
    /// The shortest session timeout that a member may ask for, as `group.min.session.timeout.ms`.
    pub min_session_timeout: Duration,
    /// The longest session timeout that a member may ask for, as `group.max.session.timeout.ms`.
    pub max_session_timeout: Duration,
    /// How often members of KIP-848's groups are to send heartbeats, as `group.consumer.heartbeat.interval.ms`;
    /// shorter than Kafka's 5 seconds, as members learn what is theirs from its answers.
    pub consumer_heartbeat_interval: Duration,
    /// How long they may be silent, as `group.consumer.session.timeout.ms`.
    pub consumer_session_timeout: Duration,
    /// How long a group without members keeps its offsets, as `offsets.retention.minutes`.
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

/// How a broker treats transactions and idempotent producers; the names are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The level of the feature `transaction.version`: from 2 on clients that can do so have a new epoch with each
    /// transaction, and add partitions to it by writing to them (KIP-890).
    pub version: i16,
    /// The longest timeout that a producer may ask for, as `transaction.max.timeout.ms`.
    pub max_timeout: Duration,
    /// How long after the end of a transaction its markers are written; none by default. A broker of Kafka takes a
    /// moment, in which producers get CONCURRENT_TRANSACTIONS.
    pub marker_delay: Duration,
    /// How long a transactional id is remembered that nobody uses, as `transactional.id.expiration.ms`.
    pub id_expiration: Duration,
    /// How long a partition remembers a producer that is silent, as `producer.id.expiration.ms`.
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

/// What is wanted of clients' metrics (KIP-714).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryOptions {
    /// Prefixes of names; an empty one is all, none are none.
    pub requested: Vec<String>,
    /// How often clients push.
    pub interval: Duration,
    /// The largest push, as `telemetry.max.bytes`.
    pub max_bytes: usize,
    /// Whether counters are to be reported as what they grew by since the last push.
    pub delta: bool,
    /// How pushes may be compressed, the best first.
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

/// How an embedded broker is started; `..Default::default()` fills the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerOptions {
    /// The address to bind and to advertise; loopback by default.
    pub host: String,
    /// The port of the first node; node `i` takes `port + i`. 0 takes any free port for each node.
    pub port: u16,
    /// How many virtual brokers share the data; leaders are spread over them.
    pub brokers: usize,
    /// Topics to create at the start: name and number of partitions.
    pub topics: Vec<(String, i32)>,
    /// Whether a topic that a client asks for is created, as Kafka's `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// Partitions of a topic created without a number, as Kafka's `num.partitions`.
    pub default_partitions: i32,
    /// The largest record batch taken, as Kafka's `message.max.bytes`; a topic's `max.message.bytes` goes before it.
    pub message_max_bytes: usize,
    /// The longest metadata of a committed offset, as Kafka's `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// The largest request frame taken, as Kafka's `socket.request.max.bytes`.
    pub request_max_bytes: usize,
    /// How many fetch sessions are kept (KIP-227), as `max.incremental.fetch.session.cache.slots`; none by default: every
    /// request names all that it asks for.
    pub fetch_sessions: usize,
    /// The Kafka to pass for: its versions of each API, its way to refuse others, errors and defaults of its time. `None`
    /// speaks every version that is served.
    pub kafka: Option<Release>,
    /// Of consumer groups.
    pub groups: GroupOptions,
    /// Of transactions and idempotent producers.
    pub transactions: TransactionOptions,
    /// Whether metrics of clients are taken, as by a Kafka with a plugin for them; without it nobody hears of that.
    pub telemetry: Option<TelemetryOptions>,
    /// Of strangers: TLS, logins.
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
            // Kafka: one MiB of records and the overhead of a log entry.
            message_max_bytes: 1_048_588,
            offset_metadata_max_bytes: 4096,
            request_max_bytes: 100 * 1024 * 1024,
            fetch_sessions: 0,
            kafka: None,
            groups: GroupOptions::default(),
            transactions: TransactionOptions::default(),
            telemetry: None,
            security: SecurityOptions::default(),
        }
    }
}
