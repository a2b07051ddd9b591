//! Client configuration: the option table, validation, and typed options.

pub mod credentials;

mod common;
mod consumer;
mod duration;
mod foreign_options;
mod jaas;
pub(crate) mod message_format;
mod parse;
mod producer;
mod properties;
mod providers;
mod registry;
mod security;
mod security_options;
pub(crate) mod share;
mod suggest;
mod table;
pub(crate) mod url;
mod validation;
mod value;
mod values;

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_arrow::decode::Projection;
use samsarrow_arrow::layout::Layout;
use samsarrow_wire::compression::Codec;
use samsarrow_wire::messages::ApiKey;
use samsarrow_wire::releases::Release;

use crate::metrics::MetricsOptions;
pub use crate::secret::Secret;
pub use crate::types::ClientKind;

pub use parse::check_name;
pub use properties::properties;
pub use registry::{GlueOptions, RegistryLogin, RegistryOptions, glue_arguments, is_glue_url};
pub use security_options::{
    KerberosOptions, Mechanism, OAuthOptions, Protocol, RefreshOptions, SaslOptions, SecurityOptions, StoreType,
    TlsOptions,
};
pub use share::SHARE_OPTIONS;
pub use suggest::nearest;
pub use table::{Kind, OPTIONS, OptionSpec};
pub use value::OptionValue;

/// Position at which a partition without a valid offset is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetReset {
    /// The first available offset of the partition.
    Earliest,
    /// The end of the partition.
    Latest,
    /// Reading does not start; the consumer returns an error instead.
    None,
    /// The first record that is not older than this duration (KIP-1106).
    ByDuration(Duration),
}

impl OffsetReset {
    /// Returns the value of `auto.offset.reset`, without the duration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Latest => "latest",
            Self::None => "none",
            Self::ByDuration(_) => "by_duration",
        }
    }
}

/// Protocol by which a group assigns partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The group leader assigns the partitions.
    Classic,
    /// The coordinator assigns the partitions (KIP-848).
    Consumer,
}

/// Options of a group member.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// Group id. Without a group id, the consumer joins no group and commits no offsets.
    pub id: Option<String>,
    /// Instance id of a static member (KIP-345).
    pub instance_id: Option<String>,
    /// Protocol by which the group assigns partitions.
    pub protocol: GroupProtocol,
    /// Name of the server-side assignor; `None` to let the coordinator choose.
    pub remote_assignor: Option<String>,
    /// Names of the client-side assignors, in order of preference.
    pub assignors: Vec<String>,
    /// Time without a heartbeat after which the coordinator removes a member.
    pub session_timeout: Duration,
    /// Interval between heartbeats.
    pub heartbeat_interval: Duration,
    /// Maximum time between two polls. After that time the member leaves the group.
    pub max_poll_interval: Duration,
    /// Interval of automatic commits; `None` if disabled.
    pub auto_commit: Option<Duration>,
    /// True if each poll marks the rows of the previous poll to be committed.
    pub auto_store: bool,
    /// True if topic patterns do not match Kafka's internal topics.
    pub exclude_internal_topics: bool,
}

/// Determines which transactional records a consumer returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationLevel {
    /// All records.
    ReadUncommitted,
    /// Only records of committed transactions.
    ReadCommitted,
}

/// Behaviour when none of the known brokers is reachable (KIP-899, KIP-1102).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Keep trying the known brokers.
    None,
    /// Discard the known brokers and connect to the bootstrap servers again.
    Rebootstrap,
}

/// Options shared by all clients.
#[derive(Debug, Clone)]
pub struct CommonOptions {
    /// Bootstrap addresses, `host:port`.
    pub bootstrap_servers: Vec<String>,
    /// True if the bootstrap addresses are those of controllers (KIP-919).
    pub at_controllers: bool,
    /// True if each IP address of a bootstrap host is tried as a separate server.
    pub expand_bootstrap_servers: bool,
    /// Client id.
    pub client_id: String,
    /// Timeout of one request.
    pub request_timeout: Duration,
    /// Timeout of calls that do not pass a timeout.
    pub default_api_timeout: Duration,
    /// Time for the first resolution of a bootstrap server's name; zero for no limit beyond that of each call.
    pub bootstrap_resolve_timeout: Duration,
    /// Timeout of the first connection attempt.
    pub connection_setup_timeout: Duration,
    /// Maximum timeout of a connection attempt, up to which it grows after failures.
    pub connection_setup_timeout_max: Duration,
    /// Idle time after which a connection is closed.
    pub connections_max_idle: Option<Duration>,
    /// Initial delay before a failed connection is attempted again.
    pub reconnect_backoff: Duration,
    /// Maximum delay before a failed connection is attempted again.
    pub reconnect_backoff_max: Duration,
    /// Initial delay before a failed request is retried.
    pub retry_backoff: Duration,
    /// Maximum delay before a failed request is retried.
    pub retry_backoff_max: Duration,
    /// Age at which metadata is refreshed.
    pub metadata_max_age: Duration,
    /// Time without use after which a topic is removed from the metadata.
    pub metadata_max_idle: Duration,
    /// Behaviour when none of the known brokers is reachable.
    pub metadata_recovery: Recovery,
    /// True if connections name the broker that they must reach (KIP-1242).
    pub check_destination: bool,
    /// Time without a response from any broker after which `metadata_recovery` applies.
    pub metadata_recovery_trigger: Duration,
    /// Socket receive buffer, in bytes.
    pub receive_buffer: Option<u32>,
    /// Socket send buffer, in bytes.
    pub send_buffer: Option<u32>,
    /// Maximum size of a response, in bytes.
    pub max_response_bytes: usize,
    /// True if metadata requests allow brokers to create topics.
    pub allow_auto_create_topics: bool,
    /// Kafka release that is assumed for all brokers. If it is set, ApiVersions is not requested.
    pub assumed_release: Option<Release>,
    /// Kafka release that is assumed for brokers that do not support ApiVersions.
    pub fallback_release: Option<Release>,
    /// Metrics to record, and the observer of events.
    pub metrics: MetricsOptions,
    /// TLS and login.
    pub security: SecurityOptions,
    /// API versions that the user has set, by API name.
    pub api_versions: BTreeMap<&'static str, i16>,
    /// Maximum API versions that follow from other options, by API name.
    pub newest_api_versions: BTreeMap<&'static str, i16>,
}

