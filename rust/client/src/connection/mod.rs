//! One socket to one broker: requests go out in order, answers are matched by correlation id.
//!
//! Two tasks serve a socket, one writing and one reading. The first failure poisons the connection: everyone who waits
//! gets the same error, and whoever owns it makes a new one.

mod connect;
mod handshake;
mod limits;
mod probe;
mod read;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use samsarrow_wire::frame;
use samsarrow_wire::messages::{Frame, Message, Request};

use crate::api_versions::{ApiVersions, cannot_be_sent};
use crate::config::CommonOptions;
use crate::error::{Error, Result};

use connect::Target;
pub(crate) use connect::resolve;
pub use limits::{Patience, RequestTimeout};
pub use probe::OldBrokers;
pub use read::FrameBody;
use read::read_all;

/// The longest that a broker is left alone because it asks for it: a mistake of a broker's must not stop a client for
/// weeks. Kafka's own quotas ask for seconds.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A request that was sent and has no answer yet.
struct Pending {
    correlation_id: i32,
    api: &'static str,
    limit: RequestTimeout,
    /// When the broker's time is over.
    expires: Instant,
    reply: Reply,
}

/// How the answer is wanted.
enum Reply {
    /// As one frame.
    Whole(oneshot::Sender<Result<Bytes>>),
    /// By someone who reads it off the socket.
    Body(oneshot::Sender<Result<FrameBody>>),
}

impl Reply {
    /// Whether nobody waits for it any more.
    fn is_given_up(&self) -> bool {
        match self {
            Reply::Whole(reply) => reply.is_closed(),
            Reply::Body(reply) => reply.is_closed(),
        }
    }

    fn fail(self, error: Error) {
        match self {
            Reply::Whole(reply) => drop(reply.send(Err(error))),
            Reply::Body(reply) => drop(reply.send(Err(error))),
        }
    }
}

/// A frame on its way to the socket, and who wants to know when it is written.
struct Outgoing {
    frame: Frame,
    written: Option<oneshot::Sender<()>>,
}

/// Requests without an answer, in the order in which their frames were queued.
struct Waiting {
    pending: VecDeque<Pending>,
    last_used: Instant,
    /// Until when the broker wants to be left alone (KIP-219).
    paused_until: Option<Instant>,
}

/// What both tasks and all callers see.
struct Shared {
    address: String,
    waiting: Mutex<Waiting>,
    /// Rung when there is a request after there was none: its time is to be watched.
    asked: Notify,
    broken: Mutex<Option<Error>>,
}

impl Shared {
    /// Fails everyone who waits. The first error is the one that is remembered.
    fn poison(&self, error: Error) {
        let first = {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert(error).clone()
        };
        let waiting = std::mem::take(&mut self.waiting().pending);
        for pending in waiting {
            pending.reply.fail(first.clone());
        }
    }

    fn error(&self) -> Option<Error> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When to look whether the oldest request is late, or the connection idle.
    fn look_at(&self, idle: Option<Duration>) -> Option<Instant> {
        let waiting = self.waiting();
        match waiting.pending.front() {
            Some(oldest) => Some(oldest.expires),
            None => idle.map(|idle| waiting.last_used + idle),
        }
    }

    /// Breaks the connection if the oldest request has waited for longer than a broker may take, or if nothing is waited
    /// for and nothing was asked for `idle`.
    fn overdue(&self, idle: Option<Duration>) -> Option<Error> {
        let waiting = self.waiting();
        let error = match waiting.pending.front() {
            Some(oldest) if oldest.expires <= Instant::now() => {
                Error::timeout(format!("{} to {}", oldest.api, self.address), oldest.limit.0)
            }
            None if idle.is_some_and(|idle| waiting.last_used.elapsed() >= idle) => {
                Error::connection(self.address.clone(), "the connection was idle and is closed")
            }
            _ => return None,
        };
        // Under the lock that requests are queued with: none can slip in between.
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.clone());
        Some(error)
    }
}

/// A connection that has agreed on versions.
pub struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    next_id: AtomicI32,
    client_id: String,
    request_timeout: RequestTimeout,
    versions: ApiVersions,
    tasks: [JoinHandle<()>; 2],
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.shared.poison(Error::connection(self.shared.address.clone(), "the connection was given up"));
    }
}

impl Connection {
    /// Connects to `address` and finds out what the broker speaks.
    ///
    /// # Errors
    /// [`Error::Connection`] if nobody can be reached there, [`Error::Protocol`] if whoever answers is not Kafka.
    pub async fn open(address: &str, options: &CommonOptions) -> Result<Connection> {
        Self::open_within(address, options, options.connection_setup_timeout).await
    }

