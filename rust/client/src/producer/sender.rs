//! The sender task: drains the queues and passes each broker's requests to a task of that broker, in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::dispatcher::ship;
use super::drain::Shipment;
use super::producer_id;
use super::queue::FailureKind;
use super::response_handler::fail_shipment;
use super::shared::Shared;
use super::transactions::register;
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
    let mut workers: HashMap<i32, mpsc::UnboundedSender<Shipment>> = HashMap::new();
    let mut metadata_lives = true;
    loop {
        let now = Instant::now();
        let exhausted = shared.memory.exhausted();
        let mut collected = shared.lock().collect(now, exhausted);
        shared.settle(std::mem::take(&mut collected.settled));
        for shipment in collected.shipments {
            let worker = workers.entry(shipment.node).or_insert_with(|| start_worker(shared, shipment.node));
            // The worker lives as long as this task. If it were gone, the batches fail like those of a lost connection.
            if let Err(mpsc::error::SendError(shipment)) = worker.send(shipment) {
                let error = Error::closed("the producer's connection task");
                fail_shipment(shared, shipment.node, shipment.batches, &error, FailureKind::Retriable);
            }
        }
        if !collected.unknown.is_empty() {
            let names: Vec<Arc<str>> = {
                let accumulator = shared.lock();
                let topics = collected.unknown.iter().filter_map(|index| accumulator.topic(*index));
                topics.map(|topic| Arc::clone(&topic.name)).collect()
            };
            shared.cluster.request_to_write(&names.iter().map(|name| &**name).collect::<Vec<_>>());
        }
        if collected.leader_missing {
            let poll = now + LEADER_POLL;
            collected.wake_at = Some(collected.wake_at.map_or(poll, |at| at.min(poll)));
        }
        if collected.register {
            tokio::spawn(register(Arc::clone(shared)));
        }
        if collected.identity_missing && !shared.acquiring.swap(true, Ordering::AcqRel) {
            tokio::spawn(producer_id::acquire(Arc::clone(shared)));
        }
        let sleep = async {
            match collected.wake_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
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

fn start_worker(shared: &Arc<Shared>, node: i32) -> mpsc::UnboundedSender<Shipment> {
    // The channel is bounded in effect: the accumulator returns at most `max.in.flight.requests.per.connection`
    // requests per broker.
    let (sender, receiver) = mpsc::unbounded_channel();
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut stop = shared.stop.subscribe();
        tokio::select! {
            () = ship(&shared, node, receiver) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    });
    sender
}
