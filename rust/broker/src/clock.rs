//! The wall clock.

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    #[cfg(feature = "simulation")]
    let since = samsarrow_simnet::unix_time();
    #[cfg(not(feature = "simulation"))]
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or_default()
}
