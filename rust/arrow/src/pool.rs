//! Pool of memory for large columns, shared by the threads that decode records.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use arrow_buffer::Buffer;
use bytes::Bytes;
use samsarrow_wire::sync::lock;

/// Minimum capacity in bytes of a column in the pool. Smaller columns use the allocator.
const MIN_POOLED: usize = 256 << 10;
/// Capacities are multiples of this number of bytes, so that columns of similar sizes can reuse them.
const STEP: usize = 64 << 10;

/// Keeps the memory of dropped columns for new columns. The allocator keeps freed memory per thread, so with several
/// threads that decode in turns, each thread would keep as much memory as all threads need together.
#[derive(Debug, Clone, Default)]
pub struct Pool(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    free: Mutex<Free>,
    /// Size of the columns in use, in bytes.
    in_use: AtomicUsize,
    /// Maximum size of free and used memory together, in bytes; 0 disables the pool.
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
    fn max_bytes(&self) -> usize {
        self.max_bytes.load(Ordering::Relaxed)
    }

    /// Drops the oldest free buffers until `more` bytes fit. Returns false if they do not fit even without free
    /// buffers.
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

    /// Frees all unused memory. Memory in use is freed when its column is dropped.
    pub fn close(&self) {
        self.0.max_bytes.store(0, Ordering::Relaxed);
        *lock(&self.0.free) = Free::default();
    }

    /// Returns an empty column with a capacity of at least `min_capacity` bytes.
    pub(crate) fn take(&self, min_capacity: usize) -> Vec<u8> {
        if min_capacity < MIN_POOLED || self.0.max_bytes() == 0 {
            return Vec::with_capacity(min_capacity);
        }
        let capacity = min_capacity.next_multiple_of(STEP);
        let mut free = lock(&self.0.free);
        let fits = |buffer: &Vec<u8>| (min_capacity..=capacity + capacity / 4).contains(&buffer.capacity());
        // Prefer the most recently freed buffer, which may still be in a CPU cache.
        if let Some(buffer) = free.buffers.iter().rposition(fits).and_then(|at| free.take(at)) {
            return buffer;
        }
        let _ = self.0.evict_for(&mut free, capacity);
        drop(free);
        Vec::with_capacity(capacity)
    }

    /// Returns the column as a buffer, whose memory returns to the pool after its last use.
    pub(crate) fn make_buffer(&self, column: Vec<u8>) -> Buffer {
        let capacity = column.capacity();
        if capacity < MIN_POOLED || self.0.max_bytes() == 0 || column.len() < capacity / 2 {
            return Buffer::from_vec(trimmed(column));
        }
        self.0.in_use.fetch_add(capacity, Ordering::Relaxed);
        Buffer::from(Bytes::from_owner(PooledColumn { column, pool: Arc::downgrade(&self.0) }))
    }
}

/// A column in use, whose memory returns to the pool when it is dropped.
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
        // In a forked child process, a thread that does not exist there may hold the lock.
        let Ok(mut free) = pool.free.try_lock() else { return };
        if pool.evict_for(&mut free, column.capacity()) {
            column.clear();
            free.bytes += column.capacity();
            free.buffers.push_back(column);
        }
    }
}

/// Shrinks the column if less than half of its capacity is used. If more is used, the column keeps its capacity,
/// because freeing memory causes page faults. When every column was shrunk, page faults took two fifths of the CPU time
/// per record.
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
        let free = lock(&pool.0.free);
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
        // New columns need the memory, so free buffers with an unsuitable capacity are dropped.
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
