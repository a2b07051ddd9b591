//! Authentication state of one connection: checks the order of requests as Kafka does, and the expiry of sessions
//! (KIP-368).

use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;
use tokio::time::Instant;

use super::Security;
use super::counts::add;
use super::options::{Mechanism, SecurityOptions};
use super::sasl_exchange::{Rejection, SaslExchange, Step};
use super::sasl_response::LoginAnswer;
use crate::clock::now_ms;

/// Maximum frame size in bytes before authentication, Kafka's `sasl.server.max.receive.size`.
const UNAUTHENTICATED_MAX_BYTES: usize = 512 << 10;
/// Minimum interval between re-authentications.
const MIN_REAUTH_INTERVAL: Duration = Duration::from_secs(1);

enum Phase {
    /// ApiVersions or SaslHandshake is expected.
    Fresh,
    /// SaslHandshake is expected.
    Versions,
    /// Tokens are expected, either in SaslAuthenticate requests or unframed.
    Tokens { mechanism: Mechanism, exchange: SaslExchange, framed: bool },
    /// The client is authenticated, or the listener requires no authentication. Any request is accepted.
    Ready,
    /// An authenticated client has begun a re-authentication; its SaslHandshake is being handled.
    Reauthenticating,
    /// The connection closes after the current response.
    Closing,
}

/// Authenticated client.
struct Principal {
    mechanism: Mechanism,
    name: String,
}

/// Result of [`Session::admit`]: acceptance or rejection of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The request is handled.
    Granted,
    /// The request is rejected with ILLEGAL_SASL_STATE, and the connection closes.
    Illegal,
    /// The connection closes without a response.
    Close(&'static str),
}

/// Authentication state of a connection.
pub(crate) struct Session {
    phase: Phase,
    principal: Option<Principal>,
    /// Deadline for the next re-authentication; `None` if the session does not expire.
    expires: Option<Instant>,
    /// Start of the last re-authentication.
    last_reauth: Option<Instant>,
    /// Number of responses sent during this login.
    step: u32,
    /// Time until which a quota keeps the connection from being read.
    muted_until: Option<Instant>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("step", &self.step).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(options: &SecurityOptions) -> Self {
        let phase = if options.protocol.has_login() { Phase::Fresh } else { Phase::Ready };
        Session { phase, principal: None, expires: None, last_reauth: None, step: 0, muted_until: None }
    }

    /// Keeps the connection from being read for this time.
    pub(crate) fn mute(&mut self, time: Duration) {
        self.muted_until = (!time.is_zero()).then(|| Instant::now() + time);
    }

    /// Returns the time until which no request is read, once.
    pub(crate) fn take_muted_until(&mut self) -> Option<Instant> {
        self.muted_until.take()
    }

    /// Returns the maximum size in bytes of the next frame.
    pub(crate) fn max_frame_bytes(&self, authenticated_max: usize) -> usize {
        if matches!(self.phase, Phase::Ready) {
            authenticated_max
        } else {
            authenticated_max.min(UNAUTHENTICATED_MAX_BYTES)
        }
    }

