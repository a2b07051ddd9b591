//! Logins: a mechanism's conversation with a broker, carried by SaslHandshake and SaslAuthenticate.

mod assertion;
mod file;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod gss_dl;
mod gssapi;
mod iam;
mod java_callback_handlers;
mod login;
mod login_backoff;
mod oauth;
mod oauth_tls;
mod oidc;
mod plain;
mod scram;
mod token_cache;
mod unsecured;

use std::fmt::Debug;
use std::pin::Pin;

use bytes::Bytes;
use samsarrow_wire::messages::Request;

use crate::error::Result;

pub use iam::has_aws_environment;
pub(crate) use login::{Login, Session};
pub(crate) use login_backoff::Attempts;

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

/// What carries a conversation: a connection on which nothing else is sent meanwhile.
pub(crate) trait Carrier: Sync {
    /// Host and port.
    fn address(&self) -> &str;

    /// Asks, and waits for as long as a broker may take.
    fn ask<R: Request + Sync>(&self, request: &R, version: i16) -> impl Future<Output = Result<R::Response>> + Send;

    /// Sends a token as it is and waits for the broker's; brokers that refuse a login hang up instead.
    fn ask_raw(&self, token: &[u8]) -> impl Future<Output = Result<Bytes>> + Send;

    /// Sends a token as it is that is not answered.
    fn tell_raw(&self, token: &[u8]) -> Result<()>;
}
