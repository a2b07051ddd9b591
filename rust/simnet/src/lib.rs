//! Network simulated on tokio's clock: sockets with the interface of `tokio::net`, and faults between their ends.
//!
//! A thread has at most one network, which [`Network::enter`] installs. All random decisions come from the network's
//! seed, and all waits from tokio's clock. So on a paused clock and a single thread, equal seeds give equal runs.
#![forbid(unsafe_code)]

mod network;
mod pipe;
mod socket;
mod stream;
mod trace;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use network::{Entered, Latency, Network, Reachability};
pub use socket::{TcpListener, TcpSocket, ToAddress, lookup_host};
pub use stream::{OwnedReadHalf, OwnedWriteHalf, TcpStream};

/// Returns the time since the Unix epoch: an arbitrary start plus the time that passed on tokio's clock.
pub fn unix_time() -> std::time::Duration {
    network::current().map_or(network::EPOCH, |network| network.unix_time())
}

/// Returns true if this thread's network has a known defect of a client switched on.
pub fn has_defect(name: &str) -> bool {
    network::current().is_some_and(|network| network.has_defect(name))
}

/// Adds an event to the trace of this thread's network.
pub fn trace(event: &str) {
    if let Some(network) = network::current() {
        network.trace(event);
    }
}

/// Records that a client has reached a state or received an error, for the network of this thread.
pub fn reached(name: String) {
    if let Some(network) = network::current() {
        network.reached(name);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
