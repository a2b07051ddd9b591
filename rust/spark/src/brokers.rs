//! What the driver asks the brokers, and sends them.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use samsarrow_client::admin::{Admin, CommitSettings, FetchSettings, TopicListing};
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::error::{Error as ClientError, Result as ClientResult};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;

use crate::bounds::{At, Bound, EARLIEST, LATEST};
use crate::error::{Error, Result};
use crate::offsets::Offsets;
use crate::options::{ReadOptions, What};

/// One client for the questions of a driver; connects at the first of them.
#[derive(Debug)]
pub struct Brokers {
    consumer: Consumer,
    admin: Admin,
}

/// The partitions to be read as they are at one moment, and the ids of their topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
    /// Where the cluster has ids.
    pub topic_ids: BTreeMap<String, Uuid>,
}

impl Brokers {
    /// Made without I/O.
    ///
    /// # Errors
    /// An option of the client cannot be.
    pub fn new(options: &ReadOptions) -> Result<Brokers> {
        let consumer = Consumer::new(&options.client(ClientKind::Consumer, &[])?)?;
        Ok(Self::over(consumer, Admin::new(&options.client(ClientKind::Admin, &[])?)?))
    }

    /// With clients that the caller has made; the consumer is in no group.
    pub fn over(consumer: Consumer, admin: Admin) -> Brokers {
        Brokers { consumer, admin }
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.consumer.close(Duration::ZERO).await;
        self.admin.close().await;
    }

