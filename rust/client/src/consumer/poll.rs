//! Polls: rows, rebalances and completed commits.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::Consumer;
use crate::error::{Error, Result};
use crate::fetcher::Rows;
use crate::group::Rebalance;
use crate::group::consumer_group::ConsumerGroup;
use crate::metrics::Event;

/// Result of [`Consumer::next`].
#[derive(Debug)]
pub enum Polled {
    /// Rows; empty after a timeout or at the end of a bounded read.
    Rows(Rows),
    /// A rebalance. [`Consumer::acknowledge`] must be called after the application's listener has returned.
    Rebalance(Rebalance),
    /// An asynchronous commit has completed: see [`Consumer::take_completed`].
    Committed,
}

impl Consumer {
    /// Begins a poll, which then calls [`try_poll`](Self::try_poll) and waits with [`wait_ready`](Self::wait_ready).
    /// The application has finished the rows of earlier polls. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Configuration`] if nothing is subscribed to or assigned.
    pub fn begin_poll(&self) -> Result<()> {
        self.check_open()?;
        self.cluster.metrics().polls.begin();
        let shared = &self.fetcher.shared;
        if shared.nothing_assigned() && self.subscription().is_none() {
            return Err(Error::configuration(
                "nothing is assigned to this consumer, so nothing can come: call subscribe or assign first",
            ));
        }
        if let Some(group) = &self.group {
            drop(group.membership.polling());
        }
        shared.finish();
        if let Some(group) = &self.group {
            group.commit_if_due(|| self.finished(group, true));
        }
        Ok(())
    }

    /// Returns rows (`max.poll.records` or fewer), a rebalance or a completed commit, if one is available. Positions
    /// move past rows only when these are returned. A rebalance must be [prepared](Self::prepare) and acknowledged, or
    /// requeued.
    ///
    /// # Errors
    /// Errors of an assigned partition or of the group membership, once per occurrence; [`Error::Wakeup`].
    pub fn try_poll(&self) -> Result<Option<Polled>> {
        self.try_poll_with_limit(Some(self.options.max_poll_records))
    }

    /// Like [`try_poll`](Self::try_poll), but takes no rows.
    ///
    /// # Errors
    /// The errors of [`try_poll`](Self::try_poll), except those of partitions, which the next `try_poll` returns.
    pub fn try_poll_events(&self) -> Result<Option<Polled>> {
        self.try_poll_with_limit(None)
    }

    fn try_poll_with_limit(&self, limit: Option<usize>) -> Result<Option<Polled>> {
        let first = || {
            if self.woken.swap(false, Ordering::AcqRel) {
                return Some(Err(Error::Wakeup));
            }
            let group = self.group.as_ref()?;
            if let Some(error) = group.membership.failure() {
                return Some(Err(error));
            }
            match group.membership.take() {
                Some(event) => Some(Ok(Polled::Rebalance(event))),
                None => group.has_completed().then_some(Ok(Polled::Committed)),
            }
        };
        match self.fetcher.shared.take(limit, first, Polled::Rows).transpose() {
            // The topic was deleted, or recreated with fewer partitions: the group will revoke them.
            Err(Error::Server { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context })
                if self.subscription().is_some() =>
            {
                tracing::debug!(what = context, "waiting for the group to notice what is gone");
                // The next attempt follows after a retry backoff.
                *self.retry_at() = Some(Instant::now() + self.cluster.options().retry_backoff);
                Ok(None)
            }
            result => result,
        }
    }

    /// Waits until [`try_poll`](Self::try_poll) may return something, or for `timeout`. Takes nothing, so a cancelled
    /// wait loses nothing. The application counts as polling during the wait.
    pub async fn wait_ready(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let _idle = self.cluster.metrics().polls.wait();
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        let retry_at = self.retry_at().take();
        if let Some(retry_at) = retry_at {
            tokio::time::sleep_until(retry_at.min(deadline)).await;
        }
        let first = || {
            let has_events = |group: &ConsumerGroup| group.membership.has_pending() || group.has_completed();
            self.woken.load(Ordering::Acquire) || self.group.as_ref().is_some_and(has_events)
        };
        self.fetcher.shared.wait_ready(deadline, first).await;
    }

