//! Selection of a broker for requests that any broker can serve.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use samsarrow_wire::messages::Request;
use samsarrow_wire::sync::lock;
use tokio::time::{Instant, sleep_until};

use super::broker::Load;
use super::{Cluster, ConnectionKind};
use crate::config::Recovery;
use crate::error::{Error, Result};
use crate::net::{CallerDeadline, resolve};

/// Range of the time that a broker has to respond before the request is also sent to the next broker.
const MIN_TIME_SLICE: Duration = Duration::from_secs(1);
const MAX_TIME_SLICE: Duration = Duration::from_secs(10);

pub(crate) type PendingResponse<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Number of unreachable brokers after which further attempts are delayed. Without a delay, a client that has lost a
/// cluster of thousands of brokers would open thousands of connections per second.
const UNDELAYED_ATTEMPTS: usize = 10;

impl Cluster {
    /// Sends a request to any reachable broker, trying the least loaded broker first.
    pub async fn send_any<R: Request + Clone + Sync>(
        &self,
        request: R,
        patience: impl Into<CallerDeadline>,
    ) -> Result<R::Response>
    where
        R::Response: Send + 'static,
    {
        self.send_any_with(patience, |_| Ok(request.clone())).await.map(|(_, response)| response)
    }

    /// Like [`Self::send_any`], but builds the request for the negotiated version and also returns that version.
    ///
    /// If a broker does not respond in its time slice, the request is also sent to the next broker, and the first
    /// response counts. This way, brokers that accept requests but never respond do not use up the time of working
    /// brokers.
    pub async fn send_any_with<R: Request>(
        &self,
        patience: impl Into<CallerDeadline>,
        build: impl Fn(i16) -> Result<R> + Sync,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let patience = patience.into();
        let (cluster, build) = (&self.control(), &build);
        let send = |node| -> PendingResponse<'_, _> { Box::pin(cluster.send_with(node, patience, build)) };
        cluster.first_response(R::KEY.name(), patience, &send).await
    }

    /// Returns a handle with [`ConnectionKind::Control`], the kind of connection for requests to any broker.
    pub(crate) fn control(&self) -> Cluster {
        self.with_connections(ConnectionKind::Control)
    }

