//! A task per broker: ask, cut the answer by partition while it arrives, ask again, decode.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use samsarrow_arrow::decode::Decoder;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::fetch::NodeEndpoint;
use samsarrow_wire::messages::{ApiKey, FetchEvent, FetchRequest};
use tokio::sync::watch;

use super::chunk_sink::Outlet;
use super::decode::{decode, decoder};
use super::decode_pool::Job;
use super::partition::{Learned, Reading};
use super::partition_records::Part;
use super::request::{Idle, Round, build, limit, newest_version, plan};
use super::response_reader::{Answer, Buffers, Told};
use super::session::Session;
use super::shared_state::Shared;
use super::source::Source;
use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};
use crate::net::FrameBody;
use crate::types::join_limited;

/// This many bytes of small partitions are decoded together.
const TOGETHER: usize = 384 << 10;
/// An answer of no more bytes than this is decoded before the next one is asked for: that takes microseconds, while
/// asking takes a system call that its records would wait for.
const AT_ONCE: usize = 16 << 10;
/// An answer without records that comes sooner than this was not delayed by the broker.
const DELAYED: Duration = Duration::from_millis(10);
/// The time between two requests to a broker that returns nothing and does not delay its answers.
const EMPTY_PAUSE: Duration = Duration::from_millis(1);

