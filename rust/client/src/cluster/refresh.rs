//! Metadata: asked for when somebody needs it, and when it is old.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::metadata::MetadataRequestTopic;
use samsarrow_wire::messages::{MetadataRequest, MetadataResponse};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::broker::Load;
use super::topic_registry::{Interest, Purpose, TopicUser};
use super::{Cluster, Inner, Lane};
use crate::cluster::metadata::{Asked, Metadata};
use crate::config::Recovery;
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::retry::backoff::Backoff;
use crate::types::some_of;

/// Brokers that speak no later version may name a leader with an epoch of before, which would refuse every Fetch with
/// FENCED_LEADER_EPOCH (KAFKA-9212).
const RELIABLE_EPOCHS: i16 = 9;
/// From this version on a request can keep brokers from creating topics.
const NO_CREATION: i16 = 4;
/// How often brokers may say that a topic is not there before it is believed: a broker that has just started, or one
/// that lags behind, says so of any topic.
const DENIALS: u32 = 2;
/// The same of a topic that is being created because it was asked for.
const DENIALS_OF_NEW: u32 = 5;

impl Cluster {
    /// Waits until all these topics are known.
    ///
    /// # Errors
    /// What the brokers say of a topic they refuse; `UNKNOWN_TOPIC_OR_PARTITION` for one that does not appear in time;
    /// a timeout with its cause when no broker can be asked.
    pub async fn topics(&self, names: &[&str], timeout: Duration) -> Result<Arc<Metadata>> {
        self.start_refresher();
        self.interest().touch(names);
        let mut retry = Retry::new(self.options(), timeout);
        loop {
            let metadata = self.metadata();
            let missing: Vec<&str> = names.iter().copied().filter(|name| metadata.topic(name).is_none()).collect();
            if missing.is_empty() {
                return Ok(metadata);
            }
            let asked = self.ask(&missing, Purpose::Use, retry.left()).await;
            let metadata = self.metadata();
            let still: Vec<&str> = missing.into_iter().filter(|name| metadata.topic(name).is_none()).collect();
            let refused = still.iter().find_map(|name| Some((name, metadata.topic_error(name)?)));
            let failure = match (asked, refused) {
                _ if still.is_empty() => continue,
                (_, Some((name, code))) if !code.retriable() => Err(Error::server(code, format!("topic {name}"))),
                (Err(error), _) if !error.retriable() => Err(error),
                (Err(error), _) => Ok(error),
                (Ok(()), refused) => {
                    let code = refused.map_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, |(_, code)| code);
                    Ok(Error::server(code, format!("topic {}", some_of(&still))))
                }
            };
            let over = match failure {
                Ok(error) => {
                    let what = || format!("metadata of topic {}", some_of(&still));
                    retry.wait_to_the_end(error, what).await.err().map(|late| match late {
                        // What the brokers said is the answer, not how long they said it.
                        Error::Timeout { cause: Some(said), .. } if matches!(*said, Error::Server { .. }) => *said,
                        late => late,
                    })
                }
                Err(error) => Some(error),
            };
            if let Some(error) = over {
                self.interest().forget(&still);
                return Err(error);
            }
        }
    }

    /// What there is to say of each of these topics: known now, or why it is not. What may pass is asked for again until
    /// `timeout`; that a topic does not exist is its answer as soon as brokers have said so twice. No topic is created.
    pub async fn topics_each(&self, names: &[&str], timeout: Duration) -> BTreeMap<String, Result<()>> {
        self.each(names, Purpose::Look, timeout).await
    }

    /// As [`topics_each`](Self::topics_each), for topics that are read: with `allow.auto.create.topics` brokers may create
    /// them.
    pub(crate) async fn topics_to_read(&self, names: &[&str], timeout: Duration) -> BTreeMap<String, Result<()>> {
        self.each(names, Purpose::Use, timeout).await
    }

    async fn each(&self, names: &[&str], purpose: Purpose, timeout: Duration) -> BTreeMap<String, Result<()>> {
        self.start_refresher();
        self.interest().touch(names);
        let mut retry = Retry::new(self.options(), timeout);
        let mut outcomes = BTreeMap::new();
        let mut open: BTreeSet<&str> = names.iter().copied().collect();
        let mut denials: HashMap<&str, u32> = HashMap::new();
        loop {
            let metadata = self.metadata();
            let known: Vec<&str> = open.iter().copied().filter(|name| metadata.topic(name).is_some()).collect();
            for name in known {
                open.remove(name);
                outcomes.insert(name.to_owned(), Ok(()));
            }
            if open.is_empty() {
                let refused: Vec<&str> = outcomes.iter().filter(|(_, o)| o.is_err()).map(|(name, _)| &**name).collect();
                self.interest().forget(&refused);
                return outcomes;
            }
            let asking: Vec<&str> = open.iter().copied().collect();
            let asked = self.ask(&asking, purpose, retry.left()).await;
            let answered = self.metadata();
            let mut failure = None;
            for name in asking.iter().copied().filter(|name| answered.topic(name).is_none()) {
                let error = match (&asked, answered.topic_error(name)) {
                    (Err(error), _) => error.clone(),
                    (Ok(()), code) => {
                        let code = code.unwrap_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                        if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && answered.generation > metadata.generation {
                            *denials.entry(name).or_default() += 1;
                        }
                        Error::server(code, format!("topic {name}"))
                    }
                };
                let enough = if self.may_appear(name) { DENIALS_OF_NEW } else { DENIALS };
                if !error.retriable() || denials.get(name).is_some_and(|denials| *denials >= enough) {
                    open.remove(name);
                    outcomes.insert(name.to_owned(), Err(error));
                } else {
                    failure = Some(error);
                }
            }
            let Some(failure) = failure else { continue };
            let what = || format!("metadata of topic {}", some_of(&asking));
            if let Err(late) = retry.wait_to_the_end(failure, what).await {
                for name in open.iter().filter(|name| answered.topic(name).is_none()) {
                    let told = answered.topic_error(name).filter(|_| asked.is_ok());
                    let error = told.map_or_else(|| late.clone(), |code| Error::server(code, format!("topic {name}")));
                    outcomes.insert((*name).to_owned(), Err(error));
                }
                open.retain(|name| answered.topic(name).is_some());
            }
        }
    }

    fn may_appear(&self, name: &str) -> bool {
        self.options().allow_auto_create_topics && self.interest().may_appear(name)
    }

    /// Asks for the topics that records wait for, in the background: one that was deleted may be created again.
    pub(crate) fn request_to_write(&self, names: &[&str]) {
        self.interest().await_answer(names, Purpose::Write);
        self.request_refresh();
    }

    /// Asks for the metadata of `user`'s topics with every refresh, as long as it lives.
    pub(crate) fn keep(&self, user: Weak<dyn TopicUser>) {
        self.interest().keep(user);
    }

    /// Asks for metadata of these topics. Callers that wait for each other share a request, and nobody asks for more
    /// than what somebody waits for.
    async fn ask(&self, names: &[&str], purpose: Purpose, timeout: Duration) -> Result<()> {
        self.interest().await_answer(names, purpose);
        let deadline = Instant::now() + timeout;
        let late = |_| Error::timeout("metadata", timeout);
        let _turn = timeout_at(deadline, self.inner.refreshing.lock()).await.map_err(late)?;
        let metadata = self.metadata();
        if names.iter().all(|name| metadata.topic(name).is_some()) {
            return Ok(());
        }
        let wanted = self.interest().take_awaited();
        if !wanted.any_of(names) {
            // Anyone who had the turn before asked for ours as well.
            return Ok(());
        }
        self.fetch_topics(&wanted.look, false, deadline).await?;
        self.fetch_topics(&wanted.create, true, deadline).await
    }

    /// Asks for metadata now: of all topics that are in use. Callers that come while it is being asked for share the
    /// answer.
    pub async fn refresh(&self, timeout: Duration) -> Result<()> {
        let seen = self.inner.refreshes.load(Ordering::Acquire);
        let deadline = Instant::now() + timeout;
        let late = |_| Error::timeout("metadata", timeout);
        let _turn = timeout_at(deadline, self.inner.refreshing.lock()).await.map_err(late)?;
        if self.inner.refreshes.load(Ordering::Acquire) > seen {
            return Ok(());
        }
        let users = self.interest().users();
        let in_use: Vec<Arc<str>> = users.iter().flat_map(|user| user.topics_in_use()).collect();
        drop(users);
        let (wanted, forgotten) = self.interest().take_all(&in_use, self.options().metadata_max_idle);
        if !forgotten.is_empty() {
            tracing::debug!(topics = some_of(&forgotten), "not used for metadata.max.idle.ms: no longer asked for");
            self.inner.metadata.send_modify(|metadata| *metadata = Arc::new(metadata.without(&forgotten)));
        }
        if self.inner.all_topics.load(Ordering::Acquire) {
            self.fetch(None, false, deadline).await?;
        } else {
            // A request without any topic is answered with the brokers alone.
            if !wanted.look.is_empty() || wanted.create.is_empty() {
                self.fetch(Some(&wanted.look), false, deadline).await?;
            }
            self.fetch_topics(&wanted.create, true, deadline).await?;
        }
        self.inner.refreshes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    async fn fetch_topics(&self, names: &BTreeSet<String>, create: bool, deadline: Instant) -> Result<()> {
        if names.is_empty() { Ok(()) } else { self.fetch(Some(names), create, deadline).await }
    }

    /// One request, for these topics or for all.
    async fn fetch(&self, names: Option<&BTreeSet<String>>, create: bool, deadline: Instant) -> Result<()> {
        let create = create && self.options().allow_auto_create_topics;
        let build = |version| {
            let topic = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
            // No list asks for all topics; version 0 says so with an empty one.
            let all = if version == 0 { Some(Vec::new()) } else { None };
            Ok(MetadataRequest {
                topics: names.map_or(all, |names| Some(names.iter().map(topic).collect())),
                // Brokers before decide for themselves.
                allow_auto_topic_creation: create || version < NO_CREATION,
                ..Default::default()
            })
        };
        let limit = self.options().request_timeout.min(deadline.saturating_duration_since(Instant::now()));
        if self.lost_for() > self.options().metadata_recovery_trigger {
            self.rebootstrap("no broker has answered for metadata.recovery.rebootstrap.trigger.ms");
        }
        let told = match self.options().at_controllers {
            true => self.ask_controllers(limit).await,
            false => self.send_any_with(limit, build).await.and_then(|(version, mut answer)| {
                ErrorCode::from_i16(answer.error_code).ok().map_err(|code| Error::server(code, "Metadata"))?;
                if version < RELIABLE_EPOCHS {
                    forget_epochs(&mut answer);
                }
                Ok(answer)
            }),
        };
        let answer = match told {
            Ok(answer) => answer,
            Err(error) => {
                if error.code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED.code()) {
                    self.rebootstrap("a broker demands it");
                    // The next attempt is another broker's: this one may pass.
                    return Err(Error::connection("the cluster", error.to_string()));
                }
                self.inner.lost_since().get_or_insert_with(Instant::now);
                return Err(error);
            }
        };
        *self.inner.lost_since() = None;
        *self.inner.told_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let asked = names.map_or(Asked::All, Asked::Topics);
        self.inner.metadata.send_modify(|metadata| *metadata = Arc::new(metadata.updated(answer, asked)));
        let metadata = self.metadata();
        self.interest().learn(&metadata, names);
        self.drop_links(&metadata);
        Ok(())
    }

    /// Gives up the connections to brokers that are gone. One that is waited on stays until it is answered or breaks: a
    /// broker that lags behind may not know all of the others yet.
    fn drop_links(&self, metadata: &Metadata) {
        let mut links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = links.extract_if(|(node, _), link| {
            *node >= 0 && !metadata.brokers.contains_key(node) && !matches!(link.load(), Load::Busy(_))
        });
        gone.for_each(|((node, _), link)| {
            link.close(&Error::connection(
                format!("broker {node}"),
                "the cluster's metadata does not name it any more",
            ));
        });
    }

    /// For how long no broker has sent metadata.
    fn lost_for(&self) -> Duration {
        self.inner.lost_since().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Forgets the brokers, as if none had ever been met (KIP-899, KIP-1102). What is known of topics stays until the
    /// bootstrap servers say otherwise.
    fn rebootstrap(&self, why: &str) {
        if self.options().metadata_recovery == Recovery::None || self.metadata().brokers.is_empty() {
            return;
        }
        tracing::warn!(why, "starting again from the bootstrap servers");
        *self.inner.lost_since() = None;
        self.inner.metadata.send_modify(|metadata| *metadata = Arc::new(metadata.without_brokers()));
        let mut links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = Error::connection("the cluster", "starting again from the bootstrap servers");
        links.extract_if(|(node, _), _| *node >= 0).for_each(|(_, link)| link.close(&gone));
    }

    /// Asks for metadata of what a member has subscribed to, now and with every refresh until it subscribes to something
    /// else; a topic that does not exist is no error.
    pub(crate) async fn learn(&self, names: &BTreeSet<String>, timeout: Duration) -> Result<Arc<Metadata>> {
        self.start_refresher();
        self.interest().subscribe(names);
        let metadata = self.metadata();
        let missing: Vec<&str> =
            names.iter().map(|name| &**name).filter(|name| metadata.topic(name).is_none()).collect();
        if !missing.is_empty() {
            self.ask(&missing, Purpose::Use, timeout).await?;
        }
        Ok(self.metadata())
    }

    /// A member's subscription is over: its topics are kept no longer.
    pub(crate) fn unsubscribe(&self) {
        self.interest().subscribe(&BTreeSet::new());
        self.inner.all_topics.store(false, Ordering::Release);
    }

    /// Asks for metadata of all topics, now and with every refresh, or no longer.
    pub(crate) async fn learn_all(&self, all: bool, timeout: Duration) -> Result<Arc<Metadata>> {
        self.start_refresher();
        if !self.inner.all_topics.swap(all, Ordering::AcqRel) && all {
            self.refresh(timeout).await?;
        }
        Ok(self.metadata())
    }

    fn interest(&self) -> MutexGuard<'_, Interest> {
        self.inner.interest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start_refresher(&self) {
        if !self.inner.refresher_runs.swap(true, Ordering::AcqRel) {
            let wanted = Arc::clone(&self.inner.refresh_wanted);
            tokio::spawn(keep_fresh(Arc::downgrade(&self.inner), wanted, self.options().metadata_max_age));
        }
    }
}

