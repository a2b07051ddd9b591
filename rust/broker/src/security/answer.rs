//! Answers in a login, and what tests make of them.

use std::fmt;
use std::sync::Mutex;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;

use crate::sync::lock;

/// What a node is about to answer in a login. A hook of [`crate::Broker::on_login`] may change all that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginAnswer {
    /// The node that answers.
    pub node: i32,
    /// The mechanism that the client named.
    pub mechanism: String,
    /// 0 is the answer to SaslHandshake, 1 that to the first token of the mechanism, and so on.
    pub step: u32,
    /// Sent unless tokens go raw, where an error closes the connection.
    pub error: ErrorCode,
    /// Sent from step 1 on, unless tokens go raw.
    pub message: Option<String>,
    /// Sent in step 0.
    pub mechanisms: Vec<String>,
    /// Sent from step 1 on.
    pub token: Bytes,
    /// Sent from step 1 on, unless tokens go raw, to clients that know it; 0 for no end.
    pub session_lifetime_ms: i64,
}

impl LoginAnswer {
    /// One that says nothing yet.
    pub(super) fn of(node: i32, mechanism: &str, step: u32) -> Self {
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

/// The hooks in the order in which they were set.
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

    /// Every hook has its turn.
    pub(super) fn apply(&self, answer: &mut LoginAnswer) {
        lock(&self.0).iter_mut().for_each(|hook| hook(answer));
    }
}