impl Source {
    /// Rounds at one broker, for as long as the consumer lives. It idles while nothing of ours is read there.
    pub(super) async fn run(&self, node: i32) {
        let mut room = self.shared.room();
        let mut metadata_changes = self.cluster.watch();
        let mut desk = Desk::new(self);
        let mut session = Session::default();
        let mut backoff = self.cluster.backoff();
        let mut turn = 0;
        loop {
            room.borrow_and_update();
            let metadata = metadata_changes.borrow_and_update().clone();
            let changing = self.shared.lock().changing;
            let planned =
                if changing { Err(Idle::Wait) } else { plan(&self.shared, &metadata, node, &self.options, turn) };
            self.shared.report_recreated(&self.cluster, self.options.auto_offset_reset);
            let round = match planned {
                Ok(round) => round,
                Err(_) if !desk.parts.is_empty() => {
                    desk.decode();
                    continue;
                }
                Err(idle) => {
                    let until = async {
                        match idle {
                            Idle::Until(at) => tokio::time::sleep_until(at.into()).await,
                            Idle::Wait => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        _ = room.changed() => {}
                        _ = metadata_changes.changed() => {}
                        () = until => {}
                    }
                    continue;
                }
            };
            turn = turn.wrapping_add(1);
            let reserved = Reservation { shared: &self.shared, bytes: round.max_bytes as usize };
            let (begun, polls) = (Instant::now(), self.shared.lock().polls);
            let outcome = match self.compared(node, &round, &mut desk).await {
                Ok(false) => self.round(node, &round, &metadata, &mut session, &mut desk).await,
                Ok(true) => continue,
                Err(error) => Err(error),
            };
            let mut pauses = false;
            match outcome {
                Ok(empty) => {
                    backoff.reset();
                    let now = Instant::now();
                    self.shared.lock().answered.insert(node, now);
                    pauses = empty && !self.is_delayed(now - begun);
                }
                // The broker has evicted the session: the next request is a full one, without a delay.
                Err(error) if session.is_open() && is_about_the_session(&error) => {
                    tracing::debug!(%error, node, "the fetch session is created anew");
                    session.reset();
                }
                Err(error) => {
                    tracing::debug!(%error, node, "fetch failed");
                    session.reset();
                    desk.decode();
                    self.all_failed(&round, &error);
                    drop(reserved);
                    tokio::time::sleep(backoff.next_delay()).await;
                    continue;
                }
            }
            // Records that wait in this task count as queued.
            desk.held = Some(reserved.exchange(desk.bytes));
            if pauses {
                self.pause(polls, &mut room).await;
            }
        }
    }

    /// Returns whether the broker delays answers without records, as this one after `time`.
    fn is_delayed(&self, time: Duration) -> bool {
        let options = &self.options;
        options.fetch_min_bytes > 0 && options.fetch_max_wait >= DELAYED && time >= DELAYED
    }

    /// Waits until a poll wants records, after an answer without any that the broker did not delay
    /// (`fetch.max.wait.ms=0`, `fetch.min.bytes=0`): no other wait limits the rate of requests. `polls` is the number of
    /// polls before the request.
    async fn pause(&self, polls: u64, room: &mut watch::Receiver<()>) {
        tokio::time::sleep(EMPTY_PAUSE).await;
        loop {
            room.borrow_and_update();
            if self.shared.lock().is_polled_since(polls) || room.changed().await.is_err() {
                return;
            }
        }
    }

    /// Compares positions of the round with the leader's log, if necessary; returns true if it did: cursors may have
    /// changed.
    async fn compared(&self, node: i32, round: &Round, desk: &mut Desk<'_>) -> Result<bool> {
        if round.asked.iter().all(|one| one.last_epoch < 0) {
            return Ok(false);
        }
        let must = {
            let looking = self.must_compare(node);
            tokio::pin!(looking);
            tokio::select! {
                biased;
                must = &mut looking => must?,
                // No connection yet: making one may take its time.
                () = std::future::ready(()) => {
                    desk.decode();
                    looking.await?
                }
            }
        };
        if must {
            // Errors are queued behind the records that were read before.
            desk.decode();
            self.compare(node, round).await?;
        }
        Ok(must)
    }

    /// One request and its answer; returns whether the answer has neither records nor changes. While the broker works on
    /// it, what is left of the last answer is decoded.
    async fn round(
        &self,
        node: i32,
        round: &Round,
        metadata: &Metadata,
        session: &mut Session,
        desk: &mut Desk<'_>,
    ) -> Result<bool> {
        let time = limit(&self.options, self.cluster.options().request_timeout);
        let (version, answer) = {
            let cluster = self.cluster.with_max_version(ApiKey::Fetch, newest_version(round));
            let asking = cluster
                .dispatch_body::<FetchRequest, _>(node, time, |version| build(round, version, session, &self.options));
            tokio::pin!(asking);
            tokio::select! {
                biased;
                asked = &mut asking => asked?,
                // No connection yet: making one may take its time.
                () = std::future::ready(()) => {
                    desk.decode();
                    asking.await?
                }
            }
        };
        desk.decode();
        let (session_id, empty) = self.read(node, answer.await?, version, round, metadata, desk).await?;
        session.answered(version, session_id, &round.asked);
        if desk.bytes <= AT_ONCE {
            desk.decode();
        }
        Ok(empty)
    }

    /// Takes an answer off the socket; returns the session that it names, and whether it has neither records nor changes.
    async fn read(
        &self,
        node: i32,
        body: FrameBody,
        version: i16,
        round: &Round,
        metadata: &Metadata,
        desk: &mut Desk<'_>,
    ) -> Result<(i32, bool)> {
        let index = round.index();
        let mut buffers = std::mem::take(&mut desk.buffers);
        let mut answer = Answer::new(body, version, &mut buffers);
        let mut learned = Learned::default();
        let (mut session, mut failure) = (0, None);
        let mut topic = None;
        let mut reading: Option<Reading<'_>> = None;
        loop {
            match answer.next().await? {
                Told::Records(records) => {
                    let part = reading.as_mut().and_then(|reading| reading.records(self, records));
                    if let Some(part) = part {
                        desk.add(part);
                    }
                    // The end of the answer is decoded when the next one is under way.
                    if desk.bytes >= TOGETHER && !answer.is_at_its_end() {
                        desk.decode();
                    }
                }
                Told::Cut(bytes) => reading.iter_mut().for_each(|reading| reading.cut += bytes),
                Told::Event(FetchEvent::Head { throttle_time_ms, error_code, session_id }) => {
                    self.cluster.throttled(node, throttle_time_ms);
                    session = session_id;
                    failure = ErrorCode::from_i16(error_code).ok().err();
                }
                Told::Event(FetchEvent::Topic { name, id }) => {
                    // Records of an unknown id were not requested: positions do not move past them.
                    let name = if name.is_empty() { metadata.topic_name(&id).unwrap_or_default() } else { &name };
                    topic = index.get(name);
                }
                Told::Event(FetchEvent::Partition(data)) => {
                    // Partitions that were not asked for are left out.
                    let at = topic.and_then(|partitions| partitions.get(&data.partition_index));
                    let asked = at.and_then(|at| round.asked.get(*at));
                    reading = asked.map(|asked| Reading::new(asked, node, *data));
                }
                Told::Event(FetchEvent::PartitionEnd { diverging_epoch, current_leader }) => {
                    if let Some(reading) = reading.take() {
                        reading.end(self, version, metadata, &diverging_epoch, &current_leader, &mut learned);
                    }
                }
                Told::Event(FetchEvent::End { node_endpoints }) => {
                    if !learned.leaders.is_empty() {
                        let at = |node: &NodeEndpoint| (node.node_id, format!("{}:{}", node.host, node.port));
                        let addresses: Vec<_> = node_endpoints.iter().map(at).collect();
                        self.cluster.update_leaders(&learned.leaders, &addresses);
                    }
                    break;
                }
            }
        }
        drop(answer);
        desk.buffers = buffers;
        self.shared.lock().meters.response_received(Instant::now(), learned.bytes, learned.records);
        if learned.refresh {
            self.cluster.request_refresh();
        }
        let moved = learned.moved || !learned.failed.is_empty();
        let empty = learned.bytes == 0 && !moved;
        if !learned.failed.is_empty() {
            self.shared.lock().partitions_failed(learned.failed, self.cluster.options().default_api_timeout);
        }
        if moved {
            self.shared.ring_work();
        }
        // Else what becomes of the records rings: a poll that is woken for nothing takes its core from the decoder.
        if desk.parts.is_empty() {
            self.shared.ring_ready();
        }
        match failure {
            Some(code) => Err(Error::server(code, "Fetch")),
            None => Ok((session, empty)),
        }
    }

    fn all_failed(&self, round: &Round, error: &Error) {
        let patience = self.cluster.options().default_api_timeout;
        let unheard_of = {
            let mut state = self.shared.lock();
            state.round_failed(&round.asked, error, patience);
            state.unheard_of(&round.asked, patience)
        };
        if !unheard_of.is_empty() {
            tracing::warn!(%error, partitions = join_limited(&unheard_of), "reading waits for a broker that does not answer");
        }
        if error.refresh_metadata() {
            self.cluster.request_refresh();
        }
        self.shared.ring_work();
        self.shared.ring_ready();
    }
}

/// KIP-227 and KIP-516: what a broker says that no longer knows the session or a topic in it.
fn is_about_the_session(error: &Error) -> bool {
    let codes = [
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    ];
    codes.iter().any(|code| error.code() == Some(code.code()))
}

/// Records of one broker's responses that wait to be decoded.
struct Desk<'a> {
    source: &'a Source,
    decoder: Decoder,
    outlet: Outlet,
    buffers: Buffers,
    /// Not decoded yet.
    parts: VecDeque<Part>,
    bytes: usize,
    held: Option<Reservation<'a>>,
}

