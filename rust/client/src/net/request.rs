//! Requests: held while a login is due, and waited for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiKey, Message, Request};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::in_flight::{Outgoing, Pending, Reply};
use super::{Connection, FrameBody, Patience, RequestTimeout};
use crate::error::{Error, Result};

impl Connection {
    fn queue<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        reply: Reply,
    ) -> Result<()> {
        let (outgoing, pending) = self.made(request, version, limit, reply)?;
        self.enqueue(outgoing, Some(pending))
    }

    /// Queues a frame and anyone who waits for its answer in one step: answers come in the order of frames, so the two
    /// queues must never differ, no matter who else asks at the same time. Where a login is due it comes first.
    fn enqueue(self: &Arc<Self>, outgoing: Outgoing, pending: Option<Pending>) -> Result<()> {
        let mut waiting = self.shared.waiting();
        // Looked at under the same lock that `poison` empties the queue with: no waiter is ever left behind.
        if let Some(error) = self.broken() {
            return Err(error);
        }
        let now = Instant::now();
        if waiting.gate.calls(now) {
            tokio::spawn(Arc::clone(self).renew());
        }
        if waiting.gate.holds(now) {
            waiting.last_used = now;
            waiting.held.push_back((outgoing, pending));
            return Ok(());
        }
        self.push(&mut waiting, outgoing, pending)
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
            let frame = connection.answered(R::KEY, answer, patience).await?;
            match frame::decode_answer::<R>(version, frame) {
                Ok((response, spare)) => {
                    if spare > 0 {
                        tracing::debug!(api = R::KEY.name(), version, spare, "ignored bytes after an answer");
                    }
                    connection.throttled(R::KEY.name(), response.throttle_time_ms());
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
        Ok(async move { connection.answered(R::KEY, answer, patience).await })
    }

    async fn answered<T>(&self, key: ApiKey, answer: oneshot::Receiver<Result<T>>, patience: Patience) -> Result<T> {
        let answered = match patience.answer_until() {
            Some(until) => timeout_at(until, answer).await,
            None => Ok(answer.await),
        };
        match answered {
            Ok(answer) => answer.unwrap_or_else(|_| Err(self.gone())),
            Err(_) => Err(Error::timeout(format!("{} to {}", key.name(), self.address()), patience.whole())),
        }
    }

    /// Sends a request that is never answered (Produce with acks=0) and waits until the socket has taken it: without
    /// that wait, a slow broker would let such requests pile up without bound.
    pub async fn request_without_answer<R: Request>(
        self: &Arc<Self>,
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
