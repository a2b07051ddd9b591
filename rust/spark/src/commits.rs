//! Commits the offsets of finished micro-batches to a consumer group.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use samsarrow_wire::sync::lock;
use tokio::task::JoinHandle;

use crate::kafka_metadata::KafkaMetadata;
use crate::offsets::Offsets;
use crate::options::ReadOptions;

/// Timeout of a single commit, and of waiting for a commit when a query ends.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which the same offsets are committed again if their previous commit failed.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Background task that commits the newest offsets. Offsets that arrive during a commit are part of the next commit.
#[derive(Debug, Default)]
pub(crate) struct GroupCommits {
    queue: Arc<Mutex<Queue>>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    pending: Option<Offsets>,
    last_request: Option<(Offsets, Instant)>,
    committed: Offsets,
    running: bool,
}

impl GroupCommits {
    /// Queues offsets for a commit. If the commit fails, the error is logged, and the next offsets are committed.
    pub(crate) fn queue(&mut self, options: &Arc<ReadOptions>, metadata: &Arc<KafkaMetadata>, offsets: &Offsets) {
        let mut queue = lock(&self.queue);
        let last_request = queue.last_request.as_ref().filter(|(last_request, _)| last_request == offsets);
        if last_request.is_some_and(|(_, at)| queue.committed == *offsets || at.elapsed() < RETRY_AFTER) {
            return;
        }
        queue.last_request = Some((offsets.clone(), Instant::now()));
        queue.pending = Some(offsets.clone());
        if !std::mem::replace(&mut queue.running, true) {
            let (queue, options, metadata) = (Arc::clone(&self.queue), Arc::clone(options), Arc::clone(metadata));
            self.task = Some(tokio::spawn(run(queue, options, metadata)));
        }
    }

    /// Waits until no commit is in flight, but at most for the timeout of a single commit.
    pub(crate) async fn wait_idle(&mut self) {
        if let Some(mut task) = self.task.take()
            && tokio::time::timeout(TIMEOUT, &mut task).await.is_err()
        {
            self.task = Some(task);
        }
    }
}

async fn run(queue: Arc<Mutex<Queue>>, options: Arc<ReadOptions>, metadata: Arc<KafkaMetadata>) {
    while let Some((offsets, changed)) = next(&queue) {
        match metadata.commit(&options, &changed, TIMEOUT).await {
            Ok(()) => lock(&queue).committed = offsets,
            Err(error) => tracing::warn!(
                "offsets of the query could not be committed to group {}; retrying with the next micro-batch: {error}",
                options.group().unwrap_or_default()
            ),
        }
    }
}

/// Takes the newest offsets from the queue. Returns all of these offsets, and the subset that is not committed yet.
fn next(queue: &Mutex<Queue>) -> Option<(Offsets, Offsets)> {
    let mut queue = lock(queue);
    let pending = queue.pending.take();
    queue.running = pending.is_some();
    let pending = pending?;
    let changed = pending.iter().filter(|(tp, offset)| queue.committed.get(tp) != Some(offset));
    let changed = changed.map(|(tp, offset)| (tp.clone(), *offset)).collect();
    Some((pending, changed))
}
