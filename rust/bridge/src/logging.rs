//! Forwards the client's log lines to Python's `logging`.
//!
//! `samsarrow._logging` passes the levels of Python's loggers, so that lines that Python would drop are never formatted.
//! A dedicated thread writes them, so that threads of the client never wait for the GIL. If Python is too slow, lines
//! are dropped and counted, so that memory is bounded.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use samsarrow_client::log::{Levels, Line, LogSubscriber, Logger};
use tracing::Level;

use crate::callback_threads::{self, CallbackQueue, PyCall, RunsOn};
use crate::interpreter_guard;

/// Maximum number of queued lines.
const MAX_QUEUED: usize = 10_000;

static DROPPED: AtomicU64 = AtomicU64::new(0);
/// Levels of Python's loggers. The child of a fork inherits them together with the loggers.
static LEVELS: Levels = Levels::new();
/// Queues of this process and of the processes that it was forked from; the queue of this process is the last. Reading
/// the list takes no lock, so that no lock is held during a fork and no line is lost while another thread forks.
static QUEUES: OnceLock<Box<Node>> = OnceLock::new();
/// True once the subscriber is installed. The child of a fork inherits the subscriber and its `tracing` registry. The
/// child must not change the registry, because a thread that does not exist in the child may hold its lock.
static SUBSCRIBED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The queue that this thread has paused during a fork.
    static PAUSED: RefCell<Option<Arc<CallbackQueue>>> = const { RefCell::new(None) };
}

struct Node {
    queue: Arc<CallbackQueue>,
    next: OnceLock<Box<Node>>,
}

/// Returns the queue of this process. If it has none, returns the end of the list as an error, so that a queue can be
/// appended there.
fn find() -> Result<&'static Arc<CallbackQueue>, &'static OnceLock<Box<Node>>> {
    let mut end = &QUEUES;
    while let Some(node) = end.get() {
        if node.queue.is_of_this_process() {
            return Ok(&node.queue);
        }
        end = &node.next;
    }
    Err(end)
}

fn python_level(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

/// Returns the most verbose level that a Python logger with this threshold handles.
fn enabled_level(threshold: i64) -> Option<Level> {
    [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR]
        .into_iter()
        .find(|level| threshold <= i64::from(python_level(*level)))
}

/// Sets the smallest Python level that each of [`Logger::ALL`] handles.
pub fn set_levels(thresholds: &[i64]) {
    let levels: Vec<_> = thresholds.iter().map(|threshold| enabled_level(*threshold)).collect();
    LEVELS.set(&levels);
}

fn forward(level: Level, logger: Logger, line: Line) {
    // A process has no queue before its first client is created, so nothing is logged. This also applies to the child
    // of a fork.
    if let Ok(queue) = find()
        && !queue.push(MAX_QUEUED, move |py| log_call(py, logger, level, line))
    {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Names level 5 `TRACE`, unless the application has named it, so that `setLevel("TRACE")` works.
pub(crate) fn name_trace_level(logging: &Bound<'_, PyModule>) -> PyResult<()> {
    let level = python_level(Level::TRACE);
    let unnamed = format!("Level {level}");
    if logging.call_method1("getLevelName", (level,))?.eq(unnamed)? {
        logging.call_method1("addLevelName", (level, "TRACE"))?;
    }
    Ok(())
}

/// Starts forwarding log lines. This function is called when the runtime of this process starts.
pub fn start(py: Python<'_>) -> PyResult<()> {
    py.import("samsarrow._logging")?.getattr("follow_levels")?.call0()?;
    let Err(mut end) = find() else { return Ok(()) };
    let queue = callback_threads::spawn(py, "samsarrow-log", RunsOn::Application)?;
    // If another thread appends its queue first, the queue of this thread is closed.
    while let Err(node) = end.set(Box::new(Node { queue: Arc::clone(&queue), next: OnceLock::new() })) {
        match find() {
            Ok(_) => {
                drop(node);
                queue.close();
                break;
            }
            Err(later) => end = later,
        }
    }
    if !SUBSCRIBED.swap(true, Ordering::Relaxed) {
        LogSubscriber::new(&LEVELS, forward).start();
    }
    Ok(())
}

/// Returns the log queue of this process, or `None` if it has none.
pub fn current() -> Option<Arc<CallbackQueue>> {
    find().ok().map(Arc::clone)
}

/// Stops the thread that writes log lines until [`resume`], which the same thread must call. This is needed before a
/// fork, because the child could otherwise inherit locked streams of `logging`.
pub fn pause(py: Python<'_>) {
    let queue = current().filter(|queue| !queue.is_current_thread());
    if let Some(queue) = &queue {
        interpreter_guard::detach(py, || queue.pause());
    }
    PAUSED.set(queue);
}

/// Undoes [`pause`].
pub fn resume() {
    if let Some(queue) = PAUSED.take() {
        queue.resume();
    }
}

/// Resets the state in the child of a fork. Leaks the parent's paused queue, because its locks may be held by threads
/// that do not exist in the child.
pub fn reset_after_fork() {
    DROPPED.store(0, Ordering::Relaxed);
    std::mem::forget(PAUSED.take());
}

fn log_call(py: Python<'_>, logger: Logger, level: Level, line: Line) -> PyResult<PyCall> {
    let write = py.import("samsarrow._logging")?.getattr("write")?.unbind();
    let fields = PyDict::new(py);
    for (name, value) in line.fields {
        fields.set_item(name, value)?;
    }
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    let arguments = (dropped, logger.name(), python_level(level), line.text, fields);
    Ok((write, arguments.into_pyobject(py)?.unbind()))
}
