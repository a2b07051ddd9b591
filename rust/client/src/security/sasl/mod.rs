//! SASL logins: exchanges of tokens between a mechanism and a broker, in SaslHandshake and SaslAuthenticate requests.

mod assertion;
pub(in crate::security) mod file;
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

pub(crate) use login::{Login, Session};
pub(crate) use login_backoff::LoginBackoff;

/// Future of a step of a mechanism. The step may wait for a token, for a ticket, or for a thread that derives keys.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A SASL mechanism with its credentials. A client uses a single mechanism.
pub(crate) trait Mechanism: Debug + Send + Sync {
    /// Returns the mechanism's name in the protocol.
    fn name(&self) -> &'static str;

    /// Begins an exchange with the broker at `host`, using credentials that are currently valid.
    fn begin<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Box<dyn Exchange>>;
}

/// A single SASL exchange, in which the client sends the first token.
pub(crate) trait Exchange: Send {
    /// Returns the first token to send.
    fn initial(&mut self) -> BoxFuture<'_, Bytes>;

    /// Returns the token that follows the broker's response. Returns `None` once the exchange is complete and
    /// the broker is verified.
    fn respond(&mut self, challenge: Bytes) -> BoxFuture<'_, Option<Bytes>>;

    /// Returns true if the last token completes the exchange. A broker that accepts raw tokens does not respond to this
    /// token.
    fn expects_no_response(&self) -> bool {
        false
    }
}

/// Connection that transports a SASL exchange. No other requests are sent on this connection during the login.
pub(crate) trait SaslIo: Sync {
    /// Returns the host and port of the broker.
    fn address(&self) -> &str;

    /// Sends a request and waits for the response, at most for the request timeout.
    fn exchange<R: Request + Sync>(
        &self,
        request: &R,
        version: i16,
    ) -> impl Future<Output = Result<R::Response>> + Send;

    /// Sends a raw token and waits for the broker's token. A broker that rejects the login disconnects instead of
    /// sending a token.
    fn exchange_raw(&self, token: &[u8]) -> impl Future<Output = Result<Bytes>> + Send;

    /// Sends a raw token without waiting for a response.
    fn send_raw(&self, token: &[u8]) -> Result<()>;
}
