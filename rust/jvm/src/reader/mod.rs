//! One task: the records of one offset range, a batch at a time.

mod gone;
mod typed;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use samsarrow_arrow::Projection;
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::metrics::{Id, Value};
use samsarrow_spark::columns::{Column, Served};
use samsarrow_values::Part;
use tokio::task::JoinHandle;

use crate::budget::BUDGET;
use crate::clients::{Shared, evict_oldest};
use crate::decoded::Decodings;
use crate::failure::{Failure, Result};
use crate::frame::{Frame, other};
use crate::pool::{Lease, Sort, close};
use crate::range::Range;
use crate::rest::rest;
use crate::runtime::runtime;

/// Rows a batch, and so a crossing from Java.
const MAX_ROWS: usize = 8192;
/// A broker answers with as much as it may, whatever the end of the range: small ranges ask for little.
const SMALL_RANGE: i64 = 10_000;
const SMALL_FETCH: usize = 1 << 20;

/// What a call brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This many rows; the frame says where they are.
    Rows(usize),
    /// Nothing yet.
    Nothing,
    /// The range is read.
    End,
}

/// What a reader counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time in which nothing was there.
    pub wait: Duration,
    /// Time in which rows were made ready for Java.
    pub decode: Duration,
    /// Bytes of records that were handed out, as they were fetched.
    pub bytes: u64,
    /// Rows that were handed out.
    pub rows: u64,
    /// The most bytes that a frame kept.
    pub peak: u64,
    /// Offsets that are gone.
    pub lost: u64,
    /// How often the position was not in the log.
    pub out_of_range: u64,
}

/// Polls until the position has passed the range: holes and markers move it without giving rows.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    range: Range,
    sort: Sort,
    lease: Option<Lease>,
    position: i64,
    /// Nothing more is to come, though the position may be before the end.
    ended: bool,
    progress: Instant,
    doubted: Instant,
    /// What the log has now, being asked for: a broker's silence must not hold up a caller.
    asking: Option<JoinHandle<Result<(i64, i64)>>>,
    /// The position is not in the log, as far as the broker knows that was asked.
    strayed: bool,
    decodings: Decodings,
    /// Rows whose keys or values are still to be decoded.
    undecoded: Option<typed::Undecoded>,
    /// A key or a value that cannot be read, behind the rows of the last call.
    bad: Option<Failure>,
    frame: Option<Frame>,
    counters: Counters,
    /// What the consumer had counted when it was taken.
    bytes_before: u64,
}

impl Reader {
    /// For a range; connects at the first call.
    ///
    /// # Errors
    /// An option cannot be.
    pub fn new(shared: Arc<Shared>, range: Range) -> Result<Reader> {
        let options = shared.options()?;
        let wants = |column| range.columns.contains(&Served::Column(column));
        let part = |part| range.columns.iter().any(|column| column.part() == Some(part));
        let decodings = Decodings::new(&options.typed, &range, &shared.learned)?;
        let sort = Sort {
            small: range.end - range.start <= SMALL_RANGE,
            projection: Projection {
                keys: part(Part::Key),
                values: part(Part::Value),
                timestamps: wants(Column::Timestamp),
            },
            headers: wants(Column::Headers) || decodings.read_headers(),
        };
        let now = Instant::now();
        Ok(Reader {
            position: range.start,
            ended: range.start >= range.end || range.limit == Some(0),
            shared,
            range,
            sort,
            lease: None,
            progress: now,
            doubted: now,
            asking: None,
            strayed: false,
            decodings,
            undecoded: None,
            bad: None,
            frame: None,
            counters: Counters::default(),
            bytes_before: 0,
        })
    }

    /// The next rows, waiting no longer than `wait` for them. What the last call gave is freed.
    ///
    /// # Errors
    /// The range cannot be read, with `failOnDataLoss` also if a part of it is gone; or a key or a value is bad.
    pub fn next(&mut self, wait: Duration) -> Result<Next> {
        self.frame = None;
        if let Some(bad) = &self.bad {
            return Err(bad.clone());
        }
        if self.undecoded.is_some() {
            return runtime()?.block_on(self.decode(wait));
        }
        if self.ended {
            return Ok(Next::End);
        }
        runtime()?.block_on(self.advance(wait))
    }

