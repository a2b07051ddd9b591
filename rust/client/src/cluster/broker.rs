//! The way to one broker: a connection when there is one, a wait when there was none to be had.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::{Error, Result};
use crate::metrics::NodeMeter;
use crate::net::{Connection, Patience, Setup};
use crate::retry::backoff::Backoff;

/// Addresses that cannot be reached, so that each trouble is logged once and not with every attempt.
#[derive(Debug, Default)]
pub(super) struct Troubles(Mutex<HashMap<String, Trouble>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Unreachable,
    NotKafka,
    NotLetIn,
}

impl Trouble {
    fn of(error: &Error) -> Self {
        match error {
            Error::Protocol { .. } => Self::NotKafka,
            Error::Tls { .. } | Error::Authentication { .. } => Self::NotLetIn,
            _ => Self::Unreachable,
        }
    }
}

impl Troubles {
    fn met(&self, address: &str, error: &Error) {
        if !self.is_news(address, error) {
            tracing::debug!(%error, "cannot connect to the broker");
        } else if Trouble::of(error) == Trouble::NotLetIn {
            tracing::warn!(%error, "the broker cannot be used: it is tried again, and logged when that has changed");
        } else {
            tracing::warn!(%error, "cannot connect to the broker: it is tried again, and logged when it is reached");
        }
    }

    fn is_news(&self, address: &str, error: &Error) -> bool {
        let trouble = Trouble::of(error);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(address.to_owned(), trouble) != Some(trouble)
    }

    fn over(&self, address: &str) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(address).is_some() {
            tracing::info!(address, "connected to the broker");
        }
    }
}

/// What becomes of an attempt to connect; anyone who wants a connection meanwhile shares it.
type Attempt = watch::Receiver<Option<Result<Arc<Connection>>>>;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: String,
    setup: Arc<Setup>,
    troubles: Arc<Troubles>,
    meter: NodeMeter,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: Option<Arc<Connection>>,
    attempt: Option<(Attempt, AbortHandle)>,
    backoff: Backoff,
    /// Grows with each failure (`socket.connection.setup.timeout.max.ms`).
    setup: Backoff,
    failure: Option<Failure>,
    /// The last connection ended with its first request.
    cut_short: bool,
}

#[derive(Debug)]
struct Failure {
    at: Instant,
    /// Nobody tries again before.
    until: Instant,
    error: Error,
}

/// How soon a broker could answer, the soonest first. It works on one request of a connection at a time: a new
/// connection is better than one with requests before ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
    /// Connected to, and nothing is asked.
    Idle,
    /// To be connected to.
    Untried,
    /// Connected to, with this many requests to answer first.
    Busy(usize),
    /// Could not be connected to, the longest ago first.
    Failed(Instant),
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some((_, task)) = self.state().attempt.take() {
            task.abort();
        }
    }
}

