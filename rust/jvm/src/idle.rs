//! Clients of this process that no task has at the moment, for the next one that can use them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many are kept.
const CAPACITY: usize = 16;
/// After which one is given up, when the next is asked for; also what clients with equal options share.
pub(crate) const IDLE: Duration = Duration::from_secs(300);

/// Those that are kept, the one that has been idle for longest first.
#[derive(Debug)]
pub(crate) struct Idle<T> {
    kept: Mutex<Vec<(T, Instant)>>,
}

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Self { kept: Mutex::default() }
    }
}

impl<T> Idle<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<(T, Instant)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one out, the last that suits best: the lower its rank, the better; none does not suit at all.
    pub(crate) fn take(&self, rank: impl Fn(&T) -> Option<u8>) -> Option<T> {
        let mut kept = self.lock();
        let ranked = kept.iter().enumerate().rev().filter_map(|(index, (one, _))| Some((rank(one)?, index)));
        let (_, index) = ranked.min_by_key(|(rank, _)| *rank)?;
        Some(kept.remove(index).0)
    }

    /// Keeps one more.
    pub(crate) fn keep(&self, one: T) {
        self.lock().push((one, Instant::now()));
    }

    /// Those that are too many, or too old, which are the caller's to close.
    #[must_use]
    pub(crate) fn surplus(&self) -> Vec<T> {
        let mut kept = self.lock();
        let many = kept.len().saturating_sub(CAPACITY);
        let old = kept.iter().take_while(|(_, since)| since.elapsed() >= IDLE).count();
        kept.drain(..many.max(old)).map(|(one, _)| one).collect()
    }

    /// Since when the one is idle that has been for longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.lock().first().map(|(_, since)| *since)
    }

    /// That one.
    pub(crate) fn take_oldest(&self) -> Option<T> {
        let mut kept = self.lock();
        (!kept.is_empty()).then(|| kept.remove(0).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_taken_and_of_equals_the_last() {
        let idle = Idle::default();
        (0..6).for_each(|number| idle.keep(number));
        let even_then_odd = |number: &i32| (*number != 0).then_some((number % 2) as u8);
        let taken: Vec<i32> = std::iter::from_fn(|| idle.take(even_then_odd)).collect();
        assert_eq!(taken, [4, 2, 5, 3, 1]);
        assert_eq!(idle.take_oldest(), Some(0));
        assert_eq!((idle.take_oldest(), idle.oldest()), (None, None));
    }

    #[test]
    fn the_oldest_of_too_many_are_given_up() {
        let idle = Idle::default();
        (0..CAPACITY + 2).for_each(|number| idle.keep(number));
        assert_eq!(idle.surplus(), [0, 1]);
        assert_eq!(idle.surplus(), [0; 0]);
    }
}
