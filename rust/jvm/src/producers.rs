//! Producers of this process, kept from task to task, and what their tasks ask brokers for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use samsarrow_client::config::{ClientKind, Options};
use samsarrow_client::error::Error;
use samsarrow_client::producer::{BatchDelivery, Columns, Producer};
use samsarrow_spark::WriteOptions;
use samsarrow_spark::columns::Column;
use samsarrow_spark::exactly_once::Place;
use samsarrow_spark::notes::Notes;
use samsarrow_wire::error_code::ErrorCode;

use crate::block::Part;
use crate::failure::Result;
use crate::idle::Idle;
use crate::once::Once;
use crate::runtime::runtime;

/// How long the transaction of a task that failed may take to be aborted; the next attempt aborts it too.
const ABORT: Duration = Duration::from_secs(5);
/// How long a topic that is not there may take to be made by the brokers, where they do that.
const CREATION: Duration = Duration::from_secs(5);

/// What tasks with equal options share.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    idle: Idle<Leased>,
    /// What knows of topics, and of what is written exactly once.
    pub(crate) notes: Arc<Notes>,
}

/// A producer that one task has.
#[derive(Debug)]
pub(crate) struct Leased {
    producer: Producer,
    /// Topics that it has found.
    found: Mutex<BTreeSet<Arc<str>>>,
    /// The one task that has its transactional id.
    once: Option<Once>,
}

impl Producers {
    /// An idle producer, or a new one; within the runtime.
    pub(crate) fn take(&self, options: &WriteOptions) -> Result<Leased> {
        self.evict();
        if let Some(leased) = self.idle.take(|_| Some(0)) {
            return Ok(leased);
        }
        Leased::new(options.client(ClientKind::Producer, &[])?, None)
    }

    /// A new producer for one task of a micro-batch; within the runtime.
    pub(crate) fn transactional(options: &WriteOptions, place: Place) -> Result<Leased> {
        let once = Once::new(place);
        Leased::new(options.transactional(&once.name(options))?, Some(once))
    }

    /// Keeps a producer that has nothing under way, unless its id is of one task.
    pub(crate) fn give(&self, leased: Leased) {
        if leased.once.is_some() {
            return leased.close();
        }
        self.idle.keep(leased);
        self.evict();
    }

    fn evict(&self) {
        self.idle.surplus().into_iter().for_each(Leased::close);
    }

    async fn exists(&self, options: &WriteOptions, topic: &Arc<str>) -> Result<bool> {
        let admin = self.notes.admin(options).await?;
        Ok(!admin.list_topics(Some(&[topic.to_string()]), admin.default_timeout()).await?.is_empty())
    }
}

impl Leased {
    fn new(options: Options, once: Option<Once>) -> Result<Leased> {
        Ok(Leased { producer: Producer::new(&options)?, found: Mutex::default(), once })
    }

    /// Counts rows that are to be sent, where that matters.
    ///
    /// # Errors
    /// They cannot be sent.
    pub(crate) fn count(&self, parts: &[Part]) -> Result<()> {
        self.once.as_ref().map_or(Ok(()), |once| once.count(parts))
    }

    /// Queues the rows of all topics, once it is known that there are such topics; those that an earlier attempt has
    /// written are passed over.
    ///
    /// # Errors
    /// A topic does not exist, and nothing is sent; or rows cannot be sent.
    pub(crate) async fn send(
        &self,
        producers: &Producers,
        options: &WriteOptions,
        parts: Vec<Part>,
    ) -> Result<Vec<BatchDelivery>> {
        if let Some(once) = &self.once
            && !once.begin(&self.producer, &producers.notes, options).await?
        {
            return Ok(Vec::new());
        }
        for (topic, _) in &parts {
            self.find(producers, options, topic).await?;
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

    /// Sends what lingers and waits for all of it.
    pub(crate) async fn flush(&self) -> Result<()> {
        Ok(self.producer.flush(None).await?)
    }

    /// Makes readers see what is stored, where that takes a transaction.
    ///
    /// # Errors
    /// It cannot be committed, or an earlier attempt has written other rows.
    pub(crate) async fn commit(&self, producers: &Producers, options: &WriteOptions) -> Result<()> {
        match &self.once {
            Some(once) => once.end(&self.producer, &producers.notes, options).await,
            None => Ok(()),
        }
    }

    /// Raises unless the topic exists, or the brokers make it when they are asked for it.
    async fn find(&self, producers: &Producers, options: &WriteOptions, topic: &Arc<str>) -> Result<()> {
        if lock(&self.found).contains(topic) {
            return Ok(());
        }
        if !producers.exists(options, topic).await? {
            made(options, topic).await?;
        }
        self.producer.partitions_for(topic).await?;
        lock(&self.found).insert(Arc::clone(topic));
        Ok(())
    }

    /// Drops what is under way and ends the connections, in the background.
    pub(crate) fn close(self) {
        if let Ok(runtime) = runtime() {
            let patience = if self.once.is_some() { ABORT } else { Duration::ZERO };
            runtime.spawn(async move { self.producer.close(patience).await });
        }
    }
}

/// Brokers may make a topic when a producer asks for it.
async fn made(options: &WriteOptions, topic: &str) -> Result<()> {
    let mut given = options.client(ClientKind::Producer, &[])?;
    given.producer.max_block = given.producer.max_block.min(CREATION);
    let asking = Producer::new(&given)?;
    let found = asking.partitions_for(topic).await;
    // It has sent nothing that could be left over.
    let _ = asking.close(Duration::ZERO).await;
    match found {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = format!(
                "topic {topic} does not exist, and the brokers do not create it: nothing was sent to it ({error})"
            );
            Err(Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text).into())
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