    /// The same with another time for each of the addresses that the name has. All are tried until one answers as Kafka
    /// does: behind one of several addresses there may be somebody else.
    ///
    /// # Errors
    /// That of the last address, or of one where somebody answered who is not a broker.
    pub async fn open_within(address: &str, options: &CommonOptions, limit: Duration) -> Result<Connection> {
        let mut last = Error::connection(address, "the host name has no address");
        for socket in resolve(address, limit).await? {
            match Self::agree(&Target { address, socket, options, limit }).await {
                Ok(connection) => return Ok(connection),
                Err(error) if !matches!(last, Error::Protocol { .. }) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }

    /// Connects; what the broker speaks is not known yet.
    async fn connected(target: &Target<'_>) -> Result<Connection> {
        let (address, options) = (target.address, target.options);
        let stream = target.connect().await?;
        let (reader, writer) = stream.into_split();
        let waiting = Waiting { pending: VecDeque::new(), last_used: Instant::now(), paused_until: None };
        let shared = Arc::new(Shared {
            address: address.to_owned(),
            waiting: Mutex::new(waiting),
            asked: Notify::new(),
            broken: Mutex::default(),
        });
        let (outgoing, queue) = mpsc::unbounded_channel();
        let limit = options.max_response_bytes;
        let tasks = [
            tokio::spawn(write_all(writer, queue, Arc::clone(&shared))),
            tokio::spawn(read_all(reader, Arc::clone(&shared), limit, options.connections_max_idle)),
        ];
        Ok(Connection {
            shared,
            outgoing,
            next_id: AtomicI32::new(0),
            client_id: options.client_id.clone(),
            request_timeout: RequestTimeout(options.request_timeout),
            versions: ApiVersions::default(),
            tasks,
        })
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// What the broker speaks.
    pub fn versions(&self) -> &ApiVersions {
        &self.versions
    }

    /// Why the connection is of no more use, if it is not.
    pub fn broken(&self) -> Option<Error> {
        self.shared.error()
    }

    /// Gives the connection up: whoever waits on it gets `error`.
    pub fn poison(&self, error: Error) {
        self.shared.poison(error);
        for task in &self.tasks {
            task.abort();
        }
    }

    /// How many requests wait for their answers.
    pub fn load(&self) -> usize {
        self.shared.waiting().pending.len()
    }

    /// The broker asks to be left alone for so many milliseconds (KIP-219).
    pub fn throttled(&self, throttle_time_ms: i32) {
        let Some(pause) = u64::try_from(throttle_time_ms).ok().filter(|ms| *ms > 0) else { return };
        let until = Instant::now() + Duration::from_millis(pause).min(LONGEST_PAUSE);
        tracing::debug!(address = self.address(), throttle_time_ms, "the broker asks for a pause");
        let mut waiting = self.shared.waiting();
        waiting.paused_until = waiting.paused_until.max(Some(until));
    }

    /// Waits until the broker may be asked again. One that is asked earlier does not read what is sent (KIP-219), and
    /// requests would run out of time there.
    ///
    /// # Errors
    /// A timeout if that is longer than the caller can wait.
    pub async fn unpaused(&self, patience: Patience) -> Result<()> {
        loop {
            let until = self.shared.waiting().paused_until;
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return Ok(()) };
            if until > patience.until() {
                let what = format!("the pause that {} asks for because of a quota", self.address());
                return Err(Error::timeout(what, patience.whole()));
            }
            sleep_until(until).await;
        }
    }

    /// Queues a request; the future gives the answer's frame. Requests go out in the order of these calls.
    fn request_frame<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<impl Future<Output = Result<Bytes>> + Send + 'static + use<R>> {
        let (reply, answer) = oneshot::channel();
        self.queue(request, version, self.request_timeout, Reply::Whole(reply))?;
        let address = self.shared.address.clone();
        Ok(
            async move { answer.await.unwrap_or_else(|_| Err(Error::connection(address, "the connection was given up"))) },
        )
    }

    fn queue<R: Request>(&self, request: &R, version: i16, limit: RequestTimeout, reply: Reply) -> Result<()> {
        let correlation_id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(request, version, correlation_id)?;
        let pending = Pending { correlation_id, api: R::KEY.name(), limit, expires: limit.end(), reply };
        self.enqueue(Outgoing { frame, written: None }, Some(pending))
    }

    /// Queues a frame and whoever waits for its answer in one step: answers come in the order of frames, so the two
    /// queues must never differ, whoever else asks at the same time.
    fn enqueue(&self, outgoing: Outgoing, pending: Option<Pending>) -> Result<()> {
        let mut waiting = self.shared.waiting();
        // Looked at under the same lock that `poison` empties the queue with: no waiter is ever left behind.
        if let Some(error) = self.broken() {
            return Err(error);
        }
        self.outgoing.send(outgoing).map_err(|_| self.gone())?;
        if waiting.pending.is_empty() && pending.is_some() {
            self.shared.asked.notify_one();
        }
        waiting.pending.extend(pending);
        waiting.last_used = Instant::now();
        Ok(())
    }

    fn encode<R: Request>(&self, request: &R, version: i16, correlation_id: i32) -> Result<Frame> {
        frame::request_in_pieces(request, version, correlation_id, Some(&self.client_id))
            .map_err(|e| cannot_be_sent(request, version, self.address(), &e))
    }

    fn gone(&self) -> Error {
        self.broken().unwrap_or_else(|| Error::connection(self.address(), "the connection was given up"))
    }

    /// Queues a request and returns at once; the future gives the decoded answer, or an error when the caller's patience
    /// is over. A broker that takes longer than `limit` loses the connection.
    pub fn request<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        patience: Patience,
    ) -> Result<impl Future<Output = Result<R::Response>> + Send + 'static + use<R>> {
        let (reply, answer) = oneshot::channel();
        self.queue(request, version, limit, Reply::Whole(reply))?;
        let connection = Arc::clone(self);
        Ok(async move {
            let frame = connection.answered::<R, _>(answer, patience).await?;
            match frame::decode_answer::<R>(version, frame) {
                Ok((response, spare)) => {
                    if spare > 0 {
                        tracing::debug!(api = R::KEY.name(), version, spare, "ignored bytes after an answer");
                    }
                    connection.throttled(response.throttle_time_ms());
                    Ok(response)
                }
                Err(e) => {
                    let reason = format!("the answer to {} v{version} is not what it should be: {e}", R::KEY.name());
                    Err(Error::protocol(connection.address(), reason))
                }
            }
        })
    }

    /// Queues a request whose answer the caller reads off the socket itself, as it arrives: see [`FrameBody`]. Until all
    /// of it is read, other answers on this connection wait.
    pub fn request_body<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        patience: Patience,
    ) -> Result<impl Future<Output = Result<FrameBody>> + Send + 'static + use<R>> {
        let (reply, answer) = oneshot::channel();
        self.queue(request, version, limit, Reply::Body(reply))?;
        let connection = Arc::clone(self);
        Ok(async move { connection.answered::<R, _>(answer, patience).await })
    }

    async fn answered<R: Request, T>(&self, answer: oneshot::Receiver<Result<T>>, patience: Patience) -> Result<T> {
        let answered = match patience.answer_until() {
            Some(until) => timeout_at(until, answer).await,
            None => Ok(answer.await),
        };
        match answered {
            Ok(answer) => answer.unwrap_or_else(|_| Err(self.gone())),
            Err(_) => Err(Error::timeout(format!("{} to {}", R::KEY.name(), self.address()), patience.whole())),
        }
    }

    /// Sends a request that is never answered (Produce with acks=0) and waits until the socket has taken it: without
    /// that wait, a slow broker would let such requests pile up without bound.
    pub async fn request_without_answer<R: Request>(
        &self,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        patience: Patience,
    ) -> Result<()> {
        let correlation_id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(request, version, correlation_id)?;
        let (done, written) = oneshot::channel();
        self.enqueue(Outgoing { frame, written: Some(done) }, None)?;
        let end = limit.end();
        let until = patience.answer_until().map_or(end, |until| until.min(end));
        match timeout_at(until, written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => {
                let late = until == end;
                let time = if late { limit.0 } else { patience.whole() };
                let error = Error::timeout(format!("sending {} to {}", R::KEY.name(), self.address()), time);
                if late {
                    self.poison(error.clone());
                }
                Err(error)
            }
        }
    }
}

async fn write_all(mut writer: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Outgoing>, shared: Arc<Shared>) {
    while let Some(Outgoing { mut frame, written }) = queue.recv().await {
        if let Err(e) = writer.write_all_buf(&mut frame).await {
            shared.poison(Error::io(&shared.address, "the connection broke while sending", &e));
            return;
        }
        if let Some(written) = written {
            let _ = written.send(());
        }
    }
}
