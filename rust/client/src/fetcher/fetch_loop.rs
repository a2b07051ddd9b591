//! Fetch loop of one broker: sends a request, splits the response by partition while it arrives, and sends the next
//! request before it decodes the rest of the response.

use std::collections::VecDeque;
use std::time::Duration;

use samsarrow_arrow::decode::Decoder;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::fetch::NodeEndpoint;
use samsarrow_wire::messages::{ApiKey, FetchEvent, FetchRequest};
use tokio::sync::watch;
use tokio::time::Instant;

use super::chunk_sink::ChunkSink;
use super::decode::{decode, new_decoder};
use super::decode_pool::DecodeJob;
use super::partition::{PartitionReader, ResponseSummary};
use super::partition_records::PartitionRecords;
use super::request::{Idle, Round, build, newest_version, plan, response_timeout};
use super::response_reader::{Buffers, FetchResponseReader, ResponseEvent};
use super::session::Session;
use super::shared_state::Shared;
use super::source::Source;
use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};
use crate::net::FrameBody;
use crate::types::join_limited;

/// Size of pending records at which they are decoded although the response is not read completely. Up to this size, the
/// records of small partitions are collected and decoded together.
const MIN_DECODE_BYTES: usize = 384 << 10;
/// Maximum size of pending records that are decoded before the next request is sent. Decoding so few bytes takes
/// microseconds, but sending takes a system call, which would delay the records.
const INLINE_DECODE_BYTES: usize = 16 << 10;
/// Minimum response time at which an empty response counts as delayed by the broker.
const MIN_BROKER_DELAY: Duration = Duration::from_millis(10);
/// Delay between requests to a broker that returns empty responses immediately.
const EMPTY_PAUSE: Duration = Duration::from_millis(1);

