//! Rounds of questions about items, which are numbers here: compiled once, and not for each kind of request.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

use super::batch::Way;
use super::routing::{Target, place};
use crate::cluster::{Cluster, first_completed};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::some_of;

/// What became of requests: their items, and what was said of each or the error of all.
pub(super) type Round = Vec<(Vec<usize>, Result<Vec<(usize, Result<()>)>>)>;
pub(super) type Asking<'a> = Pin<Box<dyn Future<Output = Round> + Send + 'a>>;

pub(super) struct Rounds<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) key: ApiKey,
    pub(super) way: Way<'a>,
    pub(super) timeout: Duration,
    /// An item in an error.
    pub(super) what: &'a (dyn Fn(usize) -> String + Sync),
    /// Asks for items, for as long as this.
    pub(super) ask: &'a (dyn Fn(Target, Vec<usize>, Duration) -> Asking<'a> + Sync),
}

impl Rounds<'_> {
    /// Asks until each item below `items` has an outcome.
    ///
    /// # Errors
    /// As [`super::Admin::settle`].
    pub(super) async fn run(&self, items: usize) -> Result<BTreeMap<usize, Result<()>>> {
        let Rounds { cluster, key, way, timeout, .. } = self;
        cluster.check_endpoint(*key)?;
        let mut retry = Retry::new(cluster.options(), *timeout);
        let mut done: BTreeMap<usize, Result<()>> = BTreeMap::new();
        let mut answered = false;
        // What the items met before: that the last try had no time left says less.
        let mut met: BTreeMap<usize, Error> = BTreeMap::new();
        // Items of requests without a response: a broker may have done what they want.
        let mut lost: BTreeSet<usize> = BTreeSet::new();
        loop {
            let open: BTreeSet<usize> = (0..items).filter(|item| !done.contains_key(item)).collect();
            if open.is_empty() {
                return Ok(done);
            }
            let limit = retry.left().min(cluster.options().request_timeout);
            let mut passed: BTreeMap<usize, Error> = BTreeMap::new();
            let placed = place(cluster, way, open, limit).await?;
            done.extend(placed.settled.into_iter().map(|(item, error)| (item, Err(error))));
            for (item, error) in placed.failures {
                match way.passing(&error) {
                    true => drop(passed.insert(item, error)),
                    false => drop(done.insert(item, Err(error))),
                }
            }
            for (asked, said) in self.ask_all(placed.targets, limit).await {
                let said = match said {
                    Ok(said) => said,
                    Err(error) if way.passing(&error) || error.retriable() => {
                        cluster.request_refresh();
                        if error.unanswered() {
                            lost.extend(&asked);
                        }
                        passed.extend(asked.into_iter().map(|item| (item, error.clone())));
                        continue;
                    }
                    Err(error) if matches!(way, Way::Broker(_)) => {
                        done.extend(asked.into_iter().map(|item| (item, Err(error.clone()))));
                        continue;
                    }
                    Err(error) => return Err(late_in_kraft(*key, error)),
                };
                answered = true;
                let mut silent: BTreeSet<usize> = asked.into_iter().collect();
                for (item, said) in said {
                    silent.remove(&item);
                    match said {
                        Err(error) if way.passing(&error) => drop(passed.insert(item, error)),
                        Err(error) if lost.contains(&item) => drop(done.insert(item, Err(after_loss(*key, error)))),
                        said => drop(done.insert(item, said)),
                    }
                }
                for item in silent {
                    let reason = format!("the answer to {} leaves out {}", key.name(), (self.what)(item));
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
            let what = || self.words(met.keys());
            if let Err(late) = retry.wait(cause, what).await {
                if !answered && done.is_empty() {
                    return Err(late);
                }
                for (item, cause) in std::mem::take(&mut met) {
                    let what = self.words(std::iter::once(&item));
                    done.insert(item, Err(Error::timeout_because(what, *timeout, Some(cause))));
                }
            }
        }
    }

    /// Asks all brokers at the same time.
    async fn ask_all(&self, targets: BTreeMap<Target, Vec<usize>>, limit: Duration) -> Round {
        let mut running: Vec<_> = targets.into_iter().map(|(target, items)| (self.ask)(target, items, limit)).collect();
        let mut rounds = Vec::new();
        while !running.is_empty() {
            rounds.extend(first_completed(&mut running).await);
        }
        rounds
    }

    fn words<'i>(&self, items: impl Iterator<Item = &'i usize>) -> String {
        match some_of(items.map(|item| (self.what)(*item))) {
            items if items.is_empty() => self.key.name().to_owned(),
            items => format!("{} of {items}", self.key.name()),
        }
    }
}

/// Adds to an error that the request was sent twice, if the first may be the reason for it.
fn after_loss(key: ApiKey, error: Error) -> Error {
    let Error::Server { code, .. } = &error else { return error };
    let done_before = match key {
        ApiKey::CreateTopics => *code == ErrorCode::TOPIC_ALREADY_EXISTS,
        ApiKey::DeleteTopics => [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_TOPIC_ID].contains(code),
        ApiKey::CreatePartitions => *code == ErrorCode::INVALID_PARTITIONS,
        ApiKey::AlterPartitionReassignments => *code == ErrorCode::NO_REASSIGNMENT_IN_PROGRESS,
        ApiKey::AlterUserScramCredentials => *code == ErrorCode::RESOURCE_NOT_FOUND,
        ApiKey::ExpireDelegationToken => *code == ErrorCode::DELEGATION_TOKEN_NOT_FOUND,
        ApiKey::DeleteGroups => *code == ErrorCode::GROUP_ID_NOT_FOUND,
        ApiKey::LeaveGroup => *code == ErrorCode::UNKNOWN_MEMBER_ID,
        ApiKey::UnregisterBroker => *code == ErrorCode::BROKER_ID_NOT_REGISTERED,
        _ => false,
    };
    if !done_before {
        return error;
    }
    error.context(format!("{} was sent again because no response came, and the first may have done it", key.name()))
}

/// KRaft came without some APIs: what is said of their age holds for clusters with ZooKeeper.
fn late_in_kraft(key: ApiKey, error: Error) -> Error {
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
