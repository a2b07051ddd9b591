//! Fetch, v0–v18: long polls, the limits of KIP-74, fetch sessions if `fetch_sessions` allows any (KIP-227), log
//! divergence (KIP-320) and preferred read replicas (KIP-392). Records are returned as they are stored, in every
//! version.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::FetchRequest;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchResponse, FetchableTopicResponse, PartitionData};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::fetch_frame::{Fetched, FetchedTopic, Leader, write};
use super::{Call, Outcome, Serve};
use crate::log::Slices;
use crate::state::topic::{Partition, PartitionState};

/// Default of Kafka's broker option `fetch.max.bytes`.
const MOST_BYTES: usize = 55 * 1024 * 1024;
/// Upper bound of a long poll. A client that disconnects with unread requests in its socket is not detected, so the
/// wait must end.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
const READ_COMMITTED: i8 = 1;
/// First version that returns the first batch whole, however large it is (KIP-74). In earlier versions all limits are
/// hard, and records are cut at them to the byte.
const FIRST_WITH_WHOLE_BATCH: i16 = 3;
const NO_OFFSET: i64 = -1;
/// First version with the consumer's rack, and with redirection to a preferred replica (KIP-392).
const FIRST_WITH_RACK: i16 = 11;

/// Read options of a request.
#[derive(Debug, Clone, Copy)]
struct Reader {
    has_rack: bool,
    committed_only: bool,
}

impl Reader {
    /// Returns the end of the readable range.
    fn until(self, state: &PartitionState) -> i64 {
        if self.committed_only { state.last_stable_offset() } else { state.log.next_offset() }
    }
}

/// Result of checking one partition.
enum Found {
    Records(Arc<Partition>),
    /// The log has diverged: the epoch and end offset to truncate to.
    Parted(i32, i64),
    /// The consumer should read from this replica.
    Elsewhere(i32),
}

/// A requested partition, and its lookup result.
struct Wanted<'a> {
    asked: &'a FetchPartition,
    found: Result<Arc<Partition>, ErrorCode>,
    missing: ErrorCode,
}

impl Wanted<'_> {
    /// Checks that this node may serve the requested offset.
    fn check(&self, call: &Call<'_>, has_rack: bool) -> Result<Found, ErrorCode> {
        let partition = self.found.as_ref().map_err(|code| *code)?;
        if partition.is_deleted() {
            return Err(self.missing);
        }
        let (state, offset) = (partition.state(), self.asked.fetch_offset);
        if call.version < FIRST_WITH_RACK {
            state.check_leader(call.node, self.asked.current_leader_epoch)?;
        } else {
            state.check_readable(call.node, self.asked.current_leader_epoch)?;
        }
        if let Some(node) = state.preferred.filter(|node| has_rack && *node != call.node && call.state.is_up(*node)) {
            return Ok(Found::Elsewhere(node));
        }
        let last_epoch = self.asked.last_fetched_epoch;
        if last_epoch >= 0 {
            let (epoch, end) = state.log.end_of_epoch(last_epoch);
            if epoch < last_epoch || end < offset {
                return Ok(Found::Parted(epoch, end));
            }
        }
        if offset < state.log.start_offset() || offset > state.log.next_offset() {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        Ok(Found::Records(partition.clone()))
    }

    /// Returns the number of bytes available to fetch; `None` if the response needs no wait: an error, a redirection or
    /// a divergence.
    fn available(&self, call: &Call<'_>, reader: Reader) -> Option<usize> {
        let Ok(Found::Records(partition)) = self.check(call, reader.has_rack) else { return None };
        let state = partition.state();
        let bytes = state.log.bytes_between(self.asked.fetch_offset, reader.until(&state));
        Some(bytes.min(size(self.asked.partition_max_bytes)))
    }

    fn read(&self, call: &Call<'_>, reader: Reader, max_bytes: usize, at_least_one: bool) -> Fetched {
        let mut fetched = Fetched {
            partition: self.asked.partition,
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
            Ok(Found::Elsewhere(node)) => fetched.preferred = Some(node),
            Ok(Found::Parted(epoch, end)) => fetched.diverging = Some((epoch, end)),
            Ok(Found::Records(partition)) => {
                let state = partition.state();
                let max_bytes = max_bytes.min(size(self.asked.partition_max_bytes));
                fetched.high_watermark = state.log.next_offset();
                fetched.last_stable = state.last_stable_offset();
                fetched.log_start = state.log.start_offset();
                let until = reader.until(&state);
                fetched.records = if call.version < FIRST_WITH_WHOLE_BATCH {
                    state.log.read_cut(self.asked.fetch_offset, max_bytes)
                } else {
                    state.log.read(self.asked.fetch_offset, until, max_bytes, at_least_one)
                };
                if reader.committed_only {
                    let aborted = &state.producers.aborted;
                    fetched.aborted = Some(aborted.between(self.asked.fetch_offset, fetched.records.until));
                }
            }
            Err(code) => {
                fetched.code = code;
                if let (ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH, Ok(partition)) =
                    (code, &self.found)
                {
                    let state = partition.state();
                    fetched.leader = Some(Leader { id: state.leader, epoch: state.leader_epoch });
                }
            }
        }
        fetched
    }
}

/// Converts a limit of the request; a negative one is zero.
fn size(limit: i32) -> usize {
    usize::try_from(limit).unwrap_or_default()
}