/// Refreshes when asked to and when metadata is old; ends with the cluster.
async fn keep_fresh(cluster: Weak<Inner>, wanted: Arc<Notify>, max_age: Duration) {
    let mut backoff: Option<Backoff> = None;
    let mut calm_at = Instant::now();
    loop {
        let wish = timeout(max_age, wanted.notified()).await;
        // Anyone who comes by rarely is served at once.
        if wish.is_err() || Instant::now() >= calm_at {
            backoff = None;
        }
        loop {
            let Some(inner) = cluster.upgrade() else { return };
            if *inner.closed.borrow() {
                return;
            }
            let cluster = Cluster { inner, lane: Lane::Control, wanted: None };
            let before = cluster.metadata();
            let refreshed = cluster.refresh(cluster.options().request_timeout).await;
            if refreshed.is_ok() && !cluster.metadata().same_as(&before) {
                backoff = None;
            }
            drop(before);
            // The wait also follows a success, and grows while answers say nothing new: a flood of wishes is a request
            // per backoff at most.
            let delay = backoff.get_or_insert_with(|| cluster.backoff()).next_delay();
            let calm = cluster.options().retry_backoff_max;
            drop(cluster);
            sleep(delay).await;
            calm_at = Instant::now() + calm;
            match refreshed {
                Ok(()) => break,
                Err(error) => tracing::debug!(%error, "metadata could not be refreshed"),
            }
        }
    }
}

fn forget_epochs(answer: &mut MetadataResponse) {
    let partitions = answer.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    partitions.for_each(|partition| partition.leader_epoch = -1);
}

#[cfg(test)]
#[path = "refresh_tests.rs"]
mod tests;
