//! The login that a client performs at all its brokers.

use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, Request, SaslAuthenticateRequest, SaslHandshakeRequest};
use tokio::time::Instant;

use super::gssapi::Gssapi;
use super::iam::Iam;
use super::oauth::OAuthBearer;
use super::plain::Plain;
use super::scram::{Hash, Scram};
use super::{Exchange, Mechanism as SaslMechanism, SaslIo, java_callback_handlers};
use crate::api_versions::ApiVersions;
use crate::config::{Mechanism, Protocol, SaslOptions, SecurityOptions};
use crate::error::{Error, Result};
use crate::security::redact::Redactor;

/// Maximum number of challenges that a broker may send. A broker that sends more is faulty.
const MAX_ROUNDS: usize = 8;

/// A SASL mechanism with the client's credentials, and the user name and the redactor for error texts.
#[derive(Debug)]
pub(crate) struct Login {
    mechanism: Box<dyn SaslMechanism>,
    protocol: Protocol,
    /// User name for error texts; `None` if the mechanism has no user name.
    user: Option<String>,
    redactor: Redactor,
}

/// An authenticated session that a broker granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    /// Time before the last token was sent, which counts as the start of the session.
    pub(crate) since: Instant,
    /// Time after which the broker closes the connection unless the client logs in again (KIP-368).
    pub(crate) lifetime: Option<Duration>,
}

/// An exchange, and the first token to send.
pub(crate) struct Prepared {
    exchange: Box<dyn Exchange>,
    token: Bytes,
}

/// Form in which the tokens of a mechanism are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenTransport {
    /// Tokens in SaslAuthenticate requests of this version (KIP-152).
    Requests(i16),
    /// Raw tokens after SaslHandshake v0. Kafka before 1.0 supports no other form.
    Raw,
    /// Raw tokens without SaslHandshake, for Kafka 0.9, which supports only GSSAPI.
    RawWithoutHandshake,
}

impl Login {
    /// Creates the login with the mechanism and credentials of `sasl`.
    ///
    /// # Errors
    /// Fails if credentials are missing or contradict each other.
    pub(crate) fn new(sasl: &SaslOptions, security: &SecurityOptions) -> Result<Self> {
        java_callback_handlers::check(sasl)?;
        let mechanism: Box<dyn SaslMechanism> = match sasl.mechanism {
            Mechanism::Gssapi => Box::new(Gssapi::new(sasl)?),
            Mechanism::Plain => Box::new(Plain::new(sasl)?),
            Mechanism::ScramSha256 => Box::new(Scram::new(Hash::Sha256, sasl)?),
            Mechanism::ScramSha512 => Box::new(Scram::new(Hash::Sha512, sasl)?),
            Mechanism::OAuthBearer => Box::new(OAuthBearer::new(sasl)?),
            Mechanism::AwsMskIam => Box::new(Iam::new(sasl, security)?),
        };
        if sasl.mechanism == Mechanism::Plain && security.protocol == Protocol::SaslPlaintext {
            tracing::warn!(
                "security.protocol=SASL_PLAINTEXT with sasl.mechanism=PLAIN sends the password in the clear: anyone who sees \
                 the network can read it. Use SASL_SSL"
            );
        }
        let named = matches!(sasl.mechanism, Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512);
        let user = sasl.username.clone().filter(|_| named);
        Ok(Self { mechanism, protocol: security.protocol, user, redactor: Redactor::new(sasl) })
    }

