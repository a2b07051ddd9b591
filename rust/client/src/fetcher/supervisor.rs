//! Tasks of a consumer: lookup of start offsets and leaders, decoding, and one fetch task per broker.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::sync::lock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::decode_pool::DecodePool;
use super::leader_lookup::find_leaders;
use super::offset_reset::OffsetResetter;
use super::queue::Item;
use super::shared_state::Shared;
use super::source::Source;
use crate::cluster::coordinator::Coordinator;
use crate::cluster::{Cluster, ConnectionKind, TopicUser};
use crate::collections::HashSet;
use crate::config::Options;
use crate::error::Error;
use crate::metrics::{self, ReadMeters};
use crate::retry::backoff::Backoff;

/// Period in which a second failure of the same task counts as a persistent error.
const RECENT_FAILURE: Duration = Duration::from_secs(60);

/// The tasks of a consumer. They end when the `Fetcher` is dropped.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) shared: Arc<Shared>,
    tasks: Mutex<Option<JoinSet<()>>>,
    components: Mutex<Option<(Arc<OffsetResetter>, Arc<Source>)>>,
}

impl Fetcher {
    /// Creates the fetcher. No task runs until `start` is called.
    pub(crate) fn new(cluster: &Cluster, coordinator: Option<Coordinator>, options: &Options) -> Self {
        let shared = Arc::new(Shared::new(options.consumer.queued_max_bytes));
        let metrics = &options.common.metrics;
        shared.lock().meters = ReadMeters::new(metrics.windows, metrics.by_row);
        let metrics_source: Arc<dyn metrics::Source> = Arc::clone(&shared) as _;
        cluster.metrics().add(Arc::downgrade(&metrics_source));
        let user: Arc<dyn TopicUser> = Arc::clone(&shared) as _;
        cluster.keep(Arc::downgrade(&user));
        let resetter = OffsetResetter {
            shared: Arc::clone(&shared),
            cluster: cluster.clone(),
            coordinator,
            reset: options.consumer.auto_offset_reset,
            isolation: options.consumer.isolation_level,
            timeout: options.common.default_api_timeout,
        };
        let source = Source {
            shared: Arc::clone(&shared),
            cluster: cluster.with_connections(ConnectionKind::Fetch),
            options: options.consumer.clone(),
            decode_pool: Arc::new(DecodePool::new(&shared, &options.consumer)),
        };
        Self { shared, tasks: Mutex::default(), components: Mutex::new(Some((Arc::new(resetter), Arc::new(source)))) }
    }

    /// Starts the tasks on the first call. Must be called within a tokio runtime.
    pub(crate) fn start(&self) {
        let Some((resetter, source)) = lock(&self.components).take() else {
            return;
        };
        let mut tasks = JoinSet::new();
        let backoff = source.cluster.backoff();
        let restarting = |name: &str| RestartingTask {
            name: name.to_owned(),
            shared: Arc::clone(&self.shared),
            backoff: backoff.clone(),
        };
        let reset_offsets = move || Arc::clone(&resetter).run();
        tasks.spawn(restarting("the search for positions").run(reset_offsets, |_| {}));
        let (shared, cluster) = (Arc::clone(&self.shared), source.cluster.clone());
        let find_leaders_task = move || find_leaders(Arc::clone(&shared), cluster.clone());
        tasks.spawn(restarting("the search for leaders").run(find_leaders_task, |_| {}));
        tasks.spawn(Arc::clone(&source.decode_pool).run());
        tasks.spawn(supervise(source));
        *lock(&self.tasks) = Some(tasks);
    }

    /// Ends the tasks.
    pub(crate) fn stop(&self) {
        self.shared.close();
        // Dropping the `JoinSet` aborts its tasks.
        lock(&self.tasks).take();
    }
}

/// Every metadata refresh includes the assigned topics.
impl TopicUser for Shared {
    fn topics_in_use(&self) -> Vec<Arc<str>> {
        let state = self.lock();
        let topics: HashSet<&Arc<str>> = state.cursors.keys().map(|tp| &tp.topic).collect();
        topics.into_iter().cloned().collect()
    }
}