impl<'a> Desk<'a> {
    fn new(source: &'a Source) -> Self {
        Self {
            source,
            decoder: decoder(&source.options, &source.shared),
            outlet: Outlet::end(&source.shared),
            buffers: Buffers::default(),
            parts: VecDeque::new(),
            bytes: 0,
            held: None,
        }
    }

    fn add(&mut self, part: Part) {
        self.bytes += part.records.len();
        self.parts.push_back(part);
    }

    /// Decodes here, on an idle core, or, as compressed records may grow a lot, when there is capacity.
    fn decode(&mut self) {
        let Source { shared, cores, .. } = self.source;
        if !self.parts.is_empty() {
            let mut parts = std::mem::take(&mut self.parts);
            let bytes = std::mem::take(&mut self.bytes);
            let which: Vec<_> = parts.iter().map(|part| (part.tp.clone(), part.version)).collect();
            // Records of responses that list aborted transactions keep their order.
            if parts.iter().any(|part| part.compressed || part.aborted.is_some()) {
                shared.lock().pack(parts);
                shared.placed(&which);
                // To wake another core for few bytes takes longer than to decode them.
                let few = bytes <= AT_ONCE;
                if !few {
                    shared.ring_ready();
                    cores.decode();
                }
                match Job::next(shared) {
                    Some(job) => job.run(&mut self.decoder),
                    None if few => shared.ring_ready(),
                    None => {}
                }
                if few {
                    cores.decode();
                }
            } else {
                decode(&mut self.decoder, &mut parts, &self.outlet, || true);
                shared.placed(&which);
            }
        }
        self.held = None;
    }
}

/// Memory that a request may bring, or that waits to be decoded; given back when it is known what it became.
struct Reservation<'a> {
    shared: &'a Shared,
    bytes: usize,
}

impl<'a> Reservation<'a> {
    /// Holds what came instead of what might have come.
    fn exchange(self, came: usize) -> Reservation<'a> {
        self.shared.lock().reserved += came;
        Reservation { shared: self.shared, bytes: came }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.shared.lock();
        state.reserved = state.reserved.saturating_sub(self.bytes);
        let wanted = state.wants_room();
        drop(state);
        if wanted {
            self.shared.ring_room();
        }
    }
}
