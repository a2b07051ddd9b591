//! Task of one broker: encodes and compresses batches on any free core, sends them and handles responses in order.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use samsarrow_wire::batch::patch::set_producer;
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::messages::ApiKey;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::batch::{Batch, Payload};
use super::delivery_state::Appended;
use super::drain::{Outgoing, ReadyBatches};
use super::queue::FailureKind;
use super::request::{self, ProduceResponse, SkippedBatches};
use super::response_handler::{complete_all, fail_batches, fail_request, handle_response};
use super::shared::{Settings, Shared};
use crate::blocking;
use crate::error::{Error, Result};
use crate::net::CallerDeadline;

/// Minimum total size in bytes of the batches of a request that are compressed on a blocking thread.
const MIN_BLOCKING_SIZE: usize = 32 * 1024;

/// Sends the requests of one broker in order. While a request is sent, batches of the next requests are compressed on
/// other cores.
pub(super) async fn run(shared: &Arc<Shared>, node: i32, mut requests: mpsc::UnboundedReceiver<ReadyBatches>) {
    let (queue, mut prepared) = mpsc::unbounded_channel();
    let (sent, responses) = mpsc::unbounded_channel();
    tokio::spawn(receive_responses(Arc::clone(shared), node, responses));
    let prepare = async move {
        while let Some(ReadyBatches { batches, .. }) = requests.recv().await {
            if queue.send(start_encoding(shared, batches)).is_err() {
                break;
            }
        }
    };
    let send = async {
        while let Some(work) = prepared.recv().await {
            let (batches, encoded) = match work {
                EncodeJob::Done(batches, encoded) => (batches, encoded),
                EncodeJob::Running(task) => match task.await {
                    Ok(done) => done,
                    // Panics are caught within the task, so the task fails only if the process ends.
                    Err(error) => {
                        tracing::error!(%error, "compressing batches was cancelled");
                        shared.lock().request_completed(node, Duration::ZERO);
                        shared.wake.notify_one();
                        continue;
                    }
                },
            };
            match encoded {
                // Every batch has its own error, which replaces this one.
                Ok(()) if batches.iter().all(|outgoing| outgoing.skip_error.is_some()) => {
                    let error = Error::configuration("the batch cannot be encoded");
                    fail_batches(shared, node, batches, &error, FailureKind::Rejected);
                }
                Ok(()) => send_request(shared, node, batches, &sent).await,
                Err(error) => fail_batches(shared, node, batches, &error, FailureKind::Rejected),
            }
        }
    };
    tokio::join!(prepare, send);
}

/// Batches being encoded.
enum EncodeJob {
    Done(Vec<Outgoing>, Result<()>),
    Running(tokio::task::JoinHandle<(Vec<Outgoing>, Result<()>)>),
}

fn start_encoding(shared: &Arc<Shared>, mut batches: Vec<Outgoing>) -> EncodeJob {
    let drafts = batches.iter().filter(|outgoing| matches!(outgoing.batch.payload, Payload::Draft(_)));
    let bytes: usize = drafts.map(|outgoing| outgoing.batch.size()).sum();
    if shared.settings.batch_codec() != Codec::None && bytes >= MIN_BLOCKING_SIZE {
        let shared = Arc::clone(shared);
        return EncodeJob::Running(blocking::spawn(move || {
            let encoded = encode_all(&mut batches, &shared);
            (batches, encoded)
        }));
    }
    let encoded = encode_all(&mut batches, shared);
    EncodeJob::Done(batches, encoded)
}

/// A request whose response is awaited.
struct InFlightRequest {
    started: Instant,
    batches: Vec<Outgoing>,
    response: Pin<Box<dyn Future<Output = Result<ProduceResponse>> + Send>>,
}

async fn send_request(
    shared: &Arc<Shared>,
    node: i32,
    mut batches: Vec<Outgoing>,
    sent: &mpsc::UnboundedSender<InFlightRequest>,
) {
    if shared.settings.acks == 0 {
        return send_without_response(shared, node, batches).await;
    }
    let settings = &shared.settings;
    let partition_payloads = request::partition_payloads(&mut batches);
    let skipped = SkippedBatches::default();
    let cluster = shared.produce_cluster().with_max_version(ApiKey::Produce, request::newest_version(&batches));
    let check_deadline = check_deadline(&batches);
    let build_skipped = skipped.clone();
    let build = move |version| {
        check_deadline().and_then(|()| request::build(version, partition_payloads, settings, &build_skipped))
    };
    let started = Instant::now();
    let response: Pin<Box<dyn Future<Output = _> + Send>> =
        match cluster.dispatch(node, CallerDeadline::to_send(settings.request_timeout), build).await {
            Ok(response) => Box::pin(response),
            Err(error) => Box::pin(ready(Err(error))),
        };
    skipped.apply_to(&mut batches);
    if let Err(mpsc::error::SendError(InFlightRequest { batches, response, .. })) =
        sent.send(InFlightRequest { started, batches, response })
    {
        handle_response(shared, node, batches, response.await);
    }
}

/// Handles responses one after the other, in the order of the requests. With one task per response, callbacks of a
/// partition's second batch could run before callbacks of its first batch.
async fn receive_responses(shared: Arc<Shared>, node: i32, mut responses: mpsc::UnboundedReceiver<InFlightRequest>) {
    while let Some(InFlightRequest { started, batches, response }) = responses.recv().await {
        let response = response.await;
        if response.is_ok() {
            count_request(&shared, started, &batches);
        }
        handle_response(&shared, node, batches, response);
    }
}

