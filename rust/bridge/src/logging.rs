//! The core's log lines, as records of Python's `logging`, from level DEBUG on.
//!
//! A lane of their own writes them: the core's threads never wait for the GIL. If Python is too slow for them, lines are
//! dropped and counted rather than kept without bound.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use samsarrow_client::log::LogSubscriber;
use tracing::Level;

use crate::gate;
use crate::lanes::{self, By, Call, Lane};

/// Lines that may wait for Python.
const WAITING: usize = 10_000;

static DROPPED: AtomicU64 = AtomicU64::new(0);
/// The queues of the processes that this one was forked from, and its own behind them. Reading takes no lock: a fork finds
/// none locked, and no line is lost while another thread forks.
static LANES: OnceLock<Box<Node>> = OnceLock::new();
/// Whether events come here. The child of a fork inherits that, with a registry of tracing's that it must not touch: a
/// thread that is not there may hold its lock.
static SUBSCRIBED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The lane that this thread holds over a fork.
    static HELD: RefCell<Option<Arc<Lane>>> = const { RefCell::new(None) };
}

struct Node {
    lane: Arc<Lane>,
    next: OnceLock<Box<Node>>,
}

/// Returns this process's lane, or the end of the list, where it is to be.
fn find() -> Result<&'static Arc<Lane>, &'static OnceLock<Box<Node>>> {
    let mut end = &LANES;
    while let Some(node) = end.get() {
        if node.lane.is_ours() {
            return Ok(&node.lane);
        }
        end = &node.next;
    }
    Err(end)
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
    // The child of a fork has no lane before its first client, as a process that was not forked: nothing is logged then.
    if let Ok(lane) = find()
        && !lane.push(WAITING, move |py| line(py, target, level, &text))
    {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts forwarding, as the runtime of this process starts.
pub fn start(py: Python<'_>) -> PyResult<()> {
    let Err(mut end) = find() else { return Ok(()) };
    let lane = lanes::begin(py, "samsarrow-log", By::Program)?;
    // Another thread may have been faster: the thread of a lane that is not in the list ends.
    while let Err(node) = end.set(Box::new(Node { lane: Arc::clone(&lane), next: OnceLock::new() })) {
        match find() {
            Ok(_) => {
                drop(node);
                lane.end();
                break;
            }
            Err(later) => end = later,
        }
    }
    if !SUBSCRIBED.swap(true, Ordering::Relaxed) {
        LogSubscriber::new(Level::DEBUG, forward).start();
    }
    Ok(())
}

/// The lane of log lines, if it was begun.
pub fn current() -> Option<Arc<Lane>> {
    find().ok().map(Arc::clone)
}

/// Before a fork: waits until Python writes no line of ours, and has it write none until [`release`], which the same
/// thread must call. The child would find the locks of `logging`'s streams taken, for good.
pub fn hold(py: Python<'_>) {
    let lane = current().filter(|lane| !lane.is_here());
    if let Some(lane) = &lane {
        gate::detach(py, || lane.hold());
    }
    HELD.set(lane);
}

/// Undoes [`hold`].
pub fn release() {
    if let Some(lane) = HELD.take() {
        lane.release();
    }
}

/// In the child of a fork, under [`hold`]: the lane is the parent's. It is not dropped, as threads that are not here may
/// hold its locks.
pub fn forget() {
    DROPPED.store(0, Ordering::Relaxed);
    std::mem::forget(HELD.take());
}

fn line(py: Python<'_>, target: &'static str, level: u8, text: &str) -> PyResult<Call> {
    let log = py.import("samsarrow._threads")?.getattr("log")?.unbind();
    let logger = target.replacen("samsarrow_", "samsarrow.", 1).replace("::", ".");
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    Ok((log, (dropped, logger, level, text).into_pyobject(py)?.unbind()))
}
