//! Authentication state of one connection: Kafka's order of requests, and session expiry (KIP-368).

use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;
use tokio::time::Instant;

use super::Security;
use super::answer::LoginAnswer;
use super::conversation::{Conversation, Refusal, Step};
use super::counts::add;
use super::options::{Mechanism, SecurityOptions};
use crate::sync::now_ms;

/// Kafka's `sasl.server.max.receive.size`: maximum frame size before authentication.
const STRANGERS_BYTES: usize = 512 << 10;
/// Minimum interval between re-authentications.
const LEAST_BETWEEN: Duration = Duration::from_secs(1);

enum Phase {
    /// ApiVersions or SaslHandshake is expected.
    Fresh,
    /// SaslHandshake is expected.
    Versions,
    /// Tokens are expected, in SaslAuthenticate or unframed.
    Tokens { with: Mechanism, conversation: Conversation, framed: bool },
    /// Authenticated; any request is accepted.
    Ready,
    /// An authenticated client starts re-authentication with SaslHandshake.
    Again,
    /// The connection closes after the current response.
    Over,
}

/// Authenticated client.
struct Principal {
    mechanism: Mechanism,
    name: String,
}

/// Decision on a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The request is handled.
    Granted,
    /// The request is rejected with ILLEGAL_SASL_STATE, and the connection closes.
    Illegal,
    /// The connection closes without a response.
    Closed(&'static str),
}

/// Authentication state of a connection.
pub(crate) struct Session {
    phase: Phase,
    principal: Option<Principal>,
    /// Time by which the client must have re-authenticated.
    expires: Option<Instant>,
    /// Start of the last re-authentication.
    began_again: Option<Instant>,
    /// Number of responses sent in this login.
    step: u32,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("step", &self.step).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(options: &SecurityOptions) -> Self {
        let phase = if options.protocol.has_login() { Phase::Fresh } else { Phase::Ready };
        Session { phase, principal: None, expires: None, began_again: None, step: 0 }
    }

    /// Returns the current maximum frame size.
    pub(crate) fn most_bytes(&self, of_friends: usize) -> usize {
        if matches!(self.phase, Phase::Ready) { of_friends } else { of_friends.min(STRANGERS_BYTES) }
    }

