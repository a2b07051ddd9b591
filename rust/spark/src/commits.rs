//! Offsets of finished micro-batches, committed to a group beside the query.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::brokers::Brokers;
use crate::offsets::Offsets;
use crate::options::ReadOptions;

/// For one commit, and for what a query that ends waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);
/// After which offsets that could not be committed are tried again, if no others have come.
const AGAIN: Duration = Duration::from_secs(10);

/// Commits the newest offsets in a task; those that came while a commit was under way go with the next one.
#[derive(Debug, Default)]
pub(crate) struct GroupCommits {
    queue: Arc<Mutex<Queue>>,
    under_way: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    wanted: Option<Offsets>,
    asked: Option<(Offsets, Instant)>,
    committed: Offsets,
    running: bool,
}

impl GroupCommits {
    /// Has offsets committed; a failure is written into the log, and tried again when the next ones come.
    pub(crate) fn put(&mut self, options: &Arc<ReadOptions>, brokers: &Arc<Brokers>, offsets: &Offsets) {
        let mut queue = lock(&self.queue);
        let asked = queue.asked.as_ref().filter(|(asked, _)| asked == offsets);
        if asked.is_some_and(|(_, at)| queue.committed == *offsets || at.elapsed() < AGAIN) {
            return;
        }
        queue.asked = Some((offsets.clone(), Instant::now()));
        queue.wanted = Some(offsets.clone());
        if !std::mem::replace(&mut queue.running, true) {
            let (queue, options, brokers) = (Arc::clone(&self.queue), Arc::clone(options), Arc::clone(brokers));
            self.under_way = Some(tokio::spawn(run(queue, options, brokers)));
        }
    }

    /// Waits until nothing is under way, but no longer than a commit may take.
    pub(crate) async fn settle(&mut self) {
        if let Some(mut task) = self.under_way.take()
            && tokio::time::timeout(TIMEOUT, &mut task).await.is_err()
        {
            self.under_way = Some(task);
        }
    }
}

async fn run(queue: Arc<Mutex<Queue>>, options: Arc<ReadOptions>, brokers: Arc<Brokers>) {
    while let Some((offsets, changed)) = next(&queue) {
        match brokers.commit(&options, &changed, TIMEOUT).await {
            Ok(()) => lock(&queue).committed = offsets,
            Err(error) => tracing::warn!(
                "offsets of the query could not be committed to group {}; tried again with the next micro-batch: {error}",
                options.group().unwrap_or_default()
            ),
        }
    }
}

/// The newest offsets, and those of them that are not committed yet.
fn next(queue: &Mutex<Queue>) -> Option<(Offsets, Offsets)> {
    let mut queue = lock(queue);
    let wanted = queue.wanted.take();
    queue.running = wanted.is_some();
    let wanted = wanted?;
    let changed = wanted.iter().filter(|(tp, offset)| queue.committed.get(tp) != Some(offset));
    let changed = changed.map(|(tp, offset)| (tp.clone(), *offset)).collect();
    Some((wanted, changed))
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
