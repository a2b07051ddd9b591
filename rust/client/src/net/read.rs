//! What comes in on a connection: answers, read whole or by those who asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::in_flight::{FrameBody, Reply, Shared};
use super::raw_sasl::{LOGIN_LIMIT, read_raw, too_much_for_a_login};
use super::read_frame::{Begun, CLOSED, READ_STEP, broke, read_rest, rest_late};
use super::transport::Reader;
use crate::error::{Error, Result};

pub(super) async fn read_all(mut reader: Reader, shared: Arc<Shared>, limit: usize, idle: Option<Duration>) {
    loop {
        let answer = async {
            let begun = wait_for_answer(&mut reader, &shared, idle).await?;
            read_answer(reader, begun, &shared, limit).await
        };
        reader = match answer.await {
            Ok(reader) => reader,
            Err(error) => {
                shared.poison(error);
                return;
            }
        };
    }
}

/// Returns when an answer begins, for which no broker may keep us waiting for too long. A frame is never given up half
/// read, and no wait for an answer is idleness.
async fn wait_for_answer(reader: &mut Reader, shared: &Shared, idle: Option<Duration>) -> Result<Begun> {
    let address = &shared.address;
    let mut length = [0; 4];
    loop {
        let overdue = async {
            match shared.look_at(idle) {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            read = reader.read(&mut length) => return match read.map_err(|e| broke(address, &e))? {
                0 => Err(Error::connection(address, CLOSED)),
                read => Ok((length, read)),
            },
            () = shared.asked.notified() => {}
            () = overdue => if let Some(error) = shared.overdue(idle) {
                return Err(error);
            }
        }
    }
}

/// Reads one answer for the oldest waiter, whose it must be, or lets that waiter read it.
async fn read_answer(
    mut reader: Reader,
    (mut length, begun): Begun,
    shared: &Arc<Shared>,
    limit: usize,
) -> Result<Reader> {
    let address = &shared.address;
    if shared.is_raw() {
        return read_raw(reader, (length, begun), shared, limit).await;
    }
    let patience = shared.waiting().pending.front().map_or(Duration::MAX, |oldest| oldest.limit.0);
    let head = async {
        let rest = length.get_mut(begun..).unwrap_or_default();
        reader.read_exact(rest).await.map_err(|e| broke(address, &e))?;
        // Anyone who does not speak Kafka may never send more than this.
        let size =
            frame_size(length, limit, shared.logs_in()).map_err(|reason| Error::protocol(address.clone(), reason))?;
        let mut id = [0; 4];
        reader.read_exact(&mut id).await.map_err(|e| broke(address, &e))?;
        Ok((size, id))
    };
    let (size, id) = timeout(patience, head).await.unwrap_or_else(|_| Err(rest_late(address, patience)))?;
    let found = i32::from_be_bytes(id);
    let Some(pending) = shared.take_oldest() else {
        return Err(Error::protocol(address.clone(), "an answer to nothing that was asked"));
    };
    if pending.correlation_id != found {
        let reason = format!("an answer with correlation id {found} instead of {}", pending.correlation_id);
        let error = Error::protocol(address.clone(), reason);
        pending.reply.fail(error.clone());
        return Err(error);
    }
    if let Some(meter) = shared.meter.get() {
        let left = pending.expires.saturating_duration_since(Instant::now());
        meter.answered(pending.api, size + 4, pending.limit.0.saturating_sub(left));
    }
    let given_up = pending.reply.is_given_up();
    match pending.reply {
        Reply::Whole(reply) if !given_up => {
            let mut frame = BytesMut::with_capacity(size.min(READ_STEP));
            frame.extend_from_slice(&id);
            let rest = read_rest(&mut reader, address, &mut frame, size, pending.limit).await;
            let _ = reply.send(rest.clone().map(|()| frame.freeze()));
            rest.map(|()| reader)
        }
        reply => {
            let (back, returned) = oneshot::channel();
            let way = Some((reader, back));
            let body = FrameBody { way, left: size - 4, limit: pending.limit.0, shared: Arc::clone(shared) };
            let unwanted = match reply {
                Reply::Body(reply) => reply.send(Ok(body)).err().and_then(Result::ok),
                Reply::Whole(_) | Reply::Raw(_) => Some(body),
            };
            if let Some(body) = unwanted {
                tracing::debug!(address, api = pending.api, "a response arrived after its caller had stopped waiting");
                body.discard().await?;
            }
            // Anyone who drops it half read has broken the connection and has said why.
            returned.await.map_err(|_| Error::connection(address.clone(), "an answer was given up half read"))
        }
    }
}

/// The length of a frame, or why it cannot be one.
fn frame_size(bytes: [u8; 4], limit: usize, logs_in: bool) -> std::result::Result<usize, String> {
    match &bytes {
        b"HTTP" => return Err("does not speak Kafka: it answers in HTTP".into()),
        [0x15 | 0x16, 0x03, _, _] => {
            return Err(
                "speaks TLS there, and was spoken to in the clear: set security.protocol=SSL, or SASL_SSL where \
                        there is a login"
                    .into(),
            );
        }
        _ => {}
    }
    let length = i32::from_be_bytes(bytes);
    match usize::try_from(length) {
        Ok(size) if logs_in && size > LOGIN_LIMIT => Err(too_much_for_a_login(size)),
        Ok(size) if (4..=limit).contains(&size) => Ok(size),
        Ok(size) if size > limit => Err(format!(
            "an answer of {size} bytes is more than receive.message.max.bytes ({limit}); or this is not a Kafka broker"
        )),
        _ => Err(format!("does not speak Kafka: an answer of {length} bytes cannot be")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGIN_TOO_MUCH: [u8; 4] = [0, 8, 0, 1];

    #[test]
    fn lengths_that_cannot_be_are_explained() {
        assert_eq!(frame_size(100i32.to_be_bytes(), 1000, false), Ok(100));
        assert!(frame_size(*b"HTTP", 1 << 40, false).unwrap_err().contains("HTTP"));
        assert!(frame_size([0x15, 3, 3, 0], 1 << 40, false).unwrap_err().contains("TLS"));
        assert!(frame_size(2000i32.to_be_bytes(), 1000, false).unwrap_err().contains("receive.message.max.bytes"));
        assert!(frame_size((-1i32).to_be_bytes(), 1000, false).unwrap_err().contains("-1"));
        assert!(frame_size(LOGIN_TOO_MUCH, 1 << 40, true).unwrap_err().contains("during a login"));
        assert!(frame_size(LOGIN_TOO_MUCH, 1 << 40, false).is_ok());
        assert!(frame_size(3i32.to_be_bytes(), 1000, false).unwrap_err().contains("3 bytes"));
    }
}
