//! Reader of one partition of a Fetch response.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use samsarrow_wire::batch::{AbortedTransaction, AbortedTransactions, TimestampType, spans};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::fetch::{EpochEndOffset, LeaderIdAndEpoch, PartitionData};
use tokio::time::Instant;

use super::cursor::{Ends, Log, Start};
use super::partition_records::PartitionRecords;
use super::partition_request::FetchPartitionRequest;
use super::queue::Epochs;
use super::source::Source;
use super::state::{RETRY_DELAY, State};
use crate::clock::now_ms;
use crate::cluster::metadata::{Leader, Metadata, ReportedLeader};
use crate::config::{IsolationLevel, OffsetReset};
use crate::defects::Defect;
use crate::error::Error;
use crate::types::TopicPartition;

/// Totals of one Fetch response, and the actions that the response requires.
#[derive(Debug, Default)]
pub(super) struct ResponseSummary<'a> {
    /// Newer leaders (KIP-951).
    pub(super) leaders: Vec<ReportedLeader>,
    /// True if a metadata refresh is required, because the response shows that the metadata is out of date.
    pub(super) refresh: bool,
    /// True if a start offset must be looked up, or if a partition must be fetched from another broker.
    pub(super) positions_changed: bool,
    /// Failed partitions with their errors, collected so that each cause is raised only once.
    pub(super) failed: Vec<(&'a FetchPartitionRequest, Error)>,
    /// Size of the complete batches in the response, in bytes.
    pub(super) bytes: usize,
    /// Number of records in complete batches.
    pub(super) records: u64,
}

/// Reads the records of one partition of a response.
#[derive(Debug)]
pub(super) struct PartitionReader<'a> {
    request: &'a FetchPartitionRequest,
    /// Broker that sent the response.
    node: i32,
    data: PartitionData,
    aborted: Option<Arc<Mutex<AbortedTransactions>>>,
    /// Offset after the last complete batch.
    next: i64,
    /// Size of the complete batches, in bytes.
    complete: usize,
    /// Number of records according to the batch headers.
    record_count: u64,
    /// Size of the incomplete batch at the end, in bytes.
    pub(super) cut: usize,
    /// True if the remaining records are past the end of a bounded read.
    past_end: bool,
    /// True if a response without progress is not an error, because the cursor has moved, all batches are past the end
    /// of a bounded read, or the decoder will report the invalid bytes.
    empty_allowed: bool,
}

impl<'a> PartitionReader<'a> {
    pub(super) fn new(request: &'a FetchPartitionRequest, node: i32, mut data: PartitionData) -> Self {
        let list = data.aborted_transactions.take().filter(|list| !list.is_empty() && !Defect::AbortedRows.is_on());
        let aborted = list.map(|list| {
            let list = list.into_iter();
            let list = list.map(|t| AbortedTransaction { producer_id: t.producer_id, first_offset: t.first_offset });
            Arc::new(Mutex::new(AbortedTransactions::new(list)))
        });
        Self {
            request,
            node,
            data,
            aborted,
            next: request.offset,
            complete: 0,
            record_count: 0,
            cut: 0,
            past_end: false,
            empty_allowed: false,
        }
    }

    /// Moves the fetch offset past `records` according to their batch headers, so that the next request can be sent
    /// before the records are decoded. Drops records of cursors that have moved, and batches past the end of a bounded
    /// read.
    pub(super) fn records(&mut self, source: &Source, mut records: Bytes) -> Option<PartitionRecords> {
        if self.data.error_code != 0 {
            return None;
        }
        self.complete += records.len();
        if self.past_end {
            return None;
        }
        let request = self.request;
        let until = source.shared.lock().at_version(&request.tp, request.version).and_then(|cursor| cursor.until);
        let end = end_of(&records, self.next, until);
        // Once batches were dropped, the following ones are dropped too, even if the end of the read moves in between,
        // because otherwise there would be a gap.
        self.past_end = end.bytes < records.len();
        records.truncate(end.bytes);
        let now_ms = now_ms();
        let mut state = source.shared.lock();
        for (base, largest, count) in &end.times {
            self.record_count += count;
            if !state.meters.by_row {
                state.meters.batch_age(now_ms, *base, *largest, *count);
            }
        }
        let cursor = state.at_version(&self.request.tp, self.request.version);
        let Some(cursor) = cursor.filter(|c| c.fetch_offset == Some(self.next) && !c.failed) else {
            self.empty_allowed = true;
            return None;
        };
        if records.is_empty() {
            self.empty_allowed = true;
            return None;
        }
        self.empty_allowed |= end.invalid;
        cursor.progress();
        cursor.fetch_offset = Some(end.next);
        cursor.undecoded = (cursor.undecoded.0 + 1, self.node);
        let epochs = Epochs::new(cursor.last_epoch, &end.epochs);
        cursor.last_epoch = end.epochs.last().map_or(cursor.last_epoch, |(_, epoch)| *epoch);
        let from = std::mem::replace(&mut self.next, end.next);
        let committed = source.options.isolation_level == IsolationLevel::ReadCommitted;
        let aborted = self.aborted.clone().filter(|_| committed);
        let (tp, version, compressed) = (self.request.tp.clone(), self.request.version, end.compressed);
        Some(PartitionRecords { tp, version, from, epochs, compressed, records, aborted })
    }

