//! The one way to ask brokers about many items: who can answer for each is found out, each broker is asked once for all of
//! its items, each item settles for itself, and what another broker or a later time may answer is asked for again.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, Request};

use super::Admin;
use super::place::{Target, place};
use super::work::{Route, Work};
use crate::cluster::{Cluster, first_of};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::some_of;

/// One request to be made.
#[derive(Debug)]
pub(super) struct Asked<'a, K> {
    pub(super) version: i16,
    /// Who is asked, `None` for anyone who answers.
    pub(super) node: Option<i32>,
    pub(super) items: &'a [K],
    /// What the broker may take: less than we wait, or its answer would be lost.
    pub(super) timeout_ms: i32,
}

type Outcomes<K, T> = Vec<(K, Result<T>)>;

/// What became of one request: its items, and the answer to each or the error of all.
type Round<K, T> = Vec<(Vec<K>, Result<Outcomes<K, T>>)>;
type Asking<'a, K, T> = Pin<Box<dyn Future<Output = Round<K, T>> + Send + 'a>>;

impl Admin {
    /// Asks for `items` until each has an outcome, which are given in the order of `items`. An item that an answer leaves
    /// out fails.
    ///
    /// # Errors
    /// What is not about one item and stays: no login, a version that a broker does not speak; a timeout with its cause
    /// where no broker answered at all.
    pub(super) async fn settle<K, R, T>(
        &self,
        work: &Work<K>,
        items: &[K],
        build: impl Fn(&Asked<'_, K>) -> Result<R> + Sync,
        read: impl Fn(&Asked<'_, K>, R::Response) -> Result<Outcomes<K, T>> + Sync,
    ) -> Result<Outcomes<K, T>>
    where
        K: Clone + Ord + Send + Sync,
        R: Request,
        R::Response: Send + 'static,
        T: Send,
    {
        self.settle_at(&self.cluster, work, items, build, read).await
    }

    /// The same of a cluster in versions of the caller's choice.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub(super) async fn settle_at<K, R, T>(
        &self,
        cluster: &Cluster,
        work: &Work<K>,
        items: &[K],
        build: impl Fn(&Asked<'_, K>) -> Result<R> + Sync,
        read: impl Fn(&Asked<'_, K>, R::Response) -> Result<Outcomes<K, T>> + Sync,
    ) -> Result<Outcomes<K, T>>
    where
        K: Clone + Ord + Send + Sync,
        R: Request,
        R::Response: Send + 'static,
        T: Send,
    {
        cluster.check_endpoint(R::KEY)?;
        let mut retry = Retry::new(cluster.options(), work.timeout);
        let mut done: BTreeMap<K, Result<T>> = BTreeMap::new();
        let mut answered = false;
        // What the items met before: that the last try had no time left says less.
        let mut met: BTreeMap<K, Error> = BTreeMap::new();
        loop {
            let open: BTreeSet<K> = items.iter().filter(|item| !done.contains_key(item)).cloned().collect();
            if open.is_empty() {
                return Ok(items.iter().filter_map(|item| done.remove_entry(item)).collect());
            }
            let limit = retry.left().min(cluster.options().request_timeout);
            let mut passed: BTreeMap<K, Error> = BTreeMap::new();
            let placed = place(cluster, work, open, limit).await?;
            done.extend(placed.settled.into_iter().map(|(item, error)| (item, Err(error))));
            for (item, error) in placed.failures {
                match work.route.passing(&error) {
                    true => drop(passed.insert(item, error)),
                    false => drop(done.insert(item, Err(error))),
                }
            }
            for (asked, said) in ask_all(cluster, work, placed.targets, limit, &build, &read).await {
                let said = match said {
                    Ok(said) => said,
                    Err(error) if work.route.passing(&error) || error.retriable() => {
                        cluster.request_refresh();
                        passed.extend(asked.into_iter().map(|item| (item, error.clone())));
                        continue;
                    }
                    Err(error) if matches!(work.route, Route::Broker(_)) => {
                        done.extend(asked.into_iter().map(|item| (item, Err(error.clone()))));
                        continue;
                    }
                    Err(error) => return Err(late_in_kraft(R::KEY, error)),
                };
                answered = true;
                let mut silent: BTreeSet<K> = asked.into_iter().collect();
                for (item, said) in said {
                    // What nobody asked for is no answer.
                    if silent.remove(&item) {
                        match said {
                            Err(error) if work.route.passing(&error) => drop(passed.insert(item, error)),
                            said => drop(done.insert(item, said)),
                        }
                    }
                }
                for item in silent {
                    let reason = format!("the answer to {} leaves out {}", R::KEY.name(), (work.what)(&item));
                    done.insert(item, Err(Error::protocol("a broker", reason)));
                }
            }
            let refresh = passed.values().any(Error::refresh_metadata);
            for (item, error) in passed {
                let error = error.after(met.remove(&item));
                met.insert(item, error);
            }
            met.retain(|item, _| !done.contains_key(item));
            let Some(cause) = met.values().next().cloned() else { continue };
            if refresh {
                cluster.request_refresh();
            }
            let what = || words(R::KEY, met.keys().map(work.what));
            if let Err(late) = retry.wait(cause, what).await {
                if !answered && done.is_empty() {
                    return Err(late);
                }
                for (item, cause) in std::mem::take(&mut met) {
                    let what = words(R::KEY, std::iter::once((work.what)(&item)));
                    done.insert(item, Err(Error::timeout_because(what, work.timeout, Some(cause))));
                }
            }
        }
    }

    /// Asks for one thing that has no items.
    ///
    /// # Errors
    /// What `read` finds; a timeout with its cause.
    pub(super) async fn ask<R, T>(
        &self,
        route: Route<()>,
        timeout: Duration,
        build: impl Fn(&Asked<'_, ()>) -> Result<R> + Sync,
        read: impl Fn(R::Response) -> Result<T> + Sync,
    ) -> Result<T>
    where
        R: Request,
        R::Response: Send + 'static,
        T: Send,
    {
        let work = Work { route, what: |()| String::new(), most: |_| usize::MAX, timeout };
        let said = self.settle(&work, &[()], build, |_, response| Ok(vec![((), read(response))])).await?;
        let silent = || Err(Error::State(format!("{} was not asked", R::KEY.name())));
        said.into_iter().next().map_or_else(silent, |(_, said)| said)
    }

    /// The ids of all brokers.
    ///
    /// # Errors
    /// A timeout with its cause; the client starts from controllers.
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

fn words(key: ApiKey, items: impl Iterator<Item = String>) -> String {
    match some_of(items) {
        items if items.is_empty() => key.name().to_owned(),
        items => format!("{} of {items}", key.name()),
    }
}

/// Asks all brokers at the same time; one broker for one thing after the other, where a request cannot hold all.
async fn ask_all<K, R, T>(
    cluster: &Cluster,
    work: &Work<K>,
    targets: BTreeMap<Target, Vec<K>>,
    limit: Duration,
    build: &(impl Fn(&Asked<'_, K>) -> Result<R> + Sync),
    read: &(impl Fn(&Asked<'_, K>, R::Response) -> Result<Outcomes<K, T>> + Sync),
) -> Round<K, T>
where
    K: Clone + Ord + Send + Sync,
    R: Request,
    R::Response: Send + 'static,
    T: Send,
{
    let timeout_ms = i32::try_from((limit * 9 / 10).as_millis()).unwrap_or(i32::MAX);
    let mut running: Vec<Asking<'_, K, T>> = Vec::with_capacity(targets.len());
    for (target, items) in targets {
        running.push(Box::pin(async move {
            let most = match target {
                Target::Any => Ok((work.most)(0)),
                Target::Node(node) => cluster.version::<R>(node, limit).await.map(work.most),
            };
            let most = match most {
                Ok(most) => most.clamp(1, items.len().max(1)),
                Err(error) => return vec![(items, Err(error))],
            };
            let node = match target {
                Target::Any => None,
                Target::Node(node) => Some(node),
            };
            let mut round = Vec::new();
            for items in items.chunks(most) {
                let build = |version| build(&Asked { version, node, items, timeout_ms });
                let answer = match target {
                    Target::Any => cluster.send_any_with(limit, build).await,
                    Target::Node(node) => cluster.send_with(node, limit, build).await,
                };
                let said =
                    answer.and_then(|(version, answer)| read(&Asked { version, node, items, timeout_ms }, answer));
                round.push((items.to_vec(), said));
            }
            round
        }));
    }
    let mut rounds = Vec::new();
    while !running.is_empty() {
        rounds.extend(first_of(&mut running).await);
    }
    rounds
}

/// KRaft came without some APIs: what is said of their age holds for clusters with ZooKeeper.
pub(super) fn late_in_kraft(key: ApiKey, error: Error) -> Error {
    let since = match key {
        ApiKey::DescribeUserScramCredentials | ApiKey::AlterUserScramCredentials => "3.5",
        ApiKey::CreateDelegationToken
        | ApiKey::RenewDelegationToken
        | ApiKey::ExpireDelegationToken
        | ApiKey::DescribeDelegationToken => "3.6",
        _ => return error,
    };
    match error {
        Error::UnsupportedVersion(text) => {
            Error::UnsupportedVersion(format!("{text}; without ZooKeeper Kafka has it since {since}"))
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kraft_has_some_apis_later() {
        let error = late_in_kraft(ApiKey::CreateDelegationToken, Error::UnsupportedVersion("no".into()));
        assert_eq!(error.to_string(), "no; without ZooKeeper Kafka has it since 3.6");
        let error = late_in_kraft(ApiKey::CreateAcls, Error::UnsupportedVersion("no".into()));
        assert_eq!(error.to_string(), "no");
    }
}
