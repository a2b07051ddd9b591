//! Metadata refresh: on request, periodically and after errors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::metadata::MetadataRequestTopic;
use samsarrow_wire::messages::{MetadataRequest, MetadataResponse};
use samsarrow_wire::sync::lock;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::topic_registry::{Purpose, TopicRegistry, TopicUser};
use super::{Cluster, ConnectionKind, Inner};
use crate::blocking::blocking;
use crate::cluster::metadata::{Metadata, MetadataUpdate, RequestedTopics};
use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::retry::backoff::Backoff;
use crate::types::join_limited;

/// First version of Metadata with reliable leader epochs. Brokers that support only older versions may return stale
/// epochs, which make Fetch fail with FENCED_LEADER_EPOCH (KAFKA-9212).
const RELIABLE_EPOCHS: i16 = 9;
/// Number of partitions or brokers in a response at which the conversion of the response takes milliseconds. Larger
/// responses are converted on another thread, so that timers and other connections are not delayed.
const LARGE_RESPONSE: usize = 20_000;
/// First version of Metadata with `allow_auto_topic_creation`.
const NO_CREATION: i16 = 4;
/// Number of `UNKNOWN_TOPIC_OR_PARTITION` responses after which a topic is reported as missing. One response is not
/// enough, because brokers that have just started or are behind return this error for existing topics.
const MAX_UNKNOWN: u32 = 2;
/// Like [`MAX_UNKNOWN`], but for a topic that the Metadata request may auto-create.
const MAX_UNKNOWN_WHILE_CREATING: u32 = 5;

/// Runs work that needs the refresh lock in a task, which is aborted if the caller is dropped.
///
/// A caller may stop polling its call while it waits for something else, for example in the handler of a `select!`
/// branch. If that needs metadata too, a lock that the call holds, or is about to get, would never be released.
async fn in_task(work: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    let mut task = JoinSet::new();
    task.spawn(work);
    match task.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends.
        _ => Err(Error::closed("the client")),
    }
}

