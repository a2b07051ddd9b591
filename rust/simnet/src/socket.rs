//! Sockets before they are connected, listeners, and names.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Mutex;
use std::task::Poll;

use tokio::time::sleep;

use crate::lock;
use crate::network::{Network, Reachability, current};
use crate::stream::TcpStream;

fn network() -> io::Result<Network> {
    current().ok_or_else(|| io::Error::other("no simulated network is installed on this thread"))
}

/// Address in one of the forms that clients and brokers use.
pub trait ToAddress {
    /// Resolves the address: literal addresses and `localhost`.
    ///
    /// # Errors
    /// Fails if the name is unknown or the port is invalid.
    fn to_address(&self) -> io::Result<SocketAddr>;
}

impl ToAddress for (&str, u16) {
    fn to_address(&self) -> io::Result<SocketAddr> {
        let host = self.0.trim_start_matches('[').trim_end_matches(']');
        let ip = match host.parse::<IpAddr>() {
            Ok(ip) => ip,
            Err(_) if host == "localhost" => Ipv4Addr::LOCALHOST.into(),
            Err(_) => return Err(io::Error::new(io::ErrorKind::NotFound, format!("no host {host} in the simulation"))),
        };
        Ok(SocketAddr::new(ip, self.1))
    }
}

impl ToAddress for &str {
    fn to_address(&self) -> io::Result<SocketAddr> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("{self} is not host:port"));
        let (host, port) = self.rsplit_once(':').ok_or_else(invalid)?;
        (host, port.parse().map_err(|_| invalid())?).to_address()
    }
}

/// Resolves a name.
///
/// # Errors
/// Fails if the name is unknown.
#[allow(clippy::unused_async, reason = "has the interface of tokio::net::lookup_host")]
pub async fn lookup_host(address: impl ToAddress) -> io::Result<std::iter::Once<SocketAddr>> {
    address.to_address().map(std::iter::once)
}

/// Connects to an address of the network.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let network = network()?;
    sleep(network.latency()).await;
    match network.reachability(address) {
        Reachability::Open => {
            let stream = network.open(address)?;
            sleep(network.latency()).await;
            Ok(stream)
        }
        Reachability::Rejected => Err(io::ErrorKind::ConnectionRefused.into()),
        Reachability::Lost => std::future::pending().await,
    }
}

/// A socket that is neither connected nor listening.
#[derive(Debug)]
pub struct TcpSocket {
    network: Network,
    /// Address that is freed when the socket is dropped.
    bound: Mutex<Option<SocketAddr>>,
    unspecified: SocketAddr,
}

impl TcpSocket {
    fn new(ip: IpAddr) -> io::Result<Self> {
        Ok(Self { network: network()?, bound: Mutex::default(), unspecified: SocketAddr::new(ip, 0) })
    }

    /// Creates an IPv4 socket.
    ///
    /// # Errors
    /// Fails if the thread has no network.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(Ipv4Addr::UNSPECIFIED.into())
    }

    /// Creates an IPv6 socket.
    ///
    /// # Errors
    /// Fails if the thread has no network.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(Ipv6Addr::UNSPECIFIED.into())
    }

    /// Does nothing: addresses have no state after they were freed.
    ///
    /// # Errors
    /// Never fails.
    pub fn set_reuseaddr(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: all buffers have one size.
    ///
    /// # Errors
    /// Never fails.
    pub fn set_recv_buffer_size(&self, _: u32) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: all buffers have one size.
    ///
    /// # Errors
    /// Never fails.
    pub fn set_send_buffer_size(&self, _: u32) -> io::Result<()> {
        Ok(())
    }

    /// Binds the socket; port 0 selects a free port.
    ///
    /// # Errors
    /// Fails if the address is in use.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        *lock(&self.bound) = Some(self.network.bind(address)?);
        Ok(())
    }

    /// Returns the bound address.
    ///
    /// # Errors
    /// Never fails.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(lock(&self.bound).unwrap_or(self.unspecified))
    }

    /// Listens on the bound address.
    ///
    /// # Errors
    /// Fails if the socket is not bound.
    pub fn listen(self, _: u32) -> io::Result<TcpListener> {
        let address = lock(&self.bound).take().ok_or(io::ErrorKind::InvalidInput)?;
        self.network.listen(address);
        Ok(TcpListener { network: self.network.clone(), address })
    }

    /// Connects to an address.
    ///
    /// # Errors
    /// Fails if the connection is rejected.
    pub async fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        connect(address).await
    }
}

impl Drop for TcpSocket {
    fn drop(&mut self) {
        if let Some(address) = lock(&self.bound).take() {
            self.network.unbind(address);
        }
    }
}

/// A socket that accepts connections. Dropping it frees its address.
#[derive(Debug)]
pub struct TcpListener {
    network: Network,
    address: SocketAddr,
}

impl TcpListener {
    /// Returns the address.
    ///
    /// # Errors
    /// Never fails.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// Fails if the address was freed.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|cx| {
            let accepted = self.network.with_backlog(self.address, |backlog| {
                let stream = backlog.streams.pop_front();
                if stream.is_none() {
                    backlog.acceptor = Some(cx.waker().clone());
                }
                stream
            });
            match accepted {
                Some(Some(stream)) => Poll::Ready(Ok(stream)),
                Some(None) => Poll::Pending,
                None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        })
        .await
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.network.unbind(self.address);
    }
}