    /// Completes the partition after its last record: handles its error, a truncated log, or the reported ends of the
    /// log.
    pub(super) fn end(
        self,
        source: &Source,
        version: i16,
        metadata: &Metadata,
        diverging: &EpochEndOffset,
        current: &LeaderIdAndEpoch,
        summary: &mut ResponseSummary<'a>,
    ) {
        let Self { request, data, .. } = &self;
        if current.leader_id >= 0 {
            summary.leaders.push(ReportedLeader {
                tp: request.tp.clone(),
                topic_id: request.topic_id,
                leader: Leader { node: current.leader_id, epoch: current.leader_epoch },
            });
        }
        let patience = source.cluster.options().default_api_timeout;
        let mut state = source.shared.lock();
        summary.bytes += self.complete;
        summary.records += self.record_count;
        state.meters.topic_bytes_received(Instant::now(), &request.tp.topic, self.complete);
        match ErrorCode::from_i16(data.error_code).ok() {
            Ok(()) => {}
            Err(ErrorCode::OFFSET_OUT_OF_RANGE) => {
                summary.positions_changed = true;
                return self.out_of_range(source, &mut state);
            }
            Err(code) => {
                let error = Error::server(code, format!("Fetch of {} at offset {}", request.tp, request.offset));
                summary.refresh |= error.refresh_metadata();
                return summary.failed.push((self.request, error));
            }
        }
        if diverging.end_offset >= 0 {
            summary.positions_changed = true;
            return truncated(source, &mut state, request, diverging);
        }
        if let Some(error) = self.no_progress(version, source.options.max_partition_fetch_bytes as usize) {
            summary.positions_changed = true;
            return match error {
                NoProgress::Truncated(error) => state.partition_no_progress(request, error, patience),
                NoProgress::Permanent(error) => state.raise(&request.tp, request.version, error),
            };
        }
        let Some(cursor) = state.at_version(&request.tp, request.version) else { return };
        if !request.topic_id.is_zero() {
            cursor.topic_id = request.topic_id;
        }
        cursor.failing = None;
        let high_watermark = data.high_watermark;
        let stable = if data.last_stable_offset >= 0 { data.last_stable_offset } else { high_watermark };
        let committed = source.options.isolation_level == IsolationLevel::ReadCommitted;
        let start = Some(data.log_start_offset).filter(|start| *start >= 0);
        let end = if committed { stable } else { high_watermark };
        cursor.log = (high_watermark >= 0).then_some(Log { start, end });
        cursor.ends = (high_watermark >= 0).then_some(Ends { node: self.node, high_watermark, stable });
        if data.preferred_read_replica >= 0 {
            summary.positions_changed = true;
            if !metadata.brokers.contains_key(&data.preferred_read_replica) {
                // The metadata does not contain the replica yet, for example because it has just restarted. The leader
                // repeats its redirect until the address of the replica is known.
                cursor.retry_at = Some(Instant::now() + RETRY_DELAY);
                summary.refresh = true;
            }
            tracing::debug!(
                client_id = source.cluster.client_id(),
                "partition {}: reading continues at broker {}, a closer replica",
                request.tp,
                data.preferred_read_replica
            );
            let until = Instant::now() + source.cluster.options().metadata_max_age;
            cursor.replica = Some((data.preferred_read_replica, until));
        }
    }

    fn out_of_range(&self, source: &Source, state: &mut State) {
        let request = self.request;
        let Some(cursor) = state.at_version(&request.tp, request.version) else { return };
        cursor.record_correction(source.cluster.backoff(), Instant::now());
        let client_id = source.cluster.client_id();
        tracing::debug!(
            client_id,
            "partition {}: offset {} is out of range at broker {}",
            request.tp,
            request.offset,
            self.node
        );
        if request.from_replica {
            // A replica may be behind the leader, or may have deleted more records than the leader, so the fetch is
            // repeated at the leader (KIP-392).
            cursor.replica = None;
            return;
        }
        if source.options.auto_offset_reset == OffsetReset::None {
            return state.raise(&request.tp, request.version, not_in_log(&request.tp, request.offset));
        }
        // The out-of-range offset is reported later, together with the new offset.
        cursor.out_of_range = Some(request.offset);
        cursor.fetch_offset = None;
        cursor.start = Start::Reset;
    }

