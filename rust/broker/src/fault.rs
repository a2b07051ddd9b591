//! Faults on demand: what a test wants the broker to do wrong.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

use crate::sync::lock;

/// What goes wrong with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The request is not handled; every part of the answer carries this error.
    Error(ErrorCode),
    /// The request is handled after this time.
    Delay(Duration),
    /// The connection is closed, the request not handled.
    DropBefore,
    /// The request is handled (records are appended, offsets committed), then the connection is closed with no answer.
    DropAfter,
    /// The request is handled, and every part of the answer carries this error all the same.
    Answer(ErrorCode),
    /// The request is handled and answered with the right correlation id and bytes that mean nothing.
    Garbage,
    /// Another fault, after this time.
    Late(Duration, Box<Fault>),
}

/// A request as a fault hook sees it.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// The node that received it.
    pub node: i32,
    /// Which API.
    pub api_key: ApiKey,
    /// Its version.
    pub api_version: i16,
    /// The client's number for it.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// The encoded request after its header.
    pub body: Bytes,
}

type Hook = Box<dyn FnMut(&RequestInfo) -> Option<Fault> + Send>;

/// The hooks in the order in which they were set.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Vec<(ApiKey, Hook)>>);

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faults").field(&lock(&self.0).len()).finish()
    }
}

impl Faults {
    pub(crate) fn add(&self, key: ApiKey, hook: impl FnMut(&RequestInfo) -> Option<Fault> + Send + 'static) {
        lock(&self.0).push((key, Box::new(hook)));
    }

    /// Forgets the hooks of one API, or all.
    pub(crate) fn clear(&self, key: Option<ApiKey>) {
        lock(&self.0).retain(|(of, _)| key.is_some_and(|key| key != *of));
    }

    /// What the first hook that has something to say wants; the request is only described where a hook listens.
    pub(crate) fn ask(&self, key: ApiKey, describe: impl FnOnce() -> RequestInfo) -> Option<Fault> {
        let mut hooks = lock(&self.0);
        let mut listening = hooks.iter_mut().filter(|(of, _)| *of == key).peekable();
        listening.peek()?;
        let request = describe();
        listening.find_map(|(_, hook)| hook(&request))
    }
}
