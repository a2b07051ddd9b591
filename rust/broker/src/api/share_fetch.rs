//! ShareFetch, v1–v2 (KIP-932): acquires records, and applies acknowledgements first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::share_fetch::{
    AcquiredRecords, PartitionData, ShareFetchResponse, ShareFetchableTopicResponse,
};
use samsarrow_wire::messages::{ShareFetchRequest, Uuid};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::fetch::{MAX_WAIT, Registered};
use super::share_requests::{Acknowledgements, Leaders, ShareCaller, acknowledgements, code_and_message};
use super::{Call, Handler, Outcome};
use crate::history;
use crate::log::Slices;
use crate::state::groups::share::{Acquired, AcquiredRange, FINAL_EPOCH, INITIAL_EPOCH, Limits, TopicPartition};
use crate::state::topic::Partition;
use crate::state::topic_creation::Rejection;

/// Acquire mode in which the record limit is strict (KIP-1206).
const RECORD_LIMIT: i8 = 1;

impl Handler for ShareFetchRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let response = respond(call, &self).await.unwrap_or_else(|(code, message)| ShareFetchResponse {
            error_message: Some(message),
            ..self.error_response(call.version, code)
        });
        call.reply::<Self>(&response)
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ShareFetchResponse {
        ShareFetchResponse { error_code: code.code(), ..ShareFetchResponse::default() }
    }
}

/// Returns the partitions that the request lists, and their acknowledgements.
fn listed(request: &ShareFetchRequest) -> (Vec<TopicPartition>, Acknowledgements) {
    let mut partitions = Vec::new();
    let mut acks = Acknowledgements::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            let key = (topic.topic_id.0, partition.partition_index);
            if !partitions.contains(&key) {
                partitions.push(key);
            }
            if !partition.acknowledgement_batches.is_empty() {
                acks.entry(key).or_default().extend(acknowledgements(&partition.acknowledgement_batches));
            }
        }
    }
    (partitions, acks)
}

fn invalid(text: &str) -> Rejection {
    (ErrorCode::INVALID_REQUEST, text.to_owned())
}

/// Opens, updates or closes the session. Returns the partitions that the response must contain.
fn update_session(
    call: &Call<'_>,
    caller: &ShareCaller,
    request: &ShareFetchRequest,
    partitions: &[TopicPartition],
    has_acks: bool,
) -> Result<Vec<TopicPartition>, Rejection> {
    let failed = |code: ErrorCode| (code, code.description().to_owned());
    match request.share_session_epoch {
        INITIAL_EPOCH if has_acks => Err(invalid("Acknowledge data present in the first fetch request of a session.")),
        INITIAL_EPOCH => {
            let key = caller.key.clone();
            history::share_member(call.client_id, &caller.member);
            call.state.open_share_session(key, call.connection, partitions.to_vec()).map_err(failed)?;
            Ok(partitions.to_vec())
        }
        FINAL_EPOCH if call.state.has_share_session(&caller.key) => Ok(Vec::new()),
        FINAL_EPOCH => Err(failed(ErrorCode::SHARE_SESSION_NOT_FOUND)),
        epoch => {
            let forgotten: Vec<TopicPartition> = request
                .forgotten_topics_data
                .iter()
                .flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic_id.0, *partition)))
                .collect();
            call.state.update_share_session(&caller.key, epoch, partitions, &forgotten).map_err(failed)
        }
    }
}

