//! Sending of single records, immediately or after waiting for memory and metadata.

use std::sync::Arc;

use tokio::time::Instant;

use super::Producer;
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::producer::accumulator::AppendError;
use crate::producer::shared::Shared;
use crate::producer::topic::topic_missing;
use crate::producer::{Delivery, ProducerRecord, RecordRef};

/// Maximum overhead of a record in bytes, beyond its key, value and headers: lengths and deltas.
const RECORD_OVERHEAD: usize = 32;
/// Maximum overhead of a header in bytes, beyond its name and value.
const HEADER_OVERHEAD: usize = 10;

/// Error of [`Producer::try_send`].
#[derive(Debug)]
pub enum TrySendError {
    /// `buffer.memory` is full. [`Producer::send`] waits until memory is released.
    Full,
    /// The topic or the partition is not known yet. [`Producer::send`] requests metadata.
    NeedsMetadata,
    /// The record cannot be sent.
    Error(Error),
}

impl Producer {
    /// Queues a record without waiting.
    ///
    /// # Errors
    /// Fails if memory or metadata are not available, in which case [`send`](Self::send) can wait for them, or if the
    /// record can never be sent.
    pub fn try_send(&self, record: RecordRef<'_>) -> std::result::Result<Delivery, TrySendError> {
        let (timestamp, size) = self.check(record).map_err(TrySendError::Error)?;
        if !self.shared.memory.try_reserve(size) {
            return Err(TrySendError::Full);
        }
        match append(&self.shared, record, timestamp, size, None) {
            Ok(delivery) => Ok(delivery),
            Err(AppendError::NeedsMetadata) => Err(TrySendError::NeedsMetadata),
            Err(AppendError::Failed(error)) => Err(TrySendError::Error(error)),
        }
    }

    /// Queues a record, waiting up to `max.block.ms` for metadata and memory.
    ///
    /// # Errors
    /// Fails if the record can never be sent, or if memory or metadata are not available in time.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery> {
        self.reserve(record).await?.send()
    }

    /// Waits like [`send`](Self::send) for metadata and memory, but does not send the record. Dropping the future or
    /// the reservation releases the memory.
    ///
    /// # Errors
    /// Fails if the record can never be sent, or if memory or metadata are not available in time.
    pub async fn reserve(&self, record: ProducerRecord) -> Result<Reservation> {
        let (timestamp, size) = self.check(record.by_ref())?;
        let transaction = {
            let accumulator = self.shared.lock();
            accumulator.check_state()?;
            accumulator.transaction_number()
        };
        let deadline = Instant::now() + self.shared.settings.max_block;
        self.shared.ensure_partition(&record.topic, record.partition, deadline).await?;
        let mut reserved = self.shared.reserve(size, deadline).await?;
        // From here on the `Reservation`, and later the record's batch, releases the bytes.
        reserved.transfer(size);
        Ok(Reservation { shared: Arc::clone(&self.shared), record, timestamp, size, transaction })
    }

    /// Returns the timestamp and size of a record, or the reason why it can never be sent.
    fn check(&self, record: RecordRef<'_>) -> Result<(i64, usize)> {
        let timestamp = match record.timestamp {
            None => now_ms(),
            Some(timestamp) if timestamp >= -1 => timestamp,
            Some(timestamp) => {
                return Err(Error::configuration(format!(
                    "timestamp {timestamp} is negative: give milliseconds since 1970, or −1 for none"
                )));
            }
        };
        let mut size = RECORD_OVERHEAD + record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        for (name, value) in record.headers {
            size += HEADER_OVERHEAD + name.len() + value.as_ref().map_or(0, bytes::Bytes::len);
        }
        let description = || format!("a record for topic {}", record.topic);
        self.shared.check_size(size, description)?;
        self.shared.settings.check_headers(!record.headers.is_empty(), description)?;
        Ok((timestamp, size))
    }
}

/// Appends a record whose bytes are reserved. Releases the bytes on failure.
fn append(
    shared: &Shared,
    record: RecordRef<'_>,
    timestamp: i64,
    size: usize,
    transaction: Option<u64>,
) -> std::result::Result<Delivery, AppendError> {
    let appended = {
        let mut accumulator = shared.lock();
        let admitted = transaction.map_or(Ok(()), |transaction| accumulator.check_transaction(transaction));
        admitted.map_err(AppendError::Failed).and_then(|()| accumulator.append(record, timestamp, size))
    };
    match appended {
        Ok((delivery, wake)) => {
            if wake {
                shared.wake.notify_one();
            }
            Ok(delivery)
        }
        Err(rejection) => {
            shared.memory.release(size);
            Err(rejection)
        }
    }
}

/// Bytes of `buffer.memory` reserved for a record, released if the record is not sent.
#[derive(Debug)]
pub struct Reservation {
    shared: Arc<Shared>,
    record: ProducerRecord,
    timestamp: i64,
    size: usize,
    /// Number of the transaction in which `send` was called.
    transaction: u64,
}

impl Reservation {
    /// Queues the record.
    ///
    /// # Errors
    /// Fails if the producer is closed, if the transaction of the call has ended, or if the topic or partition was
    /// deleted.
    pub fn send(mut self) -> Result<Delivery> {
        let size = std::mem::take(&mut self.size);
        append(&self.shared, self.record.by_ref(), self.timestamp, size, Some(self.transaction)).map_err(|rejection| {
            match rejection {
                AppendError::Failed(error) => error,
                // The topic was deleted or recreated with fewer partitions in between.
                AppendError::NeedsMetadata => topic_missing(&self.record.topic),
            }
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.size > 0 {
            self.shared.memory.release(self.size);
        }
    }
}