/// Strategy that chooses the partition of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitioner {
    /// Hash of the key as in Java's client.
    Murmur2,
    /// Round robin.
    RoundRobin,
    /// CRC-32 of the key. All records without a key go to the same partition.
    Consistent,
    /// CRC-32 of the key. Records without a key are distributed over all partitions.
    ConsistentRandom,
    /// FNV-1a hash of the key. All records without a key go to the same partition.
    Fnv1a,
    /// FNV-1a hash of the key. Records without a key are distributed over all partitions.
    Fnv1aRandom,
}

/// Options of a producer.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// Number of replicas that must acknowledge a batch; −1 for all in-sync replicas.
    pub acks: i16,
    /// True if batches carry sequence numbers, so that brokers can detect duplicates.
    pub enable_idempotence: bool,
    /// True if a broker that does not support idempotence causes an error.
    pub require_idempotence: bool,
    /// Transactional id.
    pub transactional_id: Option<String>,
    /// Timeout after which the coordinator aborts a transaction.
    pub transaction_timeout: Duration,
    /// Maximum number of requests in flight per connection.
    pub max_in_flight: usize,
    /// Maximum time for which a batch waits for more records.
    pub linger: Duration,
    /// True if a batch waits only behind an earlier request, because `linger.ms` is not set.
    pub adaptive_linger: bool,
    /// Maximum number of retries of a batch.
    pub retries: u32,
    /// Maximum time from `send` until the result of a record is known.
    pub delivery_timeout: Duration,
    /// Maximum size, in bytes, of a batch of records that were sent one by one.
    pub batch_size: usize,
    /// Maximum size of a record and of a request, in bytes.
    pub max_request_size: usize,
    /// Compression of batches.
    pub compression: Codec,
    /// Compression level; `None` for the default level of the codec.
    pub compression_level: Option<i32>,
    /// Newest message format (magic) to write: 0, 1 or 2.
    pub magic: i8,
    /// Maximum time for which `send` waits for buffer memory or metadata.
    pub max_block: Duration,
    /// Maximum size of all records that wait to be sent, in bytes.
    pub buffer_memory: usize,
    /// Strategy that chooses the partition of a record.
    pub partitioner: Partitioner,
    /// True if keys are ignored when a partition is chosen.
    pub partitioner_ignore_keys: bool,
    /// True if partitions with short queues are chosen more often.
    pub partitioner_adaptive: bool,
    /// Time for which a broker may accept no batches before its partitions are avoided.
    pub partitioner_patience: Option<Duration>,
    /// Rack whose brokers receive the records without a key.
    pub partitioner_rack: Option<String>,
}

/// Options of a consumer.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// Group membership and commits.
    pub group: GroupOptions,
    /// Rack of the client, sent to brokers.
    pub client_rack: String,
    /// Position at which a partition without a valid offset is read.
    pub auto_offset_reset: OffsetReset,
    /// Determines which transactional records are returned.
    pub isolation_level: IsolationLevel,
    /// Minimum size of a fetch response, in bytes. The broker waits until it has that much data.
    pub fetch_min_bytes: i32,
    /// Maximum time for which the broker waits for `fetch_min_bytes`.
    pub fetch_max_wait: Duration,
    /// Maximum size of a fetch response, in bytes.
    pub fetch_max_bytes: i32,
    /// Maximum size of the data of one partition in a fetch response, in bytes.
    pub max_partition_fetch_bytes: i32,
    /// Maximum size of the fetched data queued for `poll`, in bytes.
    pub queued_max_bytes: usize,
    /// Maximum number of rows in an Arrow batch.
    pub max_poll_records: usize,
    /// True if checksums of batches are verified.
    pub check_crcs: bool,
    /// Maximum decompressed size of a batch, in bytes.
    pub max_decompressed_bytes: usize,
    /// Maximum compression ratio of a batch; 0 for no limit.
    pub max_decompressed_ratio: usize,
    /// Arrow layout of keys and values.
    pub layout: Layout,
    /// Columns to decode. Set by the client, not by users.
    pub projection: Projection,
    /// True if batches have the column `headers`.
    pub include_headers: bool,
    /// True if batches have the column with leader epochs.
    pub include_leader_epoch: bool,
}

