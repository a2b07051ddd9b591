//! Micro-batches written exactly once: each task in a transaction that also notes the number of the micro-batch.
//!
//! Spark repeats a micro-batch that did not end well, with the same number. A task first takes over the transactional id
//! of its place in the query, which ends whatever an earlier attempt left open; then it looks whether the note of this
//! micro-batch is there. If so its rows are in the topic already, and are passed over. Before any task starts, the driver
//! does the same for tasks that an earlier attempt had and this one has not.

use samsarrow_client::group::{MemberIdentity, Offsets};
use samsarrow_client::producer::{GroupMember, Producer};
use tokio::task::JoinSet;

use crate::error::{Error, Result};
use crate::notes::{Counted, Note, Notes, agree, by_tasks};
use crate::write_options::WriteOptions;

/// Ids of tasks that are fenced at the same time: each takes connections of its own.
const AT_ONCE: usize = 16;

/// A micro-batch of a query: the same for every attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MicroBatch {
    /// The query's id, which its checkpoint keeps.
    pub query: String,
    /// Its number.
    pub number: i64,
}

impl MicroBatch {
    /// As Spark's local properties say.
    ///
    /// # Errors
    /// They do not, so nothing could be written exactly once.
    pub fn parse(query: Option<&str>, number: Option<&str>) -> Result<MicroBatch> {
        let number = number.and_then(|number| number.parse().ok()).filter(|number| (0..i64::MAX).contains(number));
        match (query.filter(|query| !query.is_empty()), number) {
            (Some(query), Some(number)) => Ok(MicroBatch { query: query.to_owned(), number }),
            _ => Err(Error::configuration(
                "exactlyOnce needs a streaming query, or foreachBatch in one: Spark does not provide the query's id \
                 and the number of the micro-batch here. Nothing was written",
            )),
        }
    }

    fn next(&self) -> i64 {
        self.number + 1
    }

    /// Before the tasks start: refuses what they could not write exactly once, and notes how many they are. Whether that
    /// could be noted; where no topic is known yet it is [`end`](Self::end)'s to do.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`], and nothing is written; or brokers cannot be asked.
    pub(crate) async fn begin(&self, notes: &Notes, options: &WriteOptions, tasks: u64) -> Result<bool> {
        let group = options.group(&self.query);
        let noted = notes.of(options, vec![group.clone()]).await?.pop();
        if let Some(noted) = &noted {
            if noted.next > self.next() {
                return Err(self.rolled_back("it has begun", noted.next));
            }
            if let Some(before) = noted.tasks().filter(|before| *before != tasks) {
                self.compare_tasks(notes, options, noted, before, tasks).await?;
            }
        }
        let topic = options.topic.as_deref().map(Into::into).or(noted.map(|noted| noted.topic));
        let Some(topic) = topic else { return Ok(false) };
        notes.put(options, &group, Note { next: self.next(), text: by_tasks(tasks), topic }).await
    }

    /// After all tasks have ended, where their number could not be noted before.
    ///
    /// # Errors
    /// Brokers cannot be asked.
    pub(crate) async fn end(&self, notes: &Notes, options: &WriteOptions, tasks: u64) -> Result<()> {
        let of_tasks = notes.of(options, self.names(options, 0..tasks)).await?;
        let written = of_tasks.into_iter().filter(|note| note.next == self.next());
        if let Some(topic) = written.map(|note| note.topic).min() {
            let note = Note { next: self.next(), text: by_tasks(tasks), topic };
            notes.put(options, &options.group(&self.query), note).await?;
        }
        Ok(())
    }

    /// Whether tasks have written this micro-batch, when there were another number of them.
    async fn compare_tasks(
        &self,
        notes: &Notes,
        options: &WriteOptions,
        noted: &Note,
        before: u64,
        tasks: u64,
    ) -> Result<()> {
        // Of a micro-batch that is noted any task may have written; of one that the Python sink began, which notes at the
        // end, those that are missing now.
        let first = if noted.next == self.next() { 0 } else { tasks };
        let names = self.names(options, first..before);
        // They may be about to commit, in an executor that Spark has given up.
        fence(options, &names).await?;
        let found = notes.of(options, names).await?;
        if found.iter().any(|note| note.next == self.next()) {
            let MicroBatch { query, number } = self;
            self.differs(
                options,
                &format!(
                    "micro-batch {number} of query {query} was written by {before} tasks, and its repetition has {tasks}: \
                     rows would be in the topic twice. Restart with the same minPartitions and number of shuffle \
                     partitions"
                ),
            )?;
        }
        Ok(())
    }