/// Looks up the requested partitions, by topic.
fn find<'a>(call: &Call<'_>, request: &'a FetchRequest) -> Vec<Vec<Wanted<'a>>> {
    let by_id = call.version >= 13;
    let mut all = Vec::with_capacity(request.topics.len());
    for asked in &request.topics {
        let topic = if by_id { call.state.topic_by_id(&asked.topic_id) } else { call.state.topic(&asked.topic) };
        let missing = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        let wanted = |asked: &'a FetchPartition| {
            let found = match &topic {
                Some(topic) => topic.partition(asked.partition).cloned().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                None => Err(missing),
            };
            Wanted { asked, found, missing }
        };
        all.push(asked.partitions.iter().map(wanted).collect());
    }
    all
}

/// Returns true if the response is due: enough bytes, an error, a redirection or a divergence.
fn is_ready(call: &Call<'_>, reader: Reader, wanted: &[Vec<Wanted<'_>>], min_bytes: usize) -> bool {
    let mut bytes = 0_usize;
    for wanted in wanted.iter().flatten() {
        match wanted.available(call, reader) {
            Some(available) => bytes = bytes.saturating_add(available),
            None => return true,
        }
    }
    bytes >= min_bytes
}

/// Waits until the response is due, `max_wait` has elapsed, or the client has disconnected.
async fn wait(call: &Call<'_>, reader: Reader, wanted: &[Vec<Wanted<'_>>], min_bytes: usize, max_wait: Duration) {
    let patience = async {
        tokio::select! {
            () = sleep(max_wait.min(LONGEST_WAIT)) => (),
            () = call.stream.hung_up() => (),
        }
    };
    tokio::pin!(patience);
    let waiter = Arc::new(Notify::new());
    let partitions = || wanted.iter().flatten().filter_map(|wanted| wanted.found.as_ref().ok());
    let _registered = Registered { waiter: &waiter, partitions: partitions().collect() };
    loop {
        // The waiter registers before the check, so that a change after the check wakes it.
        partitions().for_each(|partition| partition.wait(&waiter));
        if is_ready(call, reader, wanted, min_bytes) {
            return;
        }
        tokio::select! {
            () = waiter.notified() => (),
            () = &mut patience => return,
        }
    }
}

/// Deregisters the waiter on drop, also when the connection ends during a wait.
struct Registered<'a> {
    waiter: &'a Arc<Notify>,
    partitions: Vec<&'a Arc<Partition>>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        for partition in &self.partitions {
            partition.forget(self.waiter);
        }
    }
}

impl Serve for FetchRequest {
    async fn serve(mut self, call: &Call<'_>) -> Outcome {
        let session = match call.state.sessions.resolve(call.node, call.version, &mut self) {
            Ok(session) => session,
            Err(code) => return call.reply::<Self>(&self.refuse(call.version, code)),
        };
        let committed_only = self.isolation_level == READ_COMMITTED;
        let reader = Reader { has_rack: !self.rack_id.is_empty(), committed_only };
        let wanted = find(call, &self);
        let most = size(self.max_bytes).min(MOST_BYTES);
        let min_bytes = size(self.min_bytes).min(most);
        let max_wait = Duration::from_millis(u64::try_from(self.max_wait_ms).unwrap_or_default());
        if !max_wait.is_zero() && !is_ready(call, reader, &wanted, min_bytes) {
            wait(call, reader, &wanted, min_bytes, max_wait).await;
        }
        let mut left = most;
        let mut at_least_one = true;
        let mut topics = Vec::with_capacity(wanted.len());
        for (asked, wanted) in self.topics.iter().zip(&wanted) {
            let mut partitions = Vec::with_capacity(wanted.len());
            for wanted in wanted {
                let fetched = wanted.read(call, reader, left, at_least_one);
                left = left.saturating_sub(fetched.records.bytes);
                at_least_one &= fetched.records.bytes == 0;
                if !session.changes_only || fetched.says_something() {
                    partitions.push(fetched);
                }
            }
            if session.changes_only && partitions.is_empty() {
                continue;
            }
            topics.push(FetchedTopic { name: &asked.topic, id: asked.topic_id, partitions });
        }
        let leaders: BTreeSet<i32> = topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .filter_map(|fetched| fetched.leader.as_ref().map(|leader| leader.id))
            .collect();
        let endpoints: Vec<_> = call.state.live_nodes().filter(|(id, _)| leaders.contains(id)).collect();
        write(call, session.id, topics, &endpoints)
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> FetchResponse {
        if matches!(code, ErrorCode::FETCH_SESSION_ID_NOT_FOUND | ErrorCode::INVALID_FETCH_SESSION_EPOCH) {
            return FetchResponse { error_code: code.code(), ..FetchResponse::default() };
        }
        let partition = |asked: &FetchPartition| PartitionData {
            partition_index: asked.partition,
            error_code: code.code(),
            high_watermark: NO_OFFSET,
            records: Some(bytes::Bytes::new()),
            ..PartitionData::default()
        };
        let responses = self.topics.iter().map(|asked| FetchableTopicResponse {
            topic: asked.topic.clone(),
            topic_id: asked.topic_id,
            partitions: asked.partitions.iter().map(partition).collect(),
            ..FetchableTopicResponse::default()
        });
        FetchResponse { responses: responses.collect(), ..FetchResponse::default() }
    }
}
