//! Guards that keep threads out of the interpreter once it exits.
//!
//! While CPython finalizes, no other thread may acquire the GIL. Before 3.14, CPython ends such a thread by unwinding
//! its stack, which Rust frames do not support, or the thread accesses freed memory; both crash the process. Therefore,
//! once [`close`] was called, every thread except the exiting thread blocks here permanently instead of attaching
//! again. CPython 3.14 does the same itself. `close` runs in `atexit` and waits for the threads that hold a guard, so
//! that no thread is about to attach when finalization begins. Rust code that runs Python must hold an [`AttachGuard`].

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Maximum time for which [`close`] waits for threads that hold a guard.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Highest bit of [`STATE`], which is set once [`close`] was called. The lower bits count the threads that hold a
/// guard.
const CLOSED: usize = 1 << (usize::BITS - 1);

static STATE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of guards that this thread holds.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// True on the thread that exits the interpreter. This thread may always attach.
    static EXITING: Cell<bool> = const { Cell::new(false) };
}

/// A guard that a thread holds while it is attached and runs code of this crate.
#[derive(Debug)]
pub struct AttachGuard(());

impl AttachGuard {
    /// Keeps the thread registered until [`reclaim`](Self::reclaim).
    pub fn leak(self) {
        std::mem::forget(self);
    }

    /// Returns the guard that this thread has leaked.
    pub fn reclaim() -> Self {
        Self(())
    }
}

impl Drop for AttachGuard {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            STATE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Registers an attached thread. Never returns once [`close`] was called, except on the exiting thread.
pub fn acquire(py: Python<'_>) -> AttachGuard {
    let depth = DEPTH.get();
    if depth == 0 && !try_enter() {
        py.detach(|| block_thread());
    }
    DEPTH.set(depth + 1);
    AttachGuard(())
}

/// Runs `work` without the GIL, and attaches again. If the interpreter began to exit while `work` ran, drops the result
/// and never returns.
///
/// All waits of this crate must use this function; otherwise the interpreter's exit would wait for them.
pub fn detach<T, F>(py: Python<'_>, work: F) -> T
where
    T: Send,
    F: FnOnce() -> T + Send,
{
    let _guard = acquire(py);
    py.detach(|| {
        let detached = Detached::new();
        let result = work();
        if is_open() {
            drop(detached);
            return result;
        }
        // Drop the result first, because it may hold a lock that the exiting thread needs.
        drop(result);
        drop(detached);
        block_thread()
    })
}

/// Runs `work` without the GIL, where `work` may itself run Python code, for example to read an Arrow stream. The
/// thread stays registered while `work` runs.
pub fn detach_reentrant<T, F>(py: Python<'_>, work: F) -> T
where
    T: Send,
    F: FnOnce() -> T + Send,
{
    let _guard = acquire(py);
    py.detach(work)
}

/// Blocks all other threads from attaching, and waits at most [`EXIT_TIMEOUT`] for threads that hold a guard.
pub fn close(py: Python<'_>) {
    EXITING.set(true);
    STATE.fetch_or(CLOSED, Ordering::SeqCst);
    let own = usize::from(DEPTH.get() > 0);
    py.detach(|| {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while STATE.load(Ordering::SeqCst) & !CLOSED > own && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Returns true if this thread may attach.
pub fn is_open() -> bool {
    EXITING.get() || STATE.load(Ordering::SeqCst) & CLOSED == 0
}

/// Resets the state in the child of a fork, in which only the current thread exists. The state stays closed if this
/// thread exits the interpreter.
pub fn reset_after_fork() {
    let own = usize::from(DEPTH.get() > 0);
    STATE.store(if EXITING.get() { CLOSED | own } else { own }, Ordering::SeqCst);
}

fn try_enter() -> bool {
    if STATE.fetch_add(1, Ordering::SeqCst) & CLOSED == 0 || EXITING.get() {
        return true;
    }
    STATE.fetch_sub(1, Ordering::SeqCst);
    false
}

/// Unregisters a thread while it waits without the GIL.
struct Detached(usize);

impl Detached {
    fn new() -> Self {
        let depth = DEPTH.replace(0);
        STATE.fetch_sub(1, Ordering::SeqCst);
        Self(depth)
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        if !try_enter() {
            block_thread();
        }
        DEPTH.set(self.0);
    }
}

/// Blocks the thread until the process ends.
fn block_thread() -> ! {
    loop {
        std::thread::park();
    }
}
