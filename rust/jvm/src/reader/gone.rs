//! What is not in the log: not yet, not any more, or never.

use std::sync::Arc;
use std::time::{Duration, Instant};

use samsarrow_client::error::{Error, Result as ClientResult};
use samsarrow_spark::error::report_loss;
use samsarrow_wire::error_code::ErrorCode;

use super::{Next, Reader};
use crate::failure::{Failure, Result};
use crate::range::Range;

/// Without progress for so long, a broker is asked whether there is more to come.
const DOUBT: Duration = Duration::from_millis(500);

impl Reader {
    /// What an error of the consumer's means for the range.
    pub(super) async fn failed(&mut self, error: Error) -> Result<Next> {
        match error {
            Error::OffsetOutOfRange(_) | Error::Server { code: ErrorCode::OFFSET_OUT_OF_RANGE, .. } => {
                self.counters.out_of_range += 1;
                self.strayed = true;
                self.stop_asking();
                Ok(Next::Nothing)
            }
            Error::Server { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, .. } => {
                let until = if self.range.is_open() { self.position } else { self.range.end };
                self.lost(until, &format!("the partition is gone: {error}"))?;
                self.ended = true;
                Ok(Next::End)
            }
            other => Err(other.into()),
        }
    }

    pub(super) async fn out_of_range(&mut self, wait: Duration) -> Result<Next> {
        let Some((first, last)) = self.log(wait).await? else { return self.nothing() };
        self.strayed = false;
        if self.position < first {
            let why = format!("the log starts at {first} now: older records were deleted, by retention or by hand");
            self.lost(first.min(self.range.end), &why)?;
            if first >= self.range.end {
                self.ended = true;
                return Ok(Next::End);
            }
            self.position = first;
        } else if self.position > last {
            let why = format!("the log ends at {last}: it was truncated, or the topic was deleted and recreated");
            if self.range.is_open() {
                self.lost(self.position, &why)?;
                self.position = last;
            } else {
                self.lost(self.range.end, &why)?;
                self.ended = true;
                return Ok(Next::End);
            }
        }
        // In the log it is not so any more: a new leader had to catch up.
        self.seek()?;
        Ok(Next::Nothing)
    }

    fn seek(&self) -> ClientResult<()> {
        self.lease.as_ref().map_or(Ok(()), |lease| lease.consumer.seek(&self.range.tp, self.position))
    }

    /// Nothing came: whether anything will.
    pub(super) async fn doubt(&mut self) -> Result<Next> {
        if self.range.is_open() {
            return Ok(Next::Nothing);
        }
        let timeout = self.shared.options()?.poll_timeout;
        if self.asking.is_none() && self.doubted.elapsed() < DOUBT.min(timeout) {
            return Ok(Next::Nothing);
        }
        let Some((first, last)) = self.log(Duration::ZERO).await? else { return self.nothing() };
        self.doubted = Instant::now();
        let end = self.range.end;
        if self.position >= last {
            let why = format!(
                "the log, which starts at {first}, ends at {last}: the records up to {end} were never there, or the log was \
                 truncated, or the topic was deleted and recreated"
            );
            self.lost(end, &why)?;
            self.ended = true;
            return Ok(Next::End);
        }
        self.nothing()
    }

    /// Nothing yet, if that has not lasted for too long.
    fn nothing(&self) -> Result<Next> {
        let timeout = self.shared.options()?.poll_timeout;
        if self.progress.elapsed() <= timeout {
            return Ok(Next::Nothing);
        }
        let (Range { tp, end, .. }, position, seconds) = (&self.range, self.position, timeout.as_secs_f64());
        Err(Failure::timeout(format!(
            "no record of {tp} arrived for {seconds} s: at offset {position}, reading up to {end} \
             (kafkaConsumer.pollTimeoutMs)"
        )))
    }

    /// First offset and end of the log, if brokers say so within `wait`; they are asked on.
    async fn log(&mut self, wait: Duration) -> Result<Option<(i64, i64)>> {
        let (shared, tp) = (&self.shared, &self.range.tp);
        let asking = self.asking.get_or_insert_with(|| {
            let (shared, tp) = (Arc::clone(shared), tp.clone());
            tokio::spawn(async move { shared.log(&tp).await })
        });
        let Ok(answer) = tokio::time::timeout(wait, asking).await else { return Ok(None) };
        self.asking = None;
        answer.map_err(|error| Failure::panic(error.to_string()))?.map(Some)
    }

    pub(super) fn stop_asking(&mut self) {
        if let Some(asking) = self.asking.take() {
            asking.abort();
        }
    }

    /// Offsets up to `until` are gone.
    fn lost(&mut self, until: i64, why: &str) -> Result<()> {
        self.counters.lost += u64::try_from(until - self.position).unwrap_or_default();
        let fail = self.shared.options()?.fail_on_data_loss;
        Ok(report_loss(format!("{} cannot be read: {why}", self.range.from(self.position)), fail)?)
    }
}