    /// The partitions to be read. Without `all_must_exist` those that are named and not there are left out.
    ///
    /// # Errors
    /// One is not there.
    pub async fn partitions(&self, options: &ReadOptions, all_must_exist: bool) -> Result<Found> {
        let missing = |option: &str, names: Vec<String>| {
            if names.is_empty() || !all_must_exist {
                return Ok(());
            }
            let text = format!("option {option} names what does not exist: {}", names.join(", "));
            Err(ClientError::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text))
        };
        let whole = |topic: &str, count: i32| (0..count).map(|p| TopicPartition::new(topic, p)).collect::<Vec<_>>();
        match &options.what {
            What::Pattern(pattern) => {
                let mut listed = self.topics(options, None).await?;
                listed.retain(|topic| !topic.internal && pattern.is_match(&topic.name));
                let counts = counts(&listed);
                let partitions = counts.iter().flat_map(|(topic, count)| whole(topic, *count)).collect();
                Ok(Found { partitions, topic_ids: ids(&listed) })
            }
            What::Topics(topics) => {
                let listed = self.topics(options, Some(topics)).await?;
                let counts = counts(&listed);
                missing("subscribe", topics.iter().filter(|t| !counts.contains_key(t.as_str())).cloned().collect())?;
                // One that is missing has no partitions; where all must exist, it was an error above.
                let count = |topic: &String| counts.get(topic.as_str()).copied().unwrap_or_default();
                let partitions = topics.iter().flat_map(|topic| whole(topic, count(topic))).collect();
                Ok(Found { partitions, topic_ids: ids(&listed) })
            }
            What::Assigned(assigned) => {
                let names: Vec<String> = assigned.keys().cloned().collect();
                let listed = self.topics(options, Some(&names)).await?;
                let counts = counts(&listed);
                let all = assigned.iter().flat_map(|(t, ps)| ps.iter().map(|p| TopicPartition::new(t.as_str(), *p)));
                let count = |tp: &TopicPartition| counts.get(&*tp.topic).copied().unwrap_or_default();
                let (partitions, gone): (Vec<_>, Vec<_>) = all.partition(|tp| tp.partition < count(tp));
                missing("assign", gone.iter().map(ToString::to_string).collect())?;
                Ok(Found { partitions, topic_ids: ids(&listed) })
            }
        }
    }

    /// The partitions to be read, and the ends of `known` partitions, which are asked for in the same moment. There are none
    /// where one of these is gone, as the answer may take as long as a client looks for it, or could not be asked for.
    ///
    /// # Errors
    /// Those of [`partitions`](Self::partitions).
    pub async fn look(&self, options: &ReadOptions, known: &Offsets) -> Result<(Found, Offsets)> {
        let asked: Vec<TopicPartition> = known.keys().cloned().collect();
        let timeout = self.consumer.default_timeout();
        let mut ends = pin!(async {
            let found =
                if asked.is_empty() { Ok(Vec::new()) } else { self.consumer.end_offsets(&asked, timeout).await };
            found.unwrap_or_else(|error| {
                tracing::debug!("asked again, as ends could not be learnt while topics were looked up: {error}");
                Vec::new()
            })
        });
        let mut partitions = pin!(self.partitions(options, options.fail_on_data_loss));
        let (found, early) = tokio::select! {
            found = &mut partitions => (found?, None),
            early = &mut ends => (partitions.await?, Some(early)),
        };
        let there: BTreeSet<&TopicPartition> = found.partitions.iter().collect();
        let early = match early {
            Some(early) => early,
            None if known.keys().all(|tp| there.contains(tp)) => ends.await,
            None => Vec::new(),
        };
        Ok((found, early.into_iter().collect()))
    }

    async fn topics(&self, options: &ReadOptions, names: Option<&[String]>) -> Result<Vec<TopicListing>> {
        ask(options, || self.admin.list_topics(names, self.admin.default_timeout())).await
    }

    /// The offset of `bound` in every partition.
    ///
    /// # Errors
    /// Given offsets do not cover exactly these partitions, or there is no record at or after a starting time.
    pub async fn resolve(
        &self,
        options: &ReadOptions,
        bound: &Bound,
        partitions: &[TopicPartition],
    ) -> Result<Offsets> {
        let resolved = self.resolved(options, bound, partitions).await?;
        match partitions.iter().find(|tp| !resolved.contains_key(tp)) {
            None => Ok(resolved),
            Some(tp) => Err(Error::Client(ClientError::server(
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                format!("the brokers returned no offset of {tp} for option {}: read again", bound.option),
            ))),
        }
    }

    async fn resolved(&self, options: &ReadOptions, bound: &Bound, partitions: &[TopicPartition]) -> Result<Offsets> {
        match &bound.at {
            At::Group => self.committed(options, partitions).await,
            At::Earliest => self.earliest(options, partitions).await,
            At::Latest => self.ends(options, partitions).await,
            At::Time(time) => {
                let times = partitions.iter().map(|tp| (tp.clone(), *time)).collect();
                self.at_times(options, bound, &times).await
            }
            At::Times(given) => {
                same(bound, given, partitions)?;
                let mut times = given.clone();
                times.retain(|_, time| *time >= 0);
                let mut result = self.at_times(options, bound, &times).await?;
                result.extend(self.symbols(options, given).await?);
                Ok(result)
            }
            At::Offsets(given) => {
                same(bound, given, partitions)?;
                let mut result = given.clone();
                result.extend(self.symbols(options, given).await?);
                Ok(result)
            }
        }
    }

    /// The offsets of partitions for which `given` has [`EARLIEST`] or [`LATEST`].
    async fn symbols(&self, options: &ReadOptions, given: &Offsets) -> Result<Offsets> {
        let at = |symbol| {
            let found = given.iter().filter(move |(_, number)| **number == symbol);
            found.map(|(tp, _)| tp.clone()).collect::<Vec<_>>()
        };
        let mut result = self.earliest(options, &at(EARLIEST)).await?;
        result.extend(self.ends(options, &at(LATEST)).await?);
        Ok(result)
    }

    async fn at_times(&self, options: &ReadOptions, bound: &Bound, times: &Offsets) -> Result<Offsets> {
        if times.is_empty() {
            return Ok(Offsets::new());
        }
        let wanted: &Vec<_> = &times.iter().map(|(tp, time)| (tp.clone(), *time)).collect();
        let timeout = self.consumer.default_timeout();
        let found = ask(options, || self.consumer.offsets_for_times(wanted, timeout)).await?;
        let mut result: Offsets = found.into_iter().filter_map(|(tp, at)| Some((tp, at?.offset))).collect();
        let missing: Vec<TopicPartition> = times.keys().filter(|tp| !result.contains_key(tp)).cloned().collect();
        // Nothing at or after the time: a batch ends at the end then; whether it may start there must be said.
        if !missing.is_empty() && bound.option.starts_with("starting") && !options.no_match_is_latest {
            let place = |tp: &TopicPartition| format!("{tp} ({} ms)", times.get(tp).copied().unwrap_or_default());
            let places = missing.iter().map(place).collect::<Vec<_>>().join(", ");
            return Err(Error::configuration(format!(
                "option {}: there is no record at or after the time in {places}; \
                 startingOffsetsByTimestampStrategy=latest starts at the end there",
                bound.option
            )));
        }
        result.extend(self.ends(options, &missing).await?);
        Ok(result)
    }

    /// The first offset of each partition that is still there.
    pub async fn earliest(&self, options: &ReadOptions, partitions: &[TopicPartition]) -> Result<Offsets> {
        if partitions.is_empty() {
            return Ok(Offsets::new());
        }
        let timeout = self.consumer.default_timeout();
        let found = ask(options, || self.consumer.beginning_offsets(partitions, timeout)).await?;
        Ok(found.into_iter().collect())
    }

    async fn ends(&self, options: &ReadOptions, partitions: &[TopicPartition]) -> Result<Offsets> {
        self.latest(options, partitions, &Offsets::new(), Offsets::new()).await
    }

    /// The end of each partition. A broker that has just become leader may give an older end than one of `known`,
    /// offsets that were read already (KIP-207): such an answer is asked for again. `ahead` has ends that were asked
    /// for before; they hold for `known` partitions.
    pub async fn latest(
        &self,
        options: &ReadOptions,
        partitions: &[TopicPartition],
        known: &Offsets,
        ahead: Offsets,
    ) -> Result<Offsets> {
        let mut found = ahead;
        found.retain(|tp, _| known.contains_key(tp));
        let mut asked: Vec<TopicPartition> = partitions.iter().filter(|tp| !found.contains_key(tp)).cloned().collect();
        for left in (0..=options.retries).rev() {
            if !asked.is_empty() {
                let (asked, timeout) = (&asked, self.consumer.default_timeout());
                found.extend(ask(options, || self.consumer.end_offsets(asked, timeout)).await?);
            }
            asked = partitions.iter().filter(|tp| found.get(tp) < known.get(tp)).cloned().collect();
            if asked.is_empty() || left == 0 {
                break;
            }
            tokio::time::sleep(options.retry_interval).await;
        }
        Ok(found)
    }

    /// The group's offsets; partitions without one start at their first record.
    async fn committed(&self, options: &ReadOptions, partitions: &[TopicPartition]) -> Result<Offsets> {
        let wanted = &[(options.group().unwrap_or_default().to_owned(), Some(partitions.to_vec()))];
        let settings = &FetchSettings::default();
        let timeout = self.admin.default_timeout();
        let groups = ask(options, || async move {
            let found = self.admin.fetch_offsets(wanted, settings, timeout).await?;
            found.into_iter().map(|(_, found)| found).collect::<ClientResult<Vec<_>>>()
        });
        let found = groups.await?.into_iter().flatten();
        let mut result: Offsets = found.filter_map(|(tp, at)| Some((tp, at?.offset))).collect();
        let rest: Vec<TopicPartition> = partitions.iter().filter(|tp| !result.contains_key(tp)).cloned().collect();
        result.extend(self.earliest(options, &rest).await?);
        Ok(result)
    }

    /// Commits offsets to the group, from outside of it.
    ///
    /// # Errors
    /// It did not work, for one partition at least.
    pub async fn commit(&self, options: &ReadOptions, offsets: &Offsets, timeout: Duration) -> Result<()> {
        let at = |offset| OffsetAndMetadata { offset, ..Default::default() };
        let sent: Vec<_> = offsets.iter().map(|(tp, offset)| (tp.clone(), at(*offset))).collect();
        let group = options.group().unwrap_or_default();
        let done = self.admin.commit_offsets(group, &sent, &CommitSettings::default(), timeout).await?;
        let mut failed = done.into_iter().filter_map(|(tp, done)| Some((tp, done.err()?)));
        let Some((tp, error)) = failed.next() else { return Ok(()) };
        let count = failed.count() + 1;
        Err(error.context(format!("{count} of {} offsets, the first of {tp}", offsets.len())).into())
    }
}

