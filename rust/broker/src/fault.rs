//! Injected faults, for tests of clients.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

use crate::sync::lock;

/// A fault injected into one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Does not handle the request; returns a response with this error in every error field.
    Error(ErrorCode),
    /// Delays the request by this time before it is handled.
    Delay(Duration),
    /// Closes the connection without handling the request.
    DropBefore,
    /// Handles the request (records are appended, offsets committed), then closes the connection without a response.
    DropAfter,
    /// Handles the request, but returns a response with this error in every error field.
    Answer(ErrorCode),
    /// Handles the request, but returns a response with a valid correlation id and an undecodable body.
    Garbage,
    /// Applies another fault after this time.
    Late(Duration, Box<Fault>),
}

/// A request as a fault hook sees it.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// Node that received the request.
    pub node: i32,
    /// API key.
    pub api_key: ApiKey,
    /// API version.
    pub api_version: i16,
    /// Correlation id.
    pub correlation_id: i32,
    /// Client id.
    pub client_id: Option<String>,
    /// Encoded request after the header.
    pub body: Bytes,
}

type Hook = Box<dyn FnMut(&RequestInfo) -> Option<Fault> + Send>;

/// Fault hooks, in the order they were added.
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

    /// Removes the hooks of one API, or all.
    pub(crate) fn clear(&self, key: Option<ApiKey>) {
        lock(&self.0).retain(|(hook_key, _)| key.is_some_and(|key| key != *hook_key));
    }

    /// Returns the fault of the first hook that returns one. The request is described only if the API has a hook.
    pub(crate) fn fault_for(&self, key: ApiKey, describe: impl FnOnce() -> RequestInfo) -> Option<Fault> {
        let mut hooks = lock(&self.0);
        let mut matching = hooks.iter_mut().filter(|(hook_key, _)| *hook_key == key).peekable();
        matching.peek()?;
        let request = describe();
        matching.find_map(|(_, hook)| hook(&request))
    }
}
