//! Engine of batched admin requests.
//!
//! It routes each item to a broker, sends one request per broker, records the result of each item, and retries items
//! that failed with a retriable error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, Request};
use samsarrow_wire::sync::{into_inner, lock};

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::retry_rounds::{PendingRound, RetryRounds, RoundResult};
use super::routing::Target;
use crate::cluster::{Cluster, PendingResponse};
use crate::error::{Error, Result};
use crate::retry::Retry;

/// One of the requests that a batched request is split into.
#[derive(Debug)]
pub(super) struct RequestBatch<'a, K> {
    pub(super) version: i16,
    /// Broker id; `None` if any broker can serve the request.
    pub(super) node: Option<i32>,
    pub(super) items: &'a [K],
    /// Timeout that the broker applies. It is shorter than the client's, so that the response arrives in time.
    pub(super) timeout_ms: i32,
}

type Outcomes<K, T> = Vec<(K, Result<T>)>;

/// Result of an item.
#[derive(Debug)]
pub(super) struct Outcome<K, T> {
    pub(super) item: K,
    pub(super) result: Result<T>,
    /// True if an earlier request for the item got no response. A broker may have processed that request.
    pub(super) repeated: bool,
}

impl Admin {
    /// Sends requests until each item has a result. Returns the results in the order of `items`.
    ///
    /// If a response does not contain an item, its result is an error.
    ///
    /// # Errors
    /// Fails with an error that is not retriable and concerns all items, such as a failed login or an unsupported
    /// version, or with a timeout that contains the last error if no broker responds.
    pub(super) async fn send_batched<K, R, T>(
        &self,
        request: &BatchedRequest<K>,
        items: &[K],
        build: impl Fn(&RequestBatch<'_, K>) -> Result<R> + Sync,
        read: impl Fn(&RequestBatch<'_, K>, R::Response) -> Result<Outcomes<K, T>> + Sync,
    ) -> Result<Outcomes<K, T>>
    where
        K: Clone + Ord + Send + Sync,
        R: Request,
        R::Response: Send + 'static,
        T: Send,
    {
        self.send_batched_on(&self.cluster, request, items, build, read).await
    }

    /// Like [`Self::send_batched`], but uses the handle `cluster`, which may override API versions or the kind of
    /// connection.
    ///
    /// # Errors
    /// Fails in the same cases as [`Self::send_batched`].
    pub(super) async fn send_batched_on<K, R, T>(
        &self,
        cluster: &Cluster,
        request: &BatchedRequest<K>,
        items: &[K],
        build: impl Fn(&RequestBatch<'_, K>) -> Result<R> + Sync,
        read: impl Fn(&RequestBatch<'_, K>, R::Response) -> Result<Outcomes<K, T>> + Sync,
    ) -> Result<Outcomes<K, T>>
    where
        K: Clone + Ord + Send + Sync,
        R: Request,
        R::Response: Send + 'static,
        T: Send,
    {
        let outcomes = self.send_tracked(cluster, request, items, build, read).await?;
        Ok(outcomes.into_iter().map(|outcome| (outcome.item, outcome.result)).collect())
    }

    /// Like [`Self::send_batched_on`], but also returns which items were sent again without a response to an earlier
    /// request.
    ///
    /// # Errors
    /// Fails in the same cases as [`Self::send_batched`].
    pub(super) async fn send_tracked<K, R, T>(
        &self,
        cluster: &Cluster,
        request: &BatchedRequest<K>,
        items: &[K],
        build: impl Fn(&RequestBatch<'_, K>) -> Result<R> + Sync,
        read: impl Fn(&RequestBatch<'_, K>, R::Response) -> Result<Outcomes<K, T>> + Sync,
    ) -> Result<Vec<Outcome<K, T>>>
    where
        K: Clone + Ord + Send + Sync,
        R: Request,
        R::Response: Send + 'static,
        T: Send,
    {
        let distinct: BTreeSet<&K> = items.iter().collect();
        let distinct: Vec<&K> = distinct.into_iter().collect();
        let results = Mutex::new(BTreeMap::new());
        let collector = ResultCollector { results, distinct: &distinct, pending: AtomicBool::new(false) };
        let send = |target, indexes, limit| -> PendingRound<'_> {
            Box::pin(send_to_target(
                cluster,
                request,
                &collector,
                TargetItems { target, indexes, limit },
                &build,
                &read,
            ))
        };
        let describe = |index: usize| distinct.get(index).map_or_else(String::new, |item| (request.describe)(item));
        let rounds = RetryRounds {
            cluster,
            key: R::KEY,
            routes: request.route.for_items(&distinct),
            timeout: request.timeout,
            describe: &describe,
            pending: &collector.pending,
            send: &send,
        };
        let (mut done, unanswered) = rounds.run(distinct.len()).await?;
        let mut results = into_inner(collector.results);
        let outcomes = items.iter().filter_map(|item| {
            let index = distinct.binary_search(&item).ok()?;
            let result = match done.remove(&index)? {
                Ok(()) => Ok(results.remove(&index)?),
                Err(error) => Err(error),
            };
            Some(Outcome { item: item.clone(), result, repeated: unanswered.contains(&index) })
        });
        Ok(outcomes.collect())
    }

    /// Sends a request that has no items.
    ///
    /// # Errors
    /// Fails with the error that `read` returns, or with a timeout that contains the last error.
    pub(super) async fn send_single<R, T>(
        &self,
        route: Route<()>,
        timeout: Duration,
        build: impl Fn(&RequestBatch<'_, ()>) -> Result<R> + Sync,
        read: impl Fn(R::Response) -> Result<T> + Sync,
    ) -> Result<T>
    where
        R: Request,
        R::Response: Send + 'static,
        T: Send,
    {
        let request = BatchedRequest { route, describe: |()| String::new(), max_items: |_| usize::MAX, timeout };
        let results = self.send_batched(&request, &[()], build, |_, response| Ok(vec![((), read(response))])).await?;
        let not_sent = || Err(Error::State(format!("{} was not sent", R::KEY.name())));
        results.into_iter().next().map_or_else(not_sent, |(_, result)| result)
    }

    /// Returns the broker ids of the cluster.
    ///
    /// # Errors
    /// Fails with a timeout that contains the last error, or with `UNSUPPORTED_ENDPOINT_TYPE` if the client bootstraps
    /// from controllers.
    pub(super) async fn brokers(&self, timeout: Duration) -> Result<Vec<i32>> {
        self.cluster.check_endpoint(ApiKey::Metadata)?;
        let mut retry = Retry::new(self.cluster.options(), timeout);
        loop {
            let limit = retry.left().min(self.cluster.options().request_timeout);
            let failure = self.cluster.refresh(limit).await.err();
            let brokers: Vec<i32> = self.cluster.metadata().brokers.keys().copied().collect();
            let failure = match failure {
                None if !brokers.is_empty() => return Ok(brokers),
                None => Error::server(ErrorCode::BROKER_NOT_AVAILABLE, "Metadata"),
                Some(failure) => failure,
            };
            retry.again(failure, || "list of brokers".to_owned()).await?;
        }
    }
}

/// Collects the results of successful items, by item index.
struct ResultCollector<'a, K, T> {
    results: Mutex<BTreeMap<usize, T>>,
    /// All distinct items, in the order of their indexes.
    distinct: &'a [&'a K],
    /// True if a request was sent and its response has not arrived.
    pending: AtomicBool,
}

impl<K: Ord, T> ResultCollector<'_, K, T> {
    /// Stores the results of requested items, and returns the items' indexes and errors. Ignores items that were not
    /// requested.
    fn collect(&self, requested: &[usize], results: Outcomes<K, T>) -> Vec<(usize, Result<()>)> {
        let mut stored = lock(&self.results);
        let mut missing: BTreeSet<usize> = requested.iter().copied().collect();
        let collected = results.into_iter().filter_map(|(item, result)| {
            let index = self.distinct.binary_search(&&item).ok().filter(|index| missing.remove(index))?;
            Some((index, result.map(|value| drop(stored.insert(index, value)))))
        });
        collected.collect()
    }
}

/// Items for one target: their indexes, and the time limit of the requests.
struct TargetItems {
    target: Target,
    indexes: Vec<usize>,
    limit: Duration,
}

/// Sends the items of one target. If they exceed the maximum number of items per request, sends several requests one
/// after another.
async fn send_to_target<K, R, T>(
    cluster: &Cluster,
    request: &BatchedRequest<K>,
    collector: &ResultCollector<'_, K, T>,
    target_items: TargetItems,
    build: &(impl Fn(&RequestBatch<'_, K>) -> Result<R> + Sync),
    read: &(impl Fn(&RequestBatch<'_, K>, R::Response) -> Result<Outcomes<K, T>> + Sync),
) -> RoundResult
where
    K: Clone + Ord + Send + Sync,
    R: Request,
    R::Response: Send + 'static,
    T: Send,
{
    let TargetItems { target, indexes, limit } = target_items;
    let timeout_ms = i32::try_from((limit * 9 / 10).as_millis()).unwrap_or(i32::MAX);
    let (node, max_items) = match target {
        Target::Any => (None, Ok((request.max_items)(0))),
        Target::Node(node) => (Some(node), cluster.version::<R>(node, limit).await.map(request.max_items)),
    };
    let max_items = match max_items {
        Ok(max_items) => max_items.clamp(1, indexes.len().max(1)),
        Err(error) => return vec![(indexes, Err(error))],
    };
    let control = node.is_none().then(|| cluster.control());
    let cluster = control.as_ref().unwrap_or(cluster);
    let mut round = Vec::new();
    for indexes in indexes.chunks(max_items) {
        let items: Vec<K> =
            indexes.iter().filter_map(|index| collector.distinct.get(*index).copied().cloned()).collect();
        let batch = |version| RequestBatch { version, node, items: &items, timeout_ms };
        let batch = &batch;
        let send = |node| -> PendingResponse<'_, _> {
            Box::pin(async move {
                let build =
                    |version| build(&batch(version)).inspect(|_| collector.pending.store(true, Ordering::Relaxed));
                let (version, response) = cluster.send_with(node, limit, build).await?;
                collector.pending.store(false, Ordering::Relaxed);
                Ok(read(&batch(version), response).map(|outcomes| collector.collect(indexes, outcomes)))
            })
        };
        let result = match node {
            Some(node) => send(node).await,
            None => cluster.first_response(R::KEY.name(), limit.into(), &send).await,
        };
        round.push((indexes.to_vec(), result.flatten()));
    }
    round
}
