//! From a name to a socket.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

use crate::config::CommonOptions;
use crate::error::{Error, Result};

/// EMFILE and ENFILE on Linux, macOS and the BSDs.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

/// All addresses of `host:port`.
pub(crate) async fn resolve(address: &str, limit: Duration) -> Result<Vec<SocketAddr>> {
    match timeout(limit, lookup_host(address)).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(e)) => Err(failed(address, "the host name cannot be resolved", &e)),
        Err(_) => Err(Error::connection(address, "the host name cannot be resolved in time")),
    }
}

/// One of the addresses that a name has, and how it is connected to.
pub(super) struct Target<'a> {
    pub(super) address: &'a str,
    pub(super) socket: SocketAddr,
    pub(super) options: &'a CommonOptions,
    /// For the connection to be made.
    pub(super) limit: Duration,
}

impl Target<'_> {
    /// A socket to it.
    pub(super) async fn connect(&self) -> Result<TcpStream> {
        let attempt = async {
            let socket = if self.socket.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if let Some(size) = self.options.receive_buffer {
                socket.set_recv_buffer_size(size)?;
            }
            if let Some(size) = self.options.send_buffer {
                socket.set_send_buffer_size(size)?;
            }
            let stream = socket.connect(self.socket).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        match timeout(self.limit, attempt).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(e)) => Err(failed(self.address, "cannot connect", &e)),
            Err(_) => {
                Err(Error::connection(self.address, format!("cannot connect within {} ms", self.limit.as_millis())))
            }
        }
    }
}

fn failed(address: &str, doing: &str, error: &std::io::Error) -> Error {
    if error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code)) {
        let text = format!(
            "{doing}: {error}: no file descriptor is left. Close files or clients, or raise the limit (ulimit -n)"
        );
        return Error::connection(address, text);
    }
    Error::io(address, doing, error)
}
