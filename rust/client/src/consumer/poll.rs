//! Polls, which return rows, rebalances and completed commits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_array::RecordBatch;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::Consumer;
use crate::defects::Defect;
use crate::error::{Error, Result};
use crate::fetcher::Rows;
use crate::group::Rebalance;
use crate::group::consumer_group::ConsumerGroup;
use crate::log::GROUP;
use crate::metrics::Event;
use crate::types::join_limited;

/// Result of [`Consumer::next`].
#[derive(Debug)]
pub enum Polled {
    /// Rows. Empty after a timeout or at the end of a bounded read.
    Rows(Rows),
    /// A rebalance. [`Consumer::acknowledge`] must be called after the application's listener has returned.
    Rebalance(Rebalance),
    /// An asynchronous commit has completed. [`Consumer::take_completed`] returns the result.
    Committed,
}

impl Consumer {
    /// Begins a poll. The caller then calls [`try_poll`](Self::try_poll) and waits with
    /// [`wait_ready`](Self::wait_ready). Rows of earlier polls now count as finished. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if the consumer has neither a subscription nor an assignment.
    pub fn begin_poll(&self) -> Result<()> {
        self.check_open()?;
        self.cluster.metrics().polls.begin();
        let shared = &self.fetcher.shared;
        if shared.nothing_assigned() && self.subscription().is_none() {
            return Err(Error::configuration(
                "nothing is assigned to this consumer: call subscribe or assign before poll",
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

    /// Returns rows (`max.poll.records` or fewer), a rebalance or a completed commit, or `None` if none of these is
    /// available. The position of a partition moves past rows only when the rows are returned. A rebalance must be
    /// [prepared](Self::prepare) and acknowledged, or requeued.
    ///
    /// # Errors
    /// Fails if an assigned partition or the group membership has an error, once per error, and with [`Error::Wakeup`]
    /// after `wakeup` was called.
    pub fn try_poll(&self) -> Result<Option<Polled>> {
        self.try_poll_at_most(self.options.max_poll_records)
    }

    /// Like [`try_poll`](Self::try_poll), but returns at most `limit` rows, regardless of `max.poll.records`.
    ///
    /// # Errors
    /// Fails like [`try_poll`](Self::try_poll).
    pub fn try_poll_at_most(&self, limit: usize) -> Result<Option<Polled>> {
        self.try_poll_with_limit(Some(limit))
    }

    /// Like [`try_poll`](Self::try_poll), but takes no rows.
    ///
    /// # Errors
    /// Fails like [`try_poll`](Self::try_poll), except that errors of partitions are left to the next `try_poll`.
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
            // The topic was deleted or recreated with fewer partitions, so the group will revoke the partitions.
            Err(Error::Server { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context, .. })
                if self.subscription().is_some() =>
            {
                tracing::debug!(
                    client_id = self.cluster.client_id(),
                    "{context} does not exist: waiting until the group revokes it"
                );
                // The next attempt follows after `retry.backoff.ms`.
                *lock(&self.retry_at) = Some(Instant::now() + self.cluster.options().retry_backoff);
                Ok(None)
            }
            result => result,
        }
    }

    /// Waits until [`try_poll`](Self::try_poll) may return rows or an event, but at most for `timeout`. Removes nothing
    /// from the queues, so a cancelled wait loses nothing. The application counts as polling during the wait.
    pub async fn wait_ready(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let _idle = self.cluster.metrics().polls.wait();
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        let retry_at = lock(&self.retry_at).take();
        if let Some(retry_at) = retry_at {
            tokio::time::sleep_until(retry_at.min(deadline)).await;
        }
        let first = || {
            let has_events = |group: &ConsumerGroup| group.membership.has_pending() || group.has_completed();
            self.woken.load(Ordering::Acquire) || self.group.as_ref().is_some_and(has_events)
        };
        self.fetcher.shared.wait_ready(deadline, first).await;
    }

    /// Prepares a rebalance before the listener is called: commits finished offsets of revoked partitions, or adds
    /// assigned partitions. Returns false if the commit did not complete within `timeout`.
    ///
    /// # Errors
    /// Fails with [`Error::Wakeup`] if `wakeup` was called.
    pub async fn prepare(&self, event: &Rebalance, timeout: Duration) -> Result<bool> {
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        self.unless_woken(self.prepare_event(event, Instant::now() + timeout)).await
    }

    /// Requeues an event whose listener was not called, so that the next poll takes the event again.
    pub fn requeue(&self) {
        if let Some(group) = &self.group {
            group.membership.requeue();
        }
    }

    /// Returns a batch without rows.
    pub fn empty_batch(&self) -> Result<RecordBatch> {
        self.fetcher.shared.with_topics(RecordBatch::new_empty(self.schema.clone()))
    }

    /// Returns the next rows (`max.poll.records` or fewer), rebalance or completed commit, or no rows after `timeout`.
    /// A cancelled call loses nothing.
    ///
    /// # Errors
    /// Fails if [`begin_poll`](Self::begin_poll), [`try_poll`](Self::try_poll) or [`prepare`](Self::prepare) fails.
    pub async fn next(&self, timeout: Duration) -> Result<Polled> {
        let deadline = Instant::now() + timeout;
        self.begin_poll()?;
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            match self.try_poll()? {
                Some(Polled::Rebalance(event)) => {
                    // If the call is cancelled, the guard leaves the event to the next poll.
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

    /// Like [`next`](Self::next), but for an application without a listener: acknowledges rebalances and drops the
    /// results of completed commits.
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

    /// Prepares a rebalance for a listener. Returns false if the deadline passed before the commit of revoked
    /// partitions completed.
    async fn prepare_event(&self, event: &Rebalance, deadline: Instant) -> Result<bool> {
        let Some(group) = &self.group else { return Ok(true) };
        match event {
            Rebalance::Revoked(revoked) => {
                if group.auto_commits() {
                    return Ok(group.commit_revoked(revoked, || self.finished(group, true), deadline).await);
                }
            }
            Rebalance::Assigned(new) => {
                // Other members may have committed the new partitions, so their committed offsets take precedence over
                // offsets remembered from an earlier assignment.
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
        let (change, partitions) = match event {
            Rebalance::Assigned(partitions) => ("assigned", partitions),
            Rebalance::Revoked(partitions) => ("revoked", partitions),
            Rebalance::Lost(partitions) => ("lost", partitions),
        };
        let list = || if partitions.is_empty() { "none".to_owned() } else { join_limited(partitions) };
        tracing::info!(
            target: GROUP,
            client_id = self.cluster.client_id(),
            group_id = group.coordinator.group(),
            "partitions {change}: {}",
            list()
        );
        group.acknowledge();
        if let Rebalance::Revoked(revoked) | Rebalance::Lost(revoked) = event {
            group.forget(revoked);
            if !Defect::RowsAfterRevocation.is_on() {
                self.fetcher.shared.assign(&group.membership.owned());
            }
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
