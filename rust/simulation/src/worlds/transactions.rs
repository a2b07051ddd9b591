//! Members of a group that copy rows from one topic to another in transactions, and send the offsets with them.
//!
//! Guarantees: every input row is in the committed output exactly once. A consumer with `read_committed` returns the
//! records of committed transactions and nothing else. No transaction stays open after its producer was closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use samsarrow_client::consumer::{Consumer, Polled};
use samsarrow_client::error::Error;
use samsarrow_client::group::subscription::Subscription;
use samsarrow_client::producer::{GroupMember, Producer, ProducerRecord};
use samsarrow_client::types::TopicPartition;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::records::{self, Records};
use crate::context::{Context, cancel_after, kind};
use crate::{log, options};

const GROUP: &str = "g";
const INPUT: &str = "in";
const OUTPUT: &str = "out";
const POLL: Duration = Duration::from_millis(500);
const CALL: Duration = Duration::from_secs(20);
const CLOSE: Duration = Duration::from_secs(60);
/// Time after the disturbances within which all rows must have been copied.
const DRAIN: Duration = Duration::from_secs(900);

/// State of the run that its programs share.
#[derive(Debug, Clone)]
struct Copy {
    context: Context,
    partitions: i32,
    options: Vec<(&'static str, String)>,
    /// True until the producer of the input has closed.
    producing: Arc<AtomicBool>,
}

pub(crate) async fn run(context: Context, mut random: fastrand::Rng) {
    let partitions = (0..).take_while(|index| context.broker.has_partition(INPUT, *index)).count();
    let mut chosen = vec![
        ("group.id", GROUP.to_owned()),
        ("auto.offset.reset", "earliest".to_owned()),
        ("enable.auto.commit", "false".to_owned()),
        ("isolation.level", "read_committed".to_owned()),
        ("max.poll.records", random.u32(1..30).to_string()),
        ("default.api.timeout.ms", CALL.as_millis().to_string()),
        ("request.timeout.ms", "5000".to_owned()),
    ];
    if random.bool() && context.is_since("4.0") {
        chosen.push(("group.protocol", "consumer".to_owned()));
    } else {
        let assignor = random.choice(["range", "cooperative-sticky"]).unwrap_or("range");
        chosen.push(("partition.assignment.strategy", assignor.to_owned()));
        chosen.push(("session.timeout.ms", random.u32(6_000..15_000).to_string()));
    }
    let partitions = i32::try_from(partitions).unwrap_or(1);
    let producing = Arc::new(AtomicBool::new(true));
    let copy = Copy { context: context.clone(), partitions, options: chosen, producing };
    let mut programs = JoinSet::new();
    programs.spawn(produce(copy.clone(), random.fork()));
    for number in 0..2 {
        programs.spawn(copy_rows(copy.clone(), number, random.fork()));
    }
    while let Some(ended) = programs.join_next().await {
        if let Err(error) = ended {
            context.violation(format!("a program failed: {error}"));
        }
    }
    check(&copy).await;
}

/// Sends distinct values to the input topic, idempotently.
async fn produce(copy: Copy, mut random: fastrand::Rng) {
    let records = Records {
        options: &[("delivery.timeout.ms", "600000".to_owned())],
        count: 300,
        pause_every: 4,
        max_pause_ms: 1500,
        close_timeout: Duration::from_secs(300),
    };
    let place = |random: &mut fastrand::Rng| (INPUT, random.i32(0..copy.partitions));
    records::produce(&copy.context, &mut random, records, place).await;
    copy.producing.store(false, Ordering::Relaxed);
}

/// Reasons to create new clients.
enum Restart {
    /// The clients are closed first.
    Close,
    /// The clients are dropped without being closed.
    Crash,
}

async fn copy_rows(copy: Copy, number: usize, mut random: fastrand::Rng) {
    let context = copy.context.clone();
    while !has_drained(&copy) {
        if context.is_calm() && Instant::now() > context.calm_at + DRAIN {
            let (copied, all) = (committed(&copy).map(|values| values.len()), inputs(&copy).len());
            return context.violation(format!("not all rows were copied: {copied:?} of {all}"));
        }
        let id = ("transactional.id", format!("copy-{number}"));
        let timeout = ("transaction.timeout.ms", random.u32(5_000..60_000).to_string());
        let delivery = ("delivery.timeout.ms", random.u32(6_000..60_000).to_string());
        let request = ("request.timeout.ms", "5000".to_owned());
        let more = [id, timeout, delivery, request, ("max.block.ms", "20000".to_owned())];
        let made = options::producer(&context, &more)
            .and_then(|producer| Ok((producer, options::consumer(&context, &copy.options)?)));
        let (producer, consumer) = match made {
            Ok(made) => made,
            Err(error) => return context.violation(format!("a client cannot be created: {error}")),
        };
        let subscribed = Subscription::topics([INPUT.to_owned()]).and_then(|topics| consumer.subscribe(topics));
        if let Err(error) = subscribed {
            return context.violation(format!("subscribe failed: {error}"));
        }
        match copy_until_failure(&copy, &producer, &consumer, &mut random).await {
            Restart::Crash => context.reached("copier crashed"),
            Restart::Close => {
                context.within("close", CLOSE, consumer.close(CLOSE)).await;
                if let Some(Err(error)) = context.within("close", CLOSE, producer.close(CLOSE)).await {
                    context.reached(format!("close: {}", kind(&error)));
                }
            }
        }
    }
}

/// Returns true to cancel a call.
fn cancels(copy: &Copy, random: &mut fastrand::Rng) -> bool {
    !copy.context.is_calm() && random.u8(..) < 8
}

/// Runs a call that ends within its timeout, or cancels it. Returns `None` after a cancellation.
async fn call<T>(
    copy: &Copy,
    random: &mut fastrand::Rng,
    what: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Option<Result<T, Error>> {
    let result = if cancels(copy, random) {
        cancel_after(random.u32(..6), call).await
    } else {
        copy.context.within(what, CALL, call).await
    };
    match &result {
        None => copy.context.reached(format!("{what}: cancelled")),
        Some(Ok(_)) => copy.context.reached(format!("{what}: completed")),
        Some(Err(error)) => {
            copy.context.reached(format!("{what}: {}", kind(error)));
            copy.context.network.trace(&format!("{what}: {error}"));
        }
    }
    result
}

async fn copy_until_failure(
    copy: &Copy,
    producer: &Producer,
    consumer: &Consumer,
    random: &mut fastrand::Rng,
) -> Restart {
    // A cancelled or failed call is repeated, as applications do.
    for attempt in 0.. {
        match call(copy, random, "init_transactions", producer.init_transactions(Some(CALL))).await {
            Some(Ok(())) => break,
            Some(Err(error)) if !error.retriable() => return Restart::Close,
            _ if attempt > 20 => return Restart::Close,
            _ => {}
        }
    }
    loop {
        if has_drained(copy) || (copy.context.is_calm() && Instant::now() > copy.context.calm_at + DRAIN) {
            return Restart::Close;
        }
        if !copy.context.is_calm() && random.u8(..) < 3 {
            return Restart::Crash;
        }
        match copy.context.within("poll", POLL, consumer.next(POLL)).await {
            Some(Ok(Polled::Rebalance(event))) => consumer.acknowledge(&event),
            Some(Ok(Polled::Rows(rows))) => {
                if let Some(batch) = rows.batch.filter(|batch| batch.num_rows() > 0)
                    && !copy_batch(copy, producer, consumer, batch, random).await
                {
                    return Restart::Close;
                }
            }
            Some(Ok(Polled::Committed)) => drop(consumer.take_completed()),
            Some(Err(error)) => {
                copy.context.reached(format!("poll: {}", kind(&error)));
                if !error.retriable() {
                    copy.context.violation(format!("poll failed: {error}"));
                    return Restart::Close;
                }
            }
            None => return Restart::Close,
        }
    }
}

/// Copies a batch in a transaction. Returns false if the rows must be read again.
async fn copy_batch(
    copy: &Copy,
    producer: &Producer,
    consumer: &Consumer,
    batch: RecordBatch,
    random: &mut fastrand::Rng,
) -> bool {
    match call(copy, random, "begin_transaction", producer.begin_transaction()).await {
        Some(Ok(())) => {}
        _ => return false,
    }
    let Ok(offsets) = consumer.offsets_after(std::slice::from_ref(&batch)) else { return false };
    for (partition, value) in values(&batch) {
        let record = ProducerRecord::new(OUTPUT, value).with_partition(partition);
        if !matches!(call(copy, random, "send", producer.send(record)).await, Some(Ok(_))) {
            return abort(copy, producer, random).await;
        }
    }
    let Ok((group, member)) = consumer.group_metadata() else { return abort(copy, producer, random).await };
    let member = GroupMember { group, member, topic_ids: consumer.topic_ids() };
    let sent = producer.send_offsets_to_transaction(offsets, member, Some(CALL));
    if !matches!(call(copy, random, "send_offsets", sent).await, Some(Ok(()))) || random.u8(..) < 20 {
        return abort(copy, producer, random).await;
    }
    for _ in 0..20 {
        match call(copy, random, "commit_transaction", producer.commit_transaction(Some(CALL))).await {
            Some(Ok(())) => return true,
            // The outcome is unknown until the call is repeated.
            None => {}
            Some(Err(Error::Timeout { .. })) => {}
            Some(Err(error)) => {
                if error.fatal() {
                    return false;
                }
                return abort(copy, producer, random).await;
            }
        }
    }
    false
}

/// Aborts the transaction, and returns false, because the rows must be read again.
async fn abort(copy: &Copy, producer: &Producer, random: &mut fastrand::Rng) -> bool {
    for _ in 0..20 {
        match call(copy, random, "abort_transaction", producer.abort_transaction(Some(CALL))).await {
            None | Some(Err(Error::Timeout { .. })) => {}
            Some(_) => break,
        }
    }
    false
}

/// Returns the partitions and values of the rows.
fn values(batch: &RecordBatch) -> Vec<(i32, String)> {
    let (Some(partitions), Some(values)) = (batch.column_by_name("partition"), batch.column_by_name("value")) else {
        return Vec::new();
    };
    let (partitions, values) = (partitions.as_primitive::<Int32Type>(), values.as_binary::<i32>());
    let text = |row| String::from_utf8_lossy(values.value(row)).into_owned();
    (0..batch.num_rows()).map(|row| (partitions.value(row), text(row))).collect()
}

/// Returns the values in the input topic.
fn inputs(copy: &Copy) -> BTreeSet<String> {
    let logs = (0..copy.partitions).filter_map(|partition| log::read(&copy.context.broker, INPUT, partition).ok());
    logs.flatten().map(|record| record.value).collect()
}

/// Returns the values of committed transactions in the output topic, by partition, in the order of the log.
fn committed_by_partition(copy: &Copy) -> Result<BTreeMap<i32, Vec<String>>, String> {
    let mut all = BTreeMap::new();
    for partition in 0..copy.partitions {
        let mut open: BTreeMap<i64, Vec<(i64, String)>> = BTreeMap::new();
        let mut committed = Vec::new();
        for record in log::read(&copy.context.broker, OUTPUT, partition)? {
            match record.control {
                None => open.entry(record.producer_id).or_default().push((record.offset, record.value)),
                Some(true) => committed.extend(open.remove(&record.producer_id).unwrap_or_default()),
                Some(false) => drop(open.remove(&record.producer_id)),
            }
        }
        committed.sort();
        all.insert(partition, committed.into_iter().map(|(_, value)| value).collect());
    }
    Ok(all)
}

/// Returns how often each value was committed.
fn committed(copy: &Copy) -> Result<BTreeMap<String, usize>, String> {
    let mut counts = BTreeMap::new();
    for value in committed_by_partition(copy)?.into_values().flatten() {
        *counts.entry(value).or_default() += 1;
    }
    Ok(counts)
}

fn has_drained(copy: &Copy) -> bool {
    copy.context.is_calm()
        && !copy.producing.load(Ordering::Relaxed)
        && committed(copy).is_ok_and(|counts| counts.len() == inputs(copy).len())
}

async fn check(copy: &Copy) {
    let context = &copy.context;
    match committed(copy) {
        Ok(counts) => {
            for (value, count) in &counts {
                if *count != 1 {
                    context.violation(format!("row {value} was committed {count} times"));
                }
            }
            let missing: Vec<_> = inputs(copy).into_iter().filter(|value| !counts.contains_key(value)).collect();
            if !missing.is_empty() {
                context.violation(format!("rows were not copied: {missing:?}"));
            }
        }
        Err(error) => context.violation(error),
    }
    // A producer that crashed leaves a transaction that the coordinator aborts after its timeout.
    sleep(Duration::from_secs(120)).await;
    for partition in 0..copy.partitions {
        let (stable, end) =
            (context.broker.last_stable_offset(OUTPUT, partition), context.broker.end_offset(OUTPUT, partition));
        if stable != end {
            context.violation(format!("a transaction in {OUTPUT}-{partition} stays open: {stable:?} of {end:?}"));
        }
    }
    check_reader(copy).await;
}

/// Compares the rows that a consumer returns with the committed records of the logs.
async fn check_reader(copy: &Copy) {
    let context = &copy.context;
    let more = [("auto.offset.reset", "earliest".to_owned()), ("isolation.level", "read_committed".to_owned())];
    let consumer = match options::consumer(context, &more) {
        Ok(consumer) => consumer,
        Err(error) => return context.violation(format!("the reader cannot be created: {error}")),
    };
    let partitions: Vec<_> = (0..copy.partitions).map(|partition| TopicPartition::new(OUTPUT, partition)).collect();
    if let Err(error) = consumer.assign(&partitions) {
        context.violation(format!("assign failed: {error}"));
    }
    let mut returned: BTreeMap<i32, Vec<String>> =
        (0..copy.partitions).map(|partition| (partition, Vec::new())).collect();
    let mut empty = 0;
    while empty < 20 {
        match consumer.poll(POLL).await {
            Ok(batch) => {
                empty = if batch.num_rows() == 0 { empty + 1 } else { 0 };
                for (partition, value) in values(&batch) {
                    returned.entry(partition).or_default().push(value);
                }
            }
            Err(error) => {
                context.violation(format!("poll of the reader failed: {error}"));
                break;
            }
        }
    }
    consumer.close(CLOSE).await;
    match committed_by_partition(copy) {
        Ok(expected) if expected == returned => {}
        Ok(expected) => context.violation(format!("read_committed returned {returned:?}, committed are {expected:?}")),
        Err(error) => context.violation(error),
    }
}
