//! First requests on a new connection: ApiVersions and, where required, the login.

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
use super::shared_config::{Destination, Setup};
use crate::api_versions::ApiVersions;
use crate::config::{CommonOptions, Protocol};
use crate::error::{Error, Result};
use crate::log::SECURITY;
use crate::security::redact::Redactor;
use crate::security::sasl::Login;

/// API versions of a broker.
enum BrokerVersions {
    /// Versions that the broker reported in its ApiVersions response.
    Advertised(ApiVersions),
    /// Versions of this Kafka release, assumed because the broker does not support ApiVersions.
    Assumed(Release),
}

/// Time to wait for the ApiVersions response before the broker is probed, because it may be too old to respond.
const PROBE_DELAY: Duration = Duration::from_secs(1);

/// First version of ApiVersions with the destination of the connection (KIP-1242).
const FIRST_WITH_DESTINATION: i16 = 5;

impl Connection {
    /// Connects to `address` and negotiates API versions.
    ///
    /// # Errors
    /// Fails with [`Error::Connection`] if no broker is reachable, and with [`Error::Protocol`] if a server responds
    /// that is not a Kafka broker.
    pub async fn open(address: &str, setup: &Arc<Setup>) -> Result<Connection> {
        Self::open_within(address, setup, setup.options.connection_setup_timeout, false, None).await
    }

