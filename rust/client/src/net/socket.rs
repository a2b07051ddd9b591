//! Sockets and name resolution: tokio's, or those of the simulated network.

#[cfg(feature = "simulation")]
pub(crate) use samsarrow_simnet::{OwnedReadHalf, OwnedWriteHalf, TcpSocket, TcpStream, lookup_host};
#[cfg(not(feature = "simulation"))]
pub(crate) use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
#[cfg(not(feature = "simulation"))]
pub(crate) use tokio::net::{TcpSocket, TcpStream, lookup_host};
