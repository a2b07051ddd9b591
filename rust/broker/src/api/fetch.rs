//! Fetch, v0–v18. Supports long polls, the limits of KIP-74, fetch sessions (KIP-227, if the option `fetch_sessions` is
//! positive), log divergence (KIP-320) and preferred read replicas (KIP-392). Records are never converted: every
//! version returns them as they are stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::FetchRequest;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchResponse, FetchableTopicResponse, PartitionData};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::fetch_frame::{Fetched, FetchedTopic, Leader, write};
use super::{Call, Handler, Outcome};
use crate::log::Slices;
use crate::state::quotas::ByteRate;
use crate::state::topic::{Partition, PartitionState};

/// Default of Kafka's broker option `fetch.max.bytes`.
const MAX_BYTES: usize = 55 * 1024 * 1024;
/// Maximum duration of a long poll. The broker cannot detect the disconnection of a client that has sent further
/// requests, so the wait needs a limit.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(300);
const READ_COMMITTED: i8 = 1;
/// First version that returns the first batch in full, even if it exceeds the limits (KIP-74). In earlier versions all
/// limits are hard, and the last batch may be truncated.
const FIRST_WITH_WHOLE_BATCH: i16 = 3;
const NO_OFFSET: i64 = -1;
/// First version that contains the consumer's rack and supports redirection to a preferred read replica (KIP-392).
const FIRST_WITH_RACK: i16 = 11;

/// Properties of a request that affect the readable offsets.
#[derive(Debug, Clone, Copy)]
struct Reader {
    has_rack: bool,
    committed_only: bool,
}

impl Reader {
    /// Returns the exclusive end offset of the records that the consumer may read.
    fn end_offset(self, state: &PartitionState) -> i64 {
        if self.committed_only { state.last_stable_offset() } else { state.log.next_offset() }
    }
}

/// Outcome of the checks of a requested partition: the partition to read from, a divergence or a redirection.
enum Readable {
    Records(Arc<Partition>),
    /// The log has diverged; the consumer must truncate to this epoch and end offset.
    Diverged(i32, i64),
    /// The consumer should read from this replica.
    Redirect(i32),
}

/// A requested partition with the result of its lookup.
struct RequestedPartition<'a> {
    requested: &'a FetchPartition,
    lookup: Result<Arc<Partition>, ErrorCode>,
    missing: ErrorCode,
}

