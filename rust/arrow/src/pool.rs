//! Pool of memory for large columns, shared by the threads that decode.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow_buffer::Buffer;
use bytes::Bytes;

/// Minimum capacity of a pooled column; smaller ones use the allocator.
const MIN_POOLED: usize = 256 << 10;
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
    in_use: AtomicUsize,
    /// Maximum size of free and used memory together; 0 disables the pool.
    max_bytes: AtomicUsize,
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

    fn max_bytes(&self) -> usize {
        self.max_bytes.load(Ordering::Relaxed)
    }

    /// Drops the oldest buffers until `more` bytes fit; returns false if they do not fit then.
    fn evict_for(&self, free: &mut Free, more: usize) -> bool {
        let used = self.in_use.load(Ordering::Relaxed) + more;
        while free.bytes + used > self.max_bytes() && free.take(0).is_some() {}
        free.bytes + used <= self.max_bytes()
    }
}

impl Pool {
    /// Creates a pool of up to `max_bytes` bytes, including memory in use.
    pub fn new(max_bytes: usize) -> Pool {
        Pool(Arc::new(Shared { max_bytes: AtomicUsize::new(max_bytes), ..Shared::default() }))
    }

    /// Frees all unused memory; memory in use is freed when it is dropped.
    pub fn close(&self) {
        self.0.max_bytes.store(0, Ordering::Relaxed);
        *self.0.lock() = Free::default();
    }

    /// Returns an empty column with a capacity of at least `min_capacity` bytes.
    pub(crate) fn take(&self, min_capacity: usize) -> Vec<u8> {
        if min_capacity < MIN_POOLED || self.0.max_bytes() == 0 {
            return Vec::with_capacity(min_capacity);
        }
        let capacity = min_capacity.next_multiple_of(STEP);
        let mut free = self.0.lock();
        let fits = |buffer: &Vec<u8>| (min_capacity..=capacity + capacity / 4).contains(&buffer.capacity());
        // The most recent buffer may still be in a cache.
        if let Some(buffer) = free.buffers.iter().rposition(fits).and_then(|at| free.take(at)) {
            return buffer;
        }
        let _ = self.0.evict_for(&mut free, capacity);
        drop(free);
        Vec::with_capacity(capacity)
    }

    /// Returns the column as a buffer whose memory goes back to the pool once it is no longer used.
    pub(crate) fn make_buffer(&self, column: Vec<u8>) -> Buffer {
        let capacity = column.capacity();
        if capacity < MIN_POOLED || self.0.max_bytes() == 0 || column.len() < capacity / 2 {
            return Buffer::from_vec(trimmed(column));
        }
        self.0.in_use.fetch_add(capacity, Ordering::Relaxed);
        Buffer::from(Bytes::from_owner(PooledColumn { column, pool: Arc::downgrade(&self.0) }))
    }
}

/// A column in use.
#[derive(Debug)]
struct PooledColumn {
    column: Vec<u8>,
    pool: Weak<Shared>,
}

impl AsRef<[u8]> for PooledColumn {
    fn as_ref(&self) -> &[u8] {
        &self.column
    }
}

impl Drop for PooledColumn {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut column = std::mem::take(&mut self.column);
        pool.in_use.fetch_sub(column.capacity(), Ordering::Relaxed);
        // In a forked child the lock may be held by a thread that does not exist there.
        let Ok(mut free) = pool.free.try_lock() else { return };
        if pool.evict_for(&mut free, column.capacity()) {
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
        pool.make_buffer(column)
    }

    fn free(pool: &Pool) -> (usize, usize) {
        let free = pool.0.lock();
        (free.buffers.len(), free.bytes)
    }

    #[test]
    fn freed_memory_is_reused_across_threads() {
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
    fn pool_size_is_bounded() {
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
    fn small_columns_and_closed_pools_use_the_allocator() {
        for (pool, len) in [(Pool::new(4 * MIB), MIN_POOLED - 1), (Pool::default(), MIB)] {
            let capacity = pool.take(len).capacity();
            assert_eq!(capacity, len);
            drop(filled(&pool, len));
            assert_eq!(free(&pool), (0, 0));
        }
    }

    #[test]
    fn underfilled_columns_are_shrunk() {
        let pool = Pool::new(4 * MIB);
        let mut column = pool.take(MIB);
        column.extend_from_slice(b"few");
        let buffer = pool.make_buffer(column);
        assert!(buffer.capacity() < MIB / 2);
    }
}
