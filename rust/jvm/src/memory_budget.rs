//! Memory budget for prefetching, shared by all readers of the process. An executor runs as many readers as it has
//! cores.

use std::sync::Mutex;

use samsarrow_wire::sync::lock;

/// Default budget of a process, in bytes.
pub(crate) const DEFAULT_PROCESS_LIMIT: usize = 256 << 20;
/// Maximum memory of a reader. It also limits the size of the columns that the reader decodes in one call. Only a
/// single row may exceed this limit.
pub(crate) const MAX_GRANT: usize = 32 << 20;
/// Minimum memory of a reader, which is granted even if the budget is used up. A task that waited for memory could
/// deadlock with a task that waits for the first task.
const MIN_GRANT: usize = 4 << 20;

/// Budget of this process.
pub(crate) static BUDGET: Budget = Budget::new();

/// Number of bytes that are granted to consumers.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<usize>);

/// Memory granted to one consumer. It returns to the budget when this value is dropped.
#[derive(Debug)]
pub(crate) struct Grant {
    budget: &'static Budget,
    bytes: usize,
}

impl Budget {
    const fn new() -> Self {
        Self(Mutex::new(0))
    }

    /// Grants the part of `limit` that is not granted yet, but at least the minimum and at most the maximum of a
    /// reader. While less than the maximum is left, calls `release_idle`, which closes an idle consumer and returns
    /// false if there is none.
    pub(crate) fn grant(&'static self, limit: usize, mut release_idle: impl FnMut() -> bool) -> Grant {
        while limit.saturating_sub(self.granted()) < MAX_GRANT && release_idle() {}
        let mut granted = lock(&self.0);
        let bytes = limit.saturating_sub(*granted).clamp(MIN_GRANT, MAX_GRANT);
        *granted += bytes;
        Grant { budget: self, bytes }
    }

    /// Returns the number of bytes that are granted to consumers.
    pub(crate) fn granted(&self) -> usize {
        *lock(&self.0)
    }
}

impl Grant {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        *lock(&self.budget.0) -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_clamped_to_the_limits() {
        static BUDGET: Budget = Budget::new();
        let grant = || BUDGET.grant(70 << 20, || false);
        let grants = [grant(), grant(), grant(), grant()];
        assert_eq!(grants.each_ref().map(|grant| grant.bytes() >> 20), [32, 32, 6, 4]);
        assert_eq!(BUDGET.granted(), 74 << 20);
        drop(grants);
        assert_eq!(BUDGET.granted(), 0);
    }

    #[test]
    fn grant_releases_idle_memory_first() {
        static BUDGET: Budget = Budget::new();
        let mut idle: Vec<_> = (0..4).map(|_| BUDGET.grant(128 << 20, || false)).collect();
        let more = BUDGET.grant(128 << 20, || idle.pop().is_some());
        assert_eq!((more.bytes(), idle.len()), (MAX_GRANT, 3), "releases no more than needed");
    }
}
