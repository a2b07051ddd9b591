//! TLS configuration and login of a client, which are built from its options and shared by all its connections.

pub(crate) mod aws;
pub(crate) mod http;
pub mod redact;
pub mod sasl;
pub(crate) mod tls;

use std::sync::Arc;

use crate::config::SecurityOptions;
use crate::error::Result;
use crate::security::sasl::{Login, LoginBackoff};
use crate::security::tls::Tls;

/// Security of a client: the TLS configuration and the login of all its connections, and the backoff after failed
/// logins.
#[derive(Debug)]
pub(crate) struct Security {
    /// TLS configuration, if the client connects to brokers over TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Login, if one is configured.
    pub(crate) login: Option<Login>,
    /// Limits on login attempts.
    pub(crate) login_backoff: LoginBackoff,
}

impl Security {
    /// Reads the files named by the options, so that errors are raised when the client is created.
    ///
    /// # Errors
    /// Fails if a store or key cannot be read, or if credentials are missing.
    pub(crate) fn new(options: &SecurityOptions) -> Result<Self> {
        let tls = options.tls.as_ref().map(|tls| Tls::new(tls).map(Arc::new)).transpose()?;
        let login = options.sasl.as_ref().map(|sasl| Login::new(sasl, options)).transpose()?;
        Ok(Self { tls, login, login_backoff: LoginBackoff::default() })
    }
}