    /// Prepares an event before the listener is called. Returns false if the time was too short.
    ///
    /// # Errors
    /// [`Error::Wakeup`].
    pub async fn prepare(&self, event: &Rebalance, timeout: Duration) -> Result<bool> {
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        self.unless_woken(self.prepare_event(event, Instant::now() + timeout)).await
    }

    /// Requeues an event whose listener was not called: the next poll takes it again.
    pub fn requeue(&self) {
        if let Some(group) = &self.group {
            group.membership.requeue();
        }
    }

    /// Returns a batch without rows.
    pub fn empty_batch(&self) -> Result<RecordBatch> {
        self.fetcher.shared.with_topics(RecordBatch::new_empty(self.schema.clone()))
    }

    fn retry_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.retry_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next rows, rebalance or completed commit. Rows are `max.poll.records` or fewer, and empty after
    /// `timeout`. A cancelled call loses nothing.
    ///
    /// # Errors
    /// The errors of [`begin_poll`](Self::begin_poll), [`try_poll`](Self::try_poll) and [`prepare`](Self::prepare).
    pub async fn next(&self, timeout: Duration) -> Result<Polled> {
        let deadline = Instant::now() + timeout;
        self.begin_poll()?;
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            match self.try_poll()? {
                Some(Polled::Rebalance(event)) => {
                    // A cancelled call leaves the event to the next poll.
                    let guard = RequeueGuard(self.group.as_ref());
                    if !self.prepare(&event, remaining).await? {
                        return Ok(Polled::Rows(Rows::default()));
                    }
                    std::mem::forget(guard);
                    return Ok(Polled::Rebalance(event));
                }
                Some(result) => return Ok(result),
                None if remaining.is_zero() => return Ok(Polled::Rows(Rows::default())),
                None => self.wait_ready(remaining).await,
            }
        }
    }

    /// Like [`next`](Self::next), for an application without a listener.
    pub async fn poll(&self, timeout: Duration) -> Result<RecordBatch> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())).await? {
                Polled::Rows(rows) => return rows.batch.map_or_else(|| self.empty_batch(), Ok),
                Polled::Rebalance(event) => self.acknowledge(&event),
                Polled::Committed => drop(self.take_completed()),
            }
        }
    }

    /// Prepares the call of a listener; returns false if the deadline passed before.
    async fn prepare_event(&self, event: &Rebalance, deadline: Instant) -> Result<bool> {
        let Some(group) = &self.group else { return Ok(true) };
        match event {
            Rebalance::Revoked(revoked) => {
                if group.auto_commits() {
                    return Ok(group.commit_revoked(revoked, || self.finished(group, true), deadline).await);
                }
            }
            Rebalance::Assigned(new) => {
                // Offsets committed by other members since take precedence over remembered ones.
                group.forget(new);
                self.fetcher.shared.assign(&group.membership.owned());
            }
            Rebalance::Lost(_) => {}
        }
        Ok(true)
    }

    /// Acknowledges an event after the listener was called.
    pub fn acknowledge(&self, event: &Rebalance) {
        let Some(group) = &self.group else { return };
        self.cluster.metrics().emit(|| Event::Rebalanced(event.clone()));
        group.acknowledge();
        if let Rebalance::Revoked(revoked) | Rebalance::Lost(revoked) = event {
            group.forget(revoked);
            self.fetcher.shared.assign(&group.membership.owned());
        }
    }
}

/// Guard that requeues an event unless the application has received it.
struct RequeueGuard<'a>(Option<&'a ConsumerGroup>);

impl Drop for RequeueGuard<'_> {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            group.membership.requeue();
        }
    }
}
