//! The reading and writing halves of a connection, with or without TLS.

use std::io;

use bytes::{BufMut, BytesMut};
use samsarrow_wire::messages::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::socket::{OwnedReadHalf, OwnedWriteHalf, TcpStream};
use super::tls_stream::{TlsReader, TlsWriter};

/// The reading half.
pub(super) enum Reader {
    /// Plaintext.
    Plain(OwnedReadHalf),
    /// TLS.
    Tls(TlsReader),
}

/// The writing half.
pub(super) enum Writer {
    /// Plaintext.
    Plain(OwnedWriteHalf),
    /// TLS.
    Tls(TlsWriter),
}

/// Splits a plaintext socket into a reader and a writer.
pub(super) fn plain(stream: TcpStream) -> (Reader, Writer) {
    let (reader, writer) = stream.into_split();
    (Reader::Plain(reader), Writer::Plain(writer))
}

impl Reader {
    /// Reads the available bytes. Returns 0 at the end of the stream. Cancel-safe: no bytes are lost if the future is
    /// dropped.
    pub(super) async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into).await,
            Self::Tls(tls) => {
                let max = into.len();
                let mut free = into;
                tls.read(max, |plain| free.put_slice(plain)).await
            }
        }
    }

    /// Fills `into` completely.
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

    /// Reads the available bytes into the spare capacity of `into`, at most `max` bytes. Returns 0 at the end of the
    /// stream.
    pub(super) async fn read_some(&mut self, into: &mut BytesMut, max: usize) -> io::Result<usize> {
        let step = max.min(into.capacity() - into.len());
        match self {
            Self::Plain(socket) => socket.take(step as u64).read_buf(into).await,
            Self::Tls(tls) => tls.read(step, |plain| into.extend_from_slice(plain)).await,
        }
    }
}

impl Writer {
    /// Writes the whole frame.
    pub(super) async fn write_all(&mut self, frame: &mut Frame) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all_buf(frame).await,
            Self::Tls(tls) => tls.write_all(frame).await,
        }
    }
}
