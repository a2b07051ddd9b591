//! Memory for what readers fetch ahead, shared by all readers of this process: executors run as many as they have cores.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a process has where nobody says otherwise.
pub(crate) const PROCESS: usize = 256 << 20;
/// The memory of a reader where there is enough, and of the columns that it decodes at once, but for one row's.
pub(crate) const MOST: usize = 32 << 20;
/// The least, whatever others have: a task that waited for it could wait for one that waits for the task.
const LEAST: usize = 4 << 20;

/// The budget of this process.
pub(crate) static BUDGET: Budget = Budget::new();

/// Bytes that are granted.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<usize>);

/// Bytes for one consumer, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Grant {
    of: &'static Budget,
    bytes: usize,
}

impl Budget {
    const fn new() -> Self {
        Self(Mutex::new(0))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is left of `limit`, between the least and the most for a reader. While that is less than the most, `give_back`
    /// may end what nobody uses; it says whether there was any.
    pub(crate) fn grant(&'static self, limit: usize, mut give_back: impl FnMut() -> bool) -> Grant {
        while limit.saturating_sub(self.granted()) < MOST && give_back() {}
        let mut granted = self.lock();
        let bytes = limit.saturating_sub(*granted).clamp(LEAST, MOST);
        *granted += bytes;
        Grant { of: self, bytes }
    }

    /// What is granted now.
    pub(crate) fn granted(&self) -> usize {
        *self.lock()
    }
}

impl Grant {
    /// How many bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        *self.of.lock() -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_what_there_is_and_none_waits() {
        static BUDGET: Budget = Budget::new();
        let nothing = || BUDGET.grant(70 << 20, || false);
        let grants = [nothing(), nothing(), nothing(), nothing()];
        assert_eq!(grants.each_ref().map(|grant| grant.bytes() >> 20), [32, 32, 6, 4]);
        assert_eq!(BUDGET.granted(), 74 << 20);
        drop(grants);
        assert_eq!(BUDGET.granted(), 0);
    }

    #[test]
    fn what_nobody_uses_is_given_back_first() {
        static BUDGET: Budget = Budget::new();
        let mut idle: Vec<_> = (0..4).map(|_| BUDGET.grant(128 << 20, || false)).collect();
        let more = BUDGET.grant(128 << 20, || idle.pop().is_some());
        assert_eq!((more.bytes(), idle.len()), (MOST, 3), "no more than is needed");
    }
}
