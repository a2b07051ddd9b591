//! Frames that are no requests: the tokens of a mechanism as they are, after SaslHandshake v0 (KIP-43).

use std::sync::Arc;

use bytes::BytesMut;
use tokio::time::timeout;

use super::in_flight::{Reply, Shared};
use super::read_frame::{Begun, broke, read_rest, rest_late};
use super::transport::Reader;
use crate::error::{Error, Result};

/// The longest frame before a login has succeeded: the same as brokers take themselves.
pub(super) const LOGIN_LIMIT: usize = 512 * 1024;

/// Why a longer one is refused.
pub(super) fn too_much_for_a_login(size: usize) -> String {
    format!("an answer of {size} bytes during a login, where {LOGIN_LIMIT} are the most: is this a Kafka broker?")
}

impl Shared {
    /// Whether what comes next is a token.
    pub(super) fn is_raw(&self) -> bool {
        self.waiting().pending.front().is_some_and(|oldest| matches!(oldest.reply, Reply::Raw(_)))
    }
}

/// Reads a token for the one that waits for it.
pub(super) async fn read_raw(
    mut reader: Reader,
    (mut length, begun): Begun,
    shared: &Arc<Shared>,
    limit: usize,
) -> Result<Reader> {
    let address = &shared.address;
    let Some(pending) = shared.take_oldest() else {
        return Err(Error::protocol(address.clone(), "an answer to nothing that was asked"));
    };
    let patience = pending.limit.0;
    let read = async {
        let rest = length.get_mut(begun..).unwrap_or_default();
        let head = timeout(patience, reader.read_exact(rest)).await.map_err(|_| rest_late(address, patience))?;
        head.map_err(|e| broke(address, &e))?;
        let size = i32::from_be_bytes(length);
        let size = usize::try_from(size).map_err(|_| {
            Error::protocol(address.clone(), format!("does not speak Kafka: an answer of {size} bytes cannot be"))
        })?;
        if size > LOGIN_LIMIT.min(limit) {
            return Err(Error::protocol(address.clone(), too_much_for_a_login(size)));
        }
        let mut token = BytesMut::new();
        timeout(patience, read_rest(&mut reader, address, &mut token, size, pending.limit))
            .await
            .unwrap_or_else(|_| Err(rest_late(address, patience)))?;
        Ok(token.freeze())
    };
    match (read.await, pending.reply) {
        (Ok(token), Reply::Raw(reply)) => {
            let _ = reply.send(Ok(token));
            Ok(reader)
        }
        (Ok(_), other) => {
            let error = Error::protocol(address.clone(), "an answer to nothing that was asked");
            other.fail(error.clone());
            Err(error)
        }
        (Err(error), reply) => {
            reply.fail(error.clone());
            Err(error)
        }
    }
}