impl Cluster {
    /// Waits until the metadata of all these topics is known.
    ///
    /// # Errors
    /// Fails with the error that brokers return for a topic, with `UNKNOWN_TOPIC_OR_PARTITION` if a topic does not
    /// appear in time, and with a timeout that contains the cause if no broker can be reached.
    pub async fn topics(&self, names: &[&str], timeout: Duration) -> Result<Arc<Metadata>> {
        self.start_refresher();
        self.topic_registry().touch(names);
        let mut retry = Retry::new(self.options(), timeout);
        loop {
            let metadata = self.metadata();
            let missing: Vec<&str> = names.iter().copied().filter(|name| metadata.topic(name).is_none()).collect();
            if missing.is_empty() {
                return Ok(metadata);
            }
            let result = self.fetch_missing(&missing, Purpose::Use, retry.left()).await;
            let metadata = self.metadata();
            let still: Vec<&str> = missing.into_iter().filter(|name| metadata.topic(name).is_none()).collect();
            let topic_error = still.iter().find_map(|name| Some((name, metadata.topic_error(name)?)));
            let failure = match (result, topic_error) {
                _ if still.is_empty() => continue,
                (_, Some((name, code))) if !code.retriable() => Err(Error::server(code, format!("topic {name}"))),
                (Err(error), _) if !error.retriable() => Err(error),
                (Err(error), _) => Ok(error),
                (Ok(()), topic_error) => {
                    let code = topic_error.map_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, |(_, code)| code);
                    Ok(Error::server(code, format!("topic {}", join_limited(&still))))
                }
            };
            let final_error = match failure {
                Ok(error) => {
                    let context = || format!("metadata of topic {}", join_limited(&still));
                    retry.wait_until_deadline(error, context).await.err().map(|late| match late {
                        // The brokers' error is more specific than a timeout.
                        Error::Timeout { cause: Some(cause), .. } if matches!(*cause, Error::Server { .. }) => *cause,
                        late => late,
                    })
                }
                Err(error) => Some(error),
            };
            if let Some(error) = final_error {
                self.topic_registry().forget(&still);
                return Err(error);
            }
        }
    }

    /// Requests the metadata of each of these topics. Returns `Ok` for each topic that exists and an error for each
    /// other topic. Creates no topic.
    ///
    /// Retriable errors are retried until `timeout`; a missing topic fails after [`MAX_UNKNOWN`] responses.
    pub async fn topics_each(&self, names: &[&str], timeout: Duration) -> BTreeMap<String, Result<()>> {
        self.each(names, Purpose::Look, timeout).await
    }

    /// Like [`topics_each`](Self::topics_each), but for topics to consume: if `allow.auto.create.topics` is set,
    /// brokers may create them.
    pub(crate) async fn topics_to_read(&self, names: &[&str], timeout: Duration) -> BTreeMap<String, Result<()>> {
        self.each(names, Purpose::Use, timeout).await
    }

    async fn each(&self, names: &[&str], purpose: Purpose, timeout: Duration) -> BTreeMap<String, Result<()>> {
        self.start_refresher();
        self.topic_registry().touch(names);
        let mut retry = Retry::new(self.options(), timeout);
        let mut outcomes = BTreeMap::new();
        let mut open: BTreeSet<&str> = names.iter().copied().collect();
        let mut unknown_counts: HashMap<&str, u32> = HashMap::default();
        loop {
            let metadata = self.metadata();
            let known: Vec<&str> = open.iter().copied().filter(|name| metadata.topic(name).is_some()).collect();
            for name in known {
                open.remove(name);
                outcomes.insert(name.to_owned(), Ok(()));
            }
            if open.is_empty() {
                let failed: Vec<&str> = outcomes.iter().filter(|(_, o)| o.is_err()).map(|(name, _)| &**name).collect();
                self.topic_registry().forget(&failed);
                return outcomes;
            }
            let pending: Vec<&str> = open.iter().copied().collect();
            let result = self.fetch_missing(&pending, purpose, retry.left()).await;
            let updated = self.metadata();
            let mut failure = None;
            for name in pending.iter().copied().filter(|name| updated.topic(name).is_none()) {
                let error = match (&result, updated.topic_error(name)) {
                    (Err(error), _) => error.clone(),
                    (Ok(()), code) => {
                        let code = code.unwrap_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                        if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && updated.generation > metadata.generation {
                            *unknown_counts.entry(name).or_default() += 1;
                        }
                        Error::server(code, format!("topic {name}"))
                    }
                };
                let max_unknown = if self.may_appear(name) { MAX_UNKNOWN_WHILE_CREATING } else { MAX_UNKNOWN };
                if !error.retriable() || unknown_counts.get(name).is_some_and(|count| *count >= max_unknown) {
                    open.remove(name);
                    outcomes.insert(name.to_owned(), Err(error));
                } else {
                    failure = Some(error);
                }
            }
            let Some(failure) = failure else { continue };
            let context = || format!("metadata of topic {}", join_limited(&pending));
            if let Err(late) = retry.wait_until_deadline(failure, context).await {
                for name in open.iter().filter(|name| updated.topic(name).is_none()) {
                    let code = updated.topic_error(name).filter(|_| result.is_ok());
                    let error = code.map_or_else(|| late.clone(), |code| Error::server(code, format!("topic {name}")));
                    outcomes.insert((*name).to_owned(), Err(error));
                }
                open.retain(|name| updated.topic(name).is_some());
            }
        }
    }

    fn may_appear(&self, name: &str) -> bool {
        self.options().allow_auto_create_topics && self.topic_registry().may_appear(name)
    }

    /// Requests the metadata of topics that have buffered records, in the background. The request may recreate a
    /// deleted topic.
    pub(crate) fn request_to_write(&self, names: &[&str]) {
        self.topic_registry().mark_awaited(names, Purpose::Write);
        self.request_refresh();
    }

    /// Requests the metadata of a topic in the background, for callers that did not wait for it.
    pub(crate) fn request_topic(&self, name: &str) {
        self.topic_registry().mark_awaited(&[name], Purpose::Use);
        self.request_refresh();
    }

    /// Includes the topics of `user` in every refresh until `user` is dropped.
    pub(crate) fn keep(&self, user: Weak<dyn TopicUser>) {
        self.topic_registry().add_user(user);
    }

    /// Requests the metadata of these topics. Callers that wait for the lock share one request, which contains only the
    /// topics that a caller waits for.
    async fn fetch_missing(&self, names: &[&str], purpose: Purpose, timeout: Duration) -> Result<()> {
        self.topic_registry().mark_awaited(names, purpose);
        let seen = self.metadata().generation;
        let (cluster, names) = (self.clone(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        in_task(async move {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            cluster.fetch_missing_exclusively(&names, purpose, seen, timeout).await
        })
        .await
    }

    /// Does the work of `fetch_missing` with the refresh lock. `seen` is the generation of the metadata when the topics
    /// were marked.
    async fn fetch_missing_exclusively(
        &self,
        names: &[&str],
        purpose: Purpose,
        seen: u64,
        timeout: Duration,
    ) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let late = |_| Error::timeout("metadata", timeout);
        let _guard = timeout_at(deadline, self.inner.refresh_lock.lock()).await.map_err(late)?;
        let metadata = self.metadata();
        if names.iter().all(|name| metadata.topic(name).is_some()) {
            return Ok(());
        }
        let mut awaited = self.topic_registry().take_awaited();
        if !awaited.any_of(names) {
            // The previous holder of the lock has also requested these topics.
            if metadata.generation > seen {
                return Ok(());
            }
            // Its request has failed.
            self.topic_registry().mark_awaited(names, purpose);
            awaited = self.topic_registry().take_awaited();
        }
        self.fetch_topics(&awaited.existing, false, deadline).await?;
        self.fetch_topics(&awaited.create, true, deadline).await
    }

    /// Requests the metadata of all registered topics. Callers that arrive during a request share its response.
    pub async fn refresh(&self, timeout: Duration) -> Result<()> {
        let cluster = self.clone();
        in_task(async move { cluster.refresh_exclusively(timeout).await }).await
    }

    async fn refresh_exclusively(&self, timeout: Duration) -> Result<()> {
        let seen = self.inner.refreshes.load(Ordering::Acquire);
        let deadline = Instant::now() + timeout;
        let late = |_| Error::timeout("metadata", timeout);
        let _guard = timeout_at(deadline, self.inner.refresh_lock.lock()).await.map_err(late)?;
        if self.inner.refreshes.load(Ordering::Acquire) > seen {
            return Ok(());
        }
        let users = self.topic_registry().users();
        let in_use: Vec<Arc<str>> = users.iter().flat_map(|user| user.topics_in_use()).collect();
        drop(users);
        let (names, forgotten) = self.topic_registry().take_all(&in_use, self.options().metadata_max_idle);
        if !forgotten.is_empty() {
            tracing::debug!(
                client_id = self.client_id(),
                "topics are no longer requested, as they were unused for metadata.max.idle.ms: {}",
                join_limited(&forgotten)
            );
            self.inner.metadata.send_modify(|metadata| *metadata = Arc::new(metadata.without(&forgotten)));
        }
        if self.inner.all_topics.load(Ordering::Acquire) {
            self.fetch(None, false, deadline).await?;
        } else {
            // A request with an empty topic list returns only the brokers.
            if !names.existing.is_empty() || names.create.is_empty() {
                self.fetch(Some(&names.existing), false, deadline).await?;
            }
            self.fetch_topics(&names.create, true, deadline).await?;
        }
        self.inner.refreshes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    async fn fetch_topics(&self, names: &BTreeSet<String>, create: bool, deadline: Instant) -> Result<()> {
        if names.is_empty() { Ok(()) } else { self.fetch(Some(names), create, deadline).await }
    }

    /// Sends one Metadata request, for these topics or for all topics if `names` is `None`.
    async fn fetch(&self, names: Option<&BTreeSet<String>>, create: bool, deadline: Instant) -> Result<()> {
        let create = create && self.options().allow_auto_create_topics;
        let build = |version| {
            let topic = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
            // A null list requests all topics. In version 0, an empty list does.
            let all = if version == 0 { Some(Vec::new()) } else { None };
            Ok(MetadataRequest {
                topics: names.map_or(all, |names| Some(names.iter().map(topic).collect())),
                // Versions before 4 have no such field and always allow auto-creation.
                allow_auto_topic_creation: create || version < NO_CREATION,
                ..Default::default()
            })
        };
        let limit = self.options().request_timeout.min(deadline.saturating_duration_since(Instant::now()));
        if self.unreachable_for() > self.options().metadata_recovery_trigger {
            self.rebootstrap("no metadata response for metadata.recovery.rebootstrap.trigger.ms");
        }
        let result = match self.options().at_controllers {
            true => self.describe_controllers(limit).await,
            false => self.send_any_with(limit, build).await.and_then(|(version, mut response)| {
                ErrorCode::from_i16(response.error_code).ok().map_err(|code| Error::server(code, "Metadata"))?;
                if version < RELIABLE_EPOCHS {
                    clear_leader_epochs(&mut response);
                }
                Ok(response)
            }),
        };
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                if error.code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED.code()) {
                    self.rebootstrap("a broker returned REBOOTSTRAP_REQUIRED");
                    // This error is retriable, so that the next attempt goes to another broker.
                    return Err(Error::connection("the cluster", error.to_string()));
                }
                lock(&self.inner.unreachable_since).get_or_insert_with(Instant::now);
                return Err(error);
            }
        };
        *lock(&self.inner.unreachable_since) = None;
        *lock(&self.inner.metadata_received_at) = Some(Instant::now());
        let update = convert(response, names).await?;
        let requested = names.map_or(RequestedTopics::All, RequestedTopics::Topics);
        let before = self.metadata();
        self.inner.metadata.send_modify(|metadata| *metadata = Arc::new(metadata.with(update, requested)));
        let metadata = self.metadata();
        self.log_changes(&before, &metadata);
        self.topic_registry().mark_reported(&metadata, names);
        self.close_removed_brokers(&metadata);
        Ok(())
    }

    /// Returns the names of all topics except Kafka's internal ones, in order. The known metadata does not change.
    ///
    /// # Errors
    /// Fails if no broker responds within `timeout`.
    pub(crate) async fn topic_names(&self, timeout: Duration) -> Result<Vec<String>> {
        let build = |version| {
            // A null list requests all topics. In version 0, an empty list does.
            let topics = if version == 0 { Some(Vec::new()) } else { None };
            Ok(MetadataRequest { topics, allow_auto_topic_creation: version < NO_CREATION, ..Default::default() })
        };
        let mut retry = Retry::new(self.options(), timeout);
        loop {
            let limit = retry.left().min(self.options().request_timeout);
            let error = match self.send_any_with(limit, build).await {
                Ok((_, response)) => match ErrorCode::from_i16(response.error_code).ok() {
                    Ok(()) => return Ok(names_of(response)),
                    Err(code) => Error::server(code, "Metadata"),
                },
                Err(error) => error,
            };
            if !error.retriable() {
                return Err(error);
            }
            retry.wait(error, || "the list of topics".to_owned()).await?;
        }
    }

    /// Requests the metadata of a group member's subscribed topics, now and with every refresh until the subscription
    /// changes.
    ///
    /// A missing topic is not an error.
    pub(crate) async fn learn(&self, names: &BTreeSet<String>, timeout: Duration) -> Result<Arc<Metadata>> {
        self.start_refresher();
        self.topic_registry().subscribe(names);
        let metadata = self.metadata();
        let missing: Vec<&str> =
            names.iter().map(|name| &**name).filter(|name| metadata.topic(name).is_none()).collect();
        if !missing.is_empty() {
            self.fetch_missing(&missing, Purpose::Use, timeout).await?;
        }
        Ok(self.metadata())
    }

    /// Removes the subscription's topics from the registry.
    pub(crate) fn unsubscribe(&self) {
        self.topic_registry().subscribe(&BTreeSet::new());
        self.inner.all_topics.store(false, Ordering::Release);
    }

    /// Requests the metadata of all topics, now and with every refresh. With `all = false`, refreshes no longer request
    /// all topics.
    pub(crate) async fn learn_all(&self, all: bool, timeout: Duration) -> Result<Arc<Metadata>> {
        self.start_refresher();
        if !self.inner.all_topics.swap(all, Ordering::AcqRel) && all {
            self.refresh(timeout).await?;
        }
        Ok(self.metadata())
    }

    fn topic_registry(&self) -> MutexGuard<'_, TopicRegistry> {
        lock(&self.inner.topic_registry)
    }

    pub(super) fn start_refresher(&self) {
        if !self.inner.refresher_started.swap(true, Ordering::AcqRel) {
            let requested = Arc::clone(&self.inner.refresh_requested);
            tokio::spawn(refresh_periodically(Arc::downgrade(&self.inner), requested, self.options().metadata_max_age));
        }
    }
}

