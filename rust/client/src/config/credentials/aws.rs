//! AWS credentials and regions, and the sources that supply them.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::Result;
use crate::secret::Secret;

/// AWS credentials.
#[derive(Debug, Clone)]
pub struct AwsCredentials {
    /// Id of the access key.
    pub key_id: String,
    /// Secret access key.
    pub secret: Secret,
    /// Session token of temporary credentials.
    pub token: Option<Secret>,
}

/// Source of AWS credentials that the application implements.
pub trait AwsCredentialSource: Debug + Send + Sync {
    /// Returns currently valid credentials. Errors must not contain secrets.
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<AwsCredentials>> + Send + '_>>;
}

/// A credential source supplied by the application.
#[derive(Debug, Clone)]
pub struct AwsProvider(pub Arc<dyn AwsCredentialSource>);

/// Returns the region set in the environment.
pub(crate) fn region_of_environment(get: impl Fn(&str) -> Option<String>) -> Option<String> {
    ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| get(name).filter(|value| !value.is_empty()))
}
