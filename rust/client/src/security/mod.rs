//! TLS and login of one client, made from its options and shared by all its connections.

pub(crate) mod http;
pub mod redact;
pub mod sasl;
pub(crate) mod tls;

use std::sync::Arc;

use crate::config::SecurityOptions;
use crate::error::Result;
use crate::security::sasl::{Attempts, Login};
use crate::security::tls::Tls;

/// What makes connections secure: one certificate store, one login, one count of its failures.
#[derive(Debug)]
pub(crate) struct Security {
    /// Where brokers are spoken to over it.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Where there is one.
    pub(crate) login: Option<Login>,
    /// When that may be used.
    pub(crate) attempts: Attempts,
}

impl Security {
    /// Reads what the options name, so that anyone who makes a client gets its faults at once.
    ///
    /// # Errors
    /// A store or key that cannot be read, credentials that are missing.
    pub(crate) fn new(options: &SecurityOptions) -> Result<Self> {
        let tls = options.tls.as_ref().map(|tls| Tls::new(tls).map(Arc::new)).transpose()?;
        let login = options.sasl.as_ref().map(|sasl| Login::new(sasl, options)).transpose()?;
        Ok(Self { tls, login, attempts: Attempts::default() })
    }
}
