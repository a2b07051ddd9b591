//! Table of all metrics: Java's group and name, type, unit, clients, labels, names in Prometheus and OpenTelemetry,
//! description.

use self::LabelKind::{Api, Node, None as No, Partition, Topic};
use crate::types::ClientKind::{self, Admin, Consumer, Producer};

/// Label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelKind {
    /// No label: one value per client.
    None,
    /// One value per topic.
    Topic,
    /// One value per partition.
    Partition,
    /// One value per broker.
    Node,
    /// One value per API.
    Api,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Counter, which starts at 0 with the client and only grows.
    Counter,
    /// Current value, or a value over the last time windows.
    Gauge,
    /// Percentiles, sum and count of a duration.
    Summary,
}

/// Unit of a metric in Java. Java counts times in milliseconds, Prometheus and OpenTelemetry in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Number of items.
    Count,
    /// Items per second.
    PerSecond,
    /// Items per hour.
    PerHour,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Milliseconds; also a time since 1970.
    Millis,
    /// Seconds.
    Seconds,
    /// Ratio from 0 to 1.
    Ratio,
}

/// Group of metrics, as in Java.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Client.
    Client,
    /// Broker.
    Node,
    /// Topic of a producer.
    Topic,
    /// Consumer fetching.
    Fetch,
    /// Group membership.
    Coordinator,
    /// Application.
    App,
    /// Metrics that the Java client lacks.
    Own,
}

/// Row of the table.
#[derive(Debug, Clone, Copy)]
pub struct MetricSpec {
    /// Metric.
    pub id: Id,
    /// Java's group.
    pub group: Group,
    /// Java's name, or a name in its style.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Unit in Java.
    pub unit: Unit,
    /// Clients that have the metric.
    pub clients: &'static [ClientKind],
    /// Label.
    pub labels: LabelKind,
    /// Prometheus name without a prefix such as `samsarrow_consumer_`; empty if Prometheus computes it from other
    /// metrics.
    pub prometheus: &'static str,
    /// OpenTelemetry name, if the semantic conventions define one.
    pub convention: &'static str,
    /// Description.
    pub doc: &'static str,
}

/// Version of the OpenTelemetry semantic conventions; those for messaging are in development.
pub const CONVENTIONS: &str = "1.44.0";

const ALL: &[ClientKind] = &[Producer, Consumer, Admin];
const P: &[ClientKind] = &[Producer];
const C: &[ClientKind] = &[Consumer];

macro_rules! metrics {
    ($($id:ident $group:ident $name:literal $clients:ident $labels:ident $kind:ident $unit:ident, $prometheus:literal
        $(= $convention:literal)?, $doc:literal;)*) => {
        /// Metric.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id {
            $(#[doc = $doc] $id,)*
        }

        /// Table of all metrics, in the order of the documentation.
        pub const METRICS: &[MetricSpec] = &[$(MetricSpec {
            id: Id::$id, group: Group::$group, name: $name, kind: Kind::$kind, unit: Unit::$unit, clients: $clients,
            labels: $labels, prometheus: $prometheus, convention: concat!($($convention)?), doc: $doc,
        },)*];
    };
}

