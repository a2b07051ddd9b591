//! Counters of connections and logins. The fields name Kafka's corresponding metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of logins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Logins {
    /// Successful first logins of connections, like Kafka's metric `successful-authentication-total`.
    pub succeeded: u64,
    /// Failed logins and re-authentications, like Kafka's metrics `failed-authentication-total` and
    /// `failed-reauthentication-total`.
    pub failed: u64,
    /// Successful re-authentications, like Kafka's metric `successful-reauthentication-total`.
    pub repeated: u64,
    /// Connections closed because the client did not re-authenticate in time, like Kafka's metric
    /// `expired-connections-killed-count`.
    pub expired: u64,
}

/// Counters of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Accepted TCP connections, including those with a failed TLS handshake.
    pub accepted: u64,
    /// Failed TLS handshakes.
    pub refused: u64,
    /// TLS handshakes that resumed a session.
    pub resumed: u64,
    /// TLS connections with a valid client certificate.
    pub with_certificate: u64,
}

/// Counters of connections and logins.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) expired: AtomicU64,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) resumed: AtomicU64,
    pub(super) with_certificate: AtomicU64,
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Counts {
    pub(crate) fn connections(&self) -> Connections {
        Connections {
            accepted: read(&self.accepted),
            refused: read(&self.refused),
            resumed: read(&self.resumed),
            with_certificate: read(&self.with_certificate),
        }
    }

    pub(crate) fn logins(&self) -> Logins {
        Logins {
            succeeded: read(&self.succeeded),
            failed: read(&self.failed),
            repeated: read(&self.repeated),
            expired: read(&self.expired),
        }
    }
}