/// Refreshes metadata on request and every `max_age`, until the cluster is closed or dropped.
async fn refresh_periodically(cluster: Weak<Inner>, requested: Arc<Notify>, max_age: Duration) {
    let mut backoff: Option<Backoff> = None;
    let mut backoff_until = Instant::now();
    loop {
        let signal = timeout(max_age, requested.notified()).await;
        // The backoff applies only to frequent requests.
        if signal.is_err() || Instant::now() >= backoff_until {
            backoff = None;
        }
        loop {
            let Some(inner) = cluster.upgrade() else { return };
            if *inner.closed.borrow() {
                return;
            }
            let cluster = Cluster { inner, connection_kind: ConnectionKind::Control, version_override: None };
            let before = cluster.metadata();
            let refreshed = cluster.refresh(cluster.options().request_timeout).await;
            if refreshed.is_ok() && !cluster.metadata().same_as(&before) {
                backoff = None;
            }
            drop(before);
            // The delay also follows a successful refresh, so that frequent requests cause at most one refresh per
            // delay. The delay grows as long as responses contain no change.
            let delay = backoff.get_or_insert_with(|| cluster.backoff()).next_delay();
            let max_delay = cluster.options().retry_backoff_max;
            if let Err(error) = &refreshed {
                let client_id = cluster.client_id();
                tracing::debug!(client_id, retry_after = ?delay, "metadata cannot be refreshed: {error}");
            }
            drop(cluster);
            sleep(delay).await;
            backoff_until = Instant::now() + max_delay;
            if refreshed.is_ok() {
                break;
            }
        }
    }
}

