"""Expected results of the probe: each feature that it tests, with the first Kafka version that has the feature.

A step of `matrix.steps` has the name of its feature. Kafka versions from `since` on must pass; on older ones, the only
permitted failure is an error that names the required version.
"""

from __future__ import annotations

from dataclasses import dataclass

from support.kafka_releases import number


@dataclass(frozen=True)
class Feature:
    """One feature, which is a row of the table.

    Attributes:
        name: name of its step.
        title: title in the table.
        since: first Kafka version with the feature.
        limit: time limit of its step in seconds.
    """

    name: str
    title: str
    since: str = "0.8.2"
    limit: float = 60.0

    def expected_of(self, version: str) -> bool:
        return number(version) >= number(self.since)


FEATURES = (
    Feature("metadata", "topics listed"),
    Feature("created_by_use", "topics made by the first record"),
    Feature("create_topics", "topics created, deleted", "0.10.1"),
    Feature("broker_defaults", "topics created with the broker's defaults", "2.4"),
    Feature("send", "`send`: keys, nulls, empty values, `acks` 0, 1, all"),
    Feature("send_batch", "`send_batch`"),
    Feature("bulk", "20,000 records in many batches"),
    Feature("codec_none", "uncompressed, with a peer"),
    Feature("codec_gzip", "gzip, with a peer"),
    Feature("codec_snappy", "snappy, with a peer"),
    Feature("codec_lz4", "lz4, with a peer"),
    Feature("codec_zstd", "zstd, with a peer", "2.1"),
    Feature("timestamps", "timestamps (null before 0.10, whose records have none)"),
    Feature("log_append_time", "timestamps of the broker", "0.10.1"),
    Feature("headers", "headers", "0.11"),
    Feature("too_large", "a record too large for the broker is an error"),
    Feature("ends", "beginning, end, position, lag"),
    Feature("seek", "`seek`, to beginning, end, committed"),
    Feature("by_time", "offsets by time", "0.10.1"),
    Feature("reader", "`reader()`"),
    Feature("commit", "commits: sync, async, metadata"),
    Feature("commit_epoch", "leader epochs in records (0.11) and commits (2.1)"),
    Feature("outside", "offsets of a group set and read from outside"),
    Feature("all_offsets", "all offsets of a group, of many groups", "0.10.2"),
    Feature("require_stable", "offsets that wait for open transactions", "2.5"),
    Feature("offset_versions", "OffsetCommit and OffsetFetch in each version of the broker", limit=60),
    Feature("group_classic", "groups, classic protocol (0.9: with `session.timeout.ms` up to 30000)", "0.9", limit=60),
    Feature("group_cooperative", "groups, cooperative rebalances", "0.9", limit=60),
    Feature("group_pattern", "subscription by pattern", "0.9"),
    Feature("static_member", "static members", "2.3", limit=60),
    Feature("group_consumer", "groups, KIP-848 (`group.protocol=consumer`)", "4.0", limit=60),
    Feature("consumer_pattern", "subscription by pattern, KIP-848", "4.0"),
    Feature("list_groups", "groups listed, described", "0.9"),
    Feature("list_consumer_groups", "groups of KIP-848 listed, described", "4.0"),
    Feature("delete_groups", "groups deleted", "1.1"),
    Feature("delete_offsets", "a group's offsets deleted", "2.4"),
    Feature("idempotence", "idempotent producer", "0.11"),
    Feature("transactions", "transactions, `read_committed`", "0.11", limit=60),
    Feature("fencing", "a second producer fences the first", "0.11"),
    Feature("transaction_offsets", "offsets in a transaction, by the group's name", "0.11"),
    Feature("transaction_member", "offsets in a transaction, of a member (KIP-447)", "2.5", limit=60),
)
SPARK = Feature("spark", "PySpark: batch write and read", limit=180)

# Versions of OffsetCommit and OffsetFetch that Kafka versions without ApiVersions support, as ranges.
OFFSET_VERSIONS_BEFORE_API_VERSIONS = {"0.8.2.2": ((0, 1), (0, 1)), "0.9.0.1": ((0, 2), (0, 1))}
