//! Acquisition of a producer ID for idempotence.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::init_producer_id::InitProducerIdRequest;

use super::batch::ProducerIdAndEpoch;
use super::shared::Shared;
use crate::error::{Error, Result};

/// Requests a producer ID until a broker assigns one. A permanent error fails all pending records.
pub(crate) async fn acquire(shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    tokio::select! {
        () = request_until_done(&shared) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    shared.acquiring.store(false, Ordering::Release);
    shared.wake.notify_one();
}

async fn request_until_done(shared: &Shared) {
    let client_id = shared.cluster.client_id();
    let mut pause = Duration::from_millis(20);
    loop {
        match request_producer_id(shared).await {
            Ok(identity) => {
                tracing::debug!(
                    client_id,
                    producer_id = identity.producer_id,
                    epoch = identity.epoch,
                    "producer ID assigned"
                );
                shared.lock().identity = Some(identity);
                return;
            }
            // Records wait for a producer ID until `delivery.timeout.ms`, like for an unreachable broker.
            Err(error) if error.retriable() || error.of_handshake() => {
                tracing::debug!(client_id, retry_after = ?pause, "no producer ID yet: {error}");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            Err(error @ Error::UnsupportedVersion(_)) if !shared.settings.require_idempotence => {
                tracing::warn!(
                    client_id,
                    "records are sent without idempotence, which these brokers do not support, so retries may duplicate \
                     or reorder them. Set enable.idempotence=false to hide this warning, or true to get an error: {error}"
                );
                shared.lock().disable_idempotence();
                return;
            }
            Err(error) => {
                tracing::error!(client_id, "records cannot be sent, as the producer gets no producer ID: {error}");
                let results = shared.lock().abort_batches(&error);
                shared.complete(results);
                return;
            }
        }
    }
}

async fn request_producer_id(shared: &Shared) -> Result<ProducerIdAndEpoch> {
    let request = InitProducerIdRequest { producer_id: -1, producer_epoch: -1, ..Default::default() };
    let response = shared.cluster.send_any(request, shared.settings.request_timeout).await?;
    let code = ErrorCode::from_i16(response.error_code);
    if !code.is_none() {
        return Err(Error::server(code, "InitProducerId for an idempotent producer (enable.idempotence)"));
    }
    Ok(ProducerIdAndEpoch { producer_id: response.producer_id, epoch: response.producer_epoch })
}
