//! A node: a listening port and its connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::connection;
use crate::state::State;

const BACKLOG: u32 = 1024;
/// Delay after a failed accept, most likely caused by a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Binds a socket to `address`. Until it listens, the port is reserved and connections are rejected by the kernel.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a stopped node may linger in TIME_WAIT, so reuse is needed to start it again. A free port is
    // requested without reuse, or the kernel may return the same port for two sockets that do not listen yet.
    socket.set_reuseaddr(address.port() != 0)?;
    socket.bind(address)?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// A listening node. Dropping it also stops it, without waiting.
#[derive(Debug)]
pub(crate) struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(id: i32, socket: TcpSocket, state: Arc<State>) -> io::Result<Running> {
        let listener = socket.listen(BACKLOG)?;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(accept(id, listener, state, stopped));
        Ok(Running { stop, task })
    }

    /// Closes the port and all connections, and waits until their tasks have ended.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "a node of the embedded broker did not end cleanly");
        }
    }
}

async fn accept(id: i32, listener: TcpListener, state: Arc<State>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let (state, stopped) = (state.clone(), stopped.clone());
                    connections.spawn(connection::serve(id, stream, peer, state, stopped));
                }
                Err(error) => {
                    tracing::warn!(node = id, %error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
            Some(_) = connections.join_next() => (),
            // An error means that the broker was dropped.
            _ = stopped.changed() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
