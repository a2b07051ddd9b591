//! Options: one table, checked values, typed fields.

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
mod suggest;
mod table;
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

pub use properties::properties;
pub use registry::{RegistryLogin, RegistryOptions};
pub use security_options::{
    KerberosOptions, Mechanism, OAuthOptions, Protocol, RefreshOptions, SaslOptions, SecurityOptions, StoreType,
    TlsOptions,
};
pub use suggest::nearest;
pub use table::{Kind, OPTIONS, OptionSpec};
pub use value::OptionValue;

/// Where reading starts when there is no offset to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetReset {
    /// The first offset that is still there.
    Earliest,
    /// The end.
    Latest,
    /// Nowhere: an error.
    None,
    /// The first record that is not older than this (KIP-1106).
    ByDuration(Duration),
}

impl OffsetReset {
    /// The value of `auto.offset.reset`, without the duration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Latest => "latest",
            Self::None => "none",
            Self::ByDuration(_) => "by_duration",
        }
    }
}

/// How the members of a group share partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupProtocol {
    /// One of them assigns.
    Classic,
    /// The coordinator assigns (KIP-848).
    Consumer,
}

/// Options of a member of a group.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// The group; without one there is no membership and nothing is committed.
    pub id: Option<String>,
    /// Of a static member (KIP-345).
    pub instance_id: Option<String>,
    /// How partitions are shared.
    pub protocol: GroupProtocol,
    /// The coordinator's assignor, if one was chosen.
    pub remote_assignor: Option<String>,
    /// Names of assignors, in order of preference.
    pub assignors: Vec<String>,
    /// Without a heartbeat a member is dead after this.
    pub session_timeout: Duration,
    /// Between heartbeats.
    pub heartbeat_interval: Duration,
    /// Without a poll a member leaves after this.
    pub max_poll_interval: Duration,
    /// Between automatic commits; `None` for no automatic commits.
    pub auto_commit: Option<Duration>,
    /// Whether rows count as finished at the next poll.
    pub auto_store: bool,
    /// Whether patterns leave out Kafka's own topics.
    pub exclude_internal_topics: bool,
}

/// Which records of transactions are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationLevel {
    /// All.
    ReadUncommitted,
    /// Those of committed transactions only.
    ReadCommitted,
}

/// What a client does that no known broker answers any more (KIP-899, KIP-1102).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// It goes on asking the brokers that it knows.
    None,
    /// It starts again from the bootstrap servers.
    Rebootstrap,
}

/// Options that every client has.
#[derive(Debug, Clone)]
pub struct CommonOptions {
    /// `host:port` of each.
    pub bootstrap_servers: Vec<String>,
    /// Whether those are controllers (KIP-919).
    pub at_controllers: bool,
    /// Whether each address of a bootstrap server is a server of its own.
    pub expand_bootstrap_servers: bool,
    /// The client's own name.
    pub client_id: String,
    /// For one request.
    pub request_timeout: Duration,
    /// For a call without a timeout of its own.
    pub default_api_timeout: Duration,
    /// For one connection attempt, the first.
    pub connection_setup_timeout: Duration,
    /// At most, after failures.
    pub connection_setup_timeout_max: Duration,
    /// After which an idle connection is closed.
    pub connections_max_idle: Option<Duration>,
    /// Before reconnecting.
    pub reconnect_backoff: Duration,
    /// At most.
    pub reconnect_backoff_max: Duration,
    /// Before retrying.
    pub retry_backoff: Duration,
    /// At most.
    pub retry_backoff_max: Duration,
    /// After which metadata is asked for again.
    pub metadata_max_age: Duration,
    /// After which a topic that nobody uses is forgotten.
    pub metadata_max_idle: Duration,
    /// What to do when no known broker answers any more.
    pub metadata_recovery: Recovery,
    /// After how long without an answer that is done.
    pub metadata_recovery_trigger: Duration,
    /// Of the socket.
    pub receive_buffer: Option<u32>,
    /// Of the socket.
    pub send_buffer: Option<u32>,
    /// Of a response.
    pub max_response_bytes: usize,
    /// Whether metadata requests may create topics.
    pub allow_auto_create_topics: bool,
    /// The Kafka that every broker is spoken to as, without asking it.
    pub assumed_release: Option<Release>,
    /// The Kafka that brokers are spoken to as that cannot say what they speak.
    pub fallback_release: Option<Release>,
    /// What is counted, and who is notified of events.
    pub metrics: MetricsOptions,
    /// TLS and the login.
    pub security: SecurityOptions,
    /// Versions that the user chose, by the API's name.
    pub api_versions: BTreeMap<&'static str, i16>,
    /// Versions that other options allow no newer one than, by the API's name.
    pub newest_api_versions: BTreeMap<&'static str, i16>,
}

/// How a record without a partition gets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitioner {
    /// By Java's hash of the key.
    Murmur2,
    /// One after the other.
    RoundRobin,
    /// By the CRC-32 of the key; those without one share a partition.
    Consistent,
    /// By the CRC-32 of the key, if there is one.
    ConsistentRandom,
    /// By the FNV-1a of the key; those without one share a partition.
    Fnv1a,
    /// By the FNV-1a of the key, if there is one.
    Fnv1aRandom,
}

