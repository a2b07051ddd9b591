//! Decisions about repeated micro-batches for the Python sink, whose tasks read and commit markers with Python's clients.

use std::collections::BTreeMap;

use crate::commit_markers::{CommitMarker, RowSummary, task_count_metadata};
use crate::error::Result;
use crate::exactly_once::{MicroBatch, TaskId};
use crate::write_options::WriteOptions;

/// One attempt to write a task of a micro-batch.
#[derive(Debug)]
pub struct Attempt {
    task: TaskId,
    /// Options of the write, of which only those of exactly-once writes are set.
    options: WriteOptions,
}

impl Attempt {
    /// Creates an attempt. `prefix` and `allow_replay_mismatch` are options of the write.
    pub fn new(batch: MicroBatch, task: u64, prefix: Option<String>, allow_replay_mismatch: Option<u64>) -> Attempt {
        let options = WriteOptions::for_markers(prefix, allow_replay_mismatch);
        Attempt { task: TaskId { batch, task }, options }
    }

    /// Returns the group of the driver's marker.
    pub fn group(&self) -> String {
        self.options.group(&self.task.batch.query)
    }

    /// Returns the transactional id of the task, which is also the group of its marker.
    pub fn transactional_id(&self) -> String {
        self.task.transactional_id(&self.options)
    }

    /// Returns the options of the task's producer that `kafka` does not set.
    pub fn producer_options(&self, kafka: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
        WriteOptions::transactional_overrides(kafka.keys(), &self.transactional_id())
    }

    /// Checks the marker that the driver or, with `by_task`, the task has committed as `next`. Returns true if it is of
    /// this micro-batch.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`](crate::Error::ReplayMismatch) if a later micro-batch is already written.
    pub fn is_written(&self, next: i64, by_task: bool) -> Result<bool> {
        let TaskId { batch, task } = &self.task;
        if next > batch.next() {
            let subject = if by_task { format!("its task {task} has written") } else { "it has written".to_owned() };
            return Err(batch.rollback_error(&subject, next));
        }
        Ok(next == batch.next())
    }

    /// Checks that the skipped rows are the same as those of the marker with the metadata `stored`.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`](crate::Error::ReplayMismatch) if the rows differ.
    pub fn check_skipped_rows(&self, stored: String, summary: &RowSummary) -> Result<()> {
        self.task.check_skipped_rows(&self.options, &self.marker(stored), summary)
    }

    /// Returns the offset and the metadata of the task's marker.
    pub fn task_marker(&self, summary: &RowSummary) -> (i64, String) {
        (self.task.batch.next(), summary.metadata())
    }

    /// Returns the offset and the metadata of the driver's marker, after `tasks` tasks have written.
    pub fn driver_marker(&self, tasks: u64) -> (i64, String) {
        (self.task.batch.next(), task_count_metadata(tasks))
    }

    /// Compares the number of tasks with that in the driver's marker. Returns the groups of those tasks of an earlier
    /// attempt whose markers still have to be checked, because that attempt failed before the driver's marker was
    /// written. It may have had as many tasks as the micro-batch before.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`](crate::Error::ReplayMismatch) if this micro-batch was written by another number.
    pub fn compare_tasks(&self, next: i64, stored: &str, tasks: u64) -> Result<Vec<String>> {
        let batch = &self.task.batch;
        let Some(before) = self.marker(stored.to_owned()).tasks() else { return Ok(Vec::new()) };
        if next != batch.next() {
            return Ok(batch.task_groups(&self.options, tasks..before));
        }
        if before != tasks {
            self.report_tasks(stored, tasks)?;
        }
        Ok(Vec::new())
    }

    /// Reports that the number of tasks differs from that in the driver's marker.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`](crate::Error::ReplayMismatch), unless the option `allowReplayMismatch` is the number of
    /// the micro-batch.
    pub fn report_tasks(&self, stored: &str, tasks: u64) -> Result<()> {
        let before = self.marker(stored.to_owned()).tasks().unwrap_or_default();
        self.task.batch.report_task_count(&self.options, before, tasks, "may be")
    }

    fn marker(&self, metadata: String) -> CommitMarker {
        CommitMarker { next: self.task.batch.next(), metadata, topic: "".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(allow_replay_mismatch: Option<u64>) -> Attempt {
        let batch = MicroBatch::parse(Some("q"), Some("4")).unwrap();
        Attempt::new(batch, 2, Some("p".to_owned()), allow_replay_mismatch)
    }

    #[test]
    fn names_and_markers() {
        let attempt = attempt(None);
        assert_eq!((attempt.group(), attempt.transactional_id()), ("p-q".to_owned(), "p-q-2".to_owned()));
        let summary = RowSummary { rows: 1, bytes: 2, digest: 3 };
        let metadata = r#"{"rows": 1, "bytes": 2, "digest": "0000000000000003"}"#.to_owned();
        assert_eq!(attempt.task_marker(&summary), (5, metadata.clone()));
        assert_eq!(attempt.driver_marker(3), (5, r#"{"tasks": 3}"#.to_owned()));
        assert!(attempt.check_skipped_rows(metadata, &summary).is_ok());
    }

    #[test]
    fn transaction_timeout_of_the_user_stays() {
        let options = |name: &str| {
            let kafka = BTreeMap::from([(name.to_owned(), "60000".to_owned())]);
            attempt(None).producer_options(&kafka).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(options("linger.ms"), ["transactional.id", "transaction.timeout.ms"]);
        for own in ["transaction.timeout.ms", "transaction_timeout_ms"] {
            assert_eq!(options(own), ["transactional.id"], "{own}");
        }
    }

    #[test]
    fn later_micro_batches_are_an_error() {
        let attempt = attempt(None);
        assert_eq!([4, 5].map(|next| attempt.is_written(next, true).unwrap()), [false, true]);
        let error = attempt.is_written(7, true).unwrap_err().to_string();
        assert!(error.starts_with("query q is at micro-batch 4, but its task 2 has written micro-batch 6"), "{error}");
    }

    #[test]
    fn numbers_of_tasks_are_compared() {
        let compare = |next, stored: &str, allowed| attempt(allowed).compare_tasks(next, stored, 2);
        assert_eq!(compare(5, r#"{"tasks": 2}"#, None).unwrap(), Vec::<String>::new());
        assert_eq!(compare(5, "", None).unwrap(), Vec::<String>::new());
        assert_eq!(compare(4, r#"{"tasks": 4}"#, None).unwrap(), ["p-q-2", "p-q-3"]);
        let error = compare(5, r#"{"tasks": 3}"#, Some(3)).unwrap_err().to_string();
        assert!(
            error.contains("was written by 3 tasks, and its repetition has 2: rows may be in the topic"),
            "{error}"
        );
        assert!(compare(5, r#"{"tasks": 3}"#, Some(4)).is_ok());
    }
}
