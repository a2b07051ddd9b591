//! The connection as the transport of a SASL login, which consists of requests and raw tokens.

use bytes::Bytes;
use samsarrow_wire::frame;
use samsarrow_wire::messages::{Frame, Request};
use tokio::sync::oneshot;

use super::Connection;
use super::in_flight::{Outgoing, Pending, Reply};
use crate::error::{Error, Result};
use crate::security::sasl::SaslIo;

impl SaslIo for Connection {
    fn address(&self) -> &str {
        self.address()
    }

    fn exchange<R: Request + Sync>(
        &self,
        request: &R,
        version: i16,
    ) -> impl Future<Output = Result<R::Response>> + Send {
        self.exchange(request, version)
    }

    async fn exchange_raw(&self, token: &[u8]) -> Result<Bytes> {
        let frame = raw_frame(token)?;
        let (reply, response) = oneshot::channel();
        let limit = self.request_timeout;
        let reply = Reply::Raw(reply);
        let (api, expires) = ("the SASL token", limit.end());
        let pending = Pending { correlation_id: 0, api, throttle: None, limit, expires, reply };
        self.enqueue_unheld(Outgoing { frame, written: None }, Some(pending))?;
        response.await.unwrap_or_else(|_| Err(self.closed_error()))
    }

    fn send_raw(&self, token: &[u8]) -> Result<()> {
        self.enqueue_unheld(Outgoing { frame: raw_frame(token)?, written: None }, None)
    }
}

fn raw_frame(token: &[u8]) -> Result<Frame> {
    frame::raw(token).map_err(|e| Error::configuration(format!("the SASL token cannot be sent: {e}")))
}
