//! What the core's threads hand over to a loop, and how they ring it.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Socket;
use super::loops::ask;
use crate::call::Outcome;
use crate::lanes::Lane;

/// Outcomes that no loop takes any more. What Python lent may be in them: the next thread that is attached drops them.
static LEFT: Mutex<Vec<Outcome>> = Mutex::new(Vec::new());

/// How a loop is made to look.
pub(super) enum Ring {
    /// The loop watches the other end.
    Socket(Socket),
    /// A thread of Python's asks it.
    Thread(Arc<Lane>),
    /// There is no loop any more.
    Never,
}

pub(super) struct Queue {
    done: Vec<(u64, Option<Outcome>)>,
    /// The loop was rung since it last looked.
    armed: bool,
    pub(super) ring: Ring,
}

/// The side of the core's threads.
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
    /// Rings through `socket`, one end of what the loop watches.
    pub(super) fn new(socket: Socket) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let queue = Queue { done: Vec::new(), armed: false, ring: Ring::Socket(socket) };
        Self { id: IDS.fetch_add(1, Ordering::Relaxed), queue: Mutex::new(queue) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what is done, in one go.
    pub fn push(&self, done: impl IntoIterator<Item = (u64, Option<Outcome>)>) {
        let mut queue = self.lock();
        if matches!(queue.ring, Ring::Never) {
            let left = done.into_iter().filter_map(|(_, outcome)| outcome);
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
            return;
        }
        queue.done.extend(done);
        if queue.done.is_empty() || std::mem::replace(&mut queue.armed, true) {
            return;
        }
        match &queue.ring {
            // One byte at most is on its way: there is always room for it.
            Ring::Socket(socket) => drop((&*socket).write(&[1])),
            Ring::Thread(lane) => {
                let id = self.id;
                lane.push(usize::MAX, move |py| ask(py, id));
            }
            Ring::Never => {}
        }
    }

    /// What was pushed since the last time.
    pub(super) fn take(&self) -> Vec<(u64, Option<Outcome>)> {
        let mut queue = self.lock();
        queue.armed = false;
        std::mem::take(&mut queue.done)
    }

    /// Nobody looks any more.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        let left = (std::mem::replace(&mut queue.ring, Ring::Never), std::mem::take(&mut queue.done));
        drop(queue);
        drop(left);
    }
}

/// Drops what no loop takes any more, on a thread that is attached.
pub(super) fn drop_left() {
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    drop(left);
}
