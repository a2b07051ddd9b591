//! Retry loop of batched requests. It identifies items by index, so that it is compiled once and not for each request
//! type.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

use super::batch::Routes;
use super::routing::{Target, route_items};
use crate::cluster::{Cluster, first_completed};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::join_limited;

/// Results of the requests of a round: the indexes of the requested items, and a result for each item or an error that
/// concerns all of them.
pub(super) type RoundResult = Vec<(Vec<usize>, Result<Vec<(usize, Result<()>)>>)>;
pub(super) type PendingRound<'a> = Pin<Box<dyn Future<Output = RoundResult> + Send + 'a>>;

pub(super) struct RetryRounds<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) key: ApiKey,
    pub(super) routes: Routes<'a>,
    pub(super) timeout: Duration,
    /// Returns the description of an item for error messages.
    pub(super) describe: &'a (dyn Fn(usize) -> String + Sync),
    /// True if a request was sent and its response has not arrived.
    pub(super) pending: &'a AtomicBool,
    /// Sends the requests for these items to a target, and waits for the responses up to a time limit.
    pub(super) send: &'a (dyn Fn(Target, Vec<usize>, Duration) -> PendingRound<'a> + Sync),
}

impl RetryRounds<'_> {
    fn log_outcome(&self, done: &BTreeMap<usize, Result<()>>) {
        let (client_id, items) = (self.cluster.client_id(), done.len());
        let failed = || done.values().filter_map(|result| result.as_ref().err());
        let count = failed().count();
        tracing::debug!(client_id, items, failed = count, "{} completed", self.key.name());
        if count > 0 {
            tracing::debug!(client_id, "{} failed: {}", self.key.name(), join_limited(failed()));
        }
    }

    /// Sends requests until each of the items has a result. `items` is the number of items. Also returns the items
    /// whose requests got no response at least once.
    ///
    /// # Errors
    /// Fails in the same cases as [`super::Admin::send_batched`].
    pub(super) async fn run(&self, items: usize) -> Result<(BTreeMap<usize, Result<()>>, BTreeSet<usize>)> {
        let RetryRounds { cluster, key, routes, timeout, .. } = self;
        cluster.check_endpoint(*key)?;
        let mut retry = Retry::new(cluster.options(), *timeout);
        let mut done: BTreeMap<usize, Result<()>> = BTreeMap::new();
        let mut any_response = false;
        // Last error of each item. If a later attempt times out, the earlier error is more specific.
        let mut last_errors: BTreeMap<usize, Error> = BTreeMap::new();
        // Items of requests that got no response. A broker may have processed these requests.
        let mut unanswered: BTreeSet<usize> = BTreeSet::new();
        loop {
            let open: BTreeSet<usize> = (0..items).filter(|item| !done.contains_key(item)).collect();
            if open.is_empty() {
                self.log_outcome(&done);
                return Ok((done, unanswered));
            }
            let limit = retry.left().min(cluster.options().request_timeout);
            let mut retriable: BTreeMap<usize, Error> = BTreeMap::new();
            let routed = route_items(cluster, routes, open, limit).await?;
            done.extend(routed.completed.into_iter().map(|(item, error)| (item, Err(error))));
            for (item, error) in routed.failures {
                match routes.is_retriable(&error) {
                    true => drop(retriable.insert(item, error)),
                    false => drop(done.insert(item, Err(error))),
                }
            }
            for (indexes, results) in self.send_all(routed.targets, limit).await {
                let results = match results {
                    Ok(results) => results,
                    Err(error) if error.unanswered() && self.is_final() => {
                        let context = format!(
                            "a token may exist, because {} was sent and no response came: it is not sent again, and \
                             describe_delegation_tokens lists the token, which can be expired",
                            key.name()
                        );
                        done.extend(indexes.into_iter().map(|item| (item, Err(error.clone().context(&*context)))));
                        continue;
                    }
                    Err(error) if routes.is_retriable(&error) || error.retriable() => {
                        cluster.request_refresh();
                        if error.unanswered() {
                            unanswered.extend(&indexes);
                        }
                        retriable.extend(indexes.into_iter().map(|item| (item, error.clone())));
                        continue;
                    }
                    Err(error) if matches!(routes, Routes::Broker(_)) => {
                        done.extend(indexes.into_iter().map(|item| (item, Err(error.clone()))));
                        continue;
                    }
                    Err(error) => return Err(add_kraft_release(*key, error)),
                };
                any_response = true;
                let mut missing: BTreeSet<usize> = indexes.into_iter().collect();
                for (item, result) in results {
                    missing.remove(&item);
                    match result {
                        Err(error) if routes.is_retriable(&error) => drop(retriable.insert(item, error)),
                        Err(error) if unanswered.contains(&item) => {
                            drop(done.insert(item, Err(add_earlier_request(*key, error))));
                        }
                        result => drop(done.insert(item, result)),
                    }
                }
                for item in missing {
                    let reason = format!("the response to {} leaves out {}", key.name(), (self.describe)(item));
                    done.insert(item, Err(Error::protocol("a broker", reason)));
                }
            }
            let refresh = retriable.values().any(Error::refresh_metadata);
            for (item, error) in retriable {
                let error = error.prefer_cause(last_errors.remove(&item));
                last_errors.insert(item, error);
            }
            last_errors.retain(|item, _| !done.contains_key(item));
            let Some(cause) = last_errors.values().next().cloned() else { continue };
            if refresh {
                cluster.request_refresh();
            }
            let context = || self.error_context(last_errors.keys());
            if let Err(late) = retry.wait(cause, context).await {
                if !any_response && done.is_empty() {
                    return Err(late);
                }
                for (item, cause) in std::mem::take(&mut last_errors) {
                    let context = self.error_context(std::iter::once(&item));
                    done.insert(item, Err(Error::timeout_because(context, *timeout, Some(cause))));
                }
            }
        }
    }

    /// Returns true if a request without a response must not be repeated. A repeated CreateDelegationToken creates a
    /// second token, and the first is not returned to the caller.
    fn is_final(&self) -> bool {
        self.key == ApiKey::CreateDelegationToken && self.pending.load(Ordering::Relaxed)
    }

    /// Sends the requests to all targets concurrently.
    async fn send_all(&self, targets: BTreeMap<Target, Vec<usize>>, limit: Duration) -> RoundResult {
        let mut running: Vec<_> =
            targets.into_iter().map(|(target, items)| (self.send)(target, items, limit)).collect();
        let mut results = Vec::new();
        while !running.is_empty() {
            results.extend(first_completed(&mut running).await);
        }
        results
    }

    fn error_context<'i>(&self, items: impl Iterator<Item = &'i usize>) -> String {
        match join_limited(items.map(|item| (self.describe)(*item))) {
            items if items.is_empty() => self.key.name().to_owned(),
            items => format!("{} of {items}", self.key.name()),
        }
    }
}

