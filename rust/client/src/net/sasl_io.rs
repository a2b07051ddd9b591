//! A connection as a login talks over it: requests, and tokens as they are.

use bytes::Bytes;
use samsarrow_wire::frame;
use samsarrow_wire::messages::{Frame, Request};
use tokio::sync::oneshot;

use super::Connection;
use super::in_flight::{Outgoing, Pending, Reply};
use crate::error::{Error, Result};
use crate::security::sasl::Carrier;

impl Carrier for Connection {
    fn address(&self) -> &str {
        self.address()
    }

    fn ask<R: Request + Sync>(&self, request: &R, version: i16) -> impl Future<Output = Result<R::Response>> + Send {
        self.ask(request, version)
    }

    async fn ask_raw(&self, token: &[u8]) -> Result<Bytes> {
        let frame = raw(token)?;
        let (reply, answer) = oneshot::channel();
        let limit = self.request_timeout;
        let reply = Reply::Raw(reply);
        let pending = Pending { correlation_id: 0, api: "the token of a login", limit, expires: limit.end(), reply };
        self.enqueue_first(Outgoing { frame, written: None }, Some(pending))?;
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    fn tell_raw(&self, token: &[u8]) -> Result<()> {
        self.enqueue_first(Outgoing { frame: raw(token)?, written: None }, None)
    }
}

fn raw(token: &[u8]) -> Result<Frame> {
    frame::raw(token).map_err(|e| Error::configuration(format!("the login cannot be sent: {e}")))
}
