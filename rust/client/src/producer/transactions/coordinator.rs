//! Requests to the transaction coordinator: InitProducerId and EndTxn.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{
    ApiKey, EndTxnRequest, EndTxnResponse, InitProducerIdRequest, InitProducerIdResponse, Request,
};

use super::shared::{END_V2, NO_TIMEOUT, Transactions, with_protocol};
use super::state::Protocol;
use crate::cluster::Cluster;
use crate::cluster::coordinator::Verdict;
use crate::error::{Error, Result};
use crate::producer::batch::ProducerIdAndEpoch;

/// First version of InitProducerId in which a producer can renew its own epoch (KIP-360).
const FIRST_WITH_RENEWAL: i16 = 3;

impl Transactions {
    /// Requests a producer ID until the coordinator responds. Without `current`, the request fences earlier producers
    /// with the same transactional ID. With `current`, it requests a newer epoch; the coordinator rejects the request
    /// if the producer has been fenced (KIP-360).
    pub(in crate::producer) async fn identity(
        &self,
        current: Option<ProducerIdAndEpoch>,
    ) -> Result<ProducerIdAndEpoch> {
        let build = |version| {
            if current.is_some() && version < FIRST_WITH_RENEWAL {
                return Err(Error::UnsupportedVersion(format!(
                    "sequences of transactional id {} are uncertain after a failure; only brokers since Kafka 2.5 can give \
                     the producer another epoch (InitProducerId v{FIRST_WITH_RENEWAL})",
                    self.id
                )));
            }
            Ok(InitProducerIdRequest {
                transactional_id: Some(self.id.to_string()),
                transaction_timeout_ms: i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX),
                producer_id: current.map_or(-1, |identity| identity.producer_id),
                producer_epoch: current.map_or(-1, |identity| identity.epoch),
                ..Default::default()
            })
        };
        let judge = |_, response: InitProducerIdResponse| {
            let Err(code) = ErrorCode::from_i16(response.error_code).ok() else {
                let identity = ProducerIdAndEpoch { producer_id: response.producer_id, epoch: response.producer_epoch };
                return Ok(Verdict::Done(identity));
            };
            Verdict::of(fenced_or(code), &self.context("InitProducerId"))
        };
        self.coordinator.call(NO_TIMEOUT, build, judge).await
    }

    /// Ends the transaction, retrying until the coordinator responds. Returns the producer ID of the next transaction
    /// if the coordinator has changed it.
    pub(in crate::producer) async fn end(
        &self,
        identity: Option<ProducerIdAndEpoch>,
        protocol: Protocol,
        committed: bool,
    ) -> Result<Option<ProducerIdAndEpoch>> {
        let identity = identity.ok_or_else(|| Error::closed("the producer's identity"))?;
        let context = self.context(if committed { "EndTxn (commit)" } else { "EndTxn (abort)" });
        let build = |version| {
            if protocol == Protocol::V2 && version < END_V2 {
                return Err(too_old(EndTxnRequest::KEY, version, END_V2));
            }
            Ok(EndTxnRequest {
                transactional_id: self.id.to_string(),
                producer_id: identity.producer_id,
                producer_epoch: identity.epoch,
                committed,
                ..Default::default()
            })
        };
        let judge = |_, response: EndTxnResponse| {
            let Err(code) = ErrorCode::from_i16(response.error_code).ok() else {
                let next = ProducerIdAndEpoch { producer_id: response.producer_id, epoch: response.producer_epoch };
                return Ok(Verdict::Done((next.producer_id >= 0).then_some(next)));
            };
            Verdict::of(fenced_or(code), &context)
        };
        let coordinator = self.coordinator.with(|cluster| self.with_protocol(cluster, protocol));
        coordinator.call(NO_TIMEOUT, build, judge).await
    }

    fn with_protocol(&self, cluster: &Cluster, protocol: Protocol) -> Cluster {
        with_protocol(cluster, protocol, EndTxnRequest::KEY, END_V2)
    }

    /// Returns the context for errors of a request.
    pub(in crate::producer) fn context(&self, request: &str) -> String {
        format!("{request} of transactional id {}", self.id)
    }
}

/// Returns the error for a broker that lags behind the feature level of its cluster.
pub(in crate::producer) fn too_old(key: ApiKey, version: i16, needed: i16) -> Error {
    Error::UnsupportedVersion(format!(
        "the cluster's transaction.version needs {} v{needed}, and this broker supports v{version}",
        key.name()
    ))
}

/// Maps INVALID_PRODUCER_EPOCH, with which older coordinators report a fenced producer, to PRODUCER_FENCED.
pub(in crate::producer) fn fenced_or(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::INVALID_PRODUCER_EPOCH => ErrorCode::PRODUCER_FENCED,
        code => code,
    }
}