    /// Returns the name of the SASL mechanism.
    pub(crate) fn mechanism_name(&self) -> &'static str {
        self.mechanism.name()
    }

    /// Obtains the first token of an exchange with the broker at `host`.
    ///
    /// # Errors
    /// Fails if no credentials are available.
    pub(crate) async fn prepare(&self, host: &str) -> Result<Prepared> {
        let mut exchange = self.mechanism.begin(host).await?;
        let token = exchange.initial().await?;
        Ok(Prepared { exchange, token })
    }

    /// Logs in on a new connection, or on a connection whose session is about to end.
    ///
    /// # Errors
    /// Fails with [`Error::Authentication`] if the broker rejects the login or cannot be verified, and with
    /// [`Error::Connection`] if another attempt may succeed.
    pub(crate) async fn authenticate(
        &self,
        io: &impl SaslIo,
        versions: &ApiVersions,
        host: &str,
        prepared: Option<Prepared>,
    ) -> Result<Session> {
        let transport = self.transport(io, versions)?;
        match transport {
            TokenTransport::Requests(_) => self.handshake(io, 1).await?,
            TokenTransport::Raw => self.handshake(io, 0).await?,
            TokenTransport::RawWithoutHandshake => {}
        }
        let conversation = async {
            let prepared = match prepared {
                Some(prepared) => prepared,
                None => self.prepare(host).await?,
            };
            self.run_exchange(io, prepared, transport).await
        };
        conversation.await.map_err(|error| match error {
            Error::Authentication { address, reason, .. } if address.is_empty() => {
                Error::authentication(io.address(), reason)
            }
            Error::Connection { address, reason } if address.is_empty() => Error::connection(io.address(), reason),
            other => other,
        })
    }

    fn transport(&self, io: &impl SaslIo, versions: &ApiVersions) -> Result<TokenTransport> {
        let max = |key: ApiKey| versions.range(key).map(|(_, max)| max);
        match (max(ApiKey::SaslHandshake), versions.range(ApiKey::SaslAuthenticate)) {
            (Some(1..), Some((oldest, max))) => {
                let version = max.min(SaslAuthenticateRequest::MAX_VERSION);
                if version < oldest || version < 0 {
                    return Err(Error::UnsupportedVersion(format!(
                        "no version of SaslAuthenticate in common: the broker at {} supports v{oldest} to v{max}",
                        io.address()
                    )));
                }
                Ok(TokenTransport::Requests(version))
            }
            (Some(_), _) => Ok(TokenTransport::Raw),
            (None, _) if versions.is_assumed() && self.mechanism.name() == Mechanism::Gssapi.name() => {
                Ok(TokenTransport::RawWithoutHandshake)
            }
            (None, _) => Err(self.unexpected_login(io, "the broker does not support logins")),
        }
    }

    /// Sends SaslHandshake with the configured mechanism. No other mechanism is ever tried.
    async fn handshake(&self, io: &impl SaslIo, version: i16) -> Result<()> {
        let mechanism = self.mechanism.name();
        let request = SaslHandshakeRequest { mechanism: mechanism.to_owned(), ..Default::default() };
        let response = io.exchange(&request, version).await?;
        let reason = match ErrorCode::from_i16(response.error_code) {
            code if code.is_none() => return Ok(()),
            ErrorCode::UNSUPPORTED_SASL_MECHANISM => {
                let accepted: Vec<_> = response.mechanisms.iter().map(|name| self.redactor.redact(name)).collect();
                let accepted = match self.redactor.redact(&accepted.join(", ")) {
                    none if none.is_empty() => "none".into(),
                    accepted => accepted,
                };
                format!(
                    "the broker does not accept sasl.mechanism={mechanism} on this listener, it accepts {accepted}: set \
                     sasl.mechanism to one of those, or use the address of another listener"
                )
            }
            ErrorCode::ILLEGAL_SASL_STATE => {
                return Err(self.unexpected_login(io, "the broker does not accept a login"));
            }
            code if code.retriable() => {
                return Err(Error::connection(io.address(), format!("the broker cannot complete a login now: {code}")));
            }
            code => format!("the broker rejects a login with {mechanism}: {code}"),
        };
        Err(Error::authentication(io.address(), reason))
    }

    fn unexpected_login(&self, io: &impl SaslIo, problem: &str) -> Error {
        let (configured, required) = match self.protocol {
            Protocol::SaslSsl | Protocol::Ssl => ("SASL_SSL", "SSL"),
            Protocol::SaslPlaintext | Protocol::Plaintext => ("SASL_PLAINTEXT", "PLAINTEXT"),
        };
        let reason = format!(
            "{problem} on this listener, but security.protocol={configured} requires one: set security.protocol={required}, or use the \
             address of a listener with SASL"
        );
        Error::authentication(io.address(), reason)
    }

    async fn run_exchange(&self, io: &impl SaslIo, prepared: Prepared, transport: TokenTransport) -> Result<Session> {
        let Prepared { mut exchange, mut token } = prepared;
        for _ in 0..=MAX_ROUNDS {
            let since = Instant::now();
            if matches!(transport, TokenTransport::Raw | TokenTransport::RawWithoutHandshake)
                && exchange.expects_no_response()
            {
                io.send_raw(&token)?;
                return Ok(Session { since, lifetime: None });
            }
            let (challenge, lifetime) = match transport {
                TokenTransport::Requests(version) => self.send_token(io, token, version).await?,
                TokenTransport::Raw | TokenTransport::RawWithoutHandshake => {
                    (self.exchange_raw(io, &token).await?, None)
                }
            };
            match exchange.respond(challenge).await? {
                Some(next) => token = next,
                None => return Ok(Session { since, lifetime }),
            }
        }
        Err(Error::authentication(
            "",
            format!("the login does not end: the broker sent more than {MAX_ROUNDS} challenges"),
        ))
    }

    async fn send_token(&self, io: &impl SaslIo, token: Bytes, version: i16) -> Result<(Bytes, Option<Duration>)> {
        let request = SaslAuthenticateRequest { auth_bytes: token, ..Default::default() };
        let response = io.exchange(&request, version).await?;
        let code = ErrorCode::from_i16(response.error_code);
        if code.is_none() {
            let lifetime = u64::try_from(response.session_lifetime_ms).ok().filter(|ms| *ms > 0);
            return Ok((response.auth_bytes, lifetime.map(Duration::from_millis)));
        }
        let message = response.error_message.filter(|text| !text.trim().is_empty());
        let message = message.map_or_else(|| code.to_string(), |text| self.redactor.redact(&text));
        if code.retriable() {
            return Err(Error::connection(io.address(), format!("the broker cannot complete a login now: {message}")));
        }
        Err(Error::authentication("", format!("the login{} failed: {message}", self.description())))
    }

    /// Sends a raw token and returns the broker's token. A disconnect is reported as a rejected login, because Kafka
    /// before 1.0 rejects logins only by closing the connection.
    async fn exchange_raw(&self, io: &impl SaslIo, token: &[u8]) -> Result<Bytes> {
        io.exchange_raw(token).await.map_err(|error| match error {
            Error::Connection { reason, .. } => Error::authentication(
                "",
                format!(
                    "the login{} failed: {reason}, which is how Kafka before 1.0 rejects credentials",
                    self.description()
                ),
            ),
            other => other,
        })
    }

    /// Returns the user and mechanism for error texts.
    fn description(&self) -> String {
        let mechanism = self.mechanism.name();
        self.user.as_ref().map_or_else(
            || format!(" with {mechanism}"),
            |user| format!(" of sasl.username={} with {mechanism}", self.redactor.redact(user)),
        )
    }
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
