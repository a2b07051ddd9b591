//! Methods of [`Connection`] that queue frames together with the callers that wait for the responses. Requests of a
//! login are never held back.

use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes};
use samsarrow_wire::frame;
use samsarrow_wire::messages::{Frame, Request};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Connection;
use super::in_flight::{InFlight, Outgoing, Pending, Reply};
use super::throttle::ThrottleField;
use super::timeouts::RequestTimeout;
use crate::api_versions::cannot_be_sent;
use crate::error::{Error, Result};

impl Connection {
    /// Queues a request of the handshake or of a login. The future resolves to the response frame.
    pub(super) fn request_frame<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<impl Future<Output = Result<Bytes>> + Send + 'static + use<R>> {
        let (reply, response) = oneshot::channel();
        let (outgoing, pending) = self.prepare(request, version, self.request_timeout, Reply::Whole(reply))?;
        self.enqueue_unheld(outgoing, Some(pending))?;
        let address = self.shared.address.clone();
        Ok(
            async move { response.await.unwrap_or_else(|_| Err(Error::connection(address, "the connection was closed"))) },
        )
    }

    /// Sends a request and waits for the response up to the request timeout. Used before the connection is
    /// available to callers, and while it holds back other requests during a login.
    pub(crate) async fn exchange<R: Request>(&self, request: &R, version: i16) -> Result<R::Response> {
        let frame = self.request_frame(request, version)?.await?;
        let (response, _) = frame::decode_answer::<R>(version, frame).map_err(|e| {
            let reason = format!("invalid response to {} v{version}: {e}", R::KEY.name());
            Error::protocol(self.address(), reason)
        })?;
        Ok(response)
    }

    pub(super) fn prepare<R: Request>(
        &self,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        reply: Reply,
    ) -> Result<(Outgoing, Pending)> {
        let correlation_id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(request, version, correlation_id)?;
        let throttle = ThrottleField::of::<R>(version);
        let pending = Pending { correlation_id, api: R::KEY.name(), throttle, limit, expires: limit.end(), reply };
        Ok((Outgoing { frame, written: None }, pending))
    }

    /// Queues a login frame together with its waiting caller, even while other requests are held back.
    pub(super) fn enqueue_unheld(&self, outgoing: Outgoing, pending: Option<Pending>) -> Result<()> {
        let mut in_flight = self.shared.in_flight();
        match self.broken() {
            Some(error) => Err(error),
            None => self.push(&mut in_flight, outgoing, pending),
        }
    }

    pub(super) fn push(&self, in_flight: &mut InFlight, outgoing: Outgoing, pending: Option<Pending>) -> Result<()> {
        if let Some(pending) = &pending {
            tracing::trace!(
                client_id = self.client_id(),
                correlation_id = pending.correlation_id,
                bytes = outgoing.frame.remaining(),
                "sending {} to {}",
                pending.api,
                self.address()
            );
        }
        self.outgoing.send(outgoing).map_err(|_| self.closed_error())?;
        if in_flight.pending.is_empty() && pending.is_some() {
            self.shared.request_queued.notify_one();
        }
        in_flight.pending.extend(pending);
        in_flight.last_used = Instant::now();
        Ok(())
    }

    pub(super) fn encode<R: Request>(&self, request: &R, version: i16, correlation_id: i32) -> Result<Frame> {
        frame::request_in_pieces(request, version, correlation_id, Some(self.client_id()))
            .map_err(|e| cannot_be_sent(request, version, self.address(), &e))
    }

    pub(super) fn closed_error(&self) -> Error {
        self.broken().unwrap_or_else(|| Error::connection(self.address(), "the connection was closed"))
    }
}