impl RequestedPartition<'_> {
    /// Checks that this node may serve the partition at the requested offset.
    fn check(&self, call: &Call<'_>, has_rack: bool) -> Result<Readable, ErrorCode> {
        let partition = self.lookup.as_ref().map_err(|code| *code)?;
        if partition.is_deleted() {
            return Err(self.missing);
        }
        let (state, offset) = (partition.state(), self.requested.fetch_offset);
        if call.version < FIRST_WITH_RACK {
            state.check_leader(call.node, self.requested.current_leader_epoch)?;
        } else {
            state.check_readable(call.node, self.requested.current_leader_epoch)?;
        }
        if let Some(node) = state.preferred.filter(|node| has_rack && *node != call.node && call.state.is_up(*node)) {
            return Ok(Readable::Redirect(node));
        }
        let last_epoch = self.requested.last_fetched_epoch;
        if last_epoch >= 0 {
            let (epoch, end) = state.log.end_of_epoch(last_epoch);
            if epoch < last_epoch || end < offset {
                return Ok(Readable::Diverged(epoch, end));
            }
        }
        if offset < state.log.start_offset() || offset > state.log.next_offset() {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        Ok(Readable::Records(partition.clone()))
    }

    /// Returns the number of bytes available to fetch. Returns `None` if the partition has an error, a redirection or a
    /// divergence, which are returned without waiting.
    fn available(&self, call: &Call<'_>, reader: Reader) -> Option<usize> {
        let Ok(Readable::Records(partition)) = self.check(call, reader.has_rack) else { return None };
        let state = partition.state();
        let bytes = state.log.bytes_between(self.requested.fetch_offset, reader.end_offset(&state));
        Some(bytes.min(size(self.requested.partition_max_bytes)))
    }

    fn read(&self, call: &Call<'_>, reader: Reader, max_bytes: usize, at_least_one: bool) -> Fetched {
        let mut fetched = Fetched {
            partition: self.requested.partition,
            code: ErrorCode::NONE,
            high_watermark: NO_OFFSET,
            last_stable: NO_OFFSET,
            aborted: None,
            log_start: NO_OFFSET,
            leader: None,
            preferred: None,
            diverging: None,
            records: Slices::default(),
        };
        match self.check(call, reader.has_rack) {
            Ok(Readable::Redirect(node)) => fetched.preferred = Some(node),
            Ok(Readable::Diverged(epoch, end)) => fetched.diverging = Some((epoch, end)),
            Ok(Readable::Records(partition)) => {
                let state = partition.state();
                let max_bytes = max_bytes.min(size(self.requested.partition_max_bytes));
                fetched.high_watermark = state.log.next_offset();
                fetched.last_stable = state.last_stable_offset();
                fetched.log_start = state.log.start_offset();
                let end_offset = reader.end_offset(&state);
                fetched.records = if call.version < FIRST_WITH_WHOLE_BATCH {
                    state.log.read_cut(self.requested.fetch_offset, max_bytes)
                } else {
                    state.log.read(self.requested.fetch_offset, end_offset, max_bytes, at_least_one)
                };
                if reader.committed_only {
                    let aborted = &state.producers.aborted;
                    fetched.aborted = Some(aborted.between(self.requested.fetch_offset, fetched.records.until));
                }
            }
            Err(code) => {
                fetched.code = code;
                if let (ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH, Ok(partition)) =
                    (code, &self.lookup)
                {
                    let state = partition.state();
                    fetched.leader = Some(Leader { id: state.leader, epoch: state.leader_epoch });
                }
            }
        }
        fetched
    }
}

/// Converts a byte limit of the request; negative limits become 0.
fn size(limit: i32) -> usize {
    usize::try_from(limit).unwrap_or_default()
}

/// Looks up the requested partitions. The result has one list per requested topic.
fn find<'a>(call: &Call<'_>, request: &'a FetchRequest) -> Vec<Vec<RequestedPartition<'a>>> {
    let by_id = call.version >= 13;
    let mut all = Vec::with_capacity(request.topics.len());
    for requested in &request.topics {
        let topic =
            if by_id { call.state.topic_by_id(&requested.topic_id) } else { call.state.topic(&requested.topic) };
        let missing = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let look_up = |requested: &'a FetchPartition| {
            let lookup = match &topic {
                Some(topic) => {
                    topic.partition(requested.partition).cloned().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
                }
                None => Err(missing),
            };
            RequestedPartition { requested, lookup, missing }
        };
        all.push(requested.partitions.iter().map(look_up).collect());
    }
    all
}

/// Returns true if the response can be sent: enough bytes are available, or a partition has an error, a redirection or
/// a divergence.
fn is_ready(
    call: &Call<'_>,
    reader: Reader,
    requested_partitions: &[Vec<RequestedPartition<'_>>],
    min_bytes: usize,
) -> bool {
    let mut bytes = 0_usize;
    for partition in requested_partitions.iter().flatten() {
        match partition.available(call, reader) {
            Some(available) => bytes = bytes.saturating_add(available),
            None => return true,
        }
    }
    bytes >= min_bytes
}

/// Waits until the response can be sent, `max_wait` has elapsed, or the client has disconnected.
async fn wait(
    call: &Call<'_>,
    reader: Reader,
    requested_partitions: &[Vec<RequestedPartition<'_>>],
    min_bytes: usize,
    max_wait: Duration,
) {
    let deadline = async {
        tokio::select! {
            () = sleep(max_wait.min(MAX_WAIT)) => (),
            () = call.stream.disconnected() => (),
        }
    };
    tokio::pin!(deadline);
    let waiter = Arc::new(Notify::new());
    let partitions = || requested_partitions.iter().flatten().filter_map(|requested| requested.lookup.as_ref().ok());
    let _registered = Registered { waiter: &waiter, partitions: partitions().collect() };
    loop {
        // The waiter is registered before the check, so that it is woken by any change after the check.
        partitions().for_each(|partition| partition.register(&waiter));
        if is_ready(call, reader, requested_partitions, min_bytes) {
            return;
        }
        tokio::select! {
            () = waiter.notified() => (),
            () = &mut deadline => return,
        }
    }
}

/// Deregisters the waiter on drop, including when the connection is closed during the wait.
pub(super) struct Registered<'a> {
    pub(super) waiter: &'a Arc<Notify>,
    pub(super) partitions: Vec<&'a Arc<Partition>>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        for partition in &self.partitions {
            partition.deregister(self.waiter);
        }
    }
}

