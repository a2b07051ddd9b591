//! Configuration shared by all connections of a client.

use std::sync::Mutex;

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
}

impl Setup {
    /// Reads certificates and keys, without opening a connection.
    ///
    /// # Errors
    /// Fails if a store or key cannot be read, or if credentials are missing.
    pub fn new(options: CommonOptions) -> Result<Self> {
        let security = Security::new(&options.security)?;
        Ok(Self { options, security, old_brokers: OldBrokers::default() })
    }
}

/// Kafka releases of brokers that do not support ApiVersions, by address. New connections to these brokers need not
/// probe them again.
#[derive(Debug, Default)]
pub(super) struct OldBrokers(Mutex<HashMap<String, Release>>);

impl OldBrokers {
    pub(super) fn get(&self, address: &str) -> Option<Release> {
        lock(&self.0).get(address).copied()
    }

    pub(super) fn remember(&self, address: &str, release: Release) {
        lock(&self.0).insert(address.to_owned(), release);
    }
}
