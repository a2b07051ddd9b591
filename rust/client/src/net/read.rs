//! The reading task of a connection. It reads responses as whole frames, or lets the caller read the body.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use samsarrow_wire::frame;
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout};

use super::in_flight::{FrameBody, Reply, Shared};
use super::raw_sasl::{LOGIN_LIMIT, login_response_too_large, read_raw};
use super::read_frame::{CLOSED, FrameStart, READ_STEP, body_timeout, read_error, read_rest};
use super::throttle::FIRST_FIELD;
use super::transport::Reader;
use crate::error::{Error, Result};

/// Length of a correlation id.
const ID: usize = 4;

pub(super) async fn read_all(mut reader: Reader, shared: Arc<Shared>, limit: usize, idle: Option<Duration>) {
    loop {
        let response = async {
            let start = wait_for_response(&mut reader, &shared, idle).await?;
            read_response(reader, start, &shared, limit).await
        };
        reader = match response.await {
            Ok(reader) => reader,
            Err(error) => {
                shared.poison(error);
                return;
            }
        };
    }
}

/// Waits until a response begins. Fails if the oldest request is past its deadline or the connection is idle. A frame
/// that has begun to arrive is not interrupted by these checks, and a connection that waits for a response is not idle.
async fn wait_for_response(reader: &mut Reader, shared: &Shared, idle: Option<Duration>) -> Result<FrameStart> {
    let address = &shared.address;
    let mut length = [0; 4];
    loop {
        let next_check = async {
            match shared.next_check(idle) {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            read = reader.read(&mut length) => return match read.map_err(|e| read_error(address, &e))? {
                0 => Err(Error::connection(address, CLOSED)),
                read => Ok((length, read)),
            },
            () = shared.request_queued.notified() => {}
            () = next_check => if let Some(error) = shared.check_deadlines(idle) {
                return Err(error);
            }
        }
    }
}

/// Reads the response to the oldest request, or hands the socket to the caller that reads the response body itself.
async fn read_response(
    mut reader: Reader,
    (mut length, received): FrameStart,
    shared: &Arc<Shared>,
    limit: usize,
) -> Result<Reader> {
    let address = &shared.address;
    if shared.expects_raw() {
        return read_raw(reader, (length, received), shared, limit).await;
    }
    let (timeout_limit, is_body) = {
        let in_flight = shared.in_flight();
        let oldest = in_flight.pending.front();
        let is_body = oldest.is_some_and(|oldest| matches!(oldest.reply, Reply::Body(_)));
        (oldest.map_or(Duration::MAX, |oldest| oldest.limit.0), is_body)
    };
    let head = async {
        let rest = length.get_mut(received..).unwrap_or_default();
        reader.read_exact(rest).await.map_err(|e| read_error(address, &e))?;
        // The length is checked first, so that a server with another protocol cannot make the client wait for more
        // bytes.
        let size = frame_size(length, limit, shared.is_logging_in())
            .map_err(|reason| Error::protocol(address.clone(), reason))?;
        let mut start = [0; ID + FIRST_FIELD];
        let received = if is_body { size.min(start.len()) } else { ID };
        let start = start.get_mut(..received).unwrap_or_default();
        reader.read_exact(start).await.map_err(|e| read_error(address, &e))?;
        let id = frame::correlation_id(start).ok_or_else(|| {
            Error::protocol(address.clone(), format!("a response of {size} bytes has no correlation id"))
        })?;
        Ok((size, id, Bytes::copy_from_slice(start)))
    };
    let (size, correlation_id, mut start) =
        timeout(timeout_limit, head).await.unwrap_or_else(|_| Err(body_timeout(address, timeout_limit)))?;
    let Some(pending) = shared.take_oldest() else {
        return Err(Error::protocol(address.clone(), "a response arrived that belongs to no request"));
    };
    if pending.correlation_id != correlation_id {
        let reason = format!("a response with correlation id {correlation_id} instead of {}", pending.correlation_id);
        let error = Error::protocol(address.clone(), reason);
        pending.reply.fail(error.clone());
        return Err(error);
    }
    if let Some(meter) = shared.meter.get() {
        meter.answered(pending.api, size + 4, pending.latency());
    }
    tracing::trace!(
        client_id = shared.client_id,
        correlation_id,
        bytes = size + 4,
        latency_ms = pending.latency().as_micros() as f64 / 1000.0,
        "received the response to {} from {address}",
        pending.api
    );
    let log_undelivered = || {
        tracing::debug!(
            client_id = shared.client_id,
            "the response to {} from {address} arrived after its caller had stopped waiting",
            pending.api
        );
    };
    match pending.reply {
        Reply::Whole(reply) | Reply::Raw(reply) => {
            let mut frame = BytesMut::with_capacity(size.min(READ_STEP));
            frame.extend_from_slice(&start);
            if let Err(error) = read_rest(&mut reader, address, &mut frame, size, pending.limit).await {
                let _ = reply.send(Err(error.clone()));
                return Err(error);
            }
            let frame = frame.freeze();
            shared.apply_throttle(pending.api, pending.throttle, frame.clone());
            if reply.send(Ok(frame)).is_err() {
                log_undelivered();
            }
            Ok(reader)
        }
        Reply::Body(reply) => {
            shared.apply_throttle(pending.api, pending.throttle, start.clone());
            start.advance(ID);
            let (return_reader, returned) = oneshot::channel();
            let (reader, limit) = (Some((reader, return_reader)), pending.limit.0);
            let body = FrameBody { reader, remaining: size - ID, start, limit, shared: Arc::clone(shared) };
            if let Some(body) = reply.send(Ok(body)).err().and_then(Result::ok) {
                log_undelivered();
                body.discard().await?;
            }
            // If the caller drops the body early, it has already poisoned the connection with its error.
            returned
                .await
                .map_err(|_| Error::connection(address.clone(), "a response was dropped before it was read completely"))
        }
    }
}

/// Returns the length of a frame, or the reason for rejecting it.
fn frame_size(bytes: [u8; 4], limit: usize, is_logging_in: bool) -> std::result::Result<usize, String> {
    match &bytes {
        // Servers respond to requests that are not HTTP with a status line, or only with a page.
        b"HTTP" | b"<!DO" | b"<!do" | b"<HTM" | b"<htm" => {
            return Err("does not speak Kafka: it responds with HTTP".into());
        }
        [0x15 | 0x16, 0x03, _, _] => {
            return Err(
                "the listener uses TLS, and the client does not: set security.protocol=SSL, or SASL_SSL where \
                        there is a login"
                    .into(),
            );
        }
        _ => {}
    }
    let length = i32::from_be_bytes(bytes);
    match usize::try_from(length) {
        Ok(size) if is_logging_in && size > LOGIN_LIMIT => Err(login_response_too_large(size)),
        Ok(size) if (4..=limit).contains(&size) => Ok(size),
        Ok(size) if size > limit => Err(format!(
            "a response of {size} bytes is more than receive.message.max.bytes ({limit}); or this is not a Kafka broker"
        )),
        _ => Err(format!("not a Kafka broker: invalid response length {length}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOVE_LOGIN_LIMIT: [u8; 4] = [0, 8, 0, 1];

    #[test]
    fn frame_size_rejects_invalid_lengths() {
        assert_eq!(frame_size(100i32.to_be_bytes(), 1000, false), Ok(100));
        assert!(frame_size(*b"HTTP", 1 << 40, false).unwrap_err().contains("HTTP"));
        assert!(frame_size([0x15, 3, 3, 0], 1 << 40, false).unwrap_err().contains("TLS"));
        assert!(frame_size(2000i32.to_be_bytes(), 1000, false).unwrap_err().contains("receive.message.max.bytes"));
        assert!(frame_size((-1i32).to_be_bytes(), 1000, false).unwrap_err().contains("-1"));
        assert!(frame_size(ABOVE_LOGIN_LIMIT, 1 << 40, true).unwrap_err().contains("during a login"));
        assert!(frame_size(ABOVE_LOGIN_LIMIT, 1 << 40, false).is_ok());
        assert!(frame_size(3i32.to_be_bytes(), 1000, false).unwrap_err().contains("length 3"));
    }
}
