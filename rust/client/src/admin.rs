//! Topics: create, delete, list. Offsets of groups and the groups themselves are below.

mod coordinators;
mod groups;
mod offsets;

pub use coordinators::Node;
pub use groups::{GroupDescription, GroupListing, MemberDescription};
pub use offsets::{CommitSettings, FetchSettings, Fetched, PerGroup, PerPartition};

use std::collections::HashMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use samsarrow_wire::messages::delete_topics::DeleteTopicState;
use samsarrow_wire::messages::metadata::MetadataRequestTopic;
use samsarrow_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest, MetadataResponse, Request, Uuid,
};

use crate::cluster::Cluster;
use crate::config::Options;
use crate::error::{Error, Result};
use crate::retry::Retry;

/// From this version on, a broker has its own numbers of partitions and replicas for new topics (KIP-464).
const CREATE_DEFAULTS: i16 = 4;
/// From this version on, topics to delete are a list of structs (KIP-516).
const DELETE_STRUCTS: i16 = 6;

/// A topic to create.
#[derive(Debug, Clone)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// −1 takes the broker's default.
    pub num_partitions: i32,
    /// −1 takes the broker's default.
    pub replication_factor: i16,
    /// Settings of the topic.
    pub configs: Vec<(String, String)>,
}

/// A topic that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicListing {
    /// Its name.
    pub name: String,
    /// Its id, zero where brokers have none.
    pub topic_id: Uuid,
    /// How many partitions it has.
    pub partitions: usize,
    /// Whether Kafka keeps it for itself.
    pub internal: bool,
}

/// What became of each topic, in the order of the request.
pub type PerTopic = Vec<(String, Result<()>)>;

/// Administers topics, groups and their offsets. Made without I/O.
#[derive(Debug, Clone)]
pub struct Admin {
    cluster: Cluster,
}

impl Admin {
    /// For the brokers that `options` start from.
    pub fn new(options: &Options) -> Result<Admin> {
        Ok(Admin { cluster: Cluster::new(options)? })
    }

    /// How long a call without a timeout of its own keeps trying.
    pub fn default_timeout(&self) -> Duration {
        self.cluster.options().default_api_timeout
    }

