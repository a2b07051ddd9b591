//! Requests in flight, and the state that the two tasks of a connection share with its callers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::sync::lock;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use samsarrow_wire::messages::Frame;

use super::reauth::Reauthentication;
use super::throttle::ThrottleField;
use super::timeouts::RequestTimeout;
use super::transport::Reader;
use crate::error::{Error, Result};
use crate::metrics::ConnectionMeter;

/// A request that was sent and has no response yet.
pub(super) struct Pending {
    pub(super) correlation_id: i32,
    pub(super) api: &'static str,
    /// Throttle time in the response; `None` if it cannot have one.
    pub(super) throttle: Option<ThrottleField>,
    pub(super) limit: RequestTimeout,
    /// Time by which the broker must respond.
    pub(super) expires: Instant,
    pub(super) reply: Reply,
}

/// Delivery of a response to its caller.
pub(super) enum Reply {
    /// The whole frame.
    Whole(oneshot::Sender<Result<Bytes>>),
    /// The response body, which the caller reads from the socket.
    Body(oneshot::Sender<Result<FrameBody>>),
    /// A raw SASL token: a frame without a correlation id.
    Raw(oneshot::Sender<Result<Bytes>>),
}

impl Pending {
    /// Returns the time since the request was queued.
    pub(super) fn latency(&self) -> Duration {
        self.limit.0.saturating_sub(self.expires.saturating_duration_since(Instant::now()))
    }
}

impl Reply {
    /// Returns true if the caller no longer waits for the response.
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

/// The part of a response after the correlation id. The caller reads it from the socket.
///
/// Dropping a body that is not read completely breaks the connection, because the start of the next response would be
/// unknown.
pub struct FrameBody {
    pub(super) reader: Option<(Reader, oneshot::Sender<Reader>)>,
    pub(super) remaining: usize,
    /// Bytes of the body that were received with its head.
    pub(super) start: Bytes,
    pub(super) limit: Duration,
    pub(super) shared: Arc<Shared>,
}

/// A frame to write, and the channel that is notified after the frame is written.
pub(super) struct Outgoing {
    pub(super) frame: Frame,
    pub(super) written: Option<oneshot::Sender<()>>,
}

/// Requests whose responses have not arrived, in the order in which their frames were queued.
pub(super) struct InFlight {
    pub(super) pending: VecDeque<Pending>,
    pub(super) last_used: Instant,
    /// End of the throttle time in the last responses (KIP-219).
    pub(super) throttled_until: Option<Instant>,
    /// True once the broker has responded to a request that is not part of the handshake.
    pub(super) used: bool,
    pub(super) reauth: Reauthentication,
    /// Requests that are held back, in order, until the login is renewed.
    pub(super) held: VecDeque<(Outgoing, Option<Pending>)>,
}

impl InFlight {
    /// Removes and returns the oldest request. Called when its response has arrived.
    pub(super) fn take_oldest(&mut self) -> Option<Pending> {
        let oldest = self.pending.pop_front()?;
        self.used = true;
        self.reauth.record_latency(oldest.latency());
        Some(oldest)
    }
}

/// State shared by the reading task, the writing task and all callers.
pub(super) struct Shared {
    pub(super) address: String,
    pub(super) client_id: String,
    pub(super) in_flight: Mutex<InFlight>,
    /// Notified when a request is queued while no other is in flight, so that the reading task watches its deadline.
    pub(super) request_queued: Notify,
    /// Set during a login, because only small responses are accepted then.
    pub(super) logging_in: AtomicBool,
    /// True unless the broker waits before it sends throttled responses, as before Kafka 2.0.
    pub(super) mutes_after_response: AtomicBool,
    /// Notified when the response to the last request in flight has arrived.
    pub(super) drained: Notify,
    pub(super) broken: Mutex<Option<Error>>,
    /// True once the end of the connection was logged.
    pub(super) end_logged: AtomicBool,
    /// Metrics of the connection; unset until the connection is available to callers.
    pub(super) meter: OnceLock<ConnectionMeter>,
}

impl Shared {
    /// Breaks the connection: fails all requests that are in flight or held back. If it is called again, the first
    /// error is kept.
    pub(super) fn poison(&self, error: Error) {
        let first = {
            let mut broken = lock(&self.broken);
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
        if !self.end_logged.swap(true, Ordering::Relaxed) {
            let reason = || first.text_without(&self.address);
            tracing::debug!(client_id = self.client_id, "the connection to {} was closed: {}", self.address, reason());
        }
        if let Some(meter) = self.meter.get() {
            meter.ended(&self.address, &first);
        }
    }

    pub(super) fn error(&self) -> Option<Error> {
        lock(&self.broken).clone()
    }

    pub(super) fn is_logging_in(&self) -> bool {
        self.logging_in.load(Ordering::Acquire)
    }

    /// Removes and returns the oldest request. Called when its response has arrived.
    pub(super) fn take_oldest(&self) -> Option<Pending> {
        let mut in_flight = self.in_flight();
        let oldest = in_flight.take_oldest();
        if in_flight.pending.is_empty() {
            self.drained.notify_one();
        }
        oldest
    }

    pub(super) fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        lock(&self.in_flight)
    }

    /// Returns the time at which the connection must next be checked for a late response or for idleness.
    pub(super) fn next_check(&self, idle: Option<Duration>) -> Option<Instant> {
        let in_flight = self.in_flight();
        match in_flight.pending.front() {
            Some(oldest) => Some(oldest.expires),
            None => idle.map(|idle| in_flight.last_used + idle),
        }
    }

    /// Marks the connection as broken if the oldest request is past its deadline, or if no request has been in flight
    /// for `idle`.
    pub(super) fn check_deadlines(&self, idle: Option<Duration>) -> Option<Error> {
        let in_flight = self.in_flight();
        let error = match in_flight.pending.front() {
            Some(oldest) if oldest.expires <= Instant::now() => {
                tracing::info!(
                    client_id = self.client_id,
                    correlation_id = oldest.correlation_id,
                    timeout = ?oldest.limit.0,
                    "{} did not respond to {} in time: the connection is closed",
                    self.address,
                    oldest.api
                );
                Error::timeout(format!("{} to {}", oldest.api, self.address), oldest.limit.0)
            }
            None if idle.is_some_and(|idle| in_flight.last_used.elapsed() >= idle) => {
                Error::connection(self.address.clone(), "the connection was idle and is closed")
            }
            _ => return None,
        };
        // The error is set under the lock for queueing requests, so that no request can be queued in between.
        lock(&self.broken).get_or_insert(error.clone());
        Some(error)
    }
}
