//! Pool of the clients in this process that no task uses at the moment. Later tasks take them from the pool.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use samsarrow_wire::sync::lock;

/// Maximum number of idle clients.
const CAPACITY: usize = 16;
/// Idle time after which a client is closed, checked whenever a client is taken. Unused shared state is also kept for
/// this time.
pub(crate) const MAX_IDLE_TIME: Duration = Duration::from_secs(300);

/// Idle clients. The client that has been idle longest comes first.
#[derive(Debug)]
pub(crate) struct IdlePool<T> {
    clients: Mutex<Vec<(T, Instant)>>,
}

impl<T> Default for IdlePool<T> {
    fn default() -> Self {
        Self { clients: Mutex::default() }
    }
}

impl<T> IdlePool<T> {
    /// Takes a client with the lowest rank. Among clients of equal rank, takes the client that became idle last.
    /// Clients with the rank `None` are never taken.
    pub(crate) fn take(&self, rank: impl Fn(&T) -> Option<u8>) -> Option<T> {
        let mut clients = lock(&self.clients);
        let ranked = clients.iter().enumerate().rev().filter_map(|(index, (client, _))| Some((rank(client)?, index)));
        let (_, index) = ranked.min_by_key(|(rank, _)| *rank)?;
        Some(clients.remove(index).0)
    }

    /// Adds a client.
    pub(crate) fn put(&self, client: T) {
        lock(&self.clients).push((client, Instant::now()));
    }

    /// Removes and returns the clients that exceed the capacity or the idle time. The caller must close them.
    #[must_use]
    pub(crate) fn surplus(&self) -> Vec<T> {
        let mut clients = lock(&self.clients);
        let excess = clients.len().saturating_sub(CAPACITY);
        let expired = clients.iter().take_while(|(_, since)| since.elapsed() >= MAX_IDLE_TIME).count();
        clients.drain(..excess.max(expired)).map(|(client, _)| client).collect()
    }

    /// Returns the time at which the client that has been idle longest became idle.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        lock(&self.clients).first().map(|(_, since)| *since)
    }

    /// Removes the client that has been idle longest.
    pub(crate) fn take_oldest(&self) -> Option<T> {
        let mut clients = lock(&self.clients);
        (!clients.is_empty()).then(|| clients.remove(0).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_prefers_low_rank_and_recent_use() {
        let idle = IdlePool::default();
        (0..6).for_each(|number| idle.put(number));
        let even_then_odd = |number: &i32| (*number != 0).then_some((number % 2) as u8);
        let taken: Vec<i32> = std::iter::from_fn(|| idle.take(even_then_odd)).collect();
        assert_eq!(taken, [4, 2, 5, 3, 1]);
        assert_eq!(idle.take_oldest(), Some(0));
        assert_eq!((idle.take_oldest(), idle.oldest()), (None, None));
    }

    #[test]
    fn surplus_removes_oldest_clients() {
        let idle = IdlePool::default();
        (0..CAPACITY + 2).for_each(|number| idle.put(number));
        assert_eq!(idle.surplus(), [0, 1]);
        assert_eq!(idle.surplus(), [0; 0]);
    }
}
