//! Credentials for AWS_MSK_IAM, and where they come from.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::Result;
use crate::secret::Secret;

/// What AWS knows somebody by.
#[derive(Debug, Clone)]
pub struct AwsCredentials {
    /// The access key's id.
    pub key_id: String,
    /// The access key.
    pub secret: Secret,
    /// Of credentials that end.
    pub token: Option<Secret>,
}

/// Where AWS credentials come from if not from the environment.
pub trait AwsCredentialSource: Debug + Send + Sync {
    /// Those that hold now. Errors are fit to be shown.
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<AwsCredentials>> + Send + '_>>;
}

/// A source that a program brought along.
#[derive(Debug, Clone)]
pub struct AwsProvider(pub Arc<dyn AwsCredentialSource>);