/// If an error may be due to the success of an earlier request, adds to the error that the request was sent twice.
/// Other errors are returned unchanged.
fn add_earlier_request(key: ApiKey, error: Error) -> Error {
    let Error::Server { code, .. } = &error else { return error };
    let may_be_done = match key {
        ApiKey::CreateTopics => *code == ErrorCode::TOPIC_ALREADY_EXISTS,
        ApiKey::DeleteTopics => [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_TOPIC_ID].contains(code),
        ApiKey::CreatePartitions => *code == ErrorCode::INVALID_PARTITIONS,
        ApiKey::AlterPartitionReassignments => *code == ErrorCode::NO_REASSIGNMENT_IN_PROGRESS,
        ApiKey::AlterUserScramCredentials => *code == ErrorCode::RESOURCE_NOT_FOUND,
        ApiKey::ExpireDelegationToken => *code == ErrorCode::DELEGATION_TOKEN_NOT_FOUND,
        ApiKey::DeleteGroups => *code == ErrorCode::GROUP_ID_NOT_FOUND,
        ApiKey::LeaveGroup => *code == ErrorCode::UNKNOWN_MEMBER_ID,
        ApiKey::UnregisterBroker => *code == ErrorCode::BROKER_ID_NOT_REGISTERED,
        ApiKey::AddRaftVoter => *code == ErrorCode::DUPLICATE_VOTER,
        ApiKey::RemoveRaftVoter => *code == ErrorCode::VOTER_NOT_FOUND,
        ApiKey::UnregisterController => *code == ErrorCode::CONTROLLER_ID_NOT_REGISTERED,
        _ => false,
    };
    if !may_be_done {
        return error;
    }
    error.context(format!("{} was sent again because no response came, and the first may have done it", key.name()))
}

/// For APIs that KRaft clusters did not support at first, adds to an error the first Kafka release whose KRaft clusters
/// support the API.
fn add_kraft_release(key: ApiKey, error: Error) -> Error {
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
    fn kraft_release_is_added() {
        let error = add_kraft_release(ApiKey::CreateDelegationToken, Error::UnsupportedVersion("no".into()));
        assert_eq!(error.to_string(), "no; without ZooKeeper Kafka has it since 3.6");
        let error = add_kraft_release(ApiKey::CreateAcls, Error::UnsupportedVersion("no".into()));
        assert_eq!(error.to_string(), "no");
    }
}
