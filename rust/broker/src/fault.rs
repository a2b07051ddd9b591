//! Faults that tests of clients inject into requests.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;
use samsarrow_wire::sync::lock;

/// A fault injected into one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Returns a response with this error in every error field, without handling the request.
    Error(ErrorCode),
    /// Waits for this time before the request is handled.
    Delay(Duration),
    /// Closes the connection without handling the request.
    DropBefore,
    /// Handles the request, for example appends records or commits offsets, then closes the connection without a
    /// response.
    DropAfter,
    /// Handles the request, but returns a response with this error in every error field instead of the result.
    Answer(ErrorCode),
    /// Handles the request, but returns a response with a valid correlation id and an undecodable body.
    Garbage,
    /// Handles the request, returns this throttle time in the response, and reads no further request of the connection
    /// for this time (KIP-219). A release before 2.0 waits before it sends the response.
    Throttle(Duration),
    /// Waits for this time, then applies another fault.
    Late(Duration, Box<Fault>),
}

/// A request as passed to fault hooks.
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
    /// Encoded request body, without the header.
    pub body: Bytes,
}

type Hook = Box<dyn FnMut(&RequestInfo) -> Option<Fault> + Send>;

/// Fault hooks, in the order in which they were added.
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

    /// Removes the hooks of one API, or the hooks of all APIs if `key` is `None`.
    pub(crate) fn clear(&self, key: Option<ApiKey>) {
        lock(&self.0).retain(|(hook_key, _)| key.is_some_and(|key| key != *hook_key));
    }

    /// Calls the hooks of the API in order and returns the first fault that a hook returns. Calls `describe` only if
    /// the API has a hook.
    pub(crate) fn fault_for(&self, key: ApiKey, describe: impl FnOnce() -> RequestInfo) -> Option<Fault> {
        let mut hooks = lock(&self.0);
        let mut matching = hooks.iter_mut().filter(|(hook_key, _)| *hook_key == key).peekable();
        matching.peek()?;
        let request = describe();
        matching.find_map(|(_, hook)| hook(&request))
    }
}
