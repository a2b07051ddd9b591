//! Pool of producers, which are kept across tasks. A producer checks that a topic exists before it queues rows for the
//! topic.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_client::config::{ClientKind, Options};
use samsarrow_client::error::Error;
use samsarrow_client::producer::{BatchDelivery, Columns, Producer};
use samsarrow_spark::WriteOptions;
use samsarrow_spark::columns::Column;
use samsarrow_spark::commit_markers::CommitMarkers;
use samsarrow_spark::exactly_once::TaskId;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;

use crate::exactly_once_task::ExactlyOnceTask;
use crate::failure::Result;
use crate::idle_pool::IdlePool;
use crate::row_block::TopicRows;
use crate::runtime::runtime;

/// Timeout for aborting the transaction of a failed task. If it expires, the next attempt of the task aborts the
/// transaction.
const ABORT: Duration = Duration::from_secs(5);
/// Timeout for the brokers to create a missing topic automatically.
const CREATION: Duration = Duration::from_secs(5);

/// Producers and admin client that tasks with equal options share.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    idle: IdlePool<TaskProducer>,
    /// Admin client that checks topics and reads commit markers.
    pub(crate) markers: Arc<CommitMarkers>,
}

/// Producer that sends the rows of one task at a time.
#[derive(Debug)]
pub(crate) struct TaskProducer {
    producer: Producer,
    /// Topics that are known to exist.
    known_topics: Mutex<BTreeSet<Arc<str>>>,
    /// Exactly-once task that owns the producer's transactional id; `None` for at-least-once writes.
    exactly_once: Option<ExactlyOnceTask>,
}

impl Producers {
    /// Returns an idle producer, or creates a producer. Must be called within the runtime.
    pub(crate) fn take(&self, options: &WriteOptions) -> Result<TaskProducer> {
        self.evict();
        if let Some(producer) = self.idle.take(|_| Some(0)) {
            return Ok(producer);
        }
        TaskProducer::new(options.client(ClientKind::Producer, &[])?, None)
    }

    /// Creates a transactional producer for one task of a micro-batch. Must be called within the runtime.
    pub(crate) fn transactional(options: &WriteOptions, task: TaskId) -> Result<TaskProducer> {
        let exactly_once = ExactlyOnceTask::new(task);
        TaskProducer::new(options.transactional(&exactly_once.transactional_id(options))?, Some(exactly_once))
    }

    /// Returns a producer to the pool; none of its rows may be in flight. A transactional producer is closed instead,
    /// because its transactional id belongs to a single task.
    pub(crate) fn put(&self, producer: TaskProducer) {
        if producer.exactly_once.is_some() {
            return producer.close();
        }
        self.idle.put(producer);
        self.evict();
    }

    fn evict(&self) {
        self.idle.surplus().into_iter().for_each(TaskProducer::close);
    }

    async fn exists(&self, options: &WriteOptions, topic: &Arc<str>) -> Result<bool> {
        let admin = self.markers.admin(options).await?;
        Ok(!admin.list_topics(Some(&[topic.to_string()]), admin.default_timeout()).await?.is_empty())
    }
}

impl TaskProducer {
    fn new(options: Options, exactly_once: Option<ExactlyOnceTask>) -> Result<TaskProducer> {
        Ok(TaskProducer { producer: Producer::new(&options)?, known_topics: Mutex::default(), exactly_once })
    }

    /// For an exactly-once task, adds rows to the task's summary. Must be called before the rows are sent.
    ///
    /// # Errors
    /// Fails if the rows cannot be hashed.
    pub(crate) fn count(&self, parts: &[TopicRows]) -> Result<()> {
        self.exactly_once.as_ref().map_or(Ok(()), |exactly_once| exactly_once.count(parts))
    }

    /// Checks that the topics exist and queues their rows. Skips the rows if an earlier attempt has already written
    /// them.
    ///
    /// # Errors
    /// Fails if a topic does not exist, in which case nothing is sent, or if rows cannot be sent.
    pub(crate) async fn send(
        &self,
        producers: &Producers,
        options: &WriteOptions,
        parts: Vec<TopicRows>,
    ) -> Result<Vec<BatchDelivery>> {
        if let Some(exactly_once) = &self.exactly_once
            && !exactly_once.begin(&self.producer, &producers.markers, options).await?
        {
            return Ok(Vec::new());
        }
        for (topic, _) in &parts {
            self.ensure_topic(producers, options, topic).await?;
        }
        let named = |column: Column| options.columns.contains(&column).then(|| column.name().to_owned());
        let columns =
            Columns { partition: named(Column::Partition), timestamp: named(Column::Timestamp), ..Default::default() };
        let mut deliveries = Vec::new();
        for (topic, rows) in parts {
            deliveries.push(self.producer.send_batch(&topic, rows, columns.clone()).await?);
        }
        Ok(deliveries)
    }

    /// Sends all queued rows without waiting for `linger.ms`, and waits for their deliveries.
    pub(crate) async fn flush(&self) -> Result<()> {
        Ok(self.producer.flush(None).await?)
    }

    /// Commits the transaction of an exactly-once write. Does nothing for other writes.
    ///
    /// # Errors
    /// Fails if the transaction cannot be committed, or if an earlier attempt has written other rows.
    pub(crate) async fn commit(&self, producers: &Producers, options: &WriteOptions) -> Result<()> {
        match &self.exactly_once {
            Some(exactly_once) => exactly_once.end(&self.producer, &producers.markers, options).await,
            None => Ok(()),
        }
    }

    /// Ensures that the topic exists. If it does not, triggers automatic topic creation, and fails if the brokers do
    /// not create it.
    async fn ensure_topic(&self, producers: &Producers, options: &WriteOptions, topic: &Arc<str>) -> Result<()> {
        if lock(&self.known_topics).contains(topic) {
            return Ok(());
        }
        if !producers.exists(options, topic).await? {
            create_topic(options, topic).await?;
        }
        self.producer.partitions_for(topic, None).await?;
        lock(&self.known_topics).insert(Arc::clone(topic));
        Ok(())
    }

    /// Drops unsent rows and closes the connections. Runs in the background.
    pub(crate) fn close(self) {
        if let Ok(runtime) = runtime() {
            let timeout = if self.exactly_once.is_some() { ABORT } else { Duration::ZERO };
            runtime.spawn(async move { self.producer.close(timeout).await });
        }
    }
}

/// Requests metadata of the topic with a producer, so that brokers with automatic topic creation create the topic.
async fn create_topic(options: &WriteOptions, topic: &str) -> Result<()> {
    let mut producer_options = options.client(ClientKind::Producer, &[])?;
    producer_options.producer.max_block = producer_options.producer.max_block.min(CREATION);
    let producer = Producer::new(&producer_options)?;
    let result = producer.partitions_for(topic, None).await;
    // The producer has sent nothing, so nothing is lost if closing it fails.
    let _ = producer.close(Duration::ZERO).await;
    match result {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = format!(
                "topic {topic} does not exist, and the brokers do not create it: nothing was sent to it ({error})"
            );
            Err(Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text).into())
        }
    }
}
