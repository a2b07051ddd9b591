//! Tables of share consumers: their own options, and the options of consumers that they do not have.

use super::table::{Kind, OptionSpec};

pub(crate) const ACKNOWLEDGEMENT_MODE: &str = "share.acknowledgement.mode";
pub(crate) const ACQUIRE_MODE: &str = "share.acquire.mode";

/// Options that only share consumers have. They also have those of consumers that are not [`REJECTED`].
pub const SHARE_OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: ACKNOWLEDGEMENT_MODE,
        aliases: &[],
        kind: Kind::Choice(&["implicit", "explicit"]),
        default: "implicit",
        clients: &[],
        doc: "Who acknowledges rows (KIP-932): with `implicit` each poll, `commit` and an orderly `close` accept the rows \
              of the poll before; with `explicit` the application decides about each row before the next poll. Also the \
              argument `acknowledgement`.",
    },
    OptionSpec {
        name: ACQUIRE_MODE,
        aliases: &[],
        kind: Kind::Choice(&["batch_optimized", "record_limit"]),
        default: "batch_optimized",
        clients: &[],
        doc: "Whether a poll may return more rows than `max.poll.records` (KIP-1206): `batch_optimized` acquires whole \
              record batches; `record_limit` never acquires more, at the cost of more requests, and needs Kafka 4.2. Also \
              the argument `acquire_mode`.",
    },
];

/// Options of consumers that share consumers do not have, with the reason, as in Java's `ShareConsumerConfig`.
pub(crate) const REJECTED: &[(&str, &str)] = &[
    ("auto.offset.reset", "the group decides: samsarrow configs set group:NAME share.auto.offset.reset=earliest"),
    ("enable.auto.commit", "share groups have no offsets to commit: records are acknowledged, see acknowledgement"),
    ("auto.commit.interval.ms", "share groups have no offsets to commit: records are acknowledged"),
    ("enable.auto.offset.store", "share groups have no offsets to commit: records are acknowledged"),
    ("group.instance.id", "members of share groups are never static: leave it out"),
    ("isolation.level", "the group decides: samsarrow configs set group:NAME share.isolation.level=read_committed"),
    ("partition.assignment.strategy", "the coordinator assigns partitions: leave it out"),
    ("session.timeout.ms", "the group decides: samsarrow configs set group:NAME share.session.timeout.ms=…"),
    ("heartbeat.interval.ms", "the group decides: samsarrow configs set group:NAME share.heartbeat.interval.ms=…"),
    ("group.protocol", "share groups have a protocol of their own: leave it out"),
    ("group.remote.assignor", "the coordinator assigns partitions: leave it out"),
    ("exclude.internal.topics", "share groups have no patterns, so every topic is named: leave it out"),
    ("max.partition.fetch.bytes", "share groups limit whole responses: set fetch.max.bytes"),
];

/// Configs of share groups, which are no options of clients.
const GROUP_CONFIGS: &[&str] = &[
    "share.auto.offset.reset",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.isolation.level",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.renew.acknowledge.enable",
    "share.session.timeout.ms",
];

/// Returns the reason why no client has an option with this dotted name: it is a config of share groups.
pub(super) fn group_config(dotted: &str) -> Option<String> {
    let name = GROUP_CONFIGS.iter().find(|name| **name == dotted)?;
    Some(format!("option {name} is a config of the group: samsarrow configs set group:NAME {name}=VALUE"))
}

/// Returns true if this dotted name is an option of share consumers only.
pub(super) fn is_of_share_consumers(dotted: &str) -> bool {
    SHARE_OPTIONS.iter().any(|spec| spec.name == dotted)
}

/// Returns the reason why share consumers reject an option of consumers.
pub(crate) fn rejection(name: &str) -> Option<&'static str> {
    REJECTED.iter().find(|(rejected, _)| *rejected == name).map(|(_, reason)| *reason)
}