    /// Returns the error of a response that contains bytes of this partition but makes no progress.
    fn no_progress(&self, version: i16, partition_bytes: usize) -> Option<NoProgress> {
        let request = self.request;
        if self.next > request.offset || self.empty_allowed || self.complete + self.cut == 0 {
            return None;
        }
        if self.complete > 0 {
            return Some(NoProgress::Permanent(Error::corrupt(format!(
                "{} at offset {}: the broker sent only records before this offset; seek past it, or check the log",
                request.tp, request.offset
            ))));
        }
        let error = Error::server(
            ErrorCode::MESSAGE_TOO_LARGE,
            format!(
                "{} at offset {}: only the first {} bytes of the record batch came, as it is larger than a fetch may be; \
                 raise max.partition.fetch.bytes, fetch.max.bytes and queued.max.bytes, or seek past it",
                request.tp, request.offset, self.cut
            ),
        );
        // From version 3, a broker sends the first batch completely regardless of its size (KIP-74), but only for the
        // first partition of the response.
        Some(if version < 3 || self.cut >= partition_bytes {
            NoProgress::Permanent(error)
        } else {
            NoProgress::Truncated(error)
        })
    }
}

/// Returns the error for a position outside the log if there is no reset policy. The message cannot name the offset
/// range of the log, because Kafka's response does not contain it.
pub(crate) fn not_in_log(tp: &TopicPartition, offset: i64) -> Error {
    Error::OffsetOutOfRange(format!(
        "{tp}: offset {offset} is not in the log, and auto.offset.reset is none; seek to an offset between \
         beginning_offsets() and end_offsets()"
    ))
}

/// Handles a log that was truncated below the fetched offset (KIP-320), which happens if an unclean leader election
/// loses records.
pub(super) fn truncated(
    source: &Source,
    state: &mut State,
    request: &FetchPartitionRequest,
    diverging: &EpochEndOffset,
) {
    // If the epoch ends after the fetched offset, no fetched record is lost, so reading continues at the fetched
    // offset.
    let end = diverging.end_offset.min(request.offset);
    if source.options.auto_offset_reset == OffsetReset::None {
        let error = Error::OffsetOutOfRange(format!(
            "{}: the log was truncated: offset {} was read in leader epoch {}, which now ends at {end}, and \
             auto.offset.reset is none; the records read from there on are no longer in the log: seek to {end} to continue",
            request.tp, request.offset, request.last_epoch
        ));
        return state.raise(&request.tp, request.version, error);
    }
    tracing::warn!(
        client_id = source.cluster.client_id(),
        epoch = request.last_epoch,
        "partition {}: the log was truncated below the position {}: reading continues at {end}, where the logs diverged",
        request.tp,
        request.offset
    );
    let reason = format!("the log was truncated: it parts at {end}");
    source.cluster.metrics().emit(|| request.reset(reason));
    if let Some(cursor) = state.at_version(&request.tp, request.version) {
        cursor.record_correction(source.cluster.backoff(), Instant::now());
    }
    state.set_start(&request.tp, request.version, end, diverging.epoch);
}

/// Error of a response that contains bytes of a partition but makes no progress.
#[derive(Debug)]
enum NoProgress {
    /// The response was full before the first batch of this partition was complete. A later request lists this
    /// partition first.
    Truncated(Error),
    /// Another request would have the same result.
    Permanent(Error),
}

/// End of the needed batches, and a summary of their headers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    /// Offset after the batches, including offsets without rows at their end.
    next: i64,
    /// Position in bytes of the first batch that is not needed, or the length of the records if all are needed.
    bytes: usize,
    /// Leader epochs of the batches, each with its first offset.
    epochs: Vec<(i64, i32)>,
    /// Base timestamp, largest timestamp and number of records of each batch. Consecutive batches whose records all have
    /// the same timestamp share an entry, because adding an entry to the metrics takes as long as parsing a header.
    times: Vec<(i64, i64, u64)>,
    /// True if any batch is compressed.
    compressed: bool,
    /// True if the records contain invalid bytes, which the decoder reports.
    invalid: bool,
}

