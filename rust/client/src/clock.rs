//! The current time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time of day.
pub(crate) fn now() -> SystemTime {
    #[cfg(feature = "simulation")]
    return UNIX_EPOCH + samsarrow_simnet::unix_time();
    #[cfg(not(feature = "simulation"))]
    SystemTime::now()
}

/// Returns the time since the Unix epoch, or zero before it.
pub(crate) fn unix_time() -> Duration {
    now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(unix_time().as_millis()).unwrap_or(i64::MAX)
}