/// Validated options of one client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Options shared by all clients.
    pub common: CommonOptions,
    /// Options of a producer; the defaults if the client is not a producer.
    pub producer: ProducerOptions,
    /// Options of a consumer; the defaults if the client is not a consumer.
    pub consumer: ConsumerOptions,
    effective: Vec<(String, String)>,
    remarks: Vec<String>,
}

impl Options {
    /// Returns all options of this client with their effective values, in the order of the table. Secrets are masked.
    pub fn effective(&self) -> &[(String, String)] {
        &self.effective
    }

    /// Returns remarks on settings that are valid but probably unintended, to be logged as warnings.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns an error text if the API versions set by the user commit offsets to one storage (ZooKeeper or Kafka) but
    /// fetch them from the other.
    pub fn split_offset_storage(&self) -> Option<String> {
        let configured_version = |key: ApiKey| self.common.api_versions.get(key.name()).copied();
        let (commit, fetch) = (configured_version(ApiKey::OffsetCommit), configured_version(ApiKey::OffsetFetch));
        let storage = |version: Option<i16>| match version {
            Some(0) => "v0, which is ZooKeeper".to_owned(),
            Some(version) => format!("v{version}, which is Kafka"),
            None => "the newest version, which is Kafka".to_owned(),
        };
        ((commit == Some(0)) != (fetch == Some(0))).then(|| {
            format!(
                "offsets are committed with {} and fetched with {}: what is committed would seem lost. Set options \
                 api.version.offset_commit and api.version.offset_fetch both to 0 or both to later versions",
                storage(commit),
                storage(fetch)
            )
        })
    }
}

impl std::fmt::Display for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.effective.iter().try_for_each(|(name, value)| writeln!(f, "{name} = {value}"))
    }
}

/// Returns the option table as a Markdown page.
pub fn options_markdown() -> String {
    let mut page = String::from(
        "# Options\n\nGiven as a mapping with dotted names, `Consumer({\"group.id\": \"g\"})`, or as keywords, \
         `Consumer(group_id=\"g\")`. Names, meanings and defaults are the Java client's unless said otherwise. An unknown \
         name is an error, and so is an option of Kafka's that this version does not have. A value of `None` \
         is the default. Options in milliseconds or seconds also take a `datetime.timedelta`.\n\n\
         | option | clients | values | default | meaning |\n|---|---|---|---|---|\n",
    );
    for spec in OPTIONS.iter().chain(SHARE_OPTIONS) {
        let mut clients: Vec<_> = spec.clients.iter().map(|c| format!("{c:?}").to_lowercase()).collect();
        let is_of_consumers = spec.clients.contains(&ClientKind::Consumer);
        let rejection = share::rejection(spec.name).filter(|_| is_of_consumers);
        if rejection.is_none() && (is_of_consumers || spec.clients.is_empty()) {
            clients.push("share consumer".to_owned());
        }
        let clients = if spec.clients.len() == 3 { "all".to_owned() } else { clients.join(", ") };
        let rejection = rejection.map(|reason| format!(" Not of share consumers ({reason}).")).unwrap_or_default();
        let aliases = match spec.aliases {
            [] => String::new(),
            names => format!(" Also `{}`.", names.join("`, `")),
        };
        let values = match spec.kind {
            Kind::Secret => "text, never shown".to_owned(),
            kind => kind.describe(),
        };
        let default = if spec.default.is_empty() { "–".to_owned() } else { format!("`{}`", spec.default) };
        page += &format!("| `{}` | {clients} | {values} | {default} | {}{rejection}{aliases} |\n", spec.name, spec.doc);
    }
    page += "| `api.version.NAME` | all | whole number | – | The version of one API, for example `api.version.offset_commit`; \
             without it the highest that client and broker have in common. |\n\
             | `config.providers.NAME.class` | all | text | – | What kind of provider NAME is, by Java's class: \
             `EnvVarConfigProvider`, `FileConfigProvider` or `DirectoryConfigProvider`, with or without its package. Not \
             needed where NAME is `env`, `file` or `directory`. |\n\
             | `config.providers.NAME.param.allowed.paths` | all | text, separated by commas | – | The files and folders \
             that provider NAME may read (KIP-993); without it all. |\n\
             | `config.providers.NAME.param.allowlist.pattern` | all | text | – | A regular expression for the environment \
             variables that provider NAME may give; without it all. |\n";
    page
}
