//! Which broker to ask when any will do.

use std::pin::Pin;
use std::sync::PoisonError;
use std::task::Poll;
use std::time::Duration;

use samsarrow_wire::messages::Request;
use tokio::time::{Instant, sleep_until};

use super::broker::Load;
use super::{Cluster, Lane};
use crate::config::Recovery;
use crate::error::{Error, Result};
use crate::net::{Patience, resolve};

/// A broker has this part of the time to itself before the next is asked as well.
const SHORTEST_TURN: Duration = Duration::from_secs(1);
const LONGEST_TURN: Duration = Duration::from_secs(10);

/// An answer that is waited for.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl Cluster {
    /// Sends a request to any broker that can be reached, the one that has least to do for us first.
    pub async fn send_any<R: Request + Clone + Sync>(
        &self,
        request: R,
        patience: impl Into<Patience>,
    ) -> Result<R::Response>
    where
        R::Response: Send + 'static,
    {
        self.send_any_with(patience, |_| Ok(request.clone())).await.map(|(_, response)| response)
    }

    /// The same with a request that is built for the version in use, which is returned too.
    ///
    /// A broker that does not answer in its turn keeps its time, and the next is asked as well: brokers that swallow what
    /// they are sent cannot use up the time of those that work.
    pub async fn send_any_with<R: Request>(
        &self,
        patience: impl Into<Patience>,
        build: impl Fn(i16) -> Result<R> + Sync,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let patience = patience.into();
        let (cluster, build) = (&self.control(), &build);
        let send = |node| -> Answer<'_, _> { Box::pin(cluster.send_with(node, patience, build)) };
        cluster.first_answer(R::KEY.name(), patience, &send).await
    }

    /// The same cluster over the connections that answer at once: anyone who is asked for anything at all is asked there.
    pub(crate) fn control(&self) -> Cluster {
        self.lane(Lane::Control)
    }

    /// The first answer of [`Self::send_any_with`], where `send` asks a broker: compiled for a kind of answer, and not
    /// for each kind of request.
    pub(crate) async fn first_answer<'a, T>(
        &self,
        api: &str,
        patience: Patience,
        send: &(dyn Fn(i32) -> Answer<'a, T> + Sync + 'a),
    ) -> Result<T> {
        self.expand_bootstrap(patience).await;
        let mut candidates = self.candidates().into_iter();
        let turn = turn(patience.left(), candidates.len());
        let mut running: Vec<Answer<'a, T>> = Vec::new();
        let mut failure = None;
        let mut next_at = Instant::now();
        loop {
            let out_of_time = patience.left().is_zero();
            if next_at <= Instant::now()
                && !out_of_time
                && let Some(node) = candidates.next()
            {
                running.push(send(node));
                next_at = Instant::now() + turn;
            }
            if running.is_empty() {
                break;
            }
            let more = candidates.len() > 0 && !out_of_time;
            let answer = tokio::select! {
                answer = first_of(&mut running) => answer,
                () = sleep_until(next_at), if more => continue,
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(
                    error @ (Error::Connection { .. }
                    | Error::Protocol { .. }
                    | Error::Tls { .. }
                    | Error::Timeout { .. }),
                ) => {
                    // A peer that cannot be spoken to is worth more in an error than one that is merely down.
                    if !matches!(failure, Some(Error::Protocol { .. } | Error::Tls { .. })) {
                        failure = Some(error);
                    }
                    next_at = Instant::now();
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::timeout(format!("{api} to any broker"), patience.whole())))
    }

    /// Brokers to ask, the best first: those that are connected to and idle, then by turns another of the cluster and a
    /// bootstrap server. The known ones may all be gone, or swallow what they are sent (KIP-899).
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

    /// The servers to start from, by their ids −1, −2, …
    pub(super) fn bootstrap(&self) -> &[String] {
        self.inner.bootstrap.get().map_or(&self.options().bootstrap_servers, Vec::as_slice)
    }

    /// Puts the addresses of bootstrap servers in the place of their names, once and where that is wanted.
    async fn expand_bootstrap(&self, patience: Patience) {
        let options = self.options();
        if !options.expand_bootstrap_servers || self.inner.bootstrap.initialized() {
            return;
        }
        let expand = || async {
            let mut expanded = Vec::new();
            for server in &options.bootstrap_servers {
                let limit = options.connection_setup_timeout.min(patience.left());
                let found = resolve(server, limit).await?;
                expanded.extend(found.iter().map(ToString::to_string));
            }
            Ok::<_, Error>(expanded)
        };
        if let Err(error) = self.inner.bootstrap.get_or_try_init(expand).await {
            tracing::debug!(%error, "bootstrap servers are tried by name");
        }
    }

    fn by_load(&self, mut nodes: Vec<i32>) -> Vec<(Load, i32)> {
        fastrand::shuffle(&mut nodes);
        let links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
        let load = |node| links.get(&(node, self.lane)).map_or(Load::Untried, |link| link.load());
        let mut nodes: Vec<(Load, i32)> = nodes.into_iter().map(|node| (load(node), node)).collect();
        nodes.sort_by_key(|(load, _)| *load);
        nodes
    }
}

/// How long one of this many candidates is waited for before the next is asked too.
fn turn(left: Duration, candidates: usize) -> Duration {
    let fair = left / u32::try_from(candidates.max(1)).unwrap_or(u32::MAX);
    fair.clamp(SHORTEST_TURN.min(left / 2), LONGEST_TURN)
}

/// The first of them to end, which is taken out.
pub(crate) async fn first_of<T>(running: &mut Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> T {
    std::future::poll_fn(|cx| {
        let ended = running.iter_mut().enumerate().find_map(|(at, one)| match one.as_mut().poll(cx) {
            Poll::Ready(ended) => Some((at, ended)),
            Poll::Pending => None,
        });
        match ended {
            Some((at, ended)) => {
                drop(running.swap_remove(at));
                Poll::Ready(ended)
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
    fn every_candidate_has_its_turn() {
        let seconds = Duration::from_secs;
        assert_eq!(turn(seconds(30), 4), Duration::from_millis(7500));
        assert_eq!(turn(seconds(30), 1), LONGEST_TURN);
        assert_eq!(turn(seconds(30), 1000), SHORTEST_TURN);
        assert_eq!(turn(Duration::from_millis(400), 1000), Duration::from_millis(200));
        assert_eq!(turn(Duration::ZERO, 0), Duration::ZERO);
    }
}