impl Link {
    pub(super) fn new(address: String, setup: Arc<Setup>, troubles: Arc<Troubles>, meter: NodeMeter) -> Self {
        let options = &setup.options;
        let state = State {
            connection: None,
            attempt: None,
            backoff: Backoff::new(options.reconnect_backoff, options.reconnect_backoff_max),
            setup: Backoff::new(options.connection_setup_timeout, options.connection_setup_timeout_max),
            failure: None,
            cut_short: false,
        };
        Self { address, setup, troubles, meter, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that is open now.
    pub(super) fn open(&self) -> Option<Arc<Connection>> {
        self.state().connection.as_ref().filter(|open| open.broken().is_none()).cloned()
    }

    pub(super) fn load(&self) -> Load {
        match (self.open(), &self.state().failure) {
            (Some(open), _) => match open.load() {
                0 => Load::Idle,
                requests => Load::Busy(requests),
            },
            (None, None) => Load::Untried,
            (None, Some(failure)) => Load::Failed(failure.at),
        }
    }

    /// The open connection, or a new one. Connecting goes on when a caller's patience is over: the next may have more.
    pub(super) async fn connection(self: &Arc<Self>, patience: Patience) -> Result<Arc<Connection>> {
        let mut attempt = {
            let mut state = self.state();
            if let Some(open) = state.connection.as_ref().filter(|open| open.broken().is_none()) {
                return Ok(Arc::clone(open));
            }
            if let Some(broken) = state.connection.take() {
                state.cut_short = broken.was_cut_short();
            }
            // Also while somebody tries: credentials that were just refused are not worth a wait.
            if let Some(error) = self.setup.security.attempts.refused() {
                return Err(error);
            }
            if let Some(failure) = state.failure.as_ref().filter(|failure| failure.until > patience.until()) {
                return Err(failure.error.clone());
            }
            match &state.attempt {
                Some((attempt, _)) => attempt.clone(),
                None => self.start(&mut state),
            }
        };
        let ended = tokio::select! {
            biased;
            ended = timeout_at(patience.until(), attempt.wait_for(Option::is_some)) => ended,
            error = self.setup.security.attempts.refusal() => return Err(error),
        };
        match ended {
            Ok(Ok(ended)) => ended.clone().unwrap_or_else(|| Err(self.late())),
            Ok(Err(_)) => Err(Error::connection(self.address.clone(), "the connection was given up")),
            // What was wrong the last time says more than that there was no time for this one.
            Err(_) => Err(self.state().failure.as_ref().map_or_else(|| self.late(), |failure| failure.error.clone())),
        }
    }

    fn late(&self) -> Error {
        Error::connection(self.address.clone(), "no connection could be made in time")
    }

    fn start(self: &Arc<Self>, state: &mut State) -> Attempt {
        let (outcome, attempt) = watch::channel(None);
        let limit = match self.setup.options.connection_setup_timeout {
            limit if limit >= self.setup.options.connection_setup_timeout_max => limit,
            _ => state.setup.next_delay(),
        };
        let not_before = state.failure.as_ref().map(|failure| failure.until);
        let (link, address, setup) = (Arc::downgrade(self), self.address.clone(), Arc::clone(&self.setup));
        let wary = state.cut_short;
        let task = tokio::spawn(async move {
            if let Some(until) = not_before {
                sleep_until(until).await;
            }
            let opened = Connection::open_within(&address, &setup, limit, wary).await.map(Arc::new);
            if let Some(link) = Weak::upgrade(&link) {
                link.ended(&opened);
                outcome.send_replace(Some(opened));
            }
        });
        state.attempt = Some((attempt.clone(), task.abort_handle()));
        attempt
    }

    fn ended(&self, opened: &Result<Arc<Connection>>) {
        let mut state = self.state();
        state.attempt = None;
        match opened {
            Ok(connection) => {
                let login = self.setup.security.login.is_some();
                connection.count_with(self.meter.connected(&self.address, login));
                state.connection = Some(Arc::clone(connection));
                state.failure = None;
                state.backoff.reset();
                state.setup.reset();
                self.troubles.over(&self.address);
            }
            Err(error) => {
                let at = Instant::now();
                let until = at + state.backoff.next_delay();
                state.failure = Some(Failure { at, until, error: error.clone() });
                if matches!(error, Error::Authentication { .. } | Error::Tls { .. }) {
                    self.meter.refused(&self.address, error);
                }
                self.troubles.met(&self.address, error);
            }
        }
    }

    /// Ends the connection and every attempt to make one.
    pub(super) fn close(&self, error: &Error) {
        let mut state = self.state();
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_trouble_is_news_once() {
        let troubles = Troubles::default();
        let refused = Error::connection("a:1", "cannot connect: connection refused");
        let late = Error::connection("a:1", "cannot connect within 9873 ms");
        let http = Error::protocol("a:1", "does not speak Kafka: it answers in HTTP");
        assert!(troubles.is_news("a:1", &refused) && troubles.is_news("b:1", &refused));
        assert!(!troubles.is_news("a:1", &refused) && !troubles.is_news("a:1", &late));
        assert!(troubles.is_news("a:1", &http) && !troubles.is_news("a:1", &http));
        troubles.over("a:1");
        assert!(troubles.is_news("a:1", &http) && !troubles.is_news("b:1", &refused));
        let wrong = Error::authentication("a:1", "wrong password");
        assert!(troubles.is_news("a:1", &wrong) && !troubles.is_news("a:1", &wrong));
    }

    #[test]
    fn the_least_loaded_come_first() {
        let long_ago = Instant::now();
        let now = long_ago + Duration::from_secs(1);
        let mut loads =
            [Load::Failed(now), Load::Busy(3), Load::Untried, Load::Failed(long_ago), Load::Idle, Load::Busy(1)];
        loads.sort();
        let wanted =
            [Load::Idle, Load::Untried, Load::Busy(1), Load::Busy(3), Load::Failed(long_ago), Load::Failed(now)];
        assert_eq!(loads, wanted);
    }
}
