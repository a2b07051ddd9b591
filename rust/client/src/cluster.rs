//! Brokers, connections and metadata behind one handle.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::metadata::MetadataRequestTopic;
use samsarrow_wire::messages::{ApiKey, MetadataRequest, Request};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::api_versions::Features;
use crate::backoff::Backoff;
use crate::config::{CommonOptions, Options};
use crate::connection::{Connection, FrameBody};
use crate::error::{Error, Result};
use crate::metadata::{Leader, Metadata};
use crate::types::{TopicPartition, some_of};

/// Connections to one broker, apart from each other so that a long poll never delays a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lane {
    /// Everything that is answered at once.
    #[default]
    Control,
    /// Fetch requests, which wait at the broker.
    Fetch,
    /// Entering a group, which waits for the other members.
    Group,
    /// What belongs to a transaction, but for its records.
    Transactions,
}

/// The version of one API that a caller wants, whatever the options say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This one or an error.
    Exactly(i16),
    /// No newer one, unless an option chose it.
    AtMost(i16),
}

/// The way to one broker: a connection when there is one, a wait when there was none to be had.
#[derive(Debug)]
struct Link {
    address: String,
    state: tokio::sync::Mutex<LinkState>,
}

#[derive(Debug)]
struct LinkState {
    connection: Option<Arc<Connection>>,
    backoff: Backoff,
    failure: Option<(Instant, Duration, Error)>,
}

impl Link {
    fn new(address: String, options: &CommonOptions) -> Self {
        let backoff = Backoff::new(options.reconnect_backoff, options.reconnect_backoff_max);
        Self { address, state: tokio::sync::Mutex::new(LinkState { connection: None, backoff, failure: None }) }
    }

    /// The open connection, or a new one. Whoever waited while another failed to connect shares that failure.
    async fn connection(&self, options: &CommonOptions, deadline: Instant) -> Result<Arc<Connection>> {
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

struct Inner {
    options: CommonOptions,
    metadata: watch::Sender<Arc<Metadata>>,
    /// The newest that a broker told.
    features: Mutex<Features>,
    links: Mutex<HashMap<(i32, Lane), Arc<Link>>>,
    /// Topics that metadata is asked for.
    interest: Mutex<BTreeSet<String>>,
    /// Metadata is asked for all topics.
    all_topics: AtomicBool,
    refresh_wanted: Arc<Notify>,
    refreshing: tokio::sync::Mutex<()>,
    refresher_runs: AtomicBool,
    closed: watch::Sender<bool>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.refresh_wanted.notify_one();
    }
}

/// A cluster as a client sees it. Cheap to clone; made without I/O.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
    lane: Lane,
    wanted: Option<(ApiKey, Wanted)>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("bootstrap", &self.inner.options.bootstrap_servers).finish_non_exhaustive()
    }
}

impl Cluster {
    /// For the brokers that `options` start from.
    pub fn new(options: &Options) -> Result<Cluster> {
        let inner = Inner {
            options: options.common.clone(),
            metadata: watch::Sender::new(Arc::default()),
            features: Mutex::default(),
            links: Mutex::default(),
            interest: Mutex::default(),
            all_topics: AtomicBool::new(false),
            refresh_wanted: Arc::default(),
            refreshing: tokio::sync::Mutex::default(),
            refresher_runs: AtomicBool::new(false),
            closed: watch::Sender::new(false),
        };
        Ok(Cluster { inner: Arc::new(inner), lane: Lane::Control, wanted: None })
    }

    /// The same cluster over connections of its own.
    #[must_use]
    pub fn lane(&self, lane: Lane) -> Cluster {
        Cluster { lane, ..self.clone() }
    }

    /// The same cluster, asked for one API in a version of the caller's choice.
    #[must_use]
    pub fn wanting(&self, key: ApiKey, version: Wanted) -> Cluster {
        Cluster { wanted: Some((key, version)), ..self.clone() }
    }

    /// Options of every client.
    pub fn options(&self) -> &CommonOptions {
        &self.inner.options
    }

    /// A backoff with this client's settings.
    pub fn backoff(&self) -> Backoff {
        Backoff::new(self.inner.options.retry_backoff, self.inner.options.retry_backoff_max)
    }

    // ---- requests ----

    /// Sends a request to a broker and waits for the answer.
    pub async fn send<R: Request>(&self, node: i32, request: R, timeout: Duration) -> Result<R::Response>
    where
        R::Response: Send + 'static,
    {
        self.dispatch(node, timeout, |_| Ok(request)).await?.await
    }

    /// The same with a request that is built for the version in use, which is returned too.
    pub async fn send_with<R: Request>(
        &self,
        node: i32,
        timeout: Duration,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let mut used = 0;
        let answer = self.dispatch(node, timeout, |version| {
            used = version;
            build(version)
        });
        let response = answer.await?.await?;
        Ok((used, response))
    }

