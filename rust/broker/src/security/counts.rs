//! What is counted of connections and logins; of logins by the names of Kafka's metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// How logins went so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Logins {
    /// First logins of connections, as `successful-authentication-total`.
    pub succeeded: u64,
    /// Logins that were refused, those again too, as `failed-authentication-total` and `failed-reauthentication-total`.
    pub failed: u64,
    /// Logins again on the same connection, as `successful-reauthentication-total`.
    pub repeated: u64,
    /// Connections that were closed as they had not logged in again, as `expired-connections-killed-count`.
    pub expired: u64,
}

/// How clients connected so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that were made, those that were refused too.
    pub accepted: u64,
    /// TLS handshakes that failed.
    pub refused: u64,
    /// TLS handshakes that went on with a session of before.
    pub resumed: u64,
    /// Clients that showed a certificate, which was good.
    pub with_certificate: u64,
}

/// Both, as they are counted.
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
