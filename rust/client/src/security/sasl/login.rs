//! The login of one client at all its brokers.

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
use super::{Carrier, Exchange, Mechanism as Conversation, java_callback_handlers};
use crate::api_versions::ApiVersions;
use crate::config::{Mechanism, Protocol, SaslOptions, SecurityOptions};
use crate::error::{Error, Result};
use crate::security::redact::Veil;

/// The most that a mechanism asks for and answers: more rounds than this are no login.
const ROUNDS: usize = 8;

/// What a client logs in with.
#[derive(Debug)]
pub(crate) struct Login {
    mechanism: Box<dyn Conversation>,
    protocol: Protocol,
    /// What an error may name: the user, and the options that a login depends on.
    user: Option<String>,
    veil: Veil,
}

/// What a broker grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    /// When it began, at the latest.
    pub(crate) since: Instant,
    /// After which it closes the connection unless the client logs in again (KIP-368).
    pub(crate) lifetime: Option<Duration>,
}

/// A conversation that may begin.
pub(crate) struct Prepared {
    exchange: Box<dyn Exchange>,
    token: Bytes,
}

/// How a mechanism's tokens travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In SaslAuthenticate of this version (KIP-152).
    Requests(i16),
    /// As they are, which is all that Kafka before 1.0 knows.
    Raw,
    /// The same without asking for the mechanism first: Kafka 0.9, which has GSSAPI only.
    Bare,
}

