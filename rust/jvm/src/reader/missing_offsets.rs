//! Handling of offsets outside of the log: offsets that are not yet written, or whose records were deleted or
//! truncated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use samsarrow_client::error::{Error, Result as ClientResult};
use samsarrow_spark::error::report_loss;
use samsarrow_wire::error_code::ErrorCode;

use super::{Next, Reader};
use crate::failure::{Failure, Result};
use crate::range::Range;

/// Time without progress after which the log's offsets are looked up.
const PROGRESS_CHECK_DELAY: Duration = Duration::from_millis(500);

impl Reader {
    /// Handles an error of the consumer, such as an offset out of range.
    pub(super) async fn handle_error(&mut self, error: Error) -> Result<Next> {
        match error {
            Error::OffsetOutOfRange(_) | Error::Server { code: ErrorCode::OFFSET_OUT_OF_RANGE, .. } => {
                self.counters.out_of_range += 1;
                self.out_of_range = true;
                self.stop_log_lookup();
                Ok(Next::Nothing)
            }
            Error::Server { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, .. } => {
                let until = if self.range.is_open() { self.position } else { self.range.end };
                self.report_lost(until, &format!("the partition is gone: {error}"))?;
                self.ended = true;
                Ok(Next::End)
            }
            other => Err(other.into()),
        }
    }

    pub(super) async fn resolve_out_of_range(&mut self, wait: Duration) -> Result<Next> {
        let Some((first, last)) = self.log(wait).await? else { return self.nothing() };
        self.out_of_range = false;
        if self.position < first {
            let reason = format!("the log starts at {first} now: older records were deleted, by retention or by hand");
            self.report_lost(first.min(self.range.end), &reason)?;
            if first >= self.range.end {
                self.ended = true;
                return Ok(Next::End);
            }
            self.position = first;
        } else if self.position > last {
            let reason = format!("the log ends at {last}: it was truncated, or the topic was deleted and recreated");
            if self.range.is_open() {
                self.report_lost(self.position, &reason)?;
                self.position = last;
            } else {
                self.report_lost(self.range.end, &reason)?;
                self.ended = true;
                return Ok(Next::End);
            }
        }
        // The position is within the log again, because the new leader has caught up.
        self.seek()?;
        Ok(Next::Nothing)
    }

    fn seek(&self) -> ClientResult<()> {
        self.lease.as_ref().map_or(Ok(()), |lease| lease.consumer.seek(&self.range.tp, self.position))
    }

    /// Checks, after a poll without progress, whether more records of the range can arrive.
    pub(super) async fn check_progress(&mut self) -> Result<Next> {
        if self.range.is_open() {
            return Ok(Next::Nothing);
        }
        let timeout = self.shared.options()?.poll_timeout;
        if self.log_lookup.is_none() && self.progress_checked.elapsed() < PROGRESS_CHECK_DELAY.min(timeout) {
            return Ok(Next::Nothing);
        }
        let Some((first, last)) = self.log(Duration::ZERO).await? else { return self.nothing() };
        self.progress_checked = Instant::now();
        let end = self.range.end;
        if self.position >= last {
            let reason = format!(
                "the log, which starts at {first}, ends at {last}: the records up to {end} were never there, or the log was \
                 truncated, or the topic was deleted and recreated"
            );
            self.report_lost(end, &reason)?;
            self.ended = true;
            return Ok(Next::End);
        }
        self.nothing()
    }

    /// Returns [`Next::Nothing`], or an error if there was no progress for longer than the timeout.
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

    /// Returns the log start and end offsets if brokers respond within `wait`. Otherwise returns `None`, and the
    /// request continues in the background.
    async fn log(&mut self, wait: Duration) -> Result<Option<(i64, i64)>> {
        let (shared, tp) = (&self.shared, &self.range.tp);
        let log_lookup = self.log_lookup.get_or_insert_with(|| {
            let (shared, tp) = (Arc::clone(shared), tp.clone());
            tokio::spawn(async move { shared.log(&tp).await })
        });
        let Ok(result) = tokio::time::timeout(wait, log_lookup).await else { return Ok(None) };
        self.log_lookup = None;
        result.map_err(|error| Failure::panic(error.to_string()))?.map(Some)
    }

    pub(super) fn stop_log_lookup(&mut self) {
        if let Some(log_lookup) = self.log_lookup.take() {
            log_lookup.abort();
        }
    }

    /// Reports the offsets from the position to `until` as lost.
    fn report_lost(&mut self, until: i64, reason: &str) -> Result<()> {
        self.counters.lost += u64::try_from(until - self.position).unwrap_or_default();
        let fail = self.shared.options()?.fail_on_data_loss;
        Ok(report_loss(format!("{} cannot be read: {reason}", self.range.describe_from(self.position)), fail)?)
    }
}
