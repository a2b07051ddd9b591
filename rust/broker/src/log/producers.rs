//! What a partition remembers of idempotent producers: enough to know a repeated batch from a lost one.

use std::collections::{HashMap, VecDeque};

use samsarrow_wire::batch::BatchHeader;
use samsarrow_wire::error_code::ErrorCode;

use super::batch::{last_sequence, next_sequence};

/// As many batches as an idempotent producer may have in flight.
const REMEMBERED: usize = 5;

#[derive(Debug, Clone, Copy)]
struct Appended {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    append_time: i64,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    appended: VecDeque<Appended>,
}

/// What to do with a batch of an idempotent producer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next in its row.
    Append,
    /// Appended before: answer what was answered then.
    Duplicate { base_offset: i64, append_time: i64 },
}

/// The producers that one partition knows.
#[derive(Debug, Default)]
pub(crate) struct Producers(HashMap<i64, Producer>);

impl Producers {
    /// Judges a batch as Kafka's producer state does. A producer that is not known here may begin anywhere.
    pub(crate) fn check(&self, header: &BatchHeader) -> Result<Verdict, ErrorCode> {
        let Some(known) = self.0.get(&header.producer_id) else { return Ok(Verdict::Append) };
        if header.producer_epoch < known.epoch {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if header.producer_epoch > known.epoch {
            return if header.base_sequence == 0 {
                Ok(Verdict::Append)
            } else {
                Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
            };
        }
        let repeated = known
            .appended
            .iter()
            .find(|batch| batch.first_sequence == header.base_sequence && batch.last_sequence == last_sequence(header));
        if let Some(batch) = repeated {
            return Ok(Verdict::Duplicate { base_offset: batch.base_offset, append_time: batch.append_time });
        }
        match known.appended.back() {
            Some(last) if header.base_sequence != next_sequence(last.last_sequence, 1) => {
                Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
            }
            _ => Ok(Verdict::Append),
        }
    }

    /// Remembers a batch that was appended.
    pub(crate) fn appended(&mut self, header: &BatchHeader, base_offset: i64, append_time: i64) {
        let producer = self
            .0
            .entry(header.producer_id)
            .or_insert_with(|| Producer { epoch: header.producer_epoch, appended: VecDeque::new() });
        if producer.epoch != header.producer_epoch {
            producer.epoch = header.producer_epoch;
            producer.appended.clear();
        }
        if producer.appended.len() == REMEMBERED {
            producer.appended.pop_front();
        }
        producer.appended.push_back(Appended {
            first_sequence: header.base_sequence,
            last_sequence: last_sequence(header),
            base_offset,
            append_time,
        });
    }
}
