//! Handle to one broker: its connection, pending connection attempt, and reconnect backoff.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::metrics::NodeMeter;
use crate::net::{CallerDeadline, Connection, Destination, Setup};
use crate::retry::backoff::Backoff;

/// Kind of the last connect error of each address, and the number of such errors in a row. A warning is logged only when
/// the kind changes, not with every attempt.
#[derive(Debug, Default)]
pub(super) struct ConnectErrorLog(Mutex<HashMap<String, (ConnectErrorKind, u32)>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectErrorKind {
    Unreachable,
    NotKafka,
    AccessDenied,
}

impl ConnectErrorKind {
    fn from_error(error: &Error) -> Self {
        match error {
            Error::Protocol { .. } => Self::NotKafka,
            Error::Tls { .. } | Error::Authentication { .. } => Self::AccessDenied,
            _ => Self::Unreachable,
        }
    }
}

impl ConnectErrorLog {
    fn log_failure(&self, client_id: &str, address: &str, error: &Error, retry_after: Duration) {
        let text = error.text_without(address);
        let reason = text.strip_prefix("cannot connect: ").unwrap_or(&text);
        if !self.is_to_warn(address, error) {
            tracing::debug!(client_id, ?retry_after, "cannot connect to the broker at {address}: {reason}");
        } else if ConnectErrorKind::from_error(error) == ConnectErrorKind::AccessDenied {
            tracing::warn!(
                client_id,
                "the broker at {address} cannot be used: {reason}. The client keeps retrying and logs when it succeeds"
            );
        } else {
            tracing::warn!(
                client_id,
                "cannot connect to the broker at {address}: {reason}. The client keeps retrying and logs when it succeeds"
            );
        }
    }

    /// Counts the error. Returns true for the first error of its kind; for a server that is not a Kafka broker for the
    /// second, because the first one ends the call that connects, with the same text.
    fn is_to_warn(&self, address: &str, error: &Error) -> bool {
        let kind = ConnectErrorKind::from_error(error);
        let mut known = lock(&self.0);
        let (last, count) = known.entry(address.to_owned()).or_insert((kind, 0));
        *count = if *last == kind { count.saturating_add(1) } else { 1 };
        *last = kind;
        *count == if kind == ConnectErrorKind::NotKafka { 2 } else { 1 }
    }

    fn log_connected(&self, client_id: &str, node: i32, address: &str) {
        let failed_before = lock(&self.0).remove(address).is_some();
        if failed_before {
            tracing::info!(client_id, "connected to the broker at {address} after failed attempts");
        } else if node < 0 {
            tracing::debug!(client_id, "connected to bootstrap server {address}");
        } else {
            tracing::debug!(client_id, "connected to broker {node} at {address}");
        }
    }
}

/// Pending connection attempt. All callers that need the connection wait for its result.
type ConnectAttempt = watch::Receiver<Option<Result<Arc<Connection>>>>;

#[derive(Debug)]
pub(super) struct BrokerHandle {
    pub(super) address: String,
    /// Broker that the address must belong to. `None` for bootstrap servers, and if it is not to be checked.
    pub(super) destination: Option<Destination>,
    /// Set if the last attempt has reached another broker, until [`Self::take_misrouted`].
    misrouted: AtomicBool,
    setup: Arc<Setup>,
    connect_errors: Arc<ConnectErrorLog>,
    meter: NodeMeter,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: Option<Arc<Connection>>,
    attempt: Option<(ConnectAttempt, AbortHandle)>,
    backoff: Backoff,
    /// Timeout of connection setup. It grows with each failure (`socket.connection.setup.timeout.max.ms`).
    setup: Backoff,
    failure: Option<Failure>,
    /// Set if the broker closed the last connection before it responded to a request other than the handshake.
    cut_short: bool,
}

#[derive(Debug)]
struct Failure {
    at: Instant,
    /// Earliest time of the next attempt.
    until: Instant,
    error: Error,
}

/// Load of a broker's connection. Variants are ordered by expected response time, fastest first.
///
/// A broker processes the requests of a connection one at a time, so a new connection is faster than one with pending
/// requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
    /// Connected, without pending requests.
    Idle,
    /// Not connected yet.
    Untried,
    /// Connected, with this number of pending requests.
    Busy(usize),
    /// The last attempt failed at this time. Older failures sort first.
    Failed(Instant),
}

