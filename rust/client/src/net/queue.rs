//! Frames, queued in one order with those who wait for their answers; and requests of a login, which nothing holds.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use samsarrow_wire::frame;
use samsarrow_wire::messages::{Frame, Request};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Connection;
use super::in_flight::{Outgoing, Pending, Reply, Waiting};
use super::timeouts::RequestTimeout;
use crate::api_versions::cannot_be_sent;
use crate::error::{Error, Result};

impl Connection {
    /// Queues a request of a handshake or login; the future gives the answer's frame.
    pub(super) fn request_frame<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<impl Future<Output = Result<Bytes>> + Send + 'static + use<R>> {
        let (reply, answer) = oneshot::channel();
        let (outgoing, pending) = self.made(request, version, self.request_timeout, Reply::Whole(reply))?;
        self.enqueue_first(outgoing, Some(pending))?;
        let address = self.shared.address.clone();
        Ok(
            async move { answer.await.unwrap_or_else(|_| Err(Error::connection(address, "the connection was given up"))) },
        )
    }

    /// Asks on a connection that is not handed out yet or is held for a login, and waits for as long as a broker may take.
    pub(crate) async fn ask<R: Request>(&self, request: &R, version: i16) -> Result<R::Response> {
        let frame = self.request_frame(request, version)?.await?;
        let (response, _) = frame::decode_answer::<R>(version, frame).map_err(|e| {
            let reason = format!("the answer to {} v{version} is not what it should be: {e}", R::KEY.name());
            Error::protocol(self.address(), reason)
        })?;
        Ok(response)
    }

    pub(super) fn made<R: Request>(
        &self,
        request: &R,
        version: i16,
        limit: RequestTimeout,
        reply: Reply,
    ) -> Result<(Outgoing, Pending)> {
        let correlation_id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(request, version, correlation_id)?;
        let pending = Pending { correlation_id, api: R::KEY.name(), limit, expires: limit.end(), reply };
        Ok((Outgoing { frame, written: None }, pending))
    }

    /// Queues a frame of a login and anyone who waits for its answer in one step: nothing holds it.
    pub(super) fn enqueue_first(&self, outgoing: Outgoing, pending: Option<Pending>) -> Result<()> {
        let mut waiting = self.shared.waiting();
        match self.broken() {
            Some(error) => Err(error),
            None => self.push(&mut waiting, outgoing, pending),
        }
    }

    pub(super) fn push(&self, waiting: &mut Waiting, outgoing: Outgoing, pending: Option<Pending>) -> Result<()> {
        self.outgoing.send(outgoing).map_err(|_| self.gone())?;
        if waiting.pending.is_empty() && pending.is_some() {
            self.shared.asked.notify_one();
        }
        waiting.pending.extend(pending);
        waiting.last_used = Instant::now();
        Ok(())
    }

    pub(super) fn encode<R: Request>(&self, request: &R, version: i16, correlation_id: i32) -> Result<Frame> {
        frame::request_in_pieces(request, version, correlation_id, Some(&self.client_id))
            .map_err(|e| cannot_be_sent(request, version, self.address(), &e))
    }

    pub(super) fn gone(&self) -> Error {
        self.broken().unwrap_or_else(|| Error::connection(self.address(), "the connection was given up"))
    }
}
