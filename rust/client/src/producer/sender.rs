//! The sender task: drains the queues and passes each broker's requests to a task of that broker, in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::dispatcher;
use super::drain::ReadyBatches;
use super::producer_id;
use super::queue::FailureKind;
use super::response_handler::fail_batches;
use super::shared::Shared;
use super::transactions::register;
use crate::collections::HashMap;
use crate::error::Error;

/// Interval between checks for a leader that the metadata does not contain.
const LEADER_POLL: Duration = Duration::from_millis(100);

/// Runs the sender until the producer stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    tokio::select! {
        () = send_batches(&shared) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn send_batches(shared: &Arc<Shared>) {
    let mut metadata = shared.cluster.watch();
    let mut workers: HashMap<i32, mpsc::UnboundedSender<ReadyBatches>> = HashMap::default();
    let mut metadata_lives = true;
    loop {
        let now = Instant::now();
        let memory_exhausted = shared.memory.has_waiters();
        let mut drained = shared.lock().drain(now, memory_exhausted);
        shared.complete(std::mem::take(&mut drained.results));
        for request in drained.requests {
            let worker = workers.entry(request.node).or_insert_with(|| start_worker(shared, request.node));
            // The worker lives as long as this task. If it had ended, its batches would fail as after a lost
            // connection.
            if let Err(mpsc::error::SendError(request)) = worker.send(request) {
                let error = Error::closed("the producer's connection task");
                fail_batches(shared, request.node, request.batches, &error, FailureKind::Retriable);
            }
        }
        if !drained.unknown.is_empty() {
            let names: Vec<Arc<str>> = {
                let accumulator = shared.lock();
                let topics = drained.unknown.iter().filter_map(|index| accumulator.topic(*index));
                topics.map(|topic| Arc::clone(&topic.name)).collect()
            };
            shared.cluster.request_to_write(&names.iter().map(|name| &**name).collect::<Vec<_>>());
        }
        if drained.leader_missing {
            let poll = now + LEADER_POLL;
            drained.wake_at = Some(drained.wake_at.map_or(poll, |at| at.min(poll)));
        }
        if drained.register {
            tokio::spawn(register(Arc::clone(shared)));
        }
        if drained.identity_missing && !shared.acquiring.swap(true, Ordering::AcqRel) {
            tokio::spawn(producer_id::acquire(Arc::clone(shared)));
        }
        let sleep = async {
            match drained.wake_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.wake.notified() => {}
            () = sleep => {}
            changed = metadata.changed(), if metadata_lives => {
                metadata_lives = changed.is_ok();
                let latest = Arc::clone(&metadata.borrow_and_update());
                shared.lock().update(&latest);
            }
        }
    }
}

fn start_worker(shared: &Arc<Shared>, node: i32) -> mpsc::UnboundedSender<ReadyBatches> {
    // The channel has no limit of its own, but the accumulator returns at most `max.in.flight.requests.per.connection`
    // requests per broker.
    let (sender, receiver) = mpsc::unbounded_channel();
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut stop = shared.stop.subscribe();
        tokio::select! {
            () = dispatcher::run(&shared, node, receiver) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    });
    sender
}