/// Runs one fetch task for each broker that assigned partitions are fetched from.
async fn supervise(source: Arc<Source>) {
    let mut task_changes = source.shared.task_changes();
    let mut metadata_changes = source.cluster.watch();
    let mut running = HashSet::default();
    // When this task ends, it drops the set, which ends the fetch tasks.
    let mut brokers = JoinSet::new();
    loop {
        task_changes.borrow_and_update();
        let metadata = metadata_changes.borrow_and_update().clone();
        source.shared.compare_topic_ids(&source.cluster, &metadata, source.options.auto_offset_reset);
        {
            let now = Instant::now();
            let state = source.shared.lock();
            if state.closed {
                return;
            }
            for (tp, cursor) in state.cursors.iter().filter(|(_, c)| c.fetch_offset.is_some() && !c.failed) {
                if let Some((node, _)) = cursor.read_from(tp, &metadata, now)
                    && running.insert(node)
                {
                    let restarting = RestartingTask {
                        name: format!("reading from broker {node}"),
                        shared: Arc::clone(&source.shared),
                        backoff: source.cluster.backoff(),
                    };
                    let source = Arc::clone(&source);
                    let read = move || {
                        let source = Arc::clone(&source);
                        async move { source.run(node).await }
                    };
                    brokers.spawn(restarting.run(read, move |shared| shared.recover(node)));
                }
            }
        }
        tokio::select! {
            _ = task_changes.changed() => {}
            _ = metadata_changes.changed() => {}
        }
    }
}

/// A task that is restarted when it panics.
struct RestartingTask {
    name: String,
    shared: Arc<Shared>,
    backoff: Backoff,
}

impl RestartingTask {
    /// Runs a task until it completes, and starts it again if it panics. `recover` undoes partial changes. Each panic
    /// is logged; a panic soon after another one is also raised by `poll`.
    async fn run<F>(mut self, mut start: impl FnMut() -> F, recover: impl Fn(&Shared))
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut before: Option<Instant> = None;
        loop {
            // The task runs in a `JoinSet`, so that it ends when the calling task ends.
            let mut task = JoinSet::new();
            task.spawn(start());
            let Some(Err(failed)) = task.join_next().await else { return };
            let Ok(panic) = failed.try_into_panic() else { return };
            let (name, reason) = (&self.name, text(&*panic));
            tracing::error!("{name} failed and is started again, which is a defect of samsarrow: {reason}");
            recover(&self.shared);
            match before.replace(Instant::now()) {
                Some(before) if before.elapsed() < RECENT_FAILURE => {
                    let error = format!("{name} failed again, which is a defect of samsarrow: {reason}");
                    self.shared.push(Item::Error(Error::State(error)));
                }
                _ => self.backoff.reset(),
            }
            tokio::time::sleep(self.backoff.next_delay()).await;
        }
    }
}

/// Returns the message of a panic.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason is known")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn other_broker_continues_after_a_failed_task() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        let mut capacity_changes = shared.capacity_changes();
        let fetchable_by_other = || shared.lock().cursors[&tp].fetchable_offset(4, Instant::now());
        shared.lock().cursors.get_mut(&tp).unwrap().undecoded = (1, 3);
        assert_eq!(fetchable_by_other(), None);
        capacity_changes.mark_unchanged();
        shared.recover(3);
        assert_eq!(fetchable_by_other(), Some(0));
        assert!(capacity_changes.has_changed().unwrap());
    }

    #[tokio::test]
    async fn failed_task_is_restarted_and_reported_if_it_fails_again() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        // Records up to offset 9 were fetched but not decoded.
        let taken = |shared: &Shared| {
            let mut state = shared.lock();
            let cursor = state.cursors.get_mut(&tp).unwrap();
            (cursor.fetch_offset, cursor.undecoded) = (Some(9), (1, 3));
        };
        let starts = Arc::new(AtomicUsize::new(0));
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(2));
        let restarting = RestartingTask { name: "reading".into(), shared: Arc::clone(&shared), backoff };
        let (count, state) = (Arc::clone(&starts), Arc::clone(&shared));
        let start = move || {
            let failing = count.fetch_add(1, Ordering::SeqCst) < 2;
            if failing {
                taken(&state);
            }
            async move {
                if failing {
                    std::panic::panic_any("out of luck");
                }
            }
        };
        restarting.run(start, |shared| shared.lock().recover(3)).await;
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        assert_eq!(shared.lock().cursors[&tp].fetch_offset, Some(0));
        let now = tokio::time::Instant::now();
        let error = shared.poll(9, now).await.unwrap().unwrap_err();
        assert!(
            error.to_string().contains("reading failed again") && error.to_string().contains("out of luck"),
            "{error}"
        );
        assert!(shared.poll(9, now).await.is_none());
    }
}
