//! Throttle times of responses (KIP-219), during which the broker reads no requests of the connection.
//!
//! The reading task applies the throttle time of each response before it delivers the response, because the caller may
//! have stopped waiting, and because other callers may send requests before this one decodes the response.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiKey, DecodeError, Request};
use tokio::time::{Instant, sleep_until};

use super::in_flight::Shared;
use super::{CallerDeadline, Connection};
use crate::error::{Error, Result};

/// Maximum throttle time that is applied. A byte rate may cause throttle times of minutes. A longer
/// time has no effect, because brokers close connections that have been idle for 10 minutes (`connections.max.idle.ms`).
const MAX_THROTTLE_TIME: Duration = Duration::from_secs(600);

/// Number of bytes after the correlation id that contain the throttle time of a response whose body the caller reads:
/// the empty tags of the header and the field, which is the first one of Fetch and ShareFetch.
pub(super) const FIRST_FIELD: usize = 5;

/// Decoder of the throttle time in a response, and the version of the response.
#[derive(Clone, Copy)]
pub(super) struct ThrottleField {
    version: i16,
    read: fn(i16, Bytes) -> std::result::Result<i32, DecodeError>,
}

impl ThrottleField {
    /// Returns the field of a response. ApiVersions has `None`: a broker may respond in another version, which only the
    /// handshake finds out.
    pub(super) fn of<R: Request>(version: i16) -> Option<Self> {
        (R::KEY != ApiKey::ApiVersions).then_some(Self { version, read: frame::throttle_time_ms::<R> })
    }
}

/// Returns a throttle time within the limit.
fn bounded(throttle_time_ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(throttle_time_ms).unwrap_or(0)).min(MAX_THROTTLE_TIME)
}

impl Shared {
    /// Applies the throttle time of a response frame. A frame that cannot be decoded has none; the caller reports it.
    pub(super) fn apply_throttle(&self, api: &'static str, field: Option<ThrottleField>, frame: Bytes) {
        if let Some(Ok(millis)) = field.map(|field| (field.read)(field.version, frame)) {
            self.throttle(api, millis);
        }
    }

    /// Applies a throttle time in milliseconds.
    pub(super) fn throttle(&self, api: &'static str, millis: i32) {
        let time = bounded(millis);
        if let Some(meter) = self.meter.get() {
            meter.throttled(api, &self.address, time);
        }
        if time.is_zero() {
            return;
        }
        let (client_id, address) = (&*self.client_id, &*self.address);
        tracing::debug!(client_id, api, "{address} throttles this client for {millis} ms");
        if i64::from(millis) > time.as_millis() as i64 {
            tracing::warn!(
                client_id,
                api,
                "{address} throttles this client for {millis} ms, and the client sends requests again after {} ms: \
                 are the quotas of this client too low?",
                time.as_millis()
            );
        }
        let mut in_flight = self.in_flight();
        in_flight.throttled_until = in_flight.throttled_until.max(Some(Instant::now() + time));
    }

    /// Returns the remaining part, in milliseconds, of the throttle time of a response: 0 if the broker has already
    /// waited.
    pub(super) fn remaining_throttle_ms(&self, throttle_time_ms: i32) -> i32 {
        let applies = self.mutes_after_response.load(Ordering::Relaxed);
        let time = if applies { bounded(throttle_time_ms) } else { Duration::ZERO };
        i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
    }

    /// Returns the end of the throttle time; `None` if there is none, or if the broker has already waited.
    fn throttled_until(&self) -> Option<Instant> {
        let until = self.in_flight().throttled_until.filter(|until| *until > Instant::now());
        until.filter(|_| self.mutes_after_response.load(Ordering::Relaxed))
    }
}

impl Connection {
    /// Waits until the throttle time is over.
    pub(super) async fn wait_for_throttle(&self) {
        while let Some(until) = self.shared.throttled_until() {
            sleep_until(until).await;
        }
    }

    /// Waits until the throttle time is over. The broker does not read requests before, so they would time out.
    ///
    /// # Errors
    /// Fails with a timeout if the throttle time is longer than the caller's deadline allows.
    pub async fn unthrottled(&self, deadline: CallerDeadline) -> Result<()> {
        loop {
            let Some(until) = self.shared.throttled_until() else { return Ok(()) };
            if until > deadline.until() {
                let pause = format!("the pause that {} requested because of a quota", self.address());
                return Err(Error::timeout(pause, deadline.whole()));
            }
            sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silly_throttle_times_are_bounded() {
        for (millis, expected) in [(0, 0), (-1, 0), (60_000, 60_000), (600_001, 600_000), (i32::MAX, 600_000)] {
            assert_eq!(bounded(millis), Duration::from_millis(expected), "{millis}");
        }
    }
}