    /// Creates topics; each has its own outcome.
    ///
    /// # Errors
    /// When no controller can be asked within `timeout`.
    pub async fn create_topics(&self, topics: Vec<NewTopic>, timeout: Duration) -> Result<PerTopic> {
        let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
        let build = |version, timeout_ms, open: &[&String]| {
            if version < CREATE_DEFAULTS
                && let Some(topic) =
                    topics.iter().find(|topic| topic.num_partitions < 0 || topic.replication_factor < 0)
            {
                return Err(Error::UnsupportedVersion(format!(
                    "topic {}: the broker's own number of partitions and replicas (-1) needs Kafka 2.4 or later, and this \
                     broker is older (CreateTopics v{version}): give both numbers",
                    topic.name
                )));
            }
            let topics = topics.iter().filter(|topic| open.contains(&&topic.name)).map(|topic| CreatableTopic {
                name: topic.name.clone(),
                num_partitions: topic.num_partitions,
                replication_factor: topic.replication_factor,
                configs: topic
                    .configs
                    .iter()
                    .map(|(name, value)| CreatableTopicConfig {
                        name: name.clone(),
                        value: Some(value.clone()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            });
            Ok(CreateTopicsRequest { topics: topics.collect(), timeout_ms, ..Default::default() })
        };
        self.at_controller(&names, timeout, build, |response: samsarrow_wire::messages::CreateTopicsResponse| {
            response.topics.into_iter().map(|t| (t.name, t.error_code, t.error_message)).collect()
        })
        .await
    }

    /// Deletes topics; each has its own outcome.
    ///
    /// # Errors
    /// When no controller can be asked within `timeout`.
    pub async fn delete_topics(&self, names: &[String], timeout: Duration) -> Result<PerTopic> {
        let build = |version, timeout_ms, open: &[&String]| {
            let mut request = DeleteTopicsRequest { timeout_ms, ..Default::default() };
            if version >= DELETE_STRUCTS {
                let state = |name: &&String| DeleteTopicState { name: Some((*name).clone()), ..Default::default() };
                request.topics = open.iter().map(state).collect();
            } else {
                request.topic_names = open.iter().map(|name| (*name).clone()).collect();
            }
            Ok(request)
        };
        self.at_controller(names, timeout, build, |response: samsarrow_wire::messages::DeleteTopicsResponse| {
            response
                .responses
                .into_iter()
                .map(|t| (t.name.unwrap_or_default(), t.error_code, t.error_message))
                .collect()
        })
        .await
    }

    /// Asks the controller, and sorts the outcomes by topic. Topics that it refuses because it is no longer the
    /// controller, or because of a quota (KIP-599), are asked for again; the others have their outcome.
    async fn at_controller<R>(
        &self,
        names: &[String],
        timeout: Duration,
        build: impl Fn(i16, i32, &[&String]) -> Result<R>,
        outcomes: impl Fn(R::Response) -> Vec<(String, i16, Option<String>)>,
    ) -> Result<PerTopic>
    where
        R: Request,
        R::Response: Send + 'static,
    {
        let mut retry = Retry::new(self.cluster.options(), timeout);
        let mut done: HashMap<&String, Result<()>> = HashMap::new();
        let mut open: Vec<&String> = names.iter().collect();
        let mut answered = false;
        loop {
            let limit = retry.left().min(self.cluster.options().request_timeout);
            // The broker should give up before we do, or its answer would be lost.
            let timeout_ms = i32::try_from((limit * 9 / 10).as_millis()).unwrap_or(i32::MAX);
            let attempt = async {
                self.cluster.refresh(limit).await?;
                let controller = self.cluster.metadata().controller;
                self.cluster.send_with(controller, limit, |version| build(version, timeout_ms, &open)).await
            };
            let failure = match attempt.await {
                Ok((_, response)) => {
                    answered = true;
                    let answers = outcomes(response);
                    let mut failure = None;
                    open.retain(|name| match outcome::<R>(name, &answers) {
                        Err(error) if may_pass(&error) => {
                            failure = Some(error);
                            true
                        }
                        outcome => {
                            done.insert(name, outcome);
                            false
                        }
                    });
                    failure
                }
                Err(error) => Some(error),
            };
            let late = match failure {
                None => None,
                Some(failure) => match retry.again(failure, || R::KEY.name().to_owned()).await {
                    Ok(()) => continue,
                    Err(late) if !answered => return Err(late),
                    Err(late) => Some(late),
                },
            };
            let of = |name: &String| done.get(name).cloned().or_else(|| late.clone().map(Err)).unwrap_or(Ok(()));
            return Ok(names.iter().map(|name| (name.clone(), of(name))).collect());
        }
    }

    /// All topics, or those of `names` that exist, in the order of their names.
    ///
    /// # Errors
    /// When no broker can be asked within `timeout`, or one of the topics may not be looked at.
    pub async fn list_topics(&self, names: Option<&[String]>, timeout: Duration) -> Result<Vec<TopicListing>> {
        if names.is_some_and(<[String]>::is_empty) {
            return Ok(Vec::new());
        }
        let mut retry = Retry::new(self.cluster.options(), timeout);
        loop {
            let limit = retry.left().min(self.cluster.options().request_timeout);
            let build = |version| {
                let named = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
                // No list asks for all topics; version 0 said so with an empty one.
                let all = if version == 0 { Some(Vec::new()) } else { None };
                let topics = names.map_or(all, |names| Some(names.iter().map(named).collect()));
                Ok(MetadataRequest { topics, allow_auto_topic_creation: version < 4, ..Default::default() })
            };
            let listed = self.cluster.send_any_with(limit, build).await.and_then(|(_, response)| listings(response));
            match listed {
                Ok(topics) => return Ok(topics),
                Err(error) => retry.again(error, || "list of topics".to_owned()).await?,
            }
        }
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.cluster.close().await;
    }
}

/// The topics that there are; one that was asked for and is not there is left out.
fn listings(response: MetadataResponse) -> Result<Vec<TopicListing>> {
    let mut topics = Vec::with_capacity(response.topics.len());
    for topic in response.topics {
        let (name, code) = (topic.name.unwrap_or_default(), ErrorCode::from_i16(topic.error_code));
        // Without a leader yet, a topic has its partitions all the same.
        if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
            continue;
        } else if code != ErrorCode::NONE && topic.partitions.is_empty() {
            return Err(Error::server(code, format!("topic {name}")));
        }
        topics.push(TopicListing {
            name,
            topic_id: topic.topic_id,
            partitions: topic.partitions.len(),
            internal: topic.is_internal,
        });
    }
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(topics)
}

/// Whether a controller may do later what it refuses now.
fn may_pass(error: &Error) -> bool {
    let codes = [ErrorCode::NOT_CONTROLLER, ErrorCode::THROTTLING_QUOTA_EXCEEDED];
    codes.iter().any(|code| error.code() == Some(code.code()))
}

fn outcome<R: Request>(name: &str, answers: &[(String, i16, Option<String>)]) -> Result<()> {
    let api = R::KEY.name();
    let Some((_, code, message)) = answers.iter().find(|(answered, ..)| answered == name) else {
        return Err(Error::protocol("the controller", format!("the answer to {api} leaves out topic {name}")));
    };
    let context = match message.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => format!("{api} of topic {name} ({text})"),
        None => format!("{api} of topic {name}"),
    };
    ErrorCode::from_i16(*code).ok().map_err(|code| Error::server(code, context))
}
