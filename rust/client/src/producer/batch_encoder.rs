//! Encoding of rows into the batches of their partitions.

use std::ops::Range;

use bytes::Bytes;
use samsarrow_arrow::encode::RowReader;
use samsarrow_wire::batch::{Append, BatchBuilder, BatchOptions};
use samsarrow_wire::compression::{Codec, Compressor};

use super::batch::Payload;
use super::partitioner::Choices;
use crate::error::{Error, Result};

/// Rows assigned to one partition.
pub(super) struct Group {
    pub(super) partition: usize,
    pub(super) rows: Rows,
}

pub(super) enum Rows {
    Run(Range<usize>),
    Picked(Vec<u32>),
}

pub(super) struct Encoding {
    pub(super) target: usize,
    pub(super) timestamp: i64,
    pub(super) codec: Codec,
    pub(super) level: Option<i32>,
    pub(super) transactional: bool,
}

pub(super) struct Encoded {
    pub(super) partition: usize,
    pub(super) count: u32,
    pub(super) payload: Payload,
    /// Bytes of `buffer.memory` that the batch holds.
    pub(super) bytes: usize,
}

pub(super) struct Encoder<'a> {
    encoding: &'a Encoding,
    partition: usize,
    builder: BatchBuilder,
    /// Memory reserved for the rows in the builder.
    bytes: usize,
    compressor: Option<Compressor>,
    encoded: Vec<Encoded>,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(encoding: &'a Encoding, partition: usize) -> Result<Self> {
        let compressor = match encoding.codec {
            Codec::None => None,
            codec => Some(Compressor::new(codec, encoding.level).map_err(|error| broken(&error))?),
        };
        let builder = new_builder(encoding);
        Ok(Self { encoding, partition, builder, bytes: 0, compressor, encoded: Vec::new() })
    }

    #[inline]
    pub(super) fn add(&mut self, rows: &RowReader, row: usize, size: usize) -> Result<()> {
        let timestamp = self.encoding.timestamp;
        if rows.append_to(&mut self.builder, row, timestamp).map_err(|error| broken(&error))? == Append::Full {
            self.close()?;
            if rows.append_to(&mut self.builder, row, timestamp).map_err(|error| broken(&error))? == Append::Full {
                return Err(broken(&format_args!("row {row} does not fit into an empty one")));
            }
        }
        self.bytes += size;
        Ok(())
    }

    pub(super) fn add_group(&mut self, rows: &RowReader, sizes: &[u32], group: &Group) -> Result<()> {
        let size =
            |rows: Range<usize>| sizes.get(rows).unwrap_or_default().iter().map(|size| *size as usize).sum::<usize>();
        let timestamp = self.encoding.timestamp;
        match &group.rows {
            Rows::Run(run) => {
                let mut left = run.clone();
                while !left.is_empty() {
                    let taken = rows.append_run(&mut self.builder, left.clone(), timestamp);
                    let taken = taken.map_err(|error| broken(&error))?;
                    self.check_progress(taken, left.start)?;
                    self.bytes += size(left.start..left.start + taken);
                    left.start += taken;
                    if !left.is_empty() {
                        self.close()?;
                    }
                }
            }
            Rows::Picked(picked) => {
                let mut left = picked.as_slice();
                while !left.is_empty() {
                    let taken = rows.append_picked(&mut self.builder, left, timestamp);
                    let taken = taken.map_err(|error| broken(&error))?;
                    self.check_progress(taken, left.first().map_or(0, |row| *row as usize))?;
                    let (taken, rest) = left.split_at(taken);
                    self.bytes += taken.iter().map(|row| size(*row as usize..*row as usize + 1)).sum::<usize>();
                    left = rest;
                    if !left.is_empty() {
                        self.close()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fails if an empty batch did not accept even one row: the next attempt would fail in the same way.
    fn check_progress(&self, taken: usize, row: usize) -> Result<()> {
        if taken == 0 && self.builder.is_empty() {
            return Err(broken(&format_args!("row {row} does not fit into an empty one")));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let count = u32::try_from(self.builder.count()).map_err(|error| broken(&error))?;
        let (payload, bytes) = match &mut self.compressor {
            // Length and checksum are written when the sequence is known, outside the caller's thread.
            None => {
                let builder = std::mem::replace(&mut self.builder, new_builder(self.encoding));
                (Payload::Draft(Box::new(builder)), self.bytes)
            }
            Some(compressor) => {
                let bytes = Bytes::from(self.builder.finish(compressor).map_err(|error| broken(&error))?);
                let held = bytes.len().min(self.bytes);
                (Payload::Encoded(bytes), held)
            }
        };
        self.bytes = 0;
        self.encoded.push(Encoded { partition: self.partition, count, payload, bytes });
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Vec<Encoded>> {
        if !self.builder.is_empty() {
            self.close()?;
        }
        Ok(self.encoded)
    }
}

fn new_builder(encoding: &Encoding) -> BatchBuilder {
    let transactional = encoding.transactional;
    BatchBuilder::new(BatchOptions { max_bytes: encoding.target, transactional, ..BatchOptions::default() })
}

pub(super) fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::configuration(format!("cannot encode a batch: {error}"))
}

/// Encoders of a topic's partitions, created on first use.
pub(super) struct Encoders<'a> {
    encoding: &'a Encoding,
    partitions: Vec<Option<Encoder<'a>>>,
}

impl<'a> Encoders<'a> {
    pub(super) fn new(encoding: &'a Encoding, choices: &Choices) -> Self {
        let mut partitions = Vec::new();
        partitions.resize_with(choices.len(), || None);
        Self { encoding, partitions }
    }

    /// Returns the encoder of a partition.
    ///
    /// # Errors
    /// Fails if the topic has no such partition.
    #[inline]
    pub(super) fn of(&mut self, partition: usize) -> Result<&mut Encoder<'a>> {
        let count = self.partitions.len();
        let slot = self.partitions.get_mut(partition).ok_or_else(|| {
            Error::State(format!("a row was assigned to partition {partition} of {count}: none of its chunk is queued"))
        })?;
        match slot {
            Some(encoder) => Ok(encoder),
            None => Ok(slot.insert(Encoder::new(self.encoding, partition)?)),
        }
    }

    /// Returns all batches of all partitions.
    pub(super) fn finish(self) -> Result<Vec<Encoded>> {
        let mut encoded = Vec::new();
        for encoder in self.partitions.into_iter().flatten() {
            encoded.extend(encoder.finish()?);
        }
        Ok(encoded)
    }
}
