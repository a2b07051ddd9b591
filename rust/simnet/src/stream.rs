//! A connected stream and its halves.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::time::{Sleep, sleep_until};

use crate::pipe::{Pipe, Read};

/// Both directions of a connection, for reads and writes that do not wait.
#[derive(Debug, Clone)]
pub struct Duplex {
    read: Arc<Pipe>,
    write: Arc<Pipe>,
}

impl Duplex {
    /// Reads the available bytes without waiting.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if no bytes are available, or if the connection was reset.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(into);
        match self.read.read(&Context::from_waker(Waker::noop()), &mut buffer, true) {
            Read::Ready(result) => result.map(|()| buffer.filled().len()),
            Read::At(_) | Read::Idle => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Writes the bytes that fit into the pipe, without waiting.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if the pipe is full, or if the connection was closed or reset.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.write.write(&Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// The reading half of a [`TcpStream`].
#[derive(Debug)]
pub struct OwnedReadHalf {
    duplex: Duplex,
    /// Timer for bytes in flight.
    arrival: Option<Pin<Box<Sleep>>>,
}

/// The writing half of a [`TcpStream`]. Dropping it closes the stream for the reader.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    duplex: Duplex,
}

impl AsRef<Duplex> for OwnedReadHalf {
    fn as_ref(&self) -> &Duplex {
        &self.duplex
    }
}

impl AsRef<Duplex> for OwnedWriteHalf {
    fn as_ref(&self) -> &Duplex {
        &self.duplex
    }
}

impl OwnedWriteHalf {
    /// Writes the bytes that fit into the pipe, without waiting.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if the pipe is full, or if the connection was closed or reset.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.duplex.try_write(bytes)
    }
}

/// A connected stream.
#[derive(Debug)]
pub struct TcpStream {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Drop for OwnedReadHalf {
    fn drop(&mut self) {
        self.duplex.read.drop_reader();
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        self.duplex.write.close();
    }
}

impl TcpStream {
    pub(crate) fn new(read: Arc<Pipe>, write: Arc<Pipe>, local: SocketAddr, peer: SocketAddr) -> Self {
        let duplex = Duplex { read, write };
        let reader = OwnedReadHalf { duplex: duplex.clone(), arrival: None };
        Self { reader, writer: OwnedWriteHalf { duplex }, local, peer }
    }

    /// Does nothing: writes are never delayed to be combined.
    ///
    /// # Errors
    /// Never fails.
    pub fn set_nodelay(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// Never fails.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// Never fails.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }

    /// Reads bytes without removing them.
    ///
    /// # Errors
    /// Fails if the connection was reset.
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut arrival = None;
        let mut buffer = ReadBuf::new(into);
        poll_fn(|cx| poll_read(&self.reader.duplex.read, &mut arrival, cx, &mut buffer, false)).await?;
        Ok(buffer.filled().len())
    }

    /// Waits until the stream can be read.
    ///
    /// # Errors
    /// Fails if the connection was reset.
    pub async fn ready(&self, _: Interest) -> io::Result<Ready> {
        let read = self.peek(&mut [0]).await?;
        Ok(if read == 0 { Ready::READ_CLOSED } else { Ready::READABLE })
    }

    /// Returns true if the other end has closed or lost the connection, even if this end cannot know it yet.
    pub fn is_abandoned(&self) -> bool {
        self.reader.duplex.read.is_closed()
    }

    /// Splits the stream into its halves.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        (self.reader, self.writer)
    }
}

fn poll_read(
    pipe: &Pipe,
    arrival: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
    consume: bool,
) -> Poll<io::Result<()>> {
    if buffer.remaining() == 0 {
        return Poll::Ready(Ok(()));
    }
    loop {
        match pipe.read(cx, buffer, consume) {
            Read::Ready(result) => {
                *arrival = None;
                return Poll::Ready(result);
            }
            Read::At(at) => {
                let timer = arrival.get_or_insert_with(|| Box::pin(sleep_until(at)));
                if timer.deadline() != at {
                    timer.as_mut().reset(at);
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                *arrival = None;
            }
            Read::Idle => {
                *arrival = None;
                return Poll::Pending;
            }
        }
    }
}

impl AsyncRead for OwnedReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        poll_read(&this.duplex.read, &mut this.arrival, cx, buffer, true)
    }
}

impl AsyncWrite for OwnedWriteHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.duplex.write.write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.duplex.write.close();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().reader).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().writer).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_shutdown(cx)
    }
}
