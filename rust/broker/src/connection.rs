//! One client connection: frames in, answers out, in order.
//!
//! Requests of a connection are handled one after the other, as Kafka does; what a client does wrong ends its own
//! connection and nothing else.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::api::{self, Outcome};
use crate::state::State;

const READ_BYTES: usize = 16 << 10;
/// The most that is allocated ahead of the bytes that have come.
const READ_AHEAD: usize = 1 << 20;
/// A connection keeps a buffer of this size at most from one frame to the next.
const KEPT_BYTES: usize = 8 << 20;
const SLICES_AT_ONCE: usize = 64;

/// Serves a connection until it or the node ends.
pub(crate) async fn serve(
    node: i32,
    stream: TcpStream,
    peer: SocketAddr,
    state: Arc<State>,
    mut stopped: watch::Receiver<bool>,
) {
    let served = tokio::select! {
        served = run(node, stream, &state) => served,
        _ = stopped.changed() => Ok(()),
    };
    if let Err(error) = served {
        tracing::debug!(node, %peer, %error, "closed a connection");
    }
}

async fn run(node: i32, mut stream: TcpStream, state: &State) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::new();
    loop {
        let Some(frame) = read_frame(&mut stream, &mut buffer, state.options.request_max_bytes).await? else {
            return Ok(());
        };
        match api::dispatch(node, frame, state, &stream).await {
            Outcome::Reply(chunks) => write_all(&mut stream, chunks).await?,
            Outcome::Silent => (),
            Outcome::Close(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
        }
    }
}

/// Resolves when the peer has closed; never, if it has sent more bytes already. For requests that wait: what the client
/// sent before it left is handled all the same.
pub(crate) async fn hung_up(stream: &TcpStream) {
    match stream.peek(&mut [0]).await {
        Ok(0) | Err(_) => (),
        Ok(_) => std::future::pending().await,
    }
}

/// The next frame without its length; `None` where the peer closed between frames.
async fn read_frame(stream: &mut TcpStream, buffer: &mut BytesMut, cap: usize) -> io::Result<Option<Bytes>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
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
        // Grows with what arrives: a length alone allocates little.
        buffer.reserve((size - buffer.len()).min(READ_AHEAD.max(buffer.len())));
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let frame = buffer.split_to(size).freeze();
    if size > KEPT_BYTES && buffer.is_empty() {
        // The next frames share this allocation, which is right for usual ones; a huge one must not stay for ever.
        *buffer = BytesMut::new();
    }
    Ok(Some(frame))
}

async fn write_all(stream: &mut TcpStream, chunks: Vec<Bytes>) -> io::Result<()> {
    let mut chunks: VecDeque<Bytes> = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
    while !chunks.is_empty() {
        let mut slices = [IoSlice::new(&[]); SLICES_AT_ONCE];
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
    Ok(())
}