async fn respond(call: &Call<'_>, request: &ShareFetchRequest) -> Result<ShareFetchResponse, Rejection> {
    let caller = ShareCaller::new(call, request.group_id.as_deref(), request.member_id.as_deref())?;
    let limits = [request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records];
    if request.is_renew_ack && limits != [0; 4] {
        return Err(invalid("A request that renews locks must have no wait time and no limits."));
    }
    let epoch = request.share_session_epoch;
    let (partitions, mut acks) = listed(request);
    let added = update_session(call, &caller, request, &partitions, !acks.is_empty())?;
    let is_incremental = epoch != INITIAL_EPOCH && epoch != FINAL_EPOCH;
    let of_session = call.state.share_session_partitions(&caller.key, epoch);
    let is_unknown = |(topic, _): &TopicPartition| call.state.topic_by_id(&Uuid(*topic)).is_none();
    if call.profile().fails_whole_share_fetches() && of_session.iter().any(is_unknown) {
        // The epoch of the session has advanced.
        let code = ErrorCode::UNKNOWN_SERVER_ERROR;
        return Err((code, code.description().to_owned()));
    }
    let (mut fetched, mut rejected) = (BTreeMap::new(), BTreeMap::new());
    if is_incremental && !acks.is_empty() && !request.is_renew_ack {
        // Kafka checks acknowledgements, acquires the records that are available while it stores them, and then applies
        // them. So they do not apply to a record whose lock has ended and that this request acquires again.
        rejected = caller.rejections(call, &acks, request.is_renew_ack);
        acks.retain(|key, _| !rejected.contains_key(key));
        fetched = acquire_available(call, &caller, request, &of_session);
    }
    let mut outcomes = caller.acknowledge(call, &acks, request.is_renew_ack);
    outcomes.extend(rejected.into_iter().map(|(key, rejection)| (key, Err(rejection))));
    if epoch == FINAL_EPOCH {
        call.state.close_share_session(&caller.key);
    } else if !request.is_renew_ack {
        if fetched.is_empty() {
            fetched = fetch(call, &caller, request, &of_session).await;
        }
        // A later request of the session makes this one invalid, although its records stay acquired.
        let is_current = epoch == INITIAL_EPOCH || call.state.is_current_share_session(&caller.key, epoch);
        if !is_current {
            let code = ErrorCode::INVALID_SHARE_SESSION_EPOCH;
            return Err((code, code.description().to_owned()));
        }
    }
    let mut leaders = Leaders::default();
    let mut topics: BTreeMap<[u8; 16], Vec<PartitionData>> = BTreeMap::new();
    let added = added.iter().filter(|key| call.state.has_share_state(&caller.group, **key));
    let included: BTreeSet<TopicPartition> = added.chain(outcomes.keys()).chain(fetched.keys()).copied().collect();
    for key in included {
        let (acknowledge_error_code, acknowledge_error_message) =
            code_and_message(outcomes.remove(&key).unwrap_or(Ok(())));
        let (code, acquired) = match fetched.remove(&key) {
            Some(Ok(acquired)) => (ErrorCode::NONE, acquired),
            Some(Err(code)) => (code, Acquired::default()),
            None => (ErrorCode::NONE, Acquired::default()),
        };
        topics.entry(key.0).or_default().push(PartitionData {
            partition_index: key.1,
            error_code: code.code(),
            error_message: (!code.is_none()).then(|| code.description().to_owned()),
            acknowledge_error_code,
            acknowledge_error_message,
            current_leader: leaders.current(call, key, code.code().max(acknowledge_error_code)),
            records: Some(joined(acquired.records)),
            acquired_records: acquired.ranges.iter().map(|range| described(*range)).collect(),
            ..PartitionData::default()
        });
    }
    let topic = |(id, partitions)| ShareFetchableTopicResponse {
        topic_id: Uuid(id),
        partitions,
        ..ShareFetchableTopicResponse::default()
    };
    Ok(ShareFetchResponse {
        acquisition_lock_timeout_ms: caller.lock_timeout_ms(),
        responses: topics.into_iter().map(topic).collect(),
        node_endpoints: leaders.endpoints(call),
        ..ShareFetchResponse::default()
    })
}

fn described(range: AcquiredRange) -> AcquiredRecords {
    AcquiredRecords {
        first_offset: range.first,
        last_offset: range.last,
        delivery_count: range.deliveries,
        ..AcquiredRecords::default()
    }
}

fn joined(slices: Slices) -> Bytes {
    if let [only] = slices.chunks.as_slice() {
        return only.clone();
    }
    let mut bytes = BytesMut::with_capacity(slices.bytes);
    slices.chunks.iter().for_each(|chunk| bytes.extend_from_slice(chunk));
    bytes.freeze()
}

