//! Queue of completed results for one event loop, and the mechanism that wakes the loop.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use samsarrow_client::sync::lock;

use super::Socket;
use super::loops::wake_call;
use crate::call::Outcome;
use crate::callback_threads::CallbackQueue;

/// Outcomes that were pushed after their loop was closed. The outcomes may hold Python objects, so they are kept until
/// an attached thread drops them.
static ORPHANED: Mutex<Vec<Outcome>> = Mutex::new(Vec::new());

/// Mechanism that wakes a loop.
pub(super) enum Wakeup {
    /// A socket whose other end the loop watches.
    Socket(Socket),
    /// A Python thread that calls the loop.
    Thread(Arc<CallbackQueue>),
    /// The loop was closed.
    Closed,
}

pub(super) struct Queue {
    done: Vec<(u64, Option<Outcome>)>,
    /// True if the loop was woken and has not called `drain` since then.
    wakeup_pending: bool,
    pub(super) wakeup: Wakeup,
}

/// The client's side of a bridge: threads of the client push results here.
pub struct Inbox {
    pub(super) id: u64,
    queue: Mutex<Queue>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Inbox {
    /// Creates an inbox that wakes the loop through `socket`.
    pub(super) fn new(socket: Socket) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let queue = Queue { done: Vec::new(), wakeup_pending: false, wakeup: Wakeup::Socket(socket) };
        Self { id: IDS.fetch_add(1, Ordering::Relaxed), queue: Mutex::new(queue) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Pushes results, and wakes the loop unless a wake-up is already pending.
    pub fn push(&self, done: impl IntoIterator<Item = (u64, Option<Outcome>)>) {
        let mut queue = self.lock();
        if matches!(queue.wakeup, Wakeup::Closed) {
            let orphaned = done.into_iter().filter_map(|(_, outcome)| outcome);
            lock(&ORPHANED).extend(orphaned);
            return;
        }
        queue.done.extend(done);
        if queue.done.is_empty() || std::mem::replace(&mut queue.wakeup_pending, true) {
            return;
        }
        match &queue.wakeup {
            // The write never blocks, because the socket has at most one unread byte.
            Wakeup::Socket(socket) => drop((&*socket).write(&[1])),
            Wakeup::Thread(queue) => {
                let id = self.id;
                queue.push(usize::MAX, move |py| wake_call(py, id));
            }
            Wakeup::Closed => {}
        }
    }

    /// Returns the results pushed since the last call.
    pub(super) fn take(&self) -> Vec<(u64, Option<Outcome>)> {
        let mut queue = self.lock();
        queue.wakeup_pending = false;
        std::mem::take(&mut queue.done)
    }

    /// Closes the inbox and drops its results.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        let closed = (std::mem::replace(&mut queue.wakeup, Wakeup::Closed), std::mem::take(&mut queue.done));
        drop(queue);
        drop(closed);
    }
}

/// Drops the outcomes of closed loops. Must be called on an attached thread.
pub(super) fn drop_orphaned() {
    let orphaned = std::mem::take(&mut *lock(&ORPHANED));
    drop(orphaned);
}
