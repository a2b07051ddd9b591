//! Records to send, and the metadata of delivered records.

use std::sync::Arc;

use bytes::Bytes;

/// A record to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerRecord {
    /// Topic to write to.
    pub topic: Arc<str>,
    /// Partition to write to; `None` lets the partitioner choose.
    pub partition: Option<i32>,
    /// Create time in milliseconds since the epoch; `None` is now, −1 is "no timestamp".
    pub timestamp: Option<i64>,
    /// Key; `None` is null, which differs from an empty key.
    pub key: Option<Bytes>,
    /// Value; `None` is null (a tombstone on a compacted topic).
    pub value: Option<Bytes>,
    /// Headers in order. Several headers may have the same name.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// A record to send, borrowed from the caller.
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
    /// Copies the record.
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
    /// Borrows the record.
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

    /// Creates a record with a value only.
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

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the partition.
    #[must_use]
    pub fn with_partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Sets the create time in milliseconds since the epoch.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: i64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: Option<Bytes>) -> Self {
        self.headers.push((name.into(), value));
        self
    }
}

/// Partition, offset and timestamp of a delivered record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMetadata {
    /// Topic written to.
    pub topic: Arc<str>,
    /// Partition written to.
    pub partition: i32,
    /// Offset in the partition; −1 if the broker did not report it (`acks=0`, or a resend of an old duplicate).
    pub offset: i64,
    /// Timestamp in milliseconds since the epoch: the broker's append time if the topic uses `LogAppendTime`, otherwise
    /// the record's timestamp; `None` for a record without timestamp.
    pub timestamp: Option<i64>,
}

/// A run of rows of one [`send_batch`](crate::producer::Producer::send_batch) call with consecutive offsets.
///
/// A partition has several receipts only if records of other producers were appended in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionReceipt {
    /// Topic written to.
    pub topic: Arc<str>,
    /// Partition written to.
    pub partition: i32,
    /// Offset of the first row of the run; −1 if the broker did not report it.
    pub base_offset: i64,
    /// Number of rows.
    pub count: u64,
    /// Append time in milliseconds, if the topic uses `LogAppendTime`.
    pub log_append_time: Option<i64>,
}
