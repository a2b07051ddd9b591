//! Tasks of a consumer: start offsets, leaders, and one fetch task per broker.

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::decode_pool::Cores;
use super::leader_lookup::find_leaders;
use super::offset_reset::Positioner;
use super::queue::Item;
use super::shared_state::Shared;
use super::source::Source;
use crate::cluster::coordinator::Coordinator;
use crate::cluster::{Cluster, ConnectionKind, TopicUser};
use crate::config::Options;
use crate::error::Error;
use crate::metrics::{self, ReadMeters};
use crate::retry::backoff::Backoff;

/// A task that fails again within this time has a cause that starting it again does not heal.
const RECENTLY: Duration = Duration::from_secs(60);

/// All tasks of a consumer; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) shared: Arc<Shared>,
    tasks: Mutex<Option<JoinSet<()>>>,
    parts: Mutex<Option<(Arc<Positioner>, Arc<Source>)>>,
}

impl Fetcher {
    /// Nothing runs before the first call of `start`.
    pub(crate) fn new(cluster: &Cluster, coordinator: Option<Coordinator>, options: &Options) -> Self {
        let shared = Arc::new(Shared::new(options.consumer.queued_max_bytes));
        let metrics = &options.common.metrics;
        shared.lock().meters = ReadMeters::new(metrics.windows, metrics.by_row);
        let measured: Arc<dyn metrics::Source> = Arc::clone(&shared) as _;
        cluster.metrics().add(Arc::downgrade(&measured));
        let user: Arc<dyn TopicUser> = Arc::clone(&shared) as _;
        cluster.keep(Arc::downgrade(&user));
        let positioner = Positioner {
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
            cores: Arc::new(Cores::new(&shared, &options.consumer)),
        };
        Self { shared, tasks: Mutex::default(), parts: Mutex::new(Some((Arc::new(positioner), Arc::new(source)))) }
    }

    /// Starts the tasks, once. Must be called within a tokio runtime.
    pub(crate) fn start(&self) {
        let Some((positioner, source)) = self.parts.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let mut tasks = JoinSet::new();
        let backoff = source.cluster.backoff();
        let kept =
            |name: &str| Kept { name: name.to_owned(), shared: Arc::clone(&self.shared), backoff: backoff.clone() };
        let place = move || Arc::clone(&positioner).run();
        tasks.spawn(kept("the search for positions").keep(place, |_| {}));
        let (shared, cluster) = (Arc::clone(&self.shared), source.cluster.clone());
        let find = move || find_leaders(Arc::clone(&shared), cluster.clone());
        tasks.spawn(kept("the search for leaders").keep(find, |_| {}));
        tasks.spawn(Arc::clone(&source.cores).run());
        tasks.spawn(supervise(source));
        *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = Some(tasks);
    }

    /// Ends the tasks.
    pub(crate) fn stop(&self) {
        self.shared.close();
        // Dropping the set aborts what is in it.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Assigned topics are requested with every refresh.
impl TopicUser for Shared {
    fn topics_in_use(&self) -> Vec<Arc<str>> {
        let state = self.lock();
        let topics: HashSet<&Arc<str>> = state.cursors.keys().map(|tp| &tp.topic).collect();
        topics.into_iter().cloned().collect()
    }
}

/// Keeps one task running for every broker that assigned partitions are read from.
async fn supervise(source: Arc<Source>) {
    let mut work = source.shared.work();
    let mut metadata_changes = source.cluster.watch();
    let mut served = HashSet::new();
    // Dropping the set, as this task ends, ends the others.
    let mut brokers = JoinSet::new();
    loop {
        work.borrow_and_update();
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
                    && served.insert(node)
                {
                    let kept = Kept {
                        name: format!("reading from broker {node}"),
                        shared: Arc::clone(&source.shared),
                        backoff: source.cluster.backoff(),
                    };
                    let source = Arc::clone(&source);
                    let read = move || {
                        let source = Arc::clone(&source);
                        async move { source.run(node).await }
                    };
                    brokers.spawn(kept.keep(read, move |shared| shared.recover(node)));
                }
            }
        }
        tokio::select! {
            _ = work.changed() => {}
            _ = metadata_changes.changed() => {}
        }
    }
}

/// A task that is started again when it fails.
struct Kept {
    name: String,
    shared: Arc<Shared>,
    backoff: Backoff,
}

impl Kept {
    /// Runs a task until it completes. A panic is logged, and returned by `poll` if it is not the first; `recover`
    /// undoes partial changes.
    async fn keep<F>(mut self, mut start: impl FnMut() -> F, recover: impl Fn(&Shared))
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut before: Option<Instant> = None;
        loop {
            // In a set of its own, it ends with this one.
            let mut task = JoinSet::new();
            task.spawn(start());
            let Some(Err(failed)) = task.join_next().await else { return };
            let Ok(panic) = failed.try_into_panic() else { return };
            let (name, reason) = (&self.name, text(&*panic));
            tracing::error!(task = name, reason, "a task of the consumer failed: it is started again");
            recover(&self.shared);
            match before.replace(Instant::now()) {
                Some(before) if before.elapsed() < RECENTLY => {
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
    async fn another_broker_goes_on_with_what_a_task_that_failed_has_left() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        let mut room = shared.room();
        let wanted_of_another = || shared.lock().cursors[&tp].wants(4, Instant::now());
        shared.lock().cursors.get_mut(&tp).unwrap().undecoded = (1, 3);
        assert_eq!(wanted_of_another(), None);
        room.mark_unchanged();
        shared.recover(3);
        assert_eq!(wanted_of_another(), Some(0));
        assert!(room.has_changed().unwrap());
    }

    #[tokio::test]
    async fn a_task_that_fails_is_started_again_and_told_of_if_it_fails_again() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        // Fetched up to 9, and not decoded.
        let taken = |shared: &Shared| {
            let mut state = shared.lock();
            let cursor = state.cursors.get_mut(&tp).unwrap();
            (cursor.fetch_offset, cursor.undecoded) = (Some(9), (1, 3));
        };
        let starts = Arc::new(AtomicUsize::new(0));
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(2));
        let kept = Kept { name: "reading".into(), shared: Arc::clone(&shared), backoff };
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
        kept.keep(start, |shared| shared.lock().recover(3)).await;
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
