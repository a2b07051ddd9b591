//! Requests that wait for their answers, as both tasks of a connection and all callers see them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use samsarrow_wire::messages::Frame;

use super::reauth::Gate;
use super::timeouts::RequestTimeout;
use super::transport::Reader;
use crate::error::{Error, Result};
use crate::metrics::ConnectionMeter;

/// A request that was sent and has no answer yet.
pub(super) struct Pending {
    pub(super) correlation_id: i32,
    pub(super) api: &'static str,
    pub(super) limit: RequestTimeout,
    /// When the broker's time is over.
    pub(super) expires: Instant,
    pub(super) reply: Reply,
}

/// How the answer is wanted.
pub(super) enum Reply {
    /// As one frame.
    Whole(oneshot::Sender<Result<Bytes>>),
    /// By someone who reads it off the socket.
    Body(oneshot::Sender<Result<FrameBody>>),
    /// Without a correlation id, as a frame that is only a mechanism's token.
    Raw(oneshot::Sender<Result<Bytes>>),
}

impl Reply {
    /// Whether nobody waits for it any more.
    pub(super) fn is_given_up(&self) -> bool {
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

/// The rest of an answer after its correlation id, to be read off the socket by the one who asked.
///
/// Dropped before its end, it breaks the connection: nobody could know where the next answer starts.
pub struct FrameBody {
    pub(super) way: Option<(Reader, oneshot::Sender<Reader>)>,
    pub(super) left: usize,
    pub(super) limit: Duration,
    pub(super) shared: Arc<Shared>,
}

/// A frame on its way to the socket, and who wants to know when it is written.
pub(super) struct Outgoing {
    pub(super) frame: Frame,
    pub(super) written: Option<oneshot::Sender<()>>,
}

/// Requests without an answer, in the order in which their frames were queued.
pub(super) struct Waiting {
    pub(super) pending: VecDeque<Pending>,
    pub(super) last_used: Instant,
    /// Until when the broker wants to be left alone (KIP-219).
    pub(super) paused_until: Option<Instant>,
    /// Whether anything was asked and answered since versions were agreed on.
    pub(super) answered: bool,
    pub(super) gate: Gate,
    /// What waits at the gate, in its order.
    pub(super) held: VecDeque<(Outgoing, Option<Pending>)>,
}

impl Waiting {
    /// The oldest request, whose answer has come.
    pub(super) fn take_oldest(&mut self) -> Option<Pending> {
        let oldest = self.pending.pop_front()?;
        let left = oldest.expires.saturating_duration_since(Instant::now());
        self.answered = true;
        self.gate.answered_after(oldest.limit.0.saturating_sub(left));
        Some(oldest)
    }
}

/// What both tasks and all callers see.
pub(super) struct Shared {
    pub(super) address: String,
    pub(super) waiting: Mutex<Waiting>,
    /// Rung when there is a request after there was none: its time is to be watched.
    pub(super) asked: Notify,
    /// A login is under way: what comes in is small.
    pub(super) login: AtomicBool,
    /// Rung when the last request in flight is answered.
    pub(super) drained: Notify,
    pub(super) broken: Mutex<Option<Error>>,
    /// Counts from when the connection is handed out.
    pub(super) meter: OnceLock<ConnectionMeter>,
}

impl Shared {
    /// Fails everyone who waits. The first error is the one that is remembered.
    pub(super) fn poison(&self, error: Error) {
        let first = {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert(error).clone()
        };
        let (pending, held) = {
            let mut waiting = self.waiting();
            (std::mem::take(&mut waiting.pending), std::mem::take(&mut waiting.held))
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

    pub(super) fn logs_in(&self) -> bool {
        self.login.load(Ordering::Acquire)
    }

    /// The oldest request, whose answer has come.
    pub(super) fn take_oldest(&self) -> Option<Pending> {
        let mut waiting = self.waiting();
        let oldest = waiting.take_oldest();
        if waiting.pending.is_empty() {
            self.drained.notify_one();
        }
        oldest
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When to look whether the oldest request is late, or the connection idle.
    pub(super) fn look_at(&self, idle: Option<Duration>) -> Option<Instant> {
        let waiting = self.waiting();
        match waiting.pending.front() {
            Some(oldest) => Some(oldest.expires),
            None => idle.map(|idle| waiting.last_used + idle),
        }
    }

    /// Breaks the connection if the oldest request has waited for longer than a broker may take, or if nothing is waited
    /// for and nothing was asked for `idle`.
    pub(super) fn overdue(&self, idle: Option<Duration>) -> Option<Error> {
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
