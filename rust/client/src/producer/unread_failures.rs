//! Failed records whose deliveries the application has not read. `flush`, `close` and the log report them.
//!
//! Records are counted only when a batch fails, so delivered records cost nothing here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::sync::lock;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::error::Error;

/// Delay before failures are logged, so that an application that waits for a delivery in another thread can read it
/// first.
const LOG_DELAY: Duration = Duration::from_secs(5);
/// Minimum time between two log lines about one cause.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Failed records of one topic and one error name.
#[derive(Debug)]
struct Cause {
    /// First error of these records.
    error: Error,
    records: u64,
    logged: u64,
    due: Instant,
    order: u64,
}

#[derive(Debug, Default)]
struct Causes {
    /// Causes by topic and error name.
    all: BTreeMap<(Arc<str>, String), Cause>,
    /// Number of reports so far. Failures that are read after a report are no longer subtracted.
    reports: u64,
    next_order: u64,
}

impl Causes {
    fn count(&mut self, key: &(Arc<str>, String), error: &Error, records: u64) {
        let order = self.next_order;
        self.next_order += 1;
        let due = Instant::now() + LOG_DELAY;
        let new = || Cause { error: error.clone(), records: 0, logged: 0, due, order };
        let cause = self.all.entry(key.clone()).or_insert_with(new);
        if cause.records <= cause.logged {
            cause.due = cause.due.max(due);
        }
        cause.records += records;
    }
}

/// Failures that the application has not read, by cause.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    causes: Mutex<Causes>,
    added: Notify,
}

/// Records of one failed run. Each record is read, counted as unread, or awaited.
#[derive(Debug)]
pub(super) struct UnreadRun {
    failures: Arc<Unread>,
    key: (Arc<str>, String),
    error: Error,
    /// Number of the report that will contain the counted records.
    report: u64,
    /// Bit set of records that the application has read or that were reported.
    read: Vec<u64>,
    /// Bit set of records counted as unread.
    counted: Vec<u64>,
}

/// Unread failures removed by one call of [`Unread::take`], ordered by the first occurrence of each cause.
#[derive(Debug)]
pub(crate) struct Failures {
    causes: Vec<((Arc<str>, String), Cause)>,
}

impl Unread {
    /// Counts a run of failed records as unread, except those that are `read` or `awaited`.
    pub(super) fn add(
        self: &Arc<Self>,
        topic: &Arc<str>,
        records: u32,
        error: &Error,
        read: impl Iterator<Item = Range<u32>>,
        awaited: impl Iterator<Item = Range<u32>>,
    ) -> UnreadRun {
        let none = vec![0; records.div_ceil(u64::BITS) as usize];
        let key = (Arc::clone(topic), error.name());
        let (failures, error) = (Arc::clone(self), error.clone());
        let mut run = UnreadRun { failures, key, error, report: 0, read: none.clone(), counted: none };
        read.for_each(|records| set(&mut run.read, records));
        run.count(0..records, awaited);
        run
    }

    /// Logs the causes whose `due` time has come. Returns the time at which the next cause is due.
    fn log_due(&self, now: Instant) -> Option<Instant> {
        let mut causes = lock(&self.causes);
        let mut next: Option<Instant> = None;
        for ((topic, _), cause) in &mut causes.all {
            if cause.records <= cause.logged {
                continue;
            }
            if cause.due <= now {
                log(topic, cause);
                cause.logged = cause.records;
                cause.due = now + LOG_INTERVAL;
            } else {
                next = Some(next.map_or(cause.due, |at| at.min(cause.due)));
            }
        }
        next
    }

    /// Takes all unread failures for a report.
    pub(crate) fn take(&self) -> Option<Failures> {
        let mut causes = lock(&self.causes);
        causes.reports += 1;
        let mut taken: Vec<_> = std::mem::take(&mut causes.all).into_iter().collect();
        taken.retain(|(_, cause)| cause.records > 0);
        taken.sort_by_key(|(_, cause)| cause.order);
        (!taken.is_empty()).then_some(Failures { causes: taken })
    }
}

/// Sets the bits of these records.
fn set(bits: &mut [u64], records: Range<u32>) {
    for record in records {
        if let Some(word) = bits.get_mut((record / u64::BITS) as usize) {
            *word |= 1 << (record % u64::BITS);
        }
    }
}

