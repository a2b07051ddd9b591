//! Raw SASL tokens: frames without a request header, used after SaslHandshake v0 (KIP-43).

use std::sync::Arc;

use bytes::BytesMut;
use tokio::time::timeout;

use super::in_flight::{Reply, Shared};
use super::read_frame::{FrameStart, body_timeout, read_error, read_rest};
use super::transport::Reader;
use crate::error::{Error, Result};

/// Maximum frame size during a login, equal to the limit of brokers.
pub(super) const LOGIN_LIMIT: usize = 512 * 1024;

/// Returns the error text for a frame larger than [`LOGIN_LIMIT`].
pub(super) fn login_response_too_large(size: usize) -> String {
    format!("a response of {size} bytes during a login, where the maximum is {LOGIN_LIMIT}: is this a Kafka broker?")
}

impl Shared {
    /// Returns true if the next frame is expected to be a raw token.
    pub(super) fn expects_raw(&self) -> bool {
        self.in_flight().pending.front().is_some_and(|oldest| matches!(oldest.reply, Reply::Raw(_)))
    }
}

/// Reads a raw token, which is the response to the oldest request.
pub(super) async fn read_raw(
    mut reader: Reader,
    (mut length, received): FrameStart,
    shared: &Arc<Shared>,
    max_size: usize,
) -> Result<Reader> {
    let address = &shared.address;
    let Some(pending) = shared.take_oldest() else {
        return Err(Error::protocol(address.clone(), "a response arrived that belongs to no request"));
    };
    let limit = pending.limit.0;
    let read = async {
        let rest = length.get_mut(received..).unwrap_or_default();
        let head = timeout(limit, reader.read_exact(rest)).await.map_err(|_| body_timeout(address, limit))?;
        head.map_err(|e| read_error(address, &e))?;
        let size = i32::from_be_bytes(length);
        let size = usize::try_from(size).map_err(|_| {
            Error::protocol(address.clone(), format!("not a Kafka broker: invalid response length {size}"))
        })?;
        if size > LOGIN_LIMIT.min(max_size) {
            return Err(Error::protocol(address.clone(), login_response_too_large(size)));
        }
        let mut token = BytesMut::new();
        timeout(limit, read_rest(&mut reader, address, &mut token, size, pending.limit))
            .await
            .unwrap_or_else(|_| Err(body_timeout(address, limit)))?;
        Ok(token.freeze())
    };
    match (read.await, pending.reply) {
        (Ok(token), Reply::Raw(reply)) => {
            let _ = reply.send(Ok(token));
            Ok(reader)
        }
        (Ok(_), other) => {
            let error = Error::protocol(address.clone(), "a response arrived that belongs to no request");
            other.fail(error.clone());
            Err(error)
        }
        (Err(error), reply) => {
            reply.fail(error.clone());
            Err(error)
        }
    }
}
