//! Heartbeats of a classic group member, sent while the member waits for other work.

use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::HeartbeatRequest;
use tokio::time::{Instant, sleep_until};

use super::member::MembershipEnd;
use super::membership::Membership;
use crate::cluster::Cluster;
use crate::cluster::coordinator::Coordinator;
use crate::error::Error;

/// Maximum delay before a failed heartbeat is retried.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Outcome of [`Heartbeater::run_until`].
#[derive(Debug)]
pub(super) enum HeartbeatOutcome<T> {
    /// The work finished first.
    Completed(T),
    /// The coordinator started a rebalance; the member must rejoin.
    RebalanceStarted,
}

/// Sends heartbeats for one generation of a classic member.
#[derive(Debug)]
pub(super) struct Heartbeater<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) coordinator: &'a Coordinator,
    pub(super) membership: &'a Membership,
    /// Generation after JoinGroup and before SyncGroup; `None` uses the generation of the membership.
    pub(super) joined: Option<i32>,
    pub(super) interval: Duration,
    pub(super) session_timeout: Duration,
}

impl Heartbeater<'_> {
    /// Runs `work` to completion while sending heartbeats every `interval`. With `stop_on_rebalance`, returns early
    /// when the coordinator reports a rebalance. Returns `Err` when the membership has ended.
    pub(super) async fn run_until<T>(
        &self,
        stop_on_rebalance: bool,
        work: impl Future<Output = T>,
    ) -> Result<HeartbeatOutcome<T>, MembershipEnd> {
        tokio::pin!(work);
        let mut next_heartbeat = Instant::now() + self.interval;
        let mut last_success = Instant::now();
        loop {
            tokio::select! {
                biased;
                output = &mut work => return Ok(HeartbeatOutcome::Completed(output)),
                () = sleep_until(next_heartbeat) => {}
            }
            let response = tokio::select! {
                biased;
                output = &mut work => return Ok(HeartbeatOutcome::Completed(output)),
                response = self.send_heartbeat() => response,
            };
            next_heartbeat = Instant::now() + self.interval;
            let code = match response {
                Ok(code) => code,
                Err(error) if error.retriable() => {
                    let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
                    tracing::debug!(client_id, group_id, "a heartbeat failed and is repeated: {error}");
                    if last_success.elapsed() > self.session_timeout {
                        tracing::warn!(
                            client_id,
                            group_id,
                            "no heartbeat succeeded within session.timeout.ms, so the coordinator may remove this member: {error}"
                        );
                        last_success = Instant::now();
                    }
                    next_heartbeat = Instant::now() + self.interval.min(MAX_RETRY_DELAY);
                    continue;
                }
                Err(error) => return Err(MembershipEnd::Fatal(error)),
            };
            let context = || Error::server(code, format!("Heartbeat in group {}", self.coordinator.group()));
            if !code.is_none() {
                let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
                tracing::debug!(client_id, group_id, "the coordinator responded to a heartbeat with {code}");
            }
            match code {
                ErrorCode::NONE => last_success = Instant::now(),
                ErrorCode::REBALANCE_IN_PROGRESS if stop_on_rebalance => return Ok(HeartbeatOutcome::RebalanceStarted),
                ErrorCode::REBALANCE_IN_PROGRESS => last_success = Instant::now(),
                ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                    self.coordinator.forget();
                    self.cluster.request_refresh();
                    next_heartbeat = Instant::now() + self.interval.min(MAX_RETRY_DELAY);
                }
                ErrorCode::ILLEGAL_GENERATION => return Err(MembershipEnd::Fenced { keep_id: true, error: context() }),
                ErrorCode::UNKNOWN_MEMBER_ID => return Err(MembershipEnd::Fenced { keep_id: false, error: context() }),
                code if code.retriable() => next_heartbeat = Instant::now() + self.interval.min(MAX_RETRY_DELAY),
                _ => return Err(MembershipEnd::Fatal(context())),
            }
        }
    }

    async fn send_heartbeat(&self) -> crate::error::Result<ErrorCode> {
        let identity = self.membership.identity();
        let request = HeartbeatRequest {
            group_id: self.coordinator.group().to_owned(),
            generation_id: self.joined.unwrap_or(identity.generation),
            member_id: identity.member_id,
            group_instance_id: identity.instance_id,
            ..Default::default()
        };
        let limit = self.session_timeout.min(self.cluster.options().request_timeout);
        let (_, response) = self.coordinator.ask(limit, |_| Ok(request)).await?;
        Ok(ErrorCode::from_i16(response.error_code))
    }
}
