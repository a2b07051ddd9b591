//! Producers that send numbered records.
//!
//! Guarantees: an acknowledged record is in the log at its offset. Records of an idempotent producer are in the log at
//! most once, and in their order per partition. Every record has a result after `close`, and no memory is reserved for
//! them. Every call ends within its timeout.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use samsarrow_client::error::Error;
use samsarrow_client::metrics::Id;
use samsarrow_client::producer::{Delivery, Producer, ProducerRecord};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::context::{Context, cancel_after, kind, metric};
use crate::{log, options};

const MAX_BLOCK: Duration = Duration::from_secs(20);
const CLOSE: Duration = Duration::from_secs(60);
/// Maximum size of a record in `buffer.memory`.
const RECORD: f64 = 64.0;

/// Records that one producer sent, with their deliveries; `None` for a call that was cancelled or failed.
#[derive(Debug)]
struct Sent {
    number: usize,
    idempotent: bool,
    records: Vec<(String, Option<Delivery>)>,
}

pub(crate) async fn run(context: Context, mut random: fastrand::Rng) {
    let partitions = (0..).take_while(|index| context.broker.has_partition("t", *index)).count();
    let partitions = i32::try_from(partitions).unwrap_or(1);
    let mut programs = JoinSet::new();
    for number in 0..random.usize(1..4) {
        let seed = random.u64(..);
        programs.spawn(produce(context.clone(), number, partitions, fastrand::Rng::with_seed(seed)));
    }
    let mut all = Vec::new();
    while let Some(ended) = programs.join_next().await {
        match ended {
            Ok(Some(sent)) => all.push(sent),
            Ok(None) => {}
            Err(error) => context.violation(format!("a producer's program failed: {error}")),
        }
    }
    check(&context, partitions, &all);
}

/// Creates a producer with random options.
fn create(context: &Context, number: usize, random: &mut fastrand::Rng) -> Option<(Producer, bool)> {
    let idempotent = random.u8(..4) > 0;
    let codec = random.choice(["none", "none", "lz4", "gzip", "zstd"]).unwrap_or("none");
    let mut chosen = vec![
        ("client.id", format!("producer-{number}")),
        ("enable.idempotence", idempotent.to_string()),
        ("acks", "all".to_owned()),
        ("linger.ms", random.u32(..20).to_string()),
        ("batch.size", random.u32(100..2000).to_string()),
        ("compression.type", codec.to_owned()),
        ("max.in.flight.requests.per.connection", random.u32(1..6).to_string()),
        ("max.block.ms", MAX_BLOCK.as_millis().to_string()),
        ("request.timeout.ms", "5000".to_owned()),
        ("delivery.timeout.ms", random.u32(10_000..60_000).to_string()),
        ("buffer.memory", random.u32(10_000..100_000).to_string()),
    ];
    // Without the option, batches linger only behind requests.
    chosen.retain(|(name, value)| *name != "linger.ms" || !value.ends_with(['1', '3', '5', '7', '9']));
    match options::producer(context, &chosen) {
        Ok(producer) => Some((producer, idempotent)),
        Err(error) => {
            context.violation(format!("producer {number} cannot be created: {error}"));
            None
        }
    }
}

async fn produce(context: Context, number: usize, partitions: i32, mut random: fastrand::Rng) -> Option<Sent> {
    let (producer, idempotent) = create(&context, number, &mut random)?;
    let mut records = Vec::new();
    for k in 0.. {
        if context.is_calm() || k >= 2000 {
            break;
        }
        let value = format!("{number}:{k}");
        let record = ProducerRecord::new("t", value.clone()).with_partition(random.i32(0..partitions));
        let send = producer.send(record);
        let delivery = if random.u8(..) < 12 {
            cancel_after(random.u32(..4), send).await
        } else {
            context.within("send", MAX_BLOCK, send).await
        };
        let delivery = match delivery {
            Some(Ok(delivery)) => {
                trace_result(&context, &value, &delivery);
                Some(delivery)
            }
            Some(Err(error)) => {
                context.reached(format!("send: {}", kind(&error)));
                context.network.trace(&error.to_string());
                None
            }
            None => None,
        };
        records.push((value, delivery));
        match random.u8(..100) {
            0..3 => {
                let limit = Duration::from_millis(random.u64(..10_000));
                if let Some(Err(error)) = context.within("flush", limit, producer.flush(Some(limit))).await {
                    context.reached(format!("flush: {}", kind(&error)));
                }
            }
            3..30 => sleep(Duration::from_millis(random.u64(..2000))).await,
            _ => {}
        }
    }
    if let Some(Err(error)) = context.within("close", CLOSE, producer.close(CLOSE)).await {
        context.reached(format!("close: {}", kind(&error)));
    }
    check_memory(&context, &producer, number, &records);
    Some(Sent { number, idempotent, records })
}

