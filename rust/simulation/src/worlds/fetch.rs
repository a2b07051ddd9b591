//! Consumers with assigned partitions that poll, seek, pause and return while records are written and truncated.
//!
//! Guarantees: rows of a partition are returned without holes or repeats, and as they are in the log. After a
//! truncation, the consumer returns to the point where the logs diverge (KIP-320), and what it has returned in the end
//! is what is in the log. After the disturbances, it reads to the end. Fetched rows take no more memory than
//! `queued.max.bytes` and a chunk for each broker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use samsarrow_client::consumer::{Consumer, Polled};
use samsarrow_client::fetcher::Rows;
use samsarrow_client::metrics::Id;
use samsarrow_client::producer::ProducerRecord;
use samsarrow_client::types::TopicPartition;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::context::{Context, cancel_after, kind, metric};
use crate::{log, options};

const TOPIC: &str = "t";
const POLL: Duration = Duration::from_millis(500);
const CALL: Duration = Duration::from_secs(20);
/// Time after the disturbances within which the consumer must have read all rows.
const DRAIN: Duration = Duration::from_secs(600);

/// Minimum of `fetch.max.wait.ms` in milliseconds.
const MIN_FETCH_WAIT: u32 = 20;

/// Maximum memory of the rows of one Fetch response, which has at most 5,000 bytes for each of three partitions.
const CHUNK: f64 = 64.0 * 1024.0;

#[derive(Debug, Clone)]
struct Reading {
    context: Context,
    partitions: i32,
    options: Vec<(&'static str, String)>,
    /// Value of `queued.max.bytes`, if it is set.
    queued_max: Option<u32>,
    producing: Arc<Mutex<bool>>,
}

pub(crate) async fn run(context: Context, mut random: fastrand::Rng) {
    let partitions = (0..).take_while(|index| context.broker.has_partition(TOPIC, *index)).count();
    let mut chosen = vec![
        ("auto.offset.reset", "earliest".to_owned()),
        ("max.poll.records", random.u32(1..50).to_string()),
        // With waits that are as short as a round trip, the requests of idle consumers look like those of a client that
        // repeats requests without a reason.
        ("fetch.max.wait.ms", random.u32(1..600).max(MIN_FETCH_WAIT).to_string()),
        ("max.partition.fetch.bytes", random.u32(100..5000).to_string()),
        ("metadata.max.age.ms", random.u32(1_000..60_000).to_string()),
        ("default.api.timeout.ms", CALL.as_millis().to_string()),
        ("request.timeout.ms", "5000".to_owned()),
    ];
    // A clone leaves the schedules of known seeds as they are.
    let mut clone = random.clone();
    let queued_max = (clone.u8(..4) == 0).then(|| clone.u32(1_000..50_000));
    chosen.extend(queued_max.map(|bytes| ("queued.max.bytes", bytes.to_string())));
    let producing = Arc::new(Mutex::new(true));
    let partitions = i32::try_from(partitions).unwrap_or(1);
    let reading = Reading { context: context.clone(), partitions, options: chosen, queued_max, producing };
    let mut programs = JoinSet::new();
    programs.spawn(produce(reading.clone(), random.fork()));
    for _ in 0..random.usize(1..3) {
        programs.spawn(consume(reading.clone(), random.fork()));
    }
    while let Some(ended) = programs.join_next().await {
        if let Err(error) = ended {
            context.violation(format!("a program failed: {error}"));
        }
    }
}

/// Writes records until the disturbances end, and some after them, so that a truncated log grows past positions.
async fn produce(reading: Reading, mut random: fastrand::Rng) {
    let context = &reading.context;
    let more = [("acks", "1".to_owned()), ("enable.idempotence", "false".to_owned()), ("linger.ms", "5".to_owned())];
    match options::producer(context, &more) {
        Ok(producer) => {
            for k in 0..600 {
                let record =
                    ProducerRecord::new(TOPIC, format!("{k}")).with_partition(random.i32(0..reading.partitions));
                if let Err(error) = producer.send(record).await {
                    context.reached(format!("send: {}", kind(&error)));
                }
                if random.u8(..10) == 0 {
                    sleep(Duration::from_millis(random.u64(..2500))).await;
                }
            }
            drop(producer.close(Duration::from_secs(150)).await);
        }
        Err(error) => context.violation(format!("the producer cannot be created: {error}")),
    }
    *reading.producing.lock().unwrap_or_else(PoisonError::into_inner) = false;
}

/// Rows of one partition since its last seek.
#[derive(Debug, Default)]
struct Stream {
    /// Offset of the next row; `None` before the first row.
    next: Option<i64>,
    /// Last value returned for each offset.
    values: BTreeMap<i64, String>,
    /// Truncations of the partition before the stream.
    truncations: u32,
    /// Times that the stream has returned to an earlier offset.
    returns: u32,
    paused: bool,
}

struct Reader<'a> {
    reading: &'a Reading,
    consumer: Consumer,
    streams: BTreeMap<i32, Stream>,
}

