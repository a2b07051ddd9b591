//! Which tasks a consumer runs: one that finds starts, and one for every broker that it reads from.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use samsarrow_wire::error_code::ErrorCode;
use tokio::task::JoinSet;

use super::cores::Cores;
use super::positions::Positioner;
use super::queue::Item;
use super::source::Source;
use super::state::Shared;
use crate::cluster::{Cluster, Lane, TopicUser};
use crate::config::Options;
use crate::error::Error;
use crate::group::coordinator::Coordinator;
use crate::types::TopicPartition;

/// All tasks of a consumer; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) shared: Arc<Shared>,
    tasks: Mutex<Option<JoinSet<()>>>,
    parts: Mutex<Option<(Positioner, Arc<Source>)>>,
}

impl Fetcher {
    /// Nothing runs before the first call of `start`.
    pub(crate) fn new(cluster: &Cluster, coordinator: Option<Coordinator>, options: &Options) -> Self {
        let shared = Arc::new(Shared::new());
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
            cluster: cluster.lane(Lane::Fetch),
            options: options.consumer.clone(),
            cores: Cores::new(),
        };
        Self { shared, tasks: Mutex::default(), parts: Mutex::new(Some((positioner, Arc::new(source)))) }
    }

    /// Starts the tasks, once. Must be called within a tokio runtime.
    pub(crate) fn start(&self) {
        let Some((positioner, source)) = self.parts.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(positioner.run());
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

/// What is assigned is asked for at every refresh.
impl TopicUser for Shared {
    fn topics_in_use(&self) -> Vec<Arc<str>> {
        let state = self.lock();
        let topics: HashSet<&Arc<str>> = state.cursors.keys().map(|tp| &tp.topic).collect();
        topics.into_iter().cloned().collect()
    }
}

/// Keeps one task running for every broker that assigned partitions are read from, and metadata known for all of them.
async fn supervise(source: Arc<Source>) {
    let mut work = source.shared.work();
    let mut metadata_changes = source.cluster.watch();
    let mut served = HashSet::new();
    // Dropping the set, as this task ends, ends the others.
    let mut brokers = JoinSet::new();
    loop {
        work.borrow_and_update();
        let metadata = metadata_changes.borrow_and_update().clone();
        let mut leaderless = Vec::new();
        {
            let now = std::time::Instant::now();
            let state = source.shared.lock();
            if state.closed {
                return;
            }
            for (tp, cursor) in state.cursors.iter().filter(|(_, c)| c.fetch_offset.is_some() && !c.failed) {
                match cursor.read_from(tp, &metadata, now) {
                    Some((node, _)) if served.insert(node) => {
                        let source = Arc::clone(&source);
                        brokers.spawn(async move { source.run(node).await });
                    }
                    Some(_) => {}
                    None => leaderless.push((tp.clone(), cursor.version)),
                }
            }
        }
        tokio::select! {
            _ = work.changed() => {}
            _ = metadata_changes.changed() => {}
            () = find_leaders(&source, &leaderless), if !leaderless.is_empty() => {}
        }
    }
}

/// Asks for the metadata of partitions that have no leader; one that does not exist fails.
async fn find_leaders(source: &Source, leaderless: &[(TopicPartition, u64)]) {
    let mut topics: Vec<&str> = leaderless.iter().map(|(tp, _)| &*tp.topic).collect();
    topics.sort_unstable();
    topics.dedup();
    let patience = source.cluster.options().default_api_timeout;
    for topic in topics {
        let found = source.cluster.topics(&[topic], patience).await;
        let mut state = source.shared.lock();
        for (tp, version) in leaderless.iter().filter(|(tp, _)| &*tp.topic == topic) {
            let error = match &found {
                Ok(metadata) if metadata.partition(topic, tp.partition).is_some() => continue,
                Ok(_) => {
                    let context = format!("{tp} (the topic has fewer partitions)");
                    Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context)
                }
                Err(error) => error.clone(),
            };
            if let Some(cursor) = state.at_version(tp, *version) {
                cursor.failed = true;
                state.queue.push_back(Item::PartitionError(tp.clone(), *version, error));
            }
        }
        drop(state);
        source.shared.ring_ready();
    }
    // Known, but without a leader: an election takes its time.
    source.cluster.request_refresh();
    tokio::time::sleep(source.cluster.options().retry_backoff_max).await;
}