    fn names(&self, options: &WriteOptions, tasks: std::ops::Range<u64>) -> Vec<String> {
        tasks.map(|task| options.task_group(&self.query, task)).collect()
    }

    fn rolled_back(&self, what: &str, next: i64) -> Error {
        let MicroBatch { query, number } = self;
        Error::ReplayMismatch(format!(
            "query {query} is at micro-batch {number}, but {what} micro-batch {} already: the checkpoint was restored from \
             an older copy, or two queries share it. Nothing was written. Restore a checkpoint that is as new as the topic, \
             or accept that rows are written twice by giving another transactionalIdPrefix",
            next - 1
        ))
    }

    /// A repetition is not like what was written: an error, unless that is accepted for this micro-batch.
    fn differs(&self, options: &WriteOptions, text: &str) -> Result<()> {
        let number = self.number;
        if options.accepted.and_then(|accepted| i64::try_from(accepted).ok()) != Some(number) {
            return Err(Error::ReplayMismatch(format!(
                "{text}. The option allowReplayMismatch={number} continues anyway: records in the topic stay, and tasks \
                 that have written skip their rows"
            )));
        }
        tracing::warn!("{text} (allowReplayMismatch={number}: continuing)");
        Ok(())
    }
}

/// A task of a micro-batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The micro-batch.
    pub batch: MicroBatch,
    /// Number of the task.
    pub task: u64,
}

impl Place {
    /// Its transactional id, and the group of its note.
    pub fn name(&self, options: &WriteOptions) -> String {
        options.task_group(&self.batch.query, self.task)
    }

    /// The note of an attempt that has written this micro-batch. To be asked for when that attempt can commit no more.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`]: later ones are written; or brokers cannot be asked.
    pub async fn written(&self, notes: &Notes, options: &WriteOptions) -> Result<Option<Note>> {
        let noted = notes.of(options, vec![self.name(options)]).await?.pop();
        if let Some(later) = noted.as_ref().filter(|noted| noted.next > self.batch.next()) {
            return Err(self.batch.rolled_back(&format!("its task {} has written", self.task), later.next));
        }
        Ok(noted.filter(|noted| noted.next == self.batch.next()))
    }

    /// All rows were passed over, as they are in the topic.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`]: they are others.
    pub fn passed_over(&self, options: &WriteOptions, noted: &Note, counted: &Counted) -> Result<()> {
        let Place { batch: MicroBatch { query, number }, task } = self;
        let brings = counted.text();
        if !agree(&noted.text, &brings) {
            self.batch.differs(
                options,
                &format!(
                    "micro-batch {number} of query {query} was written by task {task} with {}, and its repetition brings \
                     {brings}: exactlyOnce needs the same rows in the same tasks each time (no shuffle that depends on \
                     chance, the same minPartitions and number of shuffle partitions)",
                    noted.text
                ),
            )?;
        }
        let rows = counted.rows;
        tracing::info!(
            "micro-batch {number} is in the topic already (task {task} of query {query}): {rows} rows skipped"
        );
        Ok(())
    }

    /// What goes into the transaction with the rows: the note, as offsets of a group that nobody is in.
    pub fn note(&self, options: &WriteOptions, counted: &Counted, topic: &str) -> (Offsets, GroupMember) {
        let note = Note { next: self.batch.next(), text: counted.text(), topic: topic.into() };
        let member = MemberIdentity { member_id: String::new(), generation: -1, instance_id: None };
        (vec![note.offset()], GroupMember { group: self.name(options), member })
    }
}

/// Ends what tasks of these names have left open; those that still run can do nothing more.
async fn fence(options: &WriteOptions, names: &[String]) -> Result<()> {
    for some in names.chunks(AT_ONCE) {
        let mut fencing = JoinSet::new();
        for name in some {
            let given = options.transactional(name)?;
            fencing.spawn(async move {
                let producer = Producer::new(&given)?;
                let fenced = producer.init_transactions(None).await;
                // It has sent nothing that could be left over.
                let _ = producer.close(std::time::Duration::ZERO).await;
                fenced
            });
        }
        for fenced in fencing.join_all().await {
            fenced?;
        }
    }
    Ok(())
}