impl Handler for FetchRequest {
    async fn handle(mut self, call: &Call<'_>) -> Outcome {
        let session = match call.state.sessions.resolve(call.node, call.version, &mut self) {
            Ok(session) => session,
            Err(code) => return call.reply::<Self>(&self.error_response(call.version, code)),
        };
        let committed_only = self.isolation_level == READ_COMMITTED;
        let reader = Reader { has_rack: !self.rack_id.is_empty(), committed_only };
        let requested_partitions = find(call, &self);
        let principal = call.principal();
        let principal = principal.as_ref().map(|(_, name)| &**name);
        let quota = call.state.max_transfer(call.node, ByteRate::Consumed, principal, call.client_id);
        let max_bytes = size(self.max_bytes).min(MAX_BYTES).min(quota.unwrap_or(usize::MAX));
        let min_bytes = size(self.min_bytes).min(max_bytes);
        let max_wait = Duration::from_millis(u64::try_from(self.max_wait_ms).unwrap_or_default());
        if !max_wait.is_zero() && !is_ready(call, reader, &requested_partitions, min_bytes) {
            wait(call, reader, &requested_partitions, min_bytes, max_wait).await;
        }
        let mut remaining = max_bytes;
        let mut at_least_one = true;
        let mut topics = Vec::with_capacity(requested_partitions.len());
        for (requested, topic_partitions) in self.topics.iter().zip(&requested_partitions) {
            let mut partitions = Vec::with_capacity(topic_partitions.len());
            for partition in topic_partitions {
                let fetched = partition.read(call, reader, remaining, at_least_one);
                remaining = remaining.saturating_sub(fetched.records.bytes);
                at_least_one &= fetched.records.bytes == 0;
                if !session.changes_only || fetched.must_include() {
                    partitions.push(fetched);
                }
            }
            if session.changes_only && partitions.is_empty() {
                continue;
            }
            topics.push(FetchedTopic { name: &requested.topic, id: requested.topic_id, partitions });
        }
        let records = topics.iter().flat_map(|topic| &topic.partitions).map(|fetched| fetched.records.bytes);
        if call.record_transfer(ByteRate::Consumed, records.sum()) {
            // The position of the client does not move, so the records are returned after the throttle time.
            return write(call, session.id, Vec::new(), &[]);
        }
        let leaders: BTreeSet<i32> = topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .filter_map(|fetched| fetched.leader.as_ref().map(|leader| leader.id))
            .collect();
        let endpoints: Vec<_> = call.state.live_nodes().filter(|(id, _)| leaders.contains(id)).collect();
        write(call, session.id, topics, &endpoints)
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> FetchResponse {
        if matches!(code, ErrorCode::FETCH_SESSION_ID_NOT_FOUND | ErrorCode::INVALID_FETCH_SESSION_EPOCH) {
            return FetchResponse { error_code: code.code(), ..FetchResponse::default() };
        }
        let partition = |requested: &FetchPartition| PartitionData {
            partition_index: requested.partition,
            error_code: code.code(),
            high_watermark: NO_OFFSET,
            records: Some(bytes::Bytes::new()),
            ..PartitionData::default()
        };
        let responses = self.topics.iter().map(|requested| FetchableTopicResponse {
            topic: requested.topic.clone(),
            topic_id: requested.topic_id,
            partitions: requested.partitions.iter().map(partition).collect(),
            ..FetchableTopicResponse::default()
        });
        FetchResponse { responses: responses.collect(), ..FetchResponse::default() }
    }
}
