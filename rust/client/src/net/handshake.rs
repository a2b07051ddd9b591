//! What a new connection is asked first: which versions the broker speaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse, Request, SaslHandshakeRequest};
use samsarrow_wire::releases::Release;

use super::Connection;
use super::connect::{Target, resolve};
use super::probe::probe;
use super::shared_config::Setup;
use crate::api_versions::ApiVersions;
use crate::config::{CommonOptions, Protocol};
use crate::error::{Error, Result};
use crate::security::redact::Veil;
use crate::security::sasl::Login;

/// What a broker speaks.
enum Found {
    /// It says so itself.
    Told(ApiVersions),
    /// It cannot say so, and speaks what this Kafka did.
    Old(Release),
}

/// A broker that has not said by then what it speaks may be one that never will.
const SILENCE: Duration = Duration::from_secs(1);

impl Connection {
    /// Connects to `address` and finds out what the broker speaks.
    ///
    /// # Errors
    /// [`Error::Connection`] if nobody can be reached there, [`Error::Protocol`] if anyone who answers is not Kafka.
    pub async fn open(address: &str, setup: &Arc<Setup>) -> Result<Connection> {
        Self::open_within(address, setup, setup.options.connection_setup_timeout, false).await
    }

    /// The same with another time for each of the addresses that the name has. All are tried until one answers as Kafka
    /// does: behind one of several addresses there may be somebody else. `wary`: a broker hung up on the first request.
    ///
    /// # Errors
    /// That of the last address, or of one where somebody answered who is not a broker. A login that is refused is
    /// refused at all of them.
    pub async fn open_within(address: &str, setup: &Arc<Setup>, limit: Duration, wary: bool) -> Result<Connection> {
        let mut last = Error::connection(address, "the host name has no address");
        for socket in resolve(address, limit).await? {
            match Self::agree(&Target { address, socket, setup, limit }, wary).await {
                Ok(connection) => return Ok(connection),
                Err(error @ Error::Authentication { .. }) => return Err(error),
                Err(error) if !matches!(last, Error::Protocol { .. } | Error::Tls { .. }) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }

    /// Connects to one address of a broker and finds out what it speaks.
    ///
    /// # Errors
    /// [`Error::Connection`] if nobody can be reached there, [`Error::Protocol`] if what answers is not Kafka.
    async fn agree(target: &Target<'_>, wary: bool) -> Result<Connection> {
        let (address, setup, options) = (target.address, target.setup, &target.setup.options);
        let known = options.assumed_release.or_else(|| setup.old_brokers.get(address));
        let mut connection = Self::connected(target).await?;
        let limit = options.request_timeout.min(options.connection_setup_timeout);
        let login = setup.security.login.as_ref();
        if let Some(login) = login {
            timeout(limit, connection.log_in(login, known)).await.unwrap_or_else(|_| {
                Err(Error::connection(address, format!("the login took longer than {} ms", limit.as_millis())))
            })?;
        }
        let found = match known {
            Some(release) => Found::Old(release),
            None => {
                timeout(limit, connection.handshake(target, limit, login.is_some())).await.unwrap_or_else(|_| {
                    let reason =
                        format!("no answer to ApiVersions within {} ms: is this a Kafka broker?", limit.as_millis());
                    Err(Error::connection(address, reason))
                })?
            }
        };
        connection.versions = match found {
            Found::Told(versions) => versions,
            Found::Old(release) => {
                if known.is_none() {
                    // It was closed, or waits for an answer for ever.
                    connection = Self::connected(target).await?;
                    setup.old_brokers.remember(address, release);
                    tracing::info!(
                        address,
                        kafka = %release,
                        "the broker does not answer ApiVersions: it is spoken to as this version of Kafka, unless option \
                         broker.version.fallback names another"
                    );
                }
                ApiVersions::of_release(address, release)
            }
        };
        if wary && login.is_none() {
            timeout(limit, connection.wants_login(setup)).await.unwrap_or(Ok(()))?;
        }
        connection.shared.waiting().answered = false;
        Ok(connection)
    }

    /// Brokers that want a login hang up on anyone who asks anything else before. One that wants one says of a mechanism
    /// without a name that it does not take it, and hangs up.
    async fn wants_login(&self, setup: &Setup) -> Result<()> {
        let Some((_, newest)) = self.versions().range(ApiKey::SaslHandshake) else { return Ok(()) };
        let answer = self.ask(&SaslHandshakeRequest::default(), newest.clamp(0, 1)).await?;
        if ErrorCode::from_i16(answer.error_code) != ErrorCode::UNSUPPORTED_SASL_MECHANISM {
            return Ok(());
        }
        // Other brokers than Apache Kafka's may list mechanisms where they ask for no login; they go on answering.
        if self.ask(&ApiVersionsRequest::default(), 0).await.is_ok() {
            return Ok(());
        }
        let (is, other) = match setup.options.security.protocol {
            Protocol::Ssl | Protocol::SaslSsl => ("SSL", "SASL_SSL"),
            Protocol::Plaintext | Protocol::SaslPlaintext => ("PLAINTEXT", "SASL_PLAINTEXT"),
        };
        let reason = format!(
            "the broker wants a login on this listener, and security.protocol={is} brings none: set \
             security.protocol={other} and sasl.mechanism to one of those that it takes ({})",
            Veil::default().show(&answer.mechanisms.join(", "))
        );
        let error = Error::authentication(self.address(), reason);
        setup.security.attempts.refuse(&error);
        Err(error)
    }

    /// Logs in before anything else, but for the question what the broker speaks: in version 0, since brokers that do
    /// not know another take it for a token (as Java's client asks).
    async fn log_in(&self, login: &Login, known: Option<Release>) -> Result<()> {
        let address = self.address();
        let versions = match known {
            Some(release) => ApiVersions::of_release(address, release),
            None => {
                let frame = self.request_frame(&ApiVersionsRequest::default(), 0)?.await.map_err(unanswered)?;
                let answer = frame::decode_answer::<ApiVersionsRequest>(0, frame);
                let (answer, _) = answer.map_err(|e| Error::protocol(address, format!("does not speak Kafka: {e}")))?;
                let code = ErrorCode::from_i16(answer.error_code);
                if !code.is_none() {
                    return Err(self.refused(0, code));
                }
                ApiVersions::from_response(address, &answer)
            }
        };
        let turn = self.setup.security.attempts.turn().await?;
        let outcome = login.authenticate(self, &versions, self.host(), None).await;
        let outcome = outcome.map_err(|error| match error {
            broken @ Error::Connection { .. } => broken.context("during the login"),
            other => other,
        });
        turn.ended(&outcome);
        self.shared.login.store(false, Ordering::Release);
        self.shared.waiting().gate.begin(outcome?);
        Ok(())
    }

    /// Asks what the broker speaks, and what is older than that question if there is no answer. `answers`: it has
    /// answered the question before.
    async fn handshake(&self, target: &Target<'_>, limit: Duration, answers: bool) -> Result<Found> {
        let options = &target.setup.options;
        let asked = self.ask_versions(options);
        if answers {
            return asked.await.map(Found::Told);
        }
        tokio::pin!(asked);
        let closed = tokio::select! {
            told = &mut asked => match told {
                Err(error @ Error::Connection { .. }) => Some(error),
                told => return told.map(Found::Told),
            },
            () = sleep(SILENCE.min(limit / 4)) => None,
        };
        let old = async { probe(target).await.map(|found| options.fallback_release.unwrap_or(found)) };
        match closed {
            Some(error) => old.await.map(Found::Old).ok_or_else(|| hung_up(error, options)),
            None => tokio::select! {
                told = &mut asked => told.map(Found::Told),
                Some(release) = old => Ok(Found::Old(release)),
            },
        }
    }

    /// ApiVersions in our highest version, or in the one that an option chose. A broker that lacks it says so in version
    /// 0 and names what it has instead, since Kafka 2.4 (KIP-511): that, or version 0, is asked for then.
    async fn ask_versions(&self, options: &CommonOptions) -> Result<ApiVersions> {
        let request = ApiVersionsRequest {
            client_software_name: "samsarrow".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        let chosen = options.api_versions.get(ApiKey::ApiVersions.name()).copied();
        let mut version = chosen.unwrap_or(ApiVersionsRequest::MAX_VERSION);
        loop {
            let frame = self.request_frame(&request, version)?.await?;
            let (_, response) = frame::decode_api_versions(version, frame)
                .map_err(|e| Error::protocol(self.address(), format!("does not speak Kafka: {e}")))?;
            let code = ErrorCode::from_i16(response.error_code);
            if code.is_none() {
                return Ok(ApiVersions::from_response(self.address(), &response));
            }
            version = match next_version(version, &response) {
                Some(next) if code == ErrorCode::UNSUPPORTED_VERSION && chosen.is_none() => next,
                _ => return Err(self.refused(version, code)),
            };
        }
    }

    fn refused(&self, version: i16, code: ErrorCode) -> Error {
        let reason = format!("the broker refuses ApiVersions v{version}: {code}");
        match code {
            _ if code.retriable() => Error::connection(self.address(), reason),
            ErrorCode::UNSUPPORTED_VERSION => Error::UnsupportedVersion(format!("{}: {reason}", self.address())),
            _ => Error::protocol(self.address(), reason),
        }
    }
}

/// A broker that hangs up at the first word may want TLS, or be one of Kafka 0.9, which cannot be asked.
fn unanswered(error: Error) -> Error {
    match error {
        Error::Connection { address, reason } => {
            let hint = "before it was asked for a login: does security.protocol fit this listener?";
            Error::Connection { address, reason: format!("{reason} {hint}") }
        }
        other => other,
    }
}

/// Brokers with TLS that do not say what they want hang up.
fn hung_up(error: Error, options: &CommonOptions) -> Error {
    match error {
        Error::Connection { address, reason } if options.security.tls.is_none() => Error::connection(
            address,
            format!("{reason}: where TLS is spoken, set security.protocol=SSL, or SASL_SSL with a login"),
        ),
        other => other,
    }
}

/// The version to ask for after `refused`: always a lower one, so that asking comes to an end whatever a broker says.
fn next_version(refused: i16, response: &ApiVersionsResponse) -> Option<i16> {
    let told = response.api_keys.iter().find(|told| told.api_key == ApiKey::ApiVersions.code());
    let told = told.map(|told| told.max_version).filter(|told| (0..refused).contains(told));
    told.or((refused > 0).then_some(0))
}

#[cfg(test)]
mod tests {
    use samsarrow_wire::messages::api_versions::ApiVersion;

    use super::*;

    fn answer(max_version: Option<i16>) -> ApiVersionsResponse {
        let told = |max_version| ApiVersion { api_key: 18, max_version, ..Default::default() };
        let other = ApiVersion { api_key: 17, max_version: 1, ..Default::default() };
        let api_keys = [other].into_iter().chain(max_version.map(told)).collect();
        ApiVersionsResponse { error_code: 35, api_keys, ..Default::default() }
    }

    #[test]
    fn the_next_version_is_the_one_told_or_0_and_always_lower() {
        assert_eq!(next_version(4, &answer(Some(3))), Some(3));
        assert_eq!(next_version(4, &answer(None)), Some(0));
        for wrong in [4, 5, i16::MAX, -1, i16::MIN] {
            assert_eq!(next_version(4, &answer(Some(wrong))), Some(0), "{wrong}");
        }
        assert_eq!(next_version(0, &answer(None)), None);
        assert_eq!(next_version(0, &answer(Some(0))), None);
    }
}
