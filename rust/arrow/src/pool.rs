//! Pool of memory for large columns, shared by the threads that decode.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow_buffer::Buffer;
use bytes::Bytes;

/// Minimum capacity of a pooled column; smaller ones use the allocator.
const LEAST: usize = 256 << 10;
/// Capacities are multiples of this, so that they can be reused by columns of similar sizes.
const STEP: usize = 64 << 10;

/// Memory of dropped columns, for new columns. The allocator keeps freed memory per thread: with several threads that
/// decode in turns, each would keep as much as all together.
#[derive(Debug, Clone, Default)]
pub struct Pool(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    free: Mutex<Free>,
    /// Size of the columns in use.
    lent: AtomicUsize,
    /// Maximum size of free and used memory together; 0 disables the pool.
    most: AtomicUsize,
}

#[derive(Debug, Default)]
struct Free {
    /// Oldest first.
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Free {
    fn take(&mut self, at: usize) -> Option<Vec<u8>> {
        let buffer = self.buffers.remove(at)?;
        self.bytes -= buffer.capacity();
        Some(buffer)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Drops the oldest buffers until `more` bytes fit; returns false if they do not fit then.
    fn make_room(&self, free: &mut Free, more: usize) -> bool {
        let used = self.lent.load(Ordering::Relaxed) + more;
        while free.bytes + used > self.most() && free.take(0).is_some() {}
        free.bytes + used <= self.most()
    }
}

impl Pool {
    /// Creates a pool of up to `most` bytes, including memory in use.
    pub fn new(most: usize) -> Pool {
        Pool(Arc::new(Shared { most: AtomicUsize::new(most), ..Shared::default() }))
    }

    /// Frees all unused memory; memory in use is freed when it is dropped.
    pub fn close(&self) {
        self.0.most.store(0, Ordering::Relaxed);
        *self.0.lock() = Free::default();
    }

    /// Returns an empty column with a capacity of at least `least` bytes.
    pub(crate) fn take(&self, least: usize) -> Vec<u8> {
        if least < LEAST || self.0.most() == 0 {
            return Vec::with_capacity(least);
        }
        let capacity = least.next_multiple_of(STEP);
        let mut free = self.0.lock();
        let fits = |buffer: &Vec<u8>| (least..=capacity + capacity / 4).contains(&buffer.capacity());
        // The most recent buffer may still be in a cache.
        if let Some(found) = free.buffers.iter().rposition(fits).and_then(|at| free.take(at)) {
            return found;
        }
        let _ = self.0.make_room(&mut free, capacity);
        drop(free);
        Vec::with_capacity(capacity)
    }

    /// Returns the column as a buffer whose memory goes back to the pool once it is no longer used.
    pub(crate) fn lend(&self, column: Vec<u8>) -> Buffer {
        let capacity = column.capacity();
        if capacity < LEAST || self.0.most() == 0 || column.len() < capacity / 2 {
            return Buffer::from_vec(trimmed(column));
        }
        self.0.lent.fetch_add(capacity, Ordering::Relaxed);
        Buffer::from(Bytes::from_owner(Lent { column, pool: Arc::downgrade(&self.0) }))
    }
}

/// A column in use.
#[derive(Debug)]
struct Lent {
    column: Vec<u8>,
    pool: Weak<Shared>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.column
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut column = std::mem::take(&mut self.column);
        pool.lent.fetch_sub(column.capacity(), Ordering::Relaxed);
        // In a forked child the lock may be held by a thread that does not exist there.
        let Ok(mut free) = pool.free.try_lock() else { return };
        if pool.make_room(&mut free, column.capacity()) {
            column.clear();
            free.bytes += column.capacity();
            free.buffers.push_back(column);
        }
    }
}

/// Shrinks the column if less than half of its capacity is used. Smaller excess from growth is kept, since freeing it
/// costs page faults (two fifths of the CPU time per record when it was always done).
pub(crate) fn trimmed<T>(mut column: Vec<T>) -> Vec<T> {
    if column.len() < column.capacity() / 2 {
        column.shrink_to_fit();
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn filled(pool: &Pool, len: usize) -> Buffer {
        let mut column = pool.take(len);
        column.resize(len, 7);
        pool.lend(column)
    }

    fn free(pool: &Pool) -> (usize, usize) {
        let free = pool.0.lock();
        (free.buffers.len(), free.bytes)
    }

    #[test]
    fn memory_is_used_again_by_whoever_comes_next() {
        let pool = Pool::new(4 * MIB);
        let first = filled(&pool, MIB - 5);
        let at = first.as_ptr() as usize;
        let slice = first.slice(10);
        drop(first);
        assert_eq!(free(&pool), (0, 0));
        drop(slice);
        assert_eq!(free(&pool), (1, MIB));
        let theirs = pool.clone();
        let again = std::thread::spawn(move || filled(&theirs, MIB - 1000)).join().ok();
        assert_eq!(again.map(|again| (again.as_ptr() as usize, again.len())), Some((at, MIB - 1000)));
    }

    #[test]
    fn no_more_is_kept_than_may_be_in_use() {
        let pool = Pool::new(4 * MIB);
        let used: Vec<_> = (0..6).map(|_| filled(&pool, MIB)).collect();
        drop(used);
        assert_eq!(free(&pool), (4, 4 * MIB));
        // Others need the memory: buffers of the wrong size are freed.
        let others: Vec<_> = (0..3).map(|_| filled(&pool, MIB / 2)).collect();
        assert_eq!(free(&pool), (2, 2 * MIB));
        // Memory in use stays valid after the pool is closed.
        pool.close();
        assert_eq!((free(&pool), others[0].as_slice()), ((0, 0), &*vec![7; MIB / 2]));
        drop(others);
        assert_eq!(free(&pool), (0, 0));
    }

    #[test]
    fn small_columns_and_those_without_a_pool_are_the_allocators() {
        for (pool, len) in [(Pool::new(4 * MIB), LEAST - 1), (Pool::default(), MIB)] {
            let capacity = pool.take(len).capacity();
            assert_eq!(capacity, len);
            drop(filled(&pool, len));
            assert_eq!(free(&pool), (0, 0));
        }
    }

    #[test]
    fn a_column_that_stays_small_keeps_no_large_memory() {
        let pool = Pool::new(4 * MIB);
        let mut column = pool.take(MIB);
        column.extend_from_slice(b"few");
        let buffer = pool.lend(column);
        assert!(buffer.capacity() < MIB / 2);
    }
}
