//! Configuration shared by all connections of a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use samsarrow_wire::releases::Release;
use samsarrow_wire::sync::lock;

use crate::collections::HashMap;
use crate::config::CommonOptions;
use crate::error::Result;
use crate::security::Security;

/// Options of a client, and the security objects that are created from them once and used for all connections.
#[derive(Debug)]
pub struct Setup {
    /// Options as configured.
    pub options: CommonOptions,
    /// TLS and login.
    pub(crate) security: Security,
    /// Kafka releases of brokers that do not support ApiVersions.
    pub(super) old_brokers: OldBrokers,
    /// True once a broker has reported that it checks the destination of connections (KIP-1242).
    pub(super) brokers_check_destination: AtomicBool,
}

/// Broker that a connection is intended for (KIP-1242).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    /// Id of the cluster.
    pub(crate) cluster: Arc<str>,
    /// Broker id.
    pub(crate) node: i32,
}

impl Setup {
    /// Reads certificates and keys, without opening a connection.
    ///
    /// # Errors
    /// Fails if a store or key cannot be read, or if credentials are missing.
    pub fn new(options: CommonOptions) -> Result<Self> {
        let security = Security::new(&options.security)?;
        Ok(Self {
            options,
            security,
            old_brokers: OldBrokers::default(),
            brokers_check_destination: AtomicBool::new(false),
        })
    }
}

/// Kafka releases of brokers that do not support ApiVersions, by address. New connections to these brokers need not
/// probe them again.
#[derive(Debug, Default)]
pub(super) struct OldBrokers {
    releases: Mutex<HashMap<String, Release>>,
    /// True once a broker has responded to ApiVersions.
    newer: AtomicBool,
}

impl OldBrokers {
    /// Returns the release of a broker. Kafka 0.8 is forgotten once a broker of the cluster is newer.
    pub(super) fn get(&self, address: &str) -> Option<Release> {
        let release = lock(&self.releases).get(address).copied();
        release.filter(|release| *release >= Release::V0_9_0 || !self.has_newer())
    }

    pub(super) fn remember(&self, address: &str, release: Release) {
        lock(&self.releases).insert(address.to_owned(), release);
    }

    /// Records that a broker has responded to ApiVersions.
    pub(super) fn remember_newer(&self) {
        self.newer.store(true, Ordering::Relaxed);
    }

    /// Returns true if any broker of the cluster has responded to ApiVersions.
    pub(super) fn has_newer(&self) -> bool {
        self.newer.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafka_0_8_is_forgotten_once_a_broker_is_newer() {
        let brokers = OldBrokers::default();
        brokers.remember("a:9092", Release::V0_8_2);
        brokers.remember("b:9092", Release::V0_9_0);
        assert_eq!(brokers.get("a:9092"), Some(Release::V0_8_2));
        brokers.remember_newer();
        assert_eq!(brokers.get("a:9092"), None);
        assert_eq!(brokers.get("b:9092"), Some(Release::V0_9_0));
    }
}