/// Acquired records or an error, for the partitions that have any.
type Fetched = BTreeMap<TopicPartition, Result<Acquired, ErrorCode>>;

/// Waits until enough records can be acquired, and acquires them.
async fn fetch(
    call: &Call<'_>,
    caller: &ShareCaller,
    request: &ShareFetchRequest,
    of_session: &[TopicPartition],
) -> Fetched {
    let found: Vec<(TopicPartition, Result<Arc<Partition>, ErrorCode>)> =
        of_session.iter().map(|key| (*key, caller.find(call, *key))).collect();
    if request.max_records > 0 && request.max_bytes > 0 && !wait(call, caller, request, &found).await {
        return Fetched::new();
    }
    let mut fetched = acquire_available(call, caller, request, of_session);
    for key in of_session {
        if let Err(code) = caller.find(call, *key) {
            fetched.insert(*key, Err(code));
        }
    }
    fetched
}

/// Acquires the records that are available now.
fn acquire_available(
    call: &Call<'_>,
    caller: &ShareCaller,
    request: &ShareFetchRequest,
    of_session: &[TopicPartition],
) -> Fetched {
    let mut limits = Limits {
        max_records: request.max_records.into(),
        max_bytes: usize::try_from(request.max_bytes).unwrap_or_default(),
        batch_size: request.batch_size.into(),
        strict: request.share_acquire_mode == RECORD_LIMIT,
        at_least_one: true,
    };
    let mut fetched = Fetched::new();
    for key in of_session {
        let Ok(partition) = caller.find(call, *key) else { continue };
        if limits.max_records <= 0 || limits.max_bytes == 0 {
            break;
        }
        let member = (caller.group.as_str(), &caller.member);
        let acquired = call.state.acquire_records(member, *key, &partition, limits, &caller.settings);
        if acquired.ranges.is_empty() {
            continue;
        }
        limits.at_least_one = false;
        limits.max_records -= acquired.count();
        limits.max_bytes = limits.max_bytes.saturating_sub(acquired.records.bytes);
        fetched.insert(*key, Ok(acquired));
    }
    fetched
}

/// Waits until enough bytes can be acquired, a partition has an error, or the time has elapsed. Returns false if the
/// client has disconnected: it must not acquire records any more.
async fn wait(
    call: &Call<'_>,
    caller: &ShareCaller,
    request: &ShareFetchRequest,
    found: &[(TopicPartition, Result<Arc<Partition>, ErrorCode>)],
) -> bool {
    let max_bytes = usize::try_from(request.max_bytes).unwrap_or_default();
    let min_bytes = usize::try_from(request.min_bytes).unwrap_or_default().min(max_bytes);
    let max_wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or_default()).min(MAX_WAIT);
    let is_ready = || {
        let mut bytes = 0_usize;
        for (key, partition) in found {
            let Ok(partition) = partition else { return true };
            if caller.find(call, *key).is_err() {
                return true;
            }
            let available = call.state.acquirable_bytes(&caller.group, *key, partition, &caller.settings);
            bytes = bytes.saturating_add(available.unwrap_or(0));
        }
        bytes > 0 && bytes >= min_bytes
    };
    if is_ready() || max_wait.is_zero() {
        return true;
    }
    let waiter = Arc::new(Notify::new());
    let partitions: Vec<&Arc<Partition>> = found.iter().filter_map(|(_, partition)| partition.as_ref().ok()).collect();
    let _registered = Registered { waiter: &waiter, partitions: partitions.clone() };
    let deadline = sleep(max_wait);
    tokio::pin!(deadline);
    loop {
        // The waiter is registered before the check, so that it is woken by any change after the check.
        partitions.iter().for_each(|partition| partition.register(&waiter));
        if is_ready() {
            return true;
        }
        tokio::select! {
            () = waiter.notified() => (),
            () = &mut deadline => return true,
            () = call.stream.disconnected() => return false,
        }
    }
}
