//! Heartbeats of a classic group member, sent while the member waits for other work.

use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::HeartbeatRequest;
use tokio::time::{Instant, sleep_until};

use super::member::End;
use super::membership::Membership;
use crate::cluster::Cluster;
use crate::cluster::coordinator::Coordinator;
use crate::error::Error;

/// Maximum delay before a failed heartbeat is retried.
const AGAIN: Duration = Duration::from_millis(500);

/// Outcome of [`Heartbeater::run_until`].
#[derive(Debug)]
pub(super) enum Beat<T> {
    /// The work finished first.
    Done(T),
    /// The coordinator started a rebalance; the member must rejoin.
    Rebalance,
}

/// Sends heartbeats for one generation of a classic member.
#[derive(Debug)]
pub(super) struct Heart<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) coordinator: &'a Coordinator,
    pub(super) membership: &'a Membership,
    /// Generation after JoinGroup and before SyncGroup; `None` uses the generation of the membership.
    pub(super) joined: Option<i32>,
    pub(super) interval: Duration,
    pub(super) session_timeout: Duration,
}

impl Heart<'_> {
    /// Runs `work` to completion while sending heartbeats every `interval`. Returns early when the coordinator reports
    /// a rebalance, if `stop_on_rebalance` is set, and returns `Err` when the membership has ended.
    pub(super) async fn beating<T>(&self, heed_rebalance: bool, work: impl Future<Output = T>) -> Result<Beat<T>, End> {
        tokio::pin!(work);
        let mut next = Instant::now() + self.interval;
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(Beat::Done(done)),
                () = sleep_until(next) => {}
            }
            let answer = tokio::select! {
                biased;
                done = &mut work => return Ok(Beat::Done(done)),
                answer = self.beat() => answer,
            };
            next = Instant::now() + self.interval;
            let code = match answer {
                Ok(code) => code,
                Err(error) if error.retriable() => {
                    if heard.elapsed() > self.session_timeout {
                        tracing::warn!(
                            group = self.coordinator.group(),
                            %error,
                            "no heartbeat got through for session.timeout.ms: the coordinator may take this member for dead"
                        );
                        heard = Instant::now();
                    }
                    next = Instant::now() + self.interval.min(AGAIN);
                    continue;
                }
                Err(error) => return Err(End::Fatal(error)),
            };
            let context = || Error::server(code, format!("Heartbeat in group {}", self.coordinator.group()));
            match code {
                ErrorCode::NONE => heard = Instant::now(),
                ErrorCode::REBALANCE_IN_PROGRESS if heed_rebalance => return Ok(Beat::Rebalance),
                ErrorCode::REBALANCE_IN_PROGRESS => heard = Instant::now(),
                ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                    self.coordinator.forget();
                    self.cluster.request_refresh();
                    next = Instant::now() + self.interval.min(AGAIN);
                }
                ErrorCode::ILLEGAL_GENERATION => return Err(End::Fenced { keep_id: true, error: context() }),
                ErrorCode::UNKNOWN_MEMBER_ID => return Err(End::Fenced { keep_id: false, error: context() }),
                code if code.retriable() => next = Instant::now() + self.interval.min(AGAIN),
                _ => return Err(End::Fatal(context())),
            }
        }
    }

    async fn beat(&self) -> crate::error::Result<ErrorCode> {
        let identity = self.membership.identity();
        let request = HeartbeatRequest {
            group_id: self.coordinator.group().to_owned(),
            generation_id: self.joined.unwrap_or(identity.generation),
            member_id: identity.member_id,
            group_instance_id: identity.instance_id,
            ..Default::default()
        };
        let limit = self.session_timeout.min(self.cluster.options().request_timeout);
        let (_, answer) = self.coordinator.ask(limit, |_| Ok(request)).await?;
        Ok(ErrorCode::from_i16(answer.error_code))
    }
}
