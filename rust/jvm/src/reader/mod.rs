//! Reader of one task, which returns the records of an offset range batch by batch.

mod missing_offsets;
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
use samsarrow_spark::columns::{Column, OutputColumn};
use samsarrow_values::Part;
use tokio::task::JoinHandle;

use crate::clients::{Shared, evict_oldest};
use crate::column_layout::ColumnLayout;
use crate::consumer_pool::{ConsumerKind, Lease, close};
use crate::deferred_free::free_later;
use crate::failure::{Failure, Result, wrong_column};
use crate::memory_budget::BUDGET;
use crate::range::Range;
use crate::runtime::runtime;
use crate::value_decoding::PartDecoders;

/// Maximum number of rows in a batch, and thus per call from Java.
const MAX_ROWS: usize = 8192;
/// Maximum number of offsets in a small range, for which the consumer requests fewer bytes. A fetch response is always
/// as large as the request allows, even if it passes the end of the range.
const SMALL_RANGE: i64 = 10_000;
const SMALL_FETCH: usize = 1 << 20;

/// Outcome of a call of [`Reader::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Number of rows that arrived. The layout contains the addresses of their columns.
    Rows(usize),
    /// No rows yet.
    Nothing,
    /// The range has been read to its end.
    End,
}

/// Counters of a reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time spent waiting for records.
    pub wait: Duration,
    /// Time spent preparing rows for Java.
    pub decode: Duration,
    /// Fetched size of the records returned so far, in bytes.
    pub bytes: u64,
    /// Number of rows returned so far.
    pub rows: u64,
    /// Maximum number of bytes that a layout has retained.
    pub peak: u64,
    /// Number of offsets whose records were lost.
    pub lost: u64,
    /// Number of times the position was out of range.
    pub out_of_range: u64,
}

/// Reader of an offset range. It polls until the position has passed the range, because gaps and transaction markers
/// advance the position without returning rows.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    range: Range,
    kind: ConsumerKind,
    lease: Option<Lease>,
    position: i64,
    /// True if no more records will be read. This may happen before the position reaches the end of the range.
    ended: bool,
    progress: Instant,
    progress_checked: Instant,
    /// In-flight lookup of the log's start and end offsets. It runs in the background, so that a slow broker does not
    /// block the caller.
    log_lookup: Option<JoinHandle<Result<(i64, i64)>>>,
    /// True if the broker reported that the position is out of range.
    out_of_range: bool,
    decoders: PartDecoders,
    /// Rows whose keys and values are not decoded yet.
    undecoded: Option<typed::Undecoded>,
    /// Rows that wait for the bad rows next to them to arrive in the dead letter topic.
    held: Option<typed::Held>,
    /// True if bad rows are sent to a dead letter topic.
    sends_dead_letters: bool,
    /// Decoding error that follows the rows of the last call. The next call returns it.
    bad: Option<Failure>,
    layout: Option<ColumnLayout>,
    counters: Counters,
    /// Number of bytes that the consumer had counted before this reader took it from the pool.
    bytes_before: u64,
}

impl Reader {
    /// Creates a reader, which connects to the brokers at the first call of `next`.
    ///
    /// # Errors
    /// Fails if an option is invalid.
    pub fn new(shared: Arc<Shared>, range: Range) -> Result<Reader> {
        let options = shared.options()?;
        let has_column = |column| range.columns.contains(&OutputColumn::Column(column));
        let has_part = |part| range.columns.iter().any(|column| column.part() == Some(part));
        let decoders = PartDecoders::new(&options.typed, &range, &shared.writer_caches)?;
        let sends_dead_letters = options.typed.iter().any(|typed| typed.dead_letter_topic().is_some());
        // Dead letters have the whole record.
        let kind = ConsumerKind {
            small: range.end - range.start <= SMALL_RANGE,
            projection: Projection {
                keys: sends_dead_letters || has_part(Part::Key),
                values: sends_dead_letters || has_part(Part::Value),
                timestamps: sends_dead_letters || has_column(Column::Timestamp),
            },
            headers: sends_dead_letters || has_column(Column::Headers) || decoders.read_headers(),
        };
        let now = Instant::now();
        Ok(Reader {
            position: range.start,
            ended: range.start >= range.end || range.limit == Some(0),
            shared,
            range,
            kind,
            lease: None,
            progress: now,
            progress_checked: now,
            log_lookup: None,
            out_of_range: false,
            decoders,
            undecoded: None,
            held: None,
            sends_dead_letters,
            bad: None,
            layout: None,
            counters: Counters::default(),
            bytes_before: 0,
        })
    }