fn end_of(records: &Bytes, from: i64, until: Option<i64>) -> End {
    let (epochs, times) = (Vec::new(), Vec::new());
    let mut end = End { next: from, bytes: records.len(), epochs, times, compressed: false, invalid: false };
    let mut batches = spans(records);
    loop {
        if until.is_some_and(|until| end.next >= until) {
            end.bytes = batches.position();
            return end;
        }
        let Some(batch) = batches.next() else { return end };
        match batch {
            Ok(batch) => {
                end.next = end.next.max(batch.header.next_offset());
                let epoch = batch.header.partition_leader_epoch;
                if end.epochs.last().is_none_or(|(_, last)| *last != epoch) {
                    end.epochs.push((batch.header.base_offset, epoch));
                }
                end.compressed |= batch.header.codec_id() != 0;
                // Wrapper messages of the old formats do not contain the number of records.
                if let Ok(count @ 1..) = u64::try_from(batch.header.record_count)
                    && !batch.header.is_control()
                {
                    let largest = batch.header.max_timestamp;
                    let base = match batch.header.timestamp_type() {
                        TimestampType::LogAppendTime => largest,
                        TimestampType::CreateTime => batch.header.base_timestamp,
                    };
                    match end.times.last_mut() {
                        Some(last) if base == largest && (last.0, last.1) == (base, largest) => last.2 += count,
                        _ => end.times.push((base, largest, count)),
                    }
                }
            }
            Err(_) => end.invalid = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};

    /// Returns a batch of one record at `offset`, with `size` bytes and leader epoch `epoch`.
    fn batch(offset: i64, size: usize, epoch: i32) -> Vec<u8> {
        let mut out = BytesMut::zeroed(size);
        let mut head = &mut out[..17];
        head.put_i64(offset);
        head.put_i32(size as i32 - 12);
        head.put_i32(epoch);
        head.put_i8(2);
        out[57..61].copy_from_slice(&1i32.to_be_bytes());
        out.to_vec()
    }

    #[test]
    fn end_of_batches_follows_headers() {
        let three = [batch(7, 100, 4), batch(9, 100, 4), batch(20, 80, 6)].concat();
        let end = |next, bytes, epochs: &[_], invalid, batches: u64| End {
            next,
            bytes,
            epochs: epochs.to_vec(),
            times: if batches > 0 { vec![(0, 0, batches)] } else { vec![] },
            compressed: false,
            invalid,
        };
        let until = |until| end_of(&three.clone().into(), 5, until);
        let all = end(21, 280, &[(7, 4), (20, 6)], false, 3);
        assert_eq!([until(None), until(Some(21)), until(Some(11))], [all.clone(), all.clone(), all]);
        assert_eq!(until(Some(10)), end(10, 200, &[(7, 4)], false, 2));
        // A gap before the first batch is skipped.
        assert_eq!(until(Some(6)), end(8, 100, &[(7, 4)], false, 1));
        assert_eq!(until(Some(5)), end(5, 0, &[], false, 0));
        let mut bad = three;
        bad[216] = 9;
        assert_eq!(end_of(&bad.into(), 5, None), end(10, 280, &[(7, 4)], true, 2));
    }

    #[test]
    fn batches_of_one_timestamp_are_counted_together() {
        let timed = |offset, base: i64, largest: i64| {
            let mut batch = batch(offset, 80, 1);
            batch[27..35].copy_from_slice(&base.to_be_bytes());
            batch[35..43].copy_from_slice(&largest.to_be_bytes());
            batch
        };
        let times = [(5, 5), (5, 5), (6, 6), (5, 6), (5, 6), (5, 5)];
        let records: Vec<u8> =
            (7..).zip(times).flat_map(|(offset, (base, largest))| timed(offset, base, largest)).collect();
        let counted = end_of(&records.into(), 7, None).times;
        assert_eq!(counted, [(5, 5, 2), (6, 6, 1), (5, 6, 1), (5, 6, 1), (5, 5, 1)]);
    }

    #[test]
    fn explains_a_response_without_progress() {
        let request = FetchPartitionRequest::new(TopicPartition::new("t", 3), 1, 7);
        let no_progress = |complete, cut, version| {
            let reading =
                PartitionReader { complete, cut, ..PartitionReader::new(&request, 0, PartitionData::default()) };
            reading.no_progress(version, 500)
        };
        assert!(no_progress(0, 0, 17).is_none());
        for (no_progress, what) in [
            (no_progress(0, 400, 17), "max.partition.fetch.bytes"),
            (no_progress(0, 400, 2), "max.partition.fetch.bytes"),
            (no_progress(0, 500, 17), "max.partition.fetch.bytes"),
            (no_progress(100, 0, 17), "only records before this offset"),
        ] {
            let Some(NoProgress::Permanent(error) | NoProgress::Truncated(error)) = no_progress else {
                panic!("expected an error")
            };
            let text = error.to_string();
            assert!(text.contains("t-3 at offset 7") && text.contains(what), "{text}");
        }
        assert!(matches!(no_progress(0, 400, 17), Some(NoProgress::Truncated(_))));
        assert!(matches!(no_progress(0, 400, 2), Some(NoProgress::Permanent(_))));
    }
}
