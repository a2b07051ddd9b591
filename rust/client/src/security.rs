//! TLS and login of one client, made from its options and shared by all its connections.

use std::sync::{Arc, OnceLock};

use crate::auth::{Attempts, AwsCredentialSource, AwsProvider, Login, Provider, TokenSource};
use crate::config::SecurityOptions;
use crate::error::Result;
use crate::tls::Tls;

/// What makes connections secure. Clones share it: one certificate store, one login, one count of its failures.
#[derive(Debug, Clone, Default)]
pub struct Security(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    options: SecurityOptions,
    tls: OnceLock<Result<Option<Arc<Tls>>>>,
    login: OnceLock<Result<Option<Arc<Login>>>>,
    attempts: Attempts,
}

impl Security {
    /// Reads nothing yet.
    pub fn new(options: SecurityOptions) -> Self {
        Self(Arc::new(Shared { options, ..Shared::default() }))
    }

    /// The same with tokens that a program's own code makes.
    #[must_use]
    pub fn with_token_source(&self, source: Arc<dyn TokenSource>) -> Self {
        let mut options = self.0.options.clone();
        if let Some(sasl) = &mut options.sasl {
            sasl.oauth.provider = Some(Provider(source));
        }
        Self::new(options)
    }

    /// The same with AWS credentials that a program's own code finds.
    #[must_use]
    pub fn with_aws_credentials(&self, source: Arc<dyn AwsCredentialSource>) -> Self {
        let mut options = self.0.options.clone();
        if let Some(sasl) = &mut options.sasl {
            sasl.aws_provider = Some(AwsProvider(source));
        }
        Self::new(options)
    }

    /// What the user asked for.
    pub fn options(&self) -> &SecurityOptions {
        &self.0.options
    }

    /// Reads what the options name, so that anyone who makes a client gets its faults at once.
    ///
    /// # Errors
    /// A store or key that cannot be read, credentials that are missing.
    pub fn prepare(&self) -> Result<()> {
        self.tls()?;
        self.login().map(drop)
    }

    /// TLS, where brokers are spoken to over it.
    pub(crate) fn tls(&self) -> Result<Option<Arc<Tls>>> {
        let made = || self.0.options.tls.as_ref().map(|tls| Tls::new(tls).map(Arc::new)).transpose();
        self.0.tls.get_or_init(made).clone()
    }

    /// When that may be used.
    pub(crate) fn attempts(&self) -> &Attempts {
        &self.0.attempts
    }

    /// The login, where there is one.
    pub(crate) fn login(&self) -> Result<Option<Arc<Login>>> {
        let made =
            || self.0.options.sasl.as_ref().map(|sasl| Login::new(sasl, &self.0.options).map(Arc::new)).transpose();
        self.0.login.get_or_init(made).clone()
    }
}
