//! Login responses, and the hooks that modify them.

use std::fmt;
use std::sync::Mutex;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;

/// Response of a node to one login step. A hook of [`crate::Broker::on_login`] may modify the fields that are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginAnswer {
    /// Node that sends the response.
    pub node: i32,
    /// Mechanism selected by the client.
    pub mechanism: String,
    /// Number of the step: 0 for SaslHandshake, 1 for the first token of the mechanism, and so on.
    pub step: u32,
    /// Error code. If tokens are unframed, it is not sent; an error closes the connection instead.
    pub error: ErrorCode,
    /// Error message; sent from step 1 on, unless tokens are unframed.
    pub message: Option<String>,
    /// Enabled mechanisms; sent in step 0.
    pub mechanisms: Vec<String>,
    /// Token of the mechanism; sent from step 1 on.
    pub token: Bytes,
    /// Session lifetime in milliseconds, or 0 if the session does not expire. Sent from step 1 on to clients that
    /// support it, unless tokens are unframed.
    pub session_lifetime_ms: i64,
}

impl LoginAnswer {
    /// Creates an empty response.
    pub(super) fn new(node: i32, mechanism: &str, step: u32) -> Self {
        LoginAnswer {
            node,
            mechanism: mechanism.to_owned(),
            step,
            error: ErrorCode::NONE,
            message: None,
            mechanisms: Vec::new(),
            token: Bytes::new(),
            session_lifetime_ms: 0,
        }
    }
}

type Hook = Box<dyn FnMut(&mut LoginAnswer) + Send>;

/// Login hooks, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Vec<Hook>>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooks").field(&lock(&self.0).len()).finish()
    }
}

impl Hooks {
    pub(crate) fn add(&self, hook: impl FnMut(&mut LoginAnswer) + Send + 'static) {
        lock(&self.0).push(Box::new(hook));
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Calls all hooks.
    pub(super) fn apply(&self, response: &mut LoginAnswer) {
        lock(&self.0).iter_mut().for_each(|hook| hook(response));
    }
}
