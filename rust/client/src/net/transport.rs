//! The bytes of a connection.

use std::io;

use bytes::{BufMut, BytesMut};
use samsarrow_wire::messages::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::tls_stream::{TlsReader, TlsWriter};

/// What comes in.
pub(super) enum Reader {
    /// In the clear.
    Plain(OwnedReadHalf),
    /// Over TLS.
    Tls(TlsReader),
}

/// What goes out.
pub(super) enum Writer {
    /// In the clear.
    Plain(OwnedWriteHalf),
    /// Over TLS.
    Tls(TlsWriter),
}

/// Both ways of a socket, in the clear.
pub(super) fn plain(stream: TcpStream) -> (Reader, Writer) {
    let (reader, writer) = stream.into_split();
    (Reader::Plain(reader), Writer::Plain(writer))
}

impl Reader {
    /// What is there, 0 at the end. Nothing is lost if the future is dropped.
    pub(super) async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into).await,
            Self::Tls(tls) => {
                let room = into.len();
                let mut free = into;
                tls.read(room, |plain| free.put_slice(plain)).await
            }
        }
    }

    /// All of `into`.
    pub(super) async fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.read_exact(into).await.map(drop),
            Self::Tls(_) => {
                let mut read = 0;
                while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
                    match self.read(rest).await? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        more => read += more,
                    }
                }
                Ok(())
            }
        }
    }

    /// What is there, into the room that `into` has, at most `most` bytes; 0 at the end.
    pub(super) async fn read_some(&mut self, into: &mut BytesMut, most: usize) -> io::Result<usize> {
        let step = most.min(into.capacity() - into.len());
        match self {
            Self::Plain(socket) => socket.take(step as u64).read_buf(into).await,
            Self::Tls(tls) => tls.read(step, |plain| into.extend_from_slice(plain)).await,
        }
    }
}

impl Writer {
    /// The whole frame.
    pub(super) async fn write_all(&mut self, frame: &mut Frame) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all_buf(frame).await,
            Self::Tls(tls) => tls.write_all(frame).await,
        }
    }
}
