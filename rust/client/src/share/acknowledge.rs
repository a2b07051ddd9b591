//! Acknowledgements of a session: ShareAcknowledge requests, and the outcomes of acknowledgements in any request.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::share_fetch::AcquiredRecords;
use samsarrow_wire::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse};
use tokio::time::Instant;

use super::acks::{SessionId, Taken};
use super::requests::{acknowledge_topics, millis, reported_leader};
use super::rounds::FINAL_EPOCH;
use super::session::{RENEWALS, SessionTask};
use super::state::{Sent, join_ranges};
use crate::error::{Error, Result};
use crate::types::TopicPartition;

impl SessionTask {
    /// Records the outcome of one partition's acknowledgements. If some range of several was invalid, the broker has
    /// applied none, so each range is sent again alone, except those that the same response has acquired again: their
    /// locks had ended, and the acknowledgement would apply to rows that the next polls return.
    pub(super) async fn outcome(
        &mut self,
        id: SessionId,
        sent: Sent,
        outcome: Option<&(i16, Option<String>)>,
        renewed_until: Instant,
        acquired: &[AcquiredRecords],
    ) {
        let context = format!("acknowledgement of {}", sent.tp);
        let error = match outcome {
            None => Some(Error::protocol(format!("broker {}", self.node), format!("{context} has no response"))),
            Some((code, message)) => ErrorCode::from_i16(*code).ok().err().map(|code| {
                let ranges: Vec<_> = sent.taken.iter().flat_map(Taken::ranges).collect();
                Error::explained(code, format!("{context}, offsets {}", join_ranges(&ranges)), message.clone())
            }),
        };
        let is_invalid = matches!(&error, Some(Error::Server { code: ErrorCode::INVALID_RECORD_STATE, .. }));
        if is_invalid && sent.taken.len() > 1 {
            for taken in &sent.taken {
                let one = Sent { taken: vec![taken.clone()], ..sent.clone() };
                let is_again = |(first, last): (i64, i64)| {
                    acquired.iter().any(|again| again.first_offset <= last && first <= again.last_offset)
                };
                let error = match taken.ranges().into_iter().any(is_again) {
                    true => error.clone(),
                    false => self.resend(id, &one).await,
                };
                self.shared.settle(&one, error, renewed_until);
            }
            self.shared.complete(&sent);
            return;
        }
        self.shared.settle(&sent, error, renewed_until);
        self.shared.complete(&sent);
    }

    /// Sends the acknowledgements of one range alone. Returns the error, if any.
    async fn resend(&mut self, id: SessionId, sent: &Sent) -> Option<Error> {
        let epoch = self.shared.with(|state| {
            state.sessions.get(&self.node).filter(|session| session.id == id && session.epoch > 0).map(|s| s.epoch)
        });
        let lost = || Error::server(ErrorCode::INVALID_RECORD_STATE, format!("acknowledgement of {}", sent.tp));
        let Some(epoch) = epoch else { return Some(lost()) };
        let is_renewal = sent.taken.iter().flat_map(|taken| &taken.types).any(|kind| *kind == Some(4));
        match self.send_acknowledgements(epoch, is_renewal, std::slice::from_ref(sent)).await {
            Ok(response) => {
                self.succeeded(id, epoch);
                let partition = response.responses.into_iter().flat_map(|topic| topic.partitions).next();
                let (code, message) = partition.map_or((0, None), |p| (p.error_code, p.error_message));
                let code = ErrorCode::from_i16(code).ok().err()?;
                let ranges: Vec<_> = sent.taken.iter().flat_map(Taken::ranges).collect();
                let context = format!("acknowledgement of {}, offsets {}", sent.tp, join_ranges(&ranges));
                Some(Error::explained(code, context, message))
            }
            Err(error) => {
                self.failed(error.clone(), Vec::new());
                Some(error)
            }
        }
    }

    /// Releases records of a partition that is not in the session, so that other members can acquire them immediately.
    pub(super) async fn release_unnamed(&mut self, id: SessionId, sent: &Sent) {
        let Some(error) = self.resend(id, sent).await else { return };
        tracing::warn!(
            client_id = self.shared.cluster.client_id(),
            group_id = self.shared.coordinator.group(),
            "records of a topic without a known name cannot be released, and are delivered again after their locks: \
             {error}"
        );
    }

    /// Closes an earlier session that the broker still has, which releases its rows.
    pub(super) async fn close_earlier(&mut self) {
        if let Err(error) = self.send_acknowledgements(FINAL_EPOCH, false, &[]).await {
            // The broker has no such session any more, or its connection is lost.
            tracing::debug!(
                client_id = self.shared.cluster.client_id(),
                group_id = self.shared.coordinator.group(),
                "the earlier share session with broker {} was closed before: {error}",
                self.node
            );
        }
    }

