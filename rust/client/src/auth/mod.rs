//! Logins: a mechanism's conversation with a broker, carried by SaslHandshake and SaslAuthenticate.

mod assertion;
mod attempts;
mod file;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod gss_dl;
mod gssapi;
mod handlers;
mod iam;
mod jwt;
mod login;
mod oauth;
mod oidc;
mod plain;
mod scram;
mod token;
mod trust;
mod unsecured;
mod veil;

use std::fmt::Debug;
use std::pin::Pin;

use bytes::Bytes;

use crate::config::Secret;
use crate::error::Result;

pub(crate) use attempts::Attempts;
pub(crate) use file::unescaped;
pub use iam::{AwsCredentialSource, AwsCredentials, AwsProvider, has_aws_environment};
pub(crate) use login::{Login, Session};
pub use token::{Fetching, Provider, Token, TokenSource};
pub(crate) use veil::Veil;

/// A text of somebody else's as it may be shown: without these secrets and tokens, in one line, cut where it is too long.
pub fn shown(text: &str, secrets: impl IntoIterator<Item = Secret>) -> String {
    veil::Veil::over(secrets).show(text)
}

/// What a mechanism may have to wait for: a token, a ticket, a thread that derives keys.
pub(crate) type Waiting<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// One way to log in, with the credentials for it. A client has one.
pub(crate) trait Mechanism: Debug + Send + Sync {
    /// Its name on the wire.
    fn name(&self) -> &'static str;

    /// Begins a conversation with the broker at `host`, with credentials that hold now.
    fn begin<'a>(&'a self, host: &'a str) -> Waiting<'a, Box<dyn Exchange>>;
}

/// One conversation, which the client opens.
pub(crate) trait Exchange: Send {
    /// What is sent first.
    fn initial(&mut self) -> Waiting<'_, Bytes>;

    /// What is sent after a broker's answer; `None` when nothing is left to be said and the broker is who it should be.
    fn answer(&mut self, challenge: Bytes) -> Waiting<'_, Option<Bytes>>;

    /// Whether everything is said with the last token, to which a broker that takes raw tokens answers nothing.
    fn spoken(&self) -> bool {
        false
    }
}