/// Converts a response for [`Metadata`]. Large responses are converted outside the runtime's threads.
async fn convert(response: MetadataResponse, names: Option<&BTreeSet<String>>) -> Result<MetadataUpdate> {
    let requested = names.map_or(RequestedTopics::All, RequestedTopics::Topics);
    let partitions: usize = response.topics.iter().map(|topic| topic.partitions.len()).sum();
    if partitions.max(response.brokers.len()) < LARGE_RESPONSE {
        return Ok(MetadataUpdate::new(response, requested));
    }
    let names = names.cloned();
    let convert =
        move || MetadataUpdate::new(response, names.as_ref().map_or(RequestedTopics::All, RequestedTopics::Topics));
    blocking(convert).await
}

/// Returns the names of the topics in a response, without internal topics and topics that cannot be read.
fn names_of(response: MetadataResponse) -> Vec<String> {
    let topics = response.topics.into_iter();
    let readable = topics.filter(|topic| topic.error_code == ErrorCode::NONE.code() && !topic.is_internal);
    let mut names: Vec<String> = readable.filter_map(|topic| topic.name).collect();
    names.sort();
    names
}

fn clear_leader_epochs(response: &mut MetadataResponse) {
    let partitions = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    partitions.for_each(|partition| partition.leader_epoch = -1);
}

#[cfg(test)]
#[path = "refresh_tests.rs"]
mod tests;