impl Drop for BrokerHandle {
    fn drop(&mut self) {
        if let Some((_, task)) = lock(&self.state).attempt.take() {
            task.abort();
        }
    }
}

impl BrokerHandle {
    pub(super) fn new(
        address: String,
        destination: Option<Destination>,
        setup: Arc<Setup>,
        connect_errors: Arc<ConnectErrorLog>,
        meter: NodeMeter,
    ) -> Self {
        let options = &setup.options;
        let state = State {
            connection: None,
            attempt: None,
            backoff: Backoff::new(options.reconnect_backoff, options.reconnect_backoff_max),
            setup: Backoff::new(options.connection_setup_timeout, options.connection_setup_timeout_max),
            failure: None,
            cut_short: false,
        };
        let misrouted = AtomicBool::new(false);
        Self { address, destination, misrouted, setup, connect_errors, meter, state: Mutex::new(state) }
    }

    /// Returns the connection, unless it has broken.
    pub(super) fn open(&self) -> Option<Arc<Connection>> {
        lock(&self.state).connection.as_ref().filter(|open| open.broken().is_none()).cloned()
    }

    /// Returns true once after each attempt that has reached another broker.
    pub(super) fn take_misrouted(&self) -> bool {
        self.misrouted.swap(false, Ordering::AcqRel)
    }

    pub(super) fn load(&self) -> Load {
        match (self.open(), &lock(&self.state).failure) {
            (Some(open), _) => match open.load() {
                0 => Load::Idle,
                requests => Load::Busy(requests),
            },
            (None, None) => Load::Untried,
            (None, Some(failure)) => Load::Failed(failure.at),
        }
    }

    /// Returns the open connection, or opens one.
    ///
    /// The attempt continues after the caller's deadline, because the next caller may have more time.
    pub(super) async fn connection(self: &Arc<Self>, patience: CallerDeadline) -> Result<Arc<Connection>> {
        let mut attempt = {
            let mut state = lock(&self.state);
            if let Some(open) = state.connection.as_ref().filter(|open| open.broken().is_none()) {
                return Ok(Arc::clone(open));
            }
            if let Some(broken) = state.connection.take() {
                state.cut_short = broken.closed_before_first_response();
            }
            // Rejected credentials also fail callers that would join a pending attempt, because waiting would not help
            // them.
            if let Some(error) = self.setup.security.login_backoff.rejected() {
                return Err(error);
            }
            if let Some(failure) = state.failure.as_ref().filter(|failure| failure.until > patience.until()) {
                return Err(failure.error.clone());
            }
            match &state.attempt {
                Some((attempt, _)) => attempt.clone(),
                None => self.start_connecting(&mut state),
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = timeout_at(patience.until(), attempt.wait_for(Option::is_some)) => outcome,
            error = self.setup.security.login_backoff.wait_for_rejection() => return Err(error),
        };
        match outcome {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or_else(|| Err(self.timed_out())),
            Ok(Err(_)) => Err(Error::connection(self.address.clone(), "the connection attempt was cancelled")),
            // The previous failure is more specific than a timeout of this attempt.
            Err(_) => Err(lock(&self.state)
                .failure
                .as_ref()
                .map_or_else(|| self.timed_out(), |failure| failure.error.clone())),
        }
    }

    fn timed_out(&self) -> Error {
        Error::connection(self.address.clone(), "cannot connect in time")
    }

    fn start_connecting(self: &Arc<Self>, state: &mut State) -> ConnectAttempt {
        let (sender, attempt) = watch::channel(None);
        let limit = match self.setup.options.connection_setup_timeout {
            limit if limit >= self.setup.options.connection_setup_timeout_max => limit,
            _ => state.setup.next_delay(),
        };
        let not_before = state.failure.as_ref().map(|failure| failure.until);
        let (handle, address, setup) = (Arc::downgrade(self), self.address.clone(), Arc::clone(&self.setup));
        let destination = self.destination.clone();
        let wary = state.cut_short;
        let task = tokio::spawn(async move {
            if let Some(until) = not_before {
                sleep_until(until).await;
            }
            let opened = Connection::open_within(&address, &setup, limit, wary, destination.as_ref()).await;
            if let Some(handle) = Weak::upgrade(&handle) {
                let opened = opened.map(Arc::new).map_err(|error| handle.explain_misrouting(error));
                handle.attempt_completed(&opened);
                sender.send_replace(Some(opened));
            }
        });
        state.attempt = Some((attempt.clone(), task.abort_handle()));
        attempt
    }

    /// Converts REBOOTSTRAP_REQUIRED, the response of a broker that is not the intended one, into a retriable error.
    fn explain_misrouting(&self, error: Error) -> Error {
        match &self.destination {
            Some(Destination { cluster, node }) if error.code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED.code()) => {
                self.misrouted.store(true, Ordering::Release);
                let reason = format!(
                    "the address of broker {node} of cluster {cluster} leads to another broker or cluster: check \
                     forwarded ports, load balancers and advertised.listeners, or set \
                     metadata.cluster.check.enable=false if one address stands for all brokers"
                );
                Error::connection(self.address.clone(), reason)
            }
            _ => error,
        }
    }

