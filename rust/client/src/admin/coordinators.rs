//! The coordinators of many groups: found together, asked together.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{FindCoordinatorRequest, Request};
use tokio::time::{Instant, sleep};

use super::Admin;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::retry::Retry;

/// Key type of a group; transactions are another.
const GROUP: i8 = 0;
/// From this version on a request asks for many keys (KIP-699).
const MANY_KEYS: i16 = 4;

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: i32,
    /// Where clients reach it.
    pub host: String,
    /// Where clients reach it.
    pub port: i32,
}

/// What a coordinator says of one group: the answer, or an error and what it is about.
pub(super) type Said<T> = std::result::Result<T, (ErrorCode, String)>;

/// Whether another try may end better, at this broker or at another.
pub(super) fn passing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::UNSTABLE_OFFSET_COMMIT
            | ErrorCode::REQUEST_TIMED_OUT
    )
}

impl Admin {
    /// The broker that coordinates a group.
    ///
    /// # Errors
    /// What brokers say of the group; a timeout with its cause.
    pub async fn find_coordinator(&self, group: &str, timeout: Duration) -> Result<Node> {
        let mut retry = Retry::new(self.cluster.options(), timeout);
        loop {
            let limit = retry.left().min(self.cluster.options().request_timeout);
            let asked = [group.to_owned()];
            let error = match find(&self.cluster, &asked, limit).await {
                Ok(mut found) => match found.remove(group) {
                    Some(Ok(node)) => return Ok(node),
                    Some(Err((code, context))) if passing(code) => Error::server(code, context),
                    Some(Err((code, context))) => return Err(Error::server(code, context)),
                    None => return Err(left_out("FindCoordinator", group)),
                },
                Err(error) if error.retriable() => error,
                Err(error) => return Err(error),
            };
            retry.wait(error, || format!("the coordinator of group {group}")).await?;
        }
    }

    /// Asks the coordinators of `groups` for all their groups at a time, or one by one in versions before `many`, and
    /// again where one moved or is loading. Each group has its own outcome, in the order of `groups`.
    ///
    /// # Errors
    /// What retrying cannot heal and is not about one group.
    pub(super) async fn at_coordinators<R, T>(
        &self,
        cluster: &Cluster,
        groups: &[String],
        many: i16,
        timeout: Duration,
        build: impl Fn(i16, &[String]) -> Result<R>,
        read: impl Fn(i16, R::Response, &[String]) -> Result<Vec<(String, Said<T>)>>,
    ) -> Result<Vec<(String, Result<T>)>>
    where
        R: Request,
        R::Response: Send + 'static,
    {
        self.at_brokers(cluster, groups, many, false, timeout, build, read).await
    }

