//! TLS and login of a client, built from its options and shared by all its connections.

pub(crate) mod http;
pub mod redact;
pub mod sasl;
pub(crate) mod tls;

use std::sync::Arc;

use crate::config::SecurityOptions;
use crate::error::Result;
use crate::security::sasl::{Login, LoginBackoff};
use crate::security::tls::Tls;

/// Security of a client's connections: one certificate store, one login, one backoff for failed logins.
#[derive(Debug)]
pub(crate) struct Security {
    /// TLS, if brokers are connected to over it.
    pub(crate) tls: Option<Arc<Tls>>,
    /// The login, if configured.
    pub(crate) login: Option<Login>,
    /// Limits on login attempts.
    pub(crate) login_backoff: LoginBackoff,
}

impl Security {
    /// Reads the files that the options name, so that errors surface when the client is created.
    ///
    /// # Errors
    /// A store or key cannot be read, or credentials are missing.
    pub(crate) fn new(options: &SecurityOptions) -> Result<Self> {
        let tls = options.tls.as_ref().map(|tls| Tls::new(tls).map(Arc::new)).transpose()?;
        let login = options.sasl.as_ref().map(|sasl| Login::new(sasl, options)).transpose()?;
        Ok(Self { tls, login, login_backoff: LoginBackoff::default() })
    }
}