fn count_request(shared: &Shared, started: Instant, batches: &[Outgoing]) {
    let waited = batches.iter().map(|outgoing| started.saturating_duration_since(outgoing.batch.created));
    let records = batches.iter().map(|outgoing| u64::from(outgoing.batch.count)).sum();
    shared.lock().counters.request_completed(started, waited, records);
}

/// Returns a check that fails once every batch has expired. The check runs when the connection is established, because
/// that can take a while and expired batches must not be sent.
fn check_deadline(batches: &[Outgoing]) -> impl Fn() -> Result<()> + use<> {
    let last = batches.iter().map(|outgoing| (outgoing.batch.deadline, outgoing.batch.created)).max();
    move || match last {
        Some((deadline, created)) if deadline <= Instant::now() => Err(Error::timeout("Produce", deadline - created)),
        _ => Ok(()),
    }
}

/// Sends a request with `acks=0`. Brokers send no response, so the batches are complete once the request is written.
async fn send_without_response(shared: &Arc<Shared>, node: i32, mut batches: Vec<Outgoing>) {
    let settings = &shared.settings;
    let partition_payloads = request::partition_payloads(&mut batches);
    let skipped = SkippedBatches::default();
    let cluster = shared.cluster.with_max_version(ApiKey::Produce, request::newest_version(&batches));
    let check_deadline = check_deadline(&batches);
    let build_skipped = skipped.clone();
    let build = move |version| {
        check_deadline().and_then(|()| request::build(version, partition_payloads, settings, &build_skipped))
    };
    let started = Instant::now();
    let sent = cluster.send_oneway(node, CallerDeadline::to_send(settings.request_timeout), build).await;
    skipped.apply_to(&mut batches);
    match sent {
        Ok(()) => {
            count_request(shared, started, &batches);
            complete_all(shared, node, Duration::ZERO, batches, |_| {
                Ok(Appended { base_offset: -1, log_append_time: -1 })
            })
        }
        Err(error) => fail_request(shared, node, batches, error),
    }
}

/// Compresses the batches and writes their headers and sequences.
fn encode_all(batches: &mut [Outgoing], shared: &Shared) -> Result<()> {
    let mut compressor = shared.compressors().pop();
    let encoded = catch_panic(|| encode_with(batches, &shared.settings, &mut compressor))?;
    // After a panic the compressor is not reused.
    shared.compressors().extend(compressor);
    encoded
}

/// Runs `encode` and returns a panic as an error, because the records of the batches wait for a result and the same
/// task encodes later batches of the broker.
fn catch_panic<T>(encode: impl FnOnce() -> T) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(encode)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason".to_owned());
        Error::State(format!("the batch was not sent, because encoding it panicked ({text}): report this as a bug"))
    })
}

fn encode_with(batches: &mut [Outgoing], settings: &Settings, compressor: &mut Option<Compressor>) -> Result<()> {
    for outgoing in batches {
        let failed = |error: &dyn std::fmt::Display, batch: &Batch| {
            let (topic, partition) = (&batch.state.topic, batch.state.partition);
            Error::configuration(format!("cannot encode a batch for {topic}-{partition}: {error}"))
        };
        let batch = &mut outgoing.batch;
        let numbered = batch.numbered;
        let encoded = match &mut batch.payload {
            Payload::Draft(builder) => {
                if let Some((identity, sequence)) = numbered {
                    let options = builder.options_mut();
                    options.producer_id = identity.producer_id;
                    options.producer_epoch = identity.epoch;
                    options.base_sequence = sequence;
                    options.transactional = settings.transactional_id.is_some();
                }
                let compressor = match compressor {
                    Some(compressor) => compressor,
                    None => {
                        let level = settings.level.filter(|_| settings.magic == 2);
                        let new = Compressor::new(settings.batch_codec(), level);
                        compressor.insert(new.map_err(|error| Error::configuration(error.to_string()))?)
                    }
                };
                builder.finish(compressor).map(Bytes::from)
            }
            Payload::Encoded(bytes) => {
                // Without a sequence the bytes stay unchanged.
                let Some((identity, sequence)) = numbered else { continue };
                // If an earlier request with these bytes is still being written, the new sequence is written to a copy.
                let bytes = std::mem::take(bytes);
                let mut bytes = bytes.try_into_mut().unwrap_or_else(|bytes| BytesMut::from(&bytes[..]));
                set_producer(&mut bytes, identity.producer_id, identity.epoch, sequence).map(|()| bytes.freeze())
            }
        };
        match encoded {
            Ok(bytes) => batch.payload = Payload::Encoded(bytes),
            Err(error) => outgoing.skip_error = Some(failed(&error, batch)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn panic_while_encoding_is_an_error() {
        assert_eq!(catch_panic(|| 7), Ok(7));
        let number = 5;
        for encode in [|_| panic!("index out of range"), |number| panic!("index {number} out of range")] as [fn(i32); 2]
        {
            let error = catch_panic(|| encode(number)).unwrap_err();
            assert!(error.to_string().contains("encoding it panicked (index "), "{error}");
            assert!(!error.retriable());
        }
    }
}