    /// Waits up to `wait` for the next rows. Frees the rows of the previous call.
    ///
    /// # Errors
    /// Fails if the range cannot be read, if some of its records are lost and `failOnDataLoss` is set, if a key or
    /// value is invalid, or if an invalid one cannot be sent to its dead letter topic.
    pub fn next(&mut self, wait: Duration) -> Result<Next> {
        self.layout = None;
        if self.held.is_some() {
            return runtime()?.block_on(self.decode(wait));
        }
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

    /// Returns the layout of the rows that the last call returned.
    pub fn layout(&self) -> Option<&ColumnLayout> {
        self.layout.as_ref()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        let consumed =
            self.lease.as_ref().map_or(0, |lease| consumed(&lease.consumer).saturating_sub(self.bytes_before));
        Counters { bytes: self.counters.bytes + consumed, ..self.counters }
    }

    /// Releases all resources. If `whole` is true, keeps the consumer for the next task. Only a successful task passes
    /// true.
    pub fn close(&mut self, whole: bool) {
        if let Some(layout) = self.layout.take() {
            free_later(layout);
        }
        self.counters.bytes = self.counters().bytes;
        self.stop_log_lookup();
        (self.undecoded, self.held) = (None, None);
        let done = whole && (self.range.is_open() || self.position >= self.range.end);
        let Some(lease) = self.lease.take() else { return };
        // The partition is paused so that it is not fetched while the consumer is idle.
        if done && lease.consumer.pause(std::slice::from_ref(&self.range.tp)).is_ok() {
            let position = if lease.leftover.is_some() { self.range.end } else { self.position };
            self.shared.pool.put(self.kind, lease, self.range.tp.clone(), position);
        } else {
            close(lease);
        }
        self.ended = true;
    }

    async fn advance(&mut self, wait: Duration) -> Result<Next> {
        if self.lease.is_none() {
            self.lease()?;
        }
        if self.out_of_range {
            return self.resolve_out_of_range(wait).await;
        }
        let Some(Lease { consumer, leftover, .. }) = &mut self.lease else { return Ok(Next::End) };
        let begun = Instant::now();
        let polled = match leftover.take() {
            Some(batch) => Ok(batch),
            None => consumer.poll(wait).await,
        };
        self.counters.wait += begun.elapsed();
        let batch = match polled {
            Ok(batch) => batch,
            Err(error) => return self.handle_error(error).await,
        };
        let reached = consumer.position(&self.range.tp, consumer.default_timeout()).await?;
        if reached > self.position {
            self.position = reached;
            self.progress = Instant::now();
            self.progress_checked = self.progress;
            self.stop_log_lookup();
        } else if batch.num_rows() == 0 {
            return self.check_progress().await;
        }
        if self.position >= self.range.end {
            self.ended = true;
        }
        let Some(batch) = self.rows_in_range(batch)? else {
            return Ok(if self.ended { Next::End } else { Next::Nothing });
        };
        if self.decoders.is_empty() {
            return self.layout_batch(&batch, Instant::now());
        }
        self.undecoded = Some(batch.into());
        self.decode(wait.saturating_sub(begun.elapsed())).await
    }

    /// Returns the rows of the batch that are within the range and the limit, or `None` if there are none.
    fn rows_in_range(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let mut rows = rows_before(&batch, self.range.end)?;
        if let Some(lease) = &mut self.lease
            && rows < batch.num_rows()
        {
            lease.leftover = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        // The limit does not count bad rows, which are known only after decoding, so that the batch is not cut.
        if let Some(limit) = self.range.limit.filter(|_| !self.sends_dead_letters) {
            let remaining = usize::try_from(limit.saturating_sub(self.counters.rows)).unwrap_or(usize::MAX);
            if rows >= remaining {
                rows = remaining;
                self.ended = true;
            }
        }
        Ok((rows > 0).then(|| batch.slice(0, rows)))
    }

    fn layout_batch(&mut self, batch: &RecordBatch, begun: Instant) -> Result<Next> {
        let layout = ColumnLayout::new(batch, &self.range.columns, &[], self.range.vectors, &self.range.tp)?;
        Ok(self.finish_batch(layout, begun))
    }

    fn finish_batch(&mut self, layout: ColumnLayout, begun: Instant) -> Next {
        let rows = layout.rows();
        self.counters.rows += rows as u64;
        if self.range.limit.is_some_and(|limit| self.counters.rows >= limit) {
            self.ended = true;
            self.undecoded = None;
        }
        self.counters.peak = self.counters.peak.max(layout.bytes() as u64);
        self.counters.decode += begun.elapsed();
        self.layout = Some(layout);
        Next::Rows(rows)
    }

    /// Takes a consumer from the pool or creates one, and lets it read the partition from the start of the range.
    fn lease(&mut self) -> Result<()> {
        let tps = std::slice::from_ref(&self.range.tp);
        let taken = self.shared.pool.take(self.kind, &self.range.tp, self.position);
        let (mut lease, continues) = match taken {
            Some(taken) => taken,
            None => (self.create_consumer()?, false),
        };
        lease.prefetches = continues || self.range.is_open();
        let consumer = &lease.consumer;
        consumer.assign(tps)?;
        consumer.read_until(&self.range.tp, (!lease.prefetches).then_some(self.range.end))?;
        if !continues {
            // The leftover rows belong to another position, so they are discarded.
            lease.leftover = None;
            consumer.seek(&self.range.tp, self.position)?;
        }
        consumer.resume(tps)?;
        self.bytes_before = consumed(consumer);
        self.lease = Some(lease);
        self.progress = Instant::now();
        self.progress_checked = self.progress;
        Ok(())
    }

    fn create_consumer(&self) -> Result<Lease> {
        let options = self.shared.options()?;
        let mut overrides = vec![
            ("max.poll.records", MAX_ROWS.to_string()),
            ("auto.offset.reset", "none".to_owned()),
            ("include.headers", self.kind.headers.to_string()),
            ("layout", "binary".to_owned()),
        ];
        if self.kind.small {
            overrides.push(("max.partition.fetch.bytes", SMALL_FETCH.to_string()));
        }
        let granted = !options.has_client_option("queued.max.bytes");
        let grant = granted.then(|| BUDGET.grant(self.range.process_limit, evict_oldest));
        overrides.extend(grant.iter().map(|grant| ("queued.max.bytes", grant.bytes().to_string())));
        let mut options = options.client(ClientKind::Consumer, &overrides)?;
        options.consumer.projection = self.kind.projection;
        Ok(Lease::new(Consumer::new(&options)?, grant))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.close(false);
    }
}

/// Returns the number of rows of the batch whose offsets are less than `end`.
fn rows_before(batch: &RecordBatch, end: i64) -> Result<usize> {
    let offsets = batch.column_by_name("offset").and_then(|column| column.as_primitive_opt::<Int64Type>());
    let offsets = offsets.ok_or_else(|| wrong_column("offset"))?.values();
    Ok(match offsets.last() {
        Some(last) if *last >= end => offsets.partition_point(|offset| *offset < end),
        _ => batch.num_rows(),
    })
}

/// Returns the size in bytes of the records that a consumer has returned.
fn consumed(consumer: &Consumer) -> u64 {
    let samples = consumer.metrics().samples();
    let sample = samples.iter().find(|sample| sample.id == Id::BytesConsumedTotal);
    match sample.map(|sample| sample.value) {
        Some(Value::Number(bytes)) => bytes as u64,
        _ => 0,
    }
}