    /// Where the rows of the last call lie.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        let consumed =
            self.lease.as_ref().map_or(0, |lease| consumed(&lease.consumer).saturating_sub(self.bytes_before));
        Counters { bytes: self.counters.bytes + consumed, ..self.counters }
    }

    /// Gives everything back. With `whole`, which only a task that succeeded says, the consumer is kept for the next one.
    pub fn close(&mut self, whole: bool) {
        if let Some(frame) = self.frame.take() {
            rest(frame);
        }
        self.counters.bytes = self.counters().bytes;
        self.stop_asking();
        self.undecoded = None;
        let done = whole && (self.range.is_open() || self.position >= self.range.end);
        let Some(lease) = self.lease.take() else { return };
        // Nothing more is fetched for it.
        if done && lease.consumer.pause(std::slice::from_ref(&self.range.tp)).is_ok() {
            let position = if lease.rest.is_some() { self.range.end } else { self.position };
            self.shared.pool.give(self.sort, lease, self.range.tp.clone(), position);
        } else {
            close(lease);
        }
        self.ended = true;
    }

    async fn advance(&mut self, wait: Duration) -> Result<Next> {
        if self.lease.is_none() {
            self.lease()?;
        }
        if self.strayed {
            return self.out_of_range(wait).await;
        }
        let Some(Lease { consumer, rest, .. }) = &mut self.lease else { return Ok(Next::End) };
        let begun = Instant::now();
        let polled = match rest.take() {
            Some(rest) => Ok(rest),
            None => consumer.poll(wait).await,
        };
        self.counters.wait += begun.elapsed();
        let batch = match polled {
            Ok(batch) => batch,
            Err(error) => return self.failed(error).await,
        };
        let reached = consumer.position(&self.range.tp, consumer.default_timeout()).await?;
        if reached > self.position {
            self.position = reached;
            self.progress = Instant::now();
            self.doubted = self.progress;
            self.stop_asking();
        } else if batch.num_rows() == 0 {
            return self.doubt().await;
        }
        if self.position >= self.range.end {
            self.ended = true;
        }
        let Some(batch) = self.cut(batch)? else { return Ok(if self.ended { Next::End } else { Next::Nothing }) };
        if self.decodings.is_empty() {
            return self.hand_out(&batch, Instant::now());
        }
        self.undecoded = Some(batch.into());
        self.decode(wait.saturating_sub(begun.elapsed())).await
    }

    /// The rows of the range, as far as they are wanted; none where there are none.
    fn cut(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let mut rows = rows_before(&batch, self.range.end)?;
        if let Some(lease) = &mut self.lease
            && rows < batch.num_rows()
        {
            lease.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        if let Some(limit) = self.range.limit {
            let left = usize::try_from(limit.saturating_sub(self.counters.rows)).unwrap_or(usize::MAX);
            if rows >= left {
                rows = left;
                self.ended = true;
            }
        }
        Ok((rows > 0).then(|| batch.slice(0, rows)))
    }

    fn hand_out(&mut self, batch: &RecordBatch, begun: Instant) -> Result<Next> {
        let frame = Frame::new(batch, &self.range.columns, &[], self.range.vectors, &self.range.tp)?;
        Ok(self.handed_out(frame, begun))
    }

    fn handed_out(&mut self, frame: Frame, begun: Instant) -> Next {
        let rows = frame.rows();
        self.counters.rows += rows as u64;
        self.counters.peak = self.counters.peak.max(frame.bytes() as u64);
        self.counters.decode += begun.elapsed();
        self.frame = Some(frame);
        Next::Rows(rows)
    }

    /// A consumer that reads the partition from the start of the range on.
    fn lease(&mut self) -> Result<()> {
        let tps = std::slice::from_ref(&self.range.tp);
        let taken = self.shared.pool.take(self.sort, &self.range.tp, self.position);
        let (mut lease, goes_on) = match taken {
            Some(taken) => taken,
            None => (self.make()?, false),
        };
        lease.ahead = goes_on || self.range.is_open();
        let consumer = &lease.consumer;
        consumer.assign(tps)?;
        consumer.read_until(&self.range.tp, (!lease.ahead).then_some(self.range.end))?;
        if !goes_on {
            // What was fetched is void then.
            lease.rest = None;
            consumer.seek(&self.range.tp, self.position)?;
        }
        consumer.resume(tps)?;
        self.bytes_before = consumed(consumer);
        self.lease = Some(lease);
        self.progress = Instant::now();
        self.doubted = self.progress;
        Ok(())
    }

    fn make(&self) -> Result<Lease> {
        let options = self.shared.options()?;
        let mut more = vec![
            ("max.poll.records", MAX_ROWS.to_string()),
            ("auto.offset.reset", "none".to_owned()),
            ("include.headers", self.sort.headers.to_string()),
            ("layout", "binary".to_owned()),
        ];
        if self.sort.small {
            more.push(("max.partition.fetch.bytes", SMALL_FETCH.to_string()));
        }
        let granted = !options.gives("queued.max.bytes");
        let grant = granted.then(|| BUDGET.grant(self.range.process, evict_oldest));
        more.extend(grant.iter().map(|grant| ("queued.max.bytes", grant.bytes().to_string())));
        let mut options = options.client(ClientKind::Consumer, &more)?;
        options.consumer.projection = self.sort.projection;
        Ok(Lease::new(Consumer::new(&options)?, grant))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.close(false);
    }
}

/// How many rows at the front of a batch are before `end`.
fn rows_before(batch: &RecordBatch, end: i64) -> Result<usize> {
    let offsets = batch.column_by_name("offset").and_then(|column| column.as_primitive_opt::<Int64Type>());
    let offsets = offsets.ok_or_else(|| other("offset"))?.values();
    Ok(match offsets.last() {
        Some(last) if *last >= end => offsets.partition_point(|offset| *offset < end),
        _ => batch.num_rows(),
    })
}

/// Bytes that a consumer has handed out.
fn consumed(consumer: &Consumer) -> u64 {
    let samples = consumer.metrics().samples();
    let found = samples.iter().find(|sample| sample.id == Id::BytesConsumedTotal);
    match found.map(|sample| sample.value) {
        Some(Value::Number(bytes)) => bytes as u64,
        _ => 0,
    }
}
