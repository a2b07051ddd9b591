//! What the user hands in and what comes back.

use std::sync::Arc;

use bytes::Bytes;

/// One record to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerRecord {
    /// Topic to write to.
    pub topic: Arc<str>,
    /// Partition to write to; `None` lets the partitioner choose.
    pub partition: Option<i32>,
    /// Create time in milliseconds since the epoch; `None` is now, −1 is "no timestamp".
    pub timestamp: Option<i64>,
    /// Key; `None` is null, which is not the same as empty.
    pub key: Option<Bytes>,
    /// Value; `None` is null (a tombstone on a compacted topic).
    pub value: Option<Bytes>,
    /// Headers in order; names may repeat.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// A record to send, in memory of the caller's.
#[derive(Debug, Clone, Copy)]
pub struct RecordRef<'a> {
    /// See [`ProducerRecord::topic`].
    pub topic: &'a str,
    /// See [`ProducerRecord::partition`].
    pub partition: Option<i32>,
    /// See [`ProducerRecord::timestamp`].
    pub timestamp: Option<i64>,
    /// See [`ProducerRecord::key`].
    pub key: Option<&'a [u8]>,
    /// See [`ProducerRecord::value`].
    pub value: Option<&'a [u8]>,
    /// See [`ProducerRecord::headers`].
    pub headers: &'a [(String, Option<Bytes>)],
}

impl RecordRef<'_> {
    /// The record in memory of its own.
    pub fn to_record(&self) -> ProducerRecord {
        ProducerRecord {
            topic: Arc::from(self.topic),
            partition: self.partition,
            timestamp: self.timestamp,
            key: self.key.map(Bytes::copy_from_slice),
            value: self.value.map(Bytes::copy_from_slice),
            headers: self.headers.to_vec(),
        }
    }
}

impl ProducerRecord {
    /// The record by reference.
    pub fn by_ref(&self) -> RecordRef<'_> {
        RecordRef {
            topic: &self.topic,
            partition: self.partition,
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &self.headers,
        }
    }

    /// A record with a value and nothing else.
    pub fn new(topic: impl Into<Arc<str>>, value: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            partition: None,
            timestamp: None,
            key: None,
            value: Some(value.into()),
            headers: Vec::new(),
        }
    }

    /// The same record with a key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same record for one partition.
    #[must_use]
    pub fn with_partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The same record with a create time in milliseconds since the epoch.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: i64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// The same record with one more header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: Option<Bytes>) -> Self {
        self.headers.push((name.into(), value));
        self
    }
}

/// Where a record landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMetadata {
    /// Topic written to.
    pub topic: Arc<str>,
    /// Partition written to.
    pub partition: i32,
    /// Offset in the partition; −1 when the broker did not report it (`acks=0`, or a resend of an old duplicate).
    pub offset: i64,
    /// Milliseconds since the epoch: the broker's append time where the topic uses it, else the record's own; `None`
    /// for a record without timestamp.
    pub timestamp: Option<i64>,
}

/// A run of rows of one [`send_batch`](crate::producer::Producer::send_batch) that landed at consecutive offsets.
///
/// One partition has several receipts only where other writers' records came in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionReceipt {
    /// Partition written to.
    pub partition: i32,
    /// Offset of the first row of the run; −1 when the broker did not report it.
    pub base_offset: i64,
    /// Number of rows.
    pub count: u64,
    /// The broker's append time in milliseconds where the topic uses it.
    pub log_append_time: Option<i64>,
}
