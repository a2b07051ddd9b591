//! Requests in flight, and the state shared by the two tasks of a connection and its callers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use samsarrow_wire::messages::Frame;

use super::reauth::Reauthentication;
use super::timeouts::RequestTimeout;
use super::transport::Reader;
use crate::error::{Error, Result};
use crate::metrics::ConnectionMeter;

/// A request that was sent and has no response yet.
pub(super) struct Pending {
    pub(super) correlation_id: i32,
    pub(super) api: &'static str,
    pub(super) limit: RequestTimeout,
    /// Deadline of the broker's response.
    pub(super) expires: Instant,
    pub(super) reply: Reply,
}

/// Delivery of a response to its caller.
pub(super) enum Reply {
    /// The whole frame.
    Whole(oneshot::Sender<Result<Bytes>>),
    /// The body, which the caller reads from the socket.
    Body(oneshot::Sender<Result<FrameBody>>),
    /// A raw SASL token: a frame without a correlation id.
    Raw(oneshot::Sender<Result<Bytes>>),
}

impl Reply {
    /// Returns true once the caller has stopped waiting.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Reply::Whole(reply) | Reply::Raw(reply) => reply.is_closed(),
            Reply::Body(reply) => reply.is_closed(),
        }
    }

    pub(super) fn fail(self, error: Error) {
        match self {
            Reply::Whole(reply) | Reply::Raw(reply) => drop(reply.send(Err(error))),
            Reply::Body(reply) => drop(reply.send(Err(error))),
        }
    }
}

/// The rest of a response after its correlation id, read from the socket by the caller.
///
/// Dropping it before its end breaks the connection: the start of the next response would be unknown.
pub struct FrameBody {
    pub(super) reader: Option<(Reader, oneshot::Sender<Reader>)>,
    pub(super) remaining: usize,
    pub(super) limit: Duration,
    pub(super) shared: Arc<Shared>,
}

/// A frame to write, and the sender that is notified once it is written.
pub(super) struct Outgoing {
    pub(super) frame: Frame,
    pub(super) written: Option<oneshot::Sender<()>>,
}

/// Requests without a response, in the order in which their frames were queued.
pub(super) struct InFlight {
    pub(super) pending: VecDeque<Pending>,
    pub(super) last_used: Instant,
    /// End of the pause that the broker requested (KIP-219).
    pub(super) paused_until: Option<Instant>,
    /// True once a request other than the handshake has been answered.
    pub(super) used: bool,
    pub(super) reauth: Reauthentication,
    /// Requests held back until the login is renewed, in their order.
    pub(super) held: VecDeque<(Outgoing, Option<Pending>)>,
}

impl InFlight {
    /// Removes the oldest request when its response has arrived.
    pub(super) fn take_oldest(&mut self) -> Option<Pending> {
        let oldest = self.pending.pop_front()?;
        let remaining = oldest.expires.saturating_duration_since(Instant::now());
        self.used = true;
        self.reauth.record_latency(oldest.limit.0.saturating_sub(remaining));
        Some(oldest)
    }
}

/// State shared by the reading task, the writing task and all callers.
pub(super) struct Shared {
    pub(super) address: String,
    pub(super) in_flight: Mutex<InFlight>,
    /// Notified when a request is queued while none was in flight: its deadline must be watched.
    pub(super) request_queued: Notify,
    /// Set during a login: responses are small then.
    pub(super) logging_in: AtomicBool,
    /// Notified when the last request in flight is answered.
    pub(super) drained: Notify,
    pub(super) broken: Mutex<Option<Error>>,
    /// Metrics, from the time when the connection is handed out.
    pub(super) meter: OnceLock<ConnectionMeter>,
}

impl Shared {
    /// Fails all requests in flight. Only the first error is kept.
    pub(super) fn poison(&self, error: Error) {
        let first = {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert(error).clone()
        };
        let (pending, held) = {
            let mut in_flight = self.in_flight();
            (std::mem::take(&mut in_flight.pending), std::mem::take(&mut in_flight.held))
        };
        for pending in pending.into_iter().chain(held.into_iter().filter_map(|(_, pending)| pending)) {
            pending.reply.fail(first.clone());
        }
        self.drained.notify_one();
        if let Some(meter) = self.meter.get() {
            meter.ended(&self.address, &first);
        }
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_logging_in(&self) -> bool {
        self.logging_in.load(Ordering::Acquire)
    }

    /// Removes the oldest request when its response has arrived.
    pub(super) fn take_oldest(&self) -> Option<Pending> {
        let mut in_flight = self.in_flight();
        let oldest = in_flight.take_oldest();
        if in_flight.pending.is_empty() {
            self.drained.notify_one();
        }
        oldest
    }

    pub(super) fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of the next check for a late response or an idle connection.
    pub(super) fn next_check(&self, idle: Option<Duration>) -> Option<Instant> {
        let in_flight = self.in_flight();
        match in_flight.pending.front() {
            Some(oldest) => Some(oldest.expires),
            None => idle.map(|idle| in_flight.last_used + idle),
        }
    }

    /// Breaks the connection if the oldest request is past its deadline, or if no request was in flight for `idle`.
    pub(super) fn check_deadlines(&self, idle: Option<Duration>) -> Option<Error> {
        let in_flight = self.in_flight();
        let error = match in_flight.pending.front() {
            Some(oldest) if oldest.expires <= Instant::now() => {
                Error::timeout(format!("{} to {}", oldest.api, self.address), oldest.limit.0)
            }
            None if idle.is_some_and(|idle| in_flight.last_used.elapsed() >= idle) => {
                Error::connection(self.address.clone(), "the connection was idle and is closed")
            }
            _ => return None,
        };
        // Set under the lock that requests are queued with, so that none can be queued in between.
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.clone());
        Some(error)
    }
}
