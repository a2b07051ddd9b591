//! Where one connection is in its login: Kafka's order of requests, and its end of sessions (KIP-368).

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

/// Kafka's `sasl.server.max.receive.size`: strangers send no larger frames.
const STRANGERS_BYTES: usize = 512 << 10;
/// A client may not log in again more often.
const LEAST_BETWEEN: Duration = Duration::from_secs(1);

enum Phase {
    /// ApiVersions or SaslHandshake may come.
    Fresh,
    /// SaslHandshake must come.
    Versions,
    /// Tokens come, in SaslAuthenticate or raw.
    Tokens { with: Mechanism, conversation: Conversation, framed: bool },
    /// Requests come.
    Ready,
    /// A handshake of somebody who is logged in already.
    Again,
    /// The connection ends with the answer that was given.
    Over,
}

/// Who a client is.
struct Principal {
    mechanism: Mechanism,
    name: String,
}

/// What is to become of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is served.
    Granted,
    /// It is refused with ILLEGAL_SASL_STATE, and the connection ends.
    Illegal,
    /// The connection ends without an answer.
    Closed(&'static str),
}

/// A connection's login.
pub(crate) struct Session {
    phase: Phase,
    principal: Option<Principal>,
    /// When the client must have logged in again.
    expires: Option<Instant>,
    /// When it last began to.
    began_again: Option<Instant>,
    /// How many answers of this login were given.
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

    /// The largest frame that is taken now.
    pub(crate) fn most_bytes(&self, of_friends: usize) -> usize {
        if matches!(self.phase, Phase::Ready) { of_friends } else { of_friends.min(STRANGERS_BYTES) }
    }

    /// The name of who is logged in.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.principal.as_ref().map(|principal| principal.name.as_str())
    }

    /// Whether the next frame is a token of the mechanism and no request.
    pub(crate) fn expects_raw_token(&self) -> bool {
        matches!(self.phase, Phase::Tokens { framed: false, .. })
    }

    /// Whether nothing follows the answer that was given.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Whether a request may come now. Asked once for each: a handshake may begin another login.
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

    /// A client got the versions: nobody asks twice before the login.
    pub(crate) fn told_versions(&mut self) {
        if matches!(self.phase, Phase::Fresh) {
            self.phase = Phase::Versions;
        }
    }

    /// The connection ends with the answer that is given now.
    pub(crate) fn refuse(&mut self, security: &Security) {
        self.phase = Phase::Over;
        add(&security.counts.failed);
    }

    /// The answer to a handshake.
    pub(crate) fn handshake(&mut self, node: i32, version: i16, named: &str, security: &Security) -> LoginAnswer {
        let enabled = &security.options.mechanisms;
        let mut answer = LoginAnswer::of(node, named, 0);
        if matches!(self.phase, Phase::Ready) {
            // There are no logins here, or none is due.
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

    /// The answer to a token; `None` where the connection ends without one.
    pub(crate) fn token(&mut self, node: i32, token: &[u8], security: &Security) -> Option<LoginAnswer> {
        let Phase::Tokens { with, conversation, framed } = &mut self.phase else {
            let mut answer = LoginAnswer::of(node, "", 1);
            answer.error = ErrorCode::ILLEGAL_SASL_STATE;
            answer.message = Some("SaslAuthenticate request received after successful authentication".to_owned());
            return Some(answer);
        };
        let (with, framed) = (*with, *framed);
        if self.principal.as_ref().is_some_and(|before| before.mechanism != with) {
            // Kafka lets the handshake pass, and ends here.
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

    /// Nobody becomes somebody else on the same connection.
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

/// How long a session lasts in milliseconds: as long as the broker allows, and its credentials hold.
fn lifetime(allowed: Option<Duration>, expires_ms: Option<i64>) -> Option<i64> {
    let allowed = allowed.map(|allowed| i64::try_from(allowed.as_millis()).unwrap_or(i64::MAX));
    let held = expires_ms.map(|expires| expires.saturating_sub(now_ms()).max(0));
    allowed.into_iter().chain(held).min()
}
