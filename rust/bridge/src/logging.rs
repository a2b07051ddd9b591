//! The core's log lines, as records of Python's `logging`, from level DEBUG on.
//!
//! A lane of their own writes them: the core's threads never wait for the GIL. If Python is too slow for them, lines are
//! dropped and counted rather than kept without bound.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use pyo3::prelude::*;
use samsarrow_client::log::Lines;
use tracing::Level;

use crate::gate;
use crate::lanes::{self, Call, Lane};

/// Lines that may wait for Python.
const WAITING: usize = 10_000;

static DROPPED: AtomicU64 = AtomicU64::new(0);
/// Of this process: replaced after a fork.
static LINES: RwLock<Option<Arc<Lane>>> = RwLock::new(None);
/// Whether events come here. The child of a fork inherits that, with a registry of tracing's that it must not touch: a
/// thread that is not there may hold its lock.
static SUBSCRIBED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// [`LINES`] as this thread holds it over a fork.
    static HELD: RefCell<Option<RwLockWriteGuard<'static, Option<Arc<Lane>>>>> = const { RefCell::new(None) };
}

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

fn forward(level: Level, target: &'static str, text: String) {
    let level = number(level);
    // Not waited for: while a thread forks it has the lock, and may need the GIL, which this one may have.
    let taken = LINES.try_read().is_ok_and(|lines| {
        lines.as_ref().is_some_and(|lane| lane.push(WAITING, move |py| line(py, target, level, &text)))
    });
    if !taken {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts forwarding, as the runtime of this process starts.
pub fn start(py: Python<'_>) -> PyResult<()> {
    if current(py).is_some() {
        return Ok(());
    }
    let lane = lanes::begin(py, "samsarrow-log")?;
    gate::detach(py, || {
        LINES.write().unwrap_or_else(PoisonError::into_inner).get_or_insert(lane);
    });
    if !SUBSCRIBED.swap(true, Ordering::Relaxed) {
        Lines::new(Level::DEBUG, forward).start();
    }
    Ok(())
}

/// The lane of log lines, if it was begun.
pub fn current(py: Python<'_>) -> Option<Arc<Lane>> {
    gate::detach(py, || LINES.read().unwrap_or_else(PoisonError::into_inner).clone())
}

/// Before a fork: has no other thread log, neither us nor Python for us, until [`release`], which the same thread must
/// call. The child would find the locks of `logging`'s streams taken, for good.
pub fn hold(py: Python<'_>) {
    if let Some(lane) = current(py).filter(|lane| !lane.is_here()) {
        gate::detach(py, || lane.hold());
    }
    loop {
        if let Ok(lines) = LINES.try_write() {
            HELD.with_borrow_mut(|held| *held = Some(lines));
            return;
        }
        // Another thread forks, and needs the GIL for that.
        gate::detach(py, || std::thread::sleep(Duration::from_millis(1)));
    }
}

/// Undoes [`hold`].
pub fn release() {
    if let Some(lines) = HELD.take()
        && let Some(lane) = &*lines
    {
        lane.release();
    }
}

/// In the child of a fork, under [`hold`]: the lane is the parent's. It is not dropped, as threads that are not here may
/// hold its locks.
pub fn forget() {
    DROPPED.store(0, Ordering::Relaxed);
    HELD.with_borrow_mut(|held| std::mem::forget(held.as_mut().and_then(|lines| lines.take())));
}

fn line(py: Python<'_>, target: &'static str, level: u8, text: &str) -> PyResult<Call> {
    let log = py.import("samsarrow._threads")?.getattr("log")?.unbind();
    let logger = target.replacen("samsarrow_", "samsarrow.", 1).replace("::", ".");
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    Ok((log, (dropped, logger, level, text).into_pyobject(py)?.unbind()))
}