/// Options of a producer.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// −1 for all.
    pub acks: i16,
    /// Whether batches carry sequences.
    pub enable_idempotence: bool,
    /// Whether they must, whatever the broker is.
    pub require_idempotence: bool,
    /// Of a producer that writes in transactions.
    pub transactional_id: Option<String>,
    /// After which the coordinator aborts.
    pub transaction_timeout: Duration,
    /// Requests per connection.
    pub max_in_flight: usize,
    /// How long a batch waits for more.
    pub linger: Duration,
    /// At most.
    pub retries: u32,
    /// From `send` to result.
    pub delivery_timeout: Duration,
    /// Of single records.
    pub batch_size: usize,
    /// Of a record or request.
    pub max_request_size: usize,
    /// Of batches.
    pub compression: Codec,
    /// None is the codec's default.
    pub compression_level: Option<i32>,
    /// The newest message format to write: 0, 1 or 2.
    pub magic: i8,
    /// For memory and metadata.
    pub max_block: Duration,
    /// Waiting to be sent.
    pub buffer_memory: usize,
    /// For records without a partition.
    pub partitioner: Partitioner,
    /// Whether keys choose none.
    pub partitioner_ignore_keys: bool,
    /// Whether those with short queues are preferred.
    pub partitioner_adaptive: bool,
    /// After how long brokers that take nothing are avoided.
    pub partitioner_patience: Option<Duration>,
}

/// Options of a consumer.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// Membership and offsets.
    pub group: GroupOptions,
    /// Sent to brokers.
    pub client_rack: String,
    /// Without an offset.
    pub auto_offset_reset: OffsetReset,
    /// Of transactions.
    pub isolation_level: IsolationLevel,
    /// A broker waits for this many.
    pub fetch_min_bytes: i32,
    /// And no longer than this.
    pub fetch_max_wait: Duration,
    /// In one answer.
    pub fetch_max_bytes: i32,
    /// Of one partition.
    pub max_partition_fetch_bytes: i32,
    /// Waiting for `poll`.
    pub queued_max_bytes: usize,
    /// Rows in a batch.
    pub max_poll_records: usize,
    /// Of batches.
    pub check_crcs: bool,
    /// Of one batch.
    pub max_decompressed_bytes: usize,
    /// Of one batch, 0 for any.
    pub max_decompressed_ratio: usize,
    /// Of keys and values.
    pub layout: Layout,
    /// Which columns are decoded; no option of a user's.
    pub projection: Projection,
    /// Whether there is such a column.
    pub include_headers: bool,
    /// Whether there is such a column.
    pub include_leader_epoch: bool,
}

/// Checked options of one client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of every client.
    pub common: CommonOptions,
    /// Of a producer; defaults in other clients.
    pub producer: ProducerOptions,
    /// Of a consumer; defaults in other clients.
    pub consumer: ConsumerOptions,
    effective: Vec<(String, String)>,
    remarks: Vec<String>,
}

impl Options {
    /// Every option of this client and its value, given or default, in the order of the table; secrets are masked.
    pub fn effective(&self) -> &[(String, String)] {
        &self.effective
    }

    /// What a user should know who gave these options, though it is no error: to be logged as warnings.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What is wrong where the versions that were chosen commit offsets to one storage and fetch them from the other.
    pub fn split_offset_storage(&self) -> Option<String> {
        let chosen = |key: ApiKey| self.common.api_versions.get(key.name()).copied();
        let (commit, fetch) = (chosen(ApiKey::OffsetCommit), chosen(ApiKey::OffsetFetch));
        let place = |version: Option<i16>| match version {
            Some(0) => "v0, which is ZooKeeper".to_owned(),
            Some(version) => format!("v{version}, which is Kafka"),
            None => "the newest version, which is Kafka".to_owned(),
        };
        ((commit == Some(0)) != (fetch == Some(0))).then(|| {
            format!(
                "offsets are committed with {} and fetched with {}: what is committed would seem lost. Set options \
                 api.version.offset_commit and api.version.offset_fetch both to 0 or both to later versions",
                place(commit),
                place(fetch)
            )
        })
    }
}

impl std::fmt::Display for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.effective.iter().try_for_each(|(name, value)| writeln!(f, "{name} = {value}"))
    }
}

/// The table as a page of Markdown.
pub fn options_markdown() -> String {
    let mut page = String::from(
        "# Options\n\nGiven as a mapping with dotted names, `Consumer({\"group.id\": \"g\"})`, or as keywords, \
         `Consumer(group_id=\"g\")`. Names, meanings and defaults are the Java client's unless said otherwise. An unknown \
         name is an error, and so is an option of Kafka's that this version does not have.\n\n\
         | option | clients | values | default | meaning |\n|---|---|---|---|---|\n",
    );
    for spec in OPTIONS {
        let clients: Vec<_> = spec.clients.iter().map(|c| format!("{c:?}").to_lowercase()).collect();
        let clients = if clients.len() == 3 { "all".to_owned() } else { clients.join(", ") };
        let aliases = match spec.aliases {
            [] => String::new(),
            names => format!(" Also `{}`.", names.join("`, `")),
        };
        let values = match spec.kind {
            Kind::Secret => "text, never shown".to_owned(),
            kind => kind.describe(),
        };
        let default = if spec.default.is_empty() { "–".to_owned() } else { format!("`{}`", spec.default) };
        page += &format!("| `{}` | {clients} | {values} | {default} | {}{aliases} |\n", spec.name, spec.doc);
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
