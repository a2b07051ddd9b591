//! AWS credentials and signatures, for MSK IAM logins and AWS Glue Schema Registry.

mod chain;
mod instant;
mod metadata;
mod process;
mod profiles;
mod requests;
pub(crate) mod signature;
mod sso;
mod sts;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::secret::Secret;
use chain::Chain;

/// Subject of errors.
const NAME: &str = "AWS credentials";
/// Maximum time to look up credentials. It is shorter than the timeout for setting up a connection, so that the error
/// names the credentials as the cause.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(8);
/// Remaining lifetime at which temporary credentials are replaced. A signature of MSK is sent immediately, so a minute
/// suffices for it; instances and containers have new credentials five minutes before the old ones expire.
const REPLACED_BEFORE: Duration = Duration::from_secs(300);

/// AWS credentials.
#[derive(Debug, Clone)]
pub(crate) struct AwsCredentials {
    /// Id of the access key.
    pub(crate) key_id: String,
    /// Secret access key.
    pub(crate) secret: Secret,
    /// Session token of temporary credentials.
    pub(crate) token: Option<Secret>,
}

/// Credentials and the time at which they expire; `None` for credentials that are looked up each time.
#[derive(Debug, Clone)]
struct Found {
    credentials: AwsCredentials,
    expires: Option<SystemTime>,
}

/// Sources of credentials: the default chain of AWS's SDKs, or the profile and role that options select.
#[derive(Debug, Clone)]
pub(crate) struct CredentialSources {
    chain: Arc<Chain>,
    /// Temporary credentials. The lock is held during a lookup, so that concurrent logins send one request.
    cached: Arc<Mutex<Option<Found>>>,
}

impl CredentialSources {
    /// Creates the sources for a client with these options of MSK's login module.
    pub(crate) fn new(options: &[(String, Secret)]) -> Self {
        Self { chain: Arc::new(Chain::new(options, |name| std::env::var(name).ok())), cached: Arc::default() }
    }

    /// Returns credentials. Those without an expiry are looked up each time.
    ///
    /// # Errors
    /// Fails if no source has credentials, or if the lookup fails or takes too long.
    pub(crate) async fn find(&self) -> Result<AwsCredentials> {
        if let Some(credentials) = self.chain.environment()? {
            return Ok(credentials);
        }
        let late = || Error::connection(NAME, format!("none were found within {} s", LOOKUP_TIMEOUT.as_secs()));
        // Concurrent lookups run one after another, and each of them may take the whole time.
        let mut cached = timeout(LOOKUP_TIMEOUT, self.cached.lock()).await.map_err(|_| late())?;
        let remaining = |found: &Found| found.expires?.duration_since(SystemTime::now()).ok();
        if let Some(found) = cached.as_ref()
            && remaining(found).is_some_and(|left| left > REPLACED_BEFORE)
        {
            return Ok(found.credentials.clone());
        }
        match timeout(LOOKUP_TIMEOUT, self.chain.find()).await.unwrap_or_else(|_| Err(late())) {
            Ok(found) => {
                *cached = found.expires.is_some().then(|| found.clone());
                Ok(found.credentials)
            }
            Err(error) => match cached.as_ref().filter(|found| remaining(found).is_some()) {
                Some(found) => {
                    tracing::warn!("AWS credentials that expire soon are used again: {error}");
                    Ok(found.credentials.clone())
                }
                None => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests;
