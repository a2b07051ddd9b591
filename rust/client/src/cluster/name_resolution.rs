//! Names of the bootstrap servers that cannot be resolved yet (KIP-909, `bootstrap.resolve.timeout.ms`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{Cluster, PendingResponse, first_completed};
use crate::error::{Error, Result};
use crate::net::{CallerDeadline, resolve};
use crate::retry::backoff::Backoff;
use crate::types::join_limited;

/// Minimum delay before another lookup, whatever `reconnect.backoff.ms` is.
const MIN_DELAY: Duration = Duration::from_millis(20);

/// State of the resolution, shared by all calls of a client.
#[derive(Debug, Default)]
pub(super) struct NameResolution {
    /// End of the time for the first resolution, which begins with the first call.
    deadline: OnceLock<Instant>,
    /// True once any name was resolved.
    resolved: AtomicBool,
    /// Error of all calls after the deadline.
    failure: OnceLock<Error>,
}

impl Cluster {
    /// Waits until any name of a bootstrap server can be resolved. Without `bootstrap.resolve.timeout.ms`, connection
    /// attempts resolve the names, and each call repeats them until its own timeout.
    ///
    /// # Errors
    /// Fails with [`Error::BootstrapResolution`] if no name was resolved in time since the first call of the client, and
    /// with a retriable error if the caller's time is over before that.
    pub(super) async fn resolve_bootstrap(&self, patience: CallerDeadline) -> Result<()> {
        let (options, state) = (self.options(), &self.inner.name_resolution);
        let limit = options.bootstrap_resolve_timeout;
        if limit.is_zero() || state.resolved.load(Ordering::Acquire) {
            return Ok(());
        }
        let deadline = *state.deadline.get_or_init(|| Instant::now() + limit);
        let mut backoff = Backoff::new(options.reconnect_backoff.max(MIN_DELAY), options.reconnect_backoff_max);
        loop {
            if let Some(error) = state.failure.get() {
                return Err(error.clone());
            }
            // A call that starts after the deadline also looks the names up: earlier calls may have been short.
            let left = Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
            let attempt = patience.left().min(left.unwrap_or(Duration::MAX)).min(options.connection_setup_timeout);
            let lookup = |server| -> PendingResponse<'_, _> { Box::pin(resolve(server, attempt)) };
            let mut running: Vec<_> = options.bootstrap_servers.iter().map(|server| lookup(server)).collect();
            let mut failure = None;
            while !running.is_empty() {
                match first_completed(&mut running).await {
                    Ok(addresses) if !addresses.is_empty() => {
                        state.resolved.store(true, Ordering::Release);
                        return Ok(());
                    }
                    Ok(_) => {}
                    Err(error) => failure = Some(error),
                }
            }
            let now = Instant::now();
            if now >= deadline {
                let names = join_limited(&options.bootstrap_servers);
                let reason = failure.map_or_else(|| "they have no address".to_owned(), |error| error.to_string());
                let error = Error::BootstrapResolution(format!(
                    "no bootstrap server of {names} could be resolved within bootstrap.resolve.timeout.ms ({} ms): \
                     {reason}. Check the names and the DNS, then create another client",
                    limit.as_millis()
                ));
                return Err(state.failure.get_or_init(|| error).clone());
            }
            if patience.left().is_zero() {
                return Err(Error::timeout_because("the lookup of the bootstrap servers", patience.whole(), failure));
            }
            sleep_until((now + backoff.next_delay()).min(deadline).min(now + patience.left())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use samsarrow_broker::{Broker, BrokerOptions};

    use super::*;
    use crate::config::{ClientKind, OptionValue, Options};

    const UNKNOWN: &str = "no-such-host.invalid:9092";
    const SOON: Duration = Duration::from_secs(10);

    fn cluster(servers: &str, limit: &str) -> Cluster {
        let pairs = [("bootstrap.servers", servers), ("bootstrap.resolve.timeout.ms", limit)];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), OptionValue::Str(value.to_owned())));
        Cluster::new(&Options::parse(ClientKind::Admin, pairs).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn names_that_stay_unknown_end_the_client() {
        let cluster = cluster(UNKNOWN, "300");
        // The time of a call may be shorter.
        let error = cluster.refresh(Duration::from_millis(50)).await.unwrap_err();
        assert!(error.retriable(), "{error}");
        let error = cluster.refresh(SOON).await.unwrap_err();
        assert!(error.fatal() && !error.retriable() && error.name() == "BootstrapResolutionError", "{error:?}");
        assert!(error.to_string().contains(UNKNOWN) && error.to_string().contains("300 ms"), "{error}");
        let started = Instant::now();
        assert_eq!(cluster.refresh(SOON).await.unwrap_err(), error);
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn one_known_name_is_enough() {
        let broker = Broker::start(BrokerOptions::default()).await.unwrap();
        let cluster = cluster(&format!("{UNKNOWN},{}", broker.bootstrap_servers()), "5000");
        cluster.refresh(SOON).await.unwrap();
        broker.shutdown().await;
    }

    #[tokio::test]
    async fn without_a_limit_calls_end_with_their_own_timeout() {
        let error = cluster(UNKNOWN, "0").refresh(Duration::from_millis(200)).await.unwrap_err();
        assert!(error.retriable() && error.to_string().contains("no-such-host.invalid"), "{error}");
    }
}
