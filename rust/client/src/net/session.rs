//! Re-authentication (KIP-368): the client logs in again on the same connection before its session ends.
//!
//! The first request after the due time starts the login, so that idle connections stay idle. Tokens and tickets are
//! obtained while requests are still sent. After that, requests are held back until the broker has responded to the
//! requests in flight and the login has completed. The held requests are then sent in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::Connection;
use super::in_flight::{InFlight, Pending};
use crate::error::{Error, Result};

/// Minimum time between logins, because Kafka accepts only one login per second on a connection.
const MIN_LOGIN_INTERVAL: Duration = Duration::from_millis(1050);

impl Connection {
    /// Renews the session, or closes the connection if the renewal fails.
    pub(super) async fn renew(self: Arc<Self>) {
        if let Err(error) = self.try_renew().await {
            tracing::warn!(
                client_id = self.client_id(),
                "cannot log in again to {}, so the connection is closed, and a new one is opened: {}",
                self.address(),
                error.text_without(self.address())
            );
            self.poison(error);
        }
    }

    async fn try_renew(&self) -> Result<()> {
        let Some(login) = &self.setup.security.login else { return Ok(()) };
        let session_start = self.shared.in_flight().reauth.session_start();
        sleep_until(session_start.unwrap_or_else(Instant::now) + MIN_LOGIN_INTERVAL).await;
        let ready = async {
            let attempt = self.setup.security.login_backoff.acquire().await?;
            match login.prepare(self.host()).await {
                Ok(prepared) => Ok((attempt, prepared)),
                Err(error) => {
                    let error = Err(error);
                    attempt.finish(&error);
                    error
                }
            }
        };
        let late = || Error::connection(self.address(), "the login could not be prepared in time");
        let (attempt, prepared) = match timeout(self.login_limit, ready).await.unwrap_or_else(|_| Err(late())) {
            Ok(ready) => ready,
            Err(error) => {
                let mut in_flight = self.shared.in_flight();
                if !in_flight.reauth.postpone(Instant::now()) {
                    return Err(error);
                }
                tracing::warn!(
                    client_id = self.client_id(),
                    "cannot log in again to {} yet, and retries before the session ends: {}",
                    self.address(),
                    error.text_without(self.address())
                );
                return self.flush(&mut in_flight);
            }
        };
        self.shared.in_flight().reauth.hold_requests();
        self.wait_until_drained().await?;
        // One of the last responses may have a throttle time, during which the broker reads no login either.
        self.wait_for_throttle().await;
        self.shared.logging_in.store(true, Ordering::Release);
        let login = login.authenticate(self, self.versions(), self.host(), Some(prepared));
        let limit = self.login_limit;
        let outcome = timeout(limit, login).await.unwrap_or_else(|_| {
            Err(Error::connection(self.address(), format!("the login took longer than {} ms", limit.as_millis())))
        });
        let outcome = outcome.map_err(principal_change);
        attempt.finish(&outcome);
        let session = outcome?;
        self.shared.logging_in.store(false, Ordering::Release);
        tracing::debug!(
            client_id = self.client_id(),
            session = ?session.lifetime,
            "logged in again to {} on the same connection",
            self.address()
        );
        // The lock is held until the held requests are queued, so that no new request is sent before them.
        let mut in_flight = self.shared.in_flight();
        in_flight.reauth.session_started(session);
        self.flush(&mut in_flight)
    }

    /// Waits until no request is in flight.
    async fn wait_until_drained(&self) -> Result<()> {
        loop {
            if let Some(error) = self.broken() {
                return Err(error);
            }
            if self.shared.in_flight().pending.is_empty() {
                return Ok(());
            }
            self.shared.drained.notified().await;
        }
    }

    /// Sends the held requests, except those whose callers no longer wait.
    fn flush(&self, in_flight: &mut InFlight) -> Result<()> {
        for (outgoing, pending) in std::mem::take(&mut in_flight.held) {
            match pending {
                Some(pending) if pending.reply.is_abandoned() => {}
                Some(pending) => {
                    let expires = pending.limit.end();
                    self.push(in_flight, outgoing, Some(Pending { expires, ..pending }))?;
                }
                None => self.push(in_flight, outgoing, None)?,
            }
        }
        Ok(())
    }
}

/// Converts the error about a changed principal to a connection error. The principal of a connection cannot change, but
/// a new connection may succeed with the same credentials.
fn principal_change(error: Error) -> Error {
    match error {
        Error::Authentication { address, reason, .. } if reason.contains("Cannot change principals") => {
            Error::Connection { address, reason }
        }
        other => other,
    }
}