    fn attempt_completed(&self, opened: &Result<Arc<Connection>>) {
        let client_id = &*self.setup.options.client_id;
        let mut state = lock(&self.state);
        state.attempt = None;
        match opened {
            Ok(connection) => {
                let login = self.setup.security.login.is_some();
                connection.count_with(self.meter.connected(&self.address, login));
                state.connection = Some(Arc::clone(connection));
                state.failure = None;
                state.backoff.reset();
                state.setup.reset();
                self.connect_errors.log_connected(client_id, self.meter.node, &self.address);
            }
            Err(error) => {
                let (at, delay) = (Instant::now(), state.backoff.next_delay());
                let until = at + delay;
                state.failure = Some(Failure { at, until, error: error.clone() });
                if matches!(error, Error::Authentication { .. } | Error::Tls { .. }) {
                    self.meter.authentication_failed(&self.address, error);
                }
                self.connect_errors.log_failure(client_id, &self.address, error, delay);
            }
        }
    }

    /// Closes the connection and aborts a pending attempt.
    pub(super) fn close(&self, error: &Error) {
        let mut state = lock(&self.state);
        if let Some((_, task)) = state.attempt.take() {
            task.abort();
        }
        if let Some(connection) = state.connection.take() {
            connection.poison(error.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_kind_is_logged_once() {
        let connect_errors = ConnectErrorLog::default();
        let warns = |address: &str, error: &Error| connect_errors.is_to_warn(address, error);
        let refused = Error::connection("a:1", "cannot connect: connection refused");
        let late = Error::connection("a:1", "cannot connect within 9873 ms");
        assert!(warns("a:1", &refused) && warns("b:1", &refused));
        assert!(!warns("a:1", &refused) && !warns("a:1", &late));
        let wrong = Error::authentication("a:1", "wrong password");
        assert!(warns("a:1", &wrong) && !warns("a:1", &wrong));
        connect_errors.log_connected("samsarrow-client", 1, "a:1");
        assert!(warns("a:1", &wrong) && !warns("b:1", &refused));
    }

    #[test]
    fn servers_that_are_not_kafka_are_logged_at_the_second_attempt() {
        let connect_errors = ConnectErrorLog::default();
        let http = Error::protocol("a:1", "does not speak Kafka: it responds with HTTP");
        assert_eq!([(); 3].map(|()| connect_errors.is_to_warn("a:1", &http)), [false, true, false]);
        connect_errors.log_connected("samsarrow-client", 1, "a:1");
        assert_eq!([(); 3].map(|()| connect_errors.is_to_warn("a:1", &http)), [false, true, false]);
    }

    #[test]
    fn loads_sort_by_expected_delay() {
        let long_ago = Instant::now();
        let now = long_ago + Duration::from_secs(1);
        let mut loads =
            [Load::Failed(now), Load::Busy(3), Load::Untried, Load::Failed(long_ago), Load::Idle, Load::Busy(1)];
        loads.sort();
        let expected =
            [Load::Idle, Load::Untried, Load::Busy(1), Load::Busy(3), Load::Failed(long_ago), Load::Failed(now)];
        assert_eq!(loads, expected);
    }
}