async fn consume(reading: Reading, mut random: fastrand::Rng) {
    let started = Instant::now();
    let context = &reading.context;
    loop {
        let consumer = match options::consumer(context, &reading.options) {
            Ok(consumer) => consumer,
            Err(error) => return context.violation(format!("the consumer cannot be created: {error}")),
        };
        let partitions: Vec<_> = (0..reading.partitions).map(|index| TopicPartition::new(TOPIC, index)).collect();
        if let Err(error) = consumer.assign(&partitions) {
            return context.violation(format!("assign failed: {error}"));
        }
        let streams = (0..reading.partitions).map(|index| (index, Stream::default())).collect();
        let mut reader = Reader { reading: &reading, consumer, streams };
        let mut steps = random.u32(20..400);
        while steps > 0 || context.is_calm() {
            steps = steps.saturating_sub(1);
            if context.is_calm() {
                reader.resume();
                if reader.is_at_end().await {
                    reader.check_end();
                    context.within("close", CALL, reader.consumer.close(CALL)).await;
                    return;
                }
                if started.elapsed() > DRAIN + Duration::from_secs(120) {
                    return context.violation(format!("the consumer did not read to the end: {}", reader.places()));
                }
            }
            reader.step(&mut random).await;
        }
        if random.bool() {
            context.within("close", CALL, reader.consumer.close(CALL)).await;
        }
    }
}

