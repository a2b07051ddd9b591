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

/// What `next` brings.
#[derive(Debug)]
pub enum Polled {
    /// Rows, or none when nothing came in time or the end of a bounded read was reached.
    Rows(Rows),
    /// A rebalance: after the application's listener has returned, [`Consumer::acknowledge`] must be called.
    Rebalance(Rebalance),
    /// An asynchronous commit is done: see [`Consumer::take_completed`].
    Committed,
}

impl Consumer {
    /// Begins a poll, which then calls [`look`](Self::look) and waits with [`ready`](Self::ready). The application has
    /// finished the rows of earlier polls. Must be called within a tokio runtime.
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

    /// Returns rows (at most `max.poll.records`), a rebalance or a completed commit, if one is available. Positions
    /// move past rows when these are returned, not before. A rebalance must be acknowledged, once it was
    /// [prepared](Self::prepare), or given back.
    ///
    /// # Errors
    /// What keeps an assigned partition from being read, or the consumer from being a member, once for each time that it
    /// is met; [`Error::Wakeup`].
    pub fn look(&self) -> Result<Option<Polled>> {
        self.look_for(Some(self.options.max_poll_records))
    }

    /// As [`look`](Self::look), but no rows are taken.
    ///
    /// # Errors
    /// As [`look`](Self::look), but for errors of partitions, which the next `look` returns.
    pub fn look_for_events(&self) -> Result<Option<Polled>> {
        self.look_for(None)
    }

    fn look_for(&self, limit: Option<usize>) -> Result<Option<Polled>> {
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
            // A topic that was deleted, or made again with fewer partitions: the group takes them from its members.
            Err(Error::Server { code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context })
                if self.subscription().is_some() =>
            {
                tracing::debug!(what = context, "waiting for the group to notice what is gone");
                // The next attempt follows after a retry backoff.
                *self.again() = Some(Instant::now() + self.cluster.options().retry_backoff);
                Ok(None)
            }
            found => found,
        }
    }

    /// Waits until [`look`](Self::look) may find something, or for `timeout`. Takes nothing, so a cancelled wait loses
    /// nothing. The application counts as polling during the wait.
    pub async fn ready(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let _idle = self.cluster.metrics().polls.wait();
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        let again = self.again().take();
        if let Some(again) = again {
            tokio::time::sleep_until(again.min(deadline)).await;
        }
        let first = || {
            let has_events = |group: &ConsumerGroup| group.membership.has_pending() || group.has_completed();
            self.woken.load(Ordering::Acquire) || self.group.as_ref().is_some_and(has_events)
        };
        self.fetcher.shared.wait_ready(deadline, first).await;
    }

    /// Does what has to be done before the listener is called; false when there was no time for it.
    ///
    /// # Errors
    /// [`Error::Wakeup`].
    pub async fn prepare(&self, event: &Rebalance, timeout: Duration) -> Result<bool> {
        let _polling = self.group.as_ref().map(|group| group.membership.polling());
        self.unless_woken(self.begin(event, Instant::now() + timeout)).await
    }

    /// The listener was not called after all: the next poll takes the event again.
    pub fn give_back(&self) {
        if let Some(group) = &self.group {
            group.membership.requeue();
        }
    }

    /// No rows.
    pub fn nothing(&self) -> Result<RecordBatch> {
        self.fetcher.shared.with_topics(RecordBatch::new_empty(self.schema.clone()))
    }

    fn again(&self) -> MutexGuard<'_, Option<Instant>> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next rows, rebalance or completed commit. Rows are at most `max.poll.records`, and empty after
    /// `timeout`. A cancelled call loses nothing.
    ///
    /// # Errors
    /// What [`begin_poll`](Self::begin_poll), [`look`](Self::look) and [`prepare`](Self::prepare) refuse.
    pub async fn next(&self, timeout: Duration) -> Result<Polled> {
        let deadline = Instant::now() + timeout;
        self.begin_poll()?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.look()? {
                Some(Polled::Rebalance(event)) => {
                    // A call that is cancelled here leaves the event to the next poll.
                    let unseen = Unseen(self.group.as_ref());
                    if !self.prepare(&event, left).await? {
                        return Ok(Polled::Rows(Rows::default()));
                    }
                    std::mem::forget(unseen);
                    return Ok(Polled::Rebalance(event));
                }
                Some(found) => return Ok(found),
                None if left.is_zero() => return Ok(Polled::Rows(Rows::default())),
                None => self.ready(left).await,
            }
        }
    }

    /// [`next`](Self::next) for a program without a listener.
    pub async fn poll(&self, timeout: Duration) -> Result<RecordBatch> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())).await? {
                Polled::Rows(rows) => return rows.batch.map_or_else(|| self.nothing(), Ok),
                Polled::Rebalance(event) => self.acknowledge(&event),
                Polled::Committed => drop(self.take_completed()),
            }
        }
    }

    /// Prepares the call of a listener; returns false if the deadline passed before.
    async fn begin(&self, event: &Rebalance, deadline: Instant) -> Result<bool> {
        let Some(group) = &self.group else { return Ok(true) };
        match event {
            Rebalance::Revoked(revoked) => {
                if group.auto_commits() {
                    return Ok(group.commit_revoked(revoked, || self.finished(group, true), deadline).await);
                }
            }
            Rebalance::Assigned(new) => {
                // Offsets that other members have committed since take precedence over remembered ones.
                group.forget(new);
                self.fetcher.shared.assign(&group.membership.owned());
            }
            Rebalance::Lost(_) => {}
        }
        Ok(true)
    }

    /// The listener was notified.
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

/// Event that was taken and that the application has not received yet.
struct Unseen<'a>(Option<&'a ConsumerGroup>);

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            group.membership.requeue();
        }
    }
}
