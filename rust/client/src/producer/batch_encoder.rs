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
pub(super) struct RowGroup {
    pub(super) partition: usize,
    pub(super) rows: Rows,
}

pub(super) enum Rows {
    Range(Range<usize>),
    Selected(Vec<u32>),
}

pub(super) struct EncoderConfig {
    pub(super) target: usize,
    pub(super) timestamp: i64,
    pub(super) codec: Codec,
    pub(super) level: Option<i32>,
    pub(super) transactional: bool,
}

pub(super) struct EncodedBatch {
    pub(super) partition: usize,
    pub(super) count: u32,
    pub(super) payload: Payload,
    /// Bytes of `buffer.memory` that the batch holds.
    pub(super) bytes: usize,
}

pub(super) struct BatchEncoder<'a> {
    config: &'a EncoderConfig,
    partition: usize,
    builder: BatchBuilder,
    /// Memory reserved for the rows in the builder.
    bytes: usize,
    compressor: Option<Compressor>,
    encoded: Vec<EncodedBatch>,
}

impl<'a> BatchEncoder<'a> {
    pub(super) fn new(config: &'a EncoderConfig, partition: usize) -> Result<Self> {
        let compressor = match config.codec {
            Codec::None => None,
            codec => Some(Compressor::new(codec, config.level).map_err(|error| encode_error(&error))?),
        };
        let builder = new_builder(config);
        Ok(Self { config, partition, builder, bytes: 0, compressor, encoded: Vec::new() })
    }

    #[inline]
    pub(super) fn add(&mut self, rows: &RowReader, row: usize, size: usize) -> Result<()> {
        let timestamp = self.config.timestamp;
        if rows.append_to(&mut self.builder, row, timestamp).map_err(|error| encode_error(&error))? == Append::Full {
            self.close()?;
            if rows.append_to(&mut self.builder, row, timestamp).map_err(|error| encode_error(&error))? == Append::Full
            {
                return Err(encode_error(&format_args!("row {row} does not fit into an empty one")));
            }
        }
        self.bytes += size;
        Ok(())
    }

    pub(super) fn add_group(&mut self, rows: &RowReader, sizes: &[u32], group: &RowGroup) -> Result<()> {
        let size =
            |rows: Range<usize>| sizes.get(rows).unwrap_or_default().iter().map(|size| *size as usize).sum::<usize>();
        let timestamp = self.config.timestamp;
        match &group.rows {
            Rows::Range(run) => {
                let mut remaining = run.clone();
                while !remaining.is_empty() {
                    let taken = rows.append_run(&mut self.builder, remaining.clone(), timestamp);
                    let taken = taken.map_err(|error| encode_error(&error))?;
                    self.check_progress(taken, remaining.start)?;
                    self.bytes += size(remaining.start..remaining.start + taken);
                    remaining.start += taken;
                    if !remaining.is_empty() {
                        self.close()?;
                    }
                }
            }
            Rows::Selected(selected) => {
                let mut remaining = selected.as_slice();
                while !remaining.is_empty() {
                    let taken = rows.append_picked(&mut self.builder, remaining, timestamp);
                    let taken = taken.map_err(|error| encode_error(&error))?;
                    self.check_progress(taken, remaining.first().map_or(0, |row| *row as usize))?;
                    let (taken, rest) = remaining.split_at(taken);
                    self.bytes += taken.iter().map(|row| size(*row as usize..*row as usize + 1)).sum::<usize>();
                    remaining = rest;
                    if !remaining.is_empty() {
                        self.close()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fails if an empty batch did not accept even one row, because the next attempt would fail in the same way.
    fn check_progress(&self, taken: usize, row: usize) -> Result<()> {
        if taken == 0 && self.builder.is_empty() {
            return Err(encode_error(&format_args!("row {row} does not fit into an empty one")));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let count = u32::try_from(self.builder.count()).map_err(|error| encode_error(&error))?;
        let (payload, bytes) = match &mut self.compressor {
            // Length and checksum are written when the sequence is known, outside the caller's thread.
            None => {
                let builder = std::mem::replace(&mut self.builder, new_builder(self.config));
                (Payload::Draft(Box::new(builder)), self.bytes)
            }
            Some(compressor) => {
                let bytes = Bytes::from(self.builder.finish(compressor).map_err(|error| encode_error(&error))?);
                let held = bytes.len().min(self.bytes);
                (Payload::Encoded(bytes), held)
            }
        };
        self.bytes = 0;
        self.encoded.push(EncodedBatch { partition: self.partition, count, payload, bytes });
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Vec<EncodedBatch>> {
        if !self.builder.is_empty() {
            self.close()?;
        }
        Ok(self.encoded)
    }
}

fn new_builder(config: &EncoderConfig) -> BatchBuilder {
    let transactional = config.transactional;
    BatchBuilder::new(BatchOptions { max_bytes: config.target, transactional, ..BatchOptions::default() })
}

pub(super) fn encode_error(error: &dyn std::fmt::Display) -> Error {
    Error::configuration(format!("cannot encode a batch: {error}"))
}

/// Encoders of a topic's partitions, created on first use.
pub(super) struct PartitionEncoders<'a> {
    config: &'a EncoderConfig,
    partitions: Vec<Option<BatchEncoder<'a>>>,
}

impl<'a> PartitionEncoders<'a> {
    pub(super) fn new(config: &'a EncoderConfig, choices: &Choices) -> Self {
        let mut partitions = Vec::new();
        partitions.resize_with(choices.len(), || None);
        Self { config, partitions }
    }

    /// Returns the encoder of a partition.
    ///
    /// # Errors
    /// Fails if the topic has no such partition.
    #[inline]
    pub(super) fn of(&mut self, partition: usize) -> Result<&mut BatchEncoder<'a>> {
        let count = self.partitions.len();
        let slot = self.partitions.get_mut(partition).ok_or_else(|| {
            Error::State(format!("a row was assigned to partition {partition} of {count}: none of its chunk is queued"))
        })?;
        match slot {
            Some(encoder) => Ok(encoder),
            None => Ok(slot.insert(BatchEncoder::new(self.config, partition)?)),
        }
    }

    /// Closes the open batches, and returns the batches of all partitions.
    pub(super) fn finish(self) -> Result<Vec<EncodedBatch>> {
        let mut encoded = Vec::new();
        for encoder in self.partitions.into_iter().flatten() {
            encoded.extend(encoder.finish()?);
        }
        Ok(encoded)
    }
}