    /// Like [`Connection::open`], but with a time limit for each address of the host name. Tries the addresses until
    /// one responds like a Kafka broker, because some of them may belong to other servers. `check_login` is set if the
    /// broker closed an earlier connection after the first request. In this case, the new connection checks whether the
    /// broker requires a login. With a `destination`, brokers since Kafka 4.4 check that the connection has reached it
    /// (KIP-1242).
    ///
    /// # Errors
    /// Fails with REBOOTSTRAP_REQUIRED if the connection has reached another broker. Otherwise fails with the error of
    /// the last address, but with a TLS or protocol error of an earlier address if there was one. An authentication error ends the attempts, because the other addresses would reject the login too.
    pub(crate) async fn open_within(
        address: &str,
        setup: &Arc<Setup>,
        limit: Duration,
        check_login: bool,
        destination: Option<&Destination>,
    ) -> Result<Connection> {
        let mut last = Error::connection(address, "the host name has no address");
        for socket in resolve(address, limit).await? {
            match Self::negotiate(&Target { address, socket, setup, limit, destination }, check_login).await {
                Ok(connection) => return Ok(connection),
                Err(error @ Error::Authentication { .. }) => return Err(error),
                Err(error) if !matches!(last, Error::Protocol { .. } | Error::Tls { .. }) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }

    /// Connects to one address of a broker and negotiates API versions.
    ///
    /// # Errors
    /// Fails with [`Error::Connection`] if the broker is not reachable, and with [`Error::Protocol`] if a server
    /// responds that is not a Kafka broker.
    async fn negotiate(target: &Target<'_>, check_login: bool) -> Result<Connection> {
        let (address, setup, options) = (target.address, target.setup, &target.setup.options);
        let known = options.assumed_release.or_else(|| setup.old_brokers.get(address));
        let mut connection = Self::connect(target).await?;
        let limit = options.request_timeout.min(options.connection_setup_timeout);
        let login = setup.security.login.as_ref();
        if let Some(login) = login {
            timeout(limit, connection.log_in(login, known)).await.unwrap_or_else(|_| {
                Err(Error::connection(address, format!("the login took longer than {} ms", limit.as_millis())))
            })?;
        }
        let versions = match known {
            Some(release) => BrokerVersions::Assumed(release),
            None => {
                timeout(limit, connection.handshake(target, limit, login.is_some())).await.unwrap_or_else(|_| {
                    let reason =
                        format!("no response to ApiVersions within {} ms: is this a Kafka broker?", limit.as_millis());
                    Err(Error::connection(address, reason))
                })?
            }
        };
        connection.versions = match versions {
            BrokerVersions::Advertised(versions) => {
                setup.old_brokers.remember_newer();
                if versions.range(ApiKey::ApiVersions).is_some_and(|(_, newest)| newest >= FIRST_WITH_DESTINATION) {
                    setup.brokers_check_destination.store(true, Ordering::Relaxed);
                }
                versions
            }
            BrokerVersions::Assumed(release) => {
                if known.is_none() {
                    // The broker has closed the first connection or will never respond on it, so a new one is opened.
                    connection = Self::connect(target).await?;
                    setup.old_brokers.remember(address, release);
                    tracing::info!(
                        client_id = options.client_id,
                        "the broker at {address} does not support ApiVersions: assuming Kafka {release}; to change \
                         this, set option broker.version.fallback"
                    );
                }
                ApiVersions::of_release(address, release)
            }
        };
        if check_login && login.is_none() {
            timeout(limit, connection.check_login_required(setup)).await.unwrap_or(Ok(()))?;
        }
        connection.shared.in_flight().used = false;
        Ok(connection)
    }

    /// Returns an authentication error if the broker requires a login but the client has none configured. A listener
    /// that requires a login responds to SaslHandshake with an empty mechanism with UNSUPPORTED_SASL_MECHANISM and
    /// closes the connection. After any other request, it closes the connection without a response.
    async fn check_login_required(&self, setup: &Setup) -> Result<()> {
        let Some((_, newest)) = self.versions().range(ApiKey::SaslHandshake) else { return Ok(()) };
        // The caller limits the time of this check.
        self.wait_for_throttle().await;
        let response = self.exchange(&SaslHandshakeRequest::default(), newest.clamp(0, 1)).await?;
        if ErrorCode::from_i16(response.error_code) != ErrorCode::UNSUPPORTED_SASL_MECHANISM {
            return Ok(());
        }
        // Brokers other than Apache Kafka may report mechanisms although they require no login, but they keep the
        // connection open.
        if self.exchange(&ApiVersionsRequest::default(), 0).await.is_ok() {
            return Ok(());
        }
        let (configured, required) = match setup.options.security.protocol {
            Protocol::Ssl | Protocol::SaslSsl => ("SSL", "SASL_SSL"),
            Protocol::Plaintext | Protocol::SaslPlaintext => ("PLAINTEXT", "SASL_PLAINTEXT"),
        };
        let reason = format!(
            "the broker requires a login on this listener, and security.protocol={configured} has none: set \
             security.protocol={required} and sasl.mechanism to one that it accepts ({})",
            Redactor::default().redact(&response.mechanisms.join(", "))
        );
        let error = Error::authentication(self.address(), reason);
        setup.security.login_backoff.record_failure(&error);
        Err(error)
    }

    /// Logs in. Before the login, the client sends only ApiVersions in version 0, like Java's client, because a broker
    /// that does not know a newer version would interpret the request as a SASL token.
    async fn log_in(&self, login: &Login, known: Option<Release>) -> Result<()> {
        let address = self.address();
        let versions = match known {
            Some(release) => ApiVersions::of_release(address, release),
            None => {
                let frame =
                    self.request_frame(&ApiVersionsRequest::default(), 0)?.await.map_err(hint_security_protocol)?;
                let response = frame::decode_answer::<ApiVersionsRequest>(0, frame);
                let (response, _) =
                    response.map_err(|e| Error::protocol(address, format!("does not speak Kafka: {e}")))?;
                let code = ErrorCode::from_i16(response.error_code);
                if !code.is_none() {
                    return Err(self.api_versions_error(0, code));
                }
                ApiVersions::from_response(address, &response)
            }
        };
        let attempt = self.setup.security.login_backoff.acquire().await?;
        let outcome = login.authenticate(self, &versions, self.host(), None).await;
        let outcome = outcome.map_err(|error| match error {
            broken @ Error::Connection { .. } => broken.context("during the login"),
            other => other,
        });
        attempt.finish(&outcome);
        if let Ok(session) = &outcome {
            tracing::debug!(
                target: SECURITY,
                client_id = self.client_id(),
                session = ?session.lifetime,
                "logged in to {address} with {}",
                login.mechanism_name()
            );
        }
        self.shared.logging_in.store(false, Ordering::Release);
        self.shared.in_flight().reauth.session_started(outcome?);
        Ok(())
    }

    /// Requests ApiVersions, and probes for an old Kafka release if no response arrives. `answered_before` is set if
    /// this broker has already responded to ApiVersions, so no probe is necessary.
    async fn handshake(&self, target: &Target<'_>, limit: Duration, answered_before: bool) -> Result<BrokerVersions> {
        let options = &target.setup.options;
        let request = self.negotiate_versions(target);
        if answered_before {
            return request.await.map(BrokerVersions::Advertised);
        }
        tokio::pin!(request);
        let disconnect = tokio::select! {
            result = &mut request => match result {
                Err(error @ Error::Connection { .. }) => Some(error),
                result => return result.map(BrokerVersions::Advertised),
            },
            () = sleep(PROBE_DELAY.min(limit / 4)) => None,
        };
        let probed = async { probe(target).await.map(|versions| options.fallback_release.unwrap_or(versions)) };
        match disconnect {
            Some(error) => probed.await.map(BrokerVersions::Assumed).ok_or_else(|| hint_tls(error, options)),
            None => tokio::select! {
                result = &mut request => result.map(BrokerVersions::Advertised),
                Some(release) = probed => Ok(BrokerVersions::Assumed(release)),
            },
        }
    }

    /// Sends ApiVersions in the client's highest version, or in the version set by an option. A broker that does not
    /// support this version responds in version 0 and, since Kafka 2.4 (KIP-511), reports its own maximum. The request
    /// is then repeated in the reported version, or in version 0 if there is none.
    ///
    /// The version with the destination is used only if a destination is known and a broker of the cluster has reported
    /// this version, because older brokers would need a second request.
    async fn negotiate_versions(&self, target: &Target<'_>) -> Result<ApiVersions> {
        let setup = target.setup;
        let destination = target.destination.filter(|_| setup.brokers_check_destination.load(Ordering::Relaxed));
        let request = ApiVersionsRequest {
            client_software_name: "samsarrow".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            cluster_id: destination.map(|destination| destination.cluster.to_string()),
            node_id: destination.map_or(-1, |destination| destination.node),
            ..Default::default()
        };
        let chosen = setup.options.api_versions.get(ApiKey::ApiVersions.name()).copied();
        let newest = if destination.is_some() { ApiVersionsRequest::MAX_VERSION } else { FIRST_WITH_DESTINATION - 1 };
        let mut version = chosen.unwrap_or(newest);
        loop {
            let frame = self.request_frame(&request, version)?.await?;
            let (_, response) = frame::decode_api_versions(version, frame)
                .map_err(|e| Error::protocol(self.address(), format!("does not speak Kafka: {e}")))?;
            let code = ErrorCode::from_i16(response.error_code);
            if code.is_none() {
                let versions = ApiVersions::from_response(self.address(), &response);
                self.shared.mutes_after_response.store(versions.mutes_after_response(), Ordering::Relaxed);
                self.shared.throttle(ApiKey::ApiVersions.name(), response.throttle_time_ms);
                return Ok(versions);
            }
            version = match next_version(version, &response) {
                Some(next) if code == ErrorCode::UNSUPPORTED_VERSION && chosen.is_none() => next,
                _ => return Err(self.api_versions_error(version, code)),
            };
        }
    }

    fn api_versions_error(&self, version: i16, code: ErrorCode) -> Error {
        let reason = format!("the broker rejects ApiVersions v{version}: {code}");
        match code {
            _ if code.retriable() => Error::connection(self.address(), reason),
            ErrorCode::UNSUPPORTED_VERSION => Error::UnsupportedVersion(format!("{}: {reason}", self.address())),
            ErrorCode::REBOOTSTRAP_REQUIRED => Error::server(code, format!("ApiVersions at {}", self.address())),
            _ => Error::protocol(self.address(), reason),
        }
    }
}

/// Adds a hint to the error if the broker disconnects before the login. The listener may require TLS, or the broker may
/// be Kafka 0.9, which does not support ApiVersions.
fn hint_security_protocol(error: Error) -> Error {
    match error {
        Error::Connection { address, reason } => {
            let hint = "before it was asked for a login: does security.protocol fit this listener?";
            Error::Connection { address, reason: format!("{reason} {hint}") }
        }
        other => other,
    }
}

/// Adds a hint about TLS to the error, because a listener that expects TLS may disconnect without an alert.
fn hint_tls(error: Error, options: &CommonOptions) -> Error {
    match error {
        Error::Connection { address, reason } if options.security.tls.is_none() => Error::connection(
            address,
            format!("{reason}: if the listener uses TLS, set security.protocol=SSL, or SASL_SSL with a login"),
        ),
        other => other,
    }
}

/// Returns the version to try after `rejected`. It is always lower, so that the negotiation ends regardless of the
/// broker's responses.
fn next_version(rejected: i16, response: &ApiVersionsResponse) -> Option<i16> {
    let max_version = response.api_keys.iter().find(|entry| entry.api_key == ApiKey::ApiVersions.code());
    let max_version = max_version.map(|entry| entry.max_version).filter(|max| (0..rejected).contains(max));
    max_version.or((rejected > 0).then_some(0))
}

#[cfg(test)]
mod tests {
    use samsarrow_wire::messages::api_versions::ApiVersion;

    use super::*;

    fn response(max_version: Option<i16>) -> ApiVersionsResponse {
        let api_versions = |max_version| ApiVersion { api_key: 18, max_version, ..Default::default() };
        let other = ApiVersion { api_key: 17, max_version: 1, ..Default::default() };
        let api_keys = [other].into_iter().chain(max_version.map(api_versions)).collect();
        ApiVersionsResponse { error_code: 35, api_keys, ..Default::default() }
    }

    #[test]
    fn next_version_is_always_lower() {
        assert_eq!(next_version(4, &response(Some(3))), Some(3));
        assert_eq!(next_version(4, &response(None)), Some(0));
        for wrong in [4, 5, i16::MAX, -1, i16::MIN] {
            assert_eq!(next_version(4, &response(Some(wrong))), Some(0), "{wrong}");
        }
        assert_eq!(next_version(0, &response(None)), None);
        assert_eq!(next_version(0, &response(Some(0))), None);
    }
}