/// Checks that a closed producer has released the memory of its records, except those that were in flight for longer
/// than `delivery.timeout.ms`: their bytes are released with their request.
fn check_memory(context: &Context, producer: &Producer, number: usize, records: &[(String, Option<Delivery>)]) {
    let read = |id| metric(producer.metrics(), id).unwrap_or_default();
    let kept = read(Id::BufferTotalBytes) - read(Id::BufferAvailableBytes);
    let expired = |delivery: &&Delivery| matches!(delivery.peek(), Some(Err(Error::Timeout { .. })));
    let expired = records.iter().filter_map(|(_, delivery)| delivery.as_ref()).filter(expired).count();
    let queued = read(Id::QueuedRecords);
    if queued > 0.0 || kept > RECORD * expired as f64 {
        context.violation(format!(
            "producer {number} keeps {kept} bytes and {queued} records after close, and {expired} records have expired"
        ));
    }
}

/// Adds the result of a record to the trace when it is available.
fn trace_result(context: &Context, value: &str, delivery: &Delivery) {
    let (network, value) = (context.network.clone(), value.to_owned());
    delivery.on_done(Box::new(move |result| {
        let result = result.map(|metadata| (metadata.partition, metadata.offset)).map_err(|error| error.to_string());
        network.trace(&format!("record {value}: {result:?}"));
    }));
}

fn check(context: &Context, partitions: i32, all: &[Sent]) {
    let mut places: HashMap<String, Vec<(i32, i64)>> = HashMap::new();
    let mut order: BTreeMap<(i32, usize), Vec<usize>> = BTreeMap::new();
    for partition in 0..partitions {
        let stored = match log::read(&context.broker, "t", partition) {
            Ok(stored) => stored,
            Err(error) => return context.violation(error),
        };
        for record in stored {
            let numbers = record.value.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            let Some((number, k)) = numbers else {
                return context.violation(format!("an unknown record is in the log: {record:?}"));
            };
            order.entry((partition, number)).or_default().push(k);
            places.entry(record.value).or_default().push((partition, record.offset));
        }
    }
    for Sent { number, idempotent, records } in all {
        for (value, delivery) in records {
            let found = places.get(value).map(Vec::as_slice).unwrap_or_default();
            if *idempotent && found.len() > 1 {
                context.violation(format!("idempotent record {value} is in the log {} times: {found:?}", found.len()));
            }
            let Some(delivery) = delivery else { continue };
            match delivery.peek() {
                None => context.violation(format!("record {value} has no result after close")),
                Some(Ok(metadata)) => {
                    let at = (metadata.partition, metadata.offset);
                    if !found.contains(&at) {
                        context.violation(format!(
                            "record {value} was acknowledged at {at:?}, the log has it at {found:?}"
                        ));
                    }
                    context.reached("delivery: acknowledged");
                }
                Some(Err(error)) => context.reached(format!("delivery: {}", kind(&error))),
            }
        }
        for partition in 0..partitions {
            let numbers = order.get(&(partition, *number)).map(Vec::as_slice).unwrap_or_default();
            let inversion = numbers.windows(2).find(|pair| matches!(pair, [a, b] if a > b));
            if let (true, Some(pair)) = (*idempotent, inversion) {
                context.violation(format!(
                    "records of idempotent producer {number} are out of order in partition {partition}: {pair:?}"
                ));
            }
        }
    }
}