    /// Returns the first response for [`Self::send_any_with`]. `send` sends the request to one broker.
    ///
    /// This method is generic over the response type only, so that it is compiled once per response type and not once
    /// per request closure.
    pub(crate) async fn first_response<'a, T>(
        &self,
        api: &str,
        patience: CallerDeadline,
        send: &(dyn Fn(i32) -> PendingResponse<'a, T> + Sync + 'a),
    ) -> Result<T> {
        self.resolve_bootstrap(patience).await?;
        self.expand_bootstrap(patience).await;
        let mut candidates = self.candidates().into_iter();
        let time_slice = time_slice(patience.left(), candidates.len());
        let mut running: Vec<PendingResponse<'a, T>> = Vec::new();
        let mut failure = None;
        let mut next_attempt = Instant::now();
        let (mut unreachable, mut backoff) = (0, self.backoff());
        loop {
            let out_of_time = patience.left().is_zero();
            if next_attempt <= Instant::now()
                && !out_of_time
                && let Some(node) = candidates.next()
            {
                running.push(send(node));
                next_attempt = Instant::now() + time_slice;
            }
            let more = candidates.len() > 0 && !out_of_time;
            if running.is_empty() && !more {
                break;
            }
            let result = tokio::select! {
                result = first_completed(&mut running) => result,
                () = sleep_until(next_attempt.min(Instant::now() + patience.left())), if more => continue,
            };
            match result {
                Ok(response) => return Ok(response),
                Err(
                    error @ (Error::Connection { .. }
                    | Error::Protocol { .. }
                    | Error::Tls { .. }
                    | Error::Timeout { .. }),
                ) => {
                    // A protocol or TLS error is more specific than an unreachable broker, so it is kept.
                    if !matches!(failure, Some(Error::Protocol { .. } | Error::Tls { .. })) {
                        failure = Some(error);
                    }
                    unreachable += 1;
                    let delay = if unreachable < UNDELAYED_ATTEMPTS { Duration::ZERO } else { backoff.next_delay() };
                    next_attempt = Instant::now() + delay;
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::timeout(format!("{api} to any broker"), patience.whole())))
    }

    /// Returns the brokers to try, in this order.
    ///
    /// Connected and idle brokers come first. After them, known brokers alternate with bootstrap servers, because all
    /// known brokers may be gone or unresponsive (KIP-899).
    fn candidates(&self) -> Vec<i32> {
        let known = self.by_load(self.metadata().brokers.keys().copied().collect());
        let bootstrap = (0..self.bootstrap().len()).map(|i| -1 - i as i32).collect();
        let bootstrap = match self.options().metadata_recovery {
            Recovery::None if !known.is_empty() => Vec::new(),
            _ => self.by_load(bootstrap),
        };
        let idle = |(load, _): &(Load, i32)| *load == Load::Idle;
        let (known, others) = known.split_at(known.partition_point(idle));
        let (spare, bootstrap) = bootstrap.split_at(bootstrap.partition_point(idle));
        let mut nodes: Vec<i32> = known.iter().chain(spare).map(|(_, node)| *node).collect();
        let (mut others, mut bootstrap) = (others.iter(), bootstrap.iter());
        loop {
            let before = nodes.len();
            nodes.extend(others.next().map(|(_, node)| *node));
            nodes.extend(bootstrap.next().map(|(_, node)| *node));
            if nodes.len() == before {
                return nodes;
            }
        }
    }

    /// Returns the bootstrap servers. Their broker ids are −1, −2, …
    pub(super) fn bootstrap(&self) -> &[String] {
        self.inner.bootstrap.get().map_or(&self.options().bootstrap_servers, Vec::as_slice)
    }

    /// Resolves the bootstrap servers to all their addresses, but only once and if `client.dns.lookup` requires it.
    async fn expand_bootstrap(&self, patience: CallerDeadline) {
        let options = self.options();
        if !options.expand_bootstrap_servers || self.inner.bootstrap.initialized() {
            return;
        }
        let expand = || async {
            let mut expanded = Vec::new();
            for server in &options.bootstrap_servers {
                let limit = options.connection_setup_timeout.min(patience.left());
                let addresses = resolve(server, limit).await?;
                expanded.extend(addresses.iter().map(ToString::to_string));
            }
            Ok::<_, Error>(expanded)
        };
        if let Err(error) = self.inner.bootstrap.get_or_try_init(expand).await {
            let client_id = self.client_id();
            tracing::debug!(client_id, "cannot resolve the bootstrap servers, and connects by name: {error}");
        }
    }

    fn by_load(&self, mut nodes: Vec<i32>) -> Vec<(Load, i32)> {
        fastrand::shuffle(&mut nodes);
        let handles = lock(&self.inner.handles);
        let load = |node| handles.get(&(node, self.connection_kind)).map_or(Load::Untried, |handle| handle.load());
        let mut nodes: Vec<(Load, i32)> = nodes.into_iter().map(|node| (load(node), node)).collect();
        nodes.sort_by_key(|(load, _)| *load);
        nodes
    }
}

/// Returns the time to wait for one of `candidates` brokers before the next broker is tried.
fn time_slice(remaining: Duration, candidates: usize) -> Duration {
    let fair = remaining / u32::try_from(candidates.max(1)).unwrap_or(u32::MAX);
    fair.clamp(MIN_TIME_SLICE.min(remaining / 2), MAX_TIME_SLICE)
}

/// Waits until one of the futures completes, removes it from the list and returns its output.
pub(crate) async fn first_completed<T>(running: &mut Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> T {
    std::future::poll_fn(|cx| {
        let completed = running.iter_mut().enumerate().find_map(|(index, future)| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some((index, output)),
            Poll::Pending => None,
        });
        match completed {
            Some((index, output)) => {
                drop(running.swap_remove(index));
                Poll::Ready(output)
            }
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_slice_is_bounded() {
        let seconds = Duration::from_secs;
        assert_eq!(time_slice(seconds(30), 4), Duration::from_millis(7500));
        assert_eq!(time_slice(seconds(30), 1), MAX_TIME_SLICE);
        assert_eq!(time_slice(seconds(30), 1000), MIN_TIME_SLICE);
        assert_eq!(time_slice(Duration::from_millis(400), 1000), Duration::from_millis(200));
        assert_eq!(time_slice(Duration::ZERO, 0), Duration::ZERO);
    }
}