    /// Returns once the request is queued; the future that it returns gives the answer. Requests of one caller go out
    /// in the order of these calls.
    pub async fn dispatch<R: Request, F: FnOnce(i16) -> Result<R>>(
        &self,
        node: i32,
        timeout: Duration,
        build: F,
    ) -> Result<impl Future<Output = Result<R::Response>> + Send + 'static + use<R, F>>
    where
        R::Response: Send + 'static,
    {
        let connection = self.connection(node, timeout).await?;
        let version = self.choose::<R>(&connection)?;
        connection.request(&build(version)?, version, timeout)
    }

    /// As [`Self::dispatch`] with an answer that the caller reads off the socket; the version is the one in use.
    pub async fn dispatch_body<R: Request, F: FnOnce(i16) -> Result<R>>(
        &self,
        node: i32,
        timeout: Duration,
        build: F,
    ) -> Result<(i16, impl Future<Output = Result<FrameBody>> + Send + 'static + use<R, F>)> {
        let connection = self.connection(node, timeout).await?;
        let version = self.choose::<R>(&connection)?;
        Ok((version, connection.request_body(&build(version)?, version, timeout)?))
    }

    fn choose<R: Request>(&self, connection: &Connection) -> Result<i16> {
        let options = &self.inner.options;
        let versions = connection.versions();
        let only = |version| BTreeMap::from([(R::KEY.name(), version)]);
        match self.wanted.filter(|(key, _)| *key == R::KEY) {
            None => versions.choose::<R>(&options.api_versions, &options.newest_api_versions),
            Some((_, Wanted::Exactly(version))) => versions.choose::<R>(&only(version), &BTreeMap::new()),
            Some((_, Wanted::AtMost(version))) => versions.choose::<R>(&options.api_versions, &only(version)),
        }
    }

    /// Sends a request that is never answered; returns once the socket has taken it.
    pub async fn send_oneway<R: Request>(
        &self,
        node: i32,
        timeout: Duration,
        build: impl FnOnce(i16) -> Result<R>,
    ) -> Result<()> {
        let connection = self.connection(node, timeout).await?;
        let version = self.choose::<R>(&connection)?;
        connection.request_without_answer(&build(version)?, version, timeout).await
    }

    /// The version of `R` that a broker would be asked in.
    pub async fn version<R: Request>(&self, node: i32, timeout: Duration) -> Result<i16> {
        let connection = self.connection(node, timeout).await?;
        self.choose::<R>(&connection)
    }

    /// Sends a request to any broker that can be reached: known ones in random order, then the bootstrap servers.
    pub async fn send_any<R: Request + Clone>(&self, request: R, timeout: Duration) -> Result<R::Response>
    where
        R::Response: Send + 'static,
    {
        self.send_any_with(timeout, |_| Ok(request.clone())).await.map(|(_, response)| response)
    }

