//! Finding and keeping a coordinator: of a group, or of a producer's transactions.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{FindCoordinatorRequest, Request};

use crate::cluster::{Cluster, Lane};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::retry::backoff::Backoff;

/// How long to wait first for what another request is about to finish; doubles.
const SOON: Duration = Duration::from_millis(20);
/// From this version on, there are coordinators of transactions (KIP-98).
const KINDS: i16 = 1;
/// From this version on a request asks for many keys (KIP-699).
const MANY_KEYS: i16 = 4;

/// What is coordinated, by the protocol's number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Group = 0,
    Transactions = 1,
}

impl Kind {
    pub(crate) fn code(self) -> i8 {
        self as i8
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Transactions => "transactional id",
        }
    }
}

/// A coordinator: found when first needed, forgotten when it turns out to be another.
#[derive(Debug, Clone)]
pub struct Coordinator {
    cluster: Cluster,
    kind: Kind,
    key: Arc<str>,
    node: Arc<Mutex<Option<i32>>>,
}

/// What to do after an answer of a coordinator.
#[derive(Debug)]
pub enum Verdict<T> {
    /// It is done.
    Done(T),
    /// The same broker may succeed later.
    Retry(Error),
    /// The same broker is about to finish something else that is in the way.
    Soon(Error),
    /// Another broker coordinates the group now.
    Moved(Error),
}

impl<T> Verdict<T> {
    /// What an error of a coordinator means for the request that met it.
    pub fn of(code: ErrorCode, context: &str) -> Result<Verdict<T>> {
        let error = Error::server(code, context);
        match code {
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => Ok(Verdict::Moved(error)),
            ErrorCode::CONCURRENT_TRANSACTIONS => Ok(Verdict::Soon(error)),
            code if code.retriable() => Ok(Verdict::Retry(error)),
            _ => Err(error),
        }
    }
}

impl Coordinator {
    /// Of `group`; nothing is asked yet.
    pub fn new(cluster: Cluster, group: &str) -> Self {
        Self { cluster: cluster.lane(Lane::Coordinator), kind: Kind::Group, key: group.into(), node: Arc::default() }
    }

    /// Of the transactions of a producer; nothing is asked yet.
    pub(crate) fn of_transactions(cluster: Cluster, transactional_id: &str) -> Self {
        Self { cluster, kind: Kind::Transactions, key: transactional_id.into(), node: Arc::default() }
    }

    /// The group.
    pub fn group(&self) -> &str {
        &self.key
    }

    /// The same coordinator, asked as `change` wants it.
    pub(crate) fn with(&self, change: impl FnOnce(&Cluster) -> Cluster) -> Self {
        Self { cluster: change(&self.cluster), ..self.clone() }
    }

    /// The same coordinator over connections of its own.
    pub(crate) fn lane(&self, lane: Lane) -> Self {
        Self { cluster: self.cluster.lane(lane), ..self.clone() }
    }

    /// Sends what `build` makes for the version in use, once. After a lost connection the coordinator is looked for again.
    pub(crate) async fn ask<R: Request>(
        &self,
        limit: Duration,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let node = self.node(limit.min(self.cluster.options().request_timeout)).await?;
        let answer = self.cluster.send_with(node, limit, build).await;
        if answer.as_ref().is_err_and(Error::retriable) {
            self.forget();
        }
        answer
    }

    /// Sends what `build` makes for the version in use, looks at the answer with `judge`, and tries again — at another
    /// broker if the coordinator moved — until it is done, an error is final, or `timeout` has passed.
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
        self.call_as(timeout, Cluster::clone, build, judge).await
    }

    /// The same, asked as `change` wants it at each attempt.
    pub(crate) async fn call_as<R, T>(
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
        let mut soon = Backoff::new(SOON, options.retry_backoff_max);
        let what = || format!("{} for {} {}", R::KEY.name(), self.kind.name(), self.key);
        loop {
            let limit = retry.left().min(options.request_timeout);
            let attempt = async {
                let node = self.node(limit).await?;
                change(&self.cluster).send_with(node, limit, &mut build).await
            };
            let verdict = match attempt.await {
                Ok((version, response)) => judge(version, response)?,
                // A broken connection: the coordinator may be another by now.
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
                // A topic that was made anew has another id, a broker that came back another address.
                self.cluster.request_refresh();
            }
            match delay {
                Some(delay) => retry.wait_for(delay, error, what).await?,
                None => retry.wait(error, what).await?,
            }
        }
    }

    /// It is another broker now.
    pub(crate) fn forget(&self) {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn node(&self, limit: Duration) -> Result<i32> {
        let known = *self.node.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = known {
            return Ok(node);
        }
        let build = |version| {
            if version < KINDS && matches!(self.kind, Kind::Transactions) {
                return Err(Error::UnsupportedVersion(format!(
                    "this broker knows no transactions ({} {}): they need Kafka 0.11.0 or later",
                    self.kind.name(),
                    self.key
                )));
            }
            let mut request = FindCoordinatorRequest { key_type: self.kind as i8, ..Default::default() };
            if version >= MANY_KEYS {
                request.coordinator_keys.push(self.key.to_string());
            } else {
                request.key = self.key.to_string();
            }
            Ok(request)
        };
        let (_, answer) = self.cluster.send_any_with(limit, build).await?;
        let found = answer.coordinators.first();
        let (code, node, message) = match found {
            Some(c) => (c.error_code, c.node_id, c.error_message.clone()),
            None => (answer.error_code, answer.node_id, answer.error_message.clone()),
        };
        let context = match message.filter(|text| !text.is_empty()) {
            Some(text) => format!("coordinator of {} {} ({text})", self.kind.name(), self.key),
            None => format!("coordinator of {} {}", self.kind.name(), self.key),
        };
        ErrorCode::from_i16(code).ok().map_err(|code| Error::server(code, context))?;
        if !self.cluster.metadata().brokers.contains_key(&node) {
            self.cluster.refresh(limit).await?;
        }
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(node);
        Ok(node)
    }
}
