//! A task of a micro-batch that is written exactly once: in one transaction with its note, or passed over where that is
//! there already.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use samsarrow_arrow::digest;
use samsarrow_client::error::Error;
use samsarrow_client::producer::Producer;
use samsarrow_spark::WriteOptions;
use samsarrow_spark::exactly_once::Place;
use samsarrow_spark::notes::{Counted, Note, Notes};
use tokio::sync::OnceCell;

use crate::block::Part;
use crate::failure::Result;

/// What becomes of one task.
#[derive(Debug)]
pub(crate) struct Once {
    place: Place,
    rows: Mutex<Rows>,
    /// The note of an attempt that has written the rows, once that can do nothing more.
    written: OnceCell<Option<Note>>,
    /// The transaction is open.
    open: OnceCell<()>,
}

/// Rows that there were.
#[derive(Debug, Default)]
struct Rows {
    counted: Counted,
    topics: BTreeSet<Arc<str>>,
}

impl Once {
    pub(crate) fn new(place: Place) -> Once {
        Once { place, rows: Mutex::default(), written: OnceCell::new(), open: OnceCell::new() }
    }

    /// The transactional id.
    pub(crate) fn name(&self, options: &WriteOptions) -> String {
        self.place.name(options)
    }

    /// Counts rows that are to be sent.
    ///
    /// # Errors
    /// They cannot be.
    pub(crate) fn count(&self, parts: &[Part]) -> Result<()> {
        let mut rows = lock(&self.rows);
        for (topic, batch) in parts {
            let digest = digest(batch, Some(topic)).map_err(|error| Error::configuration(error.to_string()))?;
            rows.counted.add(Counted { rows: batch.num_rows() as u64, bytes: value_bytes(batch), digest });
            rows.topics.insert(Arc::clone(topic));
        }
        Ok(())
    }

    /// Opens the transaction, unless the rows are in the topic already; whether they are to be sent.
    ///
    /// # Errors
    /// Later micro-batches are written, or the id cannot be had.
    pub(crate) async fn begin(&self, producer: &Producer, notes: &Notes, options: &WriteOptions) -> Result<bool> {
        if self.look(producer, notes, options).await?.is_some() {
            return Ok(false);
        }
        self.open.get_or_try_init(async || producer.begin_transaction().await).await?;
        Ok(true)
    }

    /// Commits rows and note, when all that was sent is stored; or says that they were passed over.
    ///
    /// # Errors
    /// An earlier attempt had other rows; the transaction cannot be committed.
    pub(crate) async fn end(&self, producer: &Producer, notes: &Notes, options: &WriteOptions) -> Result<()> {
        let written = self.look(producer, notes, options).await?;
        let (counted, topic) = {
            let rows = lock(&self.rows);
            (rows.counted, rows.topics.first().cloned())
        };
        if let Some(noted) = written {
            return Ok(self.place.passed_over(options, noted, &counted)?);
        }
        // Without rows there is nothing to note.
        let Some(topic) = topic else { return Ok(()) };
        let (note, group) = self.place.note(options, &counted, &topic);
        producer.send_offsets_to_transaction(note, group, None).await?;
        Ok(producer.commit_transaction(None).await?)
    }

    /// Takes the id over, and then looks for the note: an earlier attempt may have been about to commit it.
    async fn look(&self, producer: &Producer, notes: &Notes, options: &WriteOptions) -> Result<Option<&Note>> {
        let look = async || {
            producer.init_transactions(None).await?;
            self.place.written(notes, options).await
        };
        Ok(self.written.get_or_try_init(look).await?.as_ref())
    }
}

fn value_bytes(batch: &RecordBatch) -> u64 {
    let values = batch.column_by_name("value").and_then(|column| column.as_binary_opt::<i32>());
    values.map_or(0, |values| values.value_data().len() as u64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
