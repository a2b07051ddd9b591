//! Sockets and name resolution: tokio's, or those of the simulated network.

#[cfg(feature = "simulation")]
pub(crate) use samsarrow_simnet::{TcpListener, TcpSocket, TcpStream, lookup_host};
#[cfg(not(feature = "simulation"))]
pub(crate) use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