impl Login {
    /// With the credentials that `sasl` names.
    ///
    /// # Errors
    /// Credentials are missing, or contradict each other.
    pub(crate) fn new(sasl: &SaslOptions, security: &SecurityOptions) -> Result<Self> {
        java_callback_handlers::check(sasl)?;
        let mechanism: Box<dyn Conversation> = match sasl.mechanism {
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
        Ok(Self { mechanism, protocol: security.protocol, user, veil: Veil::new(sasl) })
    }

    /// Gets what a conversation with the broker at `host` begins with.
    ///
    /// # Errors
    /// There are no credentials to be had.
    pub(crate) async fn prepare(&self, host: &str) -> Result<Prepared> {
        let mut exchange = self.mechanism.begin(host).await?;
        let token = exchange.initial().await?;
        Ok(Prepared { exchange, token })
    }

    /// Logs in on a connection that nothing but its versions was asked on, or whose session runs out.
    ///
    /// # Errors
    /// [`Error::Authentication`] where the broker refuses, or is not who it should be; [`Error::Connection`] where
    /// another attempt may succeed.
    pub(crate) async fn authenticate(
        &self,
        carrier: &impl Carrier,
        versions: &ApiVersions,
        host: &str,
        prepared: Option<Prepared>,
    ) -> Result<Session> {
        let way = self.way(carrier, versions)?;
        match way {
            Way::Requests(_) => self.handshake(carrier, 1).await?,
            Way::Raw => self.handshake(carrier, 0).await?,
            Way::Bare => {}
        }
        let conversation = async {
            let prepared = match prepared {
                Some(prepared) => prepared,
                None => self.prepare(host).await?,
            };
            self.converse(carrier, prepared, way).await
        };
        conversation.await.map_err(|error| match error {
            Error::Authentication { address, reason, .. } if address.is_empty() => {
                Error::authentication(carrier.address(), reason)
            }
            Error::Connection { address, reason } if address.is_empty() => Error::connection(carrier.address(), reason),
            other => other,
        })
    }

    fn way(&self, carrier: &impl Carrier, versions: &ApiVersions) -> Result<Way> {
        let newest = |key: ApiKey| versions.range(key).map(|(_, newest)| newest);
        match (newest(ApiKey::SaslHandshake), versions.range(ApiKey::SaslAuthenticate)) {
            (Some(1..), Some((oldest, newest))) => {
                let version = newest.min(SaslAuthenticateRequest::MAX_VERSION);
                if version < oldest || version < 0 {
                    return Err(Error::UnsupportedVersion(format!(
                        "no version of SaslAuthenticate in common: the broker at {} speaks v{oldest} to v{newest}",
                        carrier.address()
                    )));
                }
                Ok(Way::Requests(version))
            }
            (Some(_), _) => Ok(Way::Raw),
            (None, _) if versions.is_assumed() && self.mechanism.name() == Mechanism::Gssapi.name() => Ok(Way::Bare),
            (None, _) => Err(self.unwanted(carrier, "the broker knows of no logins")),
        }
    }

    /// Agrees on the mechanism: never another than the configured one.
    async fn handshake(&self, carrier: &impl Carrier, version: i16) -> Result<()> {
        let mechanism = self.mechanism.name();
        let request = SaslHandshakeRequest { mechanism: mechanism.to_owned(), ..Default::default() };
        let answer = carrier.ask(&request, version).await?;
        let reason = match ErrorCode::from_i16(answer.error_code) {
            code if code.is_none() => return Ok(()),
            ErrorCode::UNSUPPORTED_SASL_MECHANISM => {
                let known: Vec<_> = answer.mechanisms.iter().map(|name| self.veil.show(name)).collect();
                let known = match self.veil.show(&known.join(", ")) {
                    none if none.is_empty() => "none".into(),
                    known => known,
                };
                format!(
                    "the broker does not take sasl.mechanism={mechanism} on this listener, it takes {known}: set \
                     sasl.mechanism to one of those, or use the address of another listener"
                )
            }
            ErrorCode::ILLEGAL_SASL_STATE => return Err(self.unwanted(carrier, "the broker wants no login")),
            code if code.retriable() => {
                return Err(Error::connection(carrier.address(), format!("the broker cannot log us in now: {code}")));
            }
            code => format!("the broker refuses a login with {mechanism}: {code}"),
        };
        Err(Error::authentication(carrier.address(), reason))
    }

    fn unwanted(&self, carrier: &impl Carrier, what: &str) -> Error {
        let (is, other) = match self.protocol {
            Protocol::SaslSsl | Protocol::Ssl => ("SASL_SSL", "SSL"),
            Protocol::SaslPlaintext | Protocol::Plaintext => ("SASL_PLAINTEXT", "PLAINTEXT"),
        };
        let reason = format!(
            "{what} on this listener, but security.protocol={is} asks for one: set security.protocol={other}, or use the \
             address of a listener with SASL"
        );
        Error::authentication(carrier.address(), reason)
    }

    async fn converse(&self, carrier: &impl Carrier, prepared: Prepared, way: Way) -> Result<Session> {
        let Prepared { mut exchange, mut token } = prepared;
        for _ in 0..=ROUNDS {
            let since = Instant::now();
            if matches!(way, Way::Raw | Way::Bare) && exchange.spoken() {
                carrier.tell_raw(&token)?;
                return Ok(Session { since, lifetime: None });
            }
            let (answer, lifetime) = match way {
                Way::Requests(version) => self.ask(carrier, token, version).await?,
                Way::Raw | Way::Bare => (self.ask_raw(carrier, &token).await?, None),
            };
            match exchange.answer(answer).await? {
                Some(next) => token = next,
                None => return Ok(Session { since, lifetime }),
            }
        }
        Err(Error::authentication("", format!("the login comes to no end: the broker asked {ROUNDS} times for more")))
    }

    async fn ask(&self, carrier: &impl Carrier, token: Bytes, version: i16) -> Result<(Bytes, Option<Duration>)> {
        let request = SaslAuthenticateRequest { auth_bytes: token, ..Default::default() };
        let answer = carrier.ask(&request, version).await?;
        let code = ErrorCode::from_i16(answer.error_code);
        if code.is_none() {
            let lifetime = u64::try_from(answer.session_lifetime_ms).ok().filter(|ms| *ms > 0);
            return Ok((answer.auth_bytes, lifetime.map(Duration::from_millis)));
        }
        let said = answer.error_message.filter(|text| !text.trim().is_empty());
        let said = said.map_or_else(|| code.to_string(), |text| self.veil.show(&text));
        if code.retriable() {
            return Err(Error::connection(carrier.address(), format!("the broker cannot log us in now: {said}")));
        }
        Err(Error::authentication("", format!("the login{} failed: {said}", self.with())))
    }

    /// A broker that answers nothing to a token has refused it, as far as anybody can know.
    async fn ask_raw(&self, carrier: &impl Carrier, token: &[u8]) -> Result<Bytes> {
        carrier.ask_raw(token).await.map_err(|error| match error {
            Error::Connection { reason, .. } => Error::authentication(
                "",
                format!("the login{} failed: {reason}, which is how Kafka before 1.0 refuses credentials", self.with()),
            ),
            other => other,
        })
    }

    /// As what, for texts.
    fn with(&self) -> String {
        let mechanism = self.mechanism.name();
        self.user.as_ref().map_or_else(
            || format!(" with {mechanism}"),
            |user| format!(" of sasl.username={} with {mechanism}", self.veil.show(user)),
        )
    }
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
