//! The one way to ask brokers about many items: who can answer for each is found out, each broker is asked once for all of
//! its items, each item settles for itself, and what another broker or a later time may answer is asked for again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, Request};

use super::Admin;
use super::batch::{Route, Work};
use super::retry_rounds::{Asking, Round, Rounds};
use super::routing::Target;
use crate::cluster::{Cluster, PendingResponse};
use crate::error::{Error, Result};
use crate::retry::Retry;

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
        let known: BTreeSet<&K> = items.iter().collect();
        let known: Vec<&K> = known.into_iter().collect();
        let answers = Answers { found: Mutex::new(BTreeMap::new()), known: &known };
        let ask = |target, numbers, limit| -> Asking<'_> {
            Box::pin(ask_one(cluster, work, &answers, Questions { target, numbers, limit }, &build, &read))
        };
        let what = |number: usize| known.get(number).map_or_else(String::new, |item| (work.what)(item));
        let asking = Rounds {
            cluster,
            key: R::KEY,
            way: work.route.ways(&known),
            timeout: work.timeout,
            what: &what,
            ask: &ask,
        };
        let mut done = asking.run(known.len()).await?;
        let mut found = answers.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outcomes = items.iter().filter_map(|item| {
            let number = known.binary_search(&item).ok()?;
            let outcome = match done.remove(&number)? {
                Ok(()) => Ok(found.remove(&number)?),
                Err(error) => Err(error),
            };
            Some((item.clone(), outcome))
        });
        Ok(outcomes.collect())
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

/// What brokers said of items, by their numbers.
struct Answers<'a, K, T> {
    found: Mutex<BTreeMap<usize, T>>,
    /// By number.
    known: &'a [&'a K],
}

impl<K: Ord, T> Answers<'_, K, T> {
    /// Keeps what was said of the items that were asked about, and names them; what nobody asked for is no answer.
    fn keep(&self, asked: &[usize], said: Outcomes<K, T>) -> Vec<(usize, Result<()>)> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open: BTreeSet<usize> = asked.iter().copied().collect();
        let said = said.into_iter().filter_map(|(item, said)| {
            let number = self.known.binary_search(&&item).ok().filter(|number| open.remove(number))?;
            Some((number, said.map(|said| drop(found.insert(number, said)))))
        });
        said.collect()
    }
}

/// Who is asked for which items, by their numbers, and for how long.
struct Questions {
    target: Target,
    numbers: Vec<usize>,
    limit: Duration,
}

/// Asks one broker, for one thing after the other where a request cannot hold all.
async fn ask_one<K, R, T>(
    cluster: &Cluster,
    work: &Work<K>,
    answers: &Answers<'_, K, T>,
    questions: Questions,
    build: &(impl Fn(&Asked<'_, K>) -> Result<R> + Sync),
    read: &(impl Fn(&Asked<'_, K>, R::Response) -> Result<Outcomes<K, T>> + Sync),
) -> Round
where
    K: Clone + Ord + Send + Sync,
    R: Request,
    R::Response: Send + 'static,
    T: Send,
{
    let Questions { target, numbers, limit } = questions;
    let timeout_ms = i32::try_from((limit * 9 / 10).as_millis()).unwrap_or(i32::MAX);
    let (node, most) = match target {
        Target::Any => (None, Ok((work.most)(0))),
        Target::Node(node) => (Some(node), cluster.version::<R>(node, limit).await.map(work.most)),
    };
    let most = match most {
        Ok(most) => most.clamp(1, numbers.len().max(1)),
        Err(error) => return vec![(numbers, Err(error))],
    };
    let control = node.is_none().then(|| cluster.control());
    let cluster = control.as_ref().unwrap_or(cluster);
    let mut round = Vec::new();
    for numbers in numbers.chunks(most) {
        let items: Vec<K> = numbers.iter().filter_map(|number| answers.known.get(*number).copied().cloned()).collect();
        let asked = |version| Asked { version, node, items: &items, timeout_ms };
        let asked = &asked;
        let send = |node| -> PendingResponse<'_, _> {
            Box::pin(async move {
                let (version, answer) = cluster.send_with(node, limit, |version| build(&asked(version))).await?;
                Ok(read(&asked(version), answer).map(|said| answers.keep(numbers, said)))
            })
        };
        let said = match node {
            Some(node) => send(node).await,
            None => cluster.first_response(R::KEY.name(), limit.into(), &send).await,
        };
        round.push((numbers.to_vec(), said.flatten()));
    }
    round
}
