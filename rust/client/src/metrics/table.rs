//! Every metric, once: Java's group and name, kind, unit, clients, labels, Prometheus' and OpenTelemetry's names, meaning.

use self::LabelKind::{Api, Node, None as No, Partition, Topic};
use crate::types::ClientKind::{self, Admin, Consumer, Producer};

/// What there is one value of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelKind {
    /// The client.
    None,
    /// Each topic.
    Topic,
    /// Each partition.
    Partition,
    /// Each broker.
    Node,
    /// Each kind of request.
    Api,
}

/// What a metric's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 at the client's start.
    Counter,
    /// What is so now, or was in the last windows of time.
    Gauge,
    /// Percentiles, sum and count of a time.
    Summary,
}

/// What a metric is counted in. Java's client counts times in milliseconds, Prometheus and OpenTelemetry in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Things a second.
    PerSecond,
    /// Things an hour.
    PerHour,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Milliseconds, also between 1970 and a moment.
    Millis,
    /// Seconds.
    Seconds,
    /// Of 1.
    Ratio,
}

/// Java's groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Of the client.
    Client,
    /// Of one broker.
    Node,
    /// Of one topic that is written to.
    Topic,
    /// Of reading.
    Fetch,
    /// Of the membership in a group.
    Coordinator,
    /// Of the program.
    App,
    /// What Java's client does not have.
    Own,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricSpec {
    /// Which it is.
    pub id: Id,
    /// Java's.
    pub group: Group,
    /// Java's; our own in the same style.
    pub name: &'static str,
    /// What values are.
    pub kind: Kind,
    /// What they are counted in.
    pub unit: Unit,
    /// Who has it.
    pub clients: &'static [ClientKind],
    /// What there is one value of.
    pub labels: LabelKind,
    /// Prometheus' name behind `samsarrow_consumer_` and the like; empty where Prometheus computes it from others.
    pub prometheus: &'static str,
    /// OpenTelemetry's name where its conventions have one.
    pub convention: &'static str,
    /// What it says.
    pub doc: &'static str,
}

/// The version of OpenTelemetry's semantic conventions that names are of; those for messaging are in development.
pub const CONVENTIONS: &str = "1.44.0";

const ALL: &[ClientKind] = &[Producer, Consumer, Admin];
const P: &[ClientKind] = &[Producer];
const C: &[ClientKind] = &[Consumer];

macro_rules! metrics {
    ($($id:ident $group:ident $name:literal $clients:ident $labels:ident $kind:ident $unit:ident, $prometheus:literal
        $(= $convention:literal)?, $doc:literal;)*) => {
        /// Which metric.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id {
            $(#[doc = $doc] $id,)*
        }

        /// The table, in the order of the documentation.
        pub const METRICS: &[MetricSpec] = &[$(MetricSpec {
            id: Id::$id, group: Group::$group, name: $name, kind: Kind::$kind, unit: Unit::$unit, clients: $clients,
            labels: $labels, prometheus: $prometheus, convention: concat!($($convention)?), doc: $doc,
        },)*];
    };
}

