//! Notes in Kafka that a micro-batch is written: committed offsets of groups that nobody is in.
//!
//! The offset is the number of the micro-batch that follows, the metadata says what was written. The Python sink keeps
//! the same notes, so that a query can go from one to the other.

use std::sync::Arc;

use samsarrow_client::admin::{Admin, CommitSettings, FetchSettings};
use samsarrow_client::config::ClientKind;
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::error_code::ErrorCode;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::error::Result;
use crate::write_options::WriteOptions;

/// More than Spark gives a micro-batch: a note that says so is none of ours.
const MOST_TASKS: u64 = 100_000;

/// The notes of a cluster, and the client that keeps them, which is made at the first use.
#[derive(Debug, Default)]
pub struct Notes {
    admin: OnceCell<Admin>,
}

/// That a micro-batch is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Number of the micro-batch that follows.
    pub next: i64,
    /// What was written, or by how many tasks.
    pub text: String,
    /// Any topic will do, as the group has no other offset.
    pub topic: Arc<str>,
}

impl Notes {
    /// The client that asks for notes and topics.
    ///
    /// # Errors
    /// An option of the client cannot be.
    pub async fn admin(&self, options: &WriteOptions) -> Result<&Admin> {
        let make = async || Ok(Admin::new(&options.client(ClientKind::Admin, &[])?)?);
        self.admin.get_or_try_init(make).await
    }

    /// The notes of groups that have one; those of transactions that are open are waited for.
    ///
    /// # Errors
    /// Brokers do not say.
    pub(crate) async fn of(&self, options: &WriteOptions, groups: Vec<String>) -> Result<Vec<Note>> {
        let asked: Vec<_> = groups.into_iter().map(|group| (group, None)).collect();
        let settings = FetchSettings { require_stable: true, ..Default::default() };
        let admin = self.admin(options).await?;
        let mut notes = Vec::new();
        for (_, found) in admin.fetch_offsets(&asked, &settings, admin.default_timeout()).await? {
            let offsets = found?.into_iter().filter_map(|(tp, at)| Some((at?, tp.topic)));
            notes.extend(offsets.max_by_key(|(at, _)| at.offset).map(|(at, topic)| Note {
                next: at.offset,
                text: at.metadata,
                topic,
            }));
        }
        Ok(notes)
    }

    /// Notes something for a group; whether the topic is there to be noted at.
    ///
    /// # Errors
    /// Brokers do not take it.
    pub(crate) async fn put(&self, options: &WriteOptions, group: &str, note: Note) -> Result<bool> {
        let admin = self.admin(options).await?;
        let (settings, timeout) = (CommitSettings::default(), admin.default_timeout());
        for (_, done) in admin.commit_offsets(group, &[note.offset()], &settings, timeout).await? {
            match done {
                Err(error) if error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code()) => return Ok(false),
                done => done?,
            }
        }
        Ok(true)
    }
}

impl Note {
    /// As what is committed.
    pub(crate) fn offset(self) -> (TopicPartition, OffsetAndMetadata) {
        let at = OffsetAndMetadata { offset: self.next, metadata: self.text, ..Default::default() };
        (TopicPartition { topic: self.topic, partition: 0 }, at)
    }

    /// By how many tasks the micro-batch was written, as a note of the driver says.
    pub(crate) fn tasks(&self) -> Option<u64> {
        parsed(&self.text).get("tasks").and_then(Value::as_u64).filter(|tasks| *tasks <= MOST_TASKS)
    }
}

/// What the driver notes.
pub(crate) fn by_tasks(tasks: u64) -> String {
    format!(r#"{{"tasks": {tasks}}}"#)
}

/// Rows of a task, whose order does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many.
    pub rows: u64,
    /// Of their values.
    pub bytes: u64,
    /// The sum of the hashes of all rows.
    pub digest: u64,
}

impl Counted {
    /// More rows.
    pub fn add(&mut self, more: Counted) {
        self.rows += more.rows;
        self.bytes += more.bytes;
        self.digest = self.digest.wrapping_add(more.digest);
    }

    /// What a note says of them.
    pub(crate) fn text(&self) -> String {
        let Counted { rows, bytes, digest } = self;
        format!(r#"{{"rows": {rows}, "bytes": {bytes}, "digest": "{digest:016x}"}}"#)
    }
}

/// Whether two notes are of the same rows, by what both of them say: earlier releases noted no digest.
pub(crate) fn agree(noted: &str, brings: &str) -> bool {
    if noted.is_empty() {
        return true;
    }
    let (before, now) = (parsed(noted), parsed(brings));
    let mut shared = before.iter().filter_map(|(name, value)| Some((value, now.get(name)?))).peekable();
    shared.peek().is_some() && shared.all(|(before, now)| before == now)
}

fn parsed(text: &str) -> Map<String, Value> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_those_of_the_python_sink() {
        let mut counted = Counted { rows: 2, bytes: 5, digest: u64::MAX };
        counted.add(Counted { rows: 1, bytes: 1, digest: 0xAC });
        assert_eq!(counted.text(), r#"{"rows": 3, "bytes": 6, "digest": "00000000000000ab"}"#);
        assert_eq!(by_tasks(4), r#"{"tasks": 4}"#);
    }

    #[test]
    fn notes_agree_by_what_both_say() {
        let brings = r#"{"rows": 3, "bytes": 6, "digest": "00000000000000ab"}"#;
        let same = ["", brings, r#"{"bytes":6,"rows":3}"#, r#"{"rows": 3, "more": 1}"#];
        let other = [r#"{"rows": 3, "bytes": 7}"#, r#"{"more": 1}"#, "{}", "[]", "?", r#"{"rows": "3"}"#];
        assert_eq!(same.map(|noted| agree(noted, brings)), [true; 4]);
        assert_eq!(other.map(|noted| agree(noted, brings)), [false; 6]);
    }

    #[test]
    fn numbers_of_tasks_are_of_this_world() {
        let tasks = |text: &str| Note { next: 1, text: text.into(), topic: "t".into() }.tasks();
        assert_eq!(tasks(r#"{"tasks": 4}"#), Some(4));
        for none in ["", "{}", r#"{"tasks": -1}"#, r#"{"tasks": "4"}"#, r#"{"tasks": 1000000000000}"#] {
            assert_eq!(tasks(none), None, "{none}");
        }
    }
}