    /// The same with a request that is built for the version in use, which is returned too.
    pub async fn send_any_with<R: Request>(
        &self,
        timeout: Duration,
        build: impl Fn(i16) -> Result<R>,
    ) -> Result<(i16, R::Response)>
    where
        R::Response: Send + 'static,
    {
        let deadline = Instant::now() + timeout;
        let mut failure = None;
        for node in self.candidates() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.send_with(node, left, &build).await {
                Ok(answer) => return Ok(answer),
                Err(error @ (Error::Connection { .. } | Error::Protocol { .. } | Error::Timeout { .. })) => {
                    // A peer that does not speak Kafka is worth more in an error than one that is merely down.
                    if !matches!(failure, Some(Error::Protocol { .. })) {
                        failure = Some(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::timeout(format!("{} to any broker", R::KEY.name()), timeout)))
    }

    fn candidates(&self) -> Vec<i32> {
        let mut nodes: Vec<i32> = self.metadata().brokers.keys().copied().collect();
        fastrand::shuffle(&mut nodes);
        let mut bootstrap: Vec<i32> = (0..self.inner.options.bootstrap_servers.len()).map(|i| -1 - i as i32).collect();
        fastrand::shuffle(&mut bootstrap);
        nodes.extend(bootstrap);
        nodes
    }

    /// The address of a broker; bootstrap servers have the ids −1, −2, …
    fn address(&self, node: i32) -> Result<String> {
        let bootstrap = usize::try_from(-1 - i64::from(node)).ok();
        let known = match bootstrap {
            Some(i) => self.inner.options.bootstrap_servers.get(i).cloned(),
            None => self.metadata().brokers.get(&node).cloned(),
        };
        known.ok_or_else(|| Error::connection(format!("broker {node}"), "the cluster's metadata does not name it"))
    }

    async fn connection(&self, node: i32, timeout: Duration) -> Result<Arc<Connection>> {
        self.check_open()?;
        let address = self.address(node)?;
        let link = {
            let mut links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
            let link = links
                .entry((node, self.lane))
                .or_insert_with(|| Arc::new(Link::new(address.clone(), &self.inner.options)));
            if link.address != address {
                *link = Arc::new(Link::new(address, &self.inner.options));
            }
            Arc::clone(link)
        };
        let mut closed = self.inner.closed.subscribe();
        tokio::select! {
            biased;
            // Whoever is connecting must not keep `close` waiting.
            _ = closed.wait_for(|closed| *closed) => Err(Error::closed("the client")),
            connection = link.connection(&self.inner.options, Instant::now() + timeout) => {
                connection.inspect(|connection| self.learn_features(connection.versions().features()))
            }
        }
    }

    fn learn_features(&self, told: &Features) {
        let mut known = self.inner.features.lock().unwrap_or_else(PoisonError::into_inner);
        if told.epoch > known.epoch {
            known.clone_from(told);
        }
    }

    /// The cluster-wide level of a feature, as the brokers told it that were connected to so far; 0 for none.
    pub fn feature_level(&self, name: &str) -> i16 {
        self.inner.features.lock().unwrap_or_else(PoisonError::into_inner).level(name)
    }

    fn check_open(&self) -> Result<()> {
        if *self.inner.closed.borrow() { Err(Error::closed("the client")) } else { Ok(()) }
    }

    // ---- metadata ----

    /// What is known now.
    pub fn metadata(&self) -> Arc<Metadata> {
        Arc::clone(&self.inner.metadata.borrow())
    }

    /// Tells of every change.
    pub fn watch(&self) -> watch::Receiver<Arc<Metadata>> {
        self.inner.metadata.subscribe()
    }

    /// Asks for fresh metadata in the background; many calls make one request.
    pub fn request_refresh(&self) {
        self.start_refresher();
        self.inner.refresh_wanted.notify_one();
    }

    /// Takes the leaders that an answer named, where they are newer than the known ones, and their addresses (KIP-951).
    pub fn update_leaders(&self, leaders: &[(TopicPartition, Leader)], addresses: &[(i32, String)]) {
        self.inner.metadata.send_if_modified(|metadata| match metadata.with_leaders(leaders, addresses) {
            Some(next) => {
                *metadata = Arc::new(next);
                true
            }
            None => false,
        });
    }

    /// Waits until all these topics are known.
    ///
    /// # Errors
    /// What the brokers say of a topic they refuse; `UNKNOWN_TOPIC_OR_PARTITION` for one that does not appear in time;
    /// a timeout with its cause when no broker can be asked.
    pub async fn topics(&self, names: &[&str], timeout: Duration) -> Result<Arc<Metadata>> {
        let deadline = Instant::now() + timeout;
        self.start_refresher();
        self.inner
            .interest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(names.iter().map(|name| (*name).to_owned()));
        let mut backoff = self.backoff();
        let mut failure = None;
        loop {
            let metadata = self.metadata();
            let missing: Vec<&str> = names.iter().copied().filter(|name| metadata.topic(name).is_none()).collect();
            if missing.is_empty() {
                return Ok(metadata);
            }
            for name in &missing {
                if let Some(code) = metadata.topic_error(name).filter(|code| !code.retriable()) {
                    self.forget(&missing);
                    return Err(Error::server(code, format!("topic {name}")));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.forget(&missing);
                return Err(self.missing(&missing, timeout, failure));
            }
            match self.refresh(left).await {
                Ok(()) => failure = None,
                Err(error) if error.retriable() => failure = Some(error.after(failure.take())),
                Err(error) => return Err(error),
            }
            let metadata = self.metadata();
            if missing.iter().any(|name| metadata.topic(name).is_none()) {
                sleep(backoff.next_delay().min(deadline.saturating_duration_since(Instant::now()))).await;
            }
        }
    }

    fn missing(&self, missing: &[&str], timeout: Duration, failure: Option<Error>) -> Error {
        let what = format!("metadata of topic {}", some_of(missing));
        match (failure, missing.first().and_then(|name| self.metadata().topic_error(name))) {
            (Some(error), _) => Error::timeout_because(what, timeout, Some(error)),
            (None, Some(code)) => Error::server(code, format!("topic {}", some_of(missing))),
            (None, None) => Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("topic {}", some_of(missing))),
        }
    }

    /// A topic that is not there must not be asked for again with every refresh.
    fn forget(&self, names: &[&str]) {
        let mut interest = self.inner.interest.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            interest.remove(*name);
        }
    }

    /// Asks for metadata now; callers that come while it is being asked for share the answer.
    pub async fn refresh(&self, timeout: Duration) -> Result<()> {
        let seen = (self.metadata().generation, self.interest_count());
        let deadline = Instant::now() + timeout;
        let late = |_| Error::timeout("metadata", timeout);
        let _turn = timeout_at(deadline, self.inner.refreshing.lock()).await.map_err(late)?;
        let all = self.inner.all_topics.load(Ordering::Acquire);
        if self.metadata().generation > seen.0 && self.interest_count() == seen.1 && self.all_known() && !all {
            return Ok(());
        }
        let names: Vec<String> =
            self.inner.interest.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        let topic = |name| MetadataRequestTopic { name: Some(name), ..Default::default() };
        let build = |version| {
            // Version 0 has no null: no topics are all topics. Versions before 4 cannot say that none may be created.
            let all_topics = if version == 0 { Some(Vec::new()) } else { None };
            let named = || Some(names.iter().cloned().map(topic).collect());
            Ok(MetadataRequest {
                topics: if all { all_topics } else { named() },
                allow_auto_topic_creation: version < 4 || self.inner.options.allow_auto_create_topics,
                ..Default::default()
            })
        };
        let limit = self.inner.options.request_timeout.min(deadline.saturating_duration_since(Instant::now()));
        let control = self.lane(Lane::Control);
        let (_, answer) = control.send_any_with(limit, build).await?;
        ErrorCode::from_i16(answer.error_code).ok().map_err(|code| Error::server(code, "Metadata"))?;
        self.inner.metadata.send_modify(|metadata| *metadata = Arc::new(metadata.updated(answer, all)));
        Ok(())
    }

    /// Asks for metadata of these topics, now and with every refresh; one that does not exist is no error.
    pub(crate) async fn learn(&self, names: &BTreeSet<String>, timeout: Duration) -> Result<Arc<Metadata>> {
        self.start_refresher();
        self.inner.interest.lock().unwrap_or_else(PoisonError::into_inner).extend(names.iter().cloned());
        if names.iter().any(|name| self.metadata().topic(name).is_none()) {
            self.refresh(timeout).await?;
        }
        Ok(self.metadata())
    }

    /// Asks for metadata of all topics, now and with every refresh, or no longer.
    pub(crate) async fn learn_all(&self, all: bool, timeout: Duration) -> Result<Arc<Metadata>> {
        self.start_refresher();
        if !self.inner.all_topics.swap(all, Ordering::AcqRel) && all {
            self.refresh(timeout).await?;
        }
        Ok(self.metadata())
    }

    fn interest_count(&self) -> usize {
        self.inner.interest.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn all_known(&self) -> bool {
        let metadata = self.metadata();
        let interest = self.inner.interest.lock().unwrap_or_else(PoisonError::into_inner);
        interest.iter().all(|name| metadata.topic(name).is_some())
    }

    fn start_refresher(&self) {
        if !self.inner.refresher_runs.swap(true, Ordering::AcqRel) {
            let wanted = Arc::clone(&self.inner.refresh_wanted);
            tokio::spawn(keep_fresh(Arc::downgrade(&self.inner), wanted, self.inner.options.metadata_max_age));
        }
    }

    /// Ends all connections; whatever waits on one fails.
    pub async fn close(&self) {
        self.inner.closed.send_replace(true);
        self.inner.refresh_wanted.notify_one();
        let links = std::mem::take(&mut *self.inner.links.lock().unwrap_or_else(PoisonError::into_inner));
        for link in links.into_values() {
            if let Some(connection) = link.state.lock().await.connection.take() {
                connection.poison(Error::closed("the client"));
            }
        }
    }
}

/// Refreshes when asked to and when metadata is old; ends with the cluster.
async fn keep_fresh(cluster: Weak<Inner>, wanted: Arc<Notify>, max_age: Duration) {
    loop {
        let _ = tokio::time::timeout(max_age, wanted.notified()).await;
        let mut backoff: Option<Backoff> = None;
        loop {
            let Some(inner) = cluster.upgrade() else { return };
            if *inner.closed.borrow() {
                return;
            }
            let cluster = Cluster { inner, lane: Lane::Control, wanted: None };
            let limit = cluster.inner.options.request_timeout;
            let refreshed = cluster.refresh(limit).await;
            let backoff = backoff.get_or_insert_with(|| cluster.backoff());
            let delay = backoff.next_delay();
            drop(cluster);
            // The wait also follows a success: a flood of wishes is a request per backoff at most.
            sleep(delay).await;
            match refreshed {
                Ok(()) => break,
                Err(error) => tracing::debug!(%error, "metadata could not be refreshed"),
            }
        }
    }
}