    /// Returns the name of the authenticated principal.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.principal.as_ref().map(|principal| principal.name.as_str())
    }

    /// Returns true if the next frame is an unframed token of the mechanism, not a request.
    pub(crate) fn expects_raw_token(&self) -> bool {
        matches!(self.phase, Phase::Tokens { framed: false, .. })
    }

    /// Returns true if the connection closes after the current response.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Decides on a request. Called once per request, since a handshake may begin a re-authentication.
    pub(crate) fn admit(&mut self, key: ApiKey, security: &Security) -> Admission {
        let granted = match &self.phase {
            Phase::Fresh => matches!(key, ApiKey::ApiVersions | ApiKey::SaslHandshake),
            Phase::Versions => key == ApiKey::SaslHandshake,
            Phase::Tokens { .. } if key == ApiKey::SaslAuthenticate => true,
            Phase::Tokens { .. } => return Admission::Illegal,
            Phase::Ready => return self.admit_friend(key, security),
            Phase::Again | Phase::Over => false,
        };
        if granted {
            return Admission::Granted;
        }
        self.refuse(security);
        Admission::Closed("a request came before the login")
    }

    fn admit_friend(&mut self, key: ApiKey, security: &Security) -> Admission {
        let Some(expires) = self.expires else { return Admission::Granted };
        let now = Instant::now();
        let too_early = self.began_again.is_some_and(|began| now.duration_since(began) < LEAST_BETWEEN);
        if key == ApiKey::SaslHandshake && !too_early {
            self.began_again = Some(now);
            self.phase = Phase::Again;
        } else if now > expires {
            self.phase = Phase::Over;
            add(&security.counts.expired);
            return Admission::Closed("the session has expired");
        }
        Admission::Granted
    }

    /// Records that the client has received the API versions; before the login only one ApiVersions request is allowed.
    pub(crate) fn told_versions(&mut self) {
        if matches!(self.phase, Phase::Fresh) {
            self.phase = Phase::Versions;
        }
    }

    /// Fails the login; the connection closes after the current response.
    pub(crate) fn refuse(&mut self, security: &Security) {
        self.phase = Phase::Over;
        add(&security.counts.failed);
    }

    /// Handles SaslHandshake.
    pub(crate) fn handshake(&mut self, node: i32, version: i16, named: &str, security: &Security) -> LoginAnswer {
        let enabled = &security.options.mechanisms;
        let mut answer = LoginAnswer::of(node, named, 0);
        if matches!(self.phase, Phase::Ready) {
            // The listener has no SASL, or no re-authentication is due.
            answer.error = ErrorCode::ILLEGAL_SASL_STATE;
            return answer;
        }
        answer.mechanisms = enabled.iter().map(|mechanism| mechanism.name().to_owned()).collect();
        let with = enabled.iter().copied().find(|mechanism| mechanism.name() == named);
        if with.is_none() {
            answer.error = ErrorCode::UNSUPPORTED_SASL_MECHANISM;
        }
        security.hooks.apply(&mut answer);
        match with {
            Some(with) if answer.error.is_none() => {
                self.phase = Phase::Tokens { with, conversation: Conversation::new(with), framed: version >= 1 };
                self.step = 1;
            }
            _ => self.refuse(security),
        }
        answer
    }

    /// Handles a token; returns `None` if the connection closes without a response.
    pub(crate) fn token(&mut self, node: i32, token: &[u8], security: &Security) -> Option<LoginAnswer> {
        let Phase::Tokens { with, conversation, framed } = &mut self.phase else {
            let mut answer = LoginAnswer::of(node, "", 1);
            answer.error = ErrorCode::ILLEGAL_SASL_STATE;
            answer.message = Some("SaslAuthenticate request received after successful authentication".to_owned());
            return Some(answer);
        };
        let (with, framed) = (*with, *framed);
        if self.principal.as_ref().is_some_and(|before| before.mechanism != with) {
            // Kafka accepts the handshake with another mechanism, and closes the connection here.
            self.refuse(security);
            return None;
        }
        let mut answer = LoginAnswer::of(node, with.name(), self.step);
        let stepped = conversation.answer(token, security).and_then(|step| self.same_principal(step));
        self.step = self.step.saturating_add(1);
        let mut done = None;
        match stepped {
            Ok(Step::Challenge(challenge)) => answer.token = challenge,
            Ok(Step::Done { token, principal, expires_ms }) => {
                let lifetime = lifetime(security.options.session_lifetime, expires_ms);
                answer.token = token;
                answer.session_lifetime_ms = lifetime.unwrap_or_default();
                done = Some((principal, lifetime));
            }
            Err(refusal) => {
                answer.error = ErrorCode::SASL_AUTHENTICATION_FAILED;
                answer.message = Some(self.text(refusal, with));
            }
        }
        let refused = !answer.error.is_none();
        security.hooks.apply(&mut answer);
        if refused || !answer.error.is_none() {
            self.refuse(security);
            return framed.then_some(answer);
        }
        if let Some((name, lifetime)) = done {
            let now = Instant::now();
            let after = |ms: i64| now.checked_add(Duration::from_millis(u64::try_from(ms).unwrap_or_default()));
            self.expires = lifetime.and_then(after);
            let again = self.principal.replace(Principal { mechanism: with, name }).is_some();
            add(if again { &security.counts.repeated } else { &security.counts.succeeded });
            self.phase = Phase::Ready;
        }
        Some(answer)
    }

    /// Rejects a change of principal during re-authentication.
    fn same_principal(&self, step: Step) -> Result<Step, Refusal> {
        match (&self.principal, &step) {
            (Some(before), Step::Done { principal, .. }) if before.name != *principal => Err(Refusal::said(format!(
                "Cannot change principals during re-authentication from User.{}: User.{principal}",
                before.name
            ))),
            _ => Ok(step),
        }
    }

    fn text(&self, refusal: Refusal, with: Mechanism) -> String {
        let during = if self.principal.is_some() { "re-authentication" } else { "authentication" };
        match refusal {
            Refusal::Said(text) => text,
            Refusal::Unsaid => {
                format!(
                    "Authentication failed during {during} due to invalid credentials with SASL mechanism {}",
                    with.name()
                )
            }
        }
    }
}

/// Returns the session lifetime in milliseconds: the smaller of the broker's limit and the remaining lifetime of the
/// credentials.
fn lifetime(allowed: Option<Duration>, expires_ms: Option<i64>) -> Option<i64> {
    let allowed = allowed.map(|allowed| i64::try_from(allowed.as_millis()).unwrap_or(i64::MAX));
    let held = expires_ms.map(|expires| expires.saturating_sub(now_ms()).max(0));
    allowed.into_iter().chain(held).min()
}