fn log(topic: &str, cause: &Cause) {
    tracing::error!(
        "{} records for topic {topic} were not delivered, and the application has not read their deliveries: {}",
        cause.records - cause.logged,
        cause.error
    );
}

impl UnreadRun {
    /// Marks these records of the run as read.
    pub(super) fn read(&mut self, records: Range<u32>) {
        self.exclude(records.clone());
        set(&mut self.read, records);
    }

    /// Excludes awaited records from the number of unread records.
    pub(super) fn exclude(&mut self, records: Range<u32>) {
        let failures = Arc::clone(&self.failures);
        let mut causes = lock(&failures.causes);
        self.apply_reports(causes.reports);
        let mut held = vec![0; self.counted.len()];
        set(&mut held, records);
        let mut fewer = 0;
        for (counted, held) in self.counted.iter_mut().zip(held) {
            fewer += u64::from((*counted & held).count_ones());
            *counted &= !held;
        }
        if let Some(cause) = causes.all.get_mut(&self.key) {
            cause.records -= fewer;
            cause.logged = cause.logged.min(cause.records);
        }
    }

    /// Counts these records as unread, except those that are read or `awaited`.
    pub(super) fn count(&mut self, records: Range<u32>, awaited: impl Iterator<Item = Range<u32>>) {
        let mut others = vec![0; self.counted.len()];
        awaited.for_each(|records| set(&mut others, records));
        let failures = Arc::clone(&self.failures);
        let mut causes = lock(&failures.causes);
        self.apply_reports(causes.reports);
        let mut new = vec![0; self.counted.len()];
        set(&mut new, records);
        let mut more = 0;
        for (((new, others), read), counted) in new.into_iter().zip(others).zip(&self.read).zip(&mut self.counted) {
            let new = new & !others & !read & !*counted;
            more += u64::from(new.count_ones());
            *counted |= new;
        }
        if more > 0 {
            causes.count(&self.key, &self.error, more);
            drop(causes);
            failures.added.notify_one();
        }
    }

    /// Marks counted records as read if a report has contained them since they were counted.
    fn apply_reports(&mut self, reports: u64) {
        if self.report != reports {
            self.report = reports;
            for (read, counted) in self.read.iter_mut().zip(&mut self.counted) {
                *read |= std::mem::take(counted);
            }
        }
    }
}

impl Failures {
    /// Returns the number of records.
    fn records(&self) -> u64 {
        self.causes.iter().map(|(_, cause)| cause.records).sum()
    }

    /// Returns the numbers of records by topic and error, as text.
    fn counts(&self) -> String {
        let describe = |((topic, name), cause): &((Arc<str>, String), Cause)| {
            format!("{} to topic {topic} ({name})", cause.records)
        };
        self.causes.iter().map(describe).collect::<Vec<_>>().join(", ")
    }

    /// Returns the first error, with the numbers of failed records as context.
    pub(crate) fn into_error(self, call: &str) -> Option<Error> {
        let context = format!("{call}: {} records were not delivered: {}", self.records(), self.counts());
        self.causes.into_iter().next().map(|(_, cause)| match cause.error {
            // `Error::Closed` has no field for a context, so the context is added to its text.
            Error::Closed(what) => Error::Closed(format!("{context}: {what}")),
            error => error.context(context),
        })
    }

    /// Logs the causes that were not logged yet.
    pub(crate) fn log(&self) {
        for ((topic, _), cause) in &self.causes {
            if cause.records > cause.logged {
                log(topic, cause);
            }
        }
    }

    /// Logs all failures in one line, for a producer that was not closed.
    pub(crate) fn log_unclosed(&self) {
        let cause = self.causes.first().map(|(_, cause)| cause.error.to_string()).unwrap_or_default();
        tracing::error!(
            "a producer was not closed, and {} records were not delivered: {}: {cause} (call close, or use a with block)",
            self.records(),
            self.counts(),
        );
    }
}

/// Logs unread failures until the producer stops. Closing the producer reports the rest.
pub(crate) async fn log_unread(unread: Arc<Unread>, mut stop: watch::Receiver<bool>) {
    let logging = async {
        loop {
            let next = unread.log_due(Instant::now());
            let wait = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => unread.added.notified().await,
                }
            };
            wait.await;
        }
    };
    tokio::select! {
        () = logging => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
