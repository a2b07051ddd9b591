//! Sessions that end (KIP-368): a client logs in again on the same connection, in time and between its requests.
//!
//! Anyone who sends a request when the time has come starts it, so that idle connections stay idle. Tokens and tickets are
//! got while requests still pass; then they are held, the broker answers what is in flight, the login goes over the
//! wire, and what was held follows it in its order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::Connection;
use super::in_flight::{Pending, Waiting};
use crate::error::{Error, Result};

/// Kafka takes one login a second on a connection.
const LEAST_BETWEEN: Duration = Duration::from_millis(1050);

impl Connection {
    /// Renews the session, or ends the connection.
    pub(super) async fn renew(self: Arc<Self>) {
        if let Err(error) = self.renewed().await {
            tracing::warn!(address = self.address(), %error, "the login could not be renewed: the connection ends");
            self.poison(error);
        }
    }

    async fn renewed(&self) -> Result<()> {
        let Some(login) = &self.setup.security.login else { return Ok(()) };
        let since = self.shared.waiting().gate.since();
        sleep_until(since.unwrap_or_else(Instant::now) + LEAST_BETWEEN).await;
        let ready = async {
            let turn = self.setup.security.attempts.turn().await?;
            match login.prepare(self.host()).await {
                Ok(prepared) => Ok((turn, prepared)),
                Err(error) => {
                    let error = Err(error);
                    turn.ended(&error);
                    error
                }
            }
        };
        let late = || Error::connection(self.address(), "the login could not be prepared in time");
        let (turn, prepared) = match timeout(self.login_limit, ready).await.unwrap_or_else(|_| Err(late())) {
            Ok(ready) => ready,
            Err(error) => {
                let mut waiting = self.shared.waiting();
                if !waiting.gate.postpone(Instant::now()) {
                    return Err(error);
                }
                tracing::warn!(address = self.address(), %error, "the login cannot be renewed yet");
                return self.flush(&mut waiting);
            }
        };
        self.shared.waiting().gate.close();
        self.drained().await?;
        self.shared.login.store(true, Ordering::Release);
        let login = login.authenticate(self, self.versions(), self.host(), Some(prepared));
        let limit = self.login_limit;
        let outcome = timeout(limit, login).await.unwrap_or_else(|_| {
            Err(Error::connection(self.address(), format!("the login took longer than {} ms", limit.as_millis())))
        });
        let outcome = outcome.map_err(of_another);
        turn.ended(&outcome);
        let session = outcome?;
        self.shared.login.store(false, Ordering::Release);
        tracing::debug!(address = self.address(), lifetime = ?session.lifetime, "logged in again");
        // In one step: nobody may overtake what was held.
        let mut waiting = self.shared.waiting();
        waiting.gate.begin(session);
        self.flush(&mut waiting)
    }

    /// Waits until nothing is in flight.
    async fn drained(&self) -> Result<()> {
        loop {
            if let Some(error) = self.broken() {
                return Err(error);
            }
            if self.shared.waiting().pending.is_empty() {
                return Ok(());
            }
            self.shared.drained.notified().await;
        }
    }

    /// Sends what was held and is still wanted.
    fn flush(&self, waiting: &mut Waiting) -> Result<()> {
        for (outgoing, pending) in std::mem::take(&mut waiting.held) {
            match pending {
                Some(pending) if pending.reply.is_given_up() => {}
                Some(pending) => {
                    let expires = pending.limit.end();
                    self.push(waiting, outgoing, Some(Pending { expires, ..pending }))?;
                }
                None => self.push(waiting, outgoing, None)?,
            }
        }
        Ok(())
    }
}

/// A connection stays with whom it began, so another principal is a matter of a new one, not of wrong credentials.
fn of_another(error: Error) -> Error {
    match error {
        Error::Authentication { address, reason, .. } if reason.contains("Cannot change principals") => {
            Error::Connection { address, reason }
        }
        other => other,
    }
}