impl Source {
    /// Fetches from one broker until the consumer is closed. Waits while no partition is to be fetched from this
    /// broker.
    pub(super) async fn run(&self, node: i32) {
        let mut capacity_changes = self.shared.capacity_changes();
        let mut metadata_changes = self.cluster.watch();
        let mut pending = PendingDecodes::new(self);
        let mut session = Session::default();
        let mut backoff = self.cluster.backoff();
        let mut rotation = 0;
        loop {
            capacity_changes.borrow_and_update();
            let metadata = metadata_changes.borrow_and_update().clone();
            let changing = self.shared.lock().changing;
            let planned =
                if changing { Err(Idle::Wait) } else { plan(&self.shared, &metadata, node, &self.options, rotation) };
            self.shared.report_recreated(&self.cluster, self.options.auto_offset_reset);
            let round = match planned {
                Ok(round) => round,
                Err(_) if !pending.records.is_empty() => {
                    pending.decode();
                    continue;
                }
                Err(idle) => {
                    let until = async {
                        match idle {
                            Idle::Until(at) => tokio::time::sleep_until(at).await,
                            Idle::Wait => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        _ = capacity_changes.changed() => {}
                        _ = metadata_changes.changed() => {}
                        () = until => {}
                    }
                    continue;
                }
            };
            rotation = rotation.wrapping_add(1);
            let reserved = Reservation { shared: &self.shared, bytes: round.max_bytes as usize };
            let (started_at, polls) = (Instant::now(), self.shared.lock().polls);
            let outcome = match self.validate_positions(node, &round, &mut pending).await {
                Ok(false) => self.fetch(node, &round, &metadata, &mut session, &mut pending).await,
                Ok(true) => continue,
                Err(error) => Err(error),
            };
            let mut needs_pause = false;
            match outcome {
                Ok(empty) => {
                    backoff.reset();
                    let now = Instant::now();
                    self.shared.lock().last_response.insert(node, now);
                    needs_pause = empty && !self.is_delayed(now - started_at);
                }
                // The broker has evicted the session, so the next request is a full one. It is sent without a delay.
                Err(error) if session.is_open() && is_session_error(&error) => {
                    let client_id = self.cluster.client_id();
                    tracing::debug!(
                        client_id,
                        "the fetch session with broker {node} has ended and is opened again: {error}"
                    );
                    session.reset();
                }
                Err(error) => {
                    session.reset();
                    pending.decode();
                    self.record_request_failure(&round, &error);
                    drop(reserved);
                    let (client_id, delay) = (self.cluster.client_id(), backoff.next_delay());
                    tracing::debug!(client_id, retry_after = ?delay, "fetching from broker {node} failed: {error}");
                    tokio::time::sleep(delay).await;
                    continue;
                }
            }
            // The memory for records that this task has not decoded yet stays reserved.
            pending.reservation = Some(reserved.replace(pending.bytes));
            if needs_pause {
                self.pause(polls, &mut capacity_changes).await;
            }
        }
    }

    /// Returns true if the broker itself delayed an empty response that took `time`, so the client need not wait.
    fn is_delayed(&self, time: Duration) -> bool {
        let options = &self.options;
        options.fetch_min_bytes > 0 && options.fetch_max_wait >= MIN_BROKER_DELAY && time >= MIN_BROKER_DELAY
    }

    /// Waits for a poll after an empty response that the broker returned immediately (`fetch.max.wait.ms=0`,
    /// `fetch.min.bytes=0`). Without this wait, the rate of requests would be unlimited. `polls` is the number of polls
    /// before the request.
    async fn pause(&self, polls: u64, capacity_changes: &mut watch::Receiver<()>) {
        tokio::time::sleep(EMPTY_PAUSE).await;
        loop {
            capacity_changes.borrow_and_update();
            if self.shared.lock().is_polled_since(polls) || capacity_changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Validates the positions of the round against the leader's log, if necessary. Returns true if positions were
    /// validated, which may have changed cursors.
    async fn validate_positions(&self, node: i32, round: &Round, pending: &mut PendingDecodes<'_>) -> Result<bool> {
        if round.partitions.iter().all(|one| one.last_epoch < 0) {
            return Ok(false);
        }
        let needed = {
            let check = self.needs_validation(node);
            tokio::pin!(check);
            tokio::select! {
                biased;
                needed = &mut check => needed?,
                // The request is delayed while there is no connection, so pending records are decoded first.
                () = std::future::ready(()) => {
                    pending.decode();
                    check.await?
                }
            }
        };
        if needed {
            // Pending records are decoded first, so that errors of the validation are queued after them.
            pending.decode();
            self.validate(node, round).await?;
        }
        Ok(needed)
    }

    /// Sends one request and reads its response. Decodes the remaining records of the previous response while the
    /// broker processes the request. Returns true if the response contains neither records nor changes.
    async fn fetch(
        &self,
        node: i32,
        round: &Round,
        metadata: &Metadata,
        session: &mut Session,
        pending: &mut PendingDecodes<'_>,
    ) -> Result<bool> {
        let time = response_timeout(&self.options, self.cluster.options().request_timeout);
        let (version, response) = {
            let cluster = self.cluster.with_max_version(ApiKey::Fetch, newest_version(round));
            let send = cluster
                .dispatch_body::<FetchRequest, _>(node, time, |version| build(round, version, session, &self.options));
            tokio::pin!(send);
            tokio::select! {
                biased;
                sent = &mut send => sent?,
                // The request is delayed while there is no connection, so pending records are decoded first.
                () = std::future::ready(()) => {
                    pending.decode();
                    send.await?
                }
            }
        };
        pending.decode();
        let (session_id, empty) = self.read(node, response.await?, version, round, metadata, pending).await?;
        let was_open = session.is_open();
        session.record_response(version, session_id, &round.partitions);
        if !was_open && session.is_open() {
            tracing::debug!(
                client_id = self.cluster.client_id(),
                session_id,
                partitions = round.partitions.len(),
                "fetch session with broker {node} opened"
            );
        }
        if pending.bytes <= INLINE_DECODE_BYTES {
            pending.decode();
        }
        Ok(empty)
    }

    /// Reads a response from the socket. Returns the session id, and true if the response contains neither records nor
    /// changes.
    async fn read(
        &self,
        node: i32,
        body: FrameBody,
        version: i16,
        round: &Round,
        metadata: &Metadata,
        pending: &mut PendingDecodes<'_>,
    ) -> Result<(i32, bool)> {
        let indexes = round.index();
        let mut buffers = std::mem::take(&mut pending.buffers);
        let mut reader = FetchResponseReader::new(body, version, &mut buffers);
        let mut summary = ResponseSummary::default();
        let (mut session, mut failure) = (0, None);
        let mut topic = None;
        let mut partition_reader: Option<PartitionReader<'_>> = None;
        loop {
            match reader.next().await? {
                ResponseEvent::Records(records) => {
                    let part =
                        partition_reader.as_mut().and_then(|partition_reader| partition_reader.records(self, records));
                    if let Some(part) = part {
                        pending.add(part);
                    }
                    // The last records of a response are decoded after the next request has been sent.
                    if pending.bytes >= MIN_DECODE_BYTES && !reader.is_fully_read() {
                        pending.decode();
                    }
                }
                ResponseEvent::Cut(bytes) => {
                    partition_reader.iter_mut().for_each(|partition_reader| partition_reader.cut += bytes)
                }
                ResponseEvent::Message(FetchEvent::Head { error_code, session_id, .. }) => {
                    session = session_id;
                    failure = ErrorCode::from_i16(error_code).ok().err();
                }
                ResponseEvent::Message(FetchEvent::Topic { name, id }) => {
                    // A topic id that is not in the metadata was not requested. Its records are ignored and do not move
                    // positions.
                    let name = if name.is_empty() { metadata.topic_name(&id).unwrap_or_default() } else { &name };
                    topic = indexes.get(name);
                }
                ResponseEvent::Message(FetchEvent::Partition(data)) => {
                    // Partitions that were not requested are ignored.
                    let index = topic.and_then(|partitions| partitions.get(&data.partition_index));
                    let request = index.and_then(|index| round.partitions.get(*index));
                    partition_reader = request.map(|request| PartitionReader::new(request, node, *data));
                }
                ResponseEvent::Message(FetchEvent::PartitionEnd { diverging_epoch, current_leader }) => {
                    if let Some(partition_reader) = partition_reader.take() {
                        partition_reader.end(self, version, metadata, &diverging_epoch, &current_leader, &mut summary);
                    }
                }
                ResponseEvent::Message(FetchEvent::End { node_endpoints }) => {
                    if !summary.leaders.is_empty() {
                        let at = |node: &NodeEndpoint| (node.node_id, format!("{}:{}", node.host, node.port));
                        let addresses: Vec<_> = node_endpoints.iter().map(at).collect();
                        self.cluster.update_leaders(&summary.leaders, &addresses);
                    }
                    break;
                }
            }
        }
        drop(reader);
        pending.buffers = buffers;
        self.shared.lock().meters.response_received(Instant::now(), summary.bytes, summary.records);
        if summary.refresh {
            self.cluster.request_refresh();
        }
        let positions_changed = summary.positions_changed || !summary.failed.is_empty();
        let empty = summary.bytes == 0 && !positions_changed;
        if !summary.failed.is_empty() {
            self.shared.lock().partitions_failed(summary.failed, self.cluster.options().default_api_timeout);
        }
        if positions_changed {
            self.shared.notify_tasks();
        }
        // If records are pending, their decoding notifies the poll. If the poll were notified earlier, it would only
        // compete with the decoder for the core.
        if pending.records.is_empty() {
            self.shared.notify_poll();
        }
        match failure {
            Some(code) => Err(Error::server(code, "Fetch")),
            None => Ok((session, empty)),
        }
    }

    fn record_request_failure(&self, round: &Round, error: &Error) {
        let patience = self.cluster.options().default_api_timeout;
        let unreachable = {
            let mut state = self.shared.lock();
            state.request_failed(&round.partitions, error, patience);
            state.unreachable(&round.partitions, patience)
        };
        if !unreachable.is_empty() {
            tracing::warn!(
                client_id = self.cluster.client_id(),
                "partitions {} are not read until their broker responds: {error}",
                join_limited(&unreachable)
            );
        }
        if error.refresh_metadata() {
            self.cluster.request_refresh();
        }
        self.shared.notify_tasks();
        self.shared.notify_poll();
    }
}

/// Returns true if the broker no longer knows the session or one of its topics (KIP-227, KIP-516).
fn is_session_error(error: &Error) -> bool {
    let codes = [
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    ];
    codes.iter().any(|code| error.code() == Some(code.code()))
}

/// Records of one broker's responses that are not decoded yet.
struct PendingDecodes<'a> {
    source: &'a Source,
    decoder: Decoder,
    sink: ChunkSink,
    buffers: Buffers,
    /// Records not decoded yet.
    records: VecDeque<PartitionRecords>,
    bytes: usize,
    reservation: Option<Reservation<'a>>,
}

impl<'a> PendingDecodes<'a> {
    fn new(source: &'a Source) -> Self {
        Self {
            source,
            decoder: new_decoder(&source.options, &source.shared),
            sink: ChunkSink::at_end(&source.shared),
            buffers: Buffers::default(),
            records: VecDeque::new(),
            bytes: 0,
            reservation: None,
        }
    }

    fn add(&mut self, part: PartitionRecords) {
        self.bytes += part.records.len();
        self.records.push_back(part);
    }

    /// Decodes the pending records. Uncompressed records are decoded immediately in this task. Compressed records may
    /// expand a lot, so they are decoded in this task or on another core as soon as there is capacity.
    fn decode(&mut self) {
        let Source { shared, decode_pool, .. } = self.source;
        if !self.records.is_empty() {
            let mut records = std::mem::take(&mut self.records);
            let bytes = std::mem::take(&mut self.bytes);
            let partitions: Vec<_> = records.iter().map(|part| (part.tp.clone(), part.version)).collect();
            // Records of responses with aborted transactions must be decoded in their order.
            if records.iter().any(|part| part.compressed || part.aborted.is_some()) {
                shared.lock().defer_decode(records);
                shared.mark_queued(&partitions);
                // Waking another core takes longer than decoding a few bytes.
                let small = bytes <= INLINE_DECODE_BYTES;
                if !small {
                    shared.notify_poll();
                    decode_pool.decode();
                }
                match DecodeJob::next(shared) {
                    Some(job) => job.run(&mut self.decoder),
                    None if small => shared.notify_poll(),
                    None => {}
                }
                if small {
                    decode_pool.decode();
                }
            } else {
                decode(&mut self.decoder, &mut records, &self.sink, || true);
                shared.mark_queued(&partitions);
            }
        }
        self.reservation = None;
    }
}

/// Memory reserved for a response or for pending records; dropping the guard releases it.
struct Reservation<'a> {
    shared: &'a Shared,
    bytes: usize,
}

impl<'a> Reservation<'a> {
    /// Replaces the reserved maximum size of a response by the number of bytes received.
    fn replace(self, received: usize) -> Reservation<'a> {
        self.shared.lock().reserved += received;
        Reservation { shared: self.shared, bytes: received }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.shared.lock();
        state.reserved = state.reserved.saturating_sub(self.bytes);
        let notify = state.take_ready_waiter();
        drop(state);
        if notify {
            self.shared.notify_capacity();
        }
    }
}