    async fn send_acknowledgements(
        &self,
        epoch: i32,
        is_renewal: bool,
        sent: &[Sent],
    ) -> Result<ShareAcknowledgeResponse> {
        let shared = &self.shared;
        let build = |version| {
            if is_renewal && version < RENEWALS {
                return Err(Error::UnsupportedVersion(
                    "renewing acquisition locks needs Kafka 4.2 (KIP-1222)".to_owned(),
                ));
            }
            Ok(ShareAcknowledgeRequest {
                group_id: Some(shared.coordinator.group().to_owned()),
                member_id: Some(shared.member_id.clone()),
                share_session_epoch: epoch,
                is_renew_ack: is_renewal,
                topics: acknowledge_topics(sent),
                ..Default::default()
            })
        };
        let limit = shared.cluster.options().request_timeout;
        let (_, response) = shared.cluster.send_with(self.node, limit, build).await?;
        match ErrorCode::from_i16(response.error_code).ok() {
            Ok(()) => Ok(response),
            Err(code) => Err(Error::explained(code, self.context("ShareAcknowledge"), response.error_message.clone())),
        }
    }

    pub(super) async fn acknowledge(
        &mut self,
        epoch: i32,
        is_renewal: bool,
        is_automatic: bool,
        acknowledgements: Vec<Sent>,
    ) {
        let Some(id) = self.id() else { return };
        let response = match self.send_acknowledgements(epoch, is_renewal, &acknowledgements).await {
            Ok(response) => response,
            Err(error @ Error::UnsupportedVersion(_)) => {
                // The request was not sent, so the session continues.
                for sent in &acknowledgements {
                    self.renewal_failed(sent, is_automatic, &error);
                }
                return;
            }
            Err(error) => return self.failed(error, if is_automatic { Vec::new() } else { acknowledgements }),
        };
        self.succeeded(id, epoch);
        let lock_timeout = millis(response.acquisition_lock_timeout_ms)
            .or_else(|| self.shared.with(|state| state.lock_timeout))
            .unwrap_or_default();
        let renewed_until = Instant::now() + lock_timeout;
        let (mut outcomes, mut leaders) = (BTreeMap::new(), Vec::new());
        for topic in response.responses {
            for partition in topic.partitions {
                if let Some(name) = self.shared.cluster.metadata().topic_name(&topic.topic_id) {
                    let tp = TopicPartition::new(name, partition.partition_index);
                    leaders.extend(reported_leader(&tp, topic.topic_id, &partition.current_leader));
                }
                let outcome = (partition.error_code, partition.error_message);
                outcomes.insert((topic.topic_id, partition.partition_index), outcome);
            }
        }
        let refresh = outcomes.values().any(|(code, _)| ErrorCode::from_i16(*code).retriable());
        self.update_leaders(&leaders, &response.node_endpoints, refresh);
        for sent in acknowledgements {
            let outcome = outcomes.get(&(sent.topic_id, sent.tp.partition));
            if !is_automatic {
                self.outcome(id, sent, outcome, renewed_until, &[]).await;
                continue;
            }
            let ranges: Vec<_> = sent.taken.iter().flat_map(Taken::ranges).collect();
            match outcome.map_or(Ok(()), |(code, _)| ErrorCode::from_i16(*code).ok()) {
                Ok(()) => self.shared.with(|state| {
                    if let Some(rows) = state.rows.get_mut(&sent.tp) {
                        rows.extend_locks(&ranges, renewed_until);
                    }
                }),
                Err(code) => self.renewal_failed(&sent, true, &Error::server(code, format!("renewal for {}", sent.tp))),
            }
        }
    }

    /// Records that locks could not be renewed. The rows stay with the application until their locks end.
    fn renewal_failed(&self, sent: &Sent, is_automatic: bool, error: &Error) {
        let ranges: Vec<_> = sent.taken.iter().flat_map(Taken::ranges).collect();
        if !is_automatic {
            self.shared.settle(sent, Some(error.clone()), Instant::now());
            self.shared.complete(sent);
            return;
        }
        tracing::warn!(
            client_id = self.shared.cluster.client_id(),
            group_id = self.shared.coordinator.group(),
            "acquisition locks of {} cannot be renewed, so other members may get offsets {} again: {error}",
            sent.tp,
            join_ranges(&ranges)
        );
        self.shared.with(|state| {
            if let Some(rows) = state.rows.get_mut(&sent.tp) {
                rows.renewal_failed(&ranges);
            }
        });
    }
}