metrics! {
    StartTime App "start-time-ms" ALL No Gauge Millis, "start_time_seconds",
        "When the client was made, since 1970.";
    ConnectionCount Client "connection-count" ALL No Gauge Count, "connections",
        "Connections that are open.";
    ConnectionCreationTotal Client "connection-creation-total" ALL No Counter Count, "connections_created_total",
        "Connections that were made.";
    ConnectionCreationRate Client "connection-creation-rate" ALL No Gauge PerSecond, "",
        "Connections made a second.";
    ConnectionCloseTotal Client "connection-close-total" ALL No Counter Count, "connections_closed_total",
        "Connections that ended, on either side.";
    ConnectionCloseRate Client "connection-close-rate" ALL No Gauge PerSecond, "",
        "Connections that ended a second.";
    SuccessfulAuthenticationTotal Client "successful-authentication-total" ALL No Counter Count, "authentications_total",
        "Connections made with a login (SASL).";
    FailedAuthenticationTotal Client "failed-authentication-total" ALL No Counter Count, "failed_authentications_total",
        "Logins and TLS handshakes that a broker, or the client, refused.";
    RequestTotal Client "request-total" ALL No Counter Count, "requests_total",
        "Requests that were sent.";
    RequestRate Client "request-rate" ALL No Gauge PerSecond, "",
        "Requests sent a second.";
    RequestSizeAvg Client "request-size-avg" ALL No Gauge Bytes, "",
        "The size of a request in the mean.";
    RequestSizeMax Client "request-size-max" ALL No Gauge Bytes, "request_size_max_bytes",
        "The largest request.";
    OutgoingByteTotal Client "outgoing-byte-total" ALL No Counter Bytes, "sent_bytes_total",
        "Bytes of requests.";
    OutgoingByteRate Client "outgoing-byte-rate" ALL No Gauge BytesPerSecond, "",
        "Bytes of requests a second.";
    ResponseTotal Client "response-total" ALL No Counter Count, "responses_total",
        "Answers that came.";
    ResponseRate Client "response-rate" ALL No Gauge PerSecond, "",
        "Answers a second.";
    IncomingByteTotal Client "incoming-byte-total" ALL No Counter Bytes, "received_bytes_total",
        "Bytes of answers.";
    IncomingByteRate Client "incoming-byte-rate" ALL No Gauge BytesPerSecond, "",
        "Bytes of answers a second.";
    NetworkIoTotal Client "network-io-total" ALL No Counter Count, "",
        "Requests and answers.";
    NetworkIoRate Client "network-io-rate" ALL No Gauge PerSecond, "",
        "Requests and answers a second.";
    RequestsInFlight Client "requests-in-flight" P No Gauge Count, "requests_in_flight",
        "Requests that wait for their answers.";
    MetadataAge Client "metadata-age" P No Gauge Seconds, "metadata_age_seconds",
        "How old the newest metadata is.";
    ApiLatency Own "api-latency" ALL Api Summary Millis, "api_latency_seconds",
        "From a request to the first bytes of its answer, by kind of request; with Fetch that includes the wait for records.";
    Throttled Own "throttle-time-total" ALL No Counter Millis, "throttle_seconds_total",
        "How long brokers asked to be left alone, because of quotas.";

    NodeRequestTotal Node "request-total" ALL Node Counter Count, "node_requests_total",
        "Requests to this broker.";
    NodeRequestRate Node "request-rate" ALL Node Gauge PerSecond, "",
        "Requests to this broker a second.";
    NodeRequestSizeAvg Node "request-size-avg" ALL Node Gauge Bytes, "",
        "The size of a request to this broker in the mean.";
    NodeRequestSizeMax Node "request-size-max" ALL Node Gauge Bytes, "",
        "The largest request to this broker.";
    NodeOutgoingByteTotal Node "outgoing-byte-total" ALL Node Counter Bytes, "node_sent_bytes_total",
        "Bytes of requests to this broker.";
    NodeOutgoingByteRate Node "outgoing-byte-rate" ALL Node Gauge BytesPerSecond, "",
        "Bytes of requests to this broker a second.";
    NodeResponseTotal Node "response-total" ALL Node Counter Count, "node_responses_total",
        "Answers of this broker.";
    NodeResponseRate Node "response-rate" ALL Node Gauge PerSecond, "",
        "Answers of this broker a second.";
    NodeIncomingByteTotal Node "incoming-byte-total" ALL Node Counter Bytes, "node_received_bytes_total",
        "Bytes of this broker's answers.";
    NodeIncomingByteRate Node "incoming-byte-rate" ALL Node Gauge BytesPerSecond, "",
        "Bytes of this broker's answers a second.";
    NodeRequestLatencyAvg Node "request-latency-avg" ALL Node Gauge Millis, "",
        "From a request to this broker to its answer, in the mean.";
    NodeRequestLatencyMax Node "request-latency-max" ALL Node Gauge Millis, "node_request_latency_max_seconds",
        "The longest such time.";
    NodeConnections Own "node-connection-count" ALL Node Gauge Count, "node_connections",
        "Connections to this broker that are open.";
    NodeLatency Own "node-latency" ALL Node Summary Millis, "node_latency_seconds",
        "From a request to this broker to the first bytes of its answer.";

    RecordSendTotal Client "record-send-total" P No Counter Count, "records_total",
        "Records that brokers have taken.";
    RecordSendRate Client "record-send-rate" P No Gauge PerSecond, "",
        "Records that brokers took a second.";
    RecordRetryTotal Client "record-retry-total" P No Counter Count, "record_retries_total",
        "Records that had to be sent again, once for each time.";
    RecordRetryRate Client "record-retry-rate" P No Gauge PerSecond, "",
        "Records sent again a second.";
    RecordErrorTotal Client "record-error-total" P No Counter Count, "record_errors_total",
        "Records that failed for good.";
    RecordErrorRate Client "record-error-rate" P No Gauge PerSecond, "",
        "Records that failed a second.";
    BatchSizeAvg Client "batch-size-avg" P No Gauge Bytes, "",
        "The size of a batch, compressed, in the mean.";
    BatchSizeMax Client "batch-size-max" P No Gauge Bytes, "batch_size_max_bytes",
        "The largest batch.";
    ProducedBytes Own "byte-total" P No Counter Bytes, "bytes_total",
        "Bytes of batches that brokers have taken, compressed.";
    ProducedBatches Own "batch-total" P No Counter Count, "batches_total",
        "Batches that brokers have taken.";
    BatchRetries Own "batch-retry-total" P No Counter Count, "batch_retries_total",
        "Batches that had to be sent again.";
    ProduceRequests Own "produce-request-total" P No Counter Count, "produce_requests_total",
        "Produce requests that were answered, or written where no answer is asked for.";
    RecordsPerRequestAvg Client "records-per-request-avg" P No Gauge Count, "",
        "Records in a request in the mean.";
    RecordQueueTimeAvg Client "record-queue-time-avg" P No Gauge Millis, "",
        "How long a batch waited before it was sent, in the mean.";
    RecordQueueTimeMax Client "record-queue-time-max" P No Gauge Millis, "record_queue_time_max_seconds",
        "The longest such time.";
    RequestLatencyAvg Client "request-latency-avg" P No Gauge Millis, "",
        "From a Produce request to its answer, in the mean.";
    RequestLatencyMax Client "request-latency-max" P No Gauge Millis, "",
        "The longest such time.";
    ProduceLatency Own "produce-latency" P No Summary Millis, "request_latency_seconds",
        "From a Produce request to its answer.";
    DeliveryLatency Own "delivery-latency" P No Summary Millis, "delivery_latency_seconds",
        "From the first record of a batch to its answer, once for each of its records.";
    ProduceThrottleTimeAvg Client "produce-throttle-time-avg" P No Gauge Millis, "",
        "How long a broker asked to be left alone in its answers to Produce, in the mean.";
    ProduceThrottleTimeMax Client "produce-throttle-time-max" P No Gauge Millis, "",
        "The longest such time.";
    BufferTotalBytes Client "buffer-total-bytes" P No Gauge Bytes, "buffer_bytes",
        "`buffer.memory`.";
    BufferAvailableBytes Client "buffer-available-bytes" P No Gauge Bytes, "buffer_available_bytes",
        "What of `buffer.memory` is free.";
    QueuedRecords Own "queued-records" P No Gauge Count, "queued_records",
        "Records that have no result yet.";
    TopicRecordSendTotal Topic "record-send-total" P Topic Counter Count, "topic_records_total" = "messaging.client.sent.messages",
        "Records of this topic that brokers have taken.";
    TopicRecordSendRate Topic "record-send-rate" P Topic Gauge PerSecond, "",
        "Records of this topic a second.";
    TopicByteTotal Topic "byte-total" P Topic Counter Bytes, "topic_bytes_total",
        "Bytes of this topic's batches, compressed.";
    TopicByteRate Topic "byte-rate" P Topic Gauge BytesPerSecond, "",
        "Bytes of this topic's batches a second.";
    TopicRecordRetryTotal Topic "record-retry-total" P Topic Counter Count, "topic_record_retries_total",
        "Records of this topic that had to be sent again.";
    TopicRecordRetryRate Topic "record-retry-rate" P Topic Gauge PerSecond, "",
        "Records of this topic sent again a second.";
    TopicRecordErrorTotal Topic "record-error-total" P Topic Counter Count, "topic_record_errors_total",
        "Records of this topic that failed for good.";
    TopicRecordErrorRate Topic "record-error-rate" P Topic Gauge PerSecond, "",
        "Records of this topic that failed a second.";

    RecordsConsumedTotal Fetch "records-consumed-total" C No Counter Count, "records_total",
        "Rows that polls gave.";
    RecordsConsumedRate Fetch "records-consumed-rate" C No Gauge PerSecond, "",
        "Rows that polls gave a second.";
    BytesConsumedTotal Fetch "bytes-consumed-total" C No Counter Bytes, "bytes_total",
        "Bytes of the batches that were fetched, as they came: compressed, where Java's client counts them once decompressed.";
    BytesConsumedRate Fetch "bytes-consumed-rate" C No Gauge BytesPerSecond, "",
        "Bytes of fetched batches a second.";
    FetchTotal Fetch "fetch-total" C No Counter Count, "fetches_total",
        "Answers to Fetch.";
    FetchRate Fetch "fetch-rate" C No Gauge PerSecond, "",
        "Answers to Fetch a second.";
    FetchLatencyAvg Fetch "fetch-latency-avg" C No Gauge Millis, "",
        "From a Fetch to the first bytes of its answer, in the mean; it includes the wait for records (`fetch.max.wait.ms`).";
    FetchLatencyMax Fetch "fetch-latency-max" C No Gauge Millis, "fetch_latency_max_seconds",
        "The longest such time.";
    FetchSizeAvg Fetch "fetch-size-avg" C No Gauge Bytes, "",
        "Bytes of batches in an answer to Fetch, in the mean.";
    FetchSizeMax Fetch "fetch-size-max" C No Gauge Bytes, "fetch_size_max_bytes",
        "The most bytes of batches in one answer.";
    FetchedPerRequestAvg Fetch "records-per-request-avg" C No Gauge Count, "",
        "Records in an answer to Fetch, in the mean.";
    FetchThrottleTimeAvg Fetch "fetch-throttle-time-avg" C No Gauge Millis, "",
        "How long a broker asked to be left alone in its answers to Fetch, in the mean.";
    FetchThrottleTimeMax Fetch "fetch-throttle-time-max" C No Gauge Millis, "",
        "The longest such time.";
    RecordsLagMax Fetch "records-lag-max" C No Gauge Count, "records_lag_max",
        "The largest lag of all assigned partitions now.";
    RecordsLeadMin Fetch "records-lead-min" C No Gauge Count, "records_lead_min",
        "The smallest lead of all assigned partitions now.";
    RecordsLag Fetch "records-lag" C Partition Gauge Count, "records_lag",
        "Offsets between the program's position and the end that the last answer named: the high watermark, or the last stable offset with `isolation.level=read_committed`. No request is made for it.";
    RecordsLead Fetch "records-lead" C Partition Gauge Count, "records_lead",
        "Offsets between the start of the log and the program's position: what is left before retention takes records that were not read.";
    TopicRecordsConsumedTotal Fetch "records-consumed-total" C Topic Counter Count, "topic_records_total" = "messaging.client.consumed.messages",
        "Rows of this topic that polls gave.";
    TopicRecordsConsumedRate Fetch "records-consumed-rate" C Topic Gauge PerSecond, "",
        "Rows of this topic a second.";
    TopicBytesConsumedTotal Fetch "bytes-consumed-total" C Topic Counter Bytes, "topic_bytes_total",
        "Bytes of this topic's batches that were fetched.";
    TopicBytesConsumedRate Fetch "bytes-consumed-rate" C Topic Gauge BytesPerSecond, "",
        "Bytes of this topic's batches a second.";
    EndToEndLatency Own "end-to-end-latency" C No Summary Millis, "end_to_end_latency_seconds",
        "From a record's timestamp to its arrival here, by the base and the largest timestamp of each batch, each for half of its records. With `metrics.recording.level=DEBUG` by the timestamp of each row that a poll gives. Clocks that differ show here.";
    QueuedBytes Own "queued-bytes" C No Gauge Bytes, "queued_bytes",
        "Bytes that wait for `poll`.";

    LastPollSecondsAgo Client "last-poll-seconds-ago" C No Gauge Seconds, "last_poll_age_seconds",
        "Since the last `poll` began.";
    TimeBetweenPollAvg Client "time-between-poll-avg" C No Gauge Millis, "",
        "From the begin of a `poll` to that of the next, in the mean.";
    TimeBetweenPollMax Client "time-between-poll-max" C No Gauge Millis, "time_between_polls_max_seconds",
        "The longest such time.";
    PollIdleRatioAvg Client "poll-idle-ratio-avg" C No Gauge Ratio, "poll_idle_ratio",
        "The part of the time that the program waits in `poll`, and does not work.";

    AssignedPartitions Coordinator "assigned-partitions" C No Gauge Count, "assigned_partitions",
        "Partitions that this consumer reads.";
    RebalanceTotal Coordinator "rebalance-total" C No Counter Count, "rebalances_total",
        "Rebalances that this member went through.";
    RebalanceRate Coordinator "rebalance-rate-per-hour" C No Gauge PerHour, "",
        "Rebalances an hour.";
    RebalanceLatencyTotal Coordinator "rebalance-latency-total" C No Counter Millis, "rebalance_seconds_total",
        "How long they took.";
    RebalanceLatencyAvg Coordinator "rebalance-latency-avg" C No Gauge Millis, "",
        "How long a rebalance took in the mean.";
    RebalanceLatencyMax Coordinator "rebalance-latency-max" C No Gauge Millis, "rebalance_latency_max_seconds",
        "The longest one.";
    LastRebalanceSecondsAgo Coordinator "last-rebalance-seconds-ago" C No Gauge Seconds, "last_rebalance_age_seconds",
        "Since the last rebalance ended.";
    FailedRebalanceTotal Coordinator "failed-rebalance-total" C No Counter Count, "failed_rebalances_total",
        "Memberships that ended by what the coordinator said, or because `poll` was not called in time.";
    FailedRebalanceRate Coordinator "failed-rebalance-rate-per-hour" C No Gauge PerHour, "",
        "Such ends an hour.";
    CommitTotal Coordinator "commit-total" C No Counter Count, "commits_total",
        "Answers to OffsetCommit.";
    CommitRate Coordinator "commit-rate" C No Gauge PerSecond, "",
        "Commits a second.";
    CommitLatencyAvg Coordinator "commit-latency-avg" C No Gauge Millis, "",
        "From a commit to its answer, in the mean.";
    CommitLatencyMax Coordinator "commit-latency-max" C No Gauge Millis, "commit_latency_max_seconds",
        "The longest such time.";
    HeartbeatTotal Coordinator "heartbeat-total" C No Counter Count, "heartbeats_total",
        "Heartbeats that were answered.";
    HeartbeatRate Coordinator "heartbeat-rate" C No Gauge PerSecond, "",
        "Heartbeats a second.";
    HeartbeatResponseTimeMax Coordinator "heartbeat-response-time-max" C No Gauge Millis, "heartbeat_latency_max_seconds",
        "The longest time from a heartbeat to its answer.";
    LastHeartbeatSecondsAgo Coordinator "last-heartbeat-seconds-ago" C No Gauge Seconds, "last_heartbeat_age_seconds",
        "Since the last heartbeat was answered.";
    JoinTotal Coordinator "join-total" C No Counter Count, "joins_total",
        "Answers to JoinGroup.";
    JoinRate Coordinator "join-rate" C No Gauge PerSecond, "",
        "Answers to JoinGroup a second.";
    JoinTimeAvg Coordinator "join-time-avg" C No Gauge Millis, "",
        "From a JoinGroup to its answer, in the mean.";
    JoinTimeMax Coordinator "join-time-max" C No Gauge Millis, "",
        "The longest such time.";
    SyncTotal Coordinator "sync-total" C No Counter Count, "syncs_total",
        "Answers to SyncGroup.";
    SyncRate Coordinator "sync-rate" C No Gauge PerSecond, "",
        "Answers to SyncGroup a second.";
    SyncTimeAvg Coordinator "sync-time-avg" C No Gauge Millis, "",
        "From a SyncGroup to its answer, in the mean.";
    SyncTimeMax Coordinator "sync-time-max" C No Gauge Millis, "",
        "The longest such time.";
    PushTotal Own "telemetry-push-total" ALL No Counter Count, "telemetry_pushes_total",
        "Pushes of metrics that brokers took (KIP-714).";
}

impl Id {
    /// Its row.
    pub fn spec(self) -> &'static MetricSpec {
        // Ids are the rows' numbers; a test holds them so.
        METRICS.get(self as usize).unwrap_or(&METRICS[0])
    }
}

const _: () = assert!(!METRICS.is_empty());

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
