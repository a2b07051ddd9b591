//! Commit markers of micro-batches, stored in Kafka as committed offsets of groups without members.
//!
//! The committed offset is the number of the next micro-batch, and its metadata describes the rows. The Python sink
//! uses the same markers, so a query can move from one sink to the other.

use std::sync::Arc;

use samsarrow_client::admin::{Admin, CommitSettings, FetchSettings};
use samsarrow_client::config::ClientKind;
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::error_code::ErrorCode;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::error::Result;
use crate::write_options::WriteOptions;

/// Upper bound on the number of tasks, larger than Spark supports. A marker with a larger number was not written by
/// this sink.
const MAX_TASKS: u64 = 100_000;

/// Reads and writes the commit markers of a cluster. The admin client is created at first use.
#[derive(Debug, Default)]
pub struct CommitMarkers {
    admin: OnceCell<Admin>,
}

/// Commit marker of a micro-batch that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitMarker {
    /// Number of the next micro-batch.
    pub next: i64,
    /// JSON with a summary of the rows, or with the number of tasks.
    pub metadata: String,
    /// Topic of the committed offset. Any topic can be used, because the group commits no other offset.
    pub topic: Arc<str>,
}

impl CommitMarkers {
    /// Returns the admin client for markers and topics.
    ///
    /// # Errors
    /// Fails if an option of the client is invalid.
    pub async fn admin(&self, options: &WriteOptions) -> Result<&Admin> {
        let create = async || Ok(Admin::new(&options.client(ClientKind::Admin, &[])?)?);
        self.admin.get_or_try_init(create).await
    }

    /// Returns the commit markers of the groups. Groups without a marker are left out. Waits until open transactions
    /// have ended.
    ///
    /// # Errors
    /// Fails if a broker request fails.
    pub(crate) async fn fetch(&self, options: &WriteOptions, groups: Vec<String>) -> Result<Vec<CommitMarker>> {
        let requested: Vec<_> = groups.into_iter().map(|group| (group, None)).collect();
        let settings = FetchSettings { require_stable: true, ..Default::default() };
        let admin = self.admin(options).await?;
        let mut markers = Vec::new();
        for (_, result) in admin.fetch_offsets(&requested, &settings, admin.default_timeout()).await? {
            let offsets = result?.into_iter().filter_map(|(tp, at)| Some((at?, tp.topic)));
            markers.extend(offsets.max_by_key(|(at, _)| at.offset).map(|(at, topic)| CommitMarker {
                next: at.offset,
                metadata: at.metadata,
                topic,
            }));
        }
        Ok(markers)
    }

    /// Commits a marker for a group. Returns false if the topic does not exist.
    ///
    /// # Errors
    /// Fails if a broker rejects the commit.
    pub(crate) async fn commit(&self, options: &WriteOptions, group: &str, marker: CommitMarker) -> Result<bool> {
        let admin = self.admin(options).await?;
        let (settings, timeout) = (CommitSettings::default(), admin.default_timeout());
        for (_, result) in admin.commit_offsets(group, &[marker.offset()], &settings, timeout).await? {
            match result {
                Err(error) if error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code()) => return Ok(false),
                result => result?,
            }
        }
        Ok(true)
    }
}

impl CommitMarker {
    /// Returns the partition, the offset and the metadata to commit.
    pub(crate) fn offset(self) -> (TopicPartition, OffsetAndMetadata) {
        let at = OffsetAndMetadata { offset: self.next, metadata: self.metadata, ..Default::default() };
        (TopicPartition { topic: self.topic, partition: 0 }, at)
    }

    /// Returns the number of tasks that wrote the micro-batch, if this is a marker that the driver wrote.
    pub(crate) fn tasks(&self) -> Option<u64> {
        parse_metadata(&self.metadata).get("tasks").and_then(Value::as_u64).filter(|tasks| *tasks <= MAX_TASKS)
    }
}

/// Returns the metadata of a marker that the driver writes.
pub(crate) fn task_count_metadata(tasks: u64) -> String {
    format!(r#"{{"tasks": {tasks}}}"#)
}

/// Summary of the rows of a task, which does not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowSummary {
    /// Number of rows.
    pub rows: u64,
    /// Total size of the values of these rows, in bytes.
    pub bytes: u64,
    /// Sum of the hashes of all rows, which does not depend on their order.
    pub digest: u64,
}

impl RowSummary {
    /// Adds the summary of further rows.
    pub fn add(&mut self, more: RowSummary) {
        self.rows += more.rows;
        self.bytes += more.bytes;
        self.digest = self.digest.wrapping_add(more.digest);
    }

    /// Returns the metadata of a marker that a task writes.
    pub(crate) fn metadata(&self) -> String {
        let RowSummary { rows, bytes, digest } = self;
        format!(r#"{{"rows": {rows}, "bytes": {bytes}, "digest": "{digest:016x}"}}"#)
    }
}

/// Returns true if two markers describe the same rows. Compares only the fields that both markers have, because earlier
/// releases stored no digest.
pub(crate) fn markers_match(stored: &str, replayed: &str) -> bool {
    if stored.is_empty() {
        return true;
    }
    let (before, now) = (parse_metadata(stored), parse_metadata(replayed));
    let mut shared = before.iter().filter_map(|(name, value)| Some((value, now.get(name)?))).peekable();
    shared.peek().is_some() && shared.all(|(before, now)| before == now)
}

fn parse_metadata(text: &str) -> Map<String, Value> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_equals_that_of_the_python_sink() {
        let mut summary = RowSummary { rows: 2, bytes: 5, digest: u64::MAX };
        summary.add(RowSummary { rows: 1, bytes: 1, digest: 0xAC });
        assert_eq!(summary.metadata(), r#"{"rows": 3, "bytes": 6, "digest": "00000000000000ab"}"#);
        assert_eq!(task_count_metadata(4), r#"{"tasks": 4}"#);
    }

    #[test]
    fn markers_match_on_common_fields() {
        let replayed = r#"{"rows": 3, "bytes": 6, "digest": "00000000000000ab"}"#;
        let equal = ["", replayed, r#"{"bytes":6,"rows":3}"#, r#"{"rows": 3, "more": 1}"#];
        let different = [r#"{"rows": 3, "bytes": 7}"#, r#"{"more": 1}"#, "{}", "[]", "?", r#"{"rows": "3"}"#];
        assert_eq!(equal.map(|stored| markers_match(stored, replayed)), [true; 4]);
        assert_eq!(different.map(|stored| markers_match(stored, replayed)), [false; 6]);
    }

    #[test]
    fn ignores_invalid_task_counts() {
        let tasks = |text: &str| CommitMarker { next: 1, metadata: text.into(), topic: "t".into() }.tasks();
        assert_eq!(tasks(r#"{"tasks": 4}"#), Some(4));
        for none in ["", "{}", r#"{"tasks": -1}"#, r#"{"tasks": "4"}"#, r#"{"tasks": 1000000000000}"#] {
            assert_eq!(tasks(none), None, "{none}");
        }
    }
}
