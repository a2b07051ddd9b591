//! What all connections of one client are made with.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use samsarrow_wire::releases::Release;

use crate::config::CommonOptions;
use crate::error::Result;
use crate::security::Security;

/// A client's options, and what is made of them once for all its connections.
#[derive(Debug)]
pub struct Setup {
    /// As they were given.
    pub options: CommonOptions,
    /// TLS and the login.
    pub(crate) security: Security,
    /// What was found out of brokers that cannot say what they speak.
    pub(super) old_brokers: OldBrokers,
}

impl Setup {
    /// Reads certificates and keys, and connects to nothing.
    ///
    /// # Errors
    /// A store or key that cannot be read, credentials that are missing.
    pub fn new(options: CommonOptions) -> Result<Self> {
        let security = Security::new(&options.security)?;
        Ok(Self { options, security, old_brokers: OldBrokers::default() })
    }
}

/// The Kafka of brokers that cannot say it, by address, so that each connection need not find out again.
#[derive(Debug, Default)]
pub(super) struct OldBrokers(Mutex<HashMap<String, Release>>);

impl OldBrokers {
    pub(super) fn get(&self, address: &str) -> Option<Release> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(address).copied()
    }

    pub(super) fn remember(&self, address: &str, release: Release) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(address.to_owned(), release);
    }
}
