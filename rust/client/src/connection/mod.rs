//! One socket to one broker: requests go out in order, answers are matched by correlation id.
//!
//! Two tasks serve a socket, one writing and one reading. The first failure poisons the connection: everyone who waits
//! gets the same error, and whoever owns it makes a new one.

mod handshake;
mod probe;
mod read;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use samsarrow_wire::frame;
use samsarrow_wire::messages::{Frame, Request};

use crate::api_versions::{ApiVersions, cannot_be_sent};
use crate::config::CommonOptions;
use crate::error::{Error, Result};

pub use probe::OldBrokers;
pub use read::FrameBody;
use read::read_all;

/// A request that was sent and has no answer yet.
struct Pending {
    correlation_id: i32,
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
}

/// What both tasks and all callers see.
struct Shared {
    address: String,
    waiting: Mutex<Waiting>,
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

    /// Breaks the connection if nothing was asked for `idle` and nothing is waited for; else how long to look away.
    fn idle_for(&self, idle: Duration) -> Result<Duration> {
        let waiting = self.waiting();
        if !waiting.pending.is_empty() {
            return Ok(idle);
        }
        let left = idle.saturating_sub(waiting.last_used.elapsed());
        if left.is_zero() {
            // Under the lock that requests are queued with: none can slip in between.
            let error = Error::connection(self.address.clone(), "the connection was idle and is closed");
            self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.clone());
            return Err(error);
        }
        Ok(left)
    }
}

/// A connection that has agreed on versions.
pub struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    next_id: AtomicI32,
    client_id: String,
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
    /// Connects to `address`; what the broker speaks is not known yet.
    async fn connected(address: &str, options: &CommonOptions) -> Result<Connection> {
        let stream = connect(address, options).await?;
        let (reader, writer) = stream.into_split();
        let waiting = Mutex::new(Waiting { pending: VecDeque::new(), last_used: Instant::now() });
        let shared = Arc::new(Shared { address: address.to_owned(), waiting, broken: Mutex::default() });
        let (outgoing, queue) = mpsc::unbounded_channel();
        let limit = options.max_response_bytes;
        let tasks = [
            tokio::spawn(write_all(writer, queue, Arc::clone(&shared))),
            tokio::spawn(read_all(reader, Arc::clone(&shared), limit, options.connections_max_idle)),
        ];
        let client_id = options.client_id.clone();
        Ok(Connection {
            shared,
            outgoing,
            next_id: AtomicI32::new(0),
            client_id,
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

    /// Queues a request; the future gives the answer's frame. Requests go out in the order of these calls.
    fn request_frame<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<impl Future<Output = Result<Bytes>> + Send + 'static + use<R>> {
        let correlation_id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(request, version, correlation_id)?;
        let (reply, answer) = oneshot::channel();
        let reply = Reply::Whole(reply);
        self.enqueue(Outgoing { frame, written: None }, Some(Pending { correlation_id, reply }))?;
        let address = self.shared.address.clone();
        Ok(
            async move { answer.await.unwrap_or_else(|_| Err(Error::connection(address, "the connection was given up"))) },
        )
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

    /// Queues a request and returns at once; the future gives the decoded answer, an error after `limit`.
    ///
    /// A request that is not answered in time poisons the connection: answers come in order, so later ones are stuck too.
    pub fn request<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        limit: Duration,
    ) -> Result<impl Future<Output = Result<R::Response>> + Send + 'static + use<R>> {
        let answer = self.request_frame(request, version)?;
        let connection = Arc::clone(self);
        Ok(async move {
            let Ok(frame) = timeout(limit, answer).await else {
                let what = format!("{} to {}", R::KEY.name(), connection.address());
                connection.poison(Error::timeout(what.clone(), limit));
                return Err(Error::timeout(what, limit));
            };
            match frame::decode_answer::<R>(version, frame?) {
                Ok((response, 0)) => Ok(response),
                Ok((response, spare)) => {
                    tracing::debug!(api = R::KEY.name(), version, spare, "ignored bytes after an answer");
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
        limit: Duration,
    ) -> Result<impl Future<Output = Result<FrameBody>> + Send + 'static + use<R>> {
        let correlation_id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(request, version, correlation_id)?;
        let (reply, answer) = oneshot::channel();
        let reply = Reply::Body(reply);
        self.enqueue(Outgoing { frame, written: None }, Some(Pending { correlation_id, reply }))?;
        let connection = Arc::clone(self);
        Ok(async move {
            match timeout(limit, answer).await {
                Ok(Ok(body)) => body.map(|body| body.within(limit)),
                Ok(Err(_)) => Err(connection.gone()),
                Err(_) => {
                    let what = format!("{} to {}", R::KEY.name(), connection.address());
                    connection.poison(Error::timeout(what.clone(), limit));
                    Err(Error::timeout(what, limit))
                }
            }
        })
    }

    /// Sends a request that is never answered (Produce with acks=0) and waits until the socket has taken it: without
    /// that wait, a slow broker would let such requests pile up without bound.
    pub async fn request_without_answer<R: Request>(&self, request: &R, version: i16, limit: Duration) -> Result<()> {
        let correlation_id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(request, version, correlation_id)?;
        let (done, written) = oneshot::channel();
        self.enqueue(Outgoing { frame, written: Some(done) }, None)?;
        match timeout(limit, written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => {
                let error = Error::timeout(format!("sending {} to {}", R::KEY.name(), self.address()), limit);
                self.poison(error.clone());
                Err(error)
            }
        }
    }
}

/// Tries every address of a name; the error tells of the last.
async fn connect(address: &str, options: &CommonOptions) -> Result<TcpStream> {
    let limit = options.connection_setup_timeout;
    let resolved = match timeout(limit, lookup_host(address)).await {
        Ok(Ok(addresses)) => addresses.collect::<Vec<_>>(),
        Ok(Err(e)) => return Err(Error::io(address, "the host name cannot be resolved", &e)),
        Err(_) => return Err(Error::connection(address, "the host name cannot be resolved in time")),
    };
    let mut last = Error::connection(address, "the host name has no address");
    for target in resolved {
        let attempt = async {
            let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if let Some(size) = options.receive_buffer {
                socket.set_recv_buffer_size(size)?;
            }
            if let Some(size) = options.send_buffer {
                socket.set_send_buffer_size(size)?;
            }
            let stream = socket.connect(target).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        match timeout(limit, attempt).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(e)) => last = Error::io(address, "cannot connect", &e),
            Err(_) => {
                last = Error::connection(address, format!("cannot connect within {} ms", limit.as_millis()));
            }
        }
    }
    Err(last)
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