fn counts(listed: &[TopicListing]) -> BTreeMap<&str, i32> {
    listed.iter().map(|topic| (topic.name.as_str(), i32::try_from(topic.partitions).unwrap_or(i32::MAX))).collect()
}

fn ids(listed: &[TopicListing]) -> BTreeMap<String, Uuid> {
    let known = listed.iter().filter(|topic| topic.topic_id != Uuid::default());
    known.map(|topic| (topic.name.clone(), topic.topic_id)).collect()
}

/// Asks again where that may help, as often as the options say.
async fn ask<T, F>(options: &ReadOptions, question: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = ClientResult<T>>,
{
    for left in (0..options.retries).rev() {
        match question().await {
            Err(error) if error.retriable() => {
                tracing::warn!("asking the brokers failed, {} tries left: {error}", left + 1);
                tokio::time::sleep(options.retry_interval).await;
            }
            answer => return Ok(answer?),
        }
    }
    Ok(question().await?)
}

fn same(bound: &Bound, given: &Offsets, partitions: &[TopicPartition]) -> Result<()> {
    let mut read = partitions.to_vec();
    read.sort();
    if given.keys().eq(read.iter()) {
        return Ok(());
    }
    let names = |tps: &mut dyn Iterator<Item = &TopicPartition>| {
        let names: Vec<String> = tps.map(ToString::to_string).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let hint = if bound.option.contains("Timestamp") { "a time" } else { "an offset" };
    Err(Error::configuration(format!(
        "option {} must give {hint} for every partition that is read ({}): given for {}, read are {}",
        bound.option,
        bound.symbols,
        names(&mut given.keys()),
        names(&mut read.iter())
    )))
}