metrics! {
    StartTime App "start-time-ms" ALL No Gauge Millis, "start_time_seconds",
        "When the client was created, since 1970.";
    ConnectionCount Client "connection-count" ALL No Gauge Count, "connections",
        "Open connections.";
    ConnectionCreationTotal Client "connection-creation-total" ALL No Counter Count, "connections_created_total",
        "Connections created.";
    ConnectionCreationRate Client "connection-creation-rate" ALL No Gauge PerSecond, "",
        "Connections created per second.";
    ConnectionCloseTotal Client "connection-close-total" ALL No Counter Count, "connections_closed_total",
        "Connections closed, by either side.";
    ConnectionCloseRate Client "connection-close-rate" ALL No Gauge PerSecond, "",
        "Connections closed per second.";
    SuccessfulAuthenticationTotal Client "successful-authentication-total" ALL No Counter Count, "authentications_total",
        "Connections created with a login (SASL).";
    FailedAuthenticationTotal Client "failed-authentication-total" ALL No Counter Count, "failed_authentications_total",
        "Logins and TLS handshakes that a broker, or the client, rejected.";
    RequestTotal Client "request-total" ALL No Counter Count, "requests_total",
        "Requests sent.";
    RequestRate Client "request-rate" ALL No Gauge PerSecond, "",
        "Requests sent per second.";
    RequestSizeAvg Client "request-size-avg" ALL No Gauge Bytes, "",
        "The average size of a request.";
    RequestSizeMax Client "request-size-max" ALL No Gauge Bytes, "request_size_max_bytes",
        "The largest request.";
    OutgoingByteTotal Client "outgoing-byte-total" ALL No Counter Bytes, "sent_bytes_total",
        "Bytes of requests.";
    OutgoingByteRate Client "outgoing-byte-rate" ALL No Gauge BytesPerSecond, "",
        "Bytes of requests per second.";
    ResponseTotal Client "response-total" ALL No Counter Count, "responses_total",
        "Responses received.";
    ResponseRate Client "response-rate" ALL No Gauge PerSecond, "",
        "Responses per second.";
    IncomingByteTotal Client "incoming-byte-total" ALL No Counter Bytes, "received_bytes_total",
        "Bytes of responses.";
    IncomingByteRate Client "incoming-byte-rate" ALL No Gauge BytesPerSecond, "",
        "Bytes of responses per second.";
    NetworkIoTotal Client "network-io-total" ALL No Counter Count, "",
        "Requests and responses.";
    NetworkIoRate Client "network-io-rate" ALL No Gauge PerSecond, "",
        "Requests and responses per second.";
    RequestsInFlight Client "requests-in-flight" P No Gauge Count, "requests_in_flight",
        "Requests that wait for their responses.";
    MetadataAge Client "metadata-age" P No Gauge Seconds, "metadata_age_seconds",
        "The age of the newest metadata.";
    ApiLatency Own "api-latency" ALL Api Summary Millis, "api_latency_seconds",
        "Time from a request to the first bytes of its response, by kind of request; for Fetch this includes the \
         wait for records.";
    Throttled Own "throttle-time-total" ALL No Counter Millis, "throttle_seconds_total",
        "How long brokers throttled the client, because of quotas.";

    NodeRequestTotal Node "request-total" ALL Node Counter Count, "node_requests_total",
        "Requests to this broker.";
    NodeRequestRate Node "request-rate" ALL Node Gauge PerSecond, "",
        "Requests to this broker per second.";
    NodeRequestSizeAvg Node "request-size-avg" ALL Node Gauge Bytes, "",
        "The average size of a request to this broker.";
    NodeRequestSizeMax Node "request-size-max" ALL Node Gauge Bytes, "",
        "The largest request to this broker.";
    NodeOutgoingByteTotal Node "outgoing-byte-total" ALL Node Counter Bytes, "node_sent_bytes_total",
        "Bytes of requests to this broker.";
    NodeOutgoingByteRate Node "outgoing-byte-rate" ALL Node Gauge BytesPerSecond, "",
        "Bytes of requests to this broker per second.";
    NodeResponseTotal Node "response-total" ALL Node Counter Count, "node_responses_total",
        "Responses of this broker.";
    NodeResponseRate Node "response-rate" ALL Node Gauge PerSecond, "",
        "Responses of this broker per second.";
    NodeIncomingByteTotal Node "incoming-byte-total" ALL Node Counter Bytes, "node_received_bytes_total",
        "Bytes of this broker's responses.";
    NodeIncomingByteRate Node "incoming-byte-rate" ALL Node Gauge BytesPerSecond, "",
        "Bytes of this broker's responses per second.";
    NodeRequestLatencyAvg Node "request-latency-avg" ALL Node Gauge Millis, "",
        "Average time from a request to this broker to its response.";
    NodeRequestLatencyMax Node "request-latency-max" ALL Node Gauge Millis, "node_request_latency_max_seconds",
        "The longest such time.";
    NodeConnections Own "node-connection-count" ALL Node Gauge Count, "node_connections",
        "Open connections to this broker.";
    NodeLatency Own "node-latency" ALL Node Summary Millis, "node_latency_seconds",
        "Time from a request to this broker to the first bytes of its response.";

    RecordSendTotal Client "record-send-total" P No Counter Count, "records_total",
        "Records acknowledged.";
    RecordSendRate Client "record-send-rate" P No Gauge PerSecond, "",
        "Records acknowledged per second.";
    RecordRetryTotal Client "record-retry-total" P No Counter Count, "record_retries_total",
        "Records that had to be resent, counted once for each time.";
    RecordRetryRate Client "record-retry-rate" P No Gauge PerSecond, "",
        "Records resent per second.";
    RecordErrorTotal Client "record-error-total" P No Counter Count, "record_errors_total",
        "Records that failed permanently.";
    RecordErrorRate Client "record-error-rate" P No Gauge PerSecond, "",
        "Records that failed per second.";
    BatchSizeAvg Client "batch-size-avg" P No Gauge Bytes, "",
        "The average size of a batch, compressed.";
    BatchSizeMax Client "batch-size-max" P No Gauge Bytes, "batch_size_max_bytes",
        "The largest batch.";
    ProducedBytes Own "byte-total" P No Counter Bytes, "bytes_total",
        "Bytes of acknowledged batches, compressed.";
    ProducedBatches Own "batch-total" P No Counter Count, "batches_total",
        "Batches acknowledged.";
    BatchRetries Own "batch-retry-total" P No Counter Count, "batch_retries_total",
        "Batches that had to be resent.";
    ProduceRequests Own "produce-request-total" P No Counter Count, "produce_requests_total",
        "Produce requests with a response, or written if no response is requested.";
    RecordsPerRequestAvg Client "records-per-request-avg" P No Gauge Count, "",
        "Average number of records in a request.";
    RecordQueueTimeAvg Client "record-queue-time-avg" P No Gauge Millis, "",
        "Average time that a batch waited before it was sent.";
    RecordQueueTimeMax Client "record-queue-time-max" P No Gauge Millis, "record_queue_time_max_seconds",
        "The longest such time.";
    RequestLatencyAvg Client "request-latency-avg" P No Gauge Millis, "",
        "Average time from a Produce request to its response.";
    RequestLatencyMax Client "request-latency-max" P No Gauge Millis, "",
        "The longest such time.";
    ProduceLatency Own "produce-latency" P No Summary Millis, "request_latency_seconds",
        "Time from a Produce request to its response.";
    DeliveryLatency Own "delivery-latency" P No Summary Millis, "delivery_latency_seconds",
        "Time from the first record of a batch to its acknowledgement, counted once for each record.";
    ProduceThrottleTimeAvg Client "produce-throttle-time-avg" P No Gauge Millis, "",
        "Average throttle time in Produce responses.";
    ProduceThrottleTimeMax Client "produce-throttle-time-max" P No Gauge Millis, "",
        "The longest such time.";
    BufferTotalBytes Client "buffer-total-bytes" P No Gauge Bytes, "buffer_bytes",
        "`buffer.memory`.";
    BufferAvailableBytes Client "buffer-available-bytes" P No Gauge Bytes, "buffer_available_bytes",
        "Free bytes of `buffer.memory`.";
    QueuedRecords Own "queued-records" P No Gauge Count, "queued_records",
        "Records without a result yet.";
    TopicRecordSendTotal Topic "record-send-total" P Topic Counter Count, "topic_records_total" = "messaging.client.sent.messages",
        "Records of this topic acknowledged.";
    TopicRecordSendRate Topic "record-send-rate" P Topic Gauge PerSecond, "",
        "Records of this topic per second.";
    TopicByteTotal Topic "byte-total" P Topic Counter Bytes, "topic_bytes_total",
        "Bytes of this topic's batches, compressed.";
    TopicByteRate Topic "byte-rate" P Topic Gauge BytesPerSecond, "",
        "Bytes of this topic's batches per second.";
    TopicRecordRetryTotal Topic "record-retry-total" P Topic Counter Count, "topic_record_retries_total",
        "Records of this topic that had to be resent.";
    TopicRecordRetryRate Topic "record-retry-rate" P Topic Gauge PerSecond, "",
        "Records of this topic resent per second.";
    TopicRecordErrorTotal Topic "record-error-total" P Topic Counter Count, "topic_record_errors_total",
        "Records of this topic that failed permanently.";
    TopicRecordErrorRate Topic "record-error-rate" P Topic Gauge PerSecond, "",
        "Records of this topic that failed per second.";

    RecordsConsumedTotal Fetch "records-consumed-total" C No Counter Count, "records_total",
        "Rows returned by polls.";
    RecordsConsumedRate Fetch "records-consumed-rate" C No Gauge PerSecond, "",
        "Rows returned by polls per second.";
    BytesConsumedTotal Fetch "bytes-consumed-total" C No Counter Bytes, "bytes_total",
        "Bytes of fetched batches, compressed; Java's client counts them decompressed.";
    BytesConsumedRate Fetch "bytes-consumed-rate" C No Gauge BytesPerSecond, "",
        "Bytes of fetched batches per second.";
    FetchTotal Fetch "fetch-total" C No Counter Count, "fetches_total",
        "Fetch responses.";
    FetchRate Fetch "fetch-rate" C No Gauge PerSecond, "",
        "Fetch responses per second.";
    FetchLatencyAvg Fetch "fetch-latency-avg" C No Gauge Millis, "",
        "Average time from a Fetch to the first bytes of its response; includes the wait for records \
         (`fetch.max.wait.ms`).";
    FetchLatencyMax Fetch "fetch-latency-max" C No Gauge Millis, "fetch_latency_max_seconds",
        "The longest such time.";
    FetchSizeAvg Fetch "fetch-size-avg" C No Gauge Bytes, "",
        "Average bytes of batches in a Fetch response.";
    FetchSizeMax Fetch "fetch-size-max" C No Gauge Bytes, "fetch_size_max_bytes",
        "The largest number of bytes of batches in one response.";
    FetchedPerRequestAvg Fetch "records-per-request-avg" C No Gauge Count, "",
        "Average number of records in a Fetch response.";
    FetchThrottleTimeAvg Fetch "fetch-throttle-time-avg" C No Gauge Millis, "",
        "Average throttle time in Fetch responses.";
    FetchThrottleTimeMax Fetch "fetch-throttle-time-max" C No Gauge Millis, "",
        "The longest such time.";
    AcknowledgementsSendTotal Fetch "acknowledgements-send-total" C No Counter Count, "acknowledgements_total",
        "Records that a share consumer has acknowledged, including gaps and renewals.";
    AcknowledgementsSendRate Fetch "acknowledgements-send-rate" C No Gauge PerSecond, "",
        "Records that a share consumer acknowledges per second.";
    AcknowledgementsErrorTotal Fetch "acknowledgements-error-total" C No Counter Count, "acknowledgement_errors_total",
        "Records of a share consumer whose acknowledgement failed, so that they may be delivered again.";
    AcknowledgementsErrorRate Fetch "acknowledgements-error-rate" C No Gauge PerSecond, "",
        "Records of a share consumer whose acknowledgement fails per second.";
    RecordsLagMax Fetch "records-lag-max" C No Gauge Count, "records_lag_max",
        "The largest current lag of all assigned partitions.";
    RecordsLeadMin Fetch "records-lead-min" C No Gauge Count, "records_lead_min",
        "The smallest current lead of all assigned partitions.";
    RecordsLag Fetch "records-lag" C Partition Gauge Count, "records_lag",
        "Offsets between the application's position and the end in the last response: the high watermark, or the last \
         stable offset with `isolation.level=read_committed`. Makes no request.";
    RecordsLead Fetch "records-lead" C Partition Gauge Count, "records_lead",
        "Offsets between the start of the log and the application's position: the margin before retention deletes \
         unread records.";
    TopicRecordsConsumedTotal Fetch "records-consumed-total" C Topic Counter Count, "topic_records_total" = "messaging.client.consumed.messages",
        "Rows of this topic returned by polls.";
    TopicRecordsConsumedRate Fetch "records-consumed-rate" C Topic Gauge PerSecond, "",
        "Rows of this topic per second.";
    TopicBytesConsumedTotal Fetch "bytes-consumed-total" C Topic Counter Bytes, "topic_bytes_total",
        "Bytes of this topic's fetched batches.";
    TopicBytesConsumedRate Fetch "bytes-consumed-rate" C Topic Gauge BytesPerSecond, "",
        "Bytes of this topic's batches per second.";
    EndToEndLatency Own "end-to-end-latency" C No Summary Millis, "end_to_end_latency_seconds",
        "Time from a record's timestamp to its arrival, by the base and the largest timestamp of each batch, each \
         for half of its records. With `metrics.recording.level=DEBUG` by the timestamp of each row that a poll \
         returns. Includes clock differences.";
    QueuedBytes Own "queued-bytes" C No Gauge Bytes, "queued_bytes",
        "Bytes that wait for `poll`.";

    LastPollSecondsAgo Client "last-poll-seconds-ago" C No Gauge Seconds, "last_poll_age_seconds",
        "Time since the last `poll` began.";
    TimeBetweenPollAvg Client "time-between-poll-avg" C No Gauge Millis, "",
        "Average time from the start of a `poll` to the start of the next.";
    TimeBetweenPollMax Client "time-between-poll-max" C No Gauge Millis, "time_between_polls_max_seconds",
        "The longest such time.";
    PollIdleRatioAvg Client "poll-idle-ratio-avg" C No Gauge Ratio, "poll_idle_ratio",
        "The fraction of time that the application waits in `poll`.";

    AssignedPartitions Coordinator "assigned-partitions" C No Gauge Count, "assigned_partitions",
        "Partitions that this consumer reads.";
    RebalanceTotal Coordinator "rebalance-total" C No Counter Count, "rebalances_total",
        "Rebalances that this member went through.";
    RebalanceRate Coordinator "rebalance-rate-per-hour" C No Gauge PerHour, "",
        "Rebalances per hour.";
    RebalanceLatencyTotal Coordinator "rebalance-latency-total" C No Counter Millis, "rebalance_seconds_total",
        "How long they took.";
    RebalanceLatencyAvg Coordinator "rebalance-latency-avg" C No Gauge Millis, "",
        "Average duration of a rebalance.";
    RebalanceLatencyMax Coordinator "rebalance-latency-max" C No Gauge Millis, "rebalance_latency_max_seconds",
        "The longest one.";
    LastRebalanceSecondsAgo Coordinator "last-rebalance-seconds-ago" C No Gauge Seconds, "last_rebalance_age_seconds",
        "Time since the last rebalance ended.";
    FailedRebalanceTotal Coordinator "failed-rebalance-total" C No Counter Count, "failed_rebalances_total",
        "Memberships that the coordinator ended, or that ended because `poll` was not called in time.";
    FailedRebalanceRate Coordinator "failed-rebalance-rate-per-hour" C No Gauge PerHour, "",
        "Memberships that ended this way per hour.";
    CommitTotal Coordinator "commit-total" C No Counter Count, "commits_total",
        "OffsetCommit responses.";
    CommitRate Coordinator "commit-rate" C No Gauge PerSecond, "",
        "Commits per second.";
    CommitLatencyAvg Coordinator "commit-latency-avg" C No Gauge Millis, "",
        "Average time from a commit to its response.";
    CommitLatencyMax Coordinator "commit-latency-max" C No Gauge Millis, "commit_latency_max_seconds",
        "The longest such time.";
    HeartbeatTotal Coordinator "heartbeat-total" C No Counter Count, "heartbeats_total",
        "Heartbeats with a response.";
    HeartbeatRate Coordinator "heartbeat-rate" C No Gauge PerSecond, "",
        "Heartbeats per second.";
    HeartbeatResponseTimeMax Coordinator "heartbeat-response-time-max" C No Gauge Millis, "heartbeat_latency_max_seconds",
        "The longest time from a heartbeat to its response.";
    LastHeartbeatSecondsAgo Coordinator "last-heartbeat-seconds-ago" C No Gauge Seconds, "last_heartbeat_age_seconds",
        "Time since the last heartbeat response.";
    JoinTotal Coordinator "join-total" C No Counter Count, "joins_total",
        "JoinGroup responses.";
    JoinRate Coordinator "join-rate" C No Gauge PerSecond, "",
        "JoinGroup responses per second.";
    JoinTimeAvg Coordinator "join-time-avg" C No Gauge Millis, "",
        "Average time from a JoinGroup to its response.";
    JoinTimeMax Coordinator "join-time-max" C No Gauge Millis, "",
        "The longest such time.";
    SyncTotal Coordinator "sync-total" C No Counter Count, "syncs_total",
        "SyncGroup responses.";
    SyncRate Coordinator "sync-rate" C No Gauge PerSecond, "",
        "SyncGroup responses per second.";
    SyncTimeAvg Coordinator "sync-time-avg" C No Gauge Millis, "",
        "Average time from a SyncGroup to its response.";
    SyncTimeMax Coordinator "sync-time-max" C No Gauge Millis, "",
        "The longest such time.";
    PushTotal Own "telemetry-push-total" ALL No Counter Count, "telemetry_pushes_total",
        "Metrics pushes that brokers accepted (KIP-714).";
}

impl Id {
    /// Returns the metric's row in the table.
    pub fn spec(self) -> &'static MetricSpec {
        // Ids are row numbers, which a test checks.
        METRICS.get(self as usize).unwrap_or(&METRICS[0])
    }
}

const _: () = assert!(!METRICS.is_empty());

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
