//! Requests to coordinators of groups and transactions, with retries and a cache of the coordinator.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Request;
use samsarrow_wire::sync::lock;

use crate::cluster::find_coordinator::{CoordinatorType, find_coordinator};
use crate::cluster::{Cluster, ConnectionKind};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::retry::backoff::Backoff;

/// Initial delay of retries while the coordinator completes another request. It doubles with each retry.
const INITIAL_SHORT_DELAY: Duration = Duration::from_millis(20);

/// Coordinator of a group or transactional id. It is looked up on first use, and again after it has moved.
#[derive(Debug, Clone)]
pub struct Coordinator {
    cluster: Cluster,
    coordinator_type: CoordinatorType,
    key: Arc<str>,
    node: Arc<Mutex<Option<i32>>>,
}

/// Outcome of a request to a coordinator.
#[derive(Debug)]
pub enum Verdict<T> {
    /// The request succeeded.
    Done(T),
    /// Retriable error. The request is sent to the same broker again.
    Retry(Error),
    /// The coordinator is completing another request. The request is sent to the same broker again after a short delay.
    Soon(Error),
    /// The coordinator has moved. It is looked up again and the request is repeated.
    Moved(Error),
}

impl<T> Verdict<T> {
    /// Classifies an error code of a coordinator's response.
    pub fn of(code: ErrorCode, context: &str) -> Result<Verdict<T>> {
        Self::of_error(Error::server(code, context))
    }

    /// Classifies an error of a coordinator's response.
    pub(crate) fn of_error(error: Error) -> Result<Verdict<T>> {
        let Error::Server { code, .. } = &error else { return Err(error) };
        match *code {
            // A coordinator that cannot replicate a commit in time may have been replaced, so Java's client looks it up
            // again too.
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE | ErrorCode::REQUEST_TIMED_OUT => {
                Ok(Verdict::Moved(error))
            }
            ErrorCode::CONCURRENT_TRANSACTIONS => Ok(Verdict::Soon(error)),
            code if code.retriable() => Ok(Verdict::Retry(error)),
            _ => Err(error),
        }
    }
}

impl Coordinator {
    /// Creates the coordinator of `group`, without I/O.
    pub fn new(cluster: Cluster, group: &str) -> Self {
        Self {
            cluster: cluster.with_connections(ConnectionKind::Coordinator),
            coordinator_type: CoordinatorType::Group,
            key: group.into(),
            node: Arc::default(),
        }
    }

    /// Creates the transaction coordinator of `transactional_id`, without I/O.
    pub(crate) fn of_transactions(cluster: Cluster, transactional_id: &str) -> Self {
        Self {
            cluster,
            coordinator_type: CoordinatorType::Transactions,
            key: transactional_id.into(),
            node: Arc::default(),
        }
    }

    /// Returns option `client.id`, which each log line contains.
    pub(crate) fn client_id(&self) -> &str {
        self.cluster.client_id()
    }

    pub fn group(&self) -> &str {
        &self.key
    }

    /// Returns this coordinator with the cluster handle that `change` returns.
    pub(crate) fn with(&self, change: impl FnOnce(&Cluster) -> Cluster) -> Self {
        Self { cluster: change(&self.cluster), ..self.clone() }
    }

    /// Returns this coordinator with connections of `kind`.
    pub(crate) fn with_connections(&self, kind: ConnectionKind) -> Self {
        Self { cluster: self.cluster.with_connections(kind), ..self.clone() }
    }

    /// Sends one request, which `build` creates for the negotiated version. A retriable error discards the cached
    /// coordinator.
    pub(crate) async fn ask<R: Request>(
        &self,
        limit: Duration,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let node = self.node(limit.min(self.cluster.options().request_timeout)).await?;
        let result = self.cluster.send_with(node, limit, build).await;
        if result.as_ref().is_err_and(Error::retriable) {
            self.forget();
        }
        result
    }

    /// Sends requests that `build` creates for the negotiated version, and passes each response to `judge`.
    ///
    /// Retries until the request succeeds, an error is not retriable, or `timeout` expires. If the coordinator has
    /// moved, it is looked up again before the retry.
    pub async fn call<R, T>(
        &self,
        timeout: Duration,
        build: impl FnMut(i16) -> Result<R>,
        judge: impl FnMut(i16, R::Response) -> Result<Verdict<T>>,
    ) -> Result<T>
    where
        R: Request,
        R::Response: Send + 'static,
    {
        self.call_with(timeout, Cluster::clone, build, judge).await
    }

    /// Like [`Self::call`], but sends each attempt with the cluster handle that `change` returns.
    pub(crate) async fn call_with<R, T>(
        &self,
        timeout: Duration,
        change: impl Fn(&Cluster) -> Cluster,
        mut build: impl FnMut(i16) -> Result<R>,
        mut judge: impl FnMut(i16, R::Response) -> Result<Verdict<T>>,
    ) -> Result<T>
    where
        R: Request,
        R::Response: Send + 'static,
    {
        let options = self.cluster.options();
        let mut retry = Retry::new(options, timeout);
        let mut soon = Backoff::new(INITIAL_SHORT_DELAY, options.retry_backoff_max);
        let context = || format!("{} for {} {}", R::KEY.name(), self.coordinator_type.name(), self.key);
        loop {
            let limit = retry.left().min(options.request_timeout);
            let attempt = async {
                let node = self.node(limit).await?;
                change(&self.cluster).send_with(node, limit, &mut build).await
            };
            let verdict = match attempt.await {
                Ok((version, response)) => judge(version, response)?,
                // The connection was lost, possibly because the coordinator has moved.
                Err(error) if error.retriable() => Verdict::Moved(error),
                Err(error) => return Err(error),
            };
            let (error, delay) = match verdict {
                Verdict::Done(value) => return Ok(value),
                Verdict::Retry(error) => (error, None),
                Verdict::Soon(error) => (error, Some(soon.next_delay())),
                Verdict::Moved(error) => {
                    self.forget();
                    (error, None)
                }
            };
            if error.refresh_metadata() {
                // Refreshes the metadata, which then contains the new id of a recreated topic and the new address of a
                // restarted broker.
                self.cluster.request_refresh();
            }
            match delay {
                Some(delay) => retry.wait_for(delay, error, context).await?,
                None => retry.wait(error, context).await?,
            }
        }
    }

    /// Discards the cached coordinator.
    pub(crate) fn forget(&self) {
        if let Some(node) = lock(&self.node).take() {
            tracing::debug!(
                client_id = self.client_id(),
                "looking up the coordinator of {} {}, as broker {node} may have lost it",
                self.coordinator_type.name(),
                self.key
            );
        }
    }

    async fn node(&self, limit: Duration) -> Result<i32> {
        let known = *lock(&self.node);
        if let Some(node) = known {
            return Ok(node);
        }
        let node = find_coordinator(&self.cluster, self.coordinator_type, &self.key, limit).await?.id;
        if !self.cluster.metadata().brokers.contains_key(&node) {
            self.cluster.refresh(limit).await?;
        }
        *lock(&self.node) = Some(node);
        tracing::debug!(
            client_id = self.client_id(),
            "the coordinator of {} {} is broker {node}",
            self.coordinator_type.name(),
            self.key
        );
        Ok(node)
    }
}
