//! The one gate between our code and the interpreter, closed when the interpreter ends.
//!
//! While CPython finalizes, a thread that asks for the GIL must not get it. Before 3.14 it is ended by unwinding its
//! stack, through frames of Rust that cannot bear that, or it touches what is freed already: the process crashes. So once
//! the gate is closed, every thread but the one that ends the interpreter blocks here for good instead of going back, as
//! CPython 3.14 does with threads itself. The gate closes in `atexit`, after those inside have left, so that none is on its
//! way when finalization begins. What runs Python from Rust therefore holds a pass meanwhile.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long the end of the interpreter waits for threads that are in the middle of something.
const PATIENCE: Duration = Duration::from_secs(5);

/// The highest bit says that the gate is closed, the others count the threads inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

static STATE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How often this thread is inside.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread ends the interpreter: it may always come back.
    static ENDING: Cell<bool> = const { Cell::new(false) };
}

/// A thread is within our code and attached to Python while it has one.
#[derive(Debug)]
pub struct Pass(());

impl Pass {
    /// Stays inside beyond this call.
    pub fn keep(self) {
        std::mem::forget(self);
    }

    /// What was kept.
    pub fn again() -> Self {
        Self(())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            STATE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Lets a thread in that is attached; if the gate is closed, it never returns.
pub fn enter(py: Python<'_>) -> Pass {
    let depth = DEPTH.get();
    if depth == 0 && !count_in() {
        py.detach(|| block());
    }
    DEPTH.set(depth + 1);
    Pass(())
}

/// Does `work` without the GIL, and comes back; if the gate was closed meanwhile, drops what it gave and never returns.
///
/// Every wait of ours goes through here, or the interpreter would wait for it to end.
pub fn detach<T, F>(py: Python<'_>, work: F) -> T
where
    T: Send,
    F: FnOnce() -> T + Send,
{
    let _pass = enter(py);
    py.detach(|| {
        let away = Away::new();
        let done = work();
        if is_open() {
            drop(away);
            return done;
        }
        // It may hold a lock that the end of the interpreter needs.
        drop(done);
        drop(away);
        block()
    })
}

/// Does `work` without the GIL where it may itself run Python, as an Arrow stream does. It counts as inside.
pub fn detach_within<T, F>(py: Python<'_>, work: F) -> T
where
    T: Send,
    F: FnOnce() -> T + Send,
{
    let _pass = enter(py);
    py.detach(work)
}

/// Closes the gate for all other threads and waits until those inside have left, or stay too long.
pub fn close(py: Python<'_>) {
    ENDING.set(true);
    STATE.fetch_or(CLOSED, Ordering::SeqCst);
    let own = usize::from(DEPTH.get() > 0);
    py.detach(|| {
        let deadline = Instant::now() + PATIENCE;
        while STATE.load(Ordering::SeqCst) & !CLOSED > own && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Whether this thread may go to Python.
pub fn is_open() -> bool {
    ENDING.get() || STATE.load(Ordering::SeqCst) & CLOSED == 0
}

/// In the child of a fork, this thread is the only one; its gate is open unless it was ending the interpreter.
pub fn forked() {
    let own = usize::from(DEPTH.get() > 0);
    STATE.store(if ENDING.get() { CLOSED | own } else { own }, Ordering::SeqCst);
}

fn count_in() -> bool {
    if STATE.fetch_add(1, Ordering::SeqCst) & CLOSED == 0 || ENDING.get() {
        return true;
    }
    STATE.fetch_sub(1, Ordering::SeqCst);
    false
}

/// A thread that is inside, and waits without the GIL.
struct Away(usize);

impl Away {
    fn new() -> Self {
        let depth = DEPTH.replace(0);
        STATE.fetch_sub(1, Ordering::SeqCst);
        Self(depth)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if !count_in() {
            block();
        }
        DEPTH.set(self.0);
    }
}

/// Never returns; the end of the process ends the thread.
fn block() -> ! {
    loop {
        std::thread::park();
    }
}