impl Reader<'_> {
    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new(TOPIC, partition)
    }

    async fn step(&mut self, random: &mut fastrand::Rng) {
        let context = self.reading.context.clone();
        let calm = context.is_calm();
        let partition = random.i32(0..self.reading.partitions);
        match random.u8(..100) {
            0..4 if !calm => {
                let end = context.broker.end_offset(TOPIC, partition).unwrap_or_default();
                let target = random.i64(0..=end);
                match self.consumer.seek(&Self::tp(partition), target) {
                    Ok(()) => {
                        let paused = self.streams.get(&partition).is_some_and(|stream| stream.paused);
                        let truncations = context.truncations(TOPIC, partition);
                        let stream = Stream { next: Some(target), paused, truncations, ..Stream::default() };
                        self.streams.insert(partition, stream);
                        context.reached("seek");
                    }
                    Err(error) => context.violation(format!("seek failed: {error}")),
                }
            }
            4..7 if !calm => {
                let paused = self.streams.get(&partition).is_some_and(|stream| stream.paused);
                let tp = [Self::tp(partition)];
                let changed = if paused { self.consumer.resume(&tp) } else { self.consumer.pause(&tp) };
                if let Some(stream) = self.streams.get_mut(&partition).filter(|_| changed.is_ok()) {
                    stream.paused = !paused;
                }
                context.reached("pause or resume");
            }
            7..9 => {
                let tp = Self::tp(partition);
                let position = self.consumer.position(&tp, CALL);
                if let Some(Err(error)) = context.within("position", CALL, position).await {
                    context.reached(format!("position: {}", kind(&error)));
                }
            }
            9..11 => {
                let tp = [Self::tp(partition)];
                let call = self.consumer.end_offsets(&tp, CALL);
                if let Some(Err(error)) = context.within("end_offsets", CALL, call).await {
                    context.reached(format!("end_offsets: {}", kind(&error)));
                }
            }
            11..13 => self.consumer.wakeup(),
            13..15 => sleep(Duration::from_millis(random.u64(..5_000))).await,
            _ => self.poll(random).await,
        }
    }

    async fn poll(&mut self, random: &mut fastrand::Rng) {
        let context = self.reading.context.clone();
        let next = self.consumer.next(POLL);
        let polled = if random.u8(..) < 20 {
            cancel_after(random.u32(..4), next).await
        } else {
            context.within("poll", POLL, next).await
        };
        match polled {
            Some(Ok(Polled::Rows(rows))) => self.check_rows(&rows),
            Some(Err(error)) => {
                context.reached(format!("poll: {}", kind(&error)));
                if !context.expects(&error) {
                    context.violation(format!("poll failed: {error}"));
                }
            }
            Some(Ok(_)) | None => {}
        }
        let queued = metric(self.consumer.metrics(), Id::QueuedBytes).unwrap_or_default();
        if let Some(limit) = self.reading.queued_max
            && queued > f64::from(limit) + CHUNK * context.broker.node_count() as f64
        {
            context.violation(format!("fetched rows take {queued} bytes, and queued.max.bytes is {limit}"));
        }
    }

    fn check_rows(&mut self, rows: &Rows) {
        let context = &self.reading.context;
        let Some(batch) = &rows.batch else { return };
        let column = |name: &str| batch.column_by_name(name);
        let (Some(partitions), Some(offsets), Some(values)) = (column("partition"), column("offset"), column("value"))
        else {
            return context.violation("a batch lacks a column");
        };
        let (partitions, offsets) = (partitions.as_primitive::<Int32Type>(), offsets.as_primitive::<Int64Type>());
        let values = values.as_binary::<i32>();
        for row in 0..batch.num_rows() {
            let (partition, offset) = (partitions.value(row), offsets.value(row));
            let value = String::from_utf8_lossy(values.value(row)).into_owned();
            let Some(stream) = self.streams.get_mut(&partition) else {
                context.violation(format!("a row of partition {partition} was returned without an assignment"));
                continue;
            };
            if stream.paused {
                context.violation(format!("a row of the paused partition {partition} was returned"));
            }
            let truncations = context.truncations(TOPIC, partition);
            if let Some(next) = stream.next.filter(|next| *next != offset) {
                if offset > next {
                    context.violation(format!("partition {partition} returned {offset} where {next} was next"));
                } else {
                    stream.returns += 1;
                    if stream.returns > truncations - stream.truncations {
                        context.violation(format!("partition {partition} returned {offset} again, {next} was next"));
                    }
                    context.reached("rows returned again after a truncation");
                }
            }
            stream.next = Some(offset + 1);
            stream.values.insert(offset, value);
        }
        context.reached("rows returned");
    }

    /// Resumes all partitions, so that they can be read to their ends.
    fn resume(&mut self) {
        for (partition, stream) in &mut self.streams {
            if std::mem::take(&mut stream.paused) {
                drop(self.consumer.resume(&[Self::tp(*partition)]));
            }
        }
    }

    async fn is_at_end(&self) -> bool {
        if *self.reading.producing.lock().unwrap_or_else(PoisonError::into_inner) {
            return false;
        }
        for (partition, stream) in &self.streams {
            let end = self.reading.context.broker.end_offset(TOPIC, *partition).unwrap_or_default();
            // After a truncation to its end, the log has no row before the position.
            let tp = Self::tp(*partition);
            let at_end = stream.next.unwrap_or_default() == end
                || stream.next > Some(end)
                    && self.consumer.position(&tp, CALL).await.is_ok_and(|position| position == end);
            if !at_end {
                return false;
            }
        }
        true
    }

    fn places(&self) -> String {
        let place = |(partition, stream): (&i32, &Stream)| {
            let end = self.reading.context.broker.end_offset(TOPIC, *partition);
            format!("partition {partition}: next {:?}, end {end:?}", stream.next)
        };
        self.streams.iter().map(place).collect::<Vec<_>>().join(", ")
    }

    /// Compares the rows since the last seeks with the logs.
    fn check_end(&self) {
        let context = &self.reading.context;
        for (partition, stream) in &self.streams {
            match log::read(&context.broker, TOPIC, *partition) {
                Ok(stored) => {
                    for record in stored {
                        let returned = stream.values.get(&record.offset);
                        if returned.is_some_and(|value| *value != record.value) {
                            context.violation(format!(
                                "partition {partition} returned {returned:?}, the log has {record:?}, {} truncations",
                                context.truncations(TOPIC, *partition)
                            ));
                            break;
                        }
                    }
                }
                Err(error) => context.violation(error),
            }
        }
    }
}