    /// Returns the name of the authenticated principal.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.principal.as_ref().map(|principal| principal.name.as_str())
    }

    /// Returns true if the next frame is an unframed token of the mechanism instead of a request.
    pub(crate) fn expects_raw_token(&self) -> bool {
        matches!(self.phase, Phase::Tokens { framed: false, .. })
    }

    /// Returns true if the connection closes after the current response.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing)
    }

    /// Decides whether a request is accepted. Must be called once per request, since a SaslHandshake begins a
    /// re-authentication.
    pub(crate) fn admit(&mut self, key: ApiKey, security: &Security) -> Admission {
        let granted = match &self.phase {
            Phase::Fresh => matches!(key, ApiKey::ApiVersions | ApiKey::SaslHandshake),
            Phase::Versions => key == ApiKey::SaslHandshake,
            Phase::Tokens { .. } if key == ApiKey::SaslAuthenticate => true,
            Phase::Tokens { .. } => return Admission::Illegal,
            Phase::Ready => return self.admit_authenticated(key, security),
            Phase::Reauthenticating | Phase::Closing => false,
        };
        if granted {
            return Admission::Granted;
        }
        self.fail(security);
        Admission::Close("a request came before the login")
    }

    fn admit_authenticated(&mut self, key: ApiKey, security: &Security) -> Admission {
        let Some(expires) = self.expires else { return Admission::Granted };
        let now = Instant::now();
        let is_too_early = self.last_reauth.is_some_and(|began| now.duration_since(began) < MIN_REAUTH_INTERVAL);
        if key == ApiKey::SaslHandshake && !is_too_early {
            self.last_reauth = Some(now);
            self.phase = Phase::Reauthenticating;
        } else if now > expires {
            self.phase = Phase::Closing;
            add(&security.counts.expired);
            return Admission::Close("the session has expired");
        }
        Admission::Granted
    }

    /// Records that an ApiVersions response was sent. Only one ApiVersions request is accepted before the login.
    pub(crate) fn versions_sent(&mut self) {
        if matches!(self.phase, Phase::Fresh) {
            self.phase = Phase::Versions;
        }
    }

    /// Fails the login; the connection closes after the current response.
    pub(crate) fn fail(&mut self, security: &Security) {
        self.phase = Phase::Closing;
        add(&security.counts.failed);
    }

    /// Handles SaslHandshake.
    pub(crate) fn handshake(&mut self, node: i32, version: i16, requested: &str, security: &Security) -> LoginAnswer {
        let enabled = &security.options.mechanisms;
        let mut response = LoginAnswer::new(node, requested, 0);
        if matches!(self.phase, Phase::Ready) {
            // The listener does not use SASL, the session does not expire, or it is too early for a re-authentication.
            response.error = ErrorCode::ILLEGAL_SASL_STATE;
            return response;
        }
        response.mechanisms = enabled.iter().map(|mechanism| mechanism.name().to_owned()).collect();
        let mechanism = enabled.iter().copied().find(|mechanism| mechanism.name() == requested);
        if mechanism.is_none() {
            response.error = ErrorCode::UNSUPPORTED_SASL_MECHANISM;
        }
        security.hooks.apply(&mut response);
        match mechanism {
            Some(mechanism) if response.error.is_none() => {
                self.phase = Phase::Tokens { mechanism, exchange: SaslExchange::new(mechanism), framed: version >= 1 };
                self.step = 1;
            }
            _ => self.fail(security),
        }
        response
    }

    /// Handles a token of the mechanism. Returns `None` if the connection must be closed without a response.
    pub(crate) fn token(&mut self, node: i32, token: &[u8], security: &Security) -> Option<LoginAnswer> {
        let Phase::Tokens { mechanism, exchange, framed } = &mut self.phase else {
            let mut response = LoginAnswer::new(node, "", 1);
            response.error = ErrorCode::ILLEGAL_SASL_STATE;
            response.message = Some("SaslAuthenticate request received after successful authentication".to_owned());
            return Some(response);
        };
        let (mechanism, framed) = (*mechanism, *framed);
        if self.principal.as_ref().is_some_and(|before| before.mechanism != mechanism) {
            // A re-authentication must use the same mechanism. Like Kafka, the broker accepts the handshake with
            // another mechanism, but closes the connection at the first token.
            self.fail(security);
            return None;
        }
        let mut response = LoginAnswer::new(node, mechanism.name(), self.step);
        let result = exchange.evaluate(token, security).and_then(|step| self.same_principal(step));
        self.step = self.step.saturating_add(1);
        let mut done = None;
        match result {
            Ok(Step::Challenge(challenge)) => response.token = challenge,
            Ok(Step::Done { token, principal, expires_ms }) => {
                let lifetime = lifetime(security.options.session_lifetime, expires_ms);
                response.token = token;
                response.session_lifetime_ms = lifetime.unwrap_or_default();
                done = Some((principal, lifetime));
            }
            Err(rejection) => {
                response.error = ErrorCode::SASL_AUTHENTICATION_FAILED;
                response.message = Some(self.text(rejection, mechanism));
            }
        }
        let rejected = !response.error.is_none();
        security.hooks.apply(&mut response);
        if rejected || !response.error.is_none() {
            self.fail(security);
            return framed.then_some(response);
        }
        if let Some((name, lifetime)) = done {
            let now = Instant::now();
            let after = |ms: i64| now.checked_add(Duration::from_millis(u64::try_from(ms).unwrap_or_default()));
            self.expires = lifetime.and_then(after);
            let is_reauth = self.principal.replace(Principal { mechanism, name }).is_some();
            add(if is_reauth { &security.counts.repeated } else { &security.counts.succeeded });
            self.phase = Phase::Ready;
        }
        Some(response)
    }

    /// Rejects a change of principal during re-authentication.
    fn same_principal(&self, step: Step) -> Result<Step, Rejection> {
        match (&self.principal, &step) {
            (Some(before), Step::Done { principal, .. }) if before.name != *principal => {
                Err(Rejection::explained(format!(
                    "Cannot change principals during re-authentication from User.{}: User.{principal}",
                    before.name
                )))
            }
            _ => Ok(step),
        }
    }

    fn text(&self, rejection: Rejection, mechanism: Mechanism) -> String {
        let during = if self.principal.is_some() { "re-authentication" } else { "authentication" };
        match rejection {
            Rejection::Explained(text) => text,
            Rejection::Generic => {
                format!(
                    "Authentication failed during {during} due to invalid credentials with SASL mechanism {}",
                    mechanism.name()
                )
            }
        }
    }
}

/// Returns the session lifetime in milliseconds: the minimum of the configured limit and the remaining lifetime of the
/// credentials. Returns `None` if both are unlimited.
fn lifetime(configured: Option<Duration>, expires_ms: Option<i64>) -> Option<i64> {
    let configured = configured.map(|configured| i64::try_from(configured.as_millis()).unwrap_or(i64::MAX));
    let remaining = expires_ms.map(|expires| expires.saturating_sub(now_ms()).max(0));
    configured.into_iter().chain(remaining).min()
}
