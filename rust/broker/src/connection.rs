//! A client connection: reads request frames and writes the responses in the same order.
//!
//! The requests of a connection are handled one after another, as in Kafka. A protocol error closes the connection, but
//! does not affect others.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use samsarrow_wire::sync::lock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::api::{self, Outcome};
use crate::security::{Session, Stream};
use crate::socket::TcpStream;
use crate::state::State;

const READ_BYTES: usize = 16 << 10;
/// Maximum buffer capacity in bytes that is allocated before the bytes arrive.
const READ_AHEAD: usize = 1 << 20;
/// Maximum capacity in bytes of a read buffer that is reused for the next frame.
const MAX_KEPT_BYTES: usize = 8 << 20;
const MAX_SLICES: usize = 64;
/// Time within which a throttled response reaches a client, and earlier requests of the client arrive.
const RESPONSE_TIME: Duration = Duration::from_millis(250);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Closes the share sessions of a connection on drop, including when its node stops.
struct Connection<'a> {
    state: &'a State,
    number: u64,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.state.close_share_sessions_of(self.number);
    }
}

/// Serves a connection until it is closed or the node stops.
pub(crate) async fn serve(
    node: i32,
    stream: TcpStream,
    peer: SocketAddr,
    state: Arc<State>,
    mut stopped: watch::Receiver<bool>,
) {
    let result = tokio::select! {
        result = run(node, stream, &state) => result,
        _ = stopped.changed() => Ok(()),
    };
    if let Err(error) = result {
        tracing::debug!(node, %peer, %error, "closed a connection");
    }
}

async fn run(node: i32, stream: TcpStream, state: &State) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = state.security.accept(stream).await?;
    let connection = Connection { state, number: state.new_connection() };
    let result = handle_requests(node, &mut stream, state, connection.number).await;
    drop(connection);
    // Over TLS, the shutdown sends close_notify. The timeout prevents a peer that stops reading from blocking the
    // shutdown.
    let _gone = timeout(SHUTDOWN_TIMEOUT, stream.shutdown()).await;
    result
}

async fn handle_requests(node: i32, stream: &mut Stream, state: &State, connection: u64) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    let session = Mutex::new(Session::new(&state.security.options));
    loop {
        let (cap, raw) = {
            let session = lock(&session);
            (session.max_frame_bytes(state.options.request_max_bytes), session.expects_raw_token())
        };
        let Some(frame) = read_frame(stream, &mut buffer, cap).await? else {
            return Ok(());
        };
        let outcome = if raw {
            api::raw_token(node, &frame, state, &mut lock(&session))
        } else {
            api::dispatch(node, frame, state, (stream, connection), &session).await
        };
        // Without a response (acks=0), the client does not know of the throttle time.
        let notified = !matches!(outcome, Outcome::Silent);
        match outcome {
            Outcome::Reply(chunks) => write_all(stream, chunks).await?,
            Outcome::Silent => (),
            Outcome::Last(chunks, reason) => {
                write_all(stream, chunks).await?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            Outcome::Close(reason) => return Err(io::Error::new(io::ErrorKind::InvalidData, reason)),
        }
        let muted_until = lock(&session).take_muted_until();
        if let Some(until) = muted_until {
            stay_muted(stream, &mut buffer, until, state, notified).await?;
        }
    }
}

/// Handles no request until a time. Counts clients that send requests after the throttled response (KIP-219).
async fn stay_muted(
    stream: &mut Stream,
    buffer: &mut BytesMut,
    until: Instant,
    state: &State,
    notified: bool,
) -> io::Result<()> {
    let since = Instant::now();
    let mut counted = !notified;
    loop {
        buffer.reserve(READ_BYTES);
        tokio::select! {
            biased;
            () = sleep_until(until) => return Ok(()),
            read = stream.read_buf(buffer), if buffer.len() < READ_AHEAD => {
                if read? == 0 {
                    return Ok(());
                }
                if !counted && since.elapsed() > RESPONSE_TIME {
                    counted = true;
                    state.sent_while_muted.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Reads the next frame and returns it without the length prefix. Returns `None` if the peer closed the connection
/// between frames.
async fn read_frame(stream: &mut Stream, buffer: &mut BytesMut, cap: usize) -> io::Result<Option<Bytes>> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    while buffer.len() < 4 {
        buffer.reserve(READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return if buffer.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    }
    let claimed = buffer.get_i32();
    let size = usize::try_from(claimed).map_err(|_| invalid(format!("a frame claims {claimed} bytes")))?;
    if size > cap {
        return Err(invalid(format!("a frame of {size} bytes exceeds the limit of {cap}")));
    }
    while buffer.len() < size {
        // The buffer grows as data arrives, so that a large length prefix alone does not cause a large allocation.
        buffer.reserve((size - buffer.len()).min(READ_AHEAD.max(buffer.len())));
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let frame = buffer.split_to(size).freeze();
    if size > MAX_KEPT_BYTES && buffer.is_empty() {
        // The buffer is reused for the next frames, but a very large one is released.
        *buffer = BytesMut::new();
    }
    Ok(Some(frame))
}

async fn write_all(stream: &mut Stream, chunks: Vec<Bytes>) -> io::Result<()> {
    let mut chunks: VecDeque<Bytes> = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
    while !chunks.is_empty() {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut used = 0;
        for (slice, chunk) in slices.iter_mut().zip(&chunks) {
            *slice = IoSlice::new(chunk);
            used += 1;
        }
        let mut written = stream.write_vectored(slices.get(..used).unwrap_or_default()).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        while let Some(first) = chunks.front_mut() {
            if written < first.len() {
                first.advance(written);
                break;
            }
            written -= first.len();
            chunks.pop_front();
        }
    }
    // TLS keeps data in its own buffer if the socket is not ready, so it must be flushed.
    stream.flush().await
}
