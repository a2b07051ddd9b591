//! The way to one broker.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::backoff::Backoff;
use crate::config::CommonOptions;
use crate::connection::Connection;
use crate::error::{Error, Result};

/// The way to one broker: a connection when there is one, a wait when there was none to be had.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: String,
    pub(super) state: tokio::sync::Mutex<LinkState>,
}

#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) connection: Option<Arc<Connection>>,
    backoff: Backoff,
    failure: Option<(Instant, Duration, Error)>,
}

impl Link {
    pub(super) fn new(address: String, options: &CommonOptions) -> Self {
        let backoff = Backoff::new(options.reconnect_backoff, options.reconnect_backoff_max);
        Self { address, state: tokio::sync::Mutex::new(LinkState { connection: None, backoff, failure: None }) }
    }

    /// The open connection, or a new one. Whoever waited while another failed to connect shares that failure.
    pub(super) async fn connection(&self, options: &CommonOptions, deadline: Instant) -> Result<Arc<Connection>> {
        let asked = Instant::now();
        let late = || Error::connection(self.address.clone(), "no connection could be made in time");
        let mut state = timeout_at(deadline, self.state.lock()).await.map_err(|_| late())?;
        if let Some(open) = state.connection.as_ref().filter(|open| open.broken().is_none()) {
            return Ok(Arc::clone(open));
        }
        state.connection = None;
        if let Some((when, wait, error)) = &state.failure {
            if *when > asked {
                return Err(error.clone());
            }
            let (until, error) = (*when + *wait, error.clone());
            if until > deadline {
                return Err(error);
            }
            tokio::time::sleep_until(until).await;
        }
        // Our deadline says nothing about the broker: the next in turn may have more time.
        let Ok(attempt) = timeout_at(deadline, Connection::open(&self.address, options)).await else {
            // What was wrong the last time tells more than that there was no time for this one.
            return Err(state.failure.as_ref().map_or_else(late, |(.., error)| error.clone()));
        };
        match attempt {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.connection = Some(Arc::clone(&connection));
                state.failure = None;
                state.backoff.reset();
                Ok(connection)
            }
            Err(error) => {
                tracing::debug!(%error, "cannot connect");
                let wait = state.backoff.next_delay();
                state.failure = Some((Instant::now(), wait, error.clone()));
                Err(error)
            }
        }
    }
}
