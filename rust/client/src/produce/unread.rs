//! Failed records whose deliveries the application has not read: `flush` and `close` report them, and the log does.
//!
//! All of it is counted when a batch fails: records that are delivered cost nothing here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::error::Error;

/// A program that waits for a delivery in another thread has read it by then.
const BEFORE_LOGGED: Duration = Duration::from_secs(5);
/// At least this long between two log lines about one cause.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// Records of one topic that failed with errors of one name.
#[derive(Debug)]
struct Cause {
    /// The first of the errors.
    error: Error,
    records: u64,
    logged: u64,
    due: Instant,
    place: u64,
}

#[derive(Debug, Default)]
struct Causes {
    /// By topic and name of the error.
    all: BTreeMap<(Arc<str>, String), Cause>,
    /// Number of the report: failures read after it are no longer counted.
    reports: u64,
    places: u64,
}

/// Failures that the application has not read, by cause.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    causes: Mutex<Causes>,
    added: Notify,
}

/// The records of one failed run that are not read yet.
#[derive(Debug)]
pub(super) struct UnreadRun {
    failures: Arc<Unread>,
    key: (Arc<str>, String),
    report: u64,
    /// One bit a record.
    read: Vec<u64>,
}

/// Failures taken for a report.
#[derive(Debug)]
pub(crate) struct Failures {
    causes: Vec<((Arc<str>, String), Cause)>,
}

impl Unread {
    fn lock(&self) -> MutexGuard<'_, Causes> {
        self.causes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a run of records that failed, but for those that the application learns of.
    pub(super) fn add(
        self: &Arc<Self>,
        topic: &Arc<str>,
        records: u32,
        error: &Error,
        known: impl Iterator<Item = Range<u32>>,
    ) -> Option<UnreadRun> {
        let mut read = vec![0; records.div_ceil(u64::BITS) as usize];
        let known: u64 = known.map(|run| mark(&mut read, run)).sum();
        let unread = u64::from(records) - known;
        if unread == 0 {
            return None;
        }
        let key = (Arc::clone(topic), error.name());
        let mut causes = self.lock();
        let place = causes.places;
        causes.places += 1;
        let report = causes.reports;
        let due = Instant::now() + BEFORE_LOGGED;
        let new = || Cause { error: error.clone(), records: 0, logged: 0, due, place };
        let cause = causes.all.entry(key.clone()).or_insert_with(new);
        if cause.records <= cause.logged {
            cause.due = cause.due.max(due);
        }
        cause.records += unread;
        drop(causes);
        self.added.notify_one();
        Some(UnreadRun { failures: Arc::clone(self), key, report, read })
    }

    /// Logs the causes that are due; returns when to look again.
    fn log_due(&self, now: Instant) -> Option<Instant> {
        let mut causes = self.lock();
        let mut next: Option<Instant> = None;
        for ((topic, _), cause) in &mut causes.all {
            if cause.records <= cause.logged {
                continue;
            }
            if cause.due <= now {
                log(topic, cause);
                cause.logged = cause.records;
                cause.due = now + BETWEEN_LINES;
            } else {
                next = Some(next.map_or(cause.due, |at| at.min(cause.due)));
            }
        }
        next
    }

    /// Takes all failures that were not read: they are reported now.
    pub(crate) fn take(&self) -> Option<Failures> {
        let mut causes = self.lock();
        causes.reports += 1;
        let mut taken: Vec<_> = std::mem::take(&mut causes.all).into_iter().collect();
        taken.retain(|(_, cause)| cause.records > 0);
        taken.sort_by_key(|(_, cause)| cause.place);
        (!taken.is_empty()).then_some(Failures { causes: taken })
    }
}

/// Sets the bits of these records; returns how many were not set before.
fn mark(bits: &mut [u64], records: Range<u32>) -> u64 {
    let mut newly = 0;
    for record in records {
        if let Some(word) = bits.get_mut((record / u64::BITS) as usize) {
            let bit = 1 << (record % u64::BITS);
            newly += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }
    newly
}

fn log(topic: &str, cause: &Cause) {
    tracing::error!(
        "{} records for topic {topic} were not delivered, and the application has not read their deliveries: {}",
        cause.records - cause.logged,
        cause.error
    );
}

impl UnreadRun {
    /// The application reads the results of these records of the run.
    pub(super) fn read(&mut self, records: Range<u32>) {
        let newly = mark(&mut self.read, records);
        if newly == 0 {
            return;
        }
        let mut causes = self.failures.lock();
        if causes.reports != self.report {
            return;
        }
        if let Some(cause) = causes.all.get_mut(&self.key) {
            cause.records -= newly;
            cause.logged = cause.logged.min(cause.records);
        }
    }
}

impl Failures {
    /// Number of records.
    fn records(&self) -> u64 {
        self.causes.iter().map(|(_, cause)| cause.records).sum()
    }

    /// Counts by topic and error.
    fn counts(&self) -> String {
        let one = |((topic, name), cause): &((Arc<str>, String), Cause)| {
            format!("{} to topic {topic} ({name})", cause.records)
        };
        self.causes.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The first error, with the number of records that failed.
    pub(crate) fn into_error(self, call: &str) -> Option<Error> {
        let context = format!("{call}: {} records were not delivered: {}", self.records(), self.counts());
        self.causes.into_iter().next().map(|(_, cause)| match cause.error {
            // Errors without room for a context.
            Error::Closed(what) => Error::Closed(format!("{context}: {what}")),
            error => error.context(context),
        })
    }

    /// Logs each cause that was not logged yet.
    pub(crate) fn log(&self) {
        for ((topic, _), cause) in &self.causes {
            if cause.records > cause.logged {
                log(topic, cause);
            }
        }
    }

    /// Logs them in one line, for a producer that was not closed.
    pub(crate) fn log_unclosed(&self) {
        let cause = self.causes.first().map(|(_, cause)| cause.error.to_string()).unwrap_or_default();
        tracing::error!(
            "a producer was not closed, and {} records were not delivered: {}: {cause} (call close, or use a with block)",
            self.records(),
            self.counts(),
        );
    }
}

/// Logs failures that are not read, until the producer stops. What is left then is reported by its end.
pub(crate) async fn log_unread(unread: Arc<Unread>, mut stop: watch::Receiver<bool>) {
    let logging = async {
        loop {
            let next = unread.log_due(Instant::now());
            let wait = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
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
