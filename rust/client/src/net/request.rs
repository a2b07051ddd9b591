//! Requests of callers, which are queued or, while a login is due, held back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiKey, Message, Request};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::in_flight::{Outgoing, Pending, Reply};
use super::{CallerDeadline, Connection, FrameBody, RequestTimeout};
use crate::blocking::blocking;
use crate::error::{Error, Result};

/// Size of a response at which decoding takes milliseconds. Larger responses are decoded on another thread, so that
/// timers and other connections are not delayed.
const LARGE_RESPONSE: usize = 1 << 20;

impl Connection {
    fn queue<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        reply: Reply,
    ) -> Result<()> {
        let (outgoing, pending) = self.prepare(request, version, limit, reply)?;
        self.enqueue(outgoing, Some(pending))
    }

    /// Queues a frame together with its waiting caller in one step. Responses arrive in the order of the frames, so
    /// both queues must have the same order even if callers are concurrent. Starts the login if it is due, and may hold
    /// the request back until the login has completed.
    fn enqueue(self: &Arc<Self>, outgoing: Outgoing, pending: Option<Pending>) -> Result<()> {
        let mut in_flight = self.shared.in_flight();
        // This check holds the lock under which `poison` empties the queue, so that no waiting caller is left behind.
        if let Some(error) = self.broken() {
            return Err(error);
        }
        let now = Instant::now();
        if in_flight.reauth.take_due(now) {
            tokio::spawn(Arc::clone(self).renew());
        }
        if in_flight.reauth.must_hold(now) {
            in_flight.last_used = now;
            in_flight.held.push_back((outgoing, pending));
            return Ok(());
        }
        self.push(&mut in_flight, outgoing, pending)
    }

    /// Queues a request and returns immediately. The future resolves to the decoded response, or to an error after the
    /// caller's deadline. If the broker takes longer than `limit`, the connection is closed.
    pub fn request<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        deadline: CallerDeadline,
    ) -> Result<impl Future<Output = Result<R::Response>> + Send + 'static + use<R>>
    where
        R::Response: Send + 'static,
    {
        let (reply, response) = oneshot::channel();
        self.queue(request, version, limit, Reply::Whole(reply))?;
        let connection = Arc::clone(self);
        Ok(async move {
            let frame = connection.wait_for_response(R::KEY, response, deadline).await?;
            let decoded = if frame.len() < LARGE_RESPONSE {
                frame::decode_answer::<R>(version, frame)
            } else {
                let decode = move || frame::decode_answer::<R>(version, frame);
                blocking(decode).await?
            };
            match decoded {
                Ok((mut response, spare)) => {
                    if spare > 0 {
                        tracing::debug!(
                            client_id = connection.client_id(),
                            "ignored {spare} bytes after the response to {} v{version} from {}",
                            R::KEY.name(),
                            connection.address()
                        );
                    }
                    let remaining = connection.shared.remaining_throttle_ms(response.throttle_time_ms());
                    response.set_throttle_time_ms(remaining);
                    Ok(response)
                }
                Err(e) => {
                    let reason = format!("invalid response to {} v{version}: {e}", R::KEY.name());
                    Err(Error::protocol(connection.address(), reason))
                }
            }
        })
    }

    /// Queues a request whose response body the caller reads from the socket as it arrives; see [`FrameBody`]. Other
    /// responses on this connection must wait until the body is read completely.
    pub fn request_body<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        deadline: CallerDeadline,
    ) -> Result<impl Future<Output = Result<FrameBody>> + Send + 'static + use<R>> {
        let (reply, response) = oneshot::channel();
        self.queue(request, version, limit, Reply::Body(reply))?;
        let connection = Arc::clone(self);
        Ok(async move { connection.wait_for_response(R::KEY, response, deadline).await })
    }

    async fn wait_for_response<T>(
        &self,
        key: ApiKey,
        response: oneshot::Receiver<Result<T>>,
        deadline: CallerDeadline,
    ) -> Result<T> {
        let response = match deadline.response_deadline() {
            Some(until) => timeout_at(until, response).await,
            None => Ok(response.await),
        };
        match response {
            Ok(response) => response.unwrap_or_else(|_| Err(self.closed_error())),
            Err(_) => Err(Error::timeout(format!("{} to {}", key.name(), self.address()), deadline.whole())),
        }
    }

    /// Sends a request without a response (Produce with acks=0). Waits until the socket has accepted the request,
    /// because otherwise requests to a slow broker would accumulate without bound.
    pub async fn request_without_answer<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        deadline: CallerDeadline,
    ) -> Result<()> {
        let correlation_id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(request, version, correlation_id)?;
        let (done, written) = oneshot::channel();
        self.enqueue(Outgoing { frame, written: Some(done) }, None)?;
        let end = limit.end();
        let until = deadline.response_deadline().map_or(end, |until| until.min(end));
        match timeout_at(until, written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.closed_error()),
            Err(_) => {
                let broker_is_late = until == end;
                let time = if broker_is_late { limit.0 } else { deadline.whole() };
                let error = Error::timeout(format!("sending {} to {}", R::KEY.name(), self.address()), time);
                if broker_is_late {
                    self.poison(error.clone());
                }
                Err(error)
            }
        }
    }
}