    /// The same at any broker, if that is what `anywhere` says: offsets in ZooKeeper have no coordinator.
    #[allow(clippy::too_many_arguments, reason = "what to ask, whom, how long, and how to read the answer")]
    pub(super) async fn at_brokers<R, T>(
        &self,
        cluster: &Cluster,
        groups: &[String],
        many: i16,
        anywhere: bool,
        timeout: Duration,
        build: impl Fn(i16, &[String]) -> Result<R>,
        read: impl Fn(i16, R::Response, &[String]) -> Result<Vec<(String, Said<T>)>>,
    ) -> Result<Vec<(String, Result<T>)>>
    where
        R: Request,
        R::Response: Send + 'static,
    {
        let deadline = Instant::now() + timeout;
        let mut backoff = cluster.backoff();
        let mut done: HashMap<String, Result<T>> = HashMap::new();
        let mut passed: HashMap<String, Error> = HashMap::new();
        loop {
            let open: Vec<String> = groups.iter().filter(|group| !done.contains_key(*group)).cloned().collect();
            if open.is_empty() {
                return Ok(groups.iter().filter_map(|group| done.remove_entry(group)).collect());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = left.min(cluster.options().request_timeout);
            let (asked, failures) = if anywhere {
                (at_any(cluster, &open, limit).await?, Vec::new())
            } else {
                by_coordinator(cluster, &open, limit).await?
            };
            settle(failures, &mut done, &mut passed);
            for (node, its) in asked {
                let each = match cluster.version::<R>(node, limit).await {
                    Ok(version) if version < many => 1,
                    Ok(_) => its.len(),
                    Err(error) if error.retriable() => {
                        passed.extend(its.into_iter().map(|group| (group, error.clone())));
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                for some in its.chunks(each.max(1)) {
                    match cluster.send_with(node, limit, |version| build(version, some)).await {
                        Ok((version, response)) => settle(read(version, response, some)?, &mut done, &mut passed),
                        Err(error) if error.retriable() => {
                            cluster.request_refresh();
                            passed.extend(some.iter().map(|group| (group.clone(), error.clone())));
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            if open.iter().all(|group| done.contains_key(group)) {
                continue;
            }
            let wait = backoff.next_delay();
            if Instant::now() + wait >= deadline {
                for group in open.into_iter().filter(|group| !done.contains_key(group)).collect::<Vec<_>>() {
                    let cause = passed.remove(&group);
                    let what = format!("{} for group {group}", R::KEY.name());
                    done.insert(group, Err(Error::timeout_because(what, timeout, cause)));
                }
                continue;
            }
            sleep(wait).await;
        }
    }
}

/// Sorts answers into those that stay and those that another try may better.
fn settle<T>(said: Vec<(String, Said<T>)>, done: &mut HashMap<String, Result<T>>, passed: &mut HashMap<String, Error>) {
    for (group, said) in said {
        match said {
            Ok(value) => {
                done.insert(group, Ok(value));
            }
            Err((code, context)) if passing(code) => {
                passed.insert(group, Error::server(code, context));
            }
            Err((code, context)) => {
                done.insert(group, Err(Error::server(code, context)));
            }
        }
    }
}

type ByNode = BTreeMap<i32, Vec<String>>;

/// All groups at one broker, whichever; at none if none can be reached at the moment.
pub(super) async fn at_any(cluster: &Cluster, groups: &[String], limit: Duration) -> Result<ByNode> {
    match cluster.refresh(limit).await {
        Err(error) if !error.retriable() => return Err(error),
        _ => {}
    }
    let brokers: Vec<i32> = cluster.metadata().brokers.keys().copied().collect();
    Ok(fastrand::choice(brokers).map(|node| (node, groups.to_vec())).into_iter().collect())
}

/// The groups of each coordinator, and what was said of those that have none.
async fn by_coordinator<T>(
    cluster: &Cluster,
    groups: &[String],
    limit: Duration,
) -> Result<(ByNode, Vec<(String, Said<T>)>)> {
    let mut nodes = ByNode::new();
    let mut failures = Vec::new();
    let found = match find(cluster, groups, limit).await {
        Ok(found) => found,
        // Nobody can be asked at the moment; the caller knows how long that may last.
        Err(error) if error.retriable() => {
            let text = format!("no coordinator could be asked for ({error})");
            let none = |group: &String| (group.clone(), Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, text.clone())));
            return Ok((nodes, groups.iter().map(none).collect()));
        }
        Err(error) => return Err(error),
    };
    for (group, said) in found {
        match said {
            Ok(node) => nodes.entry(node.id).or_default().push(group),
            Err(failure) => failures.push((group, Err(failure))),
        }
    }
    if nodes.keys().any(|node| !cluster.metadata().brokers.contains_key(node)) {
        match cluster.refresh(limit).await {
            Err(error) if !error.retriable() => return Err(error),
            _ => {}
        }
    }
    Ok((nodes, failures))
}

/// Asks any broker where the coordinators of `groups` are, in as few requests as its version allows.
async fn find(cluster: &Cluster, groups: &[String], limit: Duration) -> Result<HashMap<String, Said<Node>>> {
    let mut found = HashMap::new();
    let mut open = groups;
    while let Some((first, rest)) = open.split_first() {
        let build = |version| {
            let mut request = FindCoordinatorRequest { key_type: GROUP, ..Default::default() };
            if version >= MANY_KEYS {
                request.coordinator_keys = open.to_vec();
            } else {
                request.key.clone_from(first);
            }
            Ok(request)
        };
        let (version, answer) = cluster.send_any_with(limit, build).await?;
        if version < MANY_KEYS {
            let node = Node { id: answer.node_id, host: answer.host, port: answer.port };
            found.insert(first.clone(), said(first, node, answer.error_code, answer.error_message));
            open = rest;
            continue;
        }
        for c in answer.coordinators {
            let node = Node { id: c.node_id, host: c.host, port: c.port };
            let said = said(&c.key, node, c.error_code, c.error_message);
            found.insert(c.key, said);
        }
        for group in open {
            if !found.contains_key(group) {
                return Err(left_out("FindCoordinator", group));
            }
        }
        break;
    }
    Ok(found)
}

fn said(group: &str, node: Node, code: i16, message: Option<String>) -> Said<Node> {
    let context = match message.filter(|text| !text.is_empty()) {
        Some(text) => format!("coordinator of group {group} ({text})"),
        None => format!("coordinator of group {group}"),
    };
    ErrorCode::from_i16(code).ok().map(|()| node).map_err(|code| (code, context))
}

/// An answer that passes over a group.
pub(super) fn left_out(api: &str, group: &str) -> Error {
    Error::protocol("the coordinator", format!("the answer to {api} leaves out group {group}"))
}
