//! One direction of a connection.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::ReadBuf;
use tokio::time::Instant;

use crate::lock;
use crate::network::Network;

/// Maximum number of bytes that were written and not read yet: a socket's send and receive buffers together.
const CAPACITY: usize = 256 << 10;

#[derive(Debug, Default)]
struct State {
    /// Bytes in flight, each with the time of its arrival.
    segments: VecDeque<(Instant, Bytes)>,
    in_flight: usize,
    last_arrival: Option<Instant>,
    /// Time at which the end of the stream reaches the reader.
    closed_at: Option<Instant>,
    reader_dropped: bool,
    reset: bool,
    /// Bytes do not arrive before this time, as with lost packets that are sent again.
    stalled_until: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Bytes from one end of a connection to the other.
#[derive(Debug)]
pub(crate) struct Pipe {
    network: Network,
    connection: u64,
    /// True from the connecting end to the accepting end.
    forward: bool,
    state: Mutex<State>,
}

/// Result of [`Pipe::read`].
pub(crate) enum Read {
    /// Bytes were read, or the end of the stream or an error was reached.
    Ready(io::Result<()>),
    /// Nothing arrives before this time.
    At(Instant),
    /// Nothing is in flight; the waker is registered.
    Idle,
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Pipe {
    pub(crate) fn new(network: Network, connection: u64, forward: bool) -> Arc<Self> {
        Arc::new(Self { network, connection, forward, state: Mutex::default() })
    }

    /// Reads bytes that have arrived. With `consume` unset, leaves them in the pipe.
    pub(crate) fn read(&self, cx: &Context<'_>, buffer: &mut ReadBuf<'_>, consume: bool) -> Read {
        let mut state = lock(&self.state);
        if state.reset {
            return Read::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let now = Instant::now();
        let stalled_until = state.stalled_until.filter(|until| *until > now);
        let mut next = state.segments.front().map(|(arrival, _)| *arrival).or(state.closed_at);
        if let (Some(next), Some(until)) = (&mut next, stalled_until) {
            *next = (*next).max(until);
        }
        match next {
            Some(at) if at > now => {
                state.reader = Some(cx.waker().clone());
                Read::At(at)
            }
            Some(_) => {
                let Some((_, segment)) = state.segments.front_mut() else { return Read::Ready(Ok(())) };
                let length = segment.len().min(buffer.remaining());
                // Some reads end within a frame, as on a real network.
                let length = if consume { self.network.cut(length) } else { length };
                buffer.put_slice(segment.get(..length).unwrap_or_default());
                if consume {
                    segment.advance(length);
                    if segment.is_empty() {
                        state.segments.pop_front();
                    }
                    state.in_flight -= length;
                    wake(&mut state.writer);
                }
                Read::Ready(Ok(()))
            }
            None => {
                state.reader = Some(cx.waker().clone());
                Read::Idle
            }
        }
    }

    /// Writes as many bytes as there is capacity for.
    pub(crate) fn write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.state);
        if state.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.reader_dropped || state.closed_at.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let length = bytes.len().min(CAPACITY - state.in_flight);
        if length == 0 && !bytes.is_empty() {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let bytes = bytes.get(..length).unwrap_or_default();
        let arrival = (Instant::now() + self.network.latency()).max(state.last_arrival.unwrap_or_else(Instant::now));
        state.last_arrival = Some(arrival);
        state.in_flight += length;
        state.segments.push_back((arrival, Bytes::copy_from_slice(bytes)));
        wake(&mut state.reader);
        self.network.trace_write(self.connection, self.forward, bytes);
        Poll::Ready(Ok(length))
    }

    /// Closes the writing end: the reader gets the end of the stream after the bytes in flight.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        if state.stalled_until.is_some_and(|until| until > Instant::now()) && !self.network.delivers_late() {
            state.segments.clear();
        }
        if state.closed_at.is_none() {
            let arrival =
                (Instant::now() + self.network.latency()).max(state.last_arrival.unwrap_or_else(Instant::now));
            state.closed_at = Some(arrival);
            wake(&mut state.reader);
        }
    }

    /// Discards the bytes in flight, because the reading end was dropped.
    pub(crate) fn drop_reader(&self) {
        let mut state = lock(&self.state);
        state.reader_dropped = true;
        state.segments.clear();
        wake(&mut state.writer);
    }

    /// Fails all reads and writes from now on.
    pub(crate) fn reset(&self) {
        let mut state = lock(&self.state);
        state.reset = true;
        state.segments.clear();
        wake(&mut state.reader);
        wake(&mut state.writer);
    }

    /// Delays all bytes, also those in flight, until a time.
    pub(crate) fn stall(&self, until: Instant) {
        let mut state = lock(&self.state);
        state.stalled_until = state.stalled_until.max(Some(until));
        wake(&mut state.reader);
    }

    /// Returns true if the writing end was closed, or the connection was reset.
    pub(crate) fn is_closed(&self) -> bool {
        let state = lock(&self.state);
        state.reset || state.closed_at.is_some()
    }

    /// Returns true if neither end is used any more.
    pub(crate) fn is_dead(&self) -> bool {
        let state = lock(&self.state);
        state.reset || (state.reader_dropped && state.closed_at.is_some())
    }
}
