//! Client telemetry (KIP-714): subscriptions of clients and their metric pushes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::compression::{Codec, Decompressor};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{PushTelemetryRequest, Uuid};
use tokio::time::Instant;

use crate::collections::HashMap;
use crate::options::TelemetryOptions;

/// Maximum number of stored pushes. If it is exceeded, the oldest push is dropped.
const MAX_PUSHES: usize = 1000;
/// Maximum number of tracked clients.
const MAX_CLIENTS: usize = 10_000;

/// Metrics pushed by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryPush {
    /// Client id of the request header.
    pub client_id: String,
    /// Client instance id that the broker assigned.
    pub client_instance_id: Uuid,
    /// True if this is the last push of the client.
    pub terminating: bool,
    /// Name of the compression codec.
    pub compression: &'static str,
    /// OpenTelemetry's `MetricsData`, decompressed.
    pub metrics: Bytes,
}

#[derive(Debug)]
struct Client {
    last: Instant,
    terminated: bool,
}

/// Tracked clients and received pushes.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    clients: HashMap<Uuid, Client>,
    pub(crate) pushes: VecDeque<TelemetryPush>,
}

/// Returns the subscription id, a hash of the requested metrics and the temporality.
pub(crate) fn subscription_id(options: &TelemetryOptions) -> i32 {
    let mut number: u32 = 2_166_136_261;
    for byte in options.requested.iter().flat_map(|prefix| prefix.bytes().chain([0])).chain([u8::from(options.delta)]) {
        number = (number ^ u32::from(byte)).wrapping_mul(16_777_619);
    }
    i32::from_be_bytes(number.to_be_bytes())
}

impl Telemetry {
    /// Registers a client and returns its client instance id. A client that sends a zero id gets a new one.
    pub(crate) fn subscribe(&mut self, id: Uuid) -> Uuid {
        let id = if id.is_zero() { Uuid(std::array::from_fn(|_| fastrand::u8(..))) } else { id };
        if self.clients.len() < MAX_CLIENTS {
            let last = Instant::now();
            self.clients.entry(id).or_insert(Client { last, terminated: false });
        }
        id
    }

    /// Validates and stores a push.
    pub(crate) fn push(
        &mut self,
        options: &TelemetryOptions,
        client_id: &str,
        request: PushTelemetryRequest,
    ) -> Result<(), ErrorCode> {
        let id = request.client_instance_id;
        if id.is_zero() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let client = self.clients.get_mut(&id).ok_or(ErrorCode::UNKNOWN_SUBSCRIPTION_ID)?;
        if client.terminated {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if request.subscription_id != subscription_id(options) {
            return Err(ErrorCode::UNKNOWN_SUBSCRIPTION_ID);
        }
        if !request.terminating && client.last.elapsed() < options.interval / 4 {
            return Err(ErrorCode::THROTTLING_QUOTA_EXCEEDED);
        }
        if request.metrics.len() > options.max_bytes {
            return Err(ErrorCode::TELEMETRY_TOO_LARGE);
        }
        let codec = Codec::from_attributes(i16::from(request.compression_type))
            .ok()
            .filter(|codec| *codec == Codec::None || options.compression.contains(codec))
            .ok_or(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE)?;
        let metrics = decompressed(codec, &request.metrics, options.max_bytes).ok_or(ErrorCode::INVALID_RECORD)?;
        client.last = Instant::now();
        client.terminated = request.terminating;
        if self.pushes.len() == MAX_PUSHES {
            self.pushes.pop_front();
        }
        self.pushes.push_back(TelemetryPush {
            client_id: client_id.to_owned(),
            client_instance_id: id,
            terminating: request.terminating,
            compression: codec.name(),
            metrics,
        });
        Ok(())
    }
}

fn decompressed(codec: Codec, bytes: &Bytes, max_bytes: usize) -> Option<Bytes> {
    if codec == Codec::None {
        return Some(bytes.clone());
    }
    let mut out = Vec::new();
    Decompressor::new().decompress(codec, bytes, &mut out, max_bytes.saturating_mul(100)).ok()?;
    Some(out.into())
}

/// Converts a push interval to milliseconds, as used in responses.
pub(crate) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
