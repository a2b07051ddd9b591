//! A node of the broker: a listening port and its connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::connection;
use crate::socket::{TcpListener, TcpSocket};
use crate::state::State;

const BACKLOG: u32 = 1024;
/// Delay after a failed accept, whose most likely cause is a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Binds a socket to `address`. This reserves the port; until the socket listens, the kernel rejects connections.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A stopped node may have connections in TIME_WAIT, so SO_REUSEADDR is required to bind its port again. It is not
    // set while the kernel chooses a free port, because the kernel could then choose the same port for two sockets that
    // do not listen yet.
    socket.set_reuseaddr(address.port() != 0)?;
    socket.bind(address)?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// A running node. Dropping it stops the node without waiting for its tasks.
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
            // An error means that the sender was dropped together with the broker.
            _ = stopped.changed() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
